/* SPDX-License-Identifier: Apache-2.0 - processes: commands that run in the background. */
#include "api/command.h"

#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define FOLLOW_MS   110000 /* then the reader is told to go on, before something between gives up */
#define OUTPUT_MOST 262144

/* A connection to q's sandbox, and the rest that a call on one of its processes needs. */
struct use {
	struct request *q;
	struct sandbox *sandbox;
	struct store_sandbox record;
	struct sandbox_process process;
	struct error err;
	const char *id;
};

/* To look is no use: what the monitor keeps is told also of a machine that is paused. */
static bool use_begin(struct use *u, struct request *q)
{
	*u = (struct use){.q = q, .id = q->params[1]};
	if (process_is_watch(u->id)) {
		answer_error(q, API_NOT_FOUND, NULL, "There is no such process.");
		return false;
	}
	u->sandbox = strcmp(q->method, "GET") == 0 ? life_attach_as_it_is(q, &u->record)
						   : life_attach(q, &u->record);
	return u->sandbox != NULL;
}

static void use_end(struct use *u)
{
	sandbox_process_fini(&u->process);
	sandbox_free(u->sandbox);
	store_sandbox_fini(&u->record);
}

static void answer_use_failure(struct use *u, int r)
{
	struct request *q = u->q;

	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such process.");
	else if (r == -ESRCH)
		answer_error(q, API_NOT_RUNNING, NULL, "The process has ended.");
	else if (r == -EBADF)
		answer_error(q, API_STDIN_CLOSED, NULL, "The process takes no input.");
	else if (r == -ENOBUFS)
		answer_error(q, API_GUEST_BUSY, NULL, "The process does not read its input.");
	else if (r == -ENOTTY)
		answer_error(q, API_NO_TERMINAL, NULL, "The process has no terminal.");
	else
		command_failure(q, &u->record, r, &u->err);
}

/* the process as it is now, or what went wrong; ends the use */
static void answer_use(struct use *u, int r, int status)
{
	if (r)
		answer_use_failure(u, r);
	else
		answer_json(u->q, status, process_json(&u->process, u->record.memory_mib));
	use_end(u);
}

/* look without waiting, and without output */
static int look(struct use *u)
{
	const struct output_spec spec = {.id = u->id, .cursor = UINT64_MAX, .cancel_fd = -1};

	return sandbox_process_output(u->sandbox, &spec, &u->process, &u->err);
}

void processes_spawn(struct request *q)
{
	bool piped = strcmp(request_text(q->json, "stdinMode", "none"), "pipe") == 0;
	struct sandbox_process process = {0};
	struct error err = {0};
	struct command *c = command_new(q, q->json, true);
	int r;

	if (!c)
		return;
	r = command_spawn(c, piped || c->terminal, false, &process, &err);
	if (r)
		command_failure(q, &c->record, r, &err);
	else
		answer_json(q, 201, process_json(&process, c->record.memory_mib));
	sandbox_process_fini(&process);
	command_free(c);
}

void processes_list(struct request *q)
{
	struct sandbox_process *list = NULL;
	json_t *data = json_array();
	size_t count = 0;
	struct use u;
	int r;

	if (!use_begin(&u, q)) {
		json_decref(data);
		return;
	}
	r = sandbox_processes(u.sandbox, &list, &count, &u.err);
	for (size_t i = 0; i < count; i++) {
		if (process_is_watch(list[i].id))
			continue;
		json_array_append_new(data, process_json(&list[i], u.record.memory_mib));
	}
	if (r)
		answer_use_failure(&u, r);
	else
		answer_json(q, 200, json_pack("{sO so}", "data", data, "nextCursor", json_null()));
	json_decref(data);
	sandbox_processes_free(list, count);
	use_end(&u);
}

void processes_get(struct request *q)
{
	struct use u;

	if (use_begin(&u, q))
		answer_use(&u, look(&u), 200);
}

/* --- output --- */

struct following {
	struct use u;
	struct follow follow;
	char process_id[ROUTE_PARAM_MOST], request_id[ID_SIZE];
};

static bool produce(void *context, int fd)
{
	struct following *f = context;

	f->follow.fd = fd;
	return follow_process(&f->follow);
}

static void done(void *context)
{
	struct following *f = context;

	use_end(&f->u);
	free(f);
}

/* takes over what u holds */
static void follow_output(struct use *u)
{
	struct request *q = u->q;
	struct following *f = calloc(1, sizeof(*f));
	const struct stream_source source = {.produce = produce,
		.done = done,
		.context = f,
		.type = "application/x-ndjson",
		.size = -1};

	if (!f) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		use_end(u);
		return;
	}
	f->u = *u;
	text_copy(f->process_id, sizeof(f->process_id), u->id);
	text_copy(f->request_id, sizeof(f->request_id), q->id);
	f->follow = (struct follow){.server = q->server,
		.sandbox = f->u.sandbox,
		.record = &f->u.record,
		.request_id = f->request_id,
		.process_id = f->process_id,
		.cursor = (uint64_t)request_integer(q->query, "cursor", 0),
		.base64 = process_wants_base64(&f->u.process),
		.most_ms = FOLLOW_MS};
	stream_answer(q, &source);
}

struct chunks {
	json_t *list;
	uint64_t dropped;
};

static int put_chunk(void *context, json_t *event)
{
	struct chunks *c = context;

	if (!event)
		return -ENOMEM;
	if (strcmp(request_text(event, "type", ""), "truncated") == 0) {
		c->dropped += (uint64_t)request_integer(event, "droppedBytes", 0);
	} else {
		json_object_set(event, "stream", json_object_get(event, "type"));
		json_object_set(event, "text", json_object_get(event, "data"));
		json_object_del(event, "type");
		json_object_del(event, "data");
		json_array_append(c->list, event);
	}
	json_decref(event);
	return 0;
}

/* What there is from the cursor on, in one answer. */
static void answer_output(struct use *u)
{
	struct request *q = u->q;
	struct chunks chunks = {.list = json_array()};
	struct process_events events = {.put = put_chunk,
		.context = &chunks,
		.base64 = process_wants_base64(&u->process),
		.cursor = (uint64_t)request_integer(q->query, "cursor", 0)};
	const struct output_spec spec = {.id = u->id,
		.cursor = events.cursor,
		.most = OUTPUT_MOST,
		.wait_ms = request_integer(q->query, "waitMs", 0),
		.cancel_fd = -1,
		.on_piece = process_events_piece,
		.context = &events};
	int r;

	sandbox_process_fini(&u->process);
	r = sandbox_process_output(u->sandbox, &spec, &u->process, &u->err);
	/* a letter that goes on in what was not asked for now is left to the next answer */
	if (!r && events.cursor >= u->process.output_end)
		r = process_events_flush(&events);
	if (r)
		answer_use_failure(u, r);
	else
		answer_json(q, 200,
			json_pack("{so sO sI sI}", "process",
				process_json(&u->process, u->record.memory_mib), "chunks",
				chunks.list, "nextCursor", (json_int_t)process_events_told(&events),
				"droppedBytes", (json_int_t)chunks.dropped));
	json_decref(chunks.list);
	use_end(u);
}

void processes_output(struct request *q)
{
	struct use u;
	int r;

	if (!use_begin(&u, q))
		return;
	r = look(&u);
	if (r)
		answer_use(&u, r, 0);
	else if (request_boolean(q->query, "follow", false))
		follow_output(&u);
	else
		answer_output(&u);
}

/* --- input and signals --- */

/* data, or base64, of the body; false: answered */
static bool take_bytes(struct request *q, struct buffer *out)
{
	const json_t *data = json_object_get(q->json, "data");
	const char *encoded = request_text(q->json, "base64", NULL);
	int r = 0;

	if (data && encoded)
		r = -EEXIST;
	else if (data)
		r = buffer_add(out, json_string_value(data), json_string_length(data));
	else if (encoded)
		r = api_unbase64(encoded, out);
	if (r == -EEXIST || r == -EINVAL)
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "base64", "message",
				r == -EINVAL ? "is not base64" : "give either data or base64"),
			r == -EINVAL ? "base64 is not base64." : "Give either data or base64.");
	else if (r)
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	return !r;
}

static int write_input(struct use *u, const struct buffer *bytes, uint64_t *told)
{
	const json_t *body = u->q->json;
	uint64_t offset = json_object_get(body, "offset")
				  ? (uint64_t)request_integer(body, "offset", 0)
				  : SANDBOX_INPUT_END;
	int r;

	r = sandbox_process_write(u->sandbox, u->id, offset, buffer_bytes(bytes),
		buffer_length(bytes), request_boolean(body, "eof", false), &u->process, &u->err);
	*told = offset + buffer_length(bytes);
	if (offset == SANDBOX_INPUT_END || u->process.input_bytes < *told)
		*told = u->process.input_bytes;
	if (r == -ESPIPE)
		answer_error(u->q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "offset", "message",
				"is beyond what was written so far"),
			"offset is beyond what was written so far.");
	return r;
}

void processes_write(struct request *q)
{
	struct buffer bytes = {0};
	uint64_t told;
	struct use u;
	int r;

	if (take_bytes(q, &bytes) && use_begin(&u, q)) {
		r = write_input(&u, &bytes, &told);
		if (!r)
			answer_json(q, 200,
				json_pack("{sI sb}", "offset", (json_int_t)told, "stdinOpen",
					u.process.input_open));
		else if (!q->status)
			answer_use_failure(&u, r);
		use_end(&u);
	}
	buffer_fini(&bytes);
}

/* "SIGTERM", "TERM" or "15"; 0: none */
static uint32_t signal_number(const char *name)
{
	uint64_t number = 0;

	if (text_u64(name, &number) == 0)
		return number <= 64 ? (uint32_t)number : 0;
	if (text_starts(name, "SIG"))
		name += 3;
	for (int i = 1; i <= 31; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcmp(known, name) == 0)
			return (uint32_t)i;
	}
	return 0;
}

void processes_signal(struct request *q)
{
	const char *name = request_text(q->json, "signal", "SIGTERM");
	uint32_t number = signal_number(name);
	struct use u;

	if (!number)
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "signal", "message",
				"is no signal; SIGTERM is one"),
			"signal is no signal; SIGTERM is one.");
	else if (use_begin(&u, q))
		answer_use(&u, sandbox_process_signal(u.sandbox, u.id, number, &u.process, &u.err),
			200);
}

void processes_resize(struct request *q)
{
	uint32_t cols = (uint32_t)request_integer(q->json, "cols", 80);
	uint32_t rows = (uint32_t)request_integer(q->json, "rows", 24);
	struct use u;

	if (use_begin(&u, q))
		answer_use(&u,
			sandbox_process_resize(u.sandbox, u.id, cols, rows, &u.process, &u.err),
			200);
}
