/* SPDX-License-Identifier: Apache-2.0 - records in SQLite: added to a chain, read, verified. */
#include "store/sqlite_internal.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* all that a record says, in the order of its columns, with the hash of the one before it */
static int record_hash(const char *previous, int64_t seq, int64_t run, const char *time,
	const struct store_record *record, char *out)
{
	const char *const parts[] = {
		previous, time, record->student, record->digest, record->status, record->body};
	struct hash *h = hash_new();
	char numbers[48];

	if (!h)
		return -ENOMEM;
	text_format(numbers, sizeof(numbers), "%lld %lld", (long long)seq, (long long)run);
	hash_add_field(h, numbers, strlen(numbers));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash_add_field(h, parts[i], strlen(parts[i]));
	hash_end(h, out);
	hash_free(h);
	return 0;
}

static int last_record(struct store *store, int64_t *seq, char *hash, struct error *err)
{
	sqlite3_stmt *s = store_prepare(
		store, err, "SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1", "");
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	int r = code == SQLITE_ROW || code == SQLITE_DONE ? 0
		: s                                       ? store_error(store, code, err)
							  : -EIO;

	*seq = 0;
	hash[0] = 0;
	if (code == SQLITE_ROW) {
		*seq = sqlite3_column_int64(s, 0);
		text_copy(hash, HASH_HEX_SIZE, (const char *)sqlite3_column_text(s, 1));
	}
	store_done(store, s);
	return r;
}

int store_append(
	struct store *store, int64_t run, const struct store_record *record, struct error *err)
{
	char previous[HASH_HEX_SIZE], hash[HASH_HEX_SIZE], now[CLOCK_STAMP_SIZE];
	int64_t seq;
	int r = last_record(store, &seq, previous, err);

	if (r)
		return r;
	clock_stamp(now);
	seq++;
	if (record_hash(previous, seq, run, now, record, hash))
		return error_set(err, -ENOMEM, "out of memory");
	return store_execute(store, err,
		"INSERT INTO record (seq, run, student, digest, status, time, body, previous, hash)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"iisssssss", seq, run, record->student, record->digest, record->status, now,
		record->body, previous, hash);
}

static const char *text_at(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text : "";
}

int store_records_each(struct store *store, int64_t run,
	int (*each)(void *context, const struct store_record *record), void *context,
	struct error *err)
{
	int code = SQLITE_DONE, r = 0;
	sqlite3_stmt *s;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT r.student, r.digest, r.status, r.body, r.time, r.previous, r.hash,"
		" (SELECT count(*) FROM record WHERE run = j.run AND student = j.student)"
		" FROM job j JOIN record r"
		" ON r.seq = (SELECT max(seq) FROM record WHERE run = j.run AND student = "
		"j.student)"
		" WHERE j.run = ? AND j.state = 3 ORDER BY j.student",
		"i", run);
	if (!s)
		r = -EIO;
	while (!r && (code = sqlite3_step(s)) == SQLITE_ROW) {
		const struct store_record record = {.student = text_at(s, 0),
			.digest = text_at(s, 1),
			.status = text_at(s, 2),
			.body = text_at(s, 3),
			.time = text_at(s, 4),
			.previous = text_at(s, 5),
			.hash = text_at(s, 6),
			.attempt = (unsigned)sqlite3_column_int(s, 7)};

		r = each(context, &record);
	}
	if (!r && code != SQLITE_DONE)
		r = store_error(store, code, err);
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_record_body(
	struct store *store, int64_t run, const char *student, char **body, struct error *err)
{
	sqlite3_stmt *s;
	int code, r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT body FROM record WHERE run = ? AND student = ? ORDER BY seq DESC LIMIT 1",
		"is", run, student);
	code = s ? sqlite3_step(s) : SQLITE_ERROR;
	if (code == SQLITE_ROW && !(*body = strdup(text_at(s, 0))))
		r = error_set(err, -ENOMEM, "out of memory");
	else if (code == SQLITE_DONE)
		r = error_set(err, -ENOENT, "%s: has no record", student);
	else if (code != SQLITE_ROW)
		r = s ? store_error(store, code, err) : -EIO;
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

/* one row against what the row before it promises */
static int check_row(
	struct store *store, sqlite3_stmt *s, int64_t seq, char *previous, struct error *err)
{
	const struct store_record record = {.student = text_at(s, 2),
		.digest = text_at(s, 3),
		.status = text_at(s, 4),
		.body = text_at(s, 6)};
	char hash[HASH_HEX_SIZE];

	if (sqlite3_column_int64(s, 0) != seq)
		return error_set(
			err, -EBADMSG, "%s: record %lld is missing", store->path, (long long)seq);
	if (strcmp(text_at(s, 7), previous))
		return error_set(err, -EBADMSG,
			"%s: record %lld (%s) does not follow the one before it", store->path,
			(long long)seq, record.student);
	if (record_hash(previous, seq, sqlite3_column_int64(s, 1), text_at(s, 5), &record, hash))
		return error_set(err, -ENOMEM, "out of memory");
	if (strcmp(text_at(s, 8), hash))
		return error_set(err, -EBADMSG, "%s: record %lld (%s) was changed", store->path,
			(long long)seq, record.student);
	text_copy(previous, HASH_HEX_SIZE, hash);
	return 0;
}

int store_verify(struct store *store, uint64_t *count, struct error *err)
{
	char previous[HASH_HEX_SIZE] = "";
	int code = SQLITE_DONE, r = 0;
	sqlite3_stmt *s;

	*count = 0;
	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT seq, run, student, digest, status, time, body, previous, hash FROM record"
		" ORDER BY seq",
		"");
	if (!s)
		r = -EIO;
	while (!r && (code = sqlite3_step(s)) == SQLITE_ROW) {
		r = check_row(store, s, (int64_t)*count + 1, previous, err);
		*count += r == 0;
	}
	if (!r && code != SQLITE_DONE)
		r = store_error(store, code, err);
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}
