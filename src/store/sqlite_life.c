/* SPDX-License-Identifier: Apache-2.0 - sandboxes that are paused, woken, started anew. */
#include "store/money_internal.h"

#include "base/text.h"
#include "store/platform.h"

#include <errno.h>

/* A change of phase is not worth a wait for the disk: whoever finds it wrong asks the monitor. */

int store_sandbox_phase(
	struct store *store, const char *id, enum store_sandbox_phase phase, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err, "UPDATE sandbox SET phase = ? WHERE id = ? AND state = 1",
		"is", (int64_t)phase, id);
	return store_changed(store, r, id, NULL, NULL, err);
}

int store_sandbox_lease(struct store *store, const char *id, int64_t expires_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE sandbox SET expires_ms = ? WHERE id = ? AND state = 1 AND phase = 0", "is",
		expires_ms, id);
	return store_changed(store, r, id, NULL, NULL, err);
}

int store_sandbox_paused(
	struct store *store, const char *id, int64_t since_ms, int64_t until_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE sandbox SET phase = 2, paused_ms = ?, paused_until_ms = ?"
		" WHERE id = ? AND state = 1 AND (phase <> 2 OR paused_ms = 0)",
		"iis", since_ms, until_ms, id);
	return store_changed(store, r, id, "sandbox.paused", NULL, err);
}

int store_sandbox_woken(
	struct store *store, const char *id, int64_t now_ms, int64_t expires_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	/* what it costs is counted on from now */
	r = store_execute(store, err,
		"UPDATE hold SET seen_ms = ? WHERE sandbox = ? AND open = 1 AND EXISTS"
		" (SELECT 1 FROM sandbox WHERE id = hold.sandbox AND state = 1 AND phase <> 0)",
		"is", now_ms, id);
	if (!r)
		r = store_execute(store, err,
			"UPDATE sandbox SET phase = 0, expires_ms = ?2, active_ms = ?1, "
			"paused_total_ms ="
			" paused_total_ms + iif(paused_ms AND ?1 > paused_ms, ?1 - paused_ms, 0),"
			" paused_ms = 0, paused_until_ms = 0 WHERE id = ?3 AND state = 1 AND phase "
			"<> 0",
			"iis", now_ms, expires_ms, id);
	return store_changed(store, r, id, "sandbox.woken", NULL, err);
}

int store_sandbox_room(struct store *store, const struct store_sandbox *sandbox,
	const struct store_quota *quota, char *taken, struct error *err)
{
	struct store_sandbox more = *sandbox;
	struct store_quota cpu = {.vcpu = quota->vcpu, .key_vcpu = quota->key_vcpu};
	int r;

	more.memory_mib = 0; /* which it has */
	pthread_mutex_lock(&store->lock);
	r = store_check_room(store, &more, &cpu, taken, err);
	pthread_mutex_unlock(&store->lock);
	return r;
}

/* It is not counted as it was, and as it will be. */
static int restart(struct store *store, const struct store_sandbox *sandbox, const char *machine,
	const struct store_quota *quota, int64_t now_ms, int64_t lease_ms, char *taken,
	struct error *err)
{
	uint32_t seat = 0;
	int r = store_execute(store, err,
		"INSERT OR REPLACE INTO spare (id, shape, memory_mib, state, created_ms)"
		" SELECT machine, '', memory_mib, 2, created_ms FROM sandbox"
		" WHERE id = ? AND state = 1",
		"s", sandbox->id);

	/* the room that a running one has is its own: a build that waits for room has no claim to
	 * it */
	if (!r && sqlite3_changes(store->db) > 0)
		r = store_build_unclaim(store, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE sandbox SET state = 3 WHERE id = ? AND (state = 1 OR state = 3)"
			" AND deleted_ms = 0",
			"s", sandbox->id);
	if (!r && sqlite3_changes(store->db) == 0)
		return error_set(err, -ESTALE, "the sandbox is being started or stopped");
	if (!r)
		r = store_check_name(store, sandbox, taken, err);
	if (!r)
		r = store_check_room(store, sandbox, quota, taken, err);
	if (!r)
		r = store_seat(store, sandbox, quota->reserved, &seat, taken, err);
	if (!r)
		r = store_execute(store, err,
			"UPDATE sandbox SET state = 0, machine = ?, seat = ?, phase = 0,"
			" ready_ms = 0,"
			" ended_ms = 0, paused_ms = 0, paused_until_ms = 0, paused_total_ms = 0,"
			" stop_reason = '', detail = '', active_ms = ?, expires_ms = ? WHERE id = "
			"?",
			"siiis", machine, (int64_t)seat, now_ms, now_ms + lease_ms, sandbox->id);
	if (!r)
		r = store_hold_again(store, sandbox->id, lease_ms, now_ms, err);
	return r;
}

int store_sandbox_restart(struct store *store, const struct store_sandbox *sandbox,
	const char *machine, const struct store_quota *quota, int64_t now_ms, int64_t lease_ms,
	char *taken, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = restart(store, sandbox, machine, quota, now_ms, lease_ms, taken, err);
	if (!r)
		r = store_note(store, sandbox->id, "sandbox.restarted", NULL, err);
	return store_end(store, r, err);
}

int store_sandbox_of_machine(struct store *store, const char *machine, char *id, struct error *err)
{
	sqlite3_stmt *s;
	int r;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err, "SELECT id FROM sandbox WHERE machine = ?", "s", machine);
	r = store_row(store, s, err);
	if (!r)
		r = text_copy(id, ID_SIZE, (const char *)sqlite3_column_text(s, 0));
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return r;
}

int store_sandbox_settle_phases(struct store *store, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE sandbox SET phase = iif(phase = 1, 0, 2) WHERE phase IN (1, 3)", "");
	return store_end(store, r, err);
}
