/* SPDX-License-Identifier: Apache-2.0 - compare rules, a table of pairs for each. */
#include "grade/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
	const char *expected, *got;
	bool equal;
	const char *detail; /* NULL: not looked at */
};

static void check_bytes(const struct compare *rule, const char *expected, size_t n, const char *got,
	size_t m, bool equal)
{
	/* blocks of exactly the size, so that the sanitizer sees a step too far */
	char *a = malloc(n ? n : 1), *b = malloc(m ? m : 1);

	memcpy(a, expected, n);
	memcpy(b, got, m);
	assert_int_equal(compare_output(rule, a, n, b, m, NULL), equal);
	free(a);
	free(b);
}

static void check(const struct compare *rule, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct row *r = &rows[i];
		struct buffer detail = {0};
		bool equal = compare_output(
			rule, r->expected, strlen(r->expected), r->got, strlen(r->got), &detail);

		if (equal != r->equal)
			fail_msg("%s row %zu: \"%s\" and \"%s\"", compare_name(rule->rule), i,
				r->expected, r->got);
		assert_int_equal(buffer_length(&detail) == 0, equal);
		if (r->detail)
			assert_string_equal(buffer_text(&detail), r->detail);
		buffer_fini(&detail);
		check_bytes(
			rule, r->expected, strlen(r->expected), r->got, strlen(r->got), r->equal);
	}
}
#define CHECK(rule, rows) check(rule, rows, sizeof(rows) / sizeof((rows)[0]))

static void test_exact(void **state)
{
	static const struct compare rule = {.rule = COMPARE_EXACT};
	static const struct row rows[] = {
		{"", "", true, NULL},
		{"a\n", "a\n", true, NULL},
		{"a\n", "a", false, "byte 2: expected \"\\x0a\", got the end of the output"},
		{"a", "a\r", false, NULL},
		{"abc", "axc", false, "byte 2: expected \"bc\", got \"xc\""},
	};

	CHECK(&rule, rows);
}

static void test_lines(void **state)
{
	static const struct compare rule = {.rule = COMPARE_LINES};
	static const struct row rows[] = {
		{"", "", true, NULL},
		{"", "\n \n\r\n", true, NULL},
		{"1\n2\n", "1\n2", true, NULL},
		{"1\n2\n", "1  \r\n2\t\r\n\n\n", true, NULL},
		{"1\n2\n", " 1\n2\n", false, NULL},
		{"1\n\n2\n", "1\n2\n", false, "line 2: expected \"\", got \"2\""},
		{"1\n2\n42\n", "1\n2\n41\n", false, "line 3: expected \"42\", got \"41\""},
		{"1\n2\n", "1\n", false, "line 2: expected \"2\", got the end of the output"},
		{"1\n", "1\n2\n", false, "line 2: expected the end of the output, got \"2\""},
		{"", "x", false, "line 1: expected the end of the output, got \"x\""},
		{"a\rb", "ab", false, NULL},
		{"x", "\x1b[31mx", false, "line 1: expected \"x\", got \"\\x1b[31mx\""},
	};

	CHECK(&rule, rows);
}

static void test_tokens(void **state)
{
	static const struct compare rule = {.rule = COMPARE_TOKENS};
	static const struct row rows[] = {
		{"", " \n", true, NULL},
		{"1 2 3", "1\n2\r\n\t3\v\f", true, NULL},
		{"1 2", "12", false, NULL},
		{"1 2", "1 2 3", false, "word 3: expected the end of the output, got \"3\""},
		{"1.0", "1", false, "word 1: expected \"1.0\", got \"1\""},
	};

	CHECK(&rule, rows);
}

static void test_float(void **state)
{
	static const struct compare rule = {COMPARE_FLOAT, 1e-6, 1e-9, false};
	static const struct compare nan = {COMPARE_FLOAT, 0, 0, true};
	static const struct compare relative = {COMPARE_FLOAT, 0, 1e-3, false};
	static const struct row rows[] = {
		{"1.0", "1", true, NULL},
		{"0.1", "0.1000001", true, NULL},
		{"0.1", "0.100002", false, NULL},
		{"0", "-0", true, NULL},
		{"0", "-0.0e5", true, NULL},
		{"1e3 x", "1000 x", true, NULL},
		{"x", "y", false, NULL},
		{"5", "five", false, NULL},
		{"nan", "nan", false, NULL},
		{"inf", "inf", true, NULL},
		{"inf", "Infinity", true, NULL},
		{"inf", "-inf", false, NULL},
		{"inf", "1e308", false, NULL},
		{"inf", "1e999", true, NULL},
		{"1e308", "1e999", false, NULL},
		{"16", "0x10", false, NULL},
		{"0x10", "0x10", true, NULL},
		{"1.", "1", true, NULL},
		{".5", "0.5", true, NULL},
		{".", "0", false, NULL},
		{"1e", "1", false, NULL},
		{"1e+", "1", false, NULL},
		{"+1", "1", true, NULL},
		{"1,0", "1", false, NULL},
		{"1e10", "10000000001", true, NULL},
		{"1e10", "10000000011", false, NULL},
		{"12345678901234567890", "12345678901234567890", true, NULL},
	};
	static const struct row nans[] = {
		{"nan", "NaN", true, NULL},
		{"nan", "-nan", true, NULL},
		{"nan", "0", false, NULL},
		{"0", "nan", false, NULL},
		{"nan(1)", "nan", false, NULL},
		{"1", "1.0000000000000002", false, NULL},
	};
	static const struct row relatives[] = {
		{"1000", "1001", true, NULL},
		{"1000", "1001.1", false, NULL},
		{"0", "1e-300", false, NULL},
		{"-1000", "-999", true, NULL},
		{"1000", "-1000", false, NULL},
	};

	CHECK(&rule, rows);
	CHECK(&nan, nans);
	CHECK(&relative, relatives);
}

/* T24: zero bytes, what is not UTF-8, lengths around 64 KiB */
static void test_bytes(void **state)
{
	static const size_t sizes[] = {65535, 65536, 65537};
	static const enum compare_rule rules[] = {
		COMPARE_EXACT, COMPARE_LINES, COMPARE_TOKENS, COMPARE_FLOAT};

	for (size_t k = 0; k < 4; k++) {
		const struct compare rule = {.rule = rules[k], .absolute = 1, .relative = 1};

		check_bytes(&rule, "a\0b", 3, "a\0b", 3, true);
		check_bytes(&rule, "a\0b", 3, "a\0c", 3, false);
		check_bytes(&rule, "a\0b", 3, "a", 1, false);
		check_bytes(&rule, "1\0", 2, "1", 1, false);
		check_bytes(&rule, "\xff\xfe", 2, "\xff\xfe", 2, true);
		check_bytes(&rule, "\xff\xfe", 2, "\xff\xfd", 2, false);
		for (size_t i = 0; i < 3; i++) {
			char *a = malloc(sizes[i]), *b = malloc(sizes[i]);

			memset(a, '7', sizes[i]);
			memset(b, '7', sizes[i]);
			check_bytes(&rule, a, sizes[i], b, sizes[i], true);
			check_bytes(&rule, a, sizes[i], b, sizes[i] - 1, false);
			memcpy(a + 65534, "\xc3", 1);
			check_bytes(&rule, a, sizes[i], b, sizes[i], false);
			free(a);
			free(b);
		}
	}
}

/* A long piece is cut, and not within a character. */
static void test_cut(void **state)
{
	static const struct compare rule = {.rule = COMPARE_LINES};
	struct buffer detail = {0};
	char text[200];

	memset(text, 'a', sizeof(text));
	memcpy(text + 59, "\xc3\xa9", 2);
	assert_false(compare_output(&rule, text, sizeof(text), "b", 1, &detail));
	assert_non_null(strstr(buffer_text(&detail), "aaa\"…, got \"b\""));
	assert_null(strstr(buffer_text(&detail), "\xef\xbf\xbd"));
	buffer_fini(&detail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_float),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
