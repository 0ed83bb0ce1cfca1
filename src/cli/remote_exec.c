/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox exec: a command in a sandbox, its output
 * as it comes. */
#include "cli/remote_stream.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

/*
 * The command is one request, whose answer is a stream of its output. When the connection is lost,
 * the command goes on and is followed by its id from where we were; so the request is not sent
 * again once it may have arrived. Ctrl-C, or a reader of ours that goes away, kills it there. Only
 * kill -9 of this program leaves it to its time limit and the end of the lease.
 */
#define INPUT_MOST (2u << 20)

struct exec_options {
	struct remote_options remote;
	struct remote_exec exec;
};

static json_t *argv_json(const char *const *argv, struct error *err)
{
	json_t *list = json_array();

	for (size_t i = 0; argv[i]; i++) {
		json_t *text = json_string(argv[i]);

		if (!text) {
			cli_usage(err, "argument %zu of the command is not UTF-8", i + 1);
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, text);
	}
	return list;
}

static int add_input(struct remote *r, const struct remote_exec *e, json_t *body, struct error *err)
{
	struct buffer input = {0};
	bool given = false;
	char *encoded;
	int status = CLI_OK;

	if (!e->no_stdin)
		status = remote_read_input(r, INPUT_MOST, &input, &given, err);
	if (status == -EFBIG)
		status = cli_usage(err,
			"more than 2 MiB on standard input: copy it into the sandbox first "
			"(sealmark sandbox cp) and let the command read it there");
	if (!status && given) {
		encoded = remote_base64(buffer_length(&input) ? (char *)buffer_bytes(&input) : "",
			buffer_length(&input));
		json_object_set_new(body, "stdinBase64", encoded ? json_string(encoded) : NULL);
		free(encoded);
	}
	buffer_fini(&input);
	return status;
}

json_t *remote_command_json(const struct remote_exec *e, struct error *err)
{
	json_t *argv = argv_json(e->argv, err), *env = NULL, *body;

	if (argv)
		env = remote_pairs(&e->env, "--env", err);
	if (!env) {
		json_decref(argv);
		return NULL;
	}
	body = json_pack("{so}", "argv", argv);
	if (json_object_size(env))
		json_object_set(body, "env", env);
	json_decref(env);
	if (e->cwd)
		json_object_set_new(body, "cwd", json_string(e->cwd));
	if (e->user)
		json_object_set_new(body, "user", json_string(e->user));
	if (e->timeout_ms)
		json_object_set_new(body, "timeoutMs", json_integer(e->timeout_ms));
	return body;
}

/* What we were told to end does not run on there. */
static void kill_there(struct remote *r, const char *id, const char *process)
{
	struct buffer path = {0};
	struct error err = {0};

	buffer_printf(&path, "/v1/sandboxes/%s/processes/", id);
	remote_segment(&path, process);
	buffer_add_text(&path, ":signal");
	if (remote_call(r,
		    &(struct remote_call){.method = "POST",
			    .path = buffer_text(&path),
			    .body = json_pack("{ss}", "signal", "SIGKILL"),
			    .anyway = true},
		    NULL, &err) &&
		strcmp(remote_code(r), "not_running") != 0 &&
		strcmp(remote_code(r), "sandbox_stopped") != 0)
		log_warning("the command goes on there: %s", error_message(&err));
	buffer_fini(&path);
}

static int stream(
	struct remote *r, const struct remote_exec *e, struct remote_output *o, struct error *err)
{
	struct remote_lines lines = {.on_line = remote_output_event, .context = o, .err = err};
	json_t *body = remote_command_json(e, err);
	char path[REMOTE_ID_SIZE + 32];
	int status = body ? add_input(r, e, body, err) : CLI_USAGE;

	if (status) {
		json_decref(body);
		return status;
	}
	json_object_set_new(body, "stream", json_true());
	o->limit_ms = e->timeout_ms;
	o->err = err;
	text_format(path, sizeof(path), "/v1/sandboxes/%s:exec", e->id);
	status = remote_call(r,
		&(struct remote_call){.method = "POST",
			.path = path,
			.body = body,
			.on_bytes = remote_lines_feed,
			.context = &lines,
			.known = &o->started,
			.once = true},
		NULL, err);
	remote_lines_fini(&lines);
	/* an end that was told counts, whatever the connection did after it */
	if (!o->ended && o->process[0] && (!status || remote_output_is_lost(o, status, err)))
		status = remote_output_follow(o, e->id, o->process, err);
	if (o->ended && !o->failed)
		*err = (struct error){0};
	if (o->ended)
		return o->status;
	if (o->process[0] && status >= 128)
		kill_there(r, e->id, o->process);
	return status ? status
		      : cli_ours(err, "the connection ended before the command had started");
}

int remote_exec(struct remote *r, const struct remote_exec *e, struct error *err)
{
	struct remote_output o = {.r = r};
	int status = stream(r, e, &o, err);

	remote_output_fini(&o);
	return status;
}

int remote_print_command(json_t *document, const struct buffer *out, const struct buffer *err_out,
	int status, struct error *err)
{
	if (remote_set_bytes(document, "stdout", "stdoutBase64", out) ||
		remote_set_bytes(document, "stderr", "stderrBase64", err_out)) {
		json_decref(document);
		return cli_ours(err, "%s", strerror(ENOMEM));
	}
	json_object_set_new(document, "status", json_integer(status));
	return remote_print_json(document, err);
}

int remote_exec_json(struct remote *r, const struct remote_exec *e, struct error *err)
{
	struct remote_output o = {.r = r, .gather = true};
	int status = stream(r, e, &o, err);

	if (o.exit) {
		json_object_del(o.exit, "type");
		remote_print_command(json_incref(o.exit), &o.out, &o.err_out, status, err);
	}
	remote_output_fini(&o);
	return status;
}

static int run_exec(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct exec_options *o = options;
	struct remote_exec e = o->exec;
	char id[REMOTE_ID_SIZE];
	struct remote *r;
	int status = remote_open(&o->remote, &r, err);

	e.argv = operands + 1;
	if (!status)
		status = remote_sandbox_id(r, operands[0], id, err);
	e.id = id;
	if (!status)
		status = o->remote.json ? remote_exec_json(r, &e, err) : remote_exec(r, &e, err);
	remote_free(r);
	return status;
}

#define FIELD(name) offsetof(struct exec_options, exec.name)
static const struct cli_option options[] = {
	CLI_OPTION("cwd", 'w', "DIR", "directory it starts in (default: the image's)", "--cwd /tmp",
		cli_text, FIELD(cwd)),
	CLI_OPTION("env", 'e', "NAME=VALUE", "set a variable; may be given several times",
		"--env LANG=C", cli_texts, FIELD(env)),
	CLI_OPTION("user", 'u', "USER", "sandbox or root (default: the sandbox's)", "--user root",
		cli_text, FIELD(user)),
	CLI_OPTION("timeout", 't', "TIME", "end it after this time (default: with the lease)",
		"--timeout 10s", cli_duration_ms, FIELD(timeout_ms), .least = 1, .most = 86400000),
	CLI_OPTION("no-stdin", 0, NULL, "do not pass standard input on", "--no-stdin", cli_flag,
		FIELD(no_stdin)),
	REMOTE_OPTIONS(struct exec_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_exec = {
	.name = "sandbox exec",
	.summary = "Run a command in a sandbox of a server",
	.operands = "BOX COMMAND [ARGUMENT]...",
	.text = "BOX is the id or the name of a sandbox. Output comes as it is written, byte for\n"
		"byte. Standard input that is a file or a pipe is read to its end (2 MiB at\n"
		"most) and given to the command. Ctrl-C kills the command; a connection that is\n"
		"lost does not, and is made again.\n"
		"\n"
		"The exit status is that of the command; 128 + N when signal N ended it; 124 at\n"
		"the time limit; 130 after Ctrl-C; 2 when what was asked is wrong and 3 when the\n"
		"server or the way to it failed, with a message.",
	.examples = "sealmark sandbox exec grader -- python3 -m pytest -q\n"
		    "sealmark sandbox exec grader -- bash -c 'make && ./a.out > out.txt'\n"
		    "sealmark sandbox exec --user root grader -- apt-get install -y jq\n"
		    "sealmark sandbox exec grader -- sort < names.txt\n",
	.options = options,
	.size = sizeof(struct exec_options),
	.least = 2,
	.most = UINT_MAX,
	.rest = 2,
	.run = run_exec,
};
