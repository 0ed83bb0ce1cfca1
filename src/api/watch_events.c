/* SPDX-License-Identifier: Apache-2.0 - watches: from records to events, and lines of them. */
#include "api/watches.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define FOLLOW_MS  110000 /* then the reader is told to go on */
#define LOOK_MS    2000   /* how often it is looked whether the sandbox is paused */
#define PIECE_MOST 131072

/* --- records --- */

static const char *event_name(char letter)
{
	static const struct {
		char letter;
		const char *name;
	} names[] = {
		{'c', "create"}, {'w', "write"}, {'r', "remove"}, {'n', "rename"}, {'a', "chmod"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].letter == letter)
			return names[i].name;
	}
	return NULL;
}

static int add(struct watch_items *items, json_t *item)
{
	return json_array_append_new(items->list, item) ? -ENOMEM : 0;
}

/* A notice knows where its record begins and ends, for lines that have their own cursor. */
static int add_notice_item(struct watch_items *items, json_t *item, uint64_t end)
{
	if (item) {
		json_object_set_new(item, "start", json_integer((json_int_t)items->told));
		json_object_set_new(item, "cursor", json_integer((json_int_t)end));
	}
	return add(items, item);
}

static int add_notice(struct watch_items *items, const char *text)
{
	static const char *const reasons[] = {"stopped", "timeout", "root-removed"};

	if (strcmp(text, "overflow") == 0 || strcmp(text, "limit") == 0)
		return add_notice_item(items, json_pack("{ss}", "k", text), items->cursor);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (text_starts(text, "end ") && strcmp(text + 4, reasons[i]) == 0)
			return add_notice_item(items,
				json_pack("{ss ss}", "k", "end", "reason", reasons[i]),
				items->cursor);
	}
	return 0;
}

static int add_event(struct watch_items *items, const char *record, size_t count)
{
	const char *name = event_name(record[0]);
	bool exact;
	json_t *path, *event;

	if (count < 3 || (record[1] != 'd' && record[1] != 'f') || record[2] != '/')
		return 0;
	path = api_guest_text(record + 2, count - 2, &exact);
	if (record[0] == 'o') {
		json_decref(items->old_path);
		items->old_path = path;
		return path ? 0 : -ENOMEM;
	}
	if (!name) {
		json_decref(path);
		return 0;
	}
	event = json_pack("{ss so sb}", "type", name, "path", path, "isDir", record[1] == 'd');
	if (record[0] == 'n' && items->old_path)
		json_object_set(event, "oldPath", items->old_path);
	json_decref(items->old_path);
	items->old_path = NULL;
	return add(items, event);
}

static int take_record(struct watch_items *items)
{
	const char *record = items->record;
	int r;

	if (items->skip || !items->count)
		r = 0;
	else if (record[0] == '!')
		r = add_notice(items, record + 1);
	else
		r = add_event(items, record, items->count);
	items->skip = false;
	items->count = 0;
	if (!items->old_path)
		items->told = items->cursor;
	return r;
}

int watch_items_piece(
	void *context, enum wire_channel channel, uint64_t offset, const void *bytes, size_t count)
{
	struct watch_items *items = context;
	const char *p = bytes;
	int r = 0;

	if (channel != WIRE_STDOUT || offset < items->cursor)
		return 0;
	if (offset > items->cursor) {
		r = add_notice_item(items,
			json_pack("{ss sI}", "k", "lost", "bytes",
				(json_int_t)(offset - items->told)),
			offset);
		items->cursor = items->told = offset;
		items->count = 0;
		items->skip = true;
	}
	for (size_t i = 0; i < count && !r; i++) {
		items->cursor++;
		if (items->count == sizeof(items->record) - 1)
			items->skip = true;
		else
			items->record[items->count++] = p[i];
		if (p[i])
			continue;
		items->count -= items->count && !items->skip; /* without its end */
		r = take_record(items);
	}
	return r;
}

void watch_items_fini(struct watch_items *items)
{
	json_decref(items->list);
	json_decref(items->old_path);
	items->list = items->old_path = NULL;
}

/* --- lines --- */

static int put_line(int fd, json_t *line, uint64_t cursor)
{
	if (line)
		json_object_set_new(line, "cursor", json_integer((json_int_t)cursor));
	return follow_put(fd, line);
}

static int put_events(int fd, json_t **events, uint64_t cursor)
{
	json_t *line;

	if (!*events)
		return 0;
	line = json_pack("{ss so}", "k", "events", "events", *events);
	*events = NULL;
	return put_line(fd, line, cursor);
}

/* 1: that was the last line */
static int put_items(int fd, struct watch_items *items)
{
	json_t *events = NULL, *item;
	bool last = false;
	size_t i;
	int r = 0;

	json_array_foreach (items->list, i, item) {
		if (json_object_get(item, "type")) {
			events = events ? events : json_array();
			json_array_append(events, item);
			continue;
		}
		r = put_events(fd, &events, (uint64_t)request_integer(item, "start", 0));
		json_object_del(item, "start");
		if (!r)
			r = follow_put(fd, json_incref(item));
		last = strcmp(request_text(item, "k", ""), "end") == 0;
		if (r || last)
			break;
	}
	if (!r)
		r = put_events(fd, &events, items->told);
	json_decref(events);
	json_array_clear(items->list);
	return r ? r : last;
}

static int put_failure(const struct watch_follow *follow, int fd, int r, const struct error *err)
{
	struct request q = {.server = follow->server};
	json_t *line;

	text_copy(q.id, sizeof(q.id), follow->request_id);
	if (r == -ENOENT)
		answer_error(&q, API_NOT_FOUND, NULL, "There is no such watch.");
	else
		command_failure(&q, follow->record, r, err);
	line = json_copy(json_object_get(q.answer, "error"));
	if (line)
		json_object_set_new(line, "k", json_string("failure"));
	json_decref(q.answer);
	return follow_put(fd, line);
}

/* nothing comes: is that because it is paused? 1: said so */
static int look(const struct watch_follow *follow, int fd, uint64_t cursor, struct error *err)
{
	struct sandbox_state state;
	int r = sandbox_state(follow->sandbox, &state, err);

	if (r || !state.paused)
		return r;
	r = put_line(fd, json_pack("{ss}", "k", "paused"), cursor);
	return r ? r : 1;
}

/* one answer of the monitor: 1 once the last line is written */
static int step(const struct watch_follow *follow, int fd, struct watch_items *items,
	int64_t deadline, struct error *err)
{
	int64_t left = deadline - clock_ms();
	struct output_spec spec = {.id = follow->id,
		.cursor = items->cursor,
		.most = PIECE_MOST,
		.wait_ms = left < 0         ? 0
			   : left < LOOK_MS ? left
					    : LOOK_MS,
		.cancel_fd = fd, /* it becomes "readable" when its reader goes away */
		.on_piece = watch_items_piece,
		.context = items};
	struct sandbox_process p = {0};
	uint64_t before = items->cursor;
	int r = sandbox_process_output(follow->sandbox, &spec, &p, err);
	bool over = !r && p.state >= WIRE_PROCESS_ENDED && items->cursor >= p.output_end;

	sandbox_process_fini(&p);
	if (!r)
		r = put_items(fd, items);
	if (!r && over) {
		r = put_line(fd, json_pack("{ss ss}", "k", "end", "reason", "exited"), items->told);
		return r ? r : 1;
	}
	if (!r && items->cursor == before)
		r = look(follow, fd, items->told, err);
	if (!r && clock_ms() >= deadline) {
		r = put_line(fd, json_pack("{ss}", "k", "continue"), items->told);
		return r ? r : 1;
	}
	return r;
}

bool watch_follow(const struct watch_follow *follow, int fd)
{
	struct watch_items items = {
		.list = json_array(), .cursor = follow->cursor, .told = follow->cursor};
	int64_t deadline = clock_deadline_ms(FOLLOW_MS);
	struct error err = {0};
	int r;

	do {
		r = step(follow, fd, &items, deadline, &err);
	} while (r == 0);
	watch_items_fini(&items);
	if (r == -EPIPE || r == -EINTR)
		return false;
	return r > 0 || put_failure(follow, fd, r, &err) == 0;
}
