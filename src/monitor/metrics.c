/* SPDX-License-Identifier: Apache-2.0 - what a sandbox used over time: two rings of samples. */
#include "monitor/monitor.h"

#include "monitor/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * A sample every ten seconds of the last four hours, and every minute of the last day. Counters are
 * since it was handed over; a sample of a machine that is paused says the same as the one before
 * it. They are kept here because this process lives as long as what it measures.
 */

static int64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void keep(struct metrics_ring *ring, const struct wire_sample *sample)
{
	ring->samples[ring->next] = *sample;
	ring->next = (ring->next + 1) % METRICS_MOST;
	if (ring->count < METRICS_MOST)
		ring->count++;
}

static struct wire_sample measure(struct monitor *m)
{
	struct wire_mon_network_reply network = {0};
	struct monitor_usage usage;

	monitor_usage(m, &usage);
	egress_set(m, "", &network, NULL);
	return (struct wire_sample){.at_ms = wall_ms(),
		.cpu_us = usage.cpu_us,
		.memory_bytes = usage.memory_bytes,
		.in_bytes = network.bytes_in,
		.out_bytes = network.bytes_out};
}

static void sample(uv_timer_t *timer)
{
	struct monitor *m = timer->data;
	struct wire_sample now;

	if (m->state != MONITOR_RUNNING)
		return;
	now = measure(m);
	keep(&m->metrics.fine, &now);
	if (m->metrics.ticks++ % (METRICS_COARSE_MS / METRICS_FINE_MS) == 0)
		keep(&m->metrics.coarse, &now);
}

int metrics_start(struct monitor *m)
{
	m->metrics.timer.data = m;
	return uv_timer_start(&m->metrics.timer, sample, METRICS_FINE_MS, METRICS_FINE_MS);
}

void metrics_begin(struct monitor *m)
{
	struct wire_sample now = measure(m);

	m->metrics.fine.count = m->metrics.coarse.count = 0;
	m->metrics.fine.next = m->metrics.coarse.next = 0;
	m->metrics.ticks = 1;
	keep(&m->metrics.fine, &now);
	keep(&m->metrics.coarse, &now);
}

void metrics_answer(struct client *c, uint32_t stream, bool coarse)
{
	struct monitor *m = c->monitor;
	const struct metrics_ring *ring = coarse ? &m->metrics.coarse : &m->metrics.fine;
	const size_t size = (ring->count + 1) * sizeof(struct wire_sample);
	struct wire_sample *samples = malloc(size);
	uint8_t *frame = malloc(WIRE_HEADER + 64 + size);
	int n = 0;

	if (samples && frame) {
		for (size_t i = 0; i < ring->count; i++)
			samples[i] = ring->samples[(ring->next + METRICS_MOST - ring->count + i) %
						   METRICS_MOST];
		samples[ring->count] = measure(m);
		n = wire_put_mon_metrics_reply(frame, WIRE_HEADER + 64 + size, stream, 0,
			&(struct wire_mon_metrics_reply){
				.step_ms = coarse ? METRICS_COARSE_MS : METRICS_FINE_MS,
				.samples = {(const uint8_t *)samples, (uint32_t)size}});
	}
	if (n > 0)
		client_send(c, frame, (size_t)n);
	else
		stream_answer_fail(c, stream, ENOMEM, "out of memory");
	free(samples);
	free(frame);
}
