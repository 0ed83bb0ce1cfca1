/* SPDX-License-Identifier: Apache-2.0 - jobs in SQLite: claimed, given back, committed. */
#include "store/sqlite_internal.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* state, digest and status of a job; -ENOENT */
struct job {
	int64_t state;
	char digest[HASH_HEX_SIZE];
	char status[16];
};

static int get_job(
	struct store *store, int64_t run, const char *student, struct job *job, struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT state, digest, status FROM job WHERE run = ? AND student = ?", "is", run,
		student);
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	int r = code == SQLITE_ROW    ? 0
		: code == SQLITE_DONE ? -ENOENT
		: s                   ? store_error(store, code, err)
				      : -EIO;

	if (!r) {
		job->state = sqlite3_column_int64(s, 0);
		text_copy(
			job->digest, sizeof(job->digest), (const char *)sqlite3_column_text(s, 1));
		text_copy(
			job->status, sizeof(job->status), (const char *)sqlite3_column_text(s, 2));
	}
	store_done(store, s);
	return r;
}

static int set_waiting(struct store *store, int64_t run, const char *student, const char *digest,
	struct error *err)
{
	return store_execute(store, err,
		"INSERT INTO job (run, student, digest, state, was, token, status)"
		" VALUES (?, ?, ?, 0, 0, 0, '')"
		" ON CONFLICT (run, student) DO UPDATE SET"
		" digest = excluded.digest, state = 0, was = 0, token = token + 1, status = ''",
		"iss", run, student, digest);
}

int store_job_put(struct store *store, int64_t run, const char *student, const char *digest,
	bool *kept, struct error *err)
{
	struct job job = {0};
	int r = store_begin(store, false, err);

	if (r)
		return r;
	*kept = false;
	r = get_job(store, run, student, &job, err);
	if (r == 0 && strcmp(job.digest, digest) == 0 &&
		(job.state != STORE_JOB_DONE || strcmp(job.status, "infra")))
		*kept = job.state == STORE_JOB_DONE; /* done, or waiting as it should */
	else if (r == 0 || r == -ENOENT)
		r = set_waiting(store, run, student, digest, err);
	return store_end(store, r, err);
}

int store_job_renew(struct store *store, int64_t run, const char *student, const char *digest,
	struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = set_waiting(store, run, student, digest, err);
	return store_end(store, r, err);
}

/* the first job in a state; -ENOENT */
static int first_job(struct store *store, int64_t run, int64_t state, const char *only,
	struct store_claim *out, struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT student, digest, token FROM job WHERE run = ? AND state = ?"
		" AND (? = '' OR student = ?) ORDER BY student LIMIT 1",
		"iiss", run, state, only ? only : "", only ? only : "");
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	int r = code == SQLITE_ROW    ? 0
		: code == SQLITE_DONE ? -ENOENT
		: s                   ? store_error(store, code, err)
				      : -EIO;

	if (!r) {
		out->student = strdup((const char *)sqlite3_column_text(s, 0));
		text_copy(
			out->digest, sizeof(out->digest), (const char *)sqlite3_column_text(s, 1));
		out->token = sqlite3_column_int64(s, 2) + 1;
		out->alone = state == STORE_JOB_ALONE;
		if (!out->student)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	store_done(store, s);
	return r;
}

static int is_claimed_any(struct store *store, int64_t run, struct error *err)
{
	struct store_claim claim = {0};
	int r = first_job(store, run, STORE_JOB_CLAIMED, NULL, &claim, err);

	store_claim_fini(&claim);
	return r;
}

static int claim_next(struct store *store, int64_t run, const char *only, struct store_claim *out,
	struct error *err)
{
	int r = first_job(store, run, STORE_JOB_WAITING, only, out, err);

	if (r == -ENOENT) {
		r = is_claimed_any(store, run, err);
		if (r != -ENOENT)
			return r ? r : -EAGAIN;
		r = first_job(store, run, STORE_JOB_ALONE, only, out, err);
	}
	if (r)
		return r;
	return store_execute(store, err,
		"UPDATE job SET was = state, state = 1, token = ? WHERE run = ? AND student = ?",
		"iis", out->token, run, out->student);
}

int store_job_claim(struct store *store, int64_t run, const char *only, struct store_claim *out,
	struct error *err)
{
	int r = store_begin(store, false, err);

	*out = (struct store_claim){0};
	if (r)
		return r;
	r = claim_next(store, run, only, out, err);
	r = store_end(store, r, err);
	if (r)
		store_claim_fini(out);
	return r;
}

void store_claim_fini(struct store_claim *claim)
{
	free(claim->student);
	claim->student = NULL;
}

/* change the state of a job that this claim holds; -ESTALE when it does not */
static int end_claim(struct store *store, int64_t run, const struct store_claim *claim,
	int64_t state, const char *status, struct error *err)
{
	int r = store_execute(store, err,
		"UPDATE job SET state = ?, was = ?, status = ?"
		" WHERE run = ? AND student = ? AND state = 1 AND token = ?",
		"iisisi", state, state, status, run, claim->student, claim->token);

	if (!r && sqlite3_changes(store->db) != 1)
		r = error_set(
			err, -ESTALE, "%s: the job was taken from this worker", claim->student);
	return r;
}

int store_job_release(struct store *store, int64_t run, const struct store_claim *claim, bool alone,
	struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = end_claim(store, run, claim, alone ? STORE_JOB_ALONE : STORE_JOB_WAITING, "", err);
	return store_end(store, r, err);
}

int store_job_commit(struct store *store, int64_t run, const struct store_claim *claim,
	const struct store_record *record, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = end_claim(store, run, claim, STORE_JOB_DONE, record->status, err);
	if (!r)
		r = store_append(store, run, record, err);
	return store_end(store, r, err);
}

int store_record_put(
	struct store *store, int64_t run, const struct store_record *record, struct error *err)
{
	struct job job = {0};
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = get_job(store, run, record->student, &job, err);
	if (r == 0 && job.state == STORE_JOB_DONE && strcmp(job.digest, record->digest) == 0 &&
		strcmp(job.status, record->status) == 0)
		return store_end(store, 0, err);
	if (r == 0 || r == -ENOENT)
		r = set_waiting(store, run, record->student, record->digest, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE job SET state = 3, was = 3, status = ?"
			" WHERE run = ? AND student = ?",
			"sis", record->status, run, record->student);
	if (!r)
		r = store_append(store, run, record, err);
	return store_end(store, r, err);
}

int store_jobs_keep(struct store *store, int64_t run,
	bool (*keep)(void *context, const char *student), void *context, struct error *err)
{
	sqlite3_stmt *s;
	char **gone = NULL;
	size_t count = 0;
	int code = SQLITE_DONE, r = store_begin(store, false, err);

	if (r)
		return r;
	s = store_prepare(store, err, "SELECT student FROM job WHERE run = ?", "i", run);
	if (!s)
		r = -EIO;
	while (!r && (code = sqlite3_step(s)) == SQLITE_ROW) {
		const char *student = (const char *)sqlite3_column_text(s, 0);
		char **grown;

		if (keep(context, student))
			continue;
		grown = reallocarray(gone, count + 1, sizeof(*grown));
		if (!grown || !(grown[count] = strdup(student)))
			r = error_set(err, -ENOMEM, "out of memory");
		else
			count++;
		gone = grown ? grown : gone;
	}
	if (!r && code != SQLITE_DONE)
		r = store_error(store, code, err);
	store_done(store, s);
	for (size_t i = 0; i < count; i++) {
		if (!r)
			r = store_execute(store, err,
				"DELETE FROM job WHERE run = ? AND student = ?", "is", run,
				gone[i]);
		free(gone[i]);
	}
	free(gone);
	return store_end(store, r, err);
}
