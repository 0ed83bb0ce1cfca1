/* SPDX-License-Identifier: Apache-2.0 - the owner: one-time links, set-up, another password. */
#include "api/people.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#define LINK_MS (INT64_C(86400) * 1000)

int api_owner_link(struct store *store, const char *base, char *out, size_t size, struct error *err)
{
	const int64_t now = api_now_ms();
	const struct store_audit audit = {
		.time_ms = now, .who = "operator", .action = "owner.link_made", .target = "owner"};
	char token[SECRET_SIZE], hash[HASH_HEX_SIZE];
	int r;

	secret_new(token);
	hash_bytes(token, strlen(token), hash);
	r = store_link_put(store, hash, now, now + LINK_MS, &audit, err);
	if (!r && text_format(out, size, "%s/setup?token=%s", base, token))
		r = error_set(err, -ENAMETOOLONG, "the address is too long");
	OPENSSL_cleanse(token, sizeof(token));
	return r;
}

int owner_set(struct request *q, const char *token, const char *name, const char *password,
	struct error *err)
{
	cleanup_free char *detail = audit_name(name[0] ? name : "owner");
	struct store_audit audit = audit_of(q, "owner.password_set", "owner", detail);
	struct store_owner owner = {0};
	char hash[HASH_HEX_SIZE];
	int r;

	audit.who = "owner"; /* nobody else has the link, without which nothing is written */
	hash_bytes(token, strlen(token), hash);
	/* before the work of hashing, which strangers shall not have for nothing */
	r = store_link_check(q->server->store, hash, api_now_ms(), err);
	if (r)
		return r;
	if (text_copy(owner.name, sizeof(owner.name), name[0] ? name : "owner"))
		return error_set(err, -EINVAL, "The name may have at most %zu bytes.",
			sizeof(owner.name) - 1);
	r = password_hash(q->server, password, owner.password, sizeof(owner.password), err);
	if (!r)
		r = store_link_use(q->server->store, hash, &owner, api_now_ms(), &audit, err);
	if (!r)
		r = session_begin(q, &owner, err);
	OPENSSL_cleanse(owner.password, sizeof(owner.password));
	return r;
}

void setup_post(struct request *q)
{
	const char *password = request_text(q->json, "password", "");
	const char *wrong = password_wrong(password);
	struct error err = {0};
	int r;

	if (!session_json_is_ours(q))
		return;
	if (wrong) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "password", "message", wrong),
			"%s", wrong);
		return;
	}
	r = owner_set(q, request_text(q->json, "token", ""), request_text(q->json, "name", ""),
		password, &err);
	if (r == -ENOENT)
		answer_error(q, API_FORBIDDEN, NULL,
			"This link was used, is older than 24 hours, or never was one.");
	else if (r == -EINVAL)
		answer_error(q, API_INVALID_REQUEST, NULL, "%s", error_message(&err));
	else if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200, json_pack("{sb ss}", "signedIn", true, "csrf", q->csrf));
}

/* the old password is asked for again: an unlocked browser is not enough */
static bool check_current(struct request *q, const struct store_owner *owner)
{
	int64_t wait_ms = guard_enter(q->server->guard, q->session, true, clock_ms());

	if (wait_ms) {
		answer_error(q, API_RATE_LIMITED, NULL, "Too many attempts; wait %lld s.",
			(long long)(wait_ms + 999) / 1000);
		answer_retry_in(q, wait_ms);
		return false;
	}
	if (!password_matches(
		    q->server, request_text(q->json, "currentPassword", ""), owner->password)) {
		answer_error(q, API_SIGN_IN, NULL, "That is not the current password.");
		return false;
	}
	guard_forgive(q->server->guard, q->session);
	return true;
}

void owner_password(struct request *q)
{
	const struct store_audit audit = audit_of(q, "owner.password_changed", "owner", NULL);
	const char *password = request_text(q->json, "password", "");
	const char *wrong = password_wrong(password);
	struct store_owner owner;
	struct error err = {0};
	char hash[sizeof(owner.password)];
	int r = store_owner_get(q->server->store, &owner, &err);

	if (wrong) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "password", "message", wrong),
			"%s", wrong);
		return;
	}
	if (!r && !check_current(q, &owner))
		return;
	if (!r)
		r = password_hash(q->server, password, hash, sizeof(hash), &err);
	if (!r)
		r = store_owner_password(
			q->server->store, owner.password, hash, api_now_ms(), &audit, &err);
	if (!r) {
		text_copy(owner.password, sizeof(owner.password), hash);
		r = session_begin(q, &owner, &err);
	}
	if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200, json_pack("{sb ss}", "signedIn", true, "csrf", q->csrf));
}
