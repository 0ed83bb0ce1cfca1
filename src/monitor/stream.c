/* SPDX-License-Identifier: Apache-2.0 - streams: who may send what, how much, and for how long. */
#include "monitor/egress.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <string.h>

#define CHANNEL(c) (1u << (c))
#define OUTPUT     CHANNEL(WIRE_STDOUT)

/* What may be said on the stream of a request, beside FAIL. */
struct stream_shape {
	uint16_t type;
	uint16_t final;   /* how the guest ends it */
	bool input;       /* DATA to the guest */
	bool entries;     /* ENTRY from it */
	unsigned outputs; /* channels with DATA from it */
};

static const struct stream_shape shapes[] = {
	{WIRE_EXEC, WIRE_EXIT, true, false, OUTPUT | CHANNEL(WIRE_STDERR) | CHANNEL(WIRE_REPORT)},
	{WIRE_FILE_WRITE, WIRE_DONE, true, false, 0}, {WIRE_TAR_IN, WIRE_DONE, true, false, 0},
	{WIRE_FILE_READ, WIRE_DONE, false, false, OUTPUT},
	{WIRE_TAR_OUT, WIRE_DONE, false, false, OUTPUT},
	{WIRE_WATCH, WIRE_DONE, false, false, OUTPUT}, {WIRE_FILE_LIST, WIRE_DONE, false, true, 0},
	{WIRE_FILE_STAT, WIRE_DONE, false, true, 0},
	{WIRE_STATS, WIRE_STATS_REPLY, false, false, 0}, {WIRE_PING, WIRE_PONG, false, false, 0},
	{0, WIRE_DONE, false, false, 0}, /* the others */
};

static const struct stream_shape *find_shape(uint16_t type)
{
	const struct stream_shape *s = shapes;

	while (s->type && s->type != type)
		s++;
	return s;
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

void stream_answer_fail(struct client *c, uint32_t stream, uint32_t error, const char *message)
{
	uint8_t frame[WIRE_HEADER + WIRE_REASON_MAX + 64];
	int n = wire_put_fail(frame, sizeof(frame), stream, 0,
		&(struct wire_fail){.error = error, .message = wire_str(message)});

	if (n > 0)
		client_send(c, frame, (size_t)n);
}

bool stream_any(const struct monitor *m)
{
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		const struct stream *s = &m->streams[i];

		/* a watch waits only, as long as nothing else is done */
		if (s->used && (s->client || (s->type != WIRE_PING && s->type != WIRE_WATCH)))
			return true;
	}
	return false;
}

bool stream_says(const struct stream *s, unsigned channel)
{
	return s->shape->outputs & CHANNEL(channel);
}

void stream_kill(struct monitor *m, struct stream *s, uint32_t reason)
{
	uint8_t frame[WIRE_HEADER + 16];
	int n = wire_put_kill(
		frame, sizeof(frame), s->id, 0, &(struct wire_kill){.reason = reason});

	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
	limits_killed(m, s, reason);
}

static uint32_t fresh_id(struct monitor *m)
{
	do {
		m->next_stream++;
	} while (m->next_stream == 0 || by_guest(m, m->next_stream));
	return m->next_stream;
}

struct stream *stream_open(struct monitor *m, uint16_t type, struct client *c, uint32_t client_id)
{
	/* the last place is for the monitor's own PING */
	size_t places = c || type != WIRE_PING ? WIRE_STREAMS_MAX - 1 : WIRE_STREAMS_MAX;

	for (size_t i = 0; i < places; i++) {
		struct stream *s = &m->streams[i];

		if (s->used)
			continue;
		*s = (struct stream){.used = true,
			.id = fresh_id(m),
			.client_id = client_id,
			.client = c,
			.type = type,
			.shape = find_shape(type),
			.watchdog_ms = CLOCK_NEVER,
			.wall_ms = CLOCK_NEVER};
		s->input = s->shape->input;
		for (size_t channel = 0; channel < WIRE_CHANNELS; channel++)
			s->credit[channel] = WIRE_WINDOW;
		return s;
	}
	return NULL;
}

static int request(struct client *c, const struct wire_frame *f, uint8_t *bytes, const char **why)
{
	struct monitor *m = c->monitor;
	struct wire_exec e;
	struct stream *s;

	if (f->stream == 0 || f->channel || by_client(c, f->stream)) {
		*why = "a stream id that is in use or 0";
		return -EPROTO;
	}
	if (m->state >= MONITOR_STOPPING)
		return 0; /* MON_STOPPED is the answer */
	if (m->state == MONITOR_BOOTING) {
		stream_answer_fail(c, f->stream, EAGAIN, "the sandbox is still starting");
		return 0;
	}
	if (!pause_let(m)) {
		stream_answer_fail(c, f->stream, ESHUTDOWN, "the sandbox is paused");
		return 0;
	}
	s = stream_open(m, f->type, c, f->stream);
	if (!s) {
		stream_answer_fail(
			c, f->stream, EBUSY, "too many operations at once on this sandbox");
		return 0;
	}
	if (f->type == WIRE_EXEC && wire_get_exec(f->payload, f->length, &e) == 0) {
		s->input = e.flags & WIRE_EXEC_STDIN;
		limits_begin(m, s, &e, bytes);
	}
	limits_progress(m, s);
	wire_stream_set(bytes, s->id);
	guest_send(&m->guest, bytes, WIRE_HEADER + f->length);
	monitor_schedule_tick(m);
	return 0;
}

/* Change or ask for the network: the frame that answers, or 0 when that was done here. */
static int network(struct client *c, const struct wire_frame *f, uint8_t *frame, size_t size)
{
	struct wire_mon_network_reply reply;
	struct wire_mon_network asked;
	struct error err = {0};
	int r;

	if (wire_get_mon_network(f->payload, f->length, &asked))
		return 0;
	r = egress_set(c->monitor, asked.policy.text, &reply, &err);
	if (!r)
		return wire_put_mon_network_reply(frame, size, f->stream, 0, &reply);
	stream_answer_fail(c, f->stream, (uint32_t)-r, error_message(&err));
	return 0;
}

static int for_monitor(struct client *c, const struct wire_frame *f, const char **why)
{
	struct monitor *m = c->monitor;
	struct monitor_usage usage;
	struct wire_mon_extend extend;
	uint8_t frame[WIRE_HEADER + 128];
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
		if (m->state != MONITOR_RUNNING || m->pausing.state || extend.lease_ms == 0 ||
			extend.lease_ms > UINT64_C(1) << 40) {
			stream_answer_fail(c, f->stream, EINVAL, "the lease cannot be extended so");
			return 0;
		}
		monitor_lease(m, (int64_t)extend.lease_ms);
		n = wire_put_done(frame, sizeof(frame), f->stream, 0, &(struct wire_done){0});
		break;
	case WIRE_MON_RULES:
	case WIRE_MON_PAUSE:
	case WIRE_MON_WAKE:
	case WIRE_MON_STATE:
	case WIRE_MON_METRICS:
		return pause_message(c, f, why);
	case WIRE_MON_NETWORK:
		n = network(c, f, frame, sizeof(frame));
		break;
	default:
		return process_request(c, f, why);
	}
	if (n > 0)
		client_send(c, frame, (size_t)n);
	return 0;
}

/*
 * A frame of a client on a stream that is open. The agent ends the connection when it is spoken to
 * against the rules, so that a client's fault must not reach it.
 */
static int client_says(struct stream *s, const struct wire_frame *f, const char **why)
{
	struct wire_credit credit;
	struct wire_signal signal;

	switch (f->type) {
	case WIRE_DATA:
	case WIRE_END:
		*why = "input without credit, after its end or where none is taken";
		if (f->channel != WIRE_STDIN || !s->input || s->ended[WIRE_STDIN] ||
			f->length > s->credit[WIRE_STDIN])
			return -EPROTO;
		s->credit[WIRE_STDIN] -= f->length;
		s->ended[WIRE_STDIN] = f->type == WIRE_END;
		return 0;
	case WIRE_CREDIT:
		*why = "credit beyond the window, or for what is not sent";
		if (wire_get_credit(f->payload, f->length, &credit) ||
			!stream_says(s, f->channel) ||
			s->credit[f->channel] + credit.bytes > WIRE_WINDOW)
			return -EPROTO;
		s->credit[f->channel] += credit.bytes;
		return 0;
	case WIRE_SIGNAL:
		*why = "a signal that does not exist, or not for a command";
		if (wire_get_signal(f->payload, f->length, &signal) || s->type != WIRE_EXEC ||
			signal.signal < 1 || signal.signal > 64)
			return -EPROTO;
		return 0;
	case WIRE_RESIZE:
		*why = "the size of what is no command";
		return s->type == WIRE_EXEC ? 0 : -EPROTO;
	case WIRE_KILL:
		return 0;
	default:
		*why = "a message that clients do not send";
		return -EPROTO;
	}
}

int stream_from_client(
	struct client *c, const struct wire_frame *f, const uint8_t *bytes, const char **why)
{
	struct monitor *m = c->monitor;
	int direction = wire_type_direction(f->type);
	struct wire_kill kill;
	struct stream *s;

	*why = wire_type_name(f->type);
	if (direction == WIRE_TO_HOST || wire_check(f))
		return -EPROTO;
	if (direction == WIRE_TO_MONITOR)
		return for_monitor(c, f, why);
	if (wire_is_request(f->type))
		return request(c, f, (uint8_t *)(uintptr_t)bytes, why);
	if (f->stream == 0) {
		*why = "a message that clients do not send";
		return -EPROTO;
	}
	s = by_client(c, f->stream);
	if (!s)
		return 0; /* it has just ended */
	if (client_says(s, f, why))
		return -EPROTO;
	limits_progress(m, s);
	if (f->type == WIRE_KILL && wire_get_kill(f->payload, f->length, &kill) == 0)
		limits_killed(m, s, kill.reason);
	wire_stream_set((uint8_t *)(uintptr_t)bytes, s->id);
	guest_send(&m->guest, bytes, WIRE_HEADER + f->length);
	if (f->type == WIRE_KILL)
		monitor_schedule_tick(m);
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
	monitor_ready(m, &h.kernel);
	return 0;
}

static int guest_says(struct stream *s, const struct wire_frame *f, const char **why)
{
	struct wire_credit credit;

	switch (f->type) {
	case WIRE_DATA:
	case WIRE_END:
		*why = "output without credit, after its end or where none is due";
		if (!stream_says(s, f->channel) || s->ended[f->channel] ||
			f->length > s->credit[f->channel] || (f->type == WIRE_DATA && !f->length))
			return -EPROTO;
		s->credit[f->channel] -= f->length;
		s->ended[f->channel] = f->type == WIRE_END;
		return 0;
	case WIRE_CREDIT:
		*why = "credit that cannot be";
		if (wire_get_credit(f->payload, f->length, &credit) || f->channel != WIRE_STDIN ||
			!s->input || s->credit[WIRE_STDIN] + credit.bytes > WIRE_WINDOW)
			return -EPROTO;
		s->credit[WIRE_STDIN] += credit.bytes;
		return 0;
	case WIRE_STARTED:
		*why = "the start of what is no command, or has started";
		if ((s->type != WIRE_EXEC && s->type != WIRE_WATCH) || s->started)
			return -EPROTO;
		s->started = true;
		return 0;
	case WIRE_ENTRY:
		*why = "an entry of what is no directory";
		return s->shape->entries ? 0 : -EPROTO;
	case WIRE_FAIL:
		return 0;
	default:
		*why = "the end of another kind of operation";
		if (f->type != s->shape->final)
			return -EPROTO;
		*why = "the end of an operation before its input has ended";
		return f->type == WIRE_DONE && s->input && !s->ended[WIRE_STDIN] ? -EPROTO : 0;
	}
}

int stream_from_guest(
	struct monitor *m, const struct wire_frame *f, uint8_t *bytes, const char **why)
{
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
	if (wire_is_network(f->type))
		return egress_from_guest(m, f, why);
	s = by_guest(m, f->stream);
	*why = "a message on a stream that is not open";
	if (!s || guest_says(s, f, why))
		return -EPROTO;
	limits_progress(m, s);
	if (s->process)
		process_from_guest(m, s, f);
	if (wire_is_final(f->type)) {
		limits_end(m, s, f->type == WIRE_EXIT ? bytes : NULL);
		if (s->type == WIRE_PING && !s->client && !s->killed)
			m->pinged = false;
		else
			pause_active(m);
		s->used = false;
	}
	/* without a client the bytes are dropped, and the agent, told by KILL, does not wait for
	 * credit */
	wire_stream_set(bytes, s->client_id);
	if (s->client)
		client_send(s->client, bytes, WIRE_HEADER + f->length);
	return 0;
}

void stream_client_gone(struct client *c)
{
	struct monitor *m = c->monitor;

	process_client_gone(c);
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &m->streams[i];

		if (!s->used || s->client != c)
			continue;
		s->client = NULL;
		stream_kill(m, s, WIRE_KILL_CANCEL);
	}
	monitor_schedule_tick(m);
}
