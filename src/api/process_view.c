/* SPDX-License-Identifier: Apache-2.0 - processes as the API shows them, and events of their
 * output.
 */
#include "api/command.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND_SHOWN 256 /* bytes of a command line in lists */

/* --- what it is --- */

bool process_is_watch(const char *id)
{
	return text_starts(id, WATCH_PREFIX);
}

static json_t *command_line(const struct command *c)
{
	struct buffer text = {0};
	size_t n;
	bool exact;
	json_t *json;

	for (const char **arg = c->argv; *arg && buffer_length(&text) < COMMAND_SHOWN; arg++) {
		if (arg != c->argv)
			buffer_add_text(&text, " ");
		buffer_add_text(&text, *arg);
	}
	n = buffer_length(&text) < COMMAND_SHOWN ? buffer_length(&text) : COMMAND_SHOWN;
	while (n && n < buffer_length(&text) && (buffer_bytes(&text)[n] & 0xc0) == 0x80)
		n--; /* not within a letter */
	json = api_guest_text(buffer_bytes(&text), n, &exact);
	buffer_fini(&text);
	return json;
}

char *process_about(const struct command *c)
{
	json_t *about = json_pack("{so ss ss ss}", "command", command_line(c), "cwd", c->cwd,
		"user", c->user, "outputEncoding", c->base64 ? "base64" : "utf8");
	char *text = about ? json_dumps(about, JSON_COMPACT) : NULL;

	json_decref(about);
	if (text && strlen(text) >= COMMAND_ABOUT)
		text[0] = 0; /* a path of many odd letters: nothing is shown of it */
	return text;
}

static json_t *read_about(const struct sandbox_process *p)
{
	json_t *about = json_loads(p->about ? p->about : "", 0, NULL);

	return about ? about : json_object();
}

bool process_wants_base64(const struct sandbox_process *p)
{
	json_t *about = read_about(p);
	bool wants = strcmp(request_text(about, "outputEncoding", ""), "base64") == 0;

	json_decref(about);
	return wants;
}

static const char *state_name(const struct sandbox_process *p)
{
	const struct exec_result result = {.reason = p->reason};

	switch (p->state) {
	case WIRE_PROCESS_STARTING:
	case WIRE_PROCESS_RUNNING:
		return "running";
	case WIRE_PROCESS_ENDED:
		return command_end_state(&result);
	case WIRE_PROCESS_LOST:
	case WIRE_PROCESS_STATES:
	default:
		return "unknown";
	}
}

json_t *process_json(const struct sandbox_process *p, uint32_t memory_mib)
{
	const struct exec_result result = {
		.reason = p->reason, .status = p->status, .flags = p->flags, .wall_us = p->wall_us};
	json_t *about = read_about(p);
	json_t *out = json_pack("{ss ss ss ss ss ss so so sI sI sb si}", "id", p->id, "state",
		state_name(p), "command", request_text(about, "command", ""), "cwd",
		request_text(about, "cwd", ""), "user", request_text(about, "user", "sandbox"),
		"outputEncoding", request_text(about, "outputEncoding", "utf8"), "startedAt",
		api_time(p->started_ms), "endedAt", api_time(p->ended_ms), "outputBytes",
		(json_int_t)p->output_end, "stdinOffset", (json_int_t)p->input_bytes, "stdinOpen",
		p->input_open, "pid", (int)p->pid);

	json_decref(about);
	if (!out)
		return NULL;
	json_object_set_new(out, "pty",
		p->cols ? json_pack("{si si}", "cols", (int)p->cols, "rows", (int)p->rows)
			: json_null());
	if (p->state == WIRE_PROCESS_ENDED) {
		command_add_end(out, memory_mib, &result);
	} else {
		json_object_set_new(out, "exitCode", json_null());
		json_object_set_new(out, "timedOut", json_false());
	}
	return out;
}

/* --- events of output --- */

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

static int put_text(struct process_events *e, enum wire_channel channel, uint64_t offset,
	const void *bytes, size_t count)
{
	bool exact = true;
	json_t *event;
	char *base64;

	if (!count)
		return 0;
	event = json_pack("{ss so sI}", "type", channel == WIRE_STDERR ? "stderr" : "stdout",
		"data", api_guest_text(bytes, count, &exact), "offset", (json_int_t)offset);
	if (event && (!exact || e->base64)) {
		base64 = api_base64(bytes, count);
		json_object_set_new(event, "base64", base64 ? json_string(base64) : NULL);
		free(base64);
	}
	return event ? e->put(e->context, event) : -ENOMEM;
}

uint64_t process_events_told(const struct process_events *e)
{
	return e->cursor - e->rest.count;
}

int process_events_flush(struct process_events *e)
{
	size_t count = e->rest.count;
	uint64_t offset = process_events_told(e);

	e->rest.count = 0;
	return put_text(e, e->rest.channel, offset, e->rest.bytes, count);
}

static int put_gap(struct process_events *e, uint64_t offset)
{
	uint64_t dropped = offset - e->cursor;

	e->cursor = offset;
	return e->put(e->context, json_pack("{ss sI sI}", "type", "truncated", "droppedBytes",
					  (json_int_t)dropped, "resumeAt", (json_int_t)offset));
}

/* the letter that began before goes first */
static int put_joined(
	struct process_events *e, enum wire_channel channel, const void *bytes, size_t count)
{
	uint64_t offset = process_events_told(e);
	struct buffer whole = {0};
	size_t left;
	int r = buffer_add(&whole, e->rest.bytes, e->rest.count);

	if (!r)
		r = buffer_add(&whole, bytes, count);
	if (!r) {
		count = buffer_length(&whole);
		left = e->base64 ? 0 : unfinished(buffer_bytes(&whole), count);
		e->cursor = offset + count;
		e->rest.count = left;
		e->rest.channel = channel;
		memcpy(e->rest.bytes, buffer_bytes(&whole) + count - left, left);
		r = put_text(e, channel, offset, buffer_bytes(&whole), count - left);
	}
	buffer_fini(&whole);
	return r;
}

int process_events_piece(
	void *events, enum wire_channel channel, uint64_t offset, const void *bytes, size_t count)
{
	struct process_events *e = events;
	int r = 0;

	if (!count || offset < e->cursor)
		return 0;
	if (e->rest.count && (e->rest.channel != channel || offset != e->cursor))
		r = process_events_flush(e);
	if (!r && offset > e->cursor)
		r = put_gap(e, offset);
	return r ? r : put_joined(e, channel, bytes, count);
}
