/* SPDX-License-Identifier: Apache-2.0 - POST ...:exec: a command, to its end or as a stream. */
#include "api/command.h"

#include "base/buffer.h"

#include <errno.h>
#include <string.h>

static void answer_not_run(
	struct request *q, const struct command *c, int r, const struct error *err)
{
	int code = command_not_started(r, err);
	struct buffer text = {0};

	if (!code) {
		command_failure(q, &c->record, r, err);
		return;
	}
	buffer_printf(&text, "sealmark: %s: %s\n", c->argv[0], strerror(-r));
	answer_json(q, 200,
		json_pack("{si ss ss sb sb sb si ss}", "exitCode", code, "stdout", "", "stderr",
			buffer_text(&text), "timedOut", 0, "stdoutTruncated", 0, "stderrTruncated",
			0, "durationMs", 0, "processId", c->id));
	buffer_fini(&text);
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
		command_add_end(out, c->record.memory_mib, result);
	return out;
}

/*
 * As a stream it is a process of the monitor that is held for its reader: it waits for the reader,
 * and when the reader is cut off it goes on, to be followed by its id.
 */
static bool produce(void *context, int fd)
{
	struct command *c = context;
	struct follow follow = {.server = c->server,
		.sandbox = c->sandbox,
		.record = &c->record,
		.request_id = c->request_id,
		.process_id = c->id,
		.fd = fd,
		.base64 = c->base64,
		.most_ms = -1};
	struct sandbox_process started = {0};
	struct error err = {0};
	int r;

	if (follow_put(fd, json_pack("{ss ss}", "type", "start", "processId", c->id)))
		return false;
	r = command_spawn(c, false, true, &started, &err);
	sandbox_process_fini(&started);
	if (r)
		return follow_put_failure(&follow, r, &err) == 0;
	return follow_process(&follow);
}

void commands_exec(struct request *q)
{
	bool stream = request_boolean(q->json, "stream", false);
	struct command *c = command_new(q, q->json, stream);
	struct exec_result result = {0};
	struct error err = {0};
	int r;

	if (!c)
		return;
	if (stream) {
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
