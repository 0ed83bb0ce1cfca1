/* SPDX-License-Identifier: Apache-2.0 - what the files about people share: the owner, sessions,
 * approvals, pages, the audit log. */
#ifndef SEALMARK_API_PEOPLE_H
#define SEALMARK_API_PEOPLE_H

#include "api/internal.h"
#include "store/people.h"

/*
 * Theory of operation
 *
 * There is one person, the owner, with a password (password.c) that is set through a one-time link
 * (owner.c) and checked under protection against guessing (guard.c, signin.c). A session
 * (session.c) is a random token in a cookie; the store has its hash. The token against forged
 * requests is derived from it and stored nowhere: what a page of another site can make a browser
 * send has the cookie at most, never that token, and is refused for its Origin as well (origin.c).
 *
 * A program asks for a key (connect.c), a person decides (approvals.c), the key goes out encrypted
 * for the program's public key (seal.c). What strangers may send is bounded in number and size, and
 * nothing of it reaches a page but through html.c, which escapes all.
 *
 * Pages (pages*.c) are whole without a script. The console's files are read once at the start
 * (console.c): no path that a client sends is used on the host.
 */

#define PERSON_ID "00000000-0000-4000-8000-000000000001" /* owns what is made in a session */

#define SESSION_COOKIE "sealmark_session"
#define BROWSER_COOKIE "sealmark_browser" /* the owner has signed in here */
#define FORM_COOKIE    "sealmark_form"    /* before there is a session */
#define SECRET_SIZE    44                 /* 43 url-safe letters and a terminator */

/* --- secret.c --- */
void secret_new(char *out); /* SECRET_SIZE bytes */
/* Takes as long whether they differ or not. */
bool secret_equal(const char *a, const char *b);

/* --- password.c --- */
#define PASSWORD_LEAST 12  /* characters */
#define PASSWORD_MOST  256 /* bytes */
/* What is wrong with a new password, as a sentence; NULL: nothing. */
const char *password_wrong(const char *password);
/* yescrypt; both take long on purpose, and one runs at a time. */
int password_hash(
	struct api_server *server, const char *password, char *out, size_t size, struct error *err);
bool password_matches(struct api_server *server, const char *password, const char *hash);

/* --- guard.c: how often passwords may be tried --- */
struct guard *guard_new(void);
void guard_free(struct guard *guard);
/* 0: this source may try now, and it counts; else it must wait so many ms. `known`: the owner has
 * signed in with that browser, so that others cannot hold it back. */
int64_t guard_enter(struct guard *guard, const char *source, bool known, int64_t now_ms);
void guard_forgive(struct guard *guard, const char *source);

/* --- origin.c --- */
/* By which address people reach this server, without a final slash; false: the Host that was sent
 * is no name of this server. */
bool origin_of(const struct request *q, char *out, size_t size);
/* Does the request come from a page of ours, or from no page at all? Else answers false. */
bool origin_is_ours(const struct request *q);
/* Is `host` (with or without port) one that no stranger can point here: an address, localhost? */
bool origin_host_is_plain(const char *host);
/* One whose name counts as one source: an IPv6 address by its first 64 bits. */
void origin_group(const char *address, char *out, size_t size);

/* --- session.c --- */
bool cookie_read(const struct request *q, const char *name, char *out, size_t size);
/* ms 0: it is taken away */
void cookie_write(struct request *q, const char *name, const char *value, int64_t ms);
/* Is there a living session? Then q->person is set. Answers nothing. */
bool session_find(struct request *q);
/* Begin one of the owner, with its cookies; the hash is that of the password which was checked, or
 * set. */
int session_begin(struct request *q, const struct store_owner *owner, struct error *err);
/* Does a session that was found go on? 0, -ENOENT, or the failure to know. `used`: somebody is
 * there. */
int session_stands(struct api_server *server, const char *hash, bool used);
/* The token that a page's form carries: the session's, or that of a cookie which is set here. */
void session_form_token(struct request *q, char *out); /* HASH_HEX_SIZE bytes */
bool session_form_is_ours(struct request *q, const char *token);
/* A change by somebody who is not signed in: not from a page of another site? Else answers. */
bool session_json_is_ours(struct request *q);

/* --- signin.c: password against guard and owner --- */
enum signin { SIGNIN_DONE, SIGNIN_WRONG, SIGNIN_WAIT, SIGNIN_NOBODY, SIGNIN_FAILED };
/* Done: the session has begun. Wait: `wait_ms`. Failed: err. */
enum signin signin_try(
	struct request *q, const char *password, int64_t *wait_ms, struct error *err);

/* --- owner.c --- */
/* Set the owner by a one-time link and begin a session. -ENOENT: the link is not valid. */
int owner_set(struct request *q, const char *token, const char *name, const char *password,
	struct error *err);

/* --- seal.c --- */
/* A program's RSA key: PEM, or base64 of its DER. 0 and base64 of the DER in *out, or -EINVAL. */
int seal_public_key(const char *text, char **out, struct error *err);
/* Base64 of RSA-OAEP (SHA-256). `key`: as above. */
int seal_for(const char *key, const char *text, char **out, struct error *err);

/* --- approvals.c --- */
#define APPROVAL_MS (15 * 60 * 1000)
struct grant {
	const char *access;
	const char *products; /* with access selected */
	bool account;
	int64_t daily_limit_micros;
};
/* -ESTALE: it does not wait any more; -ENOENT; -EINVAL: err is a sentence about the grant. */
int approval_grant(struct request *q, const struct store_approval *a, const struct grant *grant,
	char *key_id, struct error *err);
int approval_deny(struct request *q, const char *user_code, struct error *err);
/* "bcdfghjk" -> "BCDF-GHJK"; false: no code */
bool approval_code(const char *text, char *out);
const char *approval_status(const struct store_approval *approval, int64_t now_ms);
/* "sandboxes,images" of a list, checked; false when one of them is unknown. */
bool products_join(const json_t *list, char *out, size_t size);
json_t *products_list(const char *products);

/* --- audit.c --- */
/* Who asks, from where, now. The strings live as long as q. */
struct store_audit audit_of(
	struct request *q, const char *action, const char *target, const char *detail);

/* An entry for what was done outside the store, so not in one transaction with it; a failure is
 * logged. `name`, or NULL, is a detail. */
void audit_done(struct request *q, const char *action, const char *target, const char *name);
/* {"name": name} as a detail; to be freed, NULL when memory is out. */
char *audit_name(const char *name);

/* --- html.c --- */
/* Adds `template` with each $ in place of the next text, escaped. Ends with NULL. */
void html(struct buffer *out, const char *template, ...) __attribute__((sentinel));
/* Answers with a page of ours; `body` is emptied. */
void html_page(struct request *q, int status, const char *title, struct buffer *body);
void html_message(
	struct request *q, int status, const char *title, const char *text, const char *link);
void html_see_other(struct request *q, const char *location); /* a path of ours */
/* "a=b&c=d" as an object of texts; NULL when it is malformed, no UTF-8, or too much. */
json_t *html_form_parse(const void *bytes, size_t count);
/* The form that was sent; else NULL, and answers with a page. */
json_t *html_form(struct request *q);

/* --- console.c --- */
struct console; /* NULL when the files are not there */
struct console *console_load(void);
void console_free(struct console *console);
extern const struct route console_route; /* for paths that the table does not have */

/* handlers */
void session_get(struct request *q);
void session_post(struct request *q);
void session_delete(struct request *q);
void setup_post(struct request *q);
void owner_password(struct request *q);
void connect_start(struct request *q);
void connect_token(struct request *q);
void connect_confirm(struct request *q);
void connect_cancel(struct request *q);
void approvals_list(struct request *q);
void approvals_get(struct request *q);
void approvals_approve(struct request *q);
void approvals_deny(struct request *q);
void keys_list(struct request *q);
void keys_create(struct request *q);
void keys_revoke(struct request *q);
void keys_limit(struct request *q);
void audit_list(struct request *q);
void page_style(struct request *q);
void page_setup(struct request *q);
void page_setup_post(struct request *q);
void page_signin(struct request *q);
void page_signin_post(struct request *q);
void page_signout_post(struct request *q);
void page_approve(struct request *q);
void page_approve_post(struct request *q);

#endif
