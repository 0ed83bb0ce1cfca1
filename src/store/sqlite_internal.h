/* SPDX-License-Identifier: Apache-2.0 - what the files of the SQLite store share. */
#ifndef SEALMARK_STORE_SQLITE_INTERNAL_H
#define SEALMARK_STORE_SQLITE_INTERNAL_H

#include "store/people.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>

/* A statement that is kept for the next use of the same text. */
struct store_kept {
	const char *sql;
	sqlite3_stmt *statement;
	bool used;
};
#define STORE_KEPT_MOST 160

struct store {
	sqlite3 *db;
	pthread_mutex_t lock; /* one transaction at a time */
	char *path;
	struct store_kept kept[STORE_KEPT_MOST];
	size_t kept_count;
	enum { STORE_SYNC_UNKNOWN, STORE_SYNC_NORMAL, STORE_SYNC_FULL } sync;
};

/* Bring the tables to this version's form; in a transaction of the caller. */
int store_migrate(struct store *store, struct error *err);

/* "path: what SQLite says"; returns the code. */
int store_error(struct store *store, int sqlite_code, struct error *err);

/*
 * A statement for one use, until store_done(). Letters of `types` say what follows: s text, i
 * int64_t. NULL on failure with the error set.
 */
sqlite3_stmt *store_prepare(
	struct store *store, struct error *err, const char *sql, const char *types, ...);
/* NULL is fine. */
void store_done(struct store *store, sqlite3_stmt *statement);
/* Step a statement that gives no rows, and finish it (also when it is NULL, with `-EIO`). */
int store_finish(struct store *store, sqlite3_stmt *statement, struct error *err);
/* Prepare, step, finish. */
int store_execute(struct store *store, struct error *err, const char *sql, const char *types, ...);

/* Lock and begin; then end with commit (or roll back when `r` is not 0) and unlock; returns r or
 * the failure to commit. `durable`: the commit waits for the disk. */
int store_begin(struct store *store, bool durable, struct error *err);
int store_end(struct store *store, int r, struct error *err);

/* Step a statement that gives one row: 0, -ENOENT, or the failure. It is not finished. */
int store_row(struct store *store, sqlite3_stmt *statement, struct error *err);
/* A column's text, to be freed by the caller; NULL for NULL and when memory is out. */
char *store_text(sqlite3_stmt *statement, int column);

/* Within a transaction: add to the audit log (NULL: nothing); add a key. */
int store_audit_append(struct store *store, const struct store_audit *audit, struct error *err);
int store_key_insert(
	struct store *store, const struct store_api_key *key, const char *hash, struct error *err);

/* Note what has happened to a sandbox, within a transaction. `data` is a JSON object, or NULL. */
int store_note(struct store *store, const char *sandbox, const char *type, const char *data,
	struct error *err);
/* The end of a transaction that changed one sandbox, which is noted if `type` says how; -ESTALE
 * when it changed none. */
int store_changed(struct store *store, int r, const char *id, const char *type, const char *data,
	struct error *err);

struct store_sandbox;
struct store_quota;
/* Within a transaction: -EEXIST when another has its name; -EDQUOT and -ENOSPC when there is no
 * room for one more like it. `taken`: as store_sandbox_add() says. */
int store_check_name(
	struct store *store, const struct store_sandbox *sandbox, char *taken, struct error *err);
/* The seat of one that reserves its CPU (else 0) among so many, within a transaction. -ENOSPC */
int store_seat(struct store *store, const struct store_sandbox *sandbox, uint64_t seats,
	uint32_t *out, char *taken, struct error *err);
int store_check_room(struct store *store, const struct store_sandbox *sandbox,
	const struct store_quota *quota, char *taken, struct error *err);
/* Within a transaction: add what builds of images have or claim; no build claims any more. */
int store_build_totals(
	struct store *store, const char *owner, struct store_quota *out, struct error *err);
int store_build_unclaim(struct store *store, struct error *err);

/* Add to the chain, within a transaction. */
int store_append(
	struct store *store, int64_t run, const struct store_record *record, struct error *err);

#endif
