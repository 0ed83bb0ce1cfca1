/* SPDX-License-Identifier: Apache-2.0 - fuzzes the records of a watched folder, which are a guest's
 * bytes: items are what they may be, and the same however the bytes are cut. */
#include "api/watches.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_event(const json_t *event)
{
	static const char *const types[] = {"create", "write", "remove", "rename", "chmod"};
	const char *type = json_string_value(json_object_get(event, "type"));
	const char *path = json_string_value(json_object_get(event, "path"));
	const json_t *old = json_object_get(event, "oldPath");
	size_t i = 0;

	while (i < 5 && strcmp(types[i], type) != 0)
		i++;
	check(i < 5 && path && path[0] == '/');
	check(json_is_boolean(json_object_get(event, "isDir")));
	check(!old || (strcmp(type, "rename") == 0 && json_string_value(old)[0] == '/'));
}

static void check_notice(const json_t *notice)
{
	const char *kind = json_string_value(json_object_get(notice, "k"));

	check(kind && (!strcmp(kind, "overflow") || !strcmp(kind, "limit") ||
			      !strcmp(kind, "end") || !strcmp(kind, "lost")));
	check(json_integer_value(json_object_get(notice, "start")) <=
		json_integer_value(json_object_get(notice, "cursor")));
}

static json_t *read_records(const uint8_t *bytes, size_t count, size_t piece, uint64_t gap)
{
	struct watch_items items = {.list = json_array()};
	uint64_t offset = 0;
	const json_t *item;
	size_t i;

	for (size_t at = 0; at < count; at += piece) {
		size_t n = count - at < piece ? count - at : piece;

		if (at == piece)
			offset += gap;
		check(watch_items_piece(&items, WIRE_STDOUT, offset, bytes + at, n) == 0);
		offset += n;
		check(items.cursor == offset && items.told <= items.cursor);
	}
	json_array_foreach (items.list, i, item) {
		if (json_object_get(item, "type"))
			check_event(item);
		else
			check_notice(item);
	}
	json_incref(items.list);
	item = items.list;
	watch_items_fini(&items);
	return (json_t *)(uintptr_t)item;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	json_t *whole, *pieces;

	if (!count)
		return 0;
	whole = read_records(bytes, count, count, 0);
	pieces = read_records(bytes, count, 7, 0);
	check(json_equal(whole, pieces));
	json_decref(whole);
	json_decref(pieces);
	json_decref(read_records(bytes, count, 7, 1000));
	return 0;
}
