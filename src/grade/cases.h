/* SPDX-License-Identifier: Apache-2.0 - stdio cases: what goes in and what must come out. */
#ifndef SEALMARK_GRADE_CASES_H
#define SEALMARK_GRADE_CASES_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>

struct test_case {
	char *id; /* path below the folder of cases, without ".in" */
	struct buffer input, expected;
};

struct cases {
	struct test_case *list; /* in natural order: 2 before 10 */
	size_t count;
};

#define CASES_MAX       10000u
#define CASES_BYTES_MAX (UINT64_C(256) << 20) /* of all inputs and outputs */

/*
 * All NAME.in with NAME.out or NAME.ans below `folder` of tests_fd. A half of a pair, two answers
 * to one input, and no case at all are errors that name the file; `shown` is the path of TESTS for
 * them.
 */
int cases_load(
	int tests_fd, const char *shown, const char *folder, struct cases *out, struct error *err);
void cases_fini(struct cases *cases);

/* Order of names in which runs of digits count as numbers. */
int cases_natural_order(const char *a, const char *b);

#endif
