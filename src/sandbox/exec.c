/* SPDX-License-Identifier: Apache-2.0 - run a command in a sandbox, with its input and output. */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_OUTPUT    (UINT64_C(64) << 20)
#define DEFAULT_PROCESSES 512
#define INPUT_STEP        65536u

static const char *const default_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/workspace",
	"LANG=C.UTF-8", "TERM=dumb", NULL};

/* One exec under way. */
struct run {
	const struct exec_spec *spec;
	struct exec_result *result;
	struct operation op;
	size_t input_at; /* of stdin_bytes */
	bool input_ended;
	size_t owed[WIRE_CHANNELS]; /* consumed, credit not yet returned */
	uint64_t kept_most;
};

static uint32_t count(const char *const *list)
{
	uint32_t n = 0;

	while (list[n])
		n++;
	return n;
}

static uint64_t micros(int64_t ms)
{
	return ms > 0 ? (uint64_t)ms * 1000 : 0;
}

int exec_encode(const struct exec_spec *spec, uint32_t stream, bool input, uint8_t *frame,
	size_t size, struct error *err)
{
	const char *const *env = spec->env ? spec->env : default_env;
	bool terminal = spec->cols && spec->rows;
	struct wire_exec m = {
		.flags = (spec->flags & ~(WIRE_EXEC_STDIN | WIRE_EXEC_REPORT)) |
			 (input ? WIRE_EXEC_STDIN : 0) | (spec->report ? WIRE_EXEC_REPORT : 0) |
			 (terminal ? WIRE_EXEC_TERMINAL : 0),
		.uid = spec->uid,
		.gid = spec->gid,
		.cpu_us = micros(spec->cpu_ms),
		.wall_us = micros(spec->wall_ms),
		.memory_bytes = spec->memory_bytes,
		.output_bytes = spec->output_bytes ? spec->output_bytes : DEFAULT_OUTPUT,
		.file_bytes = spec->file_bytes,
		.processes = spec->processes ? spec->processes : DEFAULT_PROCESSES,
		.cols = terminal ? spec->cols : 0,
		.rows = terminal ? spec->rows : 0,
		.cwd = wire_str(spec->cwd ? spec->cwd : "/workspace"),
		.argv = {.list = spec->argv, .count = count(spec->argv)},
		.env = {.list = env, .count = count(env)},
	};
	int n;

	if (m.argv.count == 0)
		return error_set(err, -EINVAL, "no command given");
	n = wire_put_exec(frame, size, stream, 0, &m);
	if (n < 0 || m.argv.count > WIRE_STRINGS_MAX || m.env.count > WIRE_STRINGS_MAX)
		return error_set(err, -E2BIG, "the arguments and environment are too long");
	return n;
}

static int send_request(struct run *run, struct error *err)
{
	const struct exec_spec *spec = run->spec;
	bool input = spec->stdin_bytes || spec->stdin_fd >= 0;
	cleanup_free uint8_t *frame = malloc(WIRE_FRAME_MAX);
	int n;

	if (!frame)
		return error_set(err, -ENOMEM, "out of memory");
	n = exec_encode(spec, run->op.stream, input, frame, WIRE_FRAME_MAX, err);
	return n < 0 ? n : op_request(&run->op, frame, n, err);
}

static int give(struct run *run, enum wire_channel channel, const void *bytes, size_t n)
{
	struct exec_result *r = run->result;
	struct buffer *b = channel == WIRE_STDOUT   ? &r->out
			   : channel == WIRE_STDERR ? &r->err
						    : &r->report;
	uint64_t room;

	if (run->spec->on_output)
		return run->spec->on_output(run->spec->context, channel, bytes, n);
	room = run->kept_most > buffer_length(b) ? run->kept_most - buffer_length(b) : 0;
	return buffer_add(b, bytes, n < room ? n : (size_t)room);
}

static int take_data(struct run *run, struct error *err)
{
	struct wire_frame f = run->op.frame;
	int r = give(run, (enum wire_channel)f.channel, f.payload, f.length);

	if (r < 0)
		return error_set(err, r, "the output could not be taken");
	run->owed[f.channel] += f.length;
	if (run->owed[f.channel] < WIRE_CREDIT_STEP)
		return 0;
	r = op_credit(&run->op, (enum wire_channel)f.channel, run->owed[f.channel], err);
	run->owed[f.channel] = 0;
	return r;
}

static int take_exit(struct run *run, struct error *err)
{
	struct exec_result *r = run->result;
	struct wire_exit m;

	if (wire_get_exit(run->op.frame.payload, run->op.frame.length, &m) ||
		m.reason >= WIRE_END_COUNT)
		return error_set(err, -EPROTO, "the guest ended the command in no known way");
	r->reason = (enum wire_ending)m.reason;
	r->status = m.status;
	r->flags = m.flags;
	r->wall_us = m.wall_us;
	r->cpu_from_host = m.host_cpu_us != 0;
	r->cpu_us = m.host_cpu_us ? m.host_cpu_us : m.cpu_us;
	r->guest_cpu_us = m.cpu_us;
	r->memory_peak_bytes = m.memory_peak_bytes;
	r->stdout_bytes = m.stdout_bytes;
	r->stderr_bytes = m.stderr_bytes;
	return 0;
}

/* send what of stdin_bytes the credit allows */
static int push_bytes(struct run *run, struct error *err)
{
	const struct exec_spec *spec = run->spec;
	size_t n = spec->stdin_count - run->input_at;
	int r = 0;

	if (run->input_ended || !spec->stdin_bytes)
		return 0;
	n = n < run->op.input_credit ? n : (size_t)run->op.input_credit;
	if (n) {
		n = n < WIRE_CREDIT_STEP ? n : WIRE_CREDIT_STEP;
		r = op_push(&run->op, (const uint8_t *)spec->stdin_bytes + run->input_at, n, err);
		run->input_at += n;
	}
	if (!r && run->input_at == spec->stdin_count) {
		run->input_ended = true;
		r = op_input_end(&run->op, err);
	}
	return r;
}

/* pass on what stdin_fd has now */
static int push_fd(struct run *run, struct error *err)
{
	uint8_t bytes[INPUT_STEP];
	size_t most =
		run->op.input_credit < sizeof(bytes) ? (size_t)run->op.input_credit : sizeof(bytes);
	ssize_t n = read(run->spec->stdin_fd, bytes, most);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n > 0)
		return op_push(&run->op, bytes, (size_t)n, err);
	run->input_ended = true; /* also when it cannot be read */
	return op_input_end(&run->op, err);
}

/* wait for the connection, the input or the wish to cancel */
static int wait_any(struct run *run, struct error *err)
{
	struct sandbox *s = run->op.sandbox;
	const struct exec_spec *spec = run->spec;
	bool input = spec->stdin_fd >= 0 && !run->input_ended && run->op.input_credit;
	struct pollfd p[] = {
		{s->fd, (short)(buffer_length(&s->out) ? POLLIN | POLLOUT : POLLIN), 0},
		{input ? spec->stdin_fd : -1, POLLIN, 0},
		{spec->cancel_fd, POLLIN, 0},
	};
	int n = poll(p, ARRAY_SIZE(p), clock_poll_ms(clock_deadline_ms(run->op.answer_ms)));

	if (n < 0 && errno != EINTR)
		return error_sys(err, errno, "poll");
	if (n == 0)
		return op_too_late(&run->op, err);
	if (n > 0 && p[2].revents)
		return error_set(err, -EINTR, "interrupted");
	if (n > 0 && p[1].revents)
		return push_fd(run, err);
	return 0;
}

static int handle(struct run *run, bool *over, struct error *err)
{
	unsigned type = run->op.frame.type;

	if (type == WIRE_DATA)
		return take_data(run, err);
	*over = type == WIRE_EXIT || type == WIRE_FAIL;
	if (type == WIRE_EXIT)
		return take_exit(run, err);
	return type == WIRE_FAIL ? op_failure(&run->op.frame, err) : 0;
}

int sandbox_exec(struct sandbox *s, const struct exec_spec *spec, struct exec_result *result,
	struct error *err)
{
	struct run run = {.spec = spec, .result = result};
	bool over = false;
	int r;

	if (s->over)
		return connection_over(s, err);
	op_begin(s, &run.op);
	run.kept_most = spec->output_bytes ? spec->output_bytes : DEFAULT_OUTPUT;
	/* the monitor ends it well before */
	run.op.answer_ms = spec->wall_ms > 0 ? spec->wall_ms + ANSWER_MS(s) : -1;
	r = send_request(&run, err);
	while (!r && !over) {
		r = op_poll(&run.op, err);
		if (r > 0) {
			r = handle(&run, &over, err);
			continue;
		}
		if (!r)
			r = push_bytes(&run, err);
		if (!r)
			r = connection_flush(s, err);
		if (!r && !(spec->stdin_bytes && !run.input_ended && run.op.input_credit))
			r = wait_any(&run, err);
	}
	if (r)
		op_cancel(&run.op);
	return r;
}

void exec_result_fini(struct exec_result *r)
{
	if (!r)
		return;
	buffer_fini(&r->out);
	buffer_fini(&r->err);
	buffer_fini(&r->report);
	*r = (struct exec_result){0};
}

int exec_result_status(const struct exec_result *r)
{
	switch (r->reason) {
	case WIRE_END_EXITED:
		return (int)(r->status & 255);
	case WIRE_END_SIGNALED:
		return 128 + (int)(r->status & 127);
	case WIRE_END_CPU_LIMIT:
	case WIRE_END_WALL_LIMIT:
		return 124;
	case WIRE_END_FILE_LIMIT:
		return 128 + 25; /* SIGXFSZ */
	case WIRE_END_MEMORY_LIMIT:
	case WIRE_END_OUTPUT_LIMIT:
	case WIRE_END_KILLED:
	case WIRE_END_COUNT:
	default:
		return 137;
	}
}
