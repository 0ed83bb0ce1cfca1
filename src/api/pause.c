/* SPDX-License-Identifier: Apache-2.0 - sandboxes that are paused, woken, and started afresh. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

#define ASK_MS 5000 /* a monitor that does not say hello for so long does not answer */

void pause_rules(const struct api_server *server, const struct store_sandbox *record,
	const json_t *spec, struct sandbox_rules *out)
{
	bool pausable = request_boolean(spec, "pausable", false);

	*out = (struct sandbox_rules){.lease_ms = money_lease_ms(record,
					      1000 * request_integer(spec, "timeoutSeconds", 60)),
		.paused_ms = 1000 * (int64_t)server->options.paused_most_s,
		.pause_at_end =
			pausable && strcmp(request_text(spec, "onLeaseEnd", "stop"), "pause") == 0,
		.persistent = request_boolean(spec, "persistent", false),
		.auto_wake = request_boolean(spec, "autoWake", true)};
	if (out->lease_ms <= 0)
		out->lease_ms = 1;
	/* what ends by its money is stopped, and a lease that renews itself knows of no cap */
	if (record->money.open && record->money.bounded)
		out->pause_at_end = out->persistent = false;
	if (record->money.open && record->money.cap_micros != STORE_NO_CAP)
		out->persistent = false;
	if (pausable && !request_boolean(spec, "persistent", false))
		out->idle_ms = 1000 * request_integer(spec, "idlePauseSeconds", 0);
}

static int64_t lease_of(const struct store_sandbox *record)
{
	json_t *spec = json_loads(record->spec, 0, NULL);
	int64_t lease_ms = 1000 * request_integer(spec, "timeoutSeconds", 60);

	json_decref(spec);
	return lease_ms;
}

/* --- what is true --- */

/* its monitor knows when its lease ends: it may have woken, or renewed it */
static int ask_lease(
	struct api_server *server, const struct store_sandbox *record, struct error *err)
{
	struct sandbox_state state;
	struct sandbox *s;
	int64_t now;
	int r = sandbox_attach(server->home, record->machine, ASK_MS, &s, err);

	if (r == -ENODEV || r == -ETIMEDOUT || r == -EBUSY)
		return 0; /* whoever asks next will know more */
	if (r)
		return r;
	r = sandbox_state(s, &state, err);
	sandbox_free(s);
	if (r == -ENODEV || (!r && state.paused))
		return 0;
	now = api_now_ms();
	if (!r && record->phase)
		r = store_sandbox_woken(server->store, record->id, now, now + state.left_ms, err);
	else if (!r)
		r = store_sandbox_lease(server->store, record->id, now + state.left_ms, err);
	return r == -ESTALE ? 0 : r ? r : 1;
}

int pause_settle(struct api_server *server, const struct store_sandbox *record, struct error *err)
{
	int64_t since, until;
	int r = 0, paused;

	if (record->state != STORE_SANDBOX_RUNNING)
		return 0;
	paused = sandbox_look_paused(server->home, record->machine, &since, &until);
	if (paused < 0)
		return error_sys(err, paused, "cannot look whether it is paused");
	if (paused) {
		/* while it is being woken it is not yet awake */
		if (record->phase != STORE_PHASE_RESUMING && record->paused_ms != since)
			r = store_sandbox_paused(server->store, record->id, since, until, err);
		else
			return 0;
		if (r == -ESTALE)
			return 0;
		if (!r)
			money_paused(server, record->id);
		api_changed(server);
		return r ? r : 1;
	}
	if (record->phase == STORE_PHASE_PAUSED ||
		(!record->phase && record->expires_ms < api_now_ms()))
		r = ask_lease(server, record, err);
	if (r == 1)
		api_changed(server);
	return r;
}

/* --- asked for --- */

/* The record says what is being done as long as it is being done. */
static void set_phase(struct request *q, const char *id, enum store_sandbox_phase phase)
{
	struct error err = {0};
	int r = store_sandbox_phase(q->server->store, id, phase, &err);

	if (r && r != -ESTALE)
		log_warning("request %s: %s", q->id, error_message(&err));
	api_changed(q->server);
}

static int pause_it(struct request *q, const struct store_sandbox *record, struct error *err)
{
	struct api_server *server = q->server;
	int64_t since, until;
	struct sandbox *s;
	int r = sandbox_attach(server->home, record->machine, ASK_MS, &s, err);

	if (r)
		return r;
	set_phase(q, record->id, STORE_PHASE_PAUSING);
	r = sandbox_pause(s, err);
	sandbox_free(s);
	if (!r && sandbox_look_paused(server->home, record->machine, &since, &until) > 0) {
		r = store_sandbox_paused(server->store, record->id, since, until, err);
		if (!r || r == -ESTALE) /* the watcher has seen it first, and is about to */
			money_paused(server, record->id);
	} else { /* it failed, or somebody has woken it since */
		set_phase(q, record->id, STORE_PHASE_AWAKE);
	}
	return r == -ESTALE ? 0 : r;
}

static int wake_it(struct request *q, const struct store_sandbox *record, struct sandbox *s,
	int64_t lease_ms, struct error *err)
{
	struct api_server *server = q->server;
	int64_t now;
	int r;

	set_phase(q, record->id, STORE_PHASE_RESUMING);
	r = sandbox_wake(s, money_lease_ms(record, lease_ms), err);
	now = api_now_ms();
	if (r)
		set_phase(q, record->id, STORE_PHASE_PAUSED);
	else
		r = store_sandbox_woken(server->store, record->id, now, now + lease_ms, err);
	return r == -ESTALE ? 0 : r;
}

bool pause_wake(struct request *q, struct store_sandbox *record, int64_t lease_ms)
{
	struct api_server *server = q->server;
	char taken[ID_SIZE] = "";
	struct error err = {0};
	struct sandbox *s = NULL;
	bool woken = false;
	int r = store_sandbox_room(server->store, record, &server->quota, taken, &err);

	if (!lease_ms)
		lease_ms = lease_of(record);
	if (!r)
		r = sandbox_attach(server->home, record->machine, ASK_MS, &s, &err);
	if (r == -ENOSPC || r == -EDQUOT) {
		answer_no_room(q, r, taken, &err);
	} else if (r) {
		life_failure(q, record, r, &err, false);
	} else if (money_extend(q, record, s, api_now_ms() + lease_ms)) {
		r = wake_it(q, record, s, lease_ms, &err);
		woken = !r;
		if (r)
			life_failure(q, record, r, &err, false);
	}
	sandbox_free(s);
	api_changed(server);
	return woken;
}

static bool is_pausable(const struct store_sandbox *record)
{
	json_t *spec = json_loads(record->spec, 0, NULL);
	bool pausable = request_boolean(spec, "pausable", false);

	json_decref(spec);
	return pausable;
}

/* a record that is not being started any more; false: answered */
static bool find_begun(struct request *q, struct store_sandbox *record)
{
	struct error err = {0};

	if (!life_find(q, record))
		return false;
	if (record->state != STORE_SANDBOX_STARTING ||
		life_wait(q->server, record, life_has_begun, NULL, 1000 * API_WAIT_MOST / 4,
			&err) == 0)
		return true;
	answer_failure(q, &err);
	store_sandbox_fini(record);
	return false;
}

static void answer_not_running(struct request *q, const struct store_sandbox *record)
{
	answer_error(q,
		record->state == STORE_SANDBOX_STARTING ? API_SANDBOX_NOT_READY
							: API_SANDBOX_STOPPED,
		json_pack("{ss}", "sandboxId", record->id), "The sandbox is %s.",
		sandbox_state_name(record));
}

void sandboxes_pause(struct request *q)
{
	struct store_sandbox record;
	struct error err = {0};
	int r;

	if (!find_begun(q, &record))
		return;
	if (record.state != STORE_SANDBOX_RUNNING) {
		answer_not_running(q, &record);
	} else if (!is_pausable(&record)) {
		answer_error(q, API_NOT_PAUSABLE, NULL, "The sandbox is not pausable.");
	} else {
		r = record.phase == STORE_PHASE_PAUSED ? 0 : pause_it(q, &record, &err);
		api_changed(q->server);
		if (r)
			life_failure(q, &record, r, &err, false);
		else
			answer_record(q, record.id, 200, 0, NULL);
	}
	store_sandbox_fini(&record);
}

void sandboxes_wake(struct request *q)
{
	int64_t lease_ms = 1000 * request_integer(q->json, "timeoutSeconds", 0);
	struct store_sandbox record;

	if (!find_begun(q, &record))
		return;
	if (record.state != STORE_SANDBOX_RUNNING)
		answer_not_running(q, &record);
	else if (!record.phase)
		answer_error(q, API_NOT_PAUSED, NULL, "The sandbox is not paused.");
	else if (pause_wake(q, &record, lease_ms))
		answer_record(q, record.id, 200, 0, NULL);
	store_sandbox_fini(&record);
}

void sandboxes_restart(struct request *q)
{
	char taken[ID_SIZE] = "";
	struct store_sandbox record;
	struct error err = {0};
	int r;

	if (!life_find(q, &record))
		return;
	money_look(q->server, &record);
	r = life_restart(q->server, &record, taken, &err);
	if (r == STORE_OVER_LIMIT)
		money_refuse(q, record.owner,
			meter_hold(&record.money.terms, 1000 * (uint64_t)lease_of(&record)), &err);
	else if (r == -ESTALE)
		answer_error(q, API_SANDBOX_NOT_READY, NULL, "The sandbox is %s.",
			sandbox_state_name(&record));
	else if (r)
		answer_no_room(q, r, taken, &err);
	else
		answer_record(q, record.id, 200, q->wait_ms, NULL);
	store_sandbox_fini(&record);
}
