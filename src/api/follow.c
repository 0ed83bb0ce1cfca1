/* SPDX-License-Identifier: Apache-2.0 - the output of a process as lines of JSON, as it comes. */
#include "api/command.h"

#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define PIECE_MOST 131072

int follow_put(int fd, json_t *event)
{
	char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
	int r = text ? path_write_fd(fd, text, strlen(text)) : -ENOMEM;

	if (!r)
		r = path_write_fd(fd, "\n", 1);
	free(text);
	json_decref(event);
	return r;
}

static int put(void *context, json_t *event)
{
	return follow_put(((const struct follow *)context)->fd, event);
}

int follow_put_failure(const struct follow *follow, int r, const struct error *err)
{
	struct request q = {.server = follow->server};
	json_t *event;

	text_copy(q.id, sizeof(q.id), follow->request_id);
	if (r == -ENOENT)
		answer_error(&q, API_NOT_FOUND, NULL, "There is no such process.");
	else
		command_failure(&q, follow->record, r, err);
	event = json_pack("{ss sO}", "type", "error", "error", json_object_get(q.answer, "error"));
	json_decref(q.answer);
	return follow_put(follow->fd, event);
}

static int put_exit(const struct follow *follow, const struct sandbox_process *p)
{
	const struct exec_result result = {
		.reason = p->reason, .status = p->status, .flags = p->flags, .wall_us = p->wall_us};
	json_t *event = json_pack("{ss ss ss so}", "type", "exit", "state",
		p->state == WIRE_PROCESS_ENDED ? command_end_state(&result) : "unknown",
		"processId", p->id, "exitCode", json_null());

	if (event && p->state == WIRE_PROCESS_ENDED)
		command_add_end(event, follow->record->memory_mib, &result);
	return follow_put(follow->fd, event);
}

static int put_continue(const struct follow *follow, const struct process_events *events)
{
	return follow_put(follow->fd,
		json_pack("{ss ss sI}", "type", "continue", "processId", follow->process_id,
			"cursor", (json_int_t)process_events_told(events)));
}

/* one answer of the monitor: 1 once all is told */
static int step(const struct follow *follow, struct process_events *events, int64_t deadline,
	struct error *err)
{
	int64_t left = deadline == CLOCK_NEVER ? -1 : deadline - clock_ms();
	struct output_spec spec = {.id = follow->process_id,
		.cursor = events->cursor,
		.most = PIECE_MOST,
		.wait_ms = left < 0 && deadline != CLOCK_NEVER ? 0 : left,
		.cancel_fd = follow->fd, /* it becomes "readable" when its reader goes away */
		.on_piece = process_events_piece,
		.context = events};
	struct sandbox_process p = {0};
	int r = sandbox_process_output(follow->sandbox, &spec, &p, err);
	bool over = !r && p.state >= WIRE_PROCESS_ENDED && events->cursor >= p.output_end;

	if (over) {
		r = process_events_flush(events);
		if (!r)
			r = put_exit(follow, &p);
	} else if (!r && deadline != CLOCK_NEVER && clock_ms() >= deadline) {
		over = true;
		r = put_continue(follow, events);
	}
	sandbox_process_fini(&p);
	return r ? r : over;
}

bool follow_process(const struct follow *follow)
{
	struct process_events events = {.put = put,
		.context = (void *)(uintptr_t)follow,
		.base64 = follow->base64,
		.cursor = follow->cursor};
	int64_t deadline = clock_deadline_ms(follow->most_ms);
	struct error err = {0};
	int r;

	do {
		r = step(follow, &events, deadline, &err);
	} while (r == 0);
	if (r == -EPIPE || r == -EINTR)
		return false;
	return r > 0 || follow_put_failure(follow, r, &err) == 0;
}
