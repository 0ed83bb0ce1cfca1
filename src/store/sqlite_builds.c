/* SPDX-License-Identifier: Apache-2.0 - builds of images that are under way, in SQLite. */
#include "store/builds.h"
#include "store/sqlite_internal.h"

#include "base/text.h"

#include <errno.h>

/* Columns of `state`; the numbers are the store's. */
enum { WAITS, CLAIMS, HAS_ROOM };

int store_build_totals(
	struct store *store, const char *owner, struct store_quota *out, struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT coalesce(sum(memory_mib), 0), coalesce(sum(vcpu), 0),"
		" coalesce(sum(iif(owner = ?1, memory_mib, 0)), 0),"
		" coalesce(sum(iif(owner = ?1, vcpu, 0)), 0)"
		" FROM build WHERE state > 0",
		"s", owner);
	int r = store_row(store, s, err);

	if (!r) {
		out->memory_mib += (uint64_t)sqlite3_column_int64(s, 0);
		out->vcpu += (uint64_t)sqlite3_column_int64(s, 1);
		out->key_memory_mib += (uint64_t)sqlite3_column_int64(s, 2);
		out->key_vcpu += (uint64_t)sqlite3_column_int64(s, 3);
	}
	store_done(store, s);
	return r;
}

int store_build_unclaim(struct store *store, struct error *err)
{
	return store_execute(store, err, "UPDATE build SET state = 0 WHERE state = 1", "");
}

static int is_free(struct store *store, const char *name, struct error *err)
{
	sqlite3_stmt *s =
		store_prepare(store, err, "SELECT 1 FROM build WHERE name = ?", "s", name);
	int r = store_row(store, s, err);

	store_done(store, s);
	if (r == -ENOENT)
		return 0;
	return r ? r : error_set(err, -EEXIST, "a build of %s is under way", name);
}

int store_build_add(struct store *store, const struct store_build *build, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = is_free(store, build->name, err);
	if (!r)
		r = store_execute(store, err,
			"INSERT INTO build (name, owner, server, state, vcpu, memory_mib,"
			" created_ms) VALUES (?, ?, ?, 0, ?, ?, ?)",
			"sssiii", build->name, build->owner, build->server, (int64_t)build->vcpu,
			(int64_t)build->memory_mib, build->created_ms);
	return store_end(store, r, err);
}

/* What it needs, in the form of a sandbox that would need the same. */
static int needs(struct store *store, const char *name, struct store_sandbox *out, int *state,
	struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT owner, vcpu, memory_mib, state FROM build WHERE name = ?", "s", name);
	int r = store_row(store, s, err);

	*out = (struct store_sandbox){0};
	if (!r) {
		text_copy(out->owner, sizeof(out->owner), (const char *)sqlite3_column_text(s, 0));
		out->vcpu = (uint32_t)sqlite3_column_int64(s, 1);
		out->memory_mib = (uint32_t)sqlite3_column_int64(s, 2);
		*state = sqlite3_column_int(s, 3);
	}
	store_done(store, s);
	return r == -ENOENT ? error_set(err, r, "no build of %s is under way", name) : r;
}

/* *full is why it has no room, which is no failure of the transaction. */
static int take_room(struct store *store, const char *name, const struct store_quota *quota,
	bool claim, char *taken, int *full, struct error *err)
{
	/* ceilings of numbers are about sandboxes */
	const struct store_quota room = {.memory_mib = quota->memory_mib,
		.vcpu = quota->vcpu,
		.key_memory_mib = quota->key_memory_mib,
		.key_vcpu = quota->key_vcpu};
	struct store_sandbox build;
	int state = WAITS, r = needs(store, name, &build, &state, err);

	*full = 0;
	if (r || state == HAS_ROOM)
		return r;
	r = store_build_unclaim(store, err);
	if (!r)
		r = store_check_room(store, &build, &room, taken, err);
	if (r == -ENOSPC || r == -EDQUOT) {
		*full = r;
		r = 0;
	}
	state = !*full ? HAS_ROOM : *full == -ENOSPC && claim ? CLAIMS : WAITS;
	return r ? r
		 : store_execute(store, *full ? NULL : err,
			   "UPDATE build SET state = ? WHERE name = ?", "is", (int64_t)state, name);
}

int store_build_room(struct store *store, const char *name, const struct store_quota *quota,
	bool claim, char *taken, struct error *err)
{
	int r = store_begin(store, false, err), full = 0;

	if (r)
		return r;
	r = take_room(store, name, quota, claim, taken, &full, err);
	r = store_end(store, r, full ? NULL : err);
	return r ? r : full;
}

int store_build_remove(struct store *store, const char *name, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM build WHERE name = ?", "s", name);
	return store_end(store, r, err);
}

int store_build_sweep(struct store *store, const char *server, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "DELETE FROM build WHERE server <> ?", "s", server);
	return store_end(store, r, err);
}
