/* SPDX-License-Identifier: Apache-2.0 - keys in SQLite: only their hashes. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/people.h"

#include <errno.h>

#define COLUMNS "id, name, access, account, created_ms, revoked_ms, daily_limit_micros, products"

static void take(sqlite3_stmt *s, struct store_api_key *out)
{
	text_copy(out->id, sizeof(out->id), (const char *)sqlite3_column_text(s, 0));
	text_copy(out->name, sizeof(out->name), (const char *)sqlite3_column_text(s, 1));
	text_copy(out->access, sizeof(out->access), (const char *)sqlite3_column_text(s, 2));
	out->account = sqlite3_column_int(s, 3) != 0;
	out->created_ms = sqlite3_column_int64(s, 4);
	out->revoked_ms = sqlite3_column_int64(s, 5);
	out->daily_limit_micros = sqlite3_column_type(s, 6) == SQLITE_NULL
					  ? STORE_NO_LIMIT
					  : sqlite3_column_int64(s, 6);
	text_copy(out->products, sizeof(out->products), (const char *)sqlite3_column_text(s, 7));
}

int store_key_insert(
	struct store *store, const struct store_api_key *key, const char *hash, struct error *err)
{
	return store_execute(store, err,
		"INSERT INTO api_key (id, hash, name, access, products, account, created_ms,"
		" daily_limit_micros) VALUES (?, ?, ?, ?, ?, ?, ?, NULLIF(?, -1))",
		"sssssiii", key->id, hash, key->name, key->access, key->products,
		(int64_t)key->account, key->created_ms, key->daily_limit_micros);
}

int store_key_add(struct store *store, const struct store_api_key *key, const char *hash,
	const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_key_insert(store, key, hash, err);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

int store_key_get(struct store *store, const char *id, struct store_api_key *out, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err, "SELECT " COLUMNS " FROM api_key WHERE id = ?", "s", id);
	r = store_row(store, s, err);
	if (!r)
		take(s, out);
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_key_find(
	struct store *store, const char *hash, struct store_api_key *out, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT " COLUMNS " FROM api_key WHERE hash = ? AND revoked_ms = 0", "s", hash);
	r = store_row(store, s, err);
	if (!r)
		take(s, out);
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_key_each(struct store *store, int (*each)(void *context, const struct store_api_key *key),
	void *context, struct error *err)
{
	struct store_api_key key;
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(
		store, err, "SELECT " COLUMNS " FROM api_key ORDER BY created_ms, id", "");
	while (!r && (r = store_row(store, s, err)) == 0) {
		take(s, &key);
		r = each(context, &key);
	}
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	if (r == -ENOENT) { /* the end of the rows is no failure */
		r = 0;
		if (err)
			*err = (struct error){0};
	}
	return r;
}

int store_key_revoke(struct store *store, const char *id, int64_t now_ms,
	const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE api_key SET revoked_ms = ? WHERE id = ? AND revoked_ms = 0", "is", now_ms,
		id);
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ENOENT, "there is no such key, or it is revoked already");
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

int store_key_limit(struct store *store, const char *id, int64_t daily_limit_micros,
	const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE api_key SET daily_limit_micros = NULLIF(?, -1)"
		" WHERE id = ? AND revoked_ms = 0",
		"is", daily_limit_micros, id);
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ENOENT, "there is no such key, or it is revoked");
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}
