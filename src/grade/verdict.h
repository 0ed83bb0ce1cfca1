/* SPDX-License-Identifier: Apache-2.0 - verdicts, trust levels and results: the words of a grade.
 */
#ifndef SEALMARK_GRADE_VERDICT_H
#define SEALMARK_GRADE_VERDICT_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Verdicts of one test. Only PASSED earns points. V(NAME, name, what it says) */
#define VERDICTS(V)                                                                                \
	V(PASSED, passed, "passed")                                                                \
	V(FAILED, failed, "wrong answer")                                                          \
	V(ERROR, error, "exception or crash")                                                      \
	V(CPU_LIMIT, cpu_limit, "CPU time limit")                                                  \
	V(WALL_LIMIT, wall_limit, "wall time limit")                                               \
	V(MEMORY_LIMIT, memory_limit, "memory limit")                                              \
	V(OUTPUT_LIMIT, output_limit, "output limit")                                              \
	V(DISK_LIMIT, disk_limit, "disk limit")                                                    \
	V(PROCESS_LIMIT, process_limit, "process limit")                                           \
	V(ENDED_EARLY, ended_early, "the program left before answering")                           \
	V(SKIPPED, skipped, "skipped")                                                             \
	V(NOT_RUN, not_run, "not run")                                                             \
	V(INFRA, infra, "a failure of the grading system")

enum verdict {
#define V(NAME, name, text) VERDICT_##NAME,
	VERDICTS(V)
#undef V
		VERDICT_COUNT
};
const char *verdict_name(enum verdict v);              /* "cpu_limit" */
const char *verdict_text(enum verdict v);              /* "CPU time limit" */
int verdict_find(const char *name, enum verdict *out); /* -ENOENT */

/* Statuses of one submission. Pending: not graded yet; tables have it and no record ever does. */
enum submission_status {
	SUBMISSION_GRADED,
	SUBMISSION_REJECTED,
	SUBMISSION_INFRA,
	SUBMISSION_PENDING,
	SUBMISSION_STATUSES
};
const char *submission_status_name(enum submission_status s);

/* How far a verdict can be trusted; higher is stronger. */
enum trust { TRUST_OPEN, TRUST_GUARDED, TRUST_SEALED };
const char *trust_name(enum trust t);

/* A piece of output kept: head and tail, with what was between dropped. Bytes as produced. */
#define OUTPUT_HEAD 4096u
#define OUTPUT_TAIL 4096u
struct output_kept {
	struct buffer head, tail;
	uint64_t total_bytes; /* produced, with what was not kept */
	bool cut;             /* something is missing: between head and tail, or by the limit */
};
void output_kept_add(struct output_kept *o, const void *bytes, size_t count);
void output_kept_fini(struct output_kept *o);

struct test_result {
	char *id; /* as in the assignment: "test_hw.TestAdd.test_small", "03" */
	enum verdict verdict;
	double points, max_points;
	char *detail; /* one or a few lines for staff; may hold student bytes, made UTF-8 */
	int64_t cpu_ms, wall_ms;
	uint64_t memory_peak_bytes;
	struct output_kept out, err;
	char answer_digest[HASH_HEX_SIZE]; /* of the answer as it was compared; "" where none was */
};

/* What one submission's run gives. All zero is empty. */
struct submission_result {
	enum submission_status status;
	char *note; /* for the gradebook: why rejected, what was cheated, limits hit */
	struct test_result *tests;
	size_t test_count;
	double score, max_score;
	enum trust trust;
	char isolation[160];
	char engine[16], kernel[80];
	uint64_t machine_cpu_us; /* of the whole machine, measured on the host */
	uint64_t machine_memory_peak_bytes;
	int64_t wall_ms;
	char started[CLOCK_STAMP_SIZE]; /* the last machine; "" when there was none */
	unsigned cheats;                /* CHEAT_… seen */
	unsigned machines;              /* machines used, more than 1 after a retry */
	/* For the run only: set by a runner that answers -ENODEV when the machine ended while
	 * student code ran in it. The tests must then be filled as they would count (ended_early
	 * for the one that ran, not_run after it): when a fresh machine ends the same way, they do
	 * count. */
	bool student_ran;
};

/* Kinds of cheating seen; told to staff, never the reason for a verdict. C(bit, NAME, text) */
#define CHEATS(C)                                                                                  \
	C(0, EXIT, "left the process instead of answering")                                        \
	C(1, EQUAL_TO_ALL, "returned an object that claims to equal everything")                   \
	C(2, SHADOW, "carries files that shadow the test framework or the standard library")       \
	C(3, SKIP, "raised the test framework's skip")                                             \
	C(4, FORGED_REPORT, "printed or wrote a forged test report")                               \
	C(5, PATCHED, "changed the test framework or built-in functions")                          \
	C(6, SNOOPED, "looked for tests or expected values")                                       \
	C(7, KILLED, "tried to kill other processes or the machine")                               \
	C(8, CANARY, "a test that must fail passed: the run was tampered with")                    \
	C(9, PROTOCOL, "tampered with the channel of the candidate process")

enum cheat {
#define C(bit, NAME, text) CHEAT_##NAME = 1u << bit,
	CHEATS(C)
#undef C
};

void test_result_fini(struct test_result *t);
void submission_result_fini(struct submission_result *r);
/* Add an empty test to r; NULL on ENOMEM. id is copied. */
struct test_result *submission_result_add(struct submission_result *r, const char *id);
/* Sum up points into score and max_score. */
void submission_result_sum(struct submission_result *r);
/* Append one clause to the note ("; " between clauses), formatted; control characters harmless. */
int submission_result_note(struct submission_result *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
