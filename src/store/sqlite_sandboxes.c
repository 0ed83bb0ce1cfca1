/* SPDX-License-Identifier: Apache-2.0 - sandboxes of the platform in SQLite. */
#include "store/money_internal.h"

#include "base/buffer.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                                    \
	"seq, id, owner, name, state, vcpu, memory_mib, disk_mib, created_ms, ready_ms,"           \
	" expires_ms, ended_ms, active_ms, deleted_ms, stop_reason, detail, isolation, labels,"    \
	" spec, machine, phase, paused_ms, paused_until_ms, paused_total_ms, "                     \
	"seat, " STORE_MONEY_COLUMNS
#define FROM        " FROM sandbox LEFT JOIN hold ON hold.sandbox = sandbox.id "
#define LABELS_MOST 32

void store_sandbox_fini(struct store_sandbox *s)
{
	if (!s)
		return;
	free(s->name);
	free(s->stop_reason);
	free(s->detail);
	free(s->isolation);
	free(s->labels);
	free(s->spec);
	*s = (struct store_sandbox){0};
}

static int take(sqlite3_stmt *s, struct store_sandbox *out)
{
	*out = (struct store_sandbox){.seq = sqlite3_column_int64(s, 0),
		.name = store_text(s, 3),
		.state = (enum store_sandbox_state)sqlite3_column_int(s, 4),
		.vcpu = (uint32_t)sqlite3_column_int(s, 5),
		.memory_mib = (uint32_t)sqlite3_column_int(s, 6),
		.disk_mib = (uint32_t)sqlite3_column_int(s, 7),
		.created_ms = sqlite3_column_int64(s, 8),
		.ready_ms = sqlite3_column_int64(s, 9),
		.expires_ms = sqlite3_column_int64(s, 10),
		.ended_ms = sqlite3_column_int64(s, 11),
		.active_ms = sqlite3_column_int64(s, 12),
		.deleted_ms = sqlite3_column_int64(s, 13),
		.stop_reason = store_text(s, 14),
		.detail = store_text(s, 15),
		.isolation = store_text(s, 16),
		.labels = store_text(s, 17),
		.spec = store_text(s, 18),
		.phase = (enum store_sandbox_phase)sqlite3_column_int(s, 20),
		.paused_ms = sqlite3_column_int64(s, 21),
		.paused_until_ms = sqlite3_column_int64(s, 22),
		.paused_total_ms = sqlite3_column_int64(s, 23),
		.reserved = sqlite3_column_int64(s, 24) > 0,
		.seat = (uint32_t)sqlite3_column_int64(s, 24)};
	store_money_take(s, 25, &out->money);
	text_copy(out->id, sizeof(out->id), (const char *)sqlite3_column_text(s, 1));
	text_copy(out->owner, sizeof(out->owner), (const char *)sqlite3_column_text(s, 2));
	text_copy(out->machine, sizeof(out->machine), (const char *)sqlite3_column_text(s, 19));
	return out->stop_reason && out->detail && out->isolation && out->labels && out->spec
		       ? 0
		       : -ENOMEM;
}

static int totals(
	struct store *store, const char *owner, struct store_quota *out, struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		/* one that is paused keeps its memory and needs no CPU */
		"SELECT count(*), coalesce(sum(memory_mib), 0),"
		" coalesce(sum(iif(phase = 2, 0, vcpu)), 0),"
		" coalesce(sum(owner = ?1), 0), coalesce(sum(iif(owner = ?1, memory_mib, 0)), 0),"
		" coalesce(sum(iif(owner = ?1 AND phase <> 2, vcpu, 0)), 0),"
		" coalesce(sum(seat > 0), 0)"
		" FROM sandbox WHERE state < 3",
		"s", owner);
	int r = store_row(store, s, err);

	if (!r)
		*out = (struct store_quota){.sandboxes = (uint64_t)sqlite3_column_int64(s, 0),
			.memory_mib = (uint64_t)sqlite3_column_int64(s, 1),
			.vcpu = (uint64_t)sqlite3_column_int64(s, 2),
			.key_sandboxes = (uint64_t)sqlite3_column_int64(s, 3),
			.key_memory_mib = (uint64_t)sqlite3_column_int64(s, 4),
			.key_vcpu = (uint64_t)sqlite3_column_int64(s, 5),
			.reserved = (uint64_t)sqlite3_column_int64(s, 6)};
	store_done(store, s);
	return r ? r : store_build_totals(store, owner, out, err);
}

int store_check_name(
	struct store *store, const struct store_sandbox *sandbox, char *taken, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	if (!sandbox->name)
		return 0;
	s = store_prepare(store, err,
		"SELECT id FROM sandbox WHERE owner = ? AND name = ? AND state < 3 AND id <> ?",
		"sss", sandbox->owner, sandbox->name, sandbox->id);
	r = store_row(store, s, err);
	if (!r) {
		text_copy(taken, ID_SIZE, (const char *)sqlite3_column_text(s, 0));
		r = error_set(err, -EEXIST, "the name %s is taken", sandbox->name);
	} else if (r == -ENOENT) {
		r = 0;
	}
	store_done(store, s);
	return r;
}

/* One ceiling: is there room for `more`? */
struct ceiling {
	const char *name, *what;
	uint64_t most, taken, more;
	int code;
};

int store_check_room(struct store *store, const struct store_sandbox *sandbox,
	const struct store_quota *quota, char *taken, struct error *err)
{
	struct store_quota now;
	int r = totals(store, sandbox->owner, &now, err);
	const uint64_t memory = sandbox->memory_mib, vcpu = sandbox->vcpu;
	const struct ceiling ceilings[] = {
		{"sandbox.count", "sandboxes", quota->sandboxes, now.sandboxes, 1, -EDQUOT},
		{"key.sandbox.count", "sandboxes of this key", quota->key_sandboxes,
			now.key_sandboxes, 1, -EDQUOT},
		{"key.sandbox.memory_mib", "MiB of memory of this key", quota->key_memory_mib,
			now.key_memory_mib, memory, -EDQUOT},
		{"key.sandbox.vcpu", "CPUs of this key", quota->key_vcpu, now.key_vcpu, vcpu,
			-EDQUOT},
		{"sandbox.memory_mib", "MiB of memory", quota->memory_mib, now.memory_mib, memory,
			-ENOSPC},
		{"sandbox.vcpu", "CPUs", quota->vcpu, now.vcpu, vcpu, -ENOSPC},
	};

	for (size_t i = 0; i < sizeof(ceilings) / sizeof(ceilings[0]) && !r; i++) {
		const struct ceiling *c = &ceilings[i];

		if (!c->most || (c->taken <= c->most && c->more <= c->most - c->taken))
			continue;
		text_copy(taken, ID_SIZE, c->name);
		r = error_set(err, c->code, "%llu more is asked for, and %llu of %llu %s are left",
			(unsigned long long)c->more,
			(unsigned long long)(c->most > c->taken ? c->most - c->taken : 0),
			(unsigned long long)c->most, c->what);
	}
	return r;
}

static int put_labels(struct store *store, const struct store_sandbox *sandbox, struct error *err)
{
	json_t *labels = json_loads(sandbox->labels, 0, NULL), *value;
	const char *name;
	int r = store_execute(store, err, "DELETE FROM label WHERE sandbox = ?", "s", sandbox->id);

	json_object_foreach (labels, name, value) {
		if (!r)
			r = store_execute(store, err,
				"INSERT INTO label (sandbox, name, value) VALUES (?, ?, ?)", "sss",
				sandbox->id, name, json_string_value(value));
	}
	json_decref(labels);
	return r;
}

int store_sandbox_add(struct store *store, const struct store_sandbox *sandbox,
	const struct store_quota *quota, const char *replay, char *taken, struct error *err)
{
	uint32_t seat = 0;
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_check_name(store, sandbox, taken, err);
	if (!r)
		r = store_check_room(store, sandbox, quota, taken, err);
	if (!r)
		r = store_seat(store, sandbox, quota->reserved, &seat, taken, err);
	if (!r)
		r = store_execute(store, err,
			"INSERT INTO sandbox (id, machine, owner, name, state, vcpu, memory_mib,"
			" disk_mib, created_ms, active_ms, expires_ms, labels, spec, seat)"
			" VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			"ssssiiiiiissi", sandbox->id,
			sandbox->machine[0] ? sandbox->machine : sandbox->id, sandbox->owner,
			sandbox->name, (int64_t)sandbox->vcpu, (int64_t)sandbox->memory_mib,
			(int64_t)sandbox->disk_mib, sandbox->created_ms, sandbox->created_ms,
			sandbox->expires_ms, sandbox->labels, sandbox->spec, (int64_t)seat);
	if (!r)
		r = put_labels(store, sandbox, err);
	if (!r && sandbox->terms)
		r = store_hold_open(store, sandbox->id, sandbox->owner, sandbox->terms,
			sandbox->created_ms, err);
	if (!r && replay)
		r = store_execute(store, err,
			"UPDATE replay SET resource = ? WHERE owner = ? AND key = ?", "sss",
			sandbox->id, sandbox->owner, replay);
	if (!r)
		r = store_note(store, sandbox->id, "sandbox.created", NULL, err);
	return store_end(store, r, err);
}

int store_sandbox_get(struct store *store, const char *owner, const char *id,
	struct store_sandbox *out, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	*out = (struct store_sandbox){0};
	pthread_mutex_lock(&store->lock);
	s = owner ? store_prepare(store, err, "SELECT " COLUMNS FROM "WHERE id = ? AND owner = ?",
			    "ss", id, owner)
		  : store_prepare(store, err, "SELECT " COLUMNS FROM "WHERE id = ?", "s", id);
	r = store_row(store, s, err);
	if (!r && take(s, out)) {
		store_sandbox_fini(out);
		r = error_set(err, -ENOMEM, "out of memory");
	}
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

/* The statement of a filter, with its values bound in the order of the text. */
static sqlite3_stmt *filtered(
	struct store *store, const struct store_sandbox_filter *f, struct error *err)
{
	struct buffer sql = {0};
	sqlite3_stmt *s = NULL;
	int at = 0, code;

	buffer_printf(&sql, "SELECT " COLUMNS FROM "WHERE deleted_ms = 0 AND seq > ?");
	if (f->owner)
		buffer_add_text(&sql, " AND owner = ?");
	if (f->name)
		buffer_add_text(&sql, " AND name = ?");
	for (size_t i = 0; i < f->labels && i < LABELS_MOST; i++)
		buffer_add_text(&sql, " AND EXISTS (SELECT 1 FROM label WHERE sandbox = sandbox.id"
				      " AND label.name = ? AND label.value = ?)");
	buffer_add_text(&sql, " AND (1 << iif(state = 1 AND phase, 3 + phase, state)) & ?"
			      " ORDER BY seq LIMIT ?");
	if (!buffer_text(&sql)) {
		error_set(err, -ENOMEM, "out of memory");
		buffer_fini(&sql);
		return NULL;
	}
	code = sqlite3_prepare_v2(store->db, buffer_text(&sql), -1, &s, NULL);
	buffer_fini(&sql);
	if (code != SQLITE_OK) {
		store_error(store, code, err);
		return NULL;
	}
	sqlite3_bind_int64(s, ++at, f->after);
	if (f->owner)
		sqlite3_bind_text(s, ++at, f->owner, -1, SQLITE_TRANSIENT);
	if (f->name)
		sqlite3_bind_text(s, ++at, f->name, -1, SQLITE_TRANSIENT);
	for (size_t i = 0; i < f->labels && i < LABELS_MOST; i++) {
		sqlite3_bind_text(s, ++at, f->label_names[i], -1, SQLITE_TRANSIENT);
		sqlite3_bind_text(s, ++at, f->label_values[i], -1, SQLITE_TRANSIENT);
	}
	sqlite3_bind_int64(s, ++at, f->states);
	sqlite3_bind_int64(s, ++at, f->limit);
	return s;
}

int store_sandbox_each(struct store *store, const struct store_sandbox_filter *filter,
	int (*each)(void *context, const struct store_sandbox *sandbox), void *context,
	struct error *err)
{
	struct store_sandbox one;
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = filtered(store, filter, err);
	while (!r && (r = store_row(store, s, err)) == 0) {
		r = take(s, &one);
		if (r)
			error_set(err, r, "out of memory");
		else
			r = each(context, &one);
		store_sandbox_fini(&one);
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

int store_sandbox_totals(
	struct store *store, const char *owner, struct store_quota *out, struct error *err)
{
	int r;

	pthread_mutex_lock(&store->lock);
	r = totals(store, owner, out, err);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_changed(struct store *store, int r, const char *id, const char *type, const char *data,
	struct error *err)
{
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ESTALE, "the sandbox is beyond that state");
	if (!r && type)
		r = store_note(store, id, type, data, err);
	return store_end(store, r, err);
}

int store_sandbox_ready(struct store *store, const char *id, const char *isolation, int64_t now_ms,
	int64_t expires_ms, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE sandbox SET state = 1, isolation = ?, ready_ms = ?, active_ms = ?,"
		" expires_ms = ? WHERE id = ? AND state = 0",
		"siiis", isolation, now_ms, now_ms, expires_ms, id);
	if (!r && sqlite3_changes(store->db) == 0)
		r = error_set(err, -ESTALE, "the sandbox is beyond that state");
	if (!r) /* the hold begins to run */
		r = store_execute(store, err,
			"UPDATE hold SET until_ms = ?, seen_ms = ? WHERE sandbox = ?", "iis",
			expires_ms, now_ms, id);
	if (!r)
		r = store_note(store, id, "sandbox.started", NULL, err);
	return store_end(store, r, err);
}

int store_sandbox_stopping(struct store *store, const char *id, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(
		store, err, "UPDATE sandbox SET state = 2 WHERE id = ? AND state < 2", "s", id);
	return store_changed(store, r, id, NULL, NULL, err);
}

int store_sandbox_stopped(struct store *store, const char *id, const char *reason,
	const char *detail, int64_t now_ms, struct error *err)
{
	char why[32], data[96];
	int r = store_begin(store, true, err);

	if (r)
		return r;
	text_copy(why, sizeof(why), reason);
	r = store_hold_close(store, id, now_ms, why, sizeof(why), err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE sandbox SET state = 3, stop_reason = ?1, detail = ?2,"
			" ended_ms = ?3, phase = 0, paused_total_ms ="
			" paused_total_ms + iif(phase = 2 AND ?3 > paused_ms, ?3 - paused_ms, 0)"
			" WHERE id = ?4 AND state < 3",
			"ssis", why, detail, now_ms, id);
	text_format(data, sizeof(data), "{\"stopReason\":\"%s\"}", why);
	return store_changed(store, r, id, "sandbox.stopped", data, err);
}

int store_sandbox_extend(struct store *store, const char *id, int64_t expires_ms, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE sandbox SET expires_ms = ? WHERE id = ? AND state < 2", "is", expires_ms,
		id);
	return store_changed(store, r, id, "sandbox.extended", NULL, err);
}

int store_sandbox_active(struct store *store, const char *id, int64_t now_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "UPDATE sandbox SET active_ms = ? WHERE id = ? AND state < 2",
		"is", now_ms, id);
	return store_changed(store, r, id, NULL, NULL, err);
}

int store_sandbox_delete(struct store *store, const char *id, int64_t now_ms, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE sandbox SET deleted_ms = ? WHERE id = ? AND deleted_ms = 0", "is", now_ms,
		id);
	return store_changed(store, r, id, "sandbox.deleted", NULL, err);
}

int store_sandbox_settings(
	struct store *store, const struct store_sandbox *sandbox, char *taken, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_check_name(store, sandbox, taken, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE sandbox SET name = ?, labels = ?, spec = ? WHERE id = ?", "ssss",
			sandbox->name, sandbox->labels, sandbox->spec, sandbox->id);
	if (!r)
		r = put_labels(store, sandbox, err);
	if (!r)
		r = store_note(store, sandbox->id, "sandbox.updated", NULL, err);
	return store_end(store, r, err);
}
