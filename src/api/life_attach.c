/* SPDX-License-Identifier: Apache-2.0 - sandboxes for handlers: found, connected to, and what is
 * answered when they cannot be. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define ATTACH_MS 30000 /* a command on a sandbox that starts waits this long */
#define END_MS    10000
#define ACTIVE_MS 1000 /* lastActiveAt is at most so much too early */

bool life_find(struct request *q, struct store_sandbox *out)
{
	struct error err = {0};
	int r = store_sandbox_get(
		q->server->store, q->key.account ? NULL : q->key.id, q->params[0], out, &err);

	if (r == -ENOENT || (!r && out->deleted_ms)) {
		answer_error(q, API_NOT_FOUND, NULL, "There is no sandbox %s.", q->params[0]);
	} else if (r || life_settle(q->server, out, &err)) {
		answer_failure(q, &err);
	} else {
		return true;
	}
	store_sandbox_fini(out);
	return false;
}

void answer_stopped(struct request *q, const struct store_sandbox *record)
{
	answer_error(q, API_SANDBOX_STOPPED,
		json_pack("{ss ss}", "sandboxId", record->id, "stopReason",
			record->stop_reason ? record->stop_reason : ""),
		"The sandbox is %s.",
		record->state == STORE_SANDBOX_STOPPED ? "stopped" : "being stopped");
}

void answer_paused(struct request *q, const struct store_sandbox *record)
{
	answer_error(q, API_SANDBOX_PAUSED, json_pack("{ss}", "sandboxId", record->id),
		"The sandbox is paused.");
}

bool life_has_begun(const struct store_sandbox *record, const void *context)
{
	return record->state != STORE_SANDBOX_STARTING;
}

bool life_has_ended(const struct store_sandbox *record, const void *context)
{
	return record->state == STORE_SANDBOX_STOPPED;
}

/* the record of one that runs, or is paused; false: answered */
static bool find_running(struct request *q, struct store_sandbox *record)
{
	struct error err = {0};
	int r = 0;

	if (!life_find(q, record))
		return false;
	if (record->state == STORE_SANDBOX_STARTING)
		r = life_wait(q->server, record, life_has_begun, NULL, ATTACH_MS, &err);
	if (r)
		answer_failure(q, &err);
	else if (record->state >= STORE_SANDBOX_STOPPING)
		answer_stopped(q, record);
	else
		return true;
	store_sandbox_fini(record);
	return false;
}

static struct sandbox *attach(struct request *q, struct store_sandbox *record)
{
	struct sandbox *s = NULL;
	struct error err = {0};
	int r = sandbox_attach(q->server->home, record->machine, ATTACH_MS, &s, &err);

	if (r) {
		life_failure(q, record, r, &err, false);
		store_sandbox_fini(record);
	}
	return s;
}

struct sandbox *life_attach_as_it_is(struct request *q, struct store_sandbox *record)
{
	return find_running(q, record) ? attach(q, record) : NULL;
}

/* false: it is paused, and stays so, which is answered */
static bool is_awake(struct request *q, struct store_sandbox *record)
{
	json_t *spec;
	bool wakes;

	if (!record->phase)
		return true;
	spec = json_loads(record->spec, 0, NULL);
	wakes = request_boolean(spec, "autoWake", true);
	json_decref(spec);
	/* waking costs, and gives a new lease: that is no reading */
	if (wakes && strcmp(q->key.access, "read") != 0)
		return pause_wake(q, record, 0);
	answer_paused(q, record);
	return false;
}

struct sandbox *life_attach(struct request *q, struct store_sandbox *record)
{
	struct error err = {0};
	const int64_t now = api_now_ms();
	struct sandbox *s;
	int r;

	if (!find_running(q, record))
		return NULL;
	if (!is_awake(q, record)) {
		store_sandbox_fini(record);
		return NULL;
	}
	s = attach(q, record);
	if (!s)
		return NULL;
	/* the monitor counts idleness itself; one that is in use all the time is not written
	 * each time */
	if (now - record->active_ms < ACTIVE_MS && now >= record->active_ms)
		return s;
	r = store_sandbox_active(q->server->store, record->id, now, &err);
	if (r && r != -ESTALE)
		log_warning("request %s: %s", q->id, error_message(&err));
	return s;
}

static void file_failure(struct request *q, int r, const struct error *err)
{
	static const struct {
		int code;
		enum api_error error;
	} known[] = {{-ENOENT, API_FILE_NOT_FOUND}, {-EISDIR, API_IS_A_DIRECTORY},
		{-ENOTDIR, API_NOT_A_DIRECTORY}, {-ENOTEMPTY, API_DIRECTORY_NOT_EMPTY},
		{-EEXIST, API_ALREADY_EXISTS}, {-EACCES, API_PERMISSION_DENIED},
		{-EPERM, API_PERMISSION_DENIED}, {-EROFS, API_PERMISSION_DENIED},
		{-ENOSPC, API_DISK_FULL}, {-EDQUOT, API_DISK_FULL}, {-EFBIG, API_TOO_LARGE},
		{-ENAMETOOLONG, API_INVALID_REQUEST}, {-EINVAL, API_INVALID_REQUEST},
		{-ELOOP, API_INVALID_REQUEST}, {-EBADMSG, API_INVALID_REQUEST},
		{-EXDEV, API_INVALID_REQUEST}, {-E2BIG, API_INVALID_REQUEST}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].code == r) {
			answer_error(q, known[i].error, NULL, "%s.", error_message(err));
			return;
		}
	}
	answer_error(q, API_GUEST_FAILED, NULL, "%s.", error_message(err));
}

void life_failure(struct request *q, const struct store_sandbox *record, int r,
	const struct error *err, bool file)
{
	struct store_sandbox now = {0};
	struct error other = {0};

	if (r == -EBUSY) {
		answer_error(q, API_GUEST_BUSY, NULL, "%s.", error_message(err));
	} else if (r == -ETIMEDOUT && !file) {
		answer_error(q, API_SANDBOX_NOT_READY, NULL, "%s.", error_message(err));
	} else if (r == -ESHUTDOWN) { /* paused just now */
		answer_paused(q, record);
	} else if (r == -ENODEV) {
		/* its keeper may still be clearing up, and then says how it ended */
		text_copy(now.id, sizeof(now.id), record->id);
		if (life_wait(q->server, &now, life_has_ended, NULL, END_MS, &other))
			answer_failure(q, &other);
		else if (now.phase) /* for longer than the command's caller could wait */
			answer_paused(q, &now);
		else if (now.state < STORE_SANDBOX_STOPPING) /* it is not that it has ended */
			answer_error(q, API_HOST_UNAVAILABLE, NULL,
				"The sandbox cannot be reached now.");
		else
			answer_stopped(q, &now);
		store_sandbox_fini(&now);
	} else if (file) {
		file_failure(q, r, err);
	} else {
		answer_failure(q, err);
	}
}
