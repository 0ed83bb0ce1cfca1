/* SPDX-License-Identifier: Apache-2.0 - sessions: cookies, tokens against forged requests. */
#include "api/people.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#define DAY_MS     (INT64_C(86400) * 1000)
#define ABSOLUTE   (14 * DAY_MS)
#define IDLE       DAY_MS
#define BROWSER    (365 * DAY_MS)
#define FORM       (DAY_MS / 24)
#define USE_MS     60000 /* how exactly the last use is known */
#define FORM_LABEL "form"
#define CSRF_LABEL "csrf"

/* --- cookies --- */

bool cookie_read(const struct request *q, const char *name, char *out, size_t size)
{
	const char *value = MHD_lookup_connection_value(q->connection, MHD_COOKIE_KIND, name);

	return value && value[0] && text_copy(out, size, value) == 0;
}

void cookie_write(struct request *q, const char *name, const char *value, int64_t ms)
{
	const char *url = q->server->options.public_url;
	bool secure = q->server->cert || (url && text_starts(url, "https:"));

	if (q->cookie_count == sizeof(q->cookies) / sizeof(q->cookies[0]))
		return;
	/* no Domain: this host only */
	text_format(q->cookies[q->cookie_count++], sizeof(q->cookies[0]),
		"%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%lld%s", name, value,
		(long long)(ms / 1000), secure ? "; Secure" : "");
}

/* --- a session --- */

/* A token made of another one: it tells nothing of it. */
static void derive(const char *secret, const char *label, char *out)
{
	hash_hmac(secret, strlen(secret), label, strlen(label), out);
}

bool session_find(struct request *q)
{
	struct store_session session;
	char token[SECRET_SIZE], hash[HASH_HEX_SIZE];
	int64_t now = api_now_ms();

	if (q->person)
		return true;
	if (!cookie_read(q, SESSION_COOKIE, token, sizeof(token)))
		return false;
	hash_bytes(token, strlen(token), hash);
	if (store_session_find(q->server->store, hash, now, now - IDLE, &session, NULL)) {
		OPENSSL_cleanse(token, sizeof(token));
		return false;
	}
	if (now - session.used_ms > USE_MS)
		store_session_use(q->server->store, hash, now, NULL);
	derive(token, CSRF_LABEL, q->csrf);
	OPENSSL_cleanse(token, sizeof(token));
	text_copy(q->session, sizeof(q->session), hash);
	q->person = true;
	q->key = (struct store_api_key){.name = "owner",
		.access = "full",
		.account = true,
		.created_ms = session.created_ms,
		.daily_limit_micros = STORE_NO_LIMIT};
	text_copy(q->key.id, sizeof(q->key.id), PERSON_ID);
	return true;
}

int session_stands(struct api_server *server, const char *hash, bool used)
{
	struct store_session session;
	const int64_t now = api_now_ms();
	int r = store_session_find(server->store, hash, now, now - IDLE, &session, NULL);

	if (!r && used && now - session.used_ms > USE_MS)
		store_session_use(server->store, hash, now, NULL);
	return r;
}

int session_begin(struct request *q, const struct store_owner *owner, struct error *err)
{
	const int64_t now = api_now_ms();
	struct store_session session = {.created_ms = now, .expires_ms = now + ABSOLUTE};
	cleanup_free char *detail = audit_name(owner->name);
	struct store_audit audit = audit_of(q, "session.created", "owner", detail);
	char token[SECRET_SIZE], browser[SECRET_SIZE], known[HASH_HEX_SIZE];
	int r;

	audit.who = "owner"; /* from now on; the request began as a stranger's */
	/* always a new token: one that was there before the sign-in is worth nothing after it */
	secret_new(token);
	secret_new(browser);
	hash_bytes(token, strlen(token), session.hash);
	hash_bytes(browser, strlen(browser), known);
	text_copy(session.address, sizeof(session.address), q->address);
	r = store_session_add(q->server->store, &session, owner->password, known, &audit, err);
	if (!r) {
		cookie_write(q, SESSION_COOKIE, token, ABSOLUTE);
		cookie_write(q, BROWSER_COOKIE, browser, BROWSER);
		derive(token, CSRF_LABEL, q->csrf);
	}
	OPENSSL_cleanse(token, sizeof(token));
	OPENSSL_cleanse(browser, sizeof(browser));
	return r;
}

void session_form_token(struct request *q, char *out)
{
	char cookie[SECRET_SIZE];

	if (session_find(q)) {
		text_copy(out, HASH_HEX_SIZE, q->csrf);
		return;
	}
	if (!cookie_read(q, FORM_COOKIE, cookie, sizeof(cookie))) {
		secret_new(cookie);
		cookie_write(q, FORM_COOKIE, cookie, FORM);
	}
	derive(cookie, FORM_LABEL, out);
}

bool session_form_is_ours(struct request *q, const char *token)
{
	char cookie[SECRET_SIZE], wanted[HASH_HEX_SIZE];

	if (!origin_is_ours(q))
		return false;
	if (session_find(q))
		return secret_equal(token, q->csrf);
	if (!cookie_read(q, FORM_COOKIE, cookie, sizeof(cookie)))
		return false;
	derive(cookie, FORM_LABEL, wanted);
	return secret_equal(token, wanted);
}

/* --- over HTTP --- */

void session_get(struct request *q)
{
	struct store_owner owner = {0};
	struct error err = {0};
	int r = store_owner_get(q->server->store, &owner, &err);
	bool in = !r && session_find(q);

	OPENSSL_cleanse(owner.password, sizeof(owner.password));
	if (r && r != -ENOENT) {
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200,
		json_pack("{sb ss* ss* sb}", "signedIn", in, "name", in ? owner.name : NULL, "csrf",
			in ? q->csrf : NULL, "setup", r == -ENOENT));
}

bool session_json_is_ours(struct request *q)
{
	const char *type =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Content-Type");

	/* a page of another site cannot send this type without asking, and is told no */
	if (!type || strncasecmp(type, "application/json", 16) != 0)
		answer_error(q, API_FORBIDDEN, NULL, "Send it as application/json.");
	else if (!origin_is_ours(q))
		answer_error(q, API_FORBIDDEN, NULL, "This request comes from another site.");
	return !q->status;
}

void session_post(struct request *q)
{
	struct error err = {0};
	int64_t wait_ms;

	if (!session_json_is_ours(q))
		return;
	switch (signin_try(q, request_text(q->json, "password", ""), &wait_ms, &err)) {
	case SIGNIN_DONE:
		answer_json(q, 200, json_pack("{sb ss}", "signedIn", true, "csrf", q->csrf));
		break;
	case SIGNIN_WRONG:
		answer_error(q, API_SIGN_IN, NULL, "That is not the password.");
		break;
	case SIGNIN_NOBODY:
		answer_error(q, API_SIGN_IN, NULL, "There is no owner yet.");
		break;
	case SIGNIN_WAIT:
		answer_error(q, API_RATE_LIMITED, NULL, "Too many attempts; wait %lld s.",
			(long long)(wait_ms + 999) / 1000);
		answer_retry_in(q, wait_ms);
		break;
	case SIGNIN_FAILED:
		answer_failure(q, &err);
		break;
	}
}

void session_delete(struct request *q)
{
	const struct store_audit audit = audit_of(q, "session.ended", "owner", NULL);
	struct error err = {0};

	if (store_session_end(q->server->store, q->session, &audit, &err)) {
		answer_failure(q, &err);
		return;
	}
	cookie_write(q, SESSION_COOKIE, "", 0);
	answer_json(q, 200, json_pack("{sb}", "signedIn", false));
}
