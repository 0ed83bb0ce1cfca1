/* SPDX-License-Identifier: Apache-2.0 - records of watches: whole, cut, lost and made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/watches.h"

#include <stdlib.h>
#include <string.h>

static struct watch_items items;

static int setup(void **state)
{
	memset(&items, 0, sizeof(items));
	items.list = json_array();
	return 0;
}

static int teardown(void **state)
{
	watch_items_fini(&items);
	return 0;
}

static void piece(uint64_t offset, const char *bytes, size_t count)
{
	assert_int_equal(watch_items_piece(&items, WIRE_STDOUT, offset, bytes, count), 0);
}

static void expect(const char *json)
{
	char *text = json_dumps(items.list, JSON_COMPACT);

	assert_string_equal(text, json);
	free(text);
	json_array_clear(items.list);
}

#define PIECE(offset, text) piece(offset, text, sizeof(text) - 1)

static void in_any_pieces(void **state)
{
	static const char records[] = "cf/a\0od/x\0nd/y\0!limit\0wf/\xff\0";

	for (size_t n = 1; n < sizeof(records); n++) {
		setup(state);
		for (size_t at = 0; at < sizeof(records) - 1; at += n)
			piece(at, records + at,
				n < sizeof(records) - 1 - at ? n : sizeof(records) - 1 - at);
		assert_int_equal(items.told, sizeof(records) - 1);
		expect("[{\"type\":\"create\",\"path\":\"/a\",\"isDir\":false},"
		       "{\"type\":\"rename\",\"path\":\"/y\",\"isDir\":true,\"oldPath\":\"/x\"},"
		       "{\"k\":\"limit\",\"start\":15,\"cursor\":22},"
		       "{\"type\":\"write\",\"path\":\"/\xef\xbf\xbd\",\"isDir\":false}]");
		teardown(state);
	}
}

/* the next answer begins with the first half of a rename, not behind it */
static void a_rename_is_one(void **state)
{
	PIECE(0, "cf/a\0of/a\0nf/");
	assert_int_equal(items.told, 5);
}

static void what_is_lost(void **state)
{
	PIECE(0, "cf/a\0cf/b");
	PIECE(100, "/rest\0cf/c\0");
	expect("[{\"type\":\"create\",\"path\":\"/a\",\"isDir\":false},"
	       "{\"k\":\"lost\",\"bytes\":95,\"start\":5,\"cursor\":100},"
	       "{\"type\":\"create\",\"path\":\"/c\",\"isDir\":false}]");
	assert_int_equal(items.told, 111);
	PIECE(0, "cf/a\0"); /* what came before */
	expect("[]");
}

static void what_is_no_record(void **state)
{
	static char huge[3 * WATCH_RECORD];

	PIECE(0, "\0x\0/rest\0cx/a\0zf/a\0cfa\0!\0!end\0!end why\0!overflow!\0cf\0");
	expect("[]");
	memset(huge, 'c', sizeof(huge));
	piece(items.cursor, huge, sizeof(huge));
	piece(items.cursor, "", 1);
	piece(items.cursor, "cf/a", 5);
	expect("[{\"type\":\"create\",\"path\":\"/a\",\"isDir\":false}]");
	assert_int_equal(items.told, items.cursor);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_any_pieces),
		test(a_rename_is_one),
		test(what_is_lost),
		test(what_is_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
