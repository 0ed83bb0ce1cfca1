/* SPDX-License-Identifier: Apache-2.0 - machines that are no sandbox's, in SQLite. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/platform.h"

#include <errno.h>

int store_spare_add(struct store *store, const struct store_spare *spare, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"INSERT INTO spare (id, shape, memory_mib, state, created_ms)"
		" VALUES (?, ?, ?, ?, ?)",
		"ssiii", spare->id, spare->shape, (int64_t)spare->memory_mib, (int64_t)spare->state,
		spare->created_ms);
	return store_end(store, r, err);
}

int store_spare_advance(
	struct store *store, const char *id, enum store_spare_state state, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "UPDATE spare SET state = ?1 WHERE id = ?2 AND state < ?1",
		"is", (int64_t)state, id);
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ESTALE, "the machine is beyond that state");
	return store_end(store, r, err);
}

int store_spare_remove(struct store *store, const char *id, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM spare WHERE id = ?", "s", id);
	return store_end(store, r, err);
}

int store_spare_take(struct store *store, const char *shape, const char *sandbox, char *machine,
	struct error *err)
{
	sqlite3_stmt *s;
	int r = store_begin(store, false, err);

	if (r)
		return r;
	s = store_prepare(store, err,
		"SELECT id FROM spare WHERE shape = ? AND state = 1 ORDER BY created_ms LIMIT 1",
		"s", shape);
	r = store_row(store, s, err);
	if (!r)
		r = text_copy(machine, ID_SIZE, (const char *)sqlite3_column_text(s, 0));
	store_done(store, s);
	if (!r)
		r = store_execute(store, err, "DELETE FROM spare WHERE id = ?", "s", machine);
	if (!r)
		r = store_execute(store, err,
			"UPDATE sandbox SET machine = ? WHERE id = ? AND state = 0", "ss", machine,
			sandbox);
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ESTALE, "the sandbox does not start any more");
	return store_end(store, r, err);
}

int store_sandbox_machine(
	struct store *store, const char *id, const char *machine, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "UPDATE sandbox SET machine = ? WHERE id = ? AND state = 0",
		"ss", machine, id);
	return store_changed(store, r, id, NULL, NULL, err);
}

int store_spare_each(struct store *store,
	int (*each)(void *context, const struct store_spare *spare), void *context,
	struct error *err)
{
	struct store_spare one;
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT id, shape, memory_mib, state, created_ms FROM spare ORDER BY created_ms",
		"");
	while (!r && (r = store_row(store, s, err)) == 0) {
		one = (struct store_spare){.memory_mib = (uint32_t)sqlite3_column_int(s, 2),
			.state = (enum store_spare_state)sqlite3_column_int(s, 3),
			.created_ms = sqlite3_column_int64(s, 4)};
		text_copy(one.id, sizeof(one.id), (const char *)sqlite3_column_text(s, 0));
		text_copy(one.shape, sizeof(one.shape), (const char *)sqlite3_column_text(s, 1));
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
