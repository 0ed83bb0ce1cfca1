/* SPDX-License-Identifier: Apache-2.0 - the store of the platform: keys, sandboxes, replays,
 * uploads. */
#ifndef SEALMARK_STORE_PLATFORM_H
#define SEALMARK_STORE_PLATFORM_H

#include "base/error.h"
#include "base/hash.h"
#include "base/id.h"
#include "store/money.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Every call is one transaction, safe from several threads and several processes. Times are
 * milliseconds since 1970 by the wall clock; 0 is never.
 */

struct store_audit; /* people.h; NULL: no entry */

/* --- keys --- */
struct store_api_key {
	char id[ID_SIZE];
	char name[128];
	char access[16];   /* "full", "read" or "selected" */
	char products[64]; /* with "selected": what it may use, "sandboxes,images"; else "" */
	bool account;      /* sees what every key made, not only its own */
	int64_t created_ms, revoked_ms;
	int64_t daily_limit_micros; /* of the last 24 hours; STORE_NO_LIMIT: none */
};
#define STORE_NO_LIMIT (-1)

int store_key_add(struct store *store, const struct store_api_key *key, const char *hash,
	const struct store_audit *audit, struct error *err);
/* By the hash of the whole key; -ENOENT when there is none or it is revoked. */
int store_key_find(
	struct store *store, const char *hash, struct store_api_key *out, struct error *err);
int store_key_each(struct store *store, int (*each)(void *context, const struct store_api_key *key),
	void *context, struct error *err);
/* -ENOENT: no such key, or revoked already */
int store_key_revoke(struct store *store, const char *id, int64_t now_ms,
	const struct store_audit *audit, struct error *err);
/* -ENOENT: no such key, or it is revoked */
int store_key_limit(struct store *store, const char *id, int64_t daily_limit_micros,
	const struct store_audit *audit, struct error *err);
/* -ENOENT. Also one that is revoked. */
int store_key_get(
	struct store *store, const char *id, struct store_api_key *out, struct error *err);

/* --- sandboxes --- */
/* The order is the store's. */
enum store_sandbox_state {
	STORE_SANDBOX_STARTING,
	STORE_SANDBOX_RUNNING,
	STORE_SANDBOX_STOPPING,
	STORE_SANDBOX_STOPPED
};
/* of one that runs: is its machine at rest? */
enum store_sandbox_phase {
	STORE_PHASE_AWAKE,
	STORE_PHASE_PAUSING,
	STORE_PHASE_PAUSED,
	STORE_PHASE_RESUMING
};
/* What a filter asks for: bits 1 << state, and of those that run 1 << (STOPPED + phase) */
#define STORE_SANDBOX_LIVE (1u | 2u | 4u | 16u | 32u | 64u)
#define STORE_SANDBOX_ANY  (STORE_SANDBOX_LIVE | 8u)

struct store_sandbox {
	int64_t seq; /* in the order of creation */
	char id[ID_SIZE], owner[ID_SIZE];
	char *name;            /* NULL: none */
	char machine[ID_SIZE]; /* under which its monitor is found: another after a restart */
	enum store_sandbox_state state;
	enum store_sandbox_phase phase;
	int64_t paused_ms, paused_until_ms; /* while it is paused */
	int64_t paused_total_ms;            /* since it was ready, without a pause that goes on */
	uint32_t vcpu, memory_mib, disk_mib;
	bool reserved; /* it has a CPU of those set aside for itself: */
	uint32_t seat; /* which of them, from 1 (given); else 0 */
	int64_t created_ms, ready_ms, expires_ms, ended_ms, active_ms, deleted_ms;
	char *stop_reason, *detail, *isolation;
	char *labels; /* JSON object of strings */
	char *spec;   /* JSON object */
	struct store_money money;
	const struct store_terms *terms; /* of a new one; NULL: nothing is charged for it */
};
void store_sandbox_fini(struct store_sandbox *sandbox);

struct store_quota {
	/* of all that are not stopped; memory and CPUs of builds (builds.h) too */
	uint64_t sandboxes, memory_mib;
	/* and of those of one key; 0: no ceiling */
	uint64_t vcpu, key_sandboxes, key_memory_mib, key_vcpu;
	uint64_t reserved; /* CPUs set aside for sandboxes that have one each; 0: none */
};

/*
 * Add one that starts (seq is given). With `replay`, the key of a change of its owner that is under
 * way, which from then on knows what it made. -EEXIST: its name is taken (by `taken`, ID_SIZE
 * bytes); -EDQUOT: too many sandboxes; -ENOSPC: too little memory or CPU is left. For the last two
 * `taken` is the name of the ceiling, as GET /v1/limits calls it.
 * STORE_OVER_LIMIT: its lease may cost more than its owner may spend now.
 */
int store_sandbox_add(struct store *store, const struct store_sandbox *sandbox,
	const struct store_quota *quota, const char *replay, char *taken, struct error *err);
/* owner NULL: anybody's. -ENOENT. */
int store_sandbox_get(struct store *store, const char *owner, const char *id,
	struct store_sandbox *out, struct error *err);

struct store_sandbox_filter {
	const char *owner; /* NULL: anybody's */
	const char *name;  /* NULL: any */
	unsigned states;   /* bits, see STORE_SANDBOX_ANY */
	const char *const *label_names, *const *label_values;
	size_t labels; /* at most 32; all must match */
	int64_t after; /* seq */
	uint32_t limit;
};
/* In the order of creation, without those deleted. A result other than 0 of the callback ends it
 * and is the answer. */
int store_sandbox_each(struct store *store, const struct store_sandbox_filter *filter,
	int (*each)(void *context, const struct store_sandbox *sandbox), void *context,
	struct error *err);
/* What is taken of quotas, by all and by the sandboxes of `owner`. */
int store_sandbox_totals(
	struct store *store, const char *owner, struct store_quota *out, struct error *err);

/* Changes of state only go forward: 0 when made, -ESTALE when it is beyond that already. */
int store_sandbox_ready(struct store *store, const char *id, const char *isolation, int64_t now_ms,
	int64_t expires_ms, struct error *err);
int store_sandbox_stopping(struct store *store, const char *id, struct error *err);
int store_sandbox_stopped(struct store *store, const char *id, const char *reason,
	const char *detail, int64_t now_ms, struct error *err);
/* The lease that its monitor tells. */
int store_sandbox_lease(struct store *store, const char *id, int64_t expires_ms, struct error *err);
int store_sandbox_extend(
	struct store *store, const char *id, int64_t expires_ms, struct error *err);
int store_sandbox_active(struct store *store, const char *id, int64_t now_ms, struct error *err);
int store_sandbox_delete(struct store *store, const char *id, int64_t now_ms, struct error *err);
/* Of one that runs: it is about to be paused, or woken. */
int store_sandbox_phase(
	struct store *store, const char *id, enum store_sandbox_phase phase, struct error *err);
int store_sandbox_paused(
	struct store *store, const char *id, int64_t since_ms, int64_t until_ms, struct error *err);
int store_sandbox_woken(
	struct store *store, const char *id, int64_t now_ms, int64_t expires_ms, struct error *err);
/* The room that a paused one needs to run again: -ENOSPC, -EDQUOT as above. */
int store_sandbox_room(struct store *store, const struct store_sandbox *sandbox,
	const struct store_quota *quota, char *taken, struct error *err);
/*
 * It starts anew on the machine `machine`, whatever it was before; the one it had is then one to be
 * stopped (store_spare_…), and its lease is charged for and held for anew. -EEXIST, -EDQUOT,
 * -ENOSPC and STORE_OVER_LIMIT as above; -ESTALE: it is being started or stopped, or deleted.
 */
int store_sandbox_restart(struct store *store, const struct store_sandbox *sandbox,
	const char *machine, const struct store_quota *quota, int64_t now_ms, int64_t lease_ms,
	char *taken, struct error *err);
/* The one that runs on a machine, or -ENOENT. */
int store_sandbox_of_machine(struct store *store, const char *machine, char *id, struct error *err);
/* What a server that is gone had begun is not going on. */
int store_sandbox_settle_phases(struct store *store, struct error *err);
/* Replace name (NULL: none), labels and spec. -EEXIST as above. */
int store_sandbox_settings(
	struct store *store, const struct store_sandbox *sandbox, char *taken, struct error *err);

/* --- what has happened: written by the calls above, in the same transaction --- */
struct store_event {
	int64_t seq, time_ms;
	const char *owner, *sandbox, *type;
	const char *data; /* JSON object */
};
struct store_event_filter {
	const char *owner, *sandbox, *type; /* NULL: any */
	int64_t before;                     /* seq; 0: from the newest */
	uint32_t limit;
};
/* The newest first. */
int store_event_each(struct store *store, const struct store_event_filter *filter,
	int (*each)(void *context, const struct store_event *event), void *context,
	struct error *err);
int store_event_expire(struct store *store, int64_t before_ms, struct error *err);

/* --- machines that are no sandbox's --- */
enum store_spare_state { STORE_SPARE_STARTING, STORE_SPARE_READY, STORE_SPARE_ENDING };
struct store_spare {
	char id[ID_SIZE];
	char shape[HASH_HEX_SIZE]; /* equal shapes can stand for each other */
	uint32_t memory_mib;
	enum store_spare_state state;
	int64_t created_ms;
};
int store_spare_add(struct store *store, const struct store_spare *spare, struct error *err);
/* -ESTALE: it is in that state, beyond it, or gone */
int store_spare_advance(
	struct store *store, const char *id, enum store_spare_state state, struct error *err);
int store_spare_remove(struct store *store, const char *id, struct error *err);
/* A sandbox that starts takes one of that shape that is ready: its machine then. -ENOENT: none. */
int store_spare_take(struct store *store, const char *shape, const char *sandbox, char *machine,
	struct error *err);
/* It has none after all: the machine of a sandbox that starts is to be made, with that id. */
int store_sandbox_machine(
	struct store *store, const char *id, const char *machine, struct error *err);
int store_spare_each(struct store *store,
	int (*each)(void *context, const struct store_spare *spare), void *context,
	struct error *err);

/* --- changes that may be sent again --- */
enum store_replay_state {
	STORE_REPLAY_NEW,      /* it is yours to do */
	STORE_REPLAY_ANSWERED, /* status and body are its answer */
	STORE_REPLAY_BUSY,     /* this server is doing it */
	STORE_REPLAY_LEFT, /* yours: a server began it and is gone; resource may name what it made
			    */
	STORE_REPLAY_OTHER /* the key was used for something else */
};
struct store_replay {
	enum store_replay_state state;
	int status;
	char *body;
	char resource[ID_SIZE];
};
void store_replay_fini(struct store_replay *replay);

/* `server` names this process. */
int store_replay_begin(struct store *store, const char *owner, const char *key, const char *hash,
	const char *server, int64_t now_ms, struct store_replay *out, struct error *err);
int store_replay_answer(struct store *store, const char *owner, const char *key, int status,
	const char *body, struct error *err);
/* Nothing was changed: the key may be used again. */
int store_replay_drop(struct store *store, const char *owner, const char *key, struct error *err);
/* Of each owner's, keep the newest that have so many bytes together. */
int store_replay_trim(struct store *store, int64_t bytes_most, struct error *err);
int store_replay_expire(struct store *store, int64_t before_ms, struct error *err);

/* --- uploads: what is known of the pieces that wait in a file --- */
struct store_upload {
	char id[ID_SIZE], sandbox[ID_SIZE];
	bool archive, root;
	char *path;
	int64_t size; /* -1: not known before */
	char sha256[HASH_HEX_SIZE];
	uint32_t mode;
	int64_t created_ms;
};
void store_upload_fini(struct store_upload *upload);

int store_upload_add(struct store *store, const struct store_upload *upload, struct error *err);
int store_upload_get(struct store *store, const char *sandbox, const char *id,
	struct store_upload *out, struct error *err);
/* -ENOENT: somebody else has ended it */
int store_upload_end(struct store *store, const char *id, struct error *err);
/* Of those to a sandbox, at most `most`; *count: how many there are. */
int store_upload_list(struct store *store, const char *sandbox, char (*ids)[ID_SIZE], size_t most,
	size_t *count, struct error *err);
/* Is there one, whosever it is? 0 or -ENOENT. */
int store_upload_find(struct store *store, const char *id, struct error *err);
/* One that began before `before_ms` or whose sandbox has ended, or -ENOENT. */
int store_upload_oldest(struct store *store, int64_t before_ms, char *id, struct error *err);

#endif
