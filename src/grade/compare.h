/* SPDX-License-Identifier: Apache-2.0 - is what a program printed what was expected? */
#ifndef SEALMARK_GRADE_COMPARE_H
#define SEALMARK_GRADE_COMPARE_H

#include "base/buffer.h"
#include "grade/assignment.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * exact   every byte.
 * lines   white space at the end of lines and empty lines at the end do not count, nor does CR.
 * tokens  the words between ASCII white space.
 * float   tokens; two that are both decimal numbers are equal when they differ by no more than
 *         `absolute`, or by no more than `relative` times the expected one's size. inf equals inf
 * of the same sign, -0 equals 0, a number too large for a double is infinite, NaN equals NaN only
 * with nan_equal. Hexadecimal numbers and all else are compared as text.
 *
 * Bytes are bytes: zero bytes and what is not UTF-8 compare like any other.
 * When different, one line for staff is added to `detail` (may be NULL).
 */
bool compare_output(const struct compare *rule, const void *expected, size_t expected_count,
	const void *got, size_t got_count, struct buffer *detail);

/* "lines" and so on. */
const char *compare_name(enum compare_rule rule);

#endif
