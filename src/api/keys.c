/* SPDX-License-Identifier: Apache-2.0 - keys in the hands of a person: listed, made, revoked. */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static json_t *limit_json(int64_t micros)
{
	return micros == STORE_NO_LIMIT ? json_null() : json_integer(micros);
}

static json_t *key_json(const struct store_api_key *key)
{
	return json_pack("{ss ss ss so sb so so so}", "id", key->id, "name", key->name, "access",
		key->access, "products", products_list(key->products), "accountWide", key->account,
		"dailyLimitMicros", limit_json(key->daily_limit_micros), "createdAt",
		api_time(key->created_ms), "revokedAt", api_time(key->revoked_ms));
}

static int add_key(void *context, const struct store_api_key *key)
{
	return json_array_append_new(context, key_json(key));
}

void keys_list(struct request *q)
{
	json_t *list = json_array();
	struct error err = {0};

	if (store_key_each(q->server->store, add_key, list, &err)) {
		json_decref(list);
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200, json_pack("{so sn}", "data", list, "nextCursor"));
}

void keys_create(struct request *q)
{
	struct store_api_key key = {.account = request_boolean(q->json, "accountWide", false),
		.daily_limit_micros = request_integer(q->json, "dailyLimitMicros", STORE_NO_LIMIT)};
	char text[API_KEY_SIZE], hash[HASH_HEX_SIZE], *detail = NULL;
	struct store_audit audit;
	struct error err = {0};
	json_t *answer;
	int r = 0;

	text_copy(key.name, sizeof(key.name), request_text(q->json, "name", ""));
	text_copy(key.access, sizeof(key.access), request_text(q->json, "access", "full"));
	if (!products_join(
		    json_object_get(q->json, "products"), key.products, sizeof(key.products)))
		r = error_set(&err, -EINVAL, "products may have sandboxes, images and snapshots");
	if (!r)
		r = api_key_make(&key, text, hash, &err);
	if (!r) {
		answer = key_json(&key);
		detail = json_dumps(answer, JSON_COMPACT);
		audit = audit_of(q, "key.created", key.id, detail);
		r = store_key_add(q->server->store, &key, hash, &audit, &err);
		json_object_set_new(answer, "key", json_string(text));
		answer_json(q, 201, answer);
		free(detail);
		OPENSSL_cleanse(text, sizeof(text));
	}
	if (r == -EINVAL)
		answer_error(q, API_INVALID_REQUEST, NULL, "%s.", error_message(&err));
	else if (r)
		answer_failure(q, &err);
}

/* what is true of the key by now, or why nothing was done */
static void answer_key(struct request *q, int r, struct error *err)
{
	struct store_api_key key;

	if (!r)
		r = store_key_get(q->server->store, q->params[0], &key, err);
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such key, or it is revoked.");
	else if (r)
		answer_failure(q, err);
	else
		answer_json(q, 200, key_json(&key));
}

void keys_revoke(struct request *q)
{
	const struct store_audit audit = audit_of(q, "key.revoked", q->params[0], NULL);
	struct error err = {0};

	answer_key(q, store_key_revoke(q->server->store, q->params[0], audit.time_ms, &audit, &err),
		&err);
}

void keys_limit(struct request *q)
{
	const int64_t micros = request_integer(q->json, "dailyLimitMicros", STORE_NO_LIMIT);
	json_t *detail = json_pack("{so}", "dailyLimitMicros", limit_json(micros));
	char *text = json_dumps(detail, JSON_COMPACT);
	const struct store_audit audit = audit_of(q, "key.limit_set", q->params[0], text);
	struct error err = {0};

	answer_key(q, store_key_limit(q->server->store, q->params[0], micros, &audit, &err), &err);
	free(text);
	json_decref(detail);
}
