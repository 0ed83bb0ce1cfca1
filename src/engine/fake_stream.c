/* SPDX-License-Identifier: Apache-2.0 - streams of engine fake: credit, input, the steps of an
 * exec. */
#include "engine/fake_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define PIECE 65536u

static struct fake_stream *find(struct fake_guest *g, uint32_t id)
{
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++)
		if (g->streams[i].used && g->streams[i].id == id)
			return &g->streams[i];
	return NULL;
}

void fake_stream_free(struct fake_stream *s)
{
	buffer_fini(&s->input);
	buffer_fini(&s->body);
	*s = (struct fake_stream){0};
}

void fake_stream_done(struct fake_guest *g, struct fake_stream *s)
{
	size_t size;
	uint8_t *out = fake_frame(g, 0, &size);

	fake_commit(g, wire_put_done(out, size, s->id, 0, &(struct wire_done){0}));
	fake_stream_free(s);
}

void fake_stream_fail(struct fake_guest *g, struct fake_stream *s, int error, const char *what)
{
	struct wire_fail m = {
		.error = (uint32_t)(error < 0 ? -error : error), .message = wire_str(what)};
	size_t size;
	uint8_t *out;

	if (m.message.count > WIRE_REASON_MAX)
		m.message = wire_str("a message that is too long");
	out = fake_frame(g, 64 + WIRE_REASON_MAX, &size);
	fake_commit(g, wire_put_fail(out, size, s->id, 0, &m));
	fake_stream_free(s);
}

static void end_exec(
	struct fake_guest *g, struct fake_stream *s, enum wire_ending reason, uint32_t status)
{
	uint64_t wall_us = (uint64_t)(clock_us() - s->started_us);
	struct wire_exit m = {
		.reason = reason,
		.status = status,
		.flags = s->exit_flags,
		.wall_us = wall_us,
		.cpu_us = s->cpu_us,
		.memory_peak_bytes = s->memory_bytes,
		.stdout_bytes = s->seen[WIRE_STDOUT],
		.stderr_bytes = s->seen[WIRE_STDERR],
	};
	size_t size;
	uint8_t *out = fake_frame(g, 128, &size);

	fake_commit(g, wire_put_exit(out, size, s->id, 0, &m));
	fake_stream_free(s);
}

/* Give the host credit for `count` bytes that were taken. */
static void consumed(struct fake_guest *g, struct fake_stream *s, size_t count)
{
	struct wire_credit m;
	uint8_t *out;
	size_t size;

	s->consumed += count;
	if (s->consumed < WIRE_CREDIT_STEP || s->input_ended)
		return;
	m.bytes = (uint32_t)s->consumed;
	s->window += s->consumed;
	s->consumed = 0;
	out = fake_frame(g, 16, &size);
	fake_commit(g, wire_put_credit(out, size, s->id, WIRE_STDIN, &m));
}

static int take_data(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	if (f->channel != WIRE_STDIN || s->input_ended || f->length > s->window)
		return -EPROTO;
	s->window -= f->length;
	if (s->type == WIRE_EXEC && !(s->exec_flags & WIRE_EXEC_STDIN))
		return -EPROTO;
	if (s->type != WIRE_EXEC) {
		uint64_t total = buffer_length(&s->input) + (uint64_t)f->length;

		if (s->limit_bytes && total > s->limit_bytes) {
			fake_stream_fail(g, s, EFBIG, "more than the limit");
			return 0;
		}
		consumed(g, s, f->length);
	}
	return buffer_add(&s->input, f->payload, f->length) ? -EPROTO : 0;
}

static void take_kill(struct fake_guest *g, struct fake_stream *s, uint32_t reason)
{
	if (s->type != WIRE_EXEC)
		fake_stream_fail(g, s, ECANCELED, "killed");
	else if (reason == WIRE_KILL_CPU)
		end_exec(g, s, WIRE_END_CPU_LIMIT, SIGKILL);
	else if (reason == WIRE_KILL_WALL)
		end_exec(g, s, WIRE_END_WALL_LIMIT, SIGKILL);
	else
		end_exec(g, s, WIRE_END_KILLED, reason);
}

int fake_stream_frame(struct fake_guest *g, const struct wire_frame *f)
{
	struct fake_stream *s = find(g, f->stream);
	struct wire_credit credit;
	struct wire_signal sig;
	struct wire_kill kill;

	if (f->stream == 0)
		return f->type == WIRE_CLOCK || f->type == WIRE_ENTROPY || f->type == WIRE_NET_SET
			       ? 0
			       : -EPROTO;
	if (!s)
		return 0; /* it has just ended */
	switch (f->type) {
	case WIRE_DATA:
		return take_data(g, s, f);
	case WIRE_END:
		if (f->channel != WIRE_STDIN || s->input_ended)
			return -EPROTO;
		s->input_ended = true;
		if (s->type != WIRE_EXEC)
			fake_request_complete(g, s);
		return 0;
	case WIRE_CREDIT:
		if (f->channel == WIRE_STDIN || wire_get_credit(f->payload, f->length, &credit))
			return -EPROTO;
		s->credit[f->channel] += credit.bytes;
		return 0;
	case WIRE_SIGNAL:
		if (s->type != WIRE_EXEC || wire_get_signal(f->payload, f->length, &sig))
			return -EPROTO;
		if (sig.signal)
			end_exec(g, s, WIRE_END_SIGNALED, sig.signal);
		return 0;
	case WIRE_KILL:
		if (wire_get_kill(f->payload, f->length, &kill))
			return -EPROTO;
		take_kill(g, s, kill.reason);
		return 0;
	default:
		return -EPROTO;
	}
}

/* --- sending --- */

/* One piece on a channel within credit; how many bytes went. NULL bytes: 'x'. */
static size_t send_piece(struct fake_guest *g, struct fake_stream *s, enum wire_channel channel,
	const void *bytes, uint64_t count)
{
	size_t n = count < PIECE ? (size_t)count : PIECE, size;
	uint8_t *out;

	if (n > s->credit[channel])
		n = s->credit[channel];
	if (!n)
		return 0;
	out = fake_frame(g, n, &size);
	wire_header_put(out, (uint32_t)n, WIRE_DATA, (uint16_t)channel, s->id);
	if (bytes)
		memcpy(out + WIRE_HEADER, bytes, n);
	else
		memset(out + WIRE_HEADER, 'x', n);
	fake_commit(g, (int)size);
	s->credit[channel] -= (uint32_t)n;
	return n;
}

static uint32_t cut_flag(enum wire_channel channel)
{
	return channel == WIRE_STDOUT   ? WIRE_EXIT_STDOUT_CUT
	       : channel == WIRE_STDERR ? WIRE_EXIT_STDERR_CUT
					: WIRE_EXIT_REPORT_CUT;
}

/*
 * What an exec says, within its output limit: bytes beyond it are dropped and counted. Returns the
 * bytes it got rid of; 0: there is no credit.
 */
static size_t say(struct fake_guest *g, struct fake_stream *s, enum wire_channel channel,
	const void *bytes, uint64_t count)
{
	uint64_t limit = s->output_bytes ? s->output_bytes : UINT64_MAX, left;
	size_t n;

	if (channel == WIRE_REPORT && limit != UINT64_MAX)
		limit = limit > (1u << 20) ? limit * 4 : 4u << 20;
	left = s->seen[channel] < limit ? limit - s->seen[channel] : 0;
	if (!left) {
		s->exit_flags |= cut_flag(channel);
		n = count < PIECE ? (size_t)count : PIECE;
	} else {
		n = send_piece(g, s, channel, bytes, count < left ? count : left);
	}
	s->seen[channel] += n;
	return n;
}

static bool is_killed_for_output(const struct fake_stream *s)
{
	return (s->exec_flags & WIRE_EXEC_OUTPUT_KILL) &&
	       (s->exit_flags & (WIRE_EXIT_STDOUT_CUT | WIRE_EXIT_STDERR_CUT));
}

/* --- the steps; true: the step is over --- */

static bool step_echo(struct fake_guest *g, struct fake_stream *s)
{
	size_t n = 1;

	while (n && buffer_length(&s->input)) {
		n = say(g, s, WIRE_STDOUT, buffer_bytes(&s->input), buffer_length(&s->input));
		buffer_consume(&s->input, n);
		consumed(g, s, n);
	}
	if (!(s->exec_flags & WIRE_EXEC_STDIN))
		return true;
	return s->input_ended && !buffer_length(&s->input);
}

static bool step_delay(struct fake_stream *s, uint64_t ms)
{
	if (!s->done) {
		s->done = 1;
		s->wait_until_ms = clock_deadline_ms((int64_t)ms);
	}
	if (clock_ms() < s->wait_until_ms)
		return false;
	s->wait_until_ms = CLOCK_NEVER;
	return true;
}

static bool step_say(
	struct fake_guest *g, struct fake_stream *s, const struct fake_step *step, uint64_t count)
{
	while (s->done < count && !is_killed_for_output(s)) {
		const char *from = step->text ? step->text + s->done : NULL;
		size_t n = say(g, s, step->channel, from, count - s->done);

		if (!n)
			return false;
		s->done += n;
	}
	return true;
}

static bool run_step(struct fake_guest *g, struct fake_stream *s, const struct fake_step *step)
{
	switch (step->kind) {
	case FAKE_STEP_OUTPUT:
		if (step->channel == WIRE_REPORT && !(s->exec_flags & WIRE_EXEC_REPORT))
			return true; /* a closed descriptor */
		return step_say(g, s, step, step->count);
	case FAKE_STEP_FLOOD:
		return step_say(g, s, step, step->number);
	case FAKE_STEP_ECHO:
		return step_echo(g, s);
	case FAKE_STEP_DELAY:
		return step_delay(s, step->number);
	case FAKE_STEP_CPU:
		s->cpu_us = step->number * 1000;
		return true;
	case FAKE_STEP_MEMORY:
		s->memory_bytes = step->number;
		return true;
	case FAKE_STEP_HANG:
		return false;
	case FAKE_STEP_END:
		break;
	}
	return true;
}

static void pump_exec(struct fake_guest *g, struct fake_stream *s)
{
	if (clock_ms() >= s->deadline_ms) {
		end_exec(g, s, WIRE_END_WALL_LIMIT, SIGKILL);
		return;
	}
	if (!s->begun) {
		if (clock_ms() < s->wait_until_ms)
			return;
		s->begun = true;
		s->wait_until_ms = CLOCK_NEVER;
	}
	while (s->rule && s->step < s->rule->step_count) {
		const struct fake_step *step = &s->rule->steps[s->step];
		bool over;

		if (step->kind == FAKE_STEP_END) {
			end_exec(g, s, step->reason,
				step->reason == WIRE_END_EXITED || step->reason == WIRE_END_SIGNALED
					? (uint32_t)step->number
					: SIGKILL);
			return;
		}
		over = run_step(g, s, step);
		if (is_killed_for_output(s)) {
			end_exec(g, s, WIRE_END_OUTPUT_LIMIT, SIGKILL);
			return;
		}
		if (!over)
			return;
		s->step++;
		s->done = 0;
	}
	end_exec(g, s, WIRE_END_EXITED, 0);
}

void fake_stream_pump(struct fake_guest *g, struct fake_stream *s)
{
	size_t n;

	if (s->type == WIRE_EXEC) {
		pump_exec(g, s);
		return;
	}
	if (s->type != WIRE_FILE_READ && s->type != WIRE_TAR_OUT)
		return;
	while (buffer_length(&s->body)) {
		n = send_piece(g, s, WIRE_STDOUT, buffer_bytes(&s->body), buffer_length(&s->body));
		if (!n)
			return;
		buffer_consume(&s->body, n);
	}
	fake_stream_done(g, s);
}

int64_t fake_stream_due_ms(const struct fake_stream *s)
{
	if (s->type != WIRE_EXEC)
		return CLOCK_NEVER;
	return s->wait_until_ms < s->deadline_ms ? s->wait_until_ms : s->deadline_ms;
}
