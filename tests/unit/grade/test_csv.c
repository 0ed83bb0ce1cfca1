/* SPDX-License-Identifier: Apache-2.0 - CSV cells: quoting, formulas, bytes that are not UTF-8. */
#include "base/csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_text(void **state)
{
	static const struct {
		const char *text;
		size_t count;
		const char *cell;
	} rows[] = {
		{"plain", 5, "plain"},
		{"", 0, ""},
		{"Smith, \"Jr.\"", 12, "\"Smith, \"\"Jr.\"\"\""},
		{"two\nlines", 9, "\"two\nlines\""},
		{" edge", 5, "\" edge\""},
		{"\xe6\x9d\x8e", 3, "\xe6\x9d\x8e"},
		{"=HYPERLINK(\"x\")", 15, "\"'=HYPERLINK(\"\"x\"\")\""},
		{"+1", 2, "'+1"},
		{"-rf", 3, "'-rf"},
		{"@cmd", 4, "'@cmd"},
		{"\tx", 2, "\"'\tx\""},
		{"\rx", 2, "\"'\rx\""},
		{"'quoted", 7, "''quoted"},
		{"\xef\xbc\x9d"
		 "1",
			4,
			"'\xef\xbc\x9d"
			"1"},
		{"a=b", 3, "a=b"},
		{"a\xff"
		 "b",
			3,
			"a\xef\xbf\xbd"
			"b"},
		{"a\0b", 3,
			"a\xef\xbf\xbd"
			"b"},
		{"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xc3", 1, "\xef\xbf\xbd"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buffer out = {0};
		struct csv csv = {.out = &out};

		assert_int_equal(csv_add_text(&csv, rows[i].text, rows[i].count), 0);
		assert_string_equal(buffer_text(&out), rows[i].cell);
		buffer_fini(&out);
	}
}

static void test_rows(void **state)
{
	struct buffer out = {0};
	struct csv csv = {.out = &out};

	csv_add(&csv, "a");
	csv_add(&csv, "-1");
	csv_end_row(&csv);
	csv_add(&csv, "");
	csv_add(&csv, "");
	csv_end_row(&csv);
	assert_string_equal(buffer_text(&out), "a,-1\r\n,\r\n");
	buffer_fini(&out);
}

static void test_full(void **state)
{
	struct buffer out;
	struct csv csv = {.out = &out};

	buffer_init(&out, 4);
	assert_true(csv_add(&csv, "12345") < 0);
	buffer_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
