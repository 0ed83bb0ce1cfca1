/* SPDX-License-Identifier: Apache-2.0 - patterns of file names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/glob.h"

#include <string.h>

static void patterns_match(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} cases[] = {
		{"*.py", "a.py", true},
		{"*.py", "d/a.py", false},
		{"**/*.py", "a.py", true},
		{"**/*.py", "d/e/a.py", true},
		{"**/*.py", "d/e/a.pyc", false},
		{"d/**", "d/e/f", true},
		{"d/**", "d", true},
		{"d/**/f", "d/f", true},
		{"d/**/f", "d/x/y/f", true},
		{"d/**/f", "e/x/f", false},
		{"**", "a/b", true},
		{"a?c", "abc", true},
		{"a?c", "a/c", false},
		{"[ab].txt", "b.txt", true},
		{"[!ab].txt", "b.txt", false},
		{"[a-c]x", "bx", true},
		{"[", "[", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false},
		{"", "a", false},
		{"a/", "a", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (glob_matches(cases[i].pattern, cases[i].path) != cases[i].matches)
			fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].path);
	}
}

/* what makes a recursive matcher take for ever; an alarm would end this test */
static void hostile_patterns_cost_little(void **state)
{
	char pattern[1001], path[4001];

	for (size_t i = 0; i < 1000; i++)
		pattern[i] = i % 2 ? '*' : 'a';
	pattern[1000] = 0;
	pattern[998] = 'b';
	memset(path, 'a', 4000);
	path[4000] = 0;
	assert_false(glob_matches(pattern, path));
	for (size_t i = 0; i < 60; i++)
		memcpy(pattern + 3 * i, "**/", 3);
	memcpy(pattern + 180, "x", 2);
	for (size_t i = 0; i < 60; i++)
		memcpy(path + 2 * i, "a/", 2);
	memcpy(path + 120, "a", 2);
	assert_false(glob_matches(pattern, path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match),
		cmocka_unit_test(hostile_patterns_cost_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
