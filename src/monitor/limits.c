/* SPDX-License-Identifier: Apache-2.0 - limits that the guest cannot be trusted with. */
#include "monitor/monitor.h"

#include <errno.h>

/*
 * The agent enforces the limits of an exec inside the guest. Enforced here: CPU time by the host's
 * measure of the whole machine (when a single exec runs, that is its time, independent of the load
 * on the host), and that everything ends at all. What the agent owes, it owes within the patience
 * of the configuration: an exec's end after its wall limit, the end of what was killed, a step
 * forward of a file operation, and a sign of life from a machine that says nothing. A guest that is
 * held back by a client that does not read owes nothing meanwhile, and time that it is paused does
 * not count: so the wall limits of a machine that may be paused are kept here too, as the guest's
 * clock runs on.
 */

/* offsets in encoded payloads; the fields before them have fixed sizes (wire.h) */
#define EXEC_CPU_OFFSET  12u
#define EXEC_WALL_OFFSET 20u
#define EXIT_HOST_OFFSET 28u

#define WALL_MOST_MS (INT64_C(1) << 40)

static void store64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static int64_t patience(const struct monitor *m)
{
	return m->config->patience_ms;
}

/* to kill, to drain and to say so */
static int64_t grace(const struct monitor *m)
{
	return patience(m) / 2;
}

void limits_begin(struct monitor *m, struct stream *s, const struct wire_exec *e, uint8_t *bytes)
{
	s->alone = m->execs++ == 0;
	for (size_t i = 0; i < WIRE_STREAMS_MAX && !s->alone; i++) {
		/* from now on the host's measure is nobody's own; a limit already taken over from
		 * the agent stays here, and may come early by what the others use */
		m->streams[i].alone = false;
	}
	s->watchdog_ms = CLOCK_NEVER;
	if (e->wall_us && e->wall_us / 1000 < WALL_MOST_MS) {
		s->watchdog_ms = clock_ms() + (int64_t)(e->wall_us / 1000) + grace(m);
		if (m->config->detached) {
			s->wall_ms = s->watchdog_ms - grace(m);
			store64(bytes + WIRE_HEADER + EXEC_WALL_OFFSET, 0);
		}
	}
	if (!s->alone || !m->cgroup || jail_cgroup_cpu_us(m->cgroup, &s->cpu_start_us)) {
		s->alone = false;
		return;
	}
	s->cpu_limit_us = e->cpu_us;
	/* measured here, so not by the guest's clock, which also runs while the host does others */
	if (e->cpu_us)
		store64(bytes + WIRE_HEADER + EXEC_CPU_OFFSET, 0);
}

void limits_end(struct monitor *m, const struct stream *s, uint8_t *exit_frame)
{
	uint64_t now, used = 0;

	if (s->type != WIRE_EXEC)
		return;
	if (m->execs)
		m->execs--;
	if (s->alone && m->cgroup && jail_cgroup_cpu_us(m->cgroup, &now) == 0 &&
		now > s->cpu_start_us)
		used = now - s->cpu_start_us;
	/* also when nothing was measured: what stands there is the guest's word until now */
	if (exit_frame)
		store64(exit_frame + WIRE_HEADER + EXIT_HOST_OFFSET, used);
}

void limits_progress(struct monitor *m, struct stream *s)
{
	/* these two may be silent as long as they like */
	if (s->type != WIRE_EXEC && s->type != WIRE_WATCH && !s->killed)
		s->watchdog_ms = clock_ms() + 2 * patience(m);
}

void limits_killed(struct monitor *m, struct stream *s, uint32_t reason)
{
	int64_t by = clock_ms() + grace(m);

	s->killed = true;
	s->abandoned |= reason == WIRE_KILL_CANCEL;
	if (by < s->watchdog_ms)
		s->watchdog_ms = by;
}

/* the client has not taken what it said, or has not sent what it waits for */
static bool is_held_back(const struct stream *s)
{
	if (s->abandoned) /* then the agent drops what it has no credit for */
		return false;
	for (unsigned c = WIRE_STDOUT; c < WIRE_CHANNELS; c++) {
		if (stream_says(s, c) && !s->ended[c] && !s->credit[c])
			return true;
	}
	return s->type != WIRE_EXEC && s->input && !s->ended[WIRE_STDIN] && s->credit[WIRE_STDIN];
}

/* Ask a silent agent for a sign of life; returns when to look again. A PING that is not answered
 * trips its watchdog. */
static int64_t check_silence(struct monitor *m, int64_t now)
{
	uint8_t frame[WIRE_HEADER + 16];
	struct stream *s;
	int n;

	if (m->pinged)
		return CLOCK_NEVER;
	if (now - m->heard_ms < patience(m))
		return m->heard_ms + patience(m);
	s = stream_open(m, WIRE_PING, NULL, 0);
	if (!s)
		return now + patience(m);
	m->pinged = true;
	s->watchdog_ms = now + patience(m);
	n = wire_put_ping(frame, sizeof(frame), s->id, 0, &(struct wire_ping){0});
	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
	return s->watchdog_ms;
}

/* Returns when the limit may be reached at the earliest: a machine has one CPU. */
static int64_t check_cpu(struct monitor *m, struct stream *s, int64_t now)
{
	uint64_t cpu, used;

	if (!s->cpu_limit_us || s->killed || jail_cgroup_cpu_us(m->cgroup, &cpu))
		return CLOCK_NEVER;
	used = cpu > s->cpu_start_us ? cpu - s->cpu_start_us : 0;
	if (used < s->cpu_limit_us)
		return now + 2 + (int64_t)((s->cpu_limit_us - used) / 1000);
	stream_kill(m, s, WIRE_KILL_CPU);
	return s->watchdog_ms;
}

/* Returns when its wall limit is reached. */
static int64_t check_wall(struct monitor *m, struct stream *s, int64_t now)
{
	if (s->type != WIRE_EXEC || s->wall_ms == CLOCK_NEVER || now < s->wall_ms)
		return s->type == WIRE_EXEC ? s->wall_ms : CLOCK_NEVER;
	s->wall_ms = CLOCK_NEVER;
	if (!s->killed)
		stream_kill(m, s, WIRE_KILL_WALL);
	return s->watchdog_ms;
}

static bool is_due(struct monitor *m, struct stream *s, int64_t now)
{
	if (now < s->watchdog_ms)
		return false;
	if (!is_held_back(s))
		return true;
	s->watchdog_ms = now + grace(m);
	return false;
}

void limits_shift(struct monitor *m, int64_t ms)
{
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &m->streams[i];

		if (s->watchdog_ms < CLOCK_NEVER - ms)
			s->watchdog_ms += ms;
		if (s->wall_ms < CLOCK_NEVER - ms)
			s->wall_ms += ms;
	}
	m->heard_ms = clock_ms();
}

int64_t limits_tick(struct monitor *m)
{
	int64_t now = clock_ms(), next, at;

	/* nothing of the guest is read now, so it cannot be blamed */
	if (client_congested(m)) {
		for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
			if (m->streams[i].watchdog_ms < now + grace(m))
				m->streams[i].watchdog_ms = now + grace(m);
		}
		m->heard_ms = now;
	}
	next = check_silence(m, now);
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &m->streams[i];

		if (!s->used)
			continue;
		if (is_due(m, s, now)) {
			monitor_stop(m, SANDBOX_STOPPED_GUEST_FAULT,
				s->type == WIRE_EXEC
					? "the agent did not end a command at its time limit"
					: "the agent does not answer");
			return CLOCK_NEVER;
		}
		at = check_cpu(m, s, now);
		next = at < next ? at : next;
		at = check_wall(m, s, now);
		at = s->watchdog_ms < at ? s->watchdog_ms : at;
		next = at < next ? at : next;
	}
	return next;
}
