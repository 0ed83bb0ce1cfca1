/* SPDX-License-Identifier: Apache-2.0 - unit tests of base/text.h. */
#include "base/text.h"

#include "unit.h"

#include <errno.h>
#include <string.h>

static void copies_within_bounds(void **state)
{
	char out[4];

	assert_int_equal(text_copy(out, sizeof(out), "abc"), 0);
	assert_string_equal(out, "abc");
	assert_int_equal(text_copy(out, sizeof(out), "abcd"), -ENAMETOOLONG);
	assert_string_equal(out, "abc");
	assert_int_equal(text_copy(out, 0, ""), -ENAMETOOLONG);
	assert_int_equal(text_format(out, sizeof(out), "%d", 123), 0);
	assert_int_equal(text_format(out, sizeof(out), "%d", 1234), -ENAMETOOLONG);
	assert_string_equal(out, "123");
}

static void compares_ends(void **state)
{
	assert_true(text_starts("abc", "ab") && text_starts("abc", "") && text_starts("", ""));
	assert_false(text_starts("a", "ab") || text_starts("xab", "ab"));
	assert_true(text_ends("a.py", ".py") && text_ends(".py", ".py") && text_ends("a", ""));
	assert_false(text_ends("py", ".py") || text_ends("a.pyc", ".py"));
}

static void reads_numbers(void **state)
{
	uint64_t v = 42;
	uint32_t w = 42;

	assert_int_equal(text_u64("0", &v), 0);
	assert_true(v == 0);
	assert_int_equal(text_u64("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	v = 42;
	assert_int_equal(text_u64("18446744073709551616", &v), -ERANGE);
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x10", "1.0", "1e3", "a"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_u64(bad[i], &v), -EINVAL);
	assert_true(v == 42);
	assert_int_equal(text_u32("4294967295", &w), 0);
	assert_true(w == UINT32_MAX);
	assert_int_equal(text_u32("4294967296", &w), -ERANGE);
}

static void reads_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {{"512", 512u << 20}, {"512b", 512}, {"64k", 64u << 10}, {"64 KiB", 64u << 10},
		{"256M", 256u << 20}, {"1mb", 1u << 20}, {"2G", UINT64_C(2) << 30},
		{"2gib", UINT64_C(2) << 30}, {"0", 0}};
	static const char *const bad[] = {"", "G", "1.5G", "1T", "-1", "1kk", "1 k b"};
	uint64_t v;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(text_bytes(good[i].text, 1 << 20, &v), 0);
		assert_true(v == good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_bytes(bad[i], 1, &v), -EINVAL);
	assert_int_equal(text_bytes("18446744073709551615G", 1, &v), -ERANGE);
	assert_int_equal(text_bytes("18446744073709551615", 2, &v), -ERANGE);
}

static void reads_durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {{"250ms", 250}, {"10s", 10000}, {"10", 10000}, {"2m", 120000}, {"2min", 120000},
		{"1h", 3600000}, {"1.5s", 1500}, {"1.5", 1500}, {"0.001s", 1}, {"0", 0},
		{"1.0000009s", 1000}, {"2 s", 2000}, {"1.5h", 5400000}};
	static const char *const bad[] = {"", "s", "-1s", "1.", "1.s", ".5s", "1,5s", "1d", "1s2"};
	int64_t v;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(text_duration_ms(good[i].text, &v), 0);
		assert_true(v == good[i].ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_duration_ms(bad[i], &v), -EINVAL);
	assert_int_equal(text_duration_ms("18446744073709551615h", &v), -ERANGE);
	assert_int_equal(text_duration_ms("99999999999999999999", &v), -ERANGE);
	assert_int_equal(text_duration_ms("2562047788016h", &v), -ERANGE);
}

static bool utf8(const char *bytes)
{
	return text_is_utf8(bytes, strlen(bytes));
}

static void knows_utf8(void **state)
{
	assert_true(utf8("") && utf8("abc") && utf8("\xc3\xa9") && utf8("\xe2\x82\xac"));
	assert_true(utf8("\xf0\x9f\x98\x80") && utf8("\xf4\x8f\xbf\xbf") && utf8("\xef\xbf\xbf"));
	assert_true(text_is_utf8("a\0b", 3));
	assert_false(utf8("\x80"));                         /* a continuation alone */
	assert_false(utf8("\xc3") || utf8("\xe2\x82"));     /* cut */
	assert_false(utf8("\xc0\xaf") || utf8("\xc1\xbf")); /* overlong */
	assert_false(utf8("\xe0\x80\xaf") || utf8("\xf0\x80\x80\xaf"));
	assert_false(utf8("\xed\xa0\x80") || utf8("\xed\xbf\xbf"));         /* surrogates */
	assert_false(utf8("\xf4\x90\x80\x80") || utf8("\xf5\x80\x80\x80")); /* too high */
	assert_false(utf8("\xff") || utf8("\xc3("));
}

static void expect_safe(const char *bytes, size_t count, bool keep_lines, const char *want)
{
	struct buffer b = {0};

	assert_int_equal(text_add_safe(&b, bytes, count, keep_lines), 0);
	assert_string_equal(buffer_text(&b), want);
	assert_true(text_is_utf8(buffer_bytes(&b), buffer_length(&b)));
	buffer_fini(&b);
}

static void makes_text_harmless(void **state)
{
	struct buffer small;

	expect_safe("plain \xc3\xa9", 8, false, "plain \xc3\xa9");
	expect_safe("\x1b[31m\a\0", 7, false, "\\x1b[31m\\x07\\x00");
	expect_safe("a\nb\tc\r", 6, false, "a\\x0ab\\x09c\\x0d");
	expect_safe("a\nb\tc\r", 6, true, "a\nb\tc\\x0d");
	expect_safe("\x7f\xc2\x9b", 3, true, "\\x7f\\x9b"); /* DEL, and CSI as one C1 character */
	expect_safe("\xff"
		    "a\xc3",
		3, true,
		"\xef\xbf\xbd"
		"a\xef\xbf\xbd");
	/* right-to-left override, zero width joiner, BOM, line separator, tag letter */
	expect_safe("\xe2\x80\xae", 3, true, "\\u{202e}");
	expect_safe("\xe2\x80\x8d\xef\xbb\xbf", 6, true, "\\u{200d}\\u{feff}");
	expect_safe("\xe2\x80\xa8\xf3\xa0\x81\x81", 7, true, "\\u{2028}\\u{e0041}");
	buffer_init(&small, 3);
	assert_int_equal(text_add_safe(&small, "\x1b", 1, true), -ENOBUFS);
	buffer_fini(&small);
}

static void suggests_the_nearest_name(void **state)
{
	static const char *const names[] = {"grade", "regrade", "show", "setup", "sandbox", NULL};

	assert_string_equal(text_nearest("grde", names), "grade");
	assert_string_equal(text_nearest("gradde", names), "grade");
	assert_string_equal(text_nearest("hsow", names), "show");
	assert_string_equal(text_nearest("sandbx", names), "sandbox");
	assert_null(text_nearest("frobnicate", names));
	assert_null(text_nearest("", names));
	assert_null(text_nearest("ab", names)); /* everything is two edits from two letters */
	assert_null(text_nearest("a name that is longer than any option could ever be", names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_within_bounds),
		cmocka_unit_test(compares_ends),
		cmocka_unit_test(reads_numbers),
		cmocka_unit_test(reads_sizes),
		cmocka_unit_test(reads_durations),
		cmocka_unit_test(knows_utf8),
		cmocka_unit_test(makes_text_harmless),
		cmocka_unit_test(suggests_the_nearest_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
