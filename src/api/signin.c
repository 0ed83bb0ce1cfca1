/* SPDX-License-Identifier: Apache-2.0 - signing in: a password against the owner's. */
#include "api/people.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

/* the source that counts: a browser the owner has used, or else a group of addresses */
static bool find_source(struct request *q, char *out)
{
	char cookie[SECRET_SIZE];

	if (cookie_read(q, BROWSER_COOKIE, cookie, sizeof(cookie))) {
		hash_bytes(cookie, strlen(cookie), out);
		if (store_browser_find(q->server->store, out, api_now_ms(), NULL) == 0)
			return true;
	}
	origin_group(q->address, out, HASH_HEX_SIZE);
	return false;
}

static enum signin failed(struct request *q, struct error *err)
{
	const struct store_audit audit = audit_of(q, "session.refused", "owner", NULL);

	return store_audit_add(q->server->store, &audit, err) ? SIGNIN_FAILED : SIGNIN_WRONG;
}

enum signin signin_try(struct request *q, const char *password, int64_t *wait_ms, struct error *err)
{
	char source[HASH_HEX_SIZE];
	struct store_owner owner;
	bool known = find_source(q, source);
	enum signin result;
	int r = store_owner_get(q->server->store, &owner, err);

	if (r)
		return r == -ENOENT ? SIGNIN_NOBODY : SIGNIN_FAILED;
	*wait_ms = guard_enter(q->server->guard, source, known, clock_ms());
	if (*wait_ms)
		return SIGNIN_WAIT;
	if (!password_matches(q->server, password, owner.password)) {
		result = failed(q, err);
	} else {
		r = session_begin(q, &owner, err);
		result = r == -ESTALE ? SIGNIN_WRONG : r ? SIGNIN_FAILED : SIGNIN_DONE;
	}
	if (result == SIGNIN_DONE)
		guard_forgive(q->server->guard, source);
	OPENSSL_cleanse(owner.password, sizeof(owner.password));
	return result;
}
