/* SPDX-License-Identifier: Apache-2.0 - a command as a request asks for it. */
#include "api/command.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

#define TIMEOUT_MS     60000
#define TIMEOUT_MOST   86400000 /* in the background: as long as the lease */
#define KEPT_SHORT     65536    /* of each stream, with a timeout up to a minute */
#define KEPT_LONG      (UINT64_C(1) << 20)
#define PROCESSES_MOST 4096

void command_free(void *context)
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

static bool check_body(struct request *q, const json_t *body)
{
	const json_t *argv = json_object_get(body, "argv");
	bool command = json_object_get(body, "command") != NULL;
	bool input = json_object_get(body, "stdin") || json_object_get(body, "stdinBase64");

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
	} else if (input && strcmp(request_text(body, "stdinMode", "none"), "none") != 0) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "stdinMode", "message",
				"give either stdin or stdinMode pipe"),
			"Give either stdin or stdinMode pipe.");
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

/* A terminal has a TERM, as programs ask for one before they use it. */
static char **make_env(const struct command *c, const struct sandbox_user *as)
{
	const json_t *own = json_object_get(c->body, "env");
	json_t *all = c->terminal ? json_pack("{ss}", "TERM", "xterm-256color") : NULL;
	char **env;

	if (all && own)
		json_object_update(all, (json_t *)(uintptr_t)own);
	env = env_make(c->spec, as, all ? all : own);
	json_decref(all);
	return env;
}

static int make_exec(struct command *c)
{
	const char *user = request_text(c->body, "user", request_text(c->spec, "user", "sandbox"));
	const json_t *terminal = json_object_get(c->body, "pty");
	bool root = strcmp(user, "root") == 0;
	struct sandbox_user as;
	int r;

	sandbox_user(c->spec, root, &as);
	c->exec = (struct exec_spec)EXEC_SPEC_INIT;
	c->user = root ? "root" : "sandbox";
	c->terminal = terminal != NULL;
	c->base64 = strcmp(request_text(c->body, "outputEncoding", "utf8"), "base64") == 0;
	c->env = make_env(c, &as);
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
	c->exec.cols = (uint32_t)request_integer(terminal, "cols", c->terminal ? 80 : 0);
	c->exec.rows = (uint32_t)request_integer(terminal, "rows", c->terminal ? 24 : 0);
	return r;
}

/* The time it may take, against the lease; false: answered. */
static bool set_timeout(struct request *q, struct command *c)
{
	int64_t asked = request_integer(c->body, "timeoutMs", 0);
	int64_t left = c->record.expires_ms - api_now_ms();

	if (asked > left && !(c->background && asked == TIMEOUT_MOST)) {
		answer_error(q, API_LEASE_TOO_SHORT,
			json_pack("{sI}", "leaseSecondsLeft",
				(json_int_t)(left > 0 ? left / 1000 : 0)),
			"The lease ends before the timeout of the command.");
		return false;
	}
	c->exec.wall_ms = c->background && (!asked || asked == TIMEOUT_MOST) ? 0
			  : asked                                            ? asked
									     : TIMEOUT_MS;
	c->exec.output_bytes = c->background        ? INT64_MAX
			       : asked > TIMEOUT_MS ? KEPT_LONG
						    : KEPT_SHORT;
	return true;
}

struct command *command_new(struct request *q, const json_t *body, bool background)
{
	struct command *c;
	int r;

	if (!check_body(q, body))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return NULL;
	}
	c->server = q->server;
	c->background = background;
	c->body = json_incref((json_t *)(uintptr_t)body);
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

int command_spawn(
	struct command *c, bool input, bool hold, struct sandbox_process *out, struct error *err)
{
	char *about = process_about(c);
	const bool given = c->exec.stdin_bytes != NULL;
	const size_t count = c->exec.stdin_count;
	const struct spawn_spec spec = {.exec = &c->exec,
		.id = c->id,
		.about = about,
		.input = input || given,
		.hold = hold};
	int r = about ? sandbox_spawn(c->sandbox, &spec, out, err)
		      : error_set(err, -ENOMEM, "out of memory");

	free(about);
	if (r || !given || out->state == WIRE_PROCESS_ENDED)
		return r;
	sandbox_process_fini(out);
	r = sandbox_process_write(
		c->sandbox, c->id, 0, buffer_bytes(&c->input), count, true, out, err);
	if (r == -EBADF) { /* it has ended meanwhile */
		const struct output_spec now = {.id = c->id, .cursor = UINT64_MAX, .cancel_fd = -1};

		return sandbox_process_output(c->sandbox, &now, out, err);
	}
	if (!r && out->input_bytes < count) {
		sandbox_process_fini(out);
		sandbox_process_signal(c->sandbox, c->id, 9, out, NULL);
		sandbox_process_fini(out);
		r = error_set(err, -EBUSY, "its processes have too much input that waits");
	}
	return r;
}
