/* SPDX-License-Identifier: Apache-2.0 - the examiner's report: lines of JSON, read with distrust.
 */
#ifndef SEALMARK_GRADE_SUITE_REPORT_H
#define SEALMARK_GRADE_SUITE_REPORT_H

#include "base/buffer.h"
#include "base/error.h"
#include "grade/runner.h"
#include "grade/verdict.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The report comes over a channel that the student's processes do not have. It is checked all the
 * same: only expected ids count, each once; two canaries must be there and must not have passed;
 * and a proof (HMAC over all ids and verdicts, keyed with a nonce of this run) must end it. What
 * breaks a rule can only lower a result.
 */
#define SUITE_LINE_MAX   (256u << 10)
#define SUITE_TESTS_MAX  20000u
#define SUITE_ID_MAX     2000u
#define SUITE_NONCE_SIZE 65 /* 64 hexadecimal digits and a terminator */
#define SUITE_TEXT_SIZE  1024

struct suite_report {
	struct submission_result *result; /* holds a test for each expected id, in their order */
	char nonce[SUITE_NONCE_SIZE];
	struct buffer line;   /* what came of the current line */
	struct buffer sealed; /* what the proof is over */
	bool *seen;           /* by test: it has a verdict */
	bool *judged;         /* by test: its times were judged */
	size_t next;          /* where the next test is looked for first */
	size_t running;       /* began and is not reported; SIZE_MAX: none */
	size_t reported;
	unsigned canaries; /* bit 0: the first was reported, bit 1: the last */
	bool canary_passed;
	bool line_too_long; /* the rest of it is dropped */
	bool began;         /* a test of the teacher's was started */
	bool done, proven;
	bool starved;          /* verdicts were taken back, see suite_report_forget_starved() */
	uint64_t guest_cpu_us; /* of the whole exec, by the guest's clock; 0: not said */
	unsigned strange;      /* lines that break a rule */
	char broken[SUITE_TEXT_SIZE]; /* what the examiner says of a failure of ours */
	char error[SUITE_TEXT_SIZE];  /* what it says is wrong with the tests */
};

/* The tests must have been added to result. 0 or -ENOMEM. */
int suite_report_init(struct suite_report *r, struct submission_result *result, const char *nonce);
void suite_report_fini(struct suite_report *r);

/* The examiner was ended in the middle; another one, with this nonce, runs the tests that are left.
 * What was reported stays. 0 or -ENOMEM. */
int suite_report_again(struct suite_report *r, const char *nonce);

/* Bytes as they come. 0 or -ENOMEM. */
int suite_report_take(struct suite_report *r, const void *bytes, size_t count);

/*
 * The report has ended. True when it is whole: every expected id, canaries and proof. When it was
 * tampered with, no test of the result is passed after this call.
 */
bool suite_report_end(struct suite_report *r);

/*
 * Take back the verdicts of a whole report that only say how busy the host was: a test was ended
 * for its time, and of the CPU time that the guest's clock counted the host gave less than half,
 * which is also less than half of what the test may use. Returns how many are to be run again;
 * *share: how much of a second of the guest's clock was given, for limits that allow for it.
 */
size_t suite_report_forget_starved(
	struct suite_report *r, const struct limits *limits, uint64_t host_cpu_us, double *share);

/*
 * Judge the times of a report that has ended. The guest's clock runs on while the host does other
 * things; `host_cpu_us` is the host's measure of the same exec (0: none), and times are brought to
 * it in proportion. A test over a limit has that limit's verdict even when it ended by itself. One
 * that was ended for a time which then proves to be below the limit is put at the limit, where the
 * run measures it again alone.
 */
void suite_report_judge_times(
	struct suite_report *r, const struct limits *limits, uint64_t host_cpu_us);

/* The report of a collection: what the tests import, and their ids. */
struct suite_collection {
	char framework[16];
	char **modules; /* module_count names */
	size_t module_count;
	struct runner_test *tests; /* points are 0 */
	size_t test_count;
};
/* Errors of the tests are -EINVAL with the examiner's message; -EPROTO: no whole report. */
int suite_collection_read(
	const void *bytes, size_t count, struct suite_collection *out, struct error *err);
void suite_collection_fini(struct suite_collection *c);

#endif
