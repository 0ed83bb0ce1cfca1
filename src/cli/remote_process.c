/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox spawn, ps, logs, kill: processes in the
 * background. */
#include "cli/remote_stream.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#define PAGES_MOST 100000u /* of output; a server that never says it is over is not believed */

struct process_options {
	struct remote_options remote;
	struct remote_exec exec;
	const char *signal;
	bool follow;
};

/* ".../processes[/PROCESS][suffix]" */
static int process_path(struct remote *r, const char *box, const char *process, const char *suffix,
	struct buffer *path, struct error *err)
{
	int status = remote_sandbox_path(r, box, "/processes", path, err);

	if (!status && process) {
		buffer_add_text(path, "/");
		remote_segment(path, process);
		buffer_add_text(path, suffix);
	}
	return status;
}

/* --- spawn --- */

static int run_spawn(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct process_options *o = options;
	struct remote_exec e = o->exec;
	struct buffer path = {0};
	json_t *answer = NULL, *body = NULL;
	struct remote *r;
	int status = remote_open(&o->remote, &r, err);

	e.argv = operands + 1;
	if (!status)
		status = process_path(r, operands[0], NULL, "", &path, err);
	if (!status) {
		body = remote_command_json(&e, err);
		status = body ? CLI_OK : CLI_USAGE;
	}
	if (!status)
		status = remote_call(r,
			&(struct remote_call){.method = "POST",
				.path = buffer_text(&path),
				.body = body,
				.about = "spawn"},
			&answer, err);
	if (!status && o->remote.json) {
		status = remote_print_json(json_incref(answer), err);
	} else if (!status) {
		remote_put(stdout, json_text(answer, "id"));
		putchar('\n');
	}
	json_decref(answer);
	buffer_fini(&path);
	remote_free(r);
	return status;
}

/* --- ps --- */

static void add_row(struct table *t, const json_t *p)
{
	const json_t *code = json_object_get(p, "exitCode");
	char exit[32] = "", age[32];

	if (json_is_integer(code))
		text_format(exit, sizeof(exit), "%lld", (long long)json_integer_value(code));
	remote_age(json_text(p, "startedAt"), age, sizeof(age));
	table_add(t, (const char *const[]){json_text(p, "id"), json_text(p, "state"), exit, age,
			     json_text(p, "command")});
}

static int run_ps(const void *options, const char *const *operands, size_t count, struct error *err)
{
	static const char *const heads[] = {"ID", "STATE", "EXIT", "STARTED", "COMMAND", NULL};
	const struct process_options *o = options;
	struct buffer path = {0};
	json_t *answer = NULL;
	struct table table;
	const json_t *p;
	struct remote *r;
	size_t i;
	int status = remote_open(&o->remote, &r, err);

	if (!status)
		status = process_path(r, operands[0], NULL, "", &path, err);
	if (!status)
		status = remote_call(r,
			&(struct remote_call){
				.method = "GET", .path = buffer_text(&path), .about = operands[0]},
			&answer, err);
	if (!status && o->remote.json) {
		status = remote_print_json(json_incref(json_object_get(answer, "data")), err);
	} else if (!status) {
		table_init(&table, heads);
		json_array_foreach (json_object_get(answer, "data"), i, p)
			add_row(&table, p);
		table_print(&table);
	}
	json_decref(answer);
	buffer_fini(&path);
	remote_free(r);
	return status;
}

/* --- logs --- */

/* A chunk as the event that a stream has for it. */
static int print_chunk(struct remote_output *o, const json_t *chunk)
{
	json_t *event = json_copy((json_t *)(uintptr_t)chunk);
	int r = -ENOMEM;

	if (event) {
		json_object_set(event, "type", json_object_get(chunk, "stream"));
		json_object_set(event, "data", json_object_get(chunk, "text"));
		json_object_del(event, "stream");
		json_object_del(event, "text");
		r = remote_output_event(o, event);
	}
	json_decref(event);
	return r;
}

/* What there is now, page by page. */
static int print_output(
	struct remote *r, const char *path, struct remote_output *o, struct error *err)
{
	int status = CLI_OK;

	for (unsigned n = 0; !status && n < PAGES_MOST; n++) {
		struct buffer page = {0};
		json_t *answer = NULL;
		const json_t *chunks, *chunk;
		int64_t before = o->cursor;
		char cursor[32];
		size_t i;

		text_format(cursor, sizeof(cursor), "%lld", (long long)before);
		buffer_add_text(&page, path);
		remote_query(&page, "cursor", cursor);
		status = remote_call(r,
			&(struct remote_call){.method = "GET", .path = buffer_text(&page)}, &answer,
			err);
		buffer_fini(&page);
		chunks = json_object_get(answer, "chunks");
		if (!status && json_number(answer, "droppedBytes") > 0)
			log_warning("%lld bytes of its output are no longer kept",
				(long long)json_number(answer, "droppedBytes"));
		json_array_foreach (chunks, i, chunk) {
			int written = status ? 0 : print_chunk(o, chunk);

			if (written)
				status = remote_write_failure(r, written, err);
		}
		if (json_number(answer, "nextCursor") > before)
			o->cursor = json_number(answer, "nextCursor");
		json_decref(answer);
		if (o->cursor == before)
			break;
	}
	return status;
}

static int run_logs(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct process_options *o = options;
	struct remote_output output = {.json = o->remote.json, .err = err};
	struct buffer path = {0};
	char id[REMOTE_ID_SIZE];
	struct remote *r;
	int status = remote_open(&o->remote, &r, err);

	output.r = r;
	if (!status)
		status = remote_sandbox_id(r, operands[0], id, err);
	if (!status && o->follow) {
		status = remote_output_follow(&output, id, operands[1], err);
	} else if (!status) {
		status = process_path(r, id, operands[1], "/output", &path, err);
		if (!status)
			status = print_output(r, buffer_text(&path), &output, err);
	}
	remote_output_fini(&output);
	buffer_fini(&path);
	remote_free(r);
	return status;
}

/* --- kill --- */

static int run_kill(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct process_options *o = options;
	char name[32];
	struct remote *r;
	int status = CLI_OK;

	/* 9, KILL and SIGKILL are the same to people */
	if (text_format(name, sizeof(name), "%s%s",
		    text_starts(o->signal, "SIG") || (*o->signal >= '0' && *o->signal <= '9')
			    ? ""
			    : "SIG",
		    o->signal))
		return cli_usage(err, "--signal: \"%.40s\" is no signal", o->signal);
	status = remote_open(&o->remote, &r, err);
	for (size_t i = 1; !status && i < count; i++) {
		struct buffer path = {0};
		json_t *answer = NULL;

		status = process_path(r, operands[0], operands[i], ":signal", &path, err);
		if (!status)
			status = remote_call(r,
				&(struct remote_call){.method = "POST",
					.path = buffer_text(&path),
					.body = json_pack("{ss}", "signal", name),
					.about = operands[i]},
				&answer, err);
		if (!status && o->remote.json)
			remote_print_line(answer);
		json_decref(answer);
		buffer_fini(&path);
	}
	remote_free(r);
	return status;
}

#define FIELD(name) offsetof(struct process_options, name)
static const struct cli_option spawn_options[] = {
	CLI_OPTION("cwd", 'w', "DIR", "directory it starts in (default: the image's)", "--cwd /tmp",
		cli_text, FIELD(exec.cwd)),
	CLI_OPTION("env", 'e', "NAME=VALUE", "set a variable; may be given several times",
		"--env LANG=C", cli_texts, FIELD(exec.env)),
	CLI_OPTION("user", 'u', "USER", "sandbox or root (default: the sandbox's)", "--user root",
		cli_text, FIELD(exec.user)),
	CLI_OPTION("timeout", 't', "TIME", "end it after this time (default: with the sandbox)",
		"--timeout 10m", cli_duration_ms, FIELD(exec.timeout_ms), .least = 1,
		.most = 86400000),
	REMOTE_OPTIONS(struct process_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_spawn = {
	.name = "sandbox spawn",
	.summary = "Start a process in the background of a sandbox",
	.operands = "BOX COMMAND [ARGUMENT]...",
	.text = "Prints the id of the process, for ps, logs and kill. It goes on when this\n"
		"command ends, and has no input.",
	.examples = "sealmark sandbox spawn grader -- python3 -m http.server\n",
	.options = spawn_options,
	.size = sizeof(struct process_options),
	.least = 2,
	.most = UINT_MAX,
	.rest = 2,
	.run = run_spawn,
};

static const struct cli_option ps_options[] = {
	REMOTE_OPTIONS(struct process_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_ps = {
	.name = "sandbox ps",
	.summary = "List the processes that were started in a sandbox",
	.operands = "BOX",
	.examples = "sealmark sandbox ps grader\n",
	.options = ps_options,
	.size = sizeof(struct process_options),
	.least = 1,
	.most = 1,
	.run = run_ps,
};

static const struct cli_option logs_options[] = {
	CLI_OPTION("follow", 'f', NULL, "go on until it ends; then its status is ours", "--follow",
		cli_flag, FIELD(follow)),
	REMOTE_OPTIONS(struct process_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_logs = {
	.name = "sandbox logs",
	.summary = "Print what a process in the background has written",
	.operands = "BOX PROCESS",
	.examples = "sealmark sandbox logs --follow grader PROCESS\n",
	.options = logs_options,
	.size = sizeof(struct process_options),
	.least = 2,
	.most = 2,
	.run = run_logs,
};

static const struct process_options kill_defaults = {.signal = "SIGTERM"};
static const struct cli_option kill_options[] = {
	CLI_OPTION("signal", 's', "SIGNAL", "send this one (default TERM)", "--signal KILL",
		cli_text, FIELD(signal)),
	REMOTE_OPTIONS(struct process_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_kill = {
	.name = "sandbox kill",
	.summary = "Send a signal to processes in the background",
	.operands = "BOX PROCESS...",
	.examples = "sealmark sandbox kill -s KILL grader PROCESS\n",
	.options = kill_options,
	.defaults = &kill_defaults,
	.size = sizeof(struct process_options),
	.least = 2,
	.most = UINT_MAX,
	.run = run_kill,
};
