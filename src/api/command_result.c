/* SPDX-License-Identifier: Apache-2.0 - what came of a command, in the API's words. */
#include "api/command.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

const char *command_end_state(const struct exec_result *result)
{
	if (result->reason == WIRE_END_EXITED)
		return "exited";
	return result->reason == WIRE_END_WALL_LIMIT ? "timed_out" : "killed";
}

void command_add_end(json_t *out, uint32_t memory_mib, const struct exec_result *result)
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
				(int)memory_mib, "message", "The sandbox ran out of memory.",
				"hint", "Create it with a larger memoryMiB."));
}

/* A program that cannot be started is the command's own end, as in a shell: 127 or 126. */
int command_not_started(int r, const struct error *err)
{
	if (!text_starts(error_message(err), "program "))
		return 0;
	return r == -ENOENT || r == -ENOTDIR ? 127 : 126;
}

void command_failure(
	struct request *q, const struct store_sandbox *record, int r, const struct error *err)
{
	if (text_starts(error_message(err), "working directory "))
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "cwd", "message", strerror(-r)),
			"cwd: %s.", strerror(-r));
	else if (r == -E2BIG)
		answer_error(q, API_INVALID_REQUEST, NULL, "%s.", error_message(err));
	else
		life_failure(q, record, r, err, r != -ENODEV && r != -EBUSY);
}
