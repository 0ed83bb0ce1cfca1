/* SPDX-License-Identifier: Apache-2.0 - watchdogs of streams: who owes what, with time as given. */
#include "../base/unit.h"

#include "monitor/egress.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <string.h>

/* --- what the streams lean on --- */

static bool congested;
static const char *stopped; /* why */
static unsigned kills;

void guest_send(struct guest *g, const uint8_t *frame, size_t size)
{
	struct wire_frame f;

	assert_int_equal(wire_frame_get(frame, size, &f, NULL), size);
	kills += f.type == WIRE_KILL;
}

void client_send(struct client *c, const uint8_t *bytes, size_t size)
{
}

bool client_congested(const struct monitor *m)
{
	return congested;
}

void monitor_stop(struct monitor *m, enum sandbox_stop_reason reason, const char *format, ...)
{
	assert_int_equal(reason, SANDBOX_STOPPED_GUEST_FAULT);
	stopped = format;
}

void monitor_schedule_tick(struct monitor *m)
{
}

void monitor_usage(struct monitor *m, struct monitor_usage *out)
{
}

void monitor_lease(struct monitor *m, int64_t lease_ms)
{
}

void monitor_ready(struct monitor *m, const struct wire_str *kernel)
{
}

bool pause_let(struct monitor *m)
{
	return true;
}

void pause_active(struct monitor *m)
{
}

int egress_from_guest(struct monitor *m, const struct wire_frame *f, const char **why)
{
	return -EPROTO;
}

int egress_set(struct monitor *m, const char *policy, struct wire_mon_network_reply *out,
	struct error *err)
{
	return -EPERM;
}

int pause_message(struct client *c, const struct wire_frame *f, const char **why)
{
	return 0;
}

int process_request(struct client *c, const struct wire_frame *f, const char **why)
{
	return -1;
}

void process_from_guest(struct monitor *m, struct stream *s, const struct wire_frame *f)
{
}

void process_client_gone(struct client *c)
{
}

/* --- the machine --- */

static const struct monitor_config config = {.patience_ms = 1000000};

static struct monitor *fresh(void)
{
	static struct monitor m;

	memset(&m, 0, sizeof(m));
	m.config = &config;
	m.state = MONITOR_RUNNING;
	m.heard_ms = clock_ms();
	congested = false;
	stopped = NULL;
	kills = 0;
	return &m;
}

static struct stream *open_one(struct monitor *m, uint16_t type)
{
	struct stream *s = stream_open(m, type, &m->clients[0], 1);

	assert_non_null(s);
	m->clients[0].monitor = m;
	limits_progress(m, s);
	return s;
}

/* its time is up */
static bool is_blamed(struct monitor *m, struct stream *s)
{
	stopped = NULL;
	s->watchdog_ms = clock_ms() - 1;
	limits_tick(m);
	return stopped;
}

static void requests_are_watched(void **state)
{
	struct monitor *m = fresh();
	struct stream *s = open_one(m, WIRE_FILE_STAT);
	int64_t now = clock_ms();

	assert_true(s->watchdog_ms > now && s->watchdog_ms <= now + 2 * config.patience_ms);
	assert_true(limits_tick(m) > now);
	assert_null(stopped);
	assert_true(is_blamed(m, s));
	/* a step forward is enough */
	s->watchdog_ms = now - 1;
	limits_progress(m, s);
	stopped = NULL;
	limits_tick(m);
	assert_null(stopped);
}

static void who_waits_for_the_client_owes_nothing(void **state)
{
	struct monitor *m = fresh();
	struct stream *s = open_one(m, WIRE_FILE_READ);

	s->credit[WIRE_STDOUT] = 0;
	assert_false(is_blamed(m, s));
	assert_true(s->watchdog_ms > clock_ms()); /* it is looked at again */
	s->credit[WIRE_STDOUT] = 1;
	assert_true(is_blamed(m, s));
	s->used = false;
	s = open_one(m, WIRE_FILE_WRITE);
	assert_false(is_blamed(m, s)); /* there may be more to write */
	s->credit[WIRE_STDIN] = 0;
	assert_true(is_blamed(m, s)); /* it has not taken what it has */
	s->credit[WIRE_STDIN] = 1;
	s->ended[WIRE_STDIN] = true;
	assert_true(is_blamed(m, s));
	congested = true; /* nobody reads what it says */
	assert_false(is_blamed(m, s));
}

static void what_was_killed_has_little_time(void **state)
{
	struct monitor *m = fresh();
	struct stream *s = open_one(m, WIRE_TAR_OUT);
	int64_t now = clock_ms();

	s->credit[WIRE_STDOUT] = 0;
	stream_client_gone(&m->clients[0]);
	assert_int_equal(kills, 1);
	assert_true(s->watchdog_ms <= now + config.patience_ms);
	limits_progress(m, s); /* what it still says wins it no time */
	assert_true(s->watchdog_ms <= now + config.patience_ms);
	assert_true(is_blamed(m, s));
}

static void commands_have_the_time_they_were_given(void **state)
{
	struct monitor *m = fresh();
	struct stream *s = open_one(m, WIRE_EXEC);
	struct wire_exec e = {0};
	uint8_t bytes[128];
	int64_t now = clock_ms();

	limits_begin(m, s, &e, bytes);
	assert_true(s->watchdog_ms == CLOCK_NEVER);
	s->used = false;
	s = open_one(m, WIRE_EXEC);
	e.wall_us = 5000000;
	limits_begin(m, s, &e, bytes);
	assert_true(s->watchdog_ms >= now + 5000);
	assert_true(s->watchdog_ms <= clock_ms() + 5000 + config.patience_ms);
	limits_progress(m, s); /* output does not make it longer */
	assert_true(s->watchdog_ms <= clock_ms() + 5000 + config.patience_ms);
	s->credit[WIRE_STDERR] = 0;
	assert_false(is_blamed(m, s));
	s->ended[WIRE_STDERR] = true;
	assert_true(is_blamed(m, s));
	/* more than there is time */
	s->used = false;
	s = open_one(m, WIRE_EXEC);
	e.wall_us = UINT64_MAX;
	limits_begin(m, s, &e, bytes);
	assert_true(s->watchdog_ms == CLOCK_NEVER);
}

static void silence_is_asked_about_once(void **state)
{
	struct monitor *m = fresh();
	struct stream *ping = NULL;
	uint8_t frame[64];
	struct wire_frame f;
	const char *why;
	int n;

	m->heard_ms = clock_ms() - config.patience_ms - 1;
	limits_tick(m);
	limits_tick(m);
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		if (m->streams[i].used) {
			assert_null(ping);
			ping = &m->streams[i];
		}
	}
	assert_non_null(ping);
	assert_int_equal(ping->type, WIRE_PING);
	n = wire_put_pong(frame, sizeof(frame), ping->id, 0, &(struct wire_pong){0});
	assert_int_equal(wire_frame_get(frame, (size_t)n, &f, NULL), n);
	assert_int_equal(stream_from_guest(m, &f, frame, &why), 0);
	assert_false(ping->used);
	assert_false(m->pinged);
	limits_tick(m);
	assert_false(ping->used); /* it has just been heard */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_watched),
		cmocka_unit_test(who_waits_for_the_client_owes_nothing),
		cmocka_unit_test(what_was_killed_has_little_time),
		cmocka_unit_test(commands_have_the_time_they_were_given),
		cmocka_unit_test(silence_is_asked_about_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
