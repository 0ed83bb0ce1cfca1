/* SPDX-License-Identifier: Apache-2.0 - approvals in SQLite: asked for, decided, fetched. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/people.h"

#include <errno.h>
#include <stdlib.h>

#define COLUMNS                                                                                    \
	"user_code, device, state, agent, machine, purpose, access, products,"                     \
	" daily_limit_micros, public_key, address, grp, created_ms, expires_ms, decided_ms,"       \
	" polled_ms, delivered_ms, key_id, encrypted"

void store_approval_fini(struct store_approval *a)
{
	free(a->agent);
	free(a->machine);
	free(a->purpose);
	free(a->public_key);
	free(a->encrypted);
	*a = (struct store_approval){0};
}

static void copy(sqlite3_stmt *s, int column, char *out, size_t size)
{
	text_copy(out, size, (const char *)sqlite3_column_text(s, column));
}

/* false: out of memory */
static bool take(sqlite3_stmt *s, struct store_approval *a)
{
	*a = (struct store_approval){
		.state = (enum store_approval_state)sqlite3_column_int(s, 2),
		.agent = store_text(s, 3),
		.machine = store_text(s, 4),
		.purpose = store_text(s, 5),
		.daily_limit_micros = sqlite3_column_int64(s, 8),
		.public_key = store_text(s, 9),
		.created_ms = sqlite3_column_int64(s, 12),
		.expires_ms = sqlite3_column_int64(s, 13),
		.decided_ms = sqlite3_column_int64(s, 14),
		.polled_ms = sqlite3_column_int64(s, 15),
		.delivered_ms = sqlite3_column_int64(s, 16),
		.encrypted = store_text(s, 18),
	};
	copy(s, 0, a->user_code, sizeof(a->user_code));
	copy(s, 1, a->device, sizeof(a->device));
	copy(s, 6, a->access, sizeof(a->access));
	copy(s, 7, a->products, sizeof(a->products));
	copy(s, 10, a->address, sizeof(a->address));
	copy(s, 11, a->group, sizeof(a->group));
	copy(s, 17, a->key_id, sizeof(a->key_id));
	return a->agent && a->machine && a->purpose && a->public_key && a->encrypted;
}

static int find(struct store *store, sqlite3_stmt *s, struct store_approval *out, struct error *err)
{
	int r = store_row(store, s, err);

	if (!r && !take(s, out)) {
		store_approval_fini(out);
		r = error_set(err, -ENOMEM, "out of memory");
	}
	store_done(store, s);
	return r;
}

static int by_device(
	struct store *store, const char *device, struct store_approval *out, struct error *err)
{
	return find(store,
		store_prepare(store, err, "SELECT " COLUMNS " FROM approval WHERE device = ?", "s",
			device),
		out, err);
}

static int by_code(
	struct store *store, const char *user_code, struct store_approval *out, struct error *err)
{
	return find(store,
		store_prepare(store, err, "SELECT " COLUMNS " FROM approval WHERE user_code = ?",
			"s", user_code),
		out, err);
}

/* how many there are of a group in this quarter of an hour, and how many wait */
static int count(struct store *store, const struct store_approval *a, int64_t *of_group,
	int64_t *waiting, struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT count(*) FILTER (WHERE grp = ?1), count(*) FILTER (WHERE state = 0)"
		" FROM approval WHERE expires_ms > ?2",
		"si", a->group, a->created_ms);
	int r = store_row(store, s, err);

	if (!r) {
		*of_group = sqlite3_column_int64(s, 0);
		*waiting = sqlite3_column_int64(s, 1);
	}
	store_done(store, s);
	return r;
}

static int put(struct store *store, const struct store_approval *a, struct error *err)
{
	struct store_approval other;
	int r = by_code(store, a->user_code, &other, err);

	if (!r) {
		store_approval_fini(&other);
		return error_set(err, -EEXIST, "the code is in use");
	}
	if (r != -ENOENT)
		return r;
	return store_execute(store, err,
		"INSERT INTO approval (user_code, device, state, agent, machine, purpose, access,"
		" products, daily_limit_micros, public_key, address, grp, created_ms, expires_ms)"
		" VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"sssssssisssii", a->user_code, a->device, a->agent, a->machine, a->purpose,
		a->access, a->products, a->daily_limit_micros, a->public_key, a->address, a->group,
		a->created_ms, a->expires_ms);
}

int store_approval_add(struct store *store, const struct store_approval *approval,
	uint32_t group_most, uint32_t most, struct error *err)
{
	int64_t of_group = 0, waiting = 0;
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = count(store, approval, &of_group, &waiting, err);
	if (!r && of_group >= group_most)
		r = error_set(err, -EDQUOT, "too many of this address");
	if (!r && waiting >= most)
		r = error_set(err, -ENOSPC, "too many in all");
	if (!r)
		r = put(store, approval, err);
	return store_end(store, r, err);
}

int store_approval_by_code(
	struct store *store, const char *user_code, struct store_approval *out, struct error *err)
{
	int r;

	pthread_mutex_lock(&store->lock);
	r = by_code(store, user_code, out, err);
	pthread_mutex_unlock(&store->lock);
	return r;
}

static int poll_row(
	struct store *store, struct store_approval *a, int64_t now_ms, struct error *err)
{
	if (a->state == STORE_APPROVAL_CONNECTED && !a->delivered_ms)
		a->delivered_ms = now_ms;
	return store_execute(store, err,
		"UPDATE approval SET polled_ms = ?, delivered_ms = ? WHERE device = ?", "iis",
		now_ms, a->delivered_ms, a->device);
}

int store_approval_poll(struct store *store, const char *device, int64_t now_ms, int64_t since_ms,
	struct store_approval *out, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = by_device(store, device, out, err);
	if (r)
		return store_end(store, r, err);
	r = out->polled_ms > since_ms ? error_set(err, -EAGAIN, "polled too soon")
				      : poll_row(store, out, now_ms, err);
	r = store_end(store, r, err);
	if (r)
		store_approval_fini(out);
	return r;
}

int store_approval_each(struct store *store, int64_t now_ms,
	int (*each)(void *context, const struct store_approval *approval), void *context,
	struct error *err)
{
	struct store_approval a;
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT " COLUMNS " FROM approval WHERE state = 0 AND expires_ms > ?"
		" ORDER BY created_ms, user_code",
		"i", now_ms);
	while (!r && (r = store_row(store, s, err)) == 0) {
		r = take(s, &a) ? each(context, &a) : error_set(err, -ENOMEM, "out of memory");
		store_approval_fini(&a);
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

/* 0 when it waits for a decision; -ESTALE, -ENOENT */
static int waits(struct store *store, const char *user_code, const char *device, int64_t now_ms,
	struct error *err)
{
	struct store_approval a = {0};
	int r = user_code ? by_code(store, user_code, &a, err) : by_device(store, device, &a, err);

	if (!r && (a.state != STORE_APPROVAL_PENDING || a.expires_ms <= now_ms))
		r = error_set(err, -ESTALE, "it does not wait any more");
	store_approval_fini(&a);
	return r;
}

int store_approval_refuse(struct store *store, const char *user_code, const char *device,
	enum store_approval_state state, int64_t now_ms, const struct store_audit *audit,
	struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = waits(store, user_code, device, now_ms, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE approval SET state = ?, decided_ms = ?"
			" WHERE user_code = ? OR device = ?",
			"iiss", (int64_t)state, now_ms, user_code, device);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

int store_approval_grant(struct store *store, const char *user_code,
	const struct store_api_key *key, const char *key_hash, const char *encrypted,
	int64_t now_ms, const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = waits(store, user_code, NULL, now_ms, err);
	if (!r)
		r = store_key_insert(store, key, key_hash, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE approval SET state = ?, decided_ms = ?, key_id = ?, encrypted = ?"
			" WHERE user_code = ?",
			"iisss", (int64_t)STORE_APPROVAL_CONNECTED, now_ms, key->id, encrypted,
			user_code);
	if (!r)
		r = store_audit_append(store, audit, err);
	return store_end(store, r, err);
}

int store_approval_confirm(struct store *store, const char *device, char *key_id, struct error *err)
{
	struct store_approval a = {0};
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = by_device(store, device, &a, err);
	if (!r && a.state != STORE_APPROVAL_CONNECTED)
		r = error_set(err, -ESTALE, "it is not connected");
	if (!r)
		r = store_execute(store, err, "UPDATE approval SET encrypted = '' WHERE device = ?",
			"s", device);
	r = store_end(store, r, err);
	if (!r)
		text_copy(key_id, ID_SIZE, a.key_id);
	store_approval_fini(&a);
	return r;
}

int store_approval_expire(struct store *store, int64_t now_ms, int64_t before_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE api_key SET revoked_ms = ?1 WHERE revoked_ms = 0 AND id IN"
		" (SELECT key_id FROM approval WHERE state = 3 AND delivered_ms = 0"
		" AND expires_ms <= ?1)",
		"i", now_ms);
	if (!r)
		r = store_execute(
			store, err, "DELETE FROM approval WHERE expires_ms < ?", "i", before_ms);
	return store_end(store, r, err);
}
