/* SPDX-License-Identifier: Apache-2.0 - keys: made, and looked up by their hash. */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#define PREFIX "rtcloud_"

int api_key_make(struct store_api_key *key, char *text, char *hash, struct error *err)
{
	const bool selected = strcmp(key->access, "selected") == 0;
	char secret[SECRET_SIZE];

	if (strcmp(key->access, "full") && strcmp(key->access, "read") && !selected)
		return error_set(err, -EINVAL, "access must be full, read or selected");
	if (selected != (key->products[0] != 0))
		return error_set(err, -EINVAL, "access selected, and only it, says which products");
	if (!text_is_utf8(key->name, strlen(key->name)))
		return error_set(err, -EINVAL, "the name must be text");
	key->created_ms = api_now_ms();
	id_uuid(key->id);
	secret_new(secret);
	text_format(text, API_KEY_SIZE, PREFIX "%s_%s", key->id, secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	hash_bytes(text, strlen(text), hash);
	return 0;
}

int api_key_create(struct store *store, const char *name, const char *access, bool account,
	char *text, struct store_api_key *out, struct error *err)
{
	char hash[HASH_HEX_SIZE], detail[64];
	struct store_audit audit = {.who = "operator", .action = "key.created", .detail = detail};
	int r;

	*out = (struct store_api_key){.account = account, .daily_limit_micros = STORE_NO_LIMIT};
	if (text_copy(out->name, sizeof(out->name), name))
		return error_set(err, -EINVAL, "the name must be text of at most %zu bytes",
			sizeof(out->name) - 1);
	text_copy(out->access, sizeof(out->access), access);
	r = api_key_make(out, text, hash, err);
	if (r)
		return r;
	text_format(detail, sizeof(detail), "{\"access\":\"%s\",\"accountWide\":%s}", out->access,
		account ? "true" : "false");
	audit.time_ms = out->created_ms;
	audit.target = out->id;
	return store_key_add(store, out, hash, &audit, err);
}

/* "/v1/sandboxes/..." with "sandboxes,images": what else there is may only be read */
static bool is_selected(const struct request *q)
{
	const char *name = q->path + strlen("/v1/"), *p = q->key.products;
	size_t n;

	if (!text_starts(q->path, "/v1/"))
		return false;
	n = strcspn(name, "/:");
	for (; *p; p += strcspn(p, ","), p += *p == ',') {
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || !p[n]))
			return true;
	}
	return !strncmp(name, "me", n) || !strncmp(name, "limits", n) || !strncmp(name, "usage", n);
}

/* A session instead of a key: a change needs the token that no page of another site knows. */
static bool session_check(struct request *q)
{
	const char *token =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "X-Sealmark-CSRF");
	const char *upgrade =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Upgrade");
	const bool change = strcmp(q->method, "GET") != 0;

	/* a WebSocket is a GET that can do everything, and cannot carry the token */
	if ((change || upgrade) && !origin_is_ours(q))
		answer_error(q, API_FORBIDDEN, NULL, "This request comes from another site.");
	else if (change && (!token || !secret_equal(token, q->csrf)))
		answer_error(q, API_FORBIDDEN, NULL,
			"X-Sealmark-CSRF is missing or not this session's; GET /api/session tells "
			"it.");
	return !q->status;
}

/*
 * What is compared is the hash, by the store's index: how long that takes says nothing of the key,
 * since nobody can choose a hash near another one.
 */
bool key_check(struct request *q)
{
	const char *header =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Authorization");
	/* a GET that is no reading: it goes on as a WebSocket */
	const char *upgrade =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Upgrade");
	char hash[HASH_HEX_SIZE];
	struct error err = {0};
	size_t n;
	int r;

	if (!header && session_find(q))
		return session_check(q);
	if (!header || strncasecmp(header, "Bearer ", 7) != 0) {
		answer_error(
			q, API_UNAUTHORIZED, NULL, "No key was sent, and nobody is signed in.");
		return false;
	}
	header += 7 + strspn(header + 7, " ");
	n = strlen(header);
	if (n >= API_KEY_SIZE) {
		answer_error(q, API_UNAUTHORIZED, NULL, "This is no key of this server.");
		return false;
	}
	hash_bytes(header, n, hash);
	r = store_key_find(q->server->store, hash, &q->key, &err);
	if (r == -ENOENT)
		answer_error(q, API_UNAUTHORIZED, NULL, "This is no key of this server.");
	else if (r)
		answer_failure(q, &err);
	else if (strcmp(q->key.access, "read") == 0 && (strcmp(q->method, "GET") || upgrade))
		answer_error(q, API_PERMISSION_DENIED, NULL, "This key may only read.");
	else if (strcmp(q->key.access, "selected") == 0 && !is_selected(q))
		answer_error(
			q, API_NOT_SELECTED, NULL, "This key may use %s only.", q->key.products);
	else if (q->route->flags & ROUTE_PERSON)
		answer_error(
			q, API_PERSON_ONLY, NULL, "Only a person who is signed in may do this.");
	return !q->status;
}
