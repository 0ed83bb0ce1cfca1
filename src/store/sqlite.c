/* SPDX-License-Identifier: Apache-2.0 - the store in SQLite: opening, statements, transactions,
 * runs. */
#include "store/sqlite_internal.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int store_error(struct store *store, int code, struct error *err)
{
	int e = code == SQLITE_FULL            ? -ENOSPC
		: code == SQLITE_NOMEM         ? -ENOMEM
		: code == SQLITE_READONLY      ? -EROFS
		: (code & 0xff) == SQLITE_BUSY ? -EBUSY
		: code == SQLITE_NOTADB        ? -EINVAL
					       : -EIO;

	if (e == -ENOSPC)
		return error_set(err, e, "%s: the disk is full; make room on it", store->path);
	return error_set(err, e, "%s: %s", store->path,
		store->db ? sqlite3_errmsg(store->db) : sqlite3_errstr(code));
}

static int bind(sqlite3_stmt *s, const char *types, va_list ap)
{
	int code = SQLITE_OK;

	for (int i = 1; *types && code == SQLITE_OK; types++, i++) {
		if (*types == 's')
			code = sqlite3_bind_text(
				s, i, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
		else
			code = sqlite3_bind_int64(s, i, va_arg(ap, int64_t));
	}
	return code;
}

/*
 * Texts are nearly always constants, so that where one is says which it is; one that was built
 * there meanwhile is told by comparing. What pragmas do they may do when they are compiled.
 */
static int compile(struct store *store, const char *sql, sqlite3_stmt **out)
{
	struct store_kept *kept;
	int code;

	for (size_t i = 0; i < store->kept_count; i++) {
		kept = &store->kept[i];
		if (kept->sql == sql && !kept->used &&
			strcmp(sqlite3_sql(kept->statement), sql) == 0) {
			kept->used = true;
			*out = kept->statement;
			return SQLITE_OK;
		}
	}
	code = sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
	if (code == SQLITE_OK && *out && store->kept_count < STORE_KEPT_MOST &&
		!text_starts(sql, "PRAGMA"))
		store->kept[store->kept_count++] = (struct store_kept){sql, *out, true};
	return code;
}

static sqlite3_stmt *prepare(
	struct store *store, struct error *err, const char *sql, const char *types, va_list ap)
{
	sqlite3_stmt *s = NULL;
	int code = compile(store, sql, &s);

	if (code == SQLITE_OK)
		code = bind(s, types, ap);
	if (code == SQLITE_OK)
		return s;
	store_error(store, code, err);
	store_done(store, s);
	return NULL;
}

void store_done(struct store *store, sqlite3_stmt *s)
{
	for (size_t i = 0; s && i < store->kept_count; i++) {
		if (store->kept[i].statement != s)
			continue;
		sqlite3_reset(s);
		sqlite3_clear_bindings(s);
		store->kept[i].used = false;
		return;
	}
	sqlite3_finalize(s);
}

sqlite3_stmt *store_prepare(
	struct store *store, struct error *err, const char *sql, const char *types, ...)
{
	sqlite3_stmt *s;
	va_list ap;

	va_start(ap, types);
	s = prepare(store, err, sql, types, ap);
	va_end(ap);
	return s;
}

int store_finish(struct store *store, sqlite3_stmt *s, struct error *err)
{
	int code, r = 0;

	if (!s)
		return -EIO;
	code = sqlite3_step(s);
	if (code != SQLITE_DONE && code != SQLITE_ROW)
		r = store_error(store, code, err);
	store_done(store, s);
	return r;
}

int store_execute(struct store *store, struct error *err, const char *sql, const char *types, ...)
{
	sqlite3_stmt *s;
	va_list ap;

	va_start(ap, types);
	s = prepare(store, err, sql, types, ap);
	va_end(ap);
	return store_finish(store, s, err);
}

int store_row(struct store *store, sqlite3_stmt *s, struct error *err)
{
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;

	if (code == SQLITE_ROW)
		return 0;
	if (code == SQLITE_DONE)
		return error_set(err, -ENOENT, "there is no such row");
	return s ? store_error(store, code, err) : -EIO;
}

char *store_text(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? strdup(text) : NULL;
}

/* In WAL mode NORMAL does not sync at a commit and FULL does; neither can corrupt. */
static int set_sync(struct store *store, bool durable, struct error *err)
{
	int r;

	if (store->sync == (durable ? STORE_SYNC_FULL : STORE_SYNC_NORMAL))
		return 0;
	r = store_execute(store, err,
		durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", "");
	store->sync = r ? STORE_SYNC_UNKNOWN : durable ? STORE_SYNC_FULL : STORE_SYNC_NORMAL;
	return r;
}

int store_begin(struct store *store, bool durable, struct error *err)
{
	int r;

	pthread_mutex_lock(&store->lock);
	r = set_sync(store, durable, err);
	if (!r)
		r = store_execute(store, err, "BEGIN IMMEDIATE", "");
	if (r)
		pthread_mutex_unlock(&store->lock);
	return r;
}

int store_end(struct store *store, int r, struct error *err)
{
	if (!r)
		r = store_execute(store, err, "COMMIT", "");
	if (r)
		store_execute(store, NULL, "ROLLBACK", "");
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_open(const char *path, struct store **out, struct error *err)
{
	struct store *store = calloc(1, sizeof(*store));
	int r;

	if (!store || !(store->path = strdup(path))) {
		free(store);
		return error_set(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_init(&store->lock, NULL);
	r = sqlite3_open_v2(path, &store->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	if (r == SQLITE_OK) {
		sqlite3_busy_timeout(store->db, 5000);
		r = sqlite3_exec(store->db,
			"PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON;"
			"PRAGMA trusted_schema = OFF;",
			NULL, NULL, NULL);
	}
	if (r != SQLITE_OK) {
		r = store_error(store, r, err);
		store_close(store);
		return r;
	}
	r = store_begin(store, true, err);
	if (!r)
		r = store_end(store, store_migrate(store, err), err);
	if (r) {
		store_close(store);
		return r;
	}
	*out = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < store->kept_count; i++)
		sqlite3_finalize(store->kept[i].statement);
	sqlite3_close_v2(store->db);
	pthread_mutex_destroy(&store->lock);
	free(store->path);
	free(store);
}

/* --- runs --- */

static int key_digest(const struct store_key *key, char *out, struct error *err)
{
	const char *const parts[] = {
		key->assignment, key->tests_digest, key->image_digest, key->engine, key->settings};
	struct hash *h = hash_new();

	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash_add_field(h, parts[i], strlen(parts[i]));
	hash_end(h, out);
	hash_free(h);
	return 0;
}

static int find_run(struct store *store, const char *key, int64_t *run, struct error *err)
{
	sqlite3_stmt *s = store_prepare(
		store, err, "SELECT id FROM run WHERE key = ? ORDER BY id DESC LIMIT 1", "s", key);
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	int r = code == SQLITE_ROW    ? 0
		: code == SQLITE_DONE ? -ENOENT
		: s                   ? store_error(store, code, err)
				      : -EIO;

	if (!r)
		*run = sqlite3_column_int64(s, 0);
	store_done(store, s);
	return r;
}

static int add_run(struct store *store, const struct store_key *key, const char *digest,
	int64_t *run, struct error *err)
{
	char now[CLOCK_STAMP_SIZE];
	int r;

	clock_stamp(now);
	r = store_execute(store, err,
		"INSERT INTO run (key, assignment, tests_digest, image_digest, engine, started)"
		" VALUES (?, ?, ?, ?, ?, ?)",
		"ssssss", digest, key->assignment, key->tests_digest, key->image_digest,
		key->engine, now);
	*run = sqlite3_last_insert_rowid(store->db);
	return r;
}

int store_run_open(struct store *store, const struct store_key *key, bool fresh, int64_t *run,
	bool *resumed, struct error *err)
{
	char digest[HASH_HEX_SIZE];
	int r = key_digest(key, digest, err);

	if (!r)
		r = store_begin(store, true, err);
	if (r)
		return r;
	r = fresh ? -ENOENT : find_run(store, digest, run, err);
	*resumed = r == 0;
	if (r == -ENOENT)
		r = add_run(store, key, digest, run, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE job SET state = was, token = token + 1 WHERE run = ? AND state = ?",
			"ii", *run, (int64_t)STORE_JOB_CLAIMED);
	return store_end(store, r, err);
}

int store_run_started(struct store *store, int64_t run, char *out, struct error *err)
{
	sqlite3_stmt *s;
	int code, r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err, "SELECT started FROM run WHERE id = ?", "i", run);
	code = s ? sqlite3_step(s) : SQLITE_ERROR;
	if (code == SQLITE_ROW)
		r = text_copy(out, CLOCK_STAMP_SIZE, (const char *)sqlite3_column_text(s, 0));
	else
		r = s ? store_error(store, code, err) : -EIO;
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}
