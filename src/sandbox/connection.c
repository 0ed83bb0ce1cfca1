/* SPDX-License-Identifier: Apache-2.0 - frames to and from a monitor: blocking for the caller,
 * never blocking on the socket. */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define IN_MOST (2 * WIRE_FRAME_MAX)

const char *sandbox_stop_reason_name(enum sandbox_stop_reason reason)
{
	static const char *const names[SANDBOX_STOP_REASONS] = {"running", "requested",
		"lease_expired", "owner_gone", "startup_failed", "guest_ended", "guest_fault",
		"monitor_lost", "paused_expired", "pause_failed", "host_stopped"};

	return (unsigned)reason < SANDBOX_STOP_REASONS ? names[reason] : "?";
}

int connection_over(struct sandbox *s, struct error *err)
{
	if (!s->over) {
		s->over = true;
		if (s->end.reason == SANDBOX_RUNNING) {
			s->end.reason = SANDBOX_STOPPED_MONITOR_LOST;
			text_copy(s->end.detail, sizeof(s->end.detail),
				"its monitor ended without a word");
		}
	}
	if (!s->ready && s->end.reason == SANDBOX_STOPPED_START_FAILED)
		return error_set(err, -ENODEV, "the sandbox did not start: %s", s->end.detail);
	return error_set(err, -ENODEV, "the sandbox is over (%s): %s",
		sandbox_stop_reason_name(s->end.reason), s->end.detail);
}

int connection_flush(struct sandbox *s, struct error *err)
{
	while (buffer_length(&s->out)) {
		ssize_t n = send(s->fd, buffer_bytes(&s->out), buffer_length(&s->out),
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0) {
			buffer_clear(&s->out);
			return 0; /* what it still said is read before it counts as over */
		}
		buffer_consume(&s->out, (size_t)n);
	}
	return 0;
}

int connection_fill(struct sandbox *s, struct error *err)
{
	uint8_t *room;
	ssize_t n;

	if (buffer_length(&s->in) >= IN_MOST)
		return 0;
	room = buffer_reserve(&s->in, WIRE_FRAME_MAX);
	if (!room)
		return error_set(err, -ENOMEM, "out of memory");
	do {
		n = recv(s->fd, room, WIRE_FRAME_MAX, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		buffer_commit(&s->in, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		return connection_over(s, err);
	return 0;
}

int connection_end(const struct wire_frame *f, struct sandbox_end *end)
{
	struct wire_mon_stopped m;

	if (f->type != WIRE_MON_STOPPED || wire_get_mon_stopped(f->payload, f->length, &m))
		return -EPROTO;
	end->reason = m.reason > SANDBOX_RUNNING && m.reason < SANDBOX_STOP_REASONS
			      ? (enum sandbox_stop_reason)m.reason
			      : SANDBOX_STOPPED_MONITOR_LOST;
	text_copy(end->detail, sizeof(end->detail), m.detail.text);
	text_copy(end->console, sizeof(end->console), m.console.text);
	end->usage = (struct sandbox_usage){
		.cpu_us = m.cpu_us, .memory_peak_bytes = m.memory_peak_bytes, .wall_us = m.wall_us};
	return 0;
}

static void take_ready(struct sandbox *s, const struct wire_frame *f)
{
	struct wire_mon_ready m;

	if (wire_get_mon_ready(f->payload, f->length, &m))
		return;
	text_copy(s->info.id, sizeof(s->info.id), m.id.text);
	text_copy(s->info.engine, sizeof(s->info.engine), m.engine.text);
	text_copy(s->info.isolation, sizeof(s->info.isolation), m.isolation.text);
	text_copy(s->info.kernel, sizeof(s->info.kernel), m.kernel.text);
	s->info.boot_us = (int64_t)m.boot_us;
	s->ready = true;
}

/*
 * The next frame from what was read: 1, 0 when there is none whole, negative at the end. It stays
 * in the buffer (and valid) until the next call, which drops it.
 */
static int next_frame(struct sandbox *s, struct wire_frame *f, size_t *drop, struct error *err)
{
	long n;

	buffer_consume(&s->in, *drop);
	*drop = 0;
	n = wire_frame_get(buffer_bytes(&s->in), buffer_length(&s->in), f, NULL);
	if (n == 0)
		return 0;
	if (n < 0 || wire_check(f)) {
		s->end.reason = SANDBOX_STOPPED_MONITOR_LOST;
		text_copy(s->end.detail, sizeof(s->end.detail), "its monitor sent nonsense");
		return connection_over(s, err);
	}
	*drop = (size_t)n;
	if (f->type == WIRE_MON_STOPPED) {
		connection_end(f, &s->end);
		return connection_over(s, err);
	}
	if (f->type == WIRE_MON_READY)
		take_ready(s, f);
	return 1;
}

static int wait_ready(struct sandbox *s, short events, int64_t deadline_ms)
{
	struct pollfd p = {s->fd, events, 0};
	int n;

	do {
		n = poll(&p, 1, clock_poll_ms(deadline_ms));
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : -ETIMEDOUT;
}

int connection_ready(struct sandbox *s, int64_t deadline_ms, struct error *err)
{
	struct wire_frame f;
	size_t drop = 0;
	int r;

	while (!s->ready) {
		r = next_frame(s, &f, &drop, err);
		if (r > 0 && f.type == WIRE_FAIL && f.stream == 0)
			return op_failure(&f, err);
		if (r > 0)
			continue;
		if (!r && wait_ready(s, POLLIN, deadline_ms))
			return error_set(err, -ETIMEDOUT, "the sandbox's monitor does not answer");
		if (!r)
			r = connection_fill(s, err);
		if (r)
			return r;
	}
	buffer_consume(&s->in, drop);
	return 0;
}

void connection_drain(struct sandbox *s, int64_t deadline_ms)
{
	struct wire_frame f;
	size_t drop = 0;
	int r;

	while (!s->over) {
		connection_flush(s, NULL);
		r = next_frame(s, &f, &drop, NULL);
		if (r > 0)
			continue;
		if (r < 0 || wait_ready(s, POLLIN, deadline_ms) || connection_fill(s, NULL))
			return;
	}
}

void op_begin(struct sandbox *s, struct operation *op)
{
	*op = (struct operation){
		.sandbox = s, .input_credit = WIRE_WINDOW, .answer_ms = ANSWER_MS(s)};
	if (++s->next_stream == 0)
		s->next_stream = 1;
	op->stream = s->next_stream;
}

/* its own watchdogs come long before: nothing it says counts any more */
int op_too_late(struct operation *op, struct error *err)
{
	struct sandbox *s = op->sandbox;

	s->end.reason = SANDBOX_STOPPED_MONITOR_LOST;
	text_copy(s->end.detail, sizeof(s->end.detail), "its monitor does not answer");
	return connection_over(s, err);
}

int op_failure(const struct wire_frame *f, struct error *err)
{
	struct buffer safe = {0};
	const char *text = NULL;
	struct wire_fail m;
	int r;

	if (wire_get_fail(f->payload, f->length, &m) || m.error == 0 || m.error > 4095)
		return error_set(err, -EPROTO, "the guest failed without a reason");
	r = -(int)m.error;
	/* these have a meaning of their own for callers: over, cancelled, given up half way */
	if (r == -ENODEV || r == -EINTR || r == -EPIPE)
		r = -EIO;
	if (text_add_safe(&safe, m.message.text, m.message.count, false) == 0)
		text = buffer_text(&safe);
	r = error_set(err, r, "%s", text ? text : strerror(-r));
	buffer_fini(&safe);
	return r;
}

/* 1: a frame of this operation, 0: none whole */
static int take(struct operation *op, struct error *err)
{
	struct sandbox *s = op->sandbox;
	struct wire_credit credit;
	size_t drop = 0;
	int r;

	/* the frame handed out before is dropped now */
	if (op->frame.payload) {
		drop = WIRE_HEADER + op->frame.length;
		op->frame.payload = NULL;
	}
	for (;;) {
		r = next_frame(s, &op->frame, &drop, err);
		if (r <= 0) {
			op->frame.payload = NULL;
			return r;
		}
		if (op->frame.stream != op->stream)
			continue; /* the late end of one that was given up */
		if (op->frame.type == WIRE_CREDIT) {
			if (wire_get_credit(op->frame.payload, op->frame.length, &credit) == 0 &&
				op->frame.channel == WIRE_STDIN)
				op->input_credit += credit.bytes;
			continue;
		}
		op->final = wire_is_final(op->frame.type);
		return 1;
	}
}

int op_poll(struct operation *op, struct error *err)
{
	int r;

	if (op->sandbox->over)
		return connection_over(op->sandbox, err);
	if (op->final)
		return error_set(err, -EPROTO, "the guest ended it in another way");
	r = take(op, err);
	if (r)
		return r;
	r = connection_fill(op->sandbox, err);
	return r ? r : take(op, err);
}

/* wait for the next bytes, or room for those that wait to be sent */
static int wait_more(struct operation *op, struct error *err)
{
	struct sandbox *s = op->sandbox;
	short events = buffer_length(&s->out) ? POLLIN | POLLOUT : POLLIN;

	return wait_ready(s, events, clock_deadline_ms(op->answer_ms)) ? op_too_late(op, err) : 0;
}

int op_next(struct operation *op, struct error *err)
{
	struct sandbox *s = op->sandbox;
	int r;

	if (s->over)
		return connection_over(s, err);
	if (op->final)
		return error_set(err, -EPROTO, "the guest ended it in another way");
	for (;;) {
		r = take(op, err);
		if (r > 0 && op->frame.type == WIRE_FAIL)
			return op_failure(&op->frame, err);
		if (r)
			return r > 0 ? 0 : r;
		r = connection_flush(s, err);
		if (r)
			return r;
		r = wait_more(op, err);
		if (!r)
			r = connection_fill(s, err);
		if (r)
			return r;
	}
}

static int wait_cancel(struct operation *op, int64_t deadline_ms, int cancel_fd, struct error *err)
{
	struct sandbox *s = op->sandbox;
	struct pollfd p[] = {
		{s->fd, (short)(buffer_length(&s->out) ? POLLIN | POLLOUT : POLLIN), 0},
		{cancel_fd, POLLIN, 0}};
	int n = poll(p, 2, clock_poll_ms(deadline_ms));

	if (n < 0 && errno != EINTR)
		return error_sys(err, errno, "poll");
	if (n == 0)
		return op_too_late(op, err);
	/* what has come is taken first */
	if (n > 0 && p[1].revents && !p[0].revents)
		return error_set(err, -EINTR, "interrupted");
	return 0;
}

int op_next_until(struct operation *op, int64_t deadline_ms, int cancel_fd, struct error *err)
{
	int r;

	for (;;) {
		r = op_poll(op, err);
		if (r > 0)
			return op->frame.type == WIRE_FAIL ? op_failure(&op->frame, err) : 0;
		if (!r)
			r = connection_flush(op->sandbox, err);
		if (!r)
			r = wait_cancel(op, deadline_ms, cancel_fd, err);
		if (r)
			return r;
	}
}

/* wait until little is left unsent, reading meanwhile so that neither side blocks the other */
static int settle(struct operation *op, struct error *err)
{
	struct sandbox *s = op->sandbox;
	int r;

	for (;;) {
		r = connection_flush(s, err);
		if (r || buffer_length(&s->out) <= WIRE_FRAME_MAX)
			return r;
		if (wait_ready(s, buffer_length(&s->in) < IN_MOST ? POLLIN | POLLOUT : POLLOUT,
			    clock_deadline_ms(op->answer_ms)))
			return op_too_late(op, err);
		r = connection_fill(s, err);
		if (r)
			return r;
	}
}

int op_send(struct operation *op, const uint8_t *frame, size_t size, struct error *err)
{
	struct sandbox *s = op->sandbox;

	if (s->over)
		return connection_over(s, err);
	if (buffer_add(&s->out, frame, size))
		return error_set(err, -ENOMEM, "out of memory");
	return settle(op, err);
}

int op_request(struct operation *op, const uint8_t *frame, int size, struct error *err)
{
	int r;

	if (size < 0)
		return error_set(err, size, "the request is too long");
	r = op_send(op, frame, (size_t)size, err);
	op->open = !r;
	return r;
}

/* header and bytes straight to the socket, the rest into the buffer */
int op_push(struct operation *op, const uint8_t *bytes, size_t count, struct error *err)
{
	struct sandbox *s = op->sandbox;
	uint8_t header[WIRE_HEADER];
	struct iovec iov[2] = {{header, WIRE_HEADER}, {(void *)(uintptr_t)bytes, count}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = 0;
	int r = 0;

	wire_header_put(header, (uint32_t)count, WIRE_DATA, WIRE_STDIN, op->stream);
	if (buffer_length(&s->out) == 0) {
		n = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		n = n < 0 ? 0 : n;
	}
	if (n < (ssize_t)WIRE_HEADER)
		r = buffer_add(&s->out, header + n, WIRE_HEADER - (size_t)n);
	n = n < (ssize_t)WIRE_HEADER ? 0 : n - (ssize_t)WIRE_HEADER;
	if (!r)
		r = buffer_add(&s->out, bytes + n, count - (size_t)n);
	if (r)
		return error_set(err, -ENOMEM, "out of memory");
	op->input_credit -= count;
	return settle(op, err);
}

int op_input(struct operation *op, const void *bytes, size_t count, struct error *err)
{
	const uint8_t *p = bytes;
	int r;

	while (count) {
		size_t n = count < WIRE_CREDIT_STEP ? count : WIRE_CREDIT_STEP;

		r = op_poll(op, err);
		if (r > 0)
			return op->final ? -EPIPE : error_set(err, -EPROTO, "unexpected answer");
		if (r < 0)
			return r;
		if (op->input_credit == 0) {
			r = connection_flush(op->sandbox, err);
			if (!r)
				r = wait_more(op, err);
			if (r)
				return r;
			continue;
		}
		n = n < op->input_credit ? n : (size_t)op->input_credit;
		r = op_push(op, p, n, err);
		if (r)
			return r;
		p += n;
		count -= n;
	}
	return 0;
}

int op_input_end(struct operation *op, struct error *err)
{
	uint8_t header[WIRE_HEADER];

	wire_header_put(header, 0, WIRE_END, WIRE_STDIN, op->stream);
	return op_send(op, header, sizeof(header), err);
}

int op_credit(struct operation *op, enum wire_channel channel, size_t bytes, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 4];
	int n = wire_put_credit(frame, sizeof(frame), op->stream, (uint16_t)channel,
		&(struct wire_credit){.bytes = (uint32_t)bytes});

	return n < 0 ? n : op_send(op, frame, (size_t)n, err);
}

int op_conclude(struct operation *op, int r, const char *path, struct error *err)
{
	struct error own = {0};

	err = err ? err : &own;
	if (r == -EPIPE && op->final)
		r = op->frame.type == WIRE_FAIL
			    ? op_failure(&op->frame, err)
			    : error_set(err, -EPROTO, "the guest ended it before its input");
	else if (!r)
		r = op_input_end(op, err);
	if (!r)
		r = op_next(op, err);
	if (!r && op->frame.type != WIRE_DONE)
		r = error_set(err, -EPROTO, "unexpected answer");
	op_cancel(op);
	if (r && r != -ENODEV)
		error_prefix(err, "%s", path);
	return r;
}

void op_cancel(struct operation *op)
{
	uint8_t frame[WIRE_HEADER + 4];
	int n = wire_put_kill(frame, sizeof(frame), op->stream, 0,
		&(struct wire_kill){.reason = WIRE_KILL_CANCEL});

	if (!op->open || op->final || op->sandbox->over)
		return;
	op->answer_ms = ANSWER_MS(op->sandbox);
	if (op_send(op, frame, (size_t)n, NULL))
		return;
	/* its output is dropped, and the agent, told by KILL, does not wait for credit */
	while (!op->final && op_next(op, NULL) == 0)
		;
}
