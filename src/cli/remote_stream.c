/* SPDX-License-Identifier: Apache-2.0 - lines of JSON as they come, and the output of commands. */
#include "cli/remote_stream.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MOST (8u << 20)
#define BLOCK     65536
#define FOLLOWS   5u  /* times in a row that a stream may end without news */
#define LOSSES    12u /* and that the connection may be lost */
#define FOLLOW_MS 500

/* --- lines --- */

static int one_line(struct remote_lines *l, const char *line, size_t length)
{
	json_t *event;
	int r;

	while (length && (line[length - 1] == '\r' || line[length - 1] == ' '))
		length--;
	if (!length)
		return 0;
	event = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
	if (!json_is_object(event)) {
		json_decref(event);
		return error_set(
			l->err, -EREMOTEIO, "the server's stream has a line that is no JSON");
	}
	r = l->on_line(l->context, event);
	json_decref(event);
	return r;
}

int remote_lines_feed(void *context, const void *bytes, size_t count)
{
	struct remote_lines *l = context;
	const char *p = bytes, *end;
	int r = 0;

	while (!r && (end = memchr(p, '\n', count))) {
		size_t n = (size_t)(end - p);

		if (buffer_length(&l->rest)) {
			r = buffer_add(&l->rest, p, n);
			if (!r)
				r = one_line(
					l, (char *)buffer_bytes(&l->rest), buffer_length(&l->rest));
			buffer_clear(&l->rest);
		} else {
			r = one_line(l, p, n);
		}
		p = end + 1;
		count -= n + 1;
	}
	l->rest.limit = LINE_MOST;
	if (!r && count)
		r = buffer_add(&l->rest, p, count);
	if (r == -ENOBUFS)
		r = error_set(l->err, -EREMOTEIO, "the server's stream has a line without an end");
	return r;
}

void remote_lines_fini(struct remote_lines *l)
{
	buffer_fini(&l->rest);
}

/* --- how a command ended --- */

int remote_exit_status(const json_t *end, int64_t limit_ms)
{
	const json_t *code = json_object_get(end, "exitCode");
	const json_t *memory = json_object_get(end, "outOfMemory");
	char amount[32];

	if (json_is_true(json_object_get(end, "timedOut"))) {
		cli_write_duration(amount, sizeof(amount), limit_ms > 0 ? (uint64_t)limit_ms : 0);
		log_error("time limit%s%s reached", limit_ms > 0 ? " of " : "",
			limit_ms > 0 ? amount : "");
		return 124;
	}
	if (json_is_object(memory))
		log_error("%.200s %.200s", json_text(memory, "message"), json_text(memory, "hint"));
	if (json_is_integer(code))
		return (int)(json_integer_value(code) & 255);
	if (json_number(end, "signal") > 0 && json_number(end, "signal") < 128)
		return 128 + (int)json_number(end, "signal");
	return 128 + SIGKILL;
}

/* --- events --- */

static int put_piece(struct remote_output *o, const json_t *event, bool is_err)
{
	const json_t *data = json_object_get(event, "data");
	const char *encoded = json_string_value(json_object_get(event, "base64"));
	struct buffer raw = {0};
	const void *bytes = json_string_value(data);
	size_t count = json_string_length(data);
	int r = 0;

	if (encoded) {
		r = remote_unbase64(encoded, &raw);
		if (r)
			r = error_set(o->err, -EREMOTEIO,
				"the server's stream has bytes that are not base64");
		bytes = buffer_bytes(&raw);
		count = buffer_length(&raw);
	}
	if (!r && o->gather)
		r = buffer_add(is_err ? &o->err_out : &o->out, bytes, count);
	else if (!r)
		r = cli_write_out(is_err ? STDERR_FILENO : STDOUT_FILENO, remote_cancel_fd(o->r),
			bytes, count);
	if (r && r != -EPIPE && r != -EINTR && r != -EINVAL && r != -EREMOTEIO)
		error_sys(o->err, r, "writing the output");
	o->broken = o->broken || r;
	o->cursor = json_number(event, "offset") + (int64_t)count;
	buffer_fini(&raw);
	return r;
}

static int failed(struct remote_output *o, const json_t *event)
{
	const json_t *error = json_object_get(event, "error");

	o->status = remote_error(error, json_number(error, "status"), NULL, o->err);
	o->ended = true;
	o->failed = true;
	return 0;
}

int remote_output_event(void *context, const json_t *event)
{
	struct remote_output *o = context;
	const char *type = json_text(event, "type");

	if (o->json)
		remote_print_line(event);
	if (strcmp(type, "start") == 0) {
		text_copy(o->process, sizeof(o->process), json_text(event, "processId"));
		o->started = true;
	} else if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
		if (!o->json)
			return put_piece(o, event, strcmp(type, "stderr") == 0);
		o->cursor = json_number(event, "offset") +
			    (int64_t)json_string_length(json_object_get(event, "data"));
	} else if (strcmp(type, "truncated") == 0) {
		log_warning("%lld bytes of its output were dropped",
			(long long)json_number(event, "droppedBytes"));
		o->cursor = json_number(event, "resumeAt");
	} else if (strcmp(type, "continue") == 0) {
		text_copy(o->process, sizeof(o->process), json_text(event, "processId"));
		o->cursor = json_number(event, "cursor");
		o->again = true;
	} else if (strcmp(type, "exit") == 0) {
		o->exit = json_deep_copy(event);
		o->status = remote_exit_status(event, o->limit_ms);
		o->ended = true;
	} else if (strcmp(type, "error") == 0) {
		return failed(o, event);
	}
	return 0;
}

void remote_output_fini(struct remote_output *o)
{
	buffer_fini(&o->out);
	buffer_fini(&o->err_out);
	json_decref(o->exit);
}

/* It was the connection, not what came over it. */
bool remote_output_is_lost(const struct remote_output *o, int status, const struct error *err)
{
	return status == CLI_OURS && !o->broken && !remote_code(o->r)[0] && err->code != -EREMOTEIO;
}

int remote_output_follow(
	struct remote_output *o, const char *id, const char *process, struct error *err)
{
	unsigned idle = 0, lost = 0;
	int status = CLI_OK;

	while (!status && !o->ended && idle < FOLLOWS) {
		struct remote_lines lines = {
			.on_line = remote_output_event, .context = o, .err = err};
		struct buffer path = {0};
		int64_t before = o->cursor;
		char cursor[32];

		text_format(cursor, sizeof(cursor), "%lld", (long long)o->cursor);
		buffer_printf(&path, "/v1/sandboxes/%s/processes/", id);
		remote_segment(&path, process);
		buffer_add_text(&path, "/output");
		remote_query(&path, "cursor", cursor);
		remote_query(&path, "follow", "true");
		o->again = false;
		status = remote_call(o->r,
			&(struct remote_call){.method = "GET",
				.path = buffer_text(&path),
				.on_bytes = remote_lines_feed,
				.context = &lines},
			NULL, err);
		buffer_fini(&path);
		remote_lines_fini(&lines);
		if (o->again || o->cursor > before)
			idle = lost = 0;
		else
			idle += !status;
		if (remote_output_is_lost(o, status, err) && ++lost < LOSSES)
			status = CLI_OK;
		if (!status && !o->ended && idle + lost && !remote_pause(o->r, FOLLOW_MS))
			status = remote_interrupted(o->r);
	}
	if (o->ended && !o->failed)
		*err = (struct error){0};
	if (!status && !o->ended)
		status = cli_ours(err, "the output of the process ends before the process does");
	return status ? status : o->status;
}

/* --- input --- */

int remote_read_input(
	struct remote *r, size_t most, struct buffer *out, bool *given, struct error *err)
{
	struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {remote_cancel_fd(r), POLLIN, 0}};
	struct stat st;

	*given = fstat(STDIN_FILENO, &st) == 0 &&
		 (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	if (!*given)
		return CLI_OK;
	buffer_init(out, most + 1);
	for (;;) {
		size_t room = most + 1 - buffer_length(out);
		uint8_t *to = buffer_reserve(out, room < BLOCK ? room : BLOCK);
		ssize_t n;

		if (!to)
			return cli_ours(err, "out of memory");
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return cli_ours(err, "standard input: %s", strerror(errno));
		if (p[1].revents)
			return remote_interrupted(r);
		n = read(STDIN_FILENO, to, room < BLOCK ? room : BLOCK);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return cli_ours(err, "standard input: %s", strerror(errno));
		if (n == 0)
			return CLI_OK;
		buffer_commit(out, (size_t)n);
		if (buffer_length(out) > most)
			return -EFBIG;
	}
}
