/* SPDX-License-Identifier: Apache-2.0 - runners: the ways to test one submission in a sandbox. */
#ifndef SEALMARK_GRADE_RUNNER_H
#define SEALMARK_GRADE_RUNNER_H

#include "base/error.h"
#include "grade/assignment.h"
#include "grade/verdict.h"
#include "sandbox/sandbox.h"

/*
 * A runner is one table. prepare() is called once per grading run before any submission: it finds
 * the tests (stdio: lists cases; suite: collection in a machine without student code) and fills the
 * plan's test list, so that expected ids and points are known. run() tests one submission in a
 * fresh, running sandbox whose /workspace is empty; it must fill one test_result for every expected
 * id (not_run where nothing was seen). It never decides `infra` itself: on a failure of ours it
 * returns a negative errno and the caller tries again on a fresh machine.
 */
struct runner_test {
	char *id;
	double points;
};

/* What prepare() learns; owned by the run, read-only in workers (several threads). */
struct runner_plan {
	const struct assignment *assignment;
	struct runner_test *tests;
	size_t test_count;
	/* what a submission that is a single file is called when the assignment wants no files, or
	 * NULL; set by prepare(), freed by the run */
	char *single_file;
	/* what the tests import of a submission (NULL-terminated, or NULL): one that holds none of
	 * it is rejected; set by prepare(), the runner's */
	char *const *modules;
	void *state;      /* the runner's own; freed by runner->finish */
	unsigned sharing; /* workers on one CPU; 0 or 1: each has its own. Set before prepare() */
};

/*
 * Time limits are judged by what was measured, not by the kill: a test whose CPU or wall time is
 * over the assignment's limit has cpu_limit or wall_limit even when it ended by itself. So that a
 * result near a limit can be told from one far over it, programs get the limits of runner_kill():
 * 120 % of them (wall: times the workers on a CPU). The run repeats alone what was measured between
 * 90 % and 110 %, so a loop without end is not run twice.
 */
struct limits runner_kill(const struct runner_plan *plan);

/* One submission as intake found it: files below dir_fd, already checked to be regular. */
struct runner_submission {
	const char *student;
	int dir_fd;               /* host directory with the submission's files */
	const char *const *files; /* relative paths, NULL-terminated, sorted */
};

struct runner {
	const char *name; /* "stdio", "suite" */
	enum trust trust;
	/* make_sandbox gives a fresh machine of the assignment's shape; the runner frees it */
	int (*prepare)(struct runner_plan *plan,
		int (*make_sandbox)(void *context, struct sandbox **out, struct error *err),
		void *context, struct error *err);
	int (*run)(const struct runner_plan *plan, const struct runner_submission *submission,
		struct sandbox *sandbox, int cancel_fd, struct submission_result *result,
		struct error *err);
	void (*finish)(struct runner_plan *plan);
};

/* Give the result an empty test, with its points to be had, for every test of the plan; -ENOMEM. */
int runner_add_tests(const struct runner_plan *plan, struct submission_result *result);

extern const struct runner runner_stdio;
extern const struct runner runner_suite;
const struct runner *runner_find(const char *name);

#endif
