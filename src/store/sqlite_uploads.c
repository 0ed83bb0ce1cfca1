/* SPDX-License-Identifier: Apache-2.0 - uploads under way, in SQLite. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/platform.h"

#include <errno.h>
#include <stdlib.h>

void store_upload_fini(struct store_upload *upload)
{
	free(upload->path);
	upload->path = NULL;
}

int store_upload_add(struct store *store, const struct store_upload *u, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"INSERT INTO upload (id, sandbox, archive, path, size, sha256, mode, root,"
		" created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"ssisisiii", u->id, u->sandbox, (int64_t)u->archive, u->path, u->size, u->sha256,
		(int64_t)u->mode, (int64_t)u->root, u->created_ms);
	return store_end(store, r, err);
}

int store_upload_get(struct store *store, const char *sandbox, const char *id,
	struct store_upload *out, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	*out = (struct store_upload){0};
	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT id, sandbox, archive, path, size, sha256, mode, root, created_ms"
		" FROM upload WHERE id = ? AND sandbox = ?",
		"ss", id, sandbox);
	r = store_row(store, s, err);
	if (!r) {
		text_copy(out->id, sizeof(out->id), (const char *)sqlite3_column_text(s, 0));
		text_copy(out->sandbox, sizeof(out->sandbox),
			(const char *)sqlite3_column_text(s, 1));
		out->archive = sqlite3_column_int(s, 2) != 0;
		out->path = store_text(s, 3);
		out->size = sqlite3_column_int64(s, 4);
		text_copy(
			out->sha256, sizeof(out->sha256), (const char *)sqlite3_column_text(s, 5));
		out->mode = (uint32_t)sqlite3_column_int64(s, 6);
		out->root = sqlite3_column_int(s, 7) != 0;
		out->created_ms = sqlite3_column_int64(s, 8);
		if (!out->path)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_upload_end(struct store *store, const char *id, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM upload WHERE id = ?", "s", id);
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ENOENT, "there is no such upload");
	return store_end(store, r, err);
}

int store_upload_list(struct store *store, const char *sandbox, char (*ids)[ID_SIZE], size_t most,
	size_t *count, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	*count = 0;
	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err, "SELECT id FROM upload WHERE sandbox = ?", "s", sandbox);
	while ((r = store_row(store, s, err)) == 0) {
		if (*count < most)
			text_copy(ids[*count], ID_SIZE, (const char *)sqlite3_column_text(s, 0));
		++*count;
	}
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r == -ENOENT ? 0 : r;
}

int store_upload_find(struct store *store, const char *id, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err, "SELECT 1 FROM upload WHERE id = ?", "s", id);
	r = store_row(store, s, err);
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_upload_oldest(struct store *store, int64_t before_ms, char *id, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT id FROM upload WHERE created_ms < ? OR NOT EXISTS (SELECT 1 FROM sandbox"
		" WHERE sandbox.id = upload.sandbox AND state <> ?) LIMIT 1",
		"ii", before_ms, (int64_t)STORE_SANDBOX_STOPPED);
	r = store_row(store, s, err);
	if (!r)
		text_copy(id, ID_SIZE, (const char *)sqlite3_column_text(s, 0));
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}
