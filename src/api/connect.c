/* SPDX-License-Identifier: Apache-2.0 - a program asks for a key, waits for a person, fetches it.
 */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/*
 * These routes are open to strangers. What they can make are rows that live for a quarter of an
 * hour, few for each group of addresses and few in all. Whoever holds the device code (256 bits)
 * may poll and gets, after a person agreed, a key that only the holder of the private key can read.
 */
#define OF_GROUP_MOST 20
#define WAITING_MOST  200
#define POLL_S        5
#define POLL_LEAST_MS 4000 /* clocks and networks are not exact */

static const char code_letters[] = "BCDFGHJKLMNPQRSTVWXZ"; /* no vowel: no words */

static void new_code(char *out)
{
	const size_t most = 256 / 20 * 20;
	uint8_t byte;

	for (size_t i = 0; i < 9; i++) {
		if (i == 4) {
			out[i] = '-';
			continue;
		}
		do
			id_random(&byte, 1);
		while (byte >= most);
		out[i] = code_letters[byte % 20];
	}
	out[9] = 0;
}

bool approval_code(const char *text, char *out)
{
	size_t n = 0;

	for (; *text; text++) {
		char c = *text >= 'a' && *text <= 'z' ? (char)(*text - 32) : *text;

		if (c == '-' || c == ' ')
			continue;
		if (n == 9 || !strchr(code_letters, c))
			return false;
		if (n == 4)
			out[n++] = '-';
		out[n++] = c;
	}
	out[n] = 0;
	return n == 9;
}

const char *approval_status(const struct store_approval *a, int64_t now_ms)
{
	switch (a->state) {
	case STORE_APPROVAL_PENDING:
		return a->expires_ms > now_ms ? "pending" : "expired";
	case STORE_APPROVAL_DENIED:
		return "denied";
	case STORE_APPROVAL_CANCELED:
		return "canceled";
	case STORE_APPROVAL_CONNECTED:
		return a->expires_ms > now_ms ? "connected" : "expired";
	}
	return "expired";
}

/* --- products that a key with access "selected" may use --- */

static const char *const products[] = {"sandboxes", "images", "snapshots", NULL};

bool products_join(const json_t *list, char *out, size_t size)
{
	const json_t *item;
	size_t i;

	out[0] = 0;
	/* in the order of the table, each once */
	for (const char *const *p = products; *p; p++) {
		json_array_foreach (list, i, item) {
			if (strcmp(json_string_value(item), *p) == 0) {
				size_t n = strlen(out);

				if (text_format(out + n, size - n, "%s%s", n ? "," : "", *p))
					return false;
				break;
			}
		}
	}
	json_array_foreach (list, i, item) {
		const char *const *p = products;

		while (*p && strcmp(json_string_value(item), *p))
			p++;
		if (!*p)
			return false;
	}
	return true;
}

json_t *products_list(const char *text)
{
	json_t *list = json_array();

	while (*text) {
		size_t n = strcspn(text, ",");

		json_array_append_new(list, json_stringn(text, n));
		text += n + (text[n] == ',');
	}
	return list;
}

/* --- start --- */

/* where a person goes; answers when nobody can tell */
static bool find_page(struct request *q, const char *code, char *out, size_t size)
{
	char base[512];

	if (origin_of(q, base, sizeof(base)) ||
		(text_starts(q->server->address, "http") &&
			text_copy(base, sizeof(base), q->server->address) == 0)) {
		if (text_format(out, size, "%s/approve?code=%s", base, code) == 0)
			return true;
	}
	answer_error(q, API_UNAVAILABLE, NULL,
		"This server does not know by which address people reach it; its operator sets "
		"publicUrl.");
	return false;
}

static void answer_field(struct request *q, const char *field, const char *message)
{
	answer_error(q, API_INVALID_REQUEST,
		json_pack("{s[{ss ss}]}", "issues", "path", field, "message", message), "%s %s.",
		field, message);
}

/* texts of `a` stay the request's, but for public_key */
static bool take_request(struct request *q, struct store_approval *a)
{
	const char *access = request_text(q->json, "access", "full");
	struct error err = {0};
	int r;

	if (!products_join(
		    json_object_get(q->json, "products"), a->products, sizeof(a->products))) {
		answer_field(q, "products", "may have sandboxes, images and snapshots");
		return false;
	}
	if ((strcmp(access, "selected") == 0) != (a->products[0] != 0)) {
		answer_field(q, "products", "belongs to access selected, which needs it");
		return false;
	}
	r = seal_public_key(request_text(q->json, "publicKey", ""), &a->public_key, &err);
	if (r == -EINVAL)
		answer_field(q, "publicKey", error_message(&err));
	else if (r)
		answer_failure(q, &err);
	text_copy(a->access, sizeof(a->access), access);
	text_copy(a->address, sizeof(a->address), q->address);
	origin_group(q->address, a->group, sizeof(a->group));
	/* the store only reads them */
	a->agent = (char *)(uintptr_t)request_text(q->json, "agentName", "");
	a->machine = (char *)(uintptr_t)request_text(q->json, "machine", "");
	a->purpose = (char *)(uintptr_t)request_text(q->json, "purpose", "");
	a->daily_limit_micros = request_integer(q->json, "dailyLimitMicros", STORE_NO_LIMIT);
	return !r;
}

static int add(struct request *q, struct store_approval *a, struct error *err)
{
	int r = 0;

	for (int i = 0; i < 8; i++) {
		new_code(a->user_code);
		r = store_approval_add(q->server->store, a, OF_GROUP_MOST, WAITING_MOST, err);
		if (r != -EEXIST)
			break;
	}
	return r;
}

void connect_start(struct request *q)
{
	struct store_approval a = {.created_ms = api_now_ms()};
	char device[SECRET_SIZE], page[600];
	struct error err = {0};
	int r;

	a.expires_ms = a.created_ms + APPROVAL_MS;
	secret_new(device);
	hash_bytes(device, strlen(device), a.device);
	if (!find_page(q, "", page, sizeof(page)) || !take_request(q, &a)) {
		free(a.public_key);
		return;
	}
	r = add(q, &a, &err);
	free(a.public_key);
	if (r == -EDQUOT || r == -ENOSPC) {
		answer_error(q, API_RATE_LIMITED, NULL,
			r == -EDQUOT ? "Too many requests for keys from this address."
				     : "Too many programs wait for a person's approval.");
		answer_retry_in(q, 60000);
	} else if (r) {
		answer_failure(q, &err);
	} else if (find_page(q, a.user_code, page, sizeof(page))) {
		answer_json(q, 200,
			json_pack("{ss ss ss ss so si}", "status", "pending", "verificationUri",
				page, "deviceCode", device, "userCode", a.user_code, "expiresAt",
				api_time(a.expires_ms), "interval", POLL_S));
	}
	OPENSSL_cleanse(device, sizeof(device));
}

/* --- poll, confirm, cancel --- */

static void device_hash(const struct request *q, char *out)
{
	const char *device = request_text(q->json, "deviceCode", "");

	hash_bytes(device, strlen(device), out);
}

void connect_token(struct request *q)
{
	const int64_t now = api_now_ms();
	struct store_approval a = {0};
	char device[HASH_HEX_SIZE];
	struct error err = {0};
	const char *status;
	json_t *answer;
	int r;

	device_hash(q, device);
	r = store_approval_poll(q->server->store, device, now, now - POLL_LEAST_MS, &a, &err);
	if (r == -ENOENT) {
		/* forgotten after a day, or never one: the program is told the same */
		answer_json(q, 200, json_pack("{ss}", "status", "expired"));
		return;
	}
	if (r == -EAGAIN) {
		answer_error(q, API_RATE_LIMITED, json_pack("{ss}", "reason", "slow_down"),
			"Ask every %d seconds.", POLL_S);
		answer_retry_in(q, POLL_S * 1000);
		return;
	}
	if (r) {
		answer_failure(q, &err);
		return;
	}
	status = approval_status(&a, now);
	answer = json_pack("{ss si so}", "status", status, "interval", POLL_S, "expiresAt",
		api_time(a.expires_ms));
	if (strcmp(status, "connected") == 0 && a.encrypted[0]) {
		json_object_set_new(answer, "encryptedKey", json_string(a.encrypted));
		json_object_set_new(answer, "keyId", json_string(a.key_id));
	}
	store_approval_fini(&a);
	answer_json(q, 200, answer);
}

void connect_confirm(struct request *q)
{
	char device[HASH_HEX_SIZE], key_id[ID_SIZE] = "";
	struct error err = {0};
	int r;

	device_hash(q, device);
	r = store_approval_confirm(q->server->store, device, key_id, &err);
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such request for a key.");
	else if (r == -ESTALE)
		answer_error(q, API_NOT_CONNECTED, NULL, "It was not approved.");
	else if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200, json_pack("{ss ss}", "status", "connected", "keyId", key_id));
}

void connect_cancel(struct request *q)
{
	char device[HASH_HEX_SIZE];
	struct error err = {0};
	int r;

	device_hash(q, device);
	r = store_approval_refuse(
		q->server->store, NULL, device, STORE_APPROVAL_CANCELED, api_now_ms(), NULL, &err);
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such request for a key.");
	else if (r == -ESTALE)
		answer_error(q, API_NOT_CONNECTED, NULL, "It does not wait any more.");
	else if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200, json_pack("{ss}", "status", "canceled"));
}
