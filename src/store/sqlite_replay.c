/* SPDX-License-Identifier: Apache-2.0 - changes that may be sent again, in SQLite. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void store_replay_fini(struct store_replay *replay)
{
	free(replay->body);
	replay->body = NULL;
}

/* what is known of a key that was used before */
static int take(sqlite3_stmt *s, const char *hash, const char *server, struct store_replay *out)
{
	const char *by = (const char *)sqlite3_column_text(s, 1);

	text_copy(out->resource, sizeof(out->resource), (const char *)sqlite3_column_text(s, 2));
	if (strcmp((const char *)sqlite3_column_text(s, 0), hash) != 0) {
		out->state = STORE_REPLAY_OTHER;
	} else if (!by[0]) {
		out->state = STORE_REPLAY_ANSWERED;
		out->status = sqlite3_column_int(s, 3);
		out->body = store_text(s, 4);
		return out->body ? 0 : -ENOMEM;
	} else {
		out->state = strcmp(by, server) == 0 ? STORE_REPLAY_BUSY : STORE_REPLAY_LEFT;
	}
	return 0;
}

int store_replay_begin(struct store *store, const char *owner, const char *key, const char *hash,
	const char *server, int64_t now_ms, struct store_replay *out, struct error *err)
{
	sqlite3_stmt *s;
	int r = store_begin(store, false, err);

	*out = (struct store_replay){0};
	if (r)
		return r;
	s = store_prepare(store, err,
		"SELECT hash, server, resource, status, body FROM replay"
		" WHERE owner = ? AND key = ?",
		"ss", owner, key);
	r = store_row(store, s, err);
	if (!r && take(s, hash, server, out))
		r = error_set(err, -ENOMEM, "out of memory");
	store_done(store, s);
	if (r == -ENOENT)
		r = store_execute(store, err,
			"INSERT INTO replay (owner, key, hash, server, resource, status, body,"
			" created_ms) VALUES (?, ?, ?, ?, '', 0, '', ?)",
			"ssssi", owner, key, hash, server, now_ms);
	else if (!r && out->state == STORE_REPLAY_LEFT)
		r = store_execute(store, err,
			"UPDATE replay SET server = ? WHERE owner = ? AND key = ?", "sss", server,
			owner, key);
	return store_end(store, r, err);
}

int store_replay_answer(struct store *store, const char *owner, const char *key, int status,
	const char *body, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE replay SET server = '', status = ?, body = ?, bytes = ?"
		" WHERE owner = ? AND key = ?",
		"isiss", (int64_t)status, body, (int64_t)strlen(body), owner, key);
	return store_end(store, r, err);
}

int store_replay_drop(struct store *store, const char *owner, const char *key, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(
		store, err, "DELETE FROM replay WHERE owner = ? AND key = ?", "ss", owner, key);
	return store_end(store, r, err);
}

int store_replay_trim(struct store *store, int64_t bytes_most, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"DELETE FROM replay WHERE server = '' AND (owner, key) IN"
		" (SELECT owner, key FROM (SELECT owner, key, sum(bytes + 512)"
		" OVER (PARTITION BY owner ORDER BY created_ms DESC, key) AS total FROM replay)"
		" WHERE total > ?)",
		"i", bytes_most);
	return store_end(store, r, err);
}

int store_replay_expire(struct store *store, int64_t before_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM replay WHERE created_ms < ?", "i", before_ms);
	return store_end(store, r, err);
}
