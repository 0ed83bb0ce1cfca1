/* SPDX-License-Identifier: Apache-2.0 - each test gets a driver and must leave no descriptor open.
 */
#ifndef SEALMARK_TESTS_VSOCK_FIXTURE_H
#define SEALMARK_TESTS_VSOCK_FIXTURE_H

#include "driver.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
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

/* One attack each: done to a driver that is as far as `start` says. */
enum start { FRESH, SET_UP, CONNECTED };

struct attack {
	void (*run)(struct driver *d);
	enum start start;
	const char *fault; /* what vsock_fault() must say */
};

static inline void cut_off(struct driver *d, const struct attack *a)
{
	struct pollfd p = {.events = POLLIN};

	driver_start(d, 64);
	if (a->start == SET_UP)
		driver_setup(d, 1024);
	else if (a->start == CONNECTED)
		driver_connect(d, 1024);
	else
		assert_int_equal(driver_pump(d), 0);
	a->run(d);
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_non_null(vsock_fault(d->vsock));
	assert_string_equal(vsock_fault(d->vsock), a->fault);
	assert_true(vsock_was_breach(d->vsock));
	assert_false(vsock_connected(d->vsock));
	/* for good: nothing moves any more, and the loop keeps being told */
	assert_int_equal(vsock_write(d->vsock, "x", 1), 0);
	p.fd = vsock_fd(d->vsock);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(vsock_pump(d->vsock), -ECONNRESET);
}

static inline void cut_off_each(struct fixture *f, const struct attack *attacks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		cut_off(&f->driver, &attacks[i]);
		driver_stop(&f->driver);
		assert_int_equal(count_fds(), f->fds_before);
	}
	driver_start(&f->driver, 64); /* for the teardown */
}

#define fixture_test(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

#endif
