/* SPDX-License-Identifier: Apache-2.0 - stdio cases: pairs, order, and halves of pairs. */
#include "grade/cases.h"

#include "folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[PATH_MAX];
static int fd;

static int set_up(void **state)
{
	folder_new(folder, sizeof(folder));
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0;
}

static int tear_down(void **state)
{
	close(fd);
	folder_remove(folder);
	return 0;
}

static void test_load(void **state)
{
	struct cases cases;
	struct error err = {0};

	folder_put(folder, "c/10.in", "ten");
	folder_put(folder, "c/10.out", "TEN");
	folder_put(folder, "c/9.in", "");
	folder_put(folder, "c/9.ans", "NINE");
	folder_put_bytes(folder, "c/sub/a b.in", "\0\xff", 2);
	folder_put(folder, "c/sub/a b.out", "");
	folder_put(folder, "c/notes.txt", "no case");
	assert_int_equal(cases_load(fd, "T", "c", &cases, &err), 0);
	assert_int_equal(cases.count, 3);
	assert_string_equal(cases.list[0].id, "9");
	assert_string_equal(cases.list[1].id, "10");
	assert_string_equal(cases.list[2].id, "sub/a b");
	assert_int_equal(buffer_length(&cases.list[2].input), 2);
	assert_int_equal(buffer_length(&cases.list[2].expected), 0);
	assert_memory_equal(buffer_bytes(&cases.list[1].expected), "TEN", 3);
	cases_fini(&cases);
}

static void expect_error(int code, const char *message)
{
	struct cases cases;
	struct error err = {0};

	assert_int_equal(cases_load(fd, "T", ".", &cases, &err), code);
	assert_int_equal(cases.count, 0);
	if (!strstr(err.message, message))
		fail_msg("%s", err.message);
}

static void test_halves(void **state)
{
	expect_error(-ENOENT, "T: holds no cases");
	folder_put(folder, "01.in", "");
	expect_error(-ENOENT, "T/01.in: has no answer; put 01.out or 01.ans beside it");
	folder_put(folder, "01.out", "");
	folder_put(folder, "01.ans", "");
	expect_error(-EEXIST, "T/01.in: has two answers, 01.out and 01.ans; remove one");
	assert_int_equal(unlinkat(fd, "01.ans", 0), 0);
	folder_put(folder, "02.out", "");
	expect_error(-ENOENT, "T/02.out: has no input; put 02.in beside it");
	assert_int_equal(unlinkat(fd, "02.out", 0), 0);
	/* an answer that is a link is no answer */
	assert_int_equal(unlinkat(fd, "01.out", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", fd, "01.out"), 0);
	expect_error(-ENOENT, "T/01.in: has no answer");
}

static void test_order(void **state)
{
	static const char *const sorted[] = {
		"", "0", "1", "01", "1a", "2", "9x", "10", "10b", "a", "a2", "a10", "a10b", "b"};
	size_t n = sizeof(sorted) / sizeof(sorted[0]);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n; k++) {
			int order = cases_natural_order(sorted[i], sorted[k]);

			/* 01 and 1 stand together, in one order or the other */
			if ((order > 0) - (order < 0) != (i > k) - (i < k) &&
				!(i + k == 5 && i >= 2 && k >= 2))
				fail_msg("%s %s: %d", sorted[i], sorted[k], order);
			assert_int_equal((order > 0) - (order < 0),
				(cases_natural_order(sorted[k], sorted[i]) < 0) -
					(cases_natural_order(sorted[k], sorted[i]) > 0));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_load, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_halves, set_up, tear_down),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
