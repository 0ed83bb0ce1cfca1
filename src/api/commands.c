/* SPDX-License-Identifier: Apache-2.0 - POST ...:exec: a command, to its end or as a stream. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS     60000
#define TIMEOUT_MOST   86400000 /* with stream: as long as the lease */
#define KEPT_SHORT     65536    /* of each stream, with a timeout up to a minute */
#define KEPT_LONG      (UINT64_C(1) << 20)
#define PROCESSES_MOST 4096

/* A command as it is asked for; it owns all that the exec_spec points to. */
struct command {
	struct sandbox *sandbox;
	struct store_sandbox record;
	json_t *body, *spec;
	char **env;
	const char **argv;
	char *cwd;
	struct buffer input;
	struct exec_spec exec;
	char id[ID_SIZE], request_id[ID_SIZE];
	struct api_server *server;
};

static void command_free(void *context)
{
	struct command *c = context;

	if (!c)
		return;
	sandbox_free(c->sandbox);
	store_sandbox_fini(&c->record);
	json_decref(c->body);
	json_decref(c->spec);
	env_free(c->env);
	free(c->argv);
	free(c->cwd);
	buffer_fini(&c->input);
	free(c);
}

/* --- what is asked for --- */

static bool check_body(struct request *q)
{
	const json_t *body = q->json, *argv = json_object_get(body, "argv");
	bool command = json_object_get(body, "command") != NULL;

	if (command == (argv != NULL)) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "command", "message",
				"give either command or argv"),
			"Give either command or argv.");
	} else if (argv && !json_string_length(json_array_get(argv, 0))) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "argv[0]", "message",
				"must not be empty"),
			"argv[0] must not be empty.");
	} else if (json_object_get(body, "stdin") && json_object_get(body, "stdinBase64")) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "stdinBase64", "message",
				"give either stdin or stdinBase64"),
			"Give either stdin or stdinBase64.");
	} else if (request_boolean(body, "traceFiles", false)) {
		answer_error(q, API_UNAVAILABLE, NULL,
			"Tracing of files: not available on this server.");
	}
	return !q->status && env_check(q, json_object_get(body, "env"));
}

static int make_argv(struct command *c)
{
	const json_t *argv = json_object_get(c->body, "argv");
	size_t count = argv ? json_array_size(argv) : 3;

	c->argv = calloc(count + 1, sizeof(*c->argv));
	if (!c->argv)
		return -ENOMEM;
	for (size_t i = 0; argv && i < count; i++)
		c->argv[i] = json_string_value(json_array_get(argv, i));
	if (!argv) {
		c->argv[0] = "bash";
		c->argv[1] = "-c";
		c->argv[2] = request_text(c->body, "command", "");
	}
	return 0;
}

static int make_cwd(struct command *c)
{
	const char *home = request_text(c->spec, "cwd", "/workspace");
	const char *cwd = request_text(c->body, "cwd", home);
	size_t size = strlen(home) + strlen(cwd) + 2;

	c->cwd = malloc(size);
	if (!c->cwd)
		return -ENOMEM;
	return cwd[0] == '/' ? text_copy(c->cwd, size, cwd)
			     : text_format(c->cwd, size, "%s/%s", home, cwd);
}

static int make_input(struct command *c)
{
	const json_t *text = json_object_get(c->body, "stdin");
	const char *encoded = request_text(c->body, "stdinBase64", NULL);
	int r = 0;

	if (text)
		r = buffer_add(&c->input, json_string_value(text), json_string_length(text));
	else if (encoded)
		r = api_unbase64(encoded, &c->input);
	if (!r && (text || encoded)) {
		c->exec.stdin_bytes = buffer_text(&c->input); /* not NULL when it is empty */
		c->exec.stdin_count = buffer_length(&c->input);
	}
	return r;
}

static int make_exec(struct command *c)
{
	const char *user = request_text(c->body, "user", request_text(c->spec, "user", "sandbox"));
	bool root = strcmp(user, "root") == 0;
	struct sandbox_user as;
	int r;

	sandbox_user(c->spec, root, &as);
	c->exec = (struct exec_spec)EXEC_SPEC_INIT;
	c->env = env_make(c->spec, &as, json_object_get(c->body, "env"));
	r = c->env ? make_argv(c) : -ENOMEM;
	if (!r)
		r = make_cwd(c);
	if (!r)
		r = make_input(c);
	c->exec.argv = c->argv;
	c->exec.env = (const char *const *)c->env;
	c->exec.cwd = c->cwd;
	c->exec.uid = as.uid;
	c->exec.gid = as.gid;
	c->exec.flags = WIRE_EXEC_NEW_PRIVS | (root ? WIRE_EXEC_PRIVILEGED : 0);
	c->exec.processes = PROCESSES_MOST;
	return r;
}

/* The time it may take, against the lease; false: answered. */
static bool set_timeout(struct request *q, struct command *c)
{
	bool stream = request_boolean(c->body, "stream", false);
	int64_t asked = request_integer(c->body, "timeoutMs", 0);
	int64_t left = c->record.expires_ms - api_now_ms();

	if (asked > left && !(stream && asked == TIMEOUT_MOST)) {
		answer_error(q, API_LEASE_TOO_SHORT,
			json_pack("{sI}", "leaseSecondsLeft",
				(json_int_t)(left > 0 ? left / 1000 : 0)),
			"The lease ends before the timeout of the command.");
		return false;
	}
	c->exec.wall_ms = stream && (!asked || asked == TIMEOUT_MOST) ? 0
			  : asked                                     ? asked
								      : TIMEOUT_MS;
	c->exec.output_bytes = stream ? INT64_MAX : asked > TIMEOUT_MS ? KEPT_LONG : KEPT_SHORT;
	return true;
}

static struct command *command_new(struct request *q)
{
	struct command *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return NULL;
	}
	c->server = q->server;
	c->body = json_incref(q->json);
	id_uuid(c->id);
	text_copy(c->request_id, sizeof(c->request_id), q->id);
	c->sandbox = life_attach(q, &c->record);
	if (!c->sandbox) {
		command_free(c);
		return NULL;
	}
	c->spec = json_loads(c->record.spec, 0, NULL);
	r = c->spec ? make_exec(c) : -ENOMEM;
	if (r == -EINVAL)
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "stdinBase64", "message",
				"is not base64"),
			"stdinBase64 is not base64.");
	else if (r)
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	if (r || !set_timeout(q, c)) {
		command_free(c);
		return NULL;
	}
	return c;
}

/* --- how it ended --- */

static const char *end_state(const struct exec_result *result)
{
	if (result->reason == WIRE_END_EXITED)
		return "exited";
	return result->reason == WIRE_END_WALL_LIMIT ? "timed_out" : "killed";
}

static void add_end(json_t *out, const struct command *c, const struct exec_result *result)
{
	bool memory = result->reason == WIRE_END_MEMORY_LIMIT || result->flags & WIRE_EXIT_OOM;

	json_object_set_new(out, "exitCode",
		result->reason == WIRE_END_EXITED ? json_integer((int)result->status)
						  : json_null());
	json_object_set_new(out, "timedOut", json_boolean(result->reason == WIRE_END_WALL_LIMIT));
	json_object_set_new(out, "durationMs", json_integer((json_int_t)(result->wall_us / 1000)));
	if (result->reason == WIRE_END_SIGNALED)
		json_object_set_new(out, "signal", json_integer((int)result->status));
	if (memory && result->reason != WIRE_END_WALL_LIMIT)
		json_object_set_new(out, "outOfMemory",
			json_pack("{ss si ss ss}", "code", "out_of_memory", "memoryMiB",
				(int)c->record.memory_mib, "message",
				"The sandbox ran out of memory.", "hint",
				"Create it with a larger memoryMiB."));
}

/* A program that cannot be started is the command's own end, as in a shell: 127 or 126. */
static int not_started(int r, const struct error *err)
{
	if (!text_starts(error_message(err), "program "))
		return 0;
	return r == -ENOENT || r == -ENOTDIR ? 127 : 126;
}

static void answer_not_run(
	struct request *q, const struct command *c, int r, const struct error *err)
{
	int code = not_started(r, err);
	struct buffer text = {0};

	if (code) {
		buffer_printf(&text, "sealmark: %s: %s\n", c->argv[0], strerror(-r));
		answer_json(q, 200,
			json_pack("{si ss ss sb sb sb si ss}", "exitCode", code, "stdout", "",
				"stderr", buffer_text(&text), "timedOut", 0, "stdoutTruncated", 0,
				"stderrTruncated", 0, "durationMs", 0, "processId", c->id));
		buffer_fini(&text);
	} else if (text_starts(error_message(err), "working directory ")) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "cwd", "message", strerror(-r)),
			"cwd: %s.", strerror(-r));
	} else if (r == -E2BIG) {
		answer_error(q, API_INVALID_REQUEST, NULL, "%s.", error_message(err));
	} else {
		life_failure(q, &c->record, r, err, r != -ENODEV && r != -EBUSY);
	}
}

static json_t *result_json(const struct command *c, const struct exec_result *result)
{
	bool exact;
	json_t *out = json_pack("{so so sb sb ss}", "stdout",
		api_guest_text(buffer_bytes(&result->out), buffer_length(&result->out), &exact),
		"stderr",
		api_guest_text(buffer_bytes(&result->err), buffer_length(&result->err), &exact),
		"stdoutTruncated", (result->flags & WIRE_EXIT_STDOUT_CUT) != 0, "stderrTruncated",
		(result->flags & WIRE_EXIT_STDERR_CUT) != 0, "processId", c->id);

	if (out)
		add_end(out, c, result);
	return out;
}

/* --- as a stream of lines --- */

struct lines {
	int fd;
	uint64_t offset; /* bytes of stdout and stderr told so far */
	struct {
		uint8_t bytes[4];
		size_t count;
	} rest[2]; /* the begin of a letter whose end has not come yet */
};

static int put_line(struct lines *l, json_t *event)
{
	char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
	int r = text ? path_write_fd(l->fd, text, strlen(text)) : -ENOMEM;

	if (!r)
		r = path_write_fd(l->fd, "\n", 1);
	free(text);
	json_decref(event);
	return r;
}

/* how many of the last bytes are the begin of a letter of UTF-8 */
static size_t unfinished(const uint8_t *p, size_t count)
{
	for (size_t n = 1; n <= 3 && n <= count; n++) {
		uint8_t c = p[count - n];

		if ((c & 0xc0) == 0x80)
			continue;
		return (c >= 0xf0 && n < 4) || (c >= 0xe0 && n < 3) || (c >= 0xc2 && n < 2) ? n : 0;
	}
	return 0;
}

static int put_piece(struct lines *l, bool err, const void *bytes, size_t count)
{
	char *base64 = NULL;
	bool exact = true;
	json_t *event;

	if (!count)
		return 0;
	event = json_pack("{ss so sI}", "type", err ? "stderr" : "stdout", "data",
		api_guest_text(bytes, count, &exact), "offset", (json_int_t)l->offset);
	if (event && !exact) {
		base64 = api_base64(bytes, count);
		json_object_set_new(event, "base64", base64 ? json_string(base64) : NULL);
		free(base64);
	}
	l->offset += count;
	return put_line(l, event);
}

static int on_output(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	struct lines *l = context;
	bool err = channel == WIRE_STDERR;
	struct buffer whole = {0};
	size_t left;
	int r = buffer_add(&whole, l->rest[err].bytes, l->rest[err].count);

	if (!r)
		r = buffer_add(&whole, bytes, count);
	if (!r) {
		left = unfinished(buffer_bytes(&whole), buffer_length(&whole));
		r = put_piece(l, err, buffer_bytes(&whole), buffer_length(&whole) - left);
		memcpy(l->rest[err].bytes, buffer_bytes(&whole) + buffer_length(&whole) - left,
			left);
		l->rest[err].count = left;
	}
	buffer_fini(&whole);
	return r;
}

static void put_exit(struct lines *l, const struct command *c, const struct exec_result *result)
{
	json_t *event = json_pack(
		"{ss ss ss}", "type", "exit", "state", end_state(result), "processId", c->id);

	for (int i = 0; i < 2; i++)
		put_piece(l, i == 1, l->rest[i].bytes, l->rest[i].count);
	if (event)
		add_end(event, c, result);
	put_line(l, event);
}

/* It could not be run, or the sandbox ended with it. */
static void put_failure(struct lines *l, struct command *c, int r, const struct error *err)
{
	struct request q = {.server = c->server};
	struct exec_result result = {.reason = WIRE_END_EXITED};
	int code = not_started(r, err);

	if (code) {
		char text[300];

		snprintf(text, sizeof(text), "sealmark: %.200s: %s\n", c->argv[0], strerror(-r));
		put_piece(l, true, text, strlen(text));
		result.status = (uint32_t)code;
		put_exit(l, c, &result);
		return;
	}
	text_copy(q.id, sizeof(q.id), c->request_id);
	answer_not_run(&q, c, r, err);
	put_line(l,
		json_pack("{ss sO}", "type", "error", "error", json_object_get(q.answer, "error")));
	json_decref(q.answer);
}

static bool produce(void *context, int fd)
{
	struct command *c = context;
	struct lines lines = {.fd = fd};
	struct exec_result result = {0};
	struct error err = {0};
	int r;

	if (put_line(&lines, json_pack("{ss ss}", "type", "start", "processId", c->id)))
		return false;
	c->exec.on_output = on_output;
	c->exec.context = &lines;
	c->exec.cancel_fd = fd; /* the reader that goes away ends it */
	r = sandbox_exec(c->sandbox, &c->exec, &result, &err);
	if (!r)
		put_exit(&lines, c, &result);
	else if (r != -EPIPE && r != -EINTR)
		put_failure(&lines, c, r, &err);
	exec_result_fini(&result);
	return r != -EPIPE && r != -EINTR;
}

void commands_exec(struct request *q)
{
	struct exec_result result = {0};
	struct command *c;
	struct error err = {0};
	int r;

	if (!check_body(q))
		return;
	c = command_new(q);
	if (!c)
		return;
	if (request_boolean(q->json, "stream", false)) {
		const struct stream_source source = {.produce = produce,
			.done = command_free,
			.context = c,
			.type = "application/x-ndjson",
			.size = -1};

		stream_answer(q, &source);
		return;
	}
	r = sandbox_exec(c->sandbox, &c->exec, &result, &err);
	if (r)
		answer_not_run(q, c, r, &err);
	else
		answer_json(q, 200, result_json(c, &result));
	exec_result_fini(&result);
	command_free(c);
}
