/* SPDX-License-Identifier: Apache-2.0 - the audit log in SQLite: a chain that is only added to. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/people.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS "seq, time_ms, who, action, target, detail, address, request"

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static const char *detail_of(const struct store_audit *audit)
{
	return audit->detail ? audit->detail : "{}";
}

static void add_number(struct hash *h, int64_t n)
{
	char text[24];

	text_format(text, sizeof(text), "%lld", (long long)n);
	hash_add_field(h, text, strlen(text));
}

static int audit_hash(const char *previous, int64_t seq, const struct store_audit *audit, char *out)
{
	const char *const parts[] = {previous, audit->who, audit->action, audit->target,
		detail_of(audit), audit->address, audit->request};
	struct hash *h = hash_new();

	if (!h)
		return -ENOMEM;
	add_number(h, seq);
	add_number(h, audit->time_ms);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash_add_field(h, or_empty(parts[i]), strlen(or_empty(parts[i])));
	hash_end(h, out);
	hash_free(h);
	return 0;
}

/* number and hash of the last entry; 0 and "" when there is none */
static int last(struct store *store, int64_t *seq, char *hash, struct error *err)
{
	sqlite3_stmt *s = store_prepare(
		store, err, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", "");
	int r = store_row(store, s, err);

	*seq = 0;
	hash[0] = 0;
	if (!r) {
		*seq = sqlite3_column_int64(s, 0);
		text_copy(hash, HASH_HEX_SIZE, (const char *)sqlite3_column_text(s, 1));
	}
	store_done(store, s);
	return r == -ENOENT ? 0 : r;
}

int store_audit_append(struct store *store, const struct store_audit *audit, struct error *err)
{
	char previous[HASH_HEX_SIZE], hash[HASH_HEX_SIZE];
	int64_t seq;
	int r;

	if (!audit)
		return 0;
	r = last(store, &seq, previous, err);
	if (r)
		return r;
	if (audit_hash(previous, ++seq, audit, hash))
		return error_set(err, -ENOMEM, "out of memory");
	return store_execute(store, err,
		"INSERT INTO audit (" COLUMNS ", previous, hash)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"iissssssss", seq, audit->time_ms, audit->who, audit->action,
		or_empty(audit->target), detail_of(audit), or_empty(audit->address),
		or_empty(audit->request), previous, hash);
}

int store_audit_add(struct store *store, const struct store_audit *audit, struct error *err)
{
	int r = store_begin(store, true, err);

	return r ? r : store_end(store, store_audit_append(store, audit, err), err);
}

static const char *text_at(sqlite3_stmt *s, int column)
{
	return or_empty((const char *)sqlite3_column_text(s, column));
}

static void take(sqlite3_stmt *s, struct store_audit *out)
{
	*out = (struct store_audit){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
		text_at(s, 2), text_at(s, 3), text_at(s, 4), text_at(s, 5), text_at(s, 6),
		text_at(s, 7)};
}

int store_audit_each(struct store *store, const char *action, int64_t before, uint32_t limit,
	int (*each)(void *context, const struct store_audit *audit), void *context,
	struct error *err)
{
	const bool group = action && text_ends(action, ".");
	struct store_audit audit;
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT " COLUMNS " FROM audit WHERE (?1 = '' OR action = ?1"
		" OR (?2 AND substr(action, 1, length(?1)) = ?1)) AND (?3 = 0 OR seq < ?3)"
		" ORDER BY seq DESC LIMIT ?4",
		"siii", or_empty(action), (int64_t)group, before, (int64_t)limit);
	while (!r && (r = store_row(store, s, err)) == 0) {
		take(s, &audit);
		r = each(context, &audit);
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

/* one entry against what the one before it promises */
static int check_row(
	struct store *store, sqlite3_stmt *s, int64_t seq, char *previous, struct error *err)
{
	char hash[HASH_HEX_SIZE];
	struct store_audit audit;

	take(s, &audit);
	if (audit.seq != seq)
		return error_set(err, -EBADMSG, "%s: entry %lld of the audit log is missing",
			store->path, (long long)seq);
	if (strcmp(text_at(s, 8), previous))
		return error_set(err, -EBADMSG,
			"%s: entry %lld of the audit log does not follow the one before it",
			store->path, (long long)seq);
	if (audit_hash(previous, seq, &audit, hash))
		return error_set(err, -ENOMEM, "out of memory");
	if (strcmp(text_at(s, 9), hash))
		return error_set(err, -EBADMSG, "%s: entry %lld of the audit log was changed",
			store->path, (long long)seq);
	text_copy(previous, HASH_HEX_SIZE, hash);
	return 0;
}

int store_audit_verify(struct store *store, uint64_t *count, struct error *err)
{
	char previous[HASH_HEX_SIZE] = "";
	struct error end = {0};
	sqlite3_stmt *s;
	int r = 0;

	*count = 0;
	pthread_mutex_lock(&store->lock);
	s = store_prepare(
		store, &end, "SELECT " COLUMNS ", previous, hash FROM audit ORDER BY seq", "");
	while (!r && (r = store_row(store, s, &end)) == 0) {
		r = check_row(store, s, (int64_t)*count + 1, previous, &end);
		*count += r == 0;
	}
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	if (r == -ENOENT)
		return 0;
	if (err)
		*err = end;
	return r;
}
