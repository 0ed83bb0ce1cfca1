/* SPDX-License-Identifier: Apache-2.0 - a machine for jail tests, and where it runs. */
#ifndef SEALMARK_TESTS_JAIL_FIXTURE_H
#define SEALMARK_TESTS_JAIL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/jail.h"

#define FIXTURE_PROCESSES 64
#define FIXTURE_MEMORY    (8u << 20)

struct fixture {
	char dir[64];
	char image[96], program[96], socket[96];
	struct engine_plan plan;
	struct jail_spec spec;
	int listen_fd;
	int console; /* read end */
	int console_write;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* argv[1], argv[2] of the inmate; either may be NULL */
void fixture_mode(struct fixture *f, const char *mode, const char *what);
/* Start it, which must succeed. Our copy of the console's write end is closed. */
void fixture_start(struct fixture *f, struct jail_machine *m);
/* All the machine says until nothing holds its console any more, at most 10 s; static text. */
const char *fixture_read(struct fixture *f);
/* One line, without its end. */
void fixture_line(struct fixture *f, char *out, size_t size);
/* Wait for pid 1: its exit status. */
int fixture_wait(struct jail_machine *m, struct rusage *usage);
/* Start, read all, wait. */
const char *fixture_run(struct fixture *f, const char *mode, const char *what, int *status);

/* Run the group as we are, and as root once more in a child with uid 65534. main()'s status. */
int fixture_groups(int argc, char **argv, int (*group)(void));
/* The compiled inmate: argv[1] of the test. */
extern const char *fixture_inmate;

#endif
