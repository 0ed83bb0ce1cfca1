/* SPDX-License-Identifier: Apache-2.0 - a person decides about programs that ask for keys. */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static json_t *approval_json(const struct store_approval *a)
{
	return json_pack("{ss ss ss ss ss ss so so ss so so}", "userCode", a->user_code, "status",
		approval_status(a, api_now_ms()), "agentName", a->agent, "machine", a->machine,
		"purpose", a->purpose, "access", a->access, "products", products_list(a->products),
		"dailyLimitMicros",
		a->daily_limit_micros == STORE_NO_LIMIT ? json_null()
							: json_integer(a->daily_limit_micros),
		"address", a->address, "createdAt", api_time(a->created_ms), "expiresAt",
		api_time(a->expires_ms));
}

static char *grant_detail(const struct store_approval *a, const struct grant *grant)
{
	json_t *detail = json_pack("{ss ss ss ss sb so}", "agentName", a->agent, "machine",
		a->machine, "userCode", a->user_code, "access", grant->access, "accountWide",
		grant->account, "dailyLimitMicros",
		grant->daily_limit_micros == STORE_NO_LIMIT
			? json_null()
			: json_integer(grant->daily_limit_micros));
	char *text = json_dumps(detail, JSON_COMPACT);

	json_decref(detail);
	return text;
}

/* a name for lists: what it said of itself, cut at a letter's end */
static void name_key(const struct store_approval *a, char *out, size_t size)
{
	text_format(out, size, "%s%s%s", a->agent, a->machine[0] ? " on " : "", a->machine);
	while (out[0] && !text_is_utf8(out, strlen(out)))
		out[strlen(out) - 1] = 0;
}

int approval_grant(struct request *q, const struct store_approval *a, const struct grant *grant,
	char *key_id, struct error *err)
{
	struct store_api_key key = {
		.account = grant->account, .daily_limit_micros = grant->daily_limit_micros};
	char text[API_KEY_SIZE], hash[HASH_HEX_SIZE];
	char *sealed = NULL, *detail;
	struct store_audit audit;
	int r;

	name_key(a, key.name, sizeof(key.name));
	text_copy(key.access, sizeof(key.access), grant->access);
	text_copy(key.products, sizeof(key.products), grant->products);
	r = api_key_make(&key, text, hash, err);
	if (!r)
		r = seal_for(a->public_key, text, &sealed, err);
	OPENSSL_cleanse(text, sizeof(text));
	if (r)
		return r;
	detail = grant_detail(a, grant);
	audit = audit_of(q, "approval.granted", key.id, detail);
	r = store_approval_grant(
		q->server->store, a->user_code, &key, hash, sealed, api_now_ms(), &audit, err);
	text_copy(key_id, ID_SIZE, key.id);
	free(detail);
	free(sealed);
	return r;
}

int approval_deny(struct request *q, const char *user_code, struct error *err)
{
	const struct store_audit audit = audit_of(q, "approval.denied", user_code, NULL);

	return store_approval_refuse(q->server->store, user_code, NULL, STORE_APPROVAL_DENIED,
		api_now_ms(), &audit, err);
}

/* --- over HTTP --- */

static int add_approval(void *context, const struct store_approval *a)
{
	return json_array_append_new(context, approval_json(a));
}

void approvals_list(struct request *q)
{
	json_t *list = json_array();
	struct error err = {0};

	if (store_approval_each(q->server->store, api_now_ms(), add_approval, list, &err)) {
		json_decref(list);
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200, json_pack("{so sn}", "data", list, "nextCursor"));
}

static void answer_stale(struct request *q, int r, const struct error *err)
{
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such request for a key.");
	else if (r == -ESTALE)
		answer_error(q, API_NOT_CONNECTED, NULL,
			"It does not wait any more: it was decided, canceled, or is too old.");
	else if (r == -EINVAL)
		answer_error(q, API_INVALID_REQUEST, NULL, "%s", error_message(err));
	else
		answer_failure(q, err);
}

void approvals_get(struct request *q)
{
	char code[STORE_USER_CODE_SIZE];
	struct store_approval a = {0};
	struct error err = {0};
	int r = approval_code(q->params[0], code)
			? store_approval_by_code(q->server->store, code, &a, &err)
			: -ENOENT;

	if (r) {
		answer_stale(q, r, &err);
		return;
	}
	answer_json(q, 200, approval_json(&a));
	store_approval_fini(&a);
}

/* What the person says, and where nothing is said, what was asked for: never more than that. */
static bool take_grant(struct request *q, const struct store_approval *a, char *products,
	size_t size, struct grant *out)
{
	const json_t *limit = json_object_get(q->json, "dailyLimitMicros");
	const json_t *list = json_object_get(q->json, "products");
	const char *access = request_text(q->json, "access", NULL);

	*out = (struct grant){access ? access : a->access, products,
		request_boolean(q->json, "accountWide", false),
		limit ? request_integer(q->json, "dailyLimitMicros", STORE_NO_LIMIT)
		      : a->daily_limit_micros};
	if (!products_join(list, products, size))
		return false;
	if (!list && strcmp(out->access, "selected") == 0)
		text_copy(products, size, a->products);
	return (strcmp(out->access, "selected") == 0) == (products[0] != 0);
}

void approvals_approve(struct request *q)
{
	char products[64], code[STORE_USER_CODE_SIZE], key_id[ID_SIZE];
	struct store_approval a = {0};
	struct error err = {0};
	struct grant grant;
	int r = approval_code(q->params[0], code)
			? store_approval_by_code(q->server->store, code, &a, &err)
			: -ENOENT;

	if (!r && !take_grant(q, &a, products, sizeof(products), &grant))
		r = error_set(&err, -EINVAL,
			"products (sandboxes, images, snapshots) belongs to access selected, which "
			"needs it.");
	if (!r)
		r = approval_grant(q, &a, &grant, key_id, &err);
	store_approval_fini(&a);
	if (r)
		answer_stale(q, r, &err);
	else
		answer_json(q, 200, json_pack("{ss ss}", "status", "connected", "keyId", key_id));
}

void approvals_deny(struct request *q)
{
	char code[STORE_USER_CODE_SIZE];
	struct error err = {0};
	int r = approval_code(q->params[0], code) ? approval_deny(q, code, &err) : -ENOENT;

	if (r)
		answer_stale(q, r, &err);
	else
		answer_json(q, 200, json_pack("{ss}", "status", "denied"));
}
