/* SPDX-License-Identifier: Apache-2.0 - a home for sandboxes of a test, and what they leave. */
#ifndef SEALMARK_TESTS_MONITOR_HOME_H
#define SEALMARK_TESTS_MONITOR_HOME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/types.h>

struct home {
	char path[64], script[80];
	char id[40];  /* for a sandbox that the test names itself */
	unsigned fds; /* that this process had open before */
	int first_fd; /* the first that it opens itself */
};

/* As cmocka's setup and teardown with *state a struct home. Orphans become children of the test.
 * The teardown fails when a process, a directory, a cgroup or a descriptor is left. */
int home_setup(void **state);
int home_teardown(void **state);

/* Write home->script; its path. */
const char *home_script(struct home *h, const char *text);
/* Wait until this process has no children, however they came to it. */
void home_wait_for_all(void);
unsigned home_count_fds(void);
/* The children of a process, in the order of their birth; how many. */
size_t home_children(pid_t pid, pid_t *out, size_t most);

#endif
