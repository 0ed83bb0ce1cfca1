/* SPDX-License-Identifier: Apache-2.0 - pages to set the owner up, to sign in and to sign out. */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

static const char *query_text(const struct request *q, const char *name)
{
	const char *value = MHD_lookup_connection_value(q->connection, MHD_GET_ARGUMENT_KIND, name);

	return value ? value : "";
}

/* --- style --- */

static const char style[] =
	":root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--text:#1b1f24;--dim:#545d68;"
	"--line:#c9d0d8;--edge:#737d88;--accent:#0b5cad;--bad:#b3261e}\n"
	"@media (prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1d2228;--text:#e8ebef;"
	"--dim:#a7b0bb;--line:#414a55;--edge:#8a95a2;--accent:#7db8f5;--bad:#ff9d94}"
	"button.main{color:#10151b}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0;background:var(--bg);color:var(--text);"
	"font:16px/1.5 system-ui,sans-serif;display:flex;justify-content:center;padding:2rem "
	"1rem}\n"
	"main{background:var(--card);border:1px solid var(--line);border-radius:10px;"
	"padding:1.5rem 2rem 2rem;width:100%;max-width:34rem;align-self:flex-start}\n"
	".brand{margin:0;color:var(--dim);letter-spacing:.04em}\n"
	"h1{font-size:1.4rem;margin:.2rem 0 1rem;overflow-wrap:anywhere}\n"
	"label,legend{display:block;font-weight:600;margin-top:1rem;padding:0}\n"
	"label.choice{font-weight:400;margin-top:.4rem}\n"
	"fieldset{border:0;margin:1.4rem 0 0;padding:0}\n"
	"input[type=text],input[type=password]{width:100%;font:inherit;padding:.5rem .6rem;"
	"color:inherit;background:var(--bg);border:1px solid var(--edge);border-radius:6px}\n"
	"input:focus-visible,button:focus-visible,a:focus-visible{outline:3px solid var(--accent);"
	"outline-offset:2px}\n"
	"input[aria-invalid]{border-color:var(--bad)}\n"
	".hint{color:var(--dim);margin:.2rem 0 0;font-size:.9rem}\n"
	".wrong{color:var(--bad);margin:.3rem 0 0;font-weight:600}\n"
	"button{font:inherit;font-weight:600;padding:.55rem 1.2rem;margin:1.4rem .6rem 0 0;"
	"border-radius:6px;border:1px solid var(--edge);background:transparent;color:inherit;"
	"cursor:pointer}\n"
	"button.main{background:var(--accent);border-color:var(--accent);color:#fff}\n"
	"@media (prefers-color-scheme:dark){button.main{color:#10151b}}\n"
	"dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;margin:1rem 0}\n"
	"dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\n"
	"code{font:1.1em ui-monospace,monospace;letter-spacing:.06em;white-space:nowrap}\n"
	"a{color:var(--accent)}\n";

void page_style(struct request *q)
{
	q->response = MHD_create_response_from_buffer(
		sizeof(style) - 1, (char *)(uintptr_t)style, MHD_RESPMEM_PERSISTENT);
	q->status = 200;
	q->cache = "max-age=3600";
	if (q->response)
		MHD_add_response_header(q->response, "Content-Type", "text/css; charset=utf-8");
}

/* --- parts of forms --- */

static void begin_form(struct request *q, struct buffer *out, const char *action)
{
	char token[HASH_HEX_SIZE];

	session_form_token(q, token);
	html(out,
		"<form method=\"post\" action=\"$\" accept-charset=\"utf-8\">\n"
		"<input type=\"hidden\" name=\"csrf\" value=\"$\">\n",
		action, token, NULL);
}

static void password_field(struct buffer *out, const char *name, const char *label,
	const char *hint, const char *complete, const char *wrong)
{
	html(out,
		"<label for=\"$\">$</label>\n<input type=\"password\" id=\"$\" name=\"$\" "
		"required maxlength=\"256\" autocomplete=\"$\"",
		name, label, name, name, complete, NULL);
	if (wrong)
		html(out, " aria-invalid=\"true\" aria-describedby=\"$-wrong\" autofocus", name,
			NULL);
	buffer_add_text(out, ">\n");
	if (hint)
		html(out, "<p class=\"hint\">$</p>\n", hint, NULL);
	if (wrong)
		html(out, "<p class=\"wrong\" id=\"$-wrong\" role=\"alert\">$</p>\n", name, wrong,
			NULL);
}

/* Is the host one of ours, and the form from a page of ours? Else there is an answer. */
static json_t *take_form(struct request *q, const char *page)
{
	json_t *form = html_form(q);

	if (!form || session_form_is_ours(q, request_text(form, "csrf", "")))
		return form;
	json_decref(form);
	html_message(q, 403, "That form is not of this page",
		"It was open for too long, it was sent from another site, or this browser keeps no "
		"cookies. Open it again.",
		page);
	return NULL;
}

static bool host_is_ours(struct request *q)
{
	char origin[512];

	if (origin_of(q, origin, sizeof(origin)))
		return true;
	html_message(q, 400, "Not by this name",
		"This server does not know itself by the name in the address. Open it by its "
		"address, or set publicUrl in its configuration.",
		NULL);
	return false;
}

/* --- set-up --- */

static void show_setup(struct request *q, int status, const char *token, const char *name,
	const char *wrong, const char *wrong_repeat)
{
	struct buffer body = {0};

	buffer_add_text(&body, "<p>You are about to become the owner of this server: whoever has "
			       "this password decides about keys and limits.</p>\n");
	begin_form(q, &body, "/setup");
	html(&body,
		"<input type=\"hidden\" name=\"token\" value=\"$\">\n"
		"<label for=\"name\">Your name</label>\n"
		"<input type=\"text\" id=\"name\" name=\"name\" value=\"$\" maxlength=\"100\" "
		"autocomplete=\"username\">\n",
		token, name, NULL);
	password_field(
		&body, "password", "Password", "At least 12 characters.", "new-password", wrong);
	password_field(
		&body, "repeat", "The same password again", NULL, "new-password", wrong_repeat);
	buffer_add_text(&body, "<button class=\"main\">Set password</button>\n</form>\n");
	html_page(q, status, "Set up the owner", &body);
}

static void show_dead_link(struct request *q)
{
	html_message(q, 403, "This link is not valid",
		"It was used, is older than 24 hours, or was replaced by a newer one. On the "
		"server, \"sealmark owner reset\" prints a new one.",
		"/signin");
}

void page_setup(struct request *q)
{
	const char *token = query_text(q, "token");
	char hash[HASH_HEX_SIZE];

	if (!host_is_ours(q))
		return;
	hash_bytes(token, strlen(token), hash);
	if (!token[0] || store_link_check(q->server->store, hash, api_now_ms(), NULL))
		show_dead_link(q);
	else
		show_setup(q, 200, token, "", NULL, NULL);
}

static void set_up(struct request *q, const json_t *form)
{
	const char *token = request_text(form, "token", ""), *name = request_text(form, "name", "");
	const char *password = request_text(form, "password", "");
	const char *wrong = password_wrong(password), *repeat = NULL;
	struct error err = {0};
	int r;

	if (!wrong && strcmp(password, request_text(form, "repeat", "")))
		repeat = "This is not the same password.";
	if (strlen(name) > 100)
		name = "";
	if (wrong || repeat) {
		show_setup(q, 422, token, name, wrong, repeat);
		return;
	}
	r = owner_set(q, token, name, password, &err);
	if (r == -ENOENT)
		show_dead_link(q);
	else if (r)
		answer_failure(q, &err);
	else
		html_see_other(q, "/");
}

void page_setup_post(struct request *q)
{
	json_t *form = take_form(q, "/signin");

	if (form)
		set_up(q, form);
	json_decref(form);
}

/* --- sign-in --- */

/* Where to go after it: the page of a code, or the console. Never what was sent as it is. */
static void next_page(const char *code, char *out, size_t size)
{
	char whole[STORE_USER_CODE_SIZE];

	if (approval_code(code, whole))
		text_format(out, size, "/approve?code=%s", whole);
	else
		text_copy(out, size, "/");
}

static void show_signin(struct request *q, int status, const char *code, const char *wrong)
{
	struct buffer body = {0};

	begin_form(q, &body, "/signin");
	html(&body,
		"<input type=\"hidden\" name=\"code\" value=\"$\">\n"
		"<input type=\"hidden\" name=\"username\" value=\"owner\" "
		"autocomplete=\"username\">\n",
		code, NULL);
	password_field(&body, "password", "The owner's password", NULL, "current-password", wrong);
	buffer_add_text(&body, "<button class=\"main\">Sign in</button>\n</form>\n"
			       "<p class=\"hint\">Lost it? On the server, <code>sealmark owner "
			       "reset</code> prints a link to set another one.</p>\n");
	html_page(q, status, "Sign in", &body);
}

void page_signin(struct request *q)
{
	char code[STORE_USER_CODE_SIZE], next[64];

	if (!host_is_ours(q))
		return;
	if (!approval_code(query_text(q, "code"), code))
		code[0] = 0;
	if (session_find(q)) {
		next_page(code, next, sizeof(next));
		html_see_other(q, next);
		return;
	}
	show_signin(q, 200, code, NULL);
}

static void sign_in(struct request *q, const json_t *form)
{
	char code[STORE_USER_CODE_SIZE], next[64], text[80];
	struct error err = {0};
	int64_t wait_ms = 0;

	if (!approval_code(request_text(form, "code", ""), code))
		code[0] = 0;
	switch (signin_try(q, request_text(form, "password", ""), &wait_ms, &err)) {
	case SIGNIN_DONE:
		next_page(code, next, sizeof(next));
		html_see_other(q, next);
		break;
	case SIGNIN_WRONG:
		show_signin(q, 401, code, "That is not the password.");
		break;
	case SIGNIN_NOBODY:
		html_message(q, 403, "There is no owner yet",
			"The server prints a link to set up the owner when it starts; \"sealmark "
			"owner reset\" prints a new one.",
			NULL);
		break;
	case SIGNIN_WAIT:
		text_format(text, sizeof(text), "Too many attempts. Try again in %lld s.",
			(long long)(wait_ms + 999) / 1000);
		show_signin(q, 429, code, text);
		q->retry_ms = wait_ms;
		break;
	case SIGNIN_FAILED:
		answer_failure(q, &err);
		break;
	}
}

void page_signin_post(struct request *q)
{
	json_t *form = take_form(q, "/signin");

	if (form)
		sign_in(q, form);
	json_decref(form);
}

void page_signout_post(struct request *q)
{
	json_t *form = take_form(q, "/");
	struct store_audit audit;
	struct error err = {0};

	if (!form)
		return;
	json_decref(form);
	audit = audit_of(q, "session.ended", "owner", NULL); /* whose form it is, is known now */
	if (q->person && store_session_end(q->server->store, q->session, &audit, &err)) {
		answer_failure(q, &err);
		return;
	}
	cookie_write(q, SESSION_COOKIE, "", 0);
	html_see_other(q, "/signin");
}
