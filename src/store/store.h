/* SPDX-License-Identifier: Apache-2.0 - the store: runs, their jobs, and the records of grades. */
#ifndef SEALMARK_STORE_STORE_H
#define SEALMARK_STORE_STORE_H

#include "base/error.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A run is one assignment's tests in one image by one engine: its key. It has a job for each
 * submission, and records, which are only ever added. A job is claimed, and its record is committed
 * together with the job's end in one transaction that names the claim: whoever was declared dead in
 * between is refused, so nothing is ever recorded twice. A committed record survives the loss of
 * power; a lost claim costs only the work.
 *
 * Records form a chain: each holds the hash of the one before it, over all runs of the store.
 *
 * Safe for several threads of one process. Calls block.
 */
struct store;

/* Open or make; older formats are brought up to date. */
int store_open(const char *path, struct store **out, struct error *err);
void store_close(struct store *store);
/* A copy of the store at `from`, as of one moment, in a new file: whole and checked, or none;
 * others may go on writing. -EEXIST when there is such a file. */
int store_backup(const char *from, const char *path, struct error *err);

/* What makes results comparable: equal keys, equal runs. */
struct store_key {
	const char *assignment;
	const char *tests_digest;
	const char *image_digest;
	const char *engine;
	const char *settings; /* whatever else matters, as text */
};

/*
 * The latest run with that key, or a new one (always, with `fresh`). Jobs that were claimed by a
 * process that is gone (all of them, since one process uses a run at a time) wait again.
 * *resumed: it was there before.
 */
int store_run_open(struct store *store, const struct store_key *key, bool fresh, int64_t *run,
	bool *resumed, struct error *err);
/* When it was first opened, "2026-…Z"; out has CLOCK_STAMP_SIZE bytes. */
int store_run_started(struct store *store, int64_t run, char *out, struct error *err);

enum store_job_state {
	STORE_JOB_WAITING,
	STORE_JOB_CLAIMED,
	STORE_JOB_ALONE, /* waits to be run again when nothing else runs */
	STORE_JOB_DONE
};

/*
 * Make sure that the run has this job. *kept: it is done already with this submission digest and a
 * status other than infra; otherwise it waits (again).
 */
int store_job_put(struct store *store, int64_t run, const char *student, const char *digest,
	bool *kept, struct error *err);
/* Let a job wait again, whatever became of it. */
int store_job_renew(struct store *store, int64_t run, const char *student, const char *digest,
	struct error *err);
/* Take the next waiting job in the order of students (`only`: this student's or none); when none
 * waits and none is claimed, the next that must run alone. -EAGAIN: nothing now, but claimed jobs
 * may come back; -ENOENT: all done. */
struct store_claim {
	char *student; /* free with store_claim_fini */
	char digest[HASH_HEX_SIZE];
	int64_t token;
	bool alone;
};
int store_job_claim(struct store *store, int64_t run, const char *only, struct store_claim *out,
	struct error *err);
void store_claim_fini(struct store_claim *claim);
/* Give it back: it waits as it did, or to be run alone. */
int store_job_release(struct store *store, int64_t run, const struct store_claim *claim, bool alone,
	struct error *err);

/* A record as it is added; body is a JSON object. */
struct store_record {
	const char *student, *digest, *status;
	const char *body;
	/* of one that is there: when it was added, its place in the chain, and how many of the run
	 * the student has with this one */
	const char *time, *previous, *hash;
	unsigned attempt;
};
/* Commit the record and the job's end. -ESTALE: the claim does not hold any more. */
int store_job_commit(struct store *store, int64_t run, const struct store_claim *claim,
	const struct store_record *record, struct error *err);
/* Add a record for a job nobody claims (a rejected submission) and end it; does nothing (0) when
 * the last record of the student has this digest and status. */
int store_record_put(
	struct store *store, int64_t run, const struct store_record *record, struct error *err);

/* The newest record of each student that has a job in the run and is done, in the order of
 * students. A result other than 0 of the callback ends it. */
int store_records_each(struct store *store, int64_t run,
	int (*each)(void *context, const struct store_record *record), void *context,
	struct error *err);
int store_record_body(
	struct store *store, int64_t run, const char *student, char **body, struct error *err);

/* Jobs that no longer have a submission are dropped (their records stay). */
int store_jobs_keep(struct store *store, int64_t run,
	bool (*keep)(void *context, const char *student), void *context, struct error *err);

/* Walk the chain; -EBADMSG names the first record that does not fit. *count: records walked. */
int store_verify(struct store *store, uint64_t *count, struct error *err);

#endif
