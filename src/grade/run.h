/* SPDX-License-Identifier: Apache-2.0 - a grading run: workers over the jobs of one assignment. */
#ifndef SEALMARK_GRADE_RUN_H
#define SEALMARK_GRADE_RUN_H

#include "base/error.h"
#include "grade/assignment.h"
#include "grade/verdict.h"
#include "intake/intake.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What to grade, with what. Everything is used, not owned, until run_free(). */
struct run_spec {
	const char *home;   /* $SEALMARK_HOME */
	const char *engine; /* "auto", "uml", "fake" */
	const char *script; /* for the engine fake */
	const struct assignment *assignment;
	const char *submissions; /* path of the folder */
	struct store *store;
	const char *work; /* a private folder for copies of submissions; emptied at start */
	unsigned jobs;    /* 0: one for each CPU this process may use */
	const char *only; /* grade this student only, or NULL */
	bool fresh;       /* forget what was graded before, of those to be graded */
};

struct run;

/*
 * Check that what is asked for can be had (engine, image, isolation, trust, memory), find the
 * tests, fill the queue. *notice: a line for the user, or "" (fewer workers than asked for).
 * -EINVAL, -ENOENT, -EPERM: what is asked for is wrong or missing; others are failures of ours.
 */
#define RUN_NOTICE_SIZE 400
int run_new(const struct run_spec *spec, struct run **out, char *notice, struct error *err);

/* Start the workers. */
int run_start(struct run *run, struct error *err);
/* Readable when run_next() may have something or the run is over. */
int run_event_fd(const struct run *run);
/* A new record (caller frees): first those kept from before, then each as it is committed. NULL:
 * nothing now. Clears the event. */
char *run_next(struct run *run);
/* True when the workers have ended and all was handed out. */
bool run_is_over(struct run *run);
/* Take no more jobs, cancel those that run (they will be run again). From any thread. */
void run_stop(struct run *run);
/* Wait for the workers; 0, or why the run could not go on. */
int run_finish(struct run *run, struct error *err);
void run_free(struct run *run);

/* Numbers for a display. */
struct run_status {
	size_t total;   /* submissions to be graded: all, or the one that was named */
	size_t kept;    /* graded by an earlier run and taken over */
	size_t before;  /* done without a machine: kept or rejected */
	size_t waiting; /* not done yet */
	size_t running;
	size_t again; /* run alone because of a time near its limit, so far */
	unsigned jobs;
};
void run_status(struct run *run, struct run_status *out);

/* All submissions, also those that are not to be graded now, and what was passed over. */
const struct intake *run_intake(const struct run *run);
int64_t run_id(const struct run *run);
size_t run_test_count(const struct run *run);
/* The run as a JSON object for run.json; counts come from the caller. Caller frees. */
struct run_counts {
	size_t graded, rejected, infra, pending;
	unsigned verdicts[VERDICT_COUNT];
};
int run_describe(struct run *run, const struct run_counts *counts, char **out, struct error *err);

#endif
