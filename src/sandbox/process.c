/* SPDX-License-Identifier: Apache-2.0 - processes that the monitor looks after: spawn, read, write.
 */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define OUTPUT_MOST (256u << 10)
#define LIST_MOST   4096u

void sandbox_process_fini(struct sandbox_process *p)
{
	if (!p)
		return;
	free(p->about);
	*p = (struct sandbox_process){0};
}

void sandbox_processes_free(struct sandbox_process *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sandbox_process_fini(&list[i]);
	free(list);
}

/* one MON_PROCESS */
static int take_process(const struct wire_frame *f, struct sandbox_process *out, struct error *err)
{
	struct wire_mon_process m;

	if (f->type != WIRE_MON_PROCESS || wire_get_mon_process(f->payload, f->length, &m) ||
		m.state >= WIRE_PROCESS_STATES || m.reason >= WIRE_END_COUNT ||
		m.id.count >= sizeof(out->id))
		return error_set(err, -EPROTO, "the monitor answered something else");
	*out = (struct sandbox_process){.state = (enum wire_process_state)m.state,
		.pid = m.pid,
		.reason = (enum wire_ending)m.reason,
		.status = m.status,
		.flags = m.flags,
		.wall_us = m.wall_us,
		.started_ms = m.started_ms,
		.ended_ms = m.ended_ms,
		.output_first = m.output_first,
		.output_end = m.output_end,
		.input_bytes = m.input_bytes,
		.input_open = m.input_open != 0,
		.cols = m.cols,
		.rows = m.rows};
	text_copy(out->id, sizeof(out->id), m.id.text);
	out->about = strdup(m.about.text);
	return out->about ? 0 : error_set(err, -ENOMEM, "out of memory");
}

int process_take_answer(struct operation *op, struct sandbox_process *out, struct error *err)
{
	int r = op_next(op, err);

	if (!r)
		r = take_process(&op->frame, out, err);
	if (!r)
		r = op_next(op, err);
	if (!r && op->frame.type != WIRE_DONE)
		r = error_set(err, -EPROTO, "the monitor answered something else");
	if (r)
		sandbox_process_fini(out);
	return r;
}

/* The payload of the EXEC travels in the MON_SPAWN. */
int sandbox_spawn(struct sandbox *s, const struct spawn_spec *spec, struct sandbox_process *out,
	struct error *err)
{
	cleanup_free uint8_t *exec = malloc(WIRE_FRAME_MAX);
	cleanup_free uint8_t *frame = malloc(WIRE_FRAME_MAX);
	struct operation op;
	int n;

	*out = (struct sandbox_process){0};
	if (!exec || !frame)
		return error_set(err, -ENOMEM, "out of memory");
	op_begin(s, &op);
	n = exec_encode(spec->exec, op.stream, spec->input, exec, WIRE_FRAME_MAX, err);
	if (n < 0)
		return n;
	n = wire_put_mon_spawn(frame, WIRE_FRAME_MAX, op.stream, 0,
		&(struct wire_mon_spawn){.id = wire_str(spec->id),
			.flags = spec->hold ? WIRE_SPAWN_HOLD : 0,
			.about = wire_str(spec->about),
			.exec = {exec + WIRE_HEADER, (uint32_t)n - WIRE_HEADER}});
	if (n < 0)
		return error_set(err, -E2BIG, "the arguments and environment are too long");
	n = op_send(&op, frame, (size_t)n, err);
	return n ? n : process_take_answer(&op, out, err);
}

static int add_process(struct operation *op, struct sandbox_process **list, size_t *count,
	size_t *room, struct error *err)
{
	size_t more = *room ? 2 * *room : 16;
	struct sandbox_process *grown;
	int r;

	if (*count == *room) {
		grown = more <= LIST_MOST ? reallocarray(*list, more, sizeof(*grown)) : NULL;
		if (!grown)
			return error_set(err, -ENOMEM, "out of memory");
		*list = grown;
		*room = more;
	}
	r = take_process(&op->frame, &(*list)[*count], err);
	*count += !r;
	return r;
}

int sandbox_processes(
	struct sandbox *s, struct sandbox_process **out, size_t *count, struct error *err)
{
	uint8_t frame[WIRE_HEADER];
	struct operation op;
	size_t room = 0;
	int r;

	*out = NULL;
	*count = 0;
	op_begin(s, &op);
	wire_put_mon_processes(frame, sizeof(frame), op.stream, 0, &(struct wire_mon_processes){0});
	r = op_send(&op, frame, sizeof(frame), err);
	while (!r) {
		r = op_next(&op, err);
		if (r || op.frame.type == WIRE_DONE)
			break;
		r = add_process(&op, out, count, &room, err);
	}
	if (r) {
		sandbox_processes_free(*out, *count);
		*out = NULL;
		*count = 0;
	}
	return r;
}

static int take_piece(const struct operation *op, const struct output_spec *spec, struct error *err)
{
	struct wire_mon_piece m;
	int r;

	if (wire_get_mon_piece(op->frame.payload, op->frame.length, &m) ||
		m.channel < WIRE_STDOUT || m.channel >= WIRE_CHANNELS)
		return error_set(err, -EPROTO, "the monitor answered something else");
	r = spec->on_piece(spec->context, (enum wire_channel)m.channel, m.offset, m.bytes.bytes,
		m.bytes.count);
	return r < 0 ? error_set(err, r, "the output could not be taken") : r;
}

int sandbox_process_output(struct sandbox *s, const struct output_spec *spec,
	struct sandbox_process *out, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 128];
	struct operation op;
	int64_t deadline;
	int n, r;

	*out = (struct sandbox_process){0};
	op_begin(s, &op);
	deadline =
		spec->wait_ms < 0 ? CLOCK_NEVER : clock_deadline_ms(spec->wait_ms + op.answer_ms);
	n = wire_put_mon_output(frame, sizeof(frame), op.stream, 0,
		&(struct wire_mon_output){.id = wire_str(spec->id),
			.cursor = spec->cursor,
			.wait_ms = spec->wait_ms < 0 ? UINT64_MAX : (uint64_t)spec->wait_ms,
			.most = spec->most ? spec->most : OUTPUT_MOST});
	if (n < 0)
		return error_set(err, -ENOENT, "there is no such process");
	r = op_send(&op, frame, (size_t)n, err);
	while (!r) {
		r = op_next_until(&op, deadline, spec->cancel_fd, err);
		if (r || op.frame.type != WIRE_MON_PIECE)
			break;
		r = take_piece(&op, spec, err);
	}
	if (!r)
		r = take_process(&op.frame, out, err);
	if (!r)
		r = op_next(&op, err);
	if (r)
		sandbox_process_fini(out);
	return r;
}

/* a request that is answered at once */
static int ask(struct operation *op, const uint8_t *frame, int size, struct sandbox_process *out,
	struct error *err)
{
	int r;

	*out = (struct sandbox_process){0};
	if (size < 0)
		return error_set(err, -E2BIG, "the request is too long");
	r = op_send(op, frame, (size_t)size, err);
	return r ? r : process_take_answer(op, out, err);
}

int sandbox_process_write(struct sandbox *s, const char *id, uint64_t offset, const void *bytes,
	size_t count, bool eof, struct sandbox_process *out, struct error *err)
{
	cleanup_free uint8_t *frame = malloc(WIRE_FRAME_MAX);
	const uint8_t *p = bytes;
	struct operation op;
	size_t n;
	int r;

	*out = (struct sandbox_process){0};
	if (!frame)
		return error_set(err, -ENOMEM, "out of memory");
	do {
		n = count < WIRE_CREDIT_STEP ? count : WIRE_CREDIT_STEP;
		sandbox_process_fini(out);
		op_begin(s, &op);
		r = ask(&op, frame,
			wire_put_mon_write(frame, WIRE_FRAME_MAX, op.stream, 0,
				&(struct wire_mon_write){.id = wire_str(id),
					.offset = offset,
					.eof = eof && n == count,
					.bytes = {p, (uint32_t)n}}),
			out, err);
		if (offset != SANDBOX_INPUT_END)
			offset += n;
		p = n ? p + n : p;
		count -= n;
	} while (!r && count && (offset == SANDBOX_INPUT_END || out->input_bytes >= offset));
	return r;
}

int sandbox_process_signal(struct sandbox *s, const char *id, uint32_t signal,
	struct sandbox_process *out, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 128];
	struct operation op;

	op_begin(s, &op);
	return ask(&op, frame,
		wire_put_mon_signal(frame, sizeof(frame), op.stream, 0,
			&(struct wire_mon_signal){.id = wire_str(id), .signal = signal}),
		out, err);
}

int sandbox_process_resize(struct sandbox *s, const char *id, uint32_t cols, uint32_t rows,
	struct sandbox_process *out, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 128];
	struct operation op;

	op_begin(s, &op);
	return ask(&op, frame,
		wire_put_mon_resize(frame, sizeof(frame), op.stream, 0,
			&(struct wire_mon_resize){.id = wire_str(id), .cols = cols, .rows = rows}),
		out, err);
}
