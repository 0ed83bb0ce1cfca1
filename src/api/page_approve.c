/* SPDX-License-Identifier: Apache-2.0 - the page on which a person decides about a program's key.
 */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MICROS INT64_C(1000000)

/* "12.50" dollars in microdollars; "" is no limit */
static bool take_dollars(const char *text, int64_t *out)
{
	const char *point = strchr(text, '.');
	size_t whole = point ? (size_t)(point - text) : strlen(text);
	size_t part = point ? strlen(point + 1) : 0;
	int64_t micros = 0;

	*out = STORE_NO_LIMIT;
	if (!text[0])
		return true;
	if (whole > 9 || part > 6 || whole + part == 0)
		return false;
	for (size_t i = 0; i < whole + 6; i++) {
		char c = i < whole ? text[i] : i - whole < part ? point[1 + i - whole] : '0';

		if (c < '0' || c > '9')
			return false;
		micros = 10 * micros + (c - '0');
	}
	*out = micros;
	return true;
}

static void write_dollars(int64_t micros, char *out, size_t size)
{
	if (micros == STORE_NO_LIMIT)
		text_copy(out, size, "");
	else if (micros % (MICROS / 100) == 0)
		text_format(out, size, "%lld.%02lld", (long long)(micros / MICROS),
			(long long)(micros % MICROS / (MICROS / 100)));
	else
		text_format(out, size, "%lld.%06lld", (long long)(micros / MICROS),
			(long long)(micros % MICROS));
}

static void ask_code(struct request *q, int status, const char *wrong)
{
	struct buffer body = {0};

	html(&body,
		"<form method=\"get\" action=\"/approve\">\n"
		"<label for=\"code\">The code that the program shows</label>\n"
		"<input type=\"text\" id=\"code\" name=\"code\" required maxlength=\"12\" "
		"autocomplete=\"off\" placeholder=\"BCDF-GHJK\">\n",
		NULL);
	if (wrong)
		html(&body, "<p class=\"wrong\" role=\"alert\">$</p>\n", wrong, NULL);
	buffer_add_text(&body, "<button class=\"main\">Look</button>\n</form>\n");
	html_page(q, status, "A program asks for a key", &body);
}

static void choice(struct buffer *out, const char *value, const char *text, const char *chosen)
{
	html(out, "<label class=\"choice\"><input type=\"radio\" name=\"access\" value=\"$\"",
		value, NULL);
	if (strcmp(value, chosen) == 0)
		buffer_add_text(out, " checked");
	html(out, "> $</label>\n", text, NULL);
}

static void facts(struct buffer *out, const struct store_approval *a)
{
	static const char *const names[][2] = {{"full", "everything"}, {"read", "reading only"}};
	const char *access = a->products;
	char limit[60] = "none", dollars[40];

	for (size_t i = 0; i < 2; i++)
		access = strcmp(a->access, names[i][0]) ? access : names[i][1];
	if (a->daily_limit_micros != STORE_NO_LIMIT) {
		write_dollars(a->daily_limit_micros, dollars, sizeof(dollars));
		text_format(limit, sizeof(limit), "%s dollars", dollars);
	}
	html(out,
		"<p>Go on only if the program shows you this code: <code>$</code></p>\n"
		"<dl>\n<dt>Program</dt><dd>$</dd>\n<dt>On machine</dt><dd>$</dd>\n"
		"<dt>For</dt><dd>$</dd>\n<dt>From address</dt><dd>$</dd>\n"
		"<dt>Asks to use</dt><dd>$</dd>\n<dt>Daily limit asked</dt><dd>$</dd>\n</dl>\n"
		"<p class=\"hint\">Name, machine and purpose are what the program says of "
		"itself.</p>\n",
		a->user_code, a->agent, a->machine[0] ? a->machine : "not said",
		a->purpose[0] ? a->purpose : "not said", a->address, access, limit, NULL);
}

static void show(struct request *q, int status, const struct store_approval *a, const char *access,
	const char *limit, const char *wrong)
{
	struct buffer body = {0};
	char token[HASH_HEX_SIZE];

	session_form_token(q, token);
	facts(&body, a);
	html(&body,
		"<form method=\"post\" action=\"/approve\" accept-charset=\"utf-8\">\n"
		"<input type=\"hidden\" name=\"csrf\" value=\"$\">\n"
		"<input type=\"hidden\" name=\"code\" value=\"$\">\n"
		"<fieldset>\n<legend>Give it a key for</legend>\n",
		token, a->user_code, NULL);
	choice(&body, "full", "everything: create sandboxes, images, files", access);
	choice(&body, "read", "reading only", access);
	if (a->products[0])
		choice(&body, "selected", a->products, access);
	html(&body,
		"</fieldset>\n<label class=\"choice\"><input type=\"checkbox\" name=\"account\" "
		"value=\"1\"> Let it see what other keys have made, too</label>\n"
		"<label for=\"limit\">At most, in 24 hours, in dollars</label>\n"
		"<input type=\"text\" id=\"limit\" name=\"limit\" inputmode=\"decimal\" "
		"maxlength=\"17\" autocomplete=\"off\" value=\"$\"",
		limit, NULL);
	if (wrong)
		buffer_add_text(
			&body, " aria-invalid=\"true\" aria-describedby=\"limit-wrong\" autofocus");
	buffer_add_text(&body, ">\n<p class=\"hint\">Empty: no limit.</p>\n");
	if (wrong)
		html(&body, "<p class=\"wrong\" id=\"limit-wrong\" role=\"alert\">$</p>\n", wrong,
			NULL);
	buffer_add_text(&body,
		"<button class=\"main\" name=\"decision\" value=\"approve\">Approve</button>"
		"<button name=\"decision\" value=\"deny\">Deny</button>\n</form>\n");
	html_page(q, status, "A program asks for a key", &body);
}

static void show_over(struct request *q, const struct store_approval *a)
{
	struct buffer body = {0};

	html(&body, "<p>The request <code>$</code> is $. There is nothing to decide.</p>\n",
		a->user_code, approval_status(a, api_now_ms()), NULL);
	html_page(q, 410, "Nothing to decide", &body);
}

/* The request of a code, for somebody who is signed in; else there is an answer. */
static bool find(struct request *q, const char *text, struct store_approval *out)
{
	char code[STORE_USER_CODE_SIZE], next[64];
	struct error err = {0};
	int r;

	if (!approval_code(text, code))
		code[0] = 0;
	if (!session_find(q)) {
		text_format(next, sizeof(next), "/signin%s%s", code[0] ? "?code=" : "", code);
		html_see_other(q, next);
		return false;
	}
	if (!code[0]) {
		ask_code(q, text[0] ? 404 : 200, text[0] ? "There is no such code." : NULL);
		return false;
	}
	r = store_approval_by_code(q->server->store, code, out, &err);
	if (r == -ENOENT)
		ask_code(q, 404, "There is no such code; it may be too old.");
	else if (r)
		answer_failure(q, &err);
	return !r;
}

void page_approve(struct request *q)
{
	const char *code =
		MHD_lookup_connection_value(q->connection, MHD_GET_ARGUMENT_KIND, "code");
	struct store_approval a = {0};
	char limit[40], origin[512];

	if (!origin_of(q, origin, sizeof(origin))) {
		html_message(q, 400, "Not by this name",
			"This server does not know itself by the name in the address.", NULL);
		return;
	}
	if (!find(q, code ? code : "", &a))
		return;
	write_dollars(a.daily_limit_micros, limit, sizeof(limit));
	if (strcmp(approval_status(&a, api_now_ms()), "pending"))
		show_over(q, &a);
	else
		show(q, 200, &a, a.access, limit, NULL);
	store_approval_fini(&a);
}

static void answer_decision(struct request *q, int r, bool approved, const struct error *err)
{
	if (r == -ENOENT || r == -ESTALE)
		html_message(q, 410, "Nothing to decide",
			"It was decided already, canceled, or is older than 15 minutes.", "/");
	else if (r)
		answer_failure(q, err);
	else if (approved)
		html_message(q, 200, "Approved",
			"The program gets its key within a few seconds. You can close this page.",
			"/");
	else
		html_message(q, 200, "Denied", "The program gets no key.", "/");
}

static void decide(struct request *q, const json_t *form, const struct store_approval *a)
{
	const char *decision = request_text(form, "decision", "");
	const char *access = request_text(form, "access", a->access);
	const char *limit = request_text(form, "limit", "");
	struct grant grant = {.access = access,
		.products = strcmp(access, "selected") ? "" : a->products,
		.account = json_object_get(form, "account") != NULL};
	char key_id[ID_SIZE];
	struct error err = {0};
	int r;

	if (strcmp(decision, "approve")) {
		/* whatever else was sent, nothing is given */
		r = strcmp(decision, "deny") ? -ESTALE : approval_deny(q, a->user_code, &err);
		answer_decision(q, r, false, &err);
		return;
	}
	if (!take_dollars(limit, &grant.daily_limit_micros)) {
		show(q, 422, a, access, limit,
			"Write an amount like 5 or 12.50, or nothing for no limit.");
		return;
	}
	r = approval_grant(q, a, &grant, key_id, &err);
	if (r == -EINVAL)
		html_message(q, 400, "That cannot be given", error_message(&err), "/approve");
	else
		answer_decision(q, r, true, &err);
}

void page_approve_post(struct request *q)
{
	struct store_approval a = {0};
	json_t *form = html_form(q);
	const char *code = request_text(form, "code", "");

	if (!form)
		return;
	if (!find(q, code, &a)) {
		json_decref(form);
		return;
	}
	if (!session_form_is_ours(q, request_text(form, "csrf", "")))
		html_message(q, 403, "That form is not of this page",
			"It was sent from another site, or you have signed in anew since. Open it "
			"again.",
			"/approve");
	else
		decide(q, form, &a);
	store_approval_fini(&a);
	json_decref(form);
}
