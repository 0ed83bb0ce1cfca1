/* SPDX-License-Identifier: Apache-2.0 - from how a program ended to its verdict. */
#ifndef SEALMARK_GRADE_CLASSIFY_H
#define SEALMARK_GRADE_CLASSIFY_H

#include "base/buffer.h"
#include "grade/assignment.h"
#include "grade/verdict.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>

/*
 * `right`: its output was what was expected. The order of the rules:
 *
 *  1. a limit that ended it, or a time measured over its limit, is that limit's verdict;
 *  2. exit status 0 with the right output is passed;
 *  3. of a failure, what the kernel said (out of memory, disk full, fork refused) and then what the
 *     program's last words say is its cause;
 *  4. a signal that programs are sent (kill) is ended_early, another signal or a status other than
 *     0 is error, even with the right output;
 *  5. nothing printed is ended_early where something was expected, and all else is failed.
 *
 * Rules 3 to 5 only choose between verdicts without points.
 */
enum verdict classify_run(const struct exec_result *run, const struct limits *limits, bool right,
	bool output_expected, struct buffer *detail);

/*
 * True when a program came to its wall limit because the host had no time for its machine: it never
 * waited (its own clock counted CPU time nearly all along) and got much less CPU time than that.
 * Such a run says nothing about the program, so it is a failure of ours, unless it was over its CPU
 * limit all the same.
 */
bool classify_was_starved(const struct exec_result *run, const struct limits *limits);

/* CPU time that counts, in ms: the host's own measure when there is one. */
int64_t classify_cpu_ms(const struct exec_result *run);

/* The cause that the last words of a failed program name; false when they name none. */
bool classify_last_words(const void *bytes, size_t count, enum verdict *out);

/* "SIGSEGV", or "signal 64". */
const char *classify_signal(uint32_t number, char *out, size_t size);

/* True when a measured time lies within 10 % of its limit, so that it must be measured again alone.
 * `sharing`: workers on one CPU (runner.h). */
bool classify_is_near(const struct test_result *t, const struct limits *limits, unsigned sharing);

/* The limits a program runs under, see runner.h. */
struct limits classify_kill_limits(const struct limits *limits, unsigned sharing);

#endif
