/* SPDX-License-Identifier: Apache-2.0 - streams: who may send what, how much, and for how long. */
#include "monitor/monitor.h"

#include <errno.h>
#include <string.h>

/*
 * The agent enforces the limits of an exec inside the guest. What it cannot be trusted with is
 * enforced here: CPU time by the host's measure of the whole machine (when a single exec runs, that
 * is its time, independent of the load on the host), and that an exec with a wall limit ends at
 * all.
 */
#define WATCHDOG_GRACE_MS 15000 /* after the wall limit, for the agent to kill and drain */
#define SILENCE_MS        30000 /* then the agent is asked whether it is there */

/* offsets in encoded payloads; the fields before them have fixed sizes (wire.h) */
#define EXEC_CPU_OFFSET  12u
#define EXIT_HOST_OFFSET 28u

static void store64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static struct stream *by_client(struct client *c, uint32_t id)
{
	struct monitor *m = c->monitor;

	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &m->streams[i];

		if (s->used && s->client == c && s->client_id == id)
			return s;
	}
	return NULL;
}

static struct stream *by_guest(struct monitor *m, uint32_t id)
{
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		if (m->streams[i].used && m->streams[i].id == id)
			return &m->streams[i];
	}
	return NULL;
}

static void answer_fail(struct client *c, uint32_t stream, uint32_t error, const char *message)
{
	uint8_t frame[WIRE_HEADER + WIRE_REASON_MAX + 64];
	int n = wire_put_fail(frame, sizeof(frame), stream, 0,
		&(struct wire_fail){.error = error, .message = wire_str(message)});

	if (n > 0)
		client_send(c, frame, (size_t)n);
}

static void send_kill(struct monitor *m, const struct stream *s, uint32_t reason)
{
	uint8_t frame[WIRE_HEADER + 16];
	int n = wire_put_kill(
		frame, sizeof(frame), s->id, 0, &(struct wire_kill){.reason = reason});

	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
}

static uint32_t fresh_id(struct monitor *m)
{
	do {
		m->next_stream++;
	} while (m->next_stream == 0 || by_guest(m, m->next_stream));
	return m->next_stream;
}

static void begin_exec(
	struct monitor *m, struct stream *s, const struct wire_exec *e, uint8_t *bytes)
{
	s->alone = m->execs == 0;
	for (size_t i = 0; i < WIRE_STREAMS_MAX && !s->alone; i++) {
		/* from now on the host's measure is nobody's own; a limit already taken over from
		 * the agent stays here, and may come early by what the others use */
		m->streams[i].alone = false;
	}
	m->execs++;
	s->watchdog_ms = CLOCK_NEVER;
	if (e->wall_us)
		s->watchdog_ms =
			clock_ms() + (int64_t)(e->wall_us / 1000 % (1u << 30)) + WATCHDOG_GRACE_MS;
	if (!s->alone || !m->cgroup || jail_cgroup_cpu_us(m->cgroup, &s->cpu_start_us)) {
		s->alone = false;
		return;
	}
	s->cpu_limit_us = e->cpu_us;
	/* measured here, so not by the guest's clock, which also runs while the host does others */
	if (e->cpu_us)
		store64(bytes + WIRE_HEADER + EXEC_CPU_OFFSET, 0);
}

static int request(struct client *c, const struct wire_frame *f, uint8_t *bytes, const char **why)
{
	struct monitor *m = c->monitor;
	struct stream *s = NULL;
	struct wire_exec e;

	if (f->stream == 0 || by_client(c, f->stream)) {
		*why = "a stream id that is in use or 0";
		return -EPROTO;
	}
	for (size_t i = 0; i < WIRE_STREAMS_MAX && !s; i++) {
		if (!m->streams[i].used)
			s = &m->streams[i];
	}
	if (!s) {
		answer_fail(c, f->stream, EBUSY, "too many operations at once on this sandbox");
		return 0;
	}
	if (m->state != MONITOR_RUNNING) {
		answer_fail(c, f->stream, ENODEV, "the sandbox is not running");
		return 0;
	}
	*s = (struct stream){.used = true,
		.id = fresh_id(m),
		.client_id = f->stream,
		.client = c,
		.type = f->type,
		.watchdog_ms = CLOCK_NEVER};
	for (size_t i = 0; i < WIRE_CHANNELS; i++)
		s->credit[i] = WIRE_WINDOW;
	if (f->type == WIRE_EXEC) {
		if (wire_get_exec(f->payload, f->length, &e))
			return -EPROTO;
		begin_exec(m, s, &e, bytes);
	}
	wire_stream_set(bytes, s->id);
	guest_send(&m->guest, bytes, WIRE_HEADER + f->length);
	monitor_schedule_tick(m);
	return 0;
}

static int for_monitor(struct client *c, const struct wire_frame *f, const char **why)
{
	struct monitor *m = c->monitor;
	struct monitor_usage usage;
	struct wire_mon_extend extend;
	uint8_t frame[WIRE_HEADER + 64];
	int n = 0;

	switch (f->type) {
	case WIRE_MON_STOP:
		monitor_stop(m, SANDBOX_STOPPED_REQUESTED, "requested");
		return 0;
	case WIRE_MON_USAGE:
		monitor_usage(m, &usage);
		n = wire_put_mon_usage_reply(frame, sizeof(frame), f->stream, 0,
			&(struct wire_mon_usage_reply){.cpu_us = usage.cpu_us,
				.memory_bytes = usage.memory_bytes,
				.memory_peak_bytes = usage.memory_peak_bytes,
				.wall_us = usage.wall_us});
		break;
	case WIRE_MON_EXTEND:
		if (wire_get_mon_extend(f->payload, f->length, &extend))
			return -EPROTO;
		if (m->state != MONITOR_RUNNING || extend.lease_ms == 0 ||
			extend.lease_ms > UINT64_C(1) << 40) {
			answer_fail(c, f->stream, EINVAL, "the lease cannot be extended so");
			return 0;
		}
		monitor_lease(m, (int64_t)extend.lease_ms);
		n = wire_put_done(frame, sizeof(frame), f->stream, 0, &(struct wire_done){0});
		break;
	default:
		*why = "a message that only a monitor sends";
		return -EPROTO;
	}
	if (n > 0)
		client_send(c, frame, (size_t)n);
	return 0;
}

int stream_from_client(
	struct client *c, const struct wire_frame *f, const uint8_t *bytes, const char **why)
{
	struct monitor *m = c->monitor;
	int direction = wire_type_direction(f->type);
	struct wire_credit credit;
	struct stream *s;

	*why = wire_type_name(f->type);
	if (direction == WIRE_TO_HOST || wire_check(f))
		return -EPROTO;
	if (direction == WIRE_TO_MONITOR)
		return for_monitor(c, f, why);
	if (wire_is_request(f->type))
		return request(c, f, (uint8_t *)(uintptr_t)bytes, why);
	if (f->stream == 0 || f->type == WIRE_SHUTDOWN || f->type == WIRE_CLOCK ||
		f->type == WIRE_ENTROPY) {
		*why = "a message that clients do not send";
		return -EPROTO;
	}
	s = by_client(c, f->stream);
	if (!s)
		return 0; /* it has just ended */
	if (f->type == WIRE_DATA || f->type == WIRE_END) {
		if (f->channel != WIRE_STDIN || s->ended[WIRE_STDIN] ||
			f->length > s->credit[WIRE_STDIN]) {
			*why = "input without credit or after its end";
			return -EPROTO;
		}
		if (f->type == WIRE_DATA)
			s->credit[WIRE_STDIN] -= f->length;
		else
			s->ended[WIRE_STDIN] = true;
	} else if (f->type == WIRE_CREDIT) {
		if (wire_get_credit(f->payload, f->length, &credit) || f->channel == WIRE_STDIN)
			return -EPROTO;
		s->credit[f->channel] += credit.bytes;
	}
	wire_stream_set((uint8_t *)(uintptr_t)bytes, s->id);
	guest_send(&m->guest, bytes, WIRE_HEADER + f->length);
	return 0;
}

static int hello(struct monitor *m, const struct wire_frame *f, const char **why)
{
	struct wire_hello h;

	*why = "a second or misplaced HELLO";
	if (f->stream != 0 || m->state != MONITOR_BOOTING)
		return -EPROTO;
	if (wire_get_hello(f->payload, f->length, &h) || h.version != WIRE_VERSION) {
		*why = "the agent speaks another version of the protocol: run sealmark setup";
		return -EPROTO;
	}
	monitor_ready(m, h.kernel.text);
	return 0;
}

static void end_stream(
	struct monitor *m, struct stream *s, const struct wire_frame *f, uint8_t *bytes)
{
	uint64_t now;

	if (s->type == WIRE_EXEC && m->execs)
		m->execs--;
	if (f->type == WIRE_EXIT && s->alone && m->cgroup &&
		jail_cgroup_cpu_us(m->cgroup, &now) == 0 && now >= s->cpu_start_us)
		store64(bytes + WIRE_HEADER + EXIT_HOST_OFFSET, now - s->cpu_start_us);
	s->used = false;
}

int stream_from_guest(
	struct monitor *m, const struct wire_frame *f, uint8_t *bytes, const char **why)
{
	struct client *client;
	uint32_t client_id;
	struct wire_credit credit;
	struct stream *s;

	*why = "a message that a guest does not send";
	m->heard_ms = clock_ms();
	if (!(wire_type_direction(f->type) & WIRE_TO_HOST))
		return -EPROTO;
	*why = "a malformed message";
	if (wire_check(f))
		return -EPROTO;
	if (f->type == WIRE_HELLO)
		return hello(m, f, why);
	s = by_guest(m, f->stream);
	*why = "a message on a stream that is not open";
	if (!s)
		return -EPROTO;
	if (f->type == WIRE_DATA || f->type == WIRE_END) {
		*why = "output without credit or after its end";
		if (f->channel == WIRE_STDIN || s->ended[f->channel] ||
			f->length > s->credit[f->channel])
			return -EPROTO;
		s->credit[f->channel] -= f->length;
		if (f->type == WIRE_END)
			s->ended[f->channel] = true;
	} else if (f->type == WIRE_CREDIT) {
		*why = "credit that cannot be";
		if (wire_get_credit(f->payload, f->length, &credit) || f->channel != WIRE_STDIN ||
			s->credit[WIRE_STDIN] + credit.bytes > 4 * (uint64_t)WIRE_WINDOW)
			return -EPROTO;
		s->credit[WIRE_STDIN] += credit.bytes;
	} else if (f->type == WIRE_EXIT || f->type == WIRE_STARTED) {
		*why = "the end of an exec on another kind of stream";
		if (s->type != WIRE_EXEC)
			return -EPROTO;
	}
	client = s->client;
	client_id = s->client_id;
	if (!client && f->type == WIRE_DATA) {
		/* nobody listens: give the credit back so that it can end */
		uint8_t frame[WIRE_HEADER + 16];
		int n = wire_put_credit(frame, sizeof(frame), s->id, f->channel,
			&(struct wire_credit){.bytes = f->length});

		s->credit[f->channel] += f->length;
		if (n > 0)
			guest_send(&m->guest, frame, (size_t)n);
	}
	if (wire_is_final(f->type))
		end_stream(m, s, f, bytes);
	if (client) {
		wire_stream_set(bytes, client_id);
		client_send(client, bytes, WIRE_HEADER + f->length);
	}
	return 0;
}

void stream_client_gone(struct client *c)
{
	struct monitor *m = c->monitor;

	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &m->streams[i];

		if (!s->used || s->client != c)
			continue;
		s->client = NULL;
		send_kill(m, s, WIRE_KILL_CANCEL);
	}
}

/* ask a silent agent for a sign of life; a PING that is not answered trips its watchdog */
static int64_t check_silence(struct monitor *m, int64_t now)
{
	uint8_t frame[WIRE_HEADER + 16];
	struct stream *s = NULL;
	int n;

	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		if (m->streams[i].used && m->streams[i].type == WIRE_PING && !m->streams[i].client)
			return CLOCK_NEVER;
		if (!m->streams[i].used)
			s = &m->streams[i];
	}
	if (m->state != MONITOR_RUNNING || !s)
		return CLOCK_NEVER;
	if (now - m->heard_ms < SILENCE_MS)
		return m->heard_ms + SILENCE_MS;
	*s = (struct stream){.used = true,
		.id = fresh_id(m),
		.type = WIRE_PING,
		.watchdog_ms = now + SILENCE_MS};
	n = wire_put_ping(frame, sizeof(frame), s->id, 0, &(struct wire_ping){0});
	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
	return s->watchdog_ms;
}

int64_t stream_tick(struct monitor *m)
{
	int64_t now = clock_ms(), next = check_silence(m, now);
	uint64_t cpu = 0;
	bool known = false;

	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &m->streams[i];
		uint64_t used;
		int64_t at;

		if (!s->used)
			continue;
		if (now >= s->watchdog_ms) {
			monitor_stop(m, SANDBOX_STOPPED_GUEST_FAULT,
				s->type == WIRE_PING
					? "the agent does not answer"
					: "the agent did not end a command at its time limit");
			return CLOCK_NEVER;
		}
		next = s->watchdog_ms < next ? s->watchdog_ms : next;
		if (!s->cpu_limit_us || s->cpu_killed)
			continue;
		if (!known)
			known = jail_cgroup_cpu_us(m->cgroup, &cpu) == 0;
		used = cpu > s->cpu_start_us ? cpu - s->cpu_start_us : 0;
		if (used >= s->cpu_limit_us) {
			s->cpu_killed = true;
			send_kill(m, s, WIRE_KILL_CPU);
			continue;
		}
		/* a machine has one CPU: it cannot be over the limit any sooner */
		at = now + 2 + (int64_t)((s->cpu_limit_us - used) / 1000);
		next = at < next ? at : next;
	}
	return next;
}
