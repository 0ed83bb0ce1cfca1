/* SPDX-License-Identifier: Apache-2.0 - unit tests of base/error.h. */
#include "base/error.h"

#include "unit.h"

#include <errno.h>
#include <string.h>

static void sets_code_and_message(void **state)
{
	struct error err = {0};

	assert_string_equal(error_message(&err), "no error");
	assert_string_equal(error_message(NULL), "no error");
	assert_int_equal(error_set(&err, -EINVAL, "line %d", 7), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	assert_string_equal(error_message(&err), "line 7");
	/* a positive errno, and a zero that would read as success */
	assert_int_equal(error_set(&err, ENOENT, "x"), -ENOENT);
	assert_int_equal(error_set(&err, 0, "x"), -EIO);
	assert_int_equal(err.code, -EIO);
}

static void works_without_a_place(void **state)
{
	assert_int_equal(error_set(NULL, -EPERM, "x"), -EPERM);
	assert_int_equal(error_sys(NULL, EPERM, "x"), -EPERM);
	assert_int_equal(error_prefix(NULL, "x"), -EIO);
}

static void names_the_system_error(void **state)
{
	struct error err = {0};

	assert_int_equal(error_sys(&err, ENOENT, "%s", "/x"), -ENOENT);
	assert_string_equal(err.message, "/x: No such file or directory");
	assert_int_equal(error_sys(&err, -ENOENT, "%s", "/y"), -ENOENT);
	assert_string_equal(err.message, "/y: No such file or directory");
}

static void puts_context_in_front(void **state)
{
	struct error err = {0};

	error_set(&err, -EINVAL, "bad");
	assert_int_equal(error_prefix(&err, "file %s", "a"), -EINVAL);
	assert_int_equal(error_prefix(&err, "run"), -EINVAL);
	assert_string_equal(err.message, "run: file a: bad");
	/* the old message may be an argument of the new one */
	error_set(&err, -EINVAL, "bad");
	error_prefix(&err, "was %s", err.message);
	assert_true(strstr(err.message, ": bad") != NULL);
}

static void cuts_long_messages(void **state)
{
	char longer[2000];
	struct error err = {0};

	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	error_set(&err, -EINVAL, "%s", longer);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	error_prefix(&err, "%s", longer);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	error_sys(&err, -EINVAL, "%s", longer);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	assert_int_equal(err.code, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_code_and_message),
		cmocka_unit_test(works_without_a_place),
		cmocka_unit_test(names_the_system_error),
		cmocka_unit_test(puts_context_in_front),
		cmocka_unit_test(cuts_long_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
