/* SPDX-License-Identifier: Apache-2.0 - what has happened to sandboxes: added to, and read. */
#include "store/sqlite_internal.h"

#include "store/platform.h"

#include <errno.h>
#include <time.h>

int store_note(struct store *store, const char *sandbox, const char *type, const char *data,
	struct error *err)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return store_execute(store, err,
		"INSERT INTO event (time_ms, owner, sandbox, type, data)"
		" SELECT ?, owner, id, ?, ? FROM sandbox WHERE id = ?",
		"isss", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, type,
		data ? data : "{}", sandbox);
}

int store_event_each(struct store *store, const struct store_event_filter *f,
	int (*each)(void *context, const struct store_event *event), void *context,
	struct error *err)
{
	struct store_event one;
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT seq, time_ms, owner, sandbox, type, data FROM event"
		" WHERE seq < ?1 AND (?2 IS NULL OR owner = ?2) AND (?3 IS NULL OR sandbox = ?3)"
		" AND (?4 IS NULL OR type = ?4) ORDER BY seq DESC LIMIT ?5",
		"isssi", f->before ? f->before : INT64_MAX, f->owner, f->sandbox, f->type,
		(int64_t)f->limit);
	while (!r && (r = store_row(store, s, err)) == 0) {
		one = (struct store_event){.seq = sqlite3_column_int64(s, 0),
			.time_ms = sqlite3_column_int64(s, 1),
			.owner = (const char *)sqlite3_column_text(s, 2),
			.sandbox = (const char *)sqlite3_column_text(s, 3),
			.type = (const char *)sqlite3_column_text(s, 4),
			.data = (const char *)sqlite3_column_text(s, 5)};
		r = each(context, &one);
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

int store_event_expire(struct store *store, int64_t before_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM event WHERE time_ms < ?", "i", before_ms);
	return store_end(store, r, err);
}
