/* SPDX-License-Identifier: Apache-2.0 - keys: made, and looked up by their hash. */
#include "api/internal.h"

#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#define PREFIX "rtcloud_"
#define SECRET 43 /* url-safe letters: 256 bits and a little */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int api_key_create(struct store *store, const char *name, const char *access, bool account,
	char *text, struct store_api_key *out, struct error *err)
{
	char hash[HASH_HEX_SIZE], secret[SECRET + 1];
	unsigned char bytes[SECRET];

	if (strcmp(access, "full") && strcmp(access, "read"))
		return error_set(err, -EINVAL, "access must be full or read");
	*out = (struct store_api_key){.account = account,
		.created_ms = api_now_ms(),
		.daily_limit_micros = STORE_NO_LIMIT};
	if (text_copy(out->name, sizeof(out->name), name) || !text_is_utf8(name, strlen(name)))
		return error_set(err, -EINVAL, "the name must be text of at most %zu bytes",
			sizeof(out->name) - 1);
	text_copy(out->access, sizeof(out->access), access);
	id_uuid(out->id);
	id_random(bytes, sizeof(bytes));
	for (size_t i = 0; i < SECRET; i++)
		secret[i] = letters[bytes[i] % 64];
	secret[SECRET] = 0;
	text_format(text, API_KEY_SIZE, PREFIX "%s_%s", out->id, secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	hash_bytes(text, strlen(text), hash);
	return store_key_add(store, out, hash, err);
}

/*
 * What is compared is the hash, by the store's index: how long that takes says nothing of the key,
 * since nobody can choose a hash near another one.
 */
bool key_check(struct request *q)
{
	const char *header =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Authorization");
	char hash[HASH_HEX_SIZE];
	struct error err = {0};
	size_t n;
	int r;

	if (!header || strncasecmp(header, "Bearer ", 7) != 0) {
		answer_error(q, API_UNAUTHORIZED, NULL, "No key was sent.");
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
	else if (strcmp(q->key.access, "read") == 0 && strcmp(q->method, "GET") != 0)
		answer_error(q, API_PERMISSION_DENIED, NULL, "This key may only read.");
	return !q->status;
}
