/* SPDX-License-Identifier: Apache-2.0 - the owner in SQLite: password, one-time links, sessions. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/people.h"

#include <errno.h>
#include <string.h>

/* Does a row fit? A statement for one use. 0, -ENOENT. */
static int ask(struct store *store, sqlite3_stmt *s, struct error *err)
{
	int r = store_row(store, s, err);

	store_done(store, s);
	return r;
}

/* --- owner and links --- */

static int owner_get(struct store *store, struct store_owner *out, struct error *err)
{
	sqlite3_stmt *s = store_prepare(
		store, err, "SELECT name, password, created_ms, changed_ms FROM owner", "");
	int r = store_row(store, s, err);

	if (!r) {
		text_copy(out->name, sizeof(out->name), (const char *)sqlite3_column_text(s, 0));
		text_copy(out->password, sizeof(out->password),
			(const char *)sqlite3_column_text(s, 1));
		out->created_ms = sqlite3_column_int64(s, 2);
		out->changed_ms = sqlite3_column_int64(s, 3);
	}
	store_done(store, s);
	return r;
}

int store_owner_get(struct store *store, struct store_owner *out, struct error *err)
{
	int r;

	pthread_mutex_lock(&store->lock);
	r = owner_get(store, out, err);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_link_put(struct store *store, const char *hash, int64_t now_ms, int64_t expires_ms,
	const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM owner_link", "");
	if (!r)
		r = store_execute(store, err,
			"INSERT INTO owner_link (hash, created_ms, expires_ms) VALUES (?, ?, ?)",
			"sii", hash, now_ms, expires_ms);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

static int link_check(struct store *store, const char *hash, int64_t now_ms, struct error *err)
{
	return ask(store,
		store_prepare(store, err,
			"SELECT 1 FROM owner_link WHERE hash = ? AND expires_ms > ?", "si", hash,
			now_ms),
		err);
}

int store_link_check(struct store *store, const char *hash, int64_t now_ms, struct error *err)
{
	int r;

	pthread_mutex_lock(&store->lock);
	r = link_check(store, hash, now_ms, err);
	pthread_mutex_unlock(&store->lock);
	return r;
}

/* nobody is signed in any more, and no browser is known */
static int end_all(struct store *store, struct error *err)
{
	int r = store_execute(store, err, "DELETE FROM session", "");

	return r ? r : store_execute(store, err, "DELETE FROM browser", "");
}

int store_link_use(struct store *store, const char *hash, const struct store_owner *owner,
	int64_t now_ms, const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = link_check(store, hash, now_ms, err);
	if (!r)
		r = store_execute(store, err, "DELETE FROM owner_link", "");
	if (!r)
		r = end_all(store, err);
	if (!r)
		r = store_execute(store, err,
			"INSERT INTO owner (id, name, password, created_ms, changed_ms)"
			" VALUES (1, ?1, ?2, ?3, ?3) ON CONFLICT (id) DO UPDATE"
			" SET name = ?1, password = ?2, changed_ms = ?3",
			"ssi", owner->name, owner->password, now_ms);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

/* 0 when the owner's password is still this one, else -ESTALE */
static int unchanged(struct store *store, const char *password, struct error *err)
{
	struct store_owner owner;
	int r = owner_get(store, &owner, err);

	if (r == -ENOENT || (!r && strcmp(owner.password, password)))
		return error_set(err, -ESTALE, "the password was changed meanwhile");
	return r;
}

int store_owner_password(struct store *store, const char *before, const char *password,
	int64_t now_ms, const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = unchanged(store, before, err);
	if (!r)
		r = store_execute(store, err, "UPDATE owner SET password = ?, changed_ms = ?", "si",
			password, now_ms);
	if (!r)
		r = end_all(store, err);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

/* --- sessions --- */

static int session_put(struct store *store, const struct store_session *session,
	const char *browser, struct error *err)
{
	int r = store_execute(
		store, err, "DELETE FROM session WHERE expires_ms <= ?", "i", session->created_ms);

	if (!r)
		r = store_execute(store, err,
			"DELETE FROM session WHERE hash IN"
			" (SELECT hash FROM session ORDER BY used_ms DESC LIMIT -1 OFFSET ?)",
			"i", (int64_t)STORE_SESSIONS_MOST - 1);
	if (!r)
		r = store_execute(store, err,
			"INSERT INTO session (hash, address, created_ms, used_ms, expires_ms)"
			" VALUES (?, ?, ?, ?, ?)",
			"ssiii", session->hash, session->address, session->created_ms,
			session->created_ms, session->expires_ms);
	if (!r)
		r = store_execute(store, err,
			"DELETE FROM browser WHERE hash IN"
			" (SELECT hash FROM browser ORDER BY created_ms DESC LIMIT -1 OFFSET ?)",
			"i", (int64_t)STORE_SESSIONS_MOST - 1);
	if (!r && browser)
		r = store_execute(store, err,
			"INSERT OR REPLACE INTO browser (hash, created_ms) VALUES (?, ?)", "si",
			browser, session->created_ms);
	return r;
}

int store_session_add(struct store *store, const struct store_session *session,
	const char *password, const char *browser, const struct store_audit *audit,
	struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = unchanged(store, password, err);
	if (!r)
		r = session_put(store, session, browser, err);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

int store_session_find(struct store *store, const char *hash, int64_t now_ms, int64_t idle_since_ms,
	struct store_session *out, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT hash, address, created_ms, used_ms, expires_ms FROM session"
		" WHERE hash = ? AND expires_ms > ? AND used_ms > ?",
		"sii", hash, now_ms, idle_since_ms);
	r = store_row(store, s, err);
	if (!r) {
		text_copy(out->hash, sizeof(out->hash), (const char *)sqlite3_column_text(s, 0));
		text_copy(out->address, sizeof(out->address),
			(const char *)sqlite3_column_text(s, 1));
		out->created_ms = sqlite3_column_int64(s, 2);
		out->used_ms = sqlite3_column_int64(s, 3);
		out->expires_ms = sqlite3_column_int64(s, 4);
	}
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_session_use(struct store *store, const char *hash, int64_t now_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(
		store, err, "UPDATE session SET used_ms = ? WHERE hash = ?", "is", now_ms, hash);
	return store_end(store, r, err);
}

int store_session_end(
	struct store *store, const char *hash, const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM session WHERE hash = ?", "s", hash);
	if (!r && sqlite3_changes(store->db))
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

int store_browser_find(struct store *store, const char *hash, int64_t now_ms, struct error *err)
{
	const int64_t year_ms = INT64_C(365) * 86400 * 1000;
	int r;

	pthread_mutex_lock(&store->lock);
	r = ask(store,
		store_prepare(store, err, "SELECT 1 FROM browser WHERE hash = ? AND created_ms > ?",
			"si", hash, now_ms - year_ms),
		err);
	pthread_mutex_unlock(&store->lock);
	return r;
}
