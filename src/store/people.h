/* SPDX-License-Identifier: Apache-2.0 - the store of people: the owner, sessions, approvals, the
 * audit log. */
#ifndef SEALMARK_STORE_PEOPLE_H
#define SEALMARK_STORE_PEOPLE_H

#include "store/platform.h"

/*
 * As in platform.h: every call is one transaction, times are milliseconds since 1970. Whatever is
 * secret (links, sessions, device codes) comes here as its SHA-256 only. A change that takes a
 * struct store_audit writes that entry in its own transaction: neither is ever there alone.
 */

/* --- audit: only ever added to, each entry with the hash of the one before it --- */
struct store_audit {
	int64_t seq, time_ms;
	const char *who;     /* "owner", "key:<id>", "operator" (at the command line), "stranger" */
	const char *action;  /* "key.created" */
	const char *target;  /* what it was about, or "" */
	const char *detail;  /* a JSON object */
	const char *address; /* where it came from; "" at the command line */
	const char *request; /* its id, or "" */
};
int store_audit_add(struct store *store, const struct store_audit *audit, struct error *err);
/* The newest first, before `before` (0: all). `action`: that one, or a group that ends in a dot;
 * NULL: any. A result other than 0 of the callback ends it and is the answer. */
int store_audit_each(struct store *store, const char *action, int64_t before, uint32_t limit,
	int (*each)(void *context, const struct store_audit *audit), void *context,
	struct error *err);
/* Walk the chain; -EBADMSG names the first entry that does not fit. *count: entries walked. */
int store_audit_verify(struct store *store, uint64_t *count, struct error *err);

/* --- the owner: one, or none yet --- */
struct store_owner {
	char name[128];
	char password[128]; /* as crypt(3) writes it */
	int64_t created_ms, changed_ms;
};
/* -ENOENT: nobody yet */
int store_owner_get(struct store *store, struct store_owner *out, struct error *err);
/* A new one-time link; those before it end. */
int store_link_put(struct store *store, const char *hash, int64_t now_ms, int64_t expires_ms,
	const struct store_audit *audit, struct error *err);
/* 0: it may be used; -ENOENT */
int store_link_check(struct store *store, const char *hash, int64_t now_ms, struct error *err);
/* Use a link up: the owner is this one from now on, sessions and known browsers end. -ENOENT: the
 * link is used, too old, or none. */
int store_link_use(struct store *store, const char *hash, const struct store_owner *owner,
	int64_t now_ms, const struct store_audit *audit, struct error *err);
/* Another password in place of `before`; sessions and known browsers end. -ESTALE: it was changed
 * meanwhile. */
int store_owner_password(struct store *store, const char *before, const char *password,
	int64_t now_ms, const struct store_audit *audit, struct error *err);

/* --- sessions of the owner, and browsers that had one --- */
#define STORE_SESSIONS_MOST 64 /* the oldest makes room */

struct store_session {
	char hash[HASH_HEX_SIZE];
	char address[64];
	int64_t created_ms, used_ms, expires_ms;
};
/* `password`: the owner's when it was checked; -ESTALE when it is another one by now. `browser`: a
 * hash by which it is known from now on. */
int store_session_add(struct store *store, const struct store_session *session,
	const char *password, const char *browser, const struct store_audit *audit,
	struct error *err);
/* -ENOENT: none, or it is over, or was not used since `idle_since_ms` */
int store_session_find(struct store *store, const char *hash, int64_t now_ms, int64_t idle_since_ms,
	struct store_session *out, struct error *err);
int store_session_use(struct store *store, const char *hash, int64_t now_ms, struct error *err);
int store_session_end(
	struct store *store, const char *hash, const struct store_audit *audit, struct error *err);
/* 0: the owner has signed in with this browser; -ENOENT */
int store_browser_find(struct store *store, const char *hash, int64_t now_ms, struct error *err);

/* --- approvals: programs that ask a person for a key --- */
/* The order is the store's. */
enum store_approval_state {
	STORE_APPROVAL_PENDING,
	STORE_APPROVAL_DENIED,
	STORE_APPROVAL_CANCELED,
	STORE_APPROVAL_CONNECTED
};
#define STORE_USER_CODE_SIZE 10 /* "BCDF-GHJK" */

struct store_approval {
	char user_code[STORE_USER_CODE_SIZE];
	char device[HASH_HEX_SIZE]; /* of the device code */
	enum store_approval_state state;
	char *agent, *machine, *purpose; /* as they were sent */
	char access[16];                 /* asked for */
	char products[64];               /* with access selected: "sandboxes,images" */
	int64_t daily_limit_micros;      /* asked for, or STORE_NO_LIMIT */
	char *public_key;                /* base64 of its DER */
	char address[64];                /* where it was asked from */
	char group[64];                  /* of addresses that count as one */
	int64_t created_ms, expires_ms, decided_ms, polled_ms, delivered_ms;
	char key_id[ID_SIZE];
	char *encrypted; /* the new key for that public key, in base64; "" before and after */
};
void store_approval_fini(struct store_approval *approval);

/* -EDQUOT: too many of this group wait; -ENOSPC: too many of all; -EEXIST: the code is in use. */
int store_approval_add(struct store *store, const struct store_approval *approval,
	uint32_t group_most, uint32_t most, struct error *err);
int store_approval_by_code(
	struct store *store, const char *user_code, struct store_approval *out, struct error *err);
/* A poll by the program; -EAGAIN: the last was after `since_ms`; -ENOENT. One that is connected
 * counts as delivered. */
int store_approval_poll(struct store *store, const char *device, int64_t now_ms, int64_t since_ms,
	struct store_approval *out, struct error *err);
/* Those that wait, the oldest first. */
int store_approval_each(struct store *store, int64_t now_ms,
	int (*each)(void *context, const struct store_approval *approval), void *context,
	struct error *err);
/* From pending to denied or canceled; by user code or (the other NULL) device. -ESTALE: it does not
 * wait any more; -ENOENT. */
int store_approval_refuse(struct store *store, const char *user_code, const char *device,
	enum store_approval_state state, int64_t now_ms, const struct store_audit *audit,
	struct error *err);
/* From pending to connected, with the key. -ESTALE. */
int store_approval_grant(struct store *store, const char *user_code,
	const struct store_api_key *key, const char *key_hash, const char *encrypted,
	int64_t now_ms, const struct store_audit *audit, struct error *err);
/* The program has its key: forget the encrypted one. -ESTALE: it is not connected. */
int store_approval_confirm(
	struct store *store, const char *device, char *key_id, struct error *err);
/* Forget those that ended before `before_ms`; revoke the keys that nobody fetched in time. */
int store_approval_expire(
	struct store *store, int64_t now_ms, int64_t before_ms, struct error *err);

#endif
