/* SPDX-License-Identifier: Apache-2.0 - each test gets a driver and must leave no descriptor open.
 */
#ifndef SEALMARK_TESTS_VSOCK_FIXTURE_H
#define SEALMARK_TESTS_VSOCK_FIXTURE_H

#include "driver.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
	struct driver driver; /* first: tests take it from *state */
	int fds_before;
};

static inline int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static inline int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->fds_before = count_fds();
	*state = f;
	return 0;
}

/* Tests start the driver themselves, with the sizes they need; this ends it. */
static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	int left;

	driver_stop(&f->driver);
	left = count_fds() - f->fds_before;
	free(f);
	if (left)
		print_error("%d file descriptors were left open\n", left);
	return left;
}

#define fixture_test(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

#endif
