/* SPDX-License-Identifier: Apache-2.0 - pages: text escaped, the frame around it, forms read. */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELDS_MOST 16

/* Nothing runs in these pages and nothing comes from elsewhere. Forms go to this server only;
 * same-origin, since with no-referrer a browser would not say from which page a form comes. */
#define POLICY                                                                                     \
	"default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "         \
	"frame-ancestors 'none'; base-uri 'none'"

static void escape(struct buffer *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		switch (*p) {
		case '&':
			buffer_add_text(out, "&amp;");
			break;
		case '<':
			buffer_add_text(out, "&lt;");
			break;
		case '>':
			buffer_add_text(out, "&gt;");
			break;
		case '"':
			buffer_add_text(out, "&quot;");
			break;
		case '\'':
			buffer_add_text(out, "&#39;");
			break;
		default:
			buffer_add(out, p, 1);
		}
	}
}

void html(struct buffer *out, const char *template, ...)
{
	struct buffer safe = {0};
	va_list ap;

	va_start(ap, template);
	for (const char *p = template; *p; p++) {
		const char *text;

		if (*p != '$') {
			buffer_add(out, p, 1);
			continue;
		}
		text = va_arg(ap, const char *);
		buffer_clear(&safe);
		/* what no reader sees, or what turns the order of letters, is shown as such */
		if (text && !text_add_safe(&safe, text, strlen(text), false) && buffer_text(&safe))
			escape(out, buffer_text(&safe));
	}
	va_end(ap);
	buffer_fini(&safe);
}

static void respond(struct request *q, int status, struct buffer *whole)
{
	size_t size = buffer_length(whole);
	char *text = buffer_steal(whole);
	struct MHD_Response *response =
		text ? MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE) : NULL;

	if (!response) {
		free(text);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	MHD_add_response_header(response, "Content-Type", "text/html; charset=utf-8");
	MHD_add_response_header(response, "Content-Security-Policy", POLICY);
	MHD_add_response_header(response, "Referrer-Policy", "same-origin");
	MHD_add_response_header(response, "X-Frame-Options", "DENY");
	MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
	q->response = response;
	q->status = status;
}

void html_page(struct request *q, int status, const char *title, struct buffer *body)
{
	struct buffer whole = {0};

	html(&whole,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<title>$ - Sealmark</title>\n"
		"<link rel=\"stylesheet\" href=\"/pages.css\">\n"
		"<link rel=\"icon\" href=\"data:,\">\n</head>\n<body>\n<main>\n"
		"<p class=\"brand\">Sealmark</p>\n<h1>$</h1>\n",
		title, title, NULL);
	buffer_add(&whole, buffer_bytes(body), buffer_length(body));
	buffer_add_text(&whole, "</main>\n</body>\n</html>\n");
	buffer_fini(body);
	respond(q, status, &whole);
}

void html_message(
	struct request *q, int status, const char *title, const char *text, const char *link)
{
	struct buffer body = {0};

	html(&body, "<p>$</p>\n", text, NULL);
	if (link)
		html(&body, "<p><a href=\"$\">Go on</a></p>\n", link, NULL);
	html_page(q, status, title, &body);
}

void html_see_other(struct request *q, const char *location)
{
	struct buffer whole = {0};

	html(&whole, "<!doctype html><title>Sealmark</title><a href=\"$\">Go on</a>\n", location,
		NULL);
	respond(q, 303, &whole);
	if (q->response)
		MHD_add_response_header(q->response, "Location", location);
}

/* --- forms --- */

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* one name or value of the form; NULL when it is malformed or no text */
static char *decode(const char *from, size_t count)
{
	char *out = malloc(count + 1);
	size_t n = 0;

	for (size_t i = 0; out && i < count; i++) {
		char c = from[i] == '+' ? ' ' : from[i];

		if (c == '%') {
			int high = i + 2 < count ? hex(from[i + 1]) : -1;
			int low = i + 2 < count ? hex(from[i + 2]) : -1;

			c = high < 0 || low < 0 ? 0 : (char)(16 * high + low);
			i += 2;
		}
		if (!c) {
			free(out);
			return NULL;
		}
		out[n++] = c;
	}
	if (out)
		out[n] = 0;
	return out;
}

/* "name=value" into the form; a name twice is no form of ours */
static bool add_field(json_t *form, const char *pair, size_t count)
{
	const char *equals = memchr(pair, '=', count);
	size_t n = equals ? (size_t)(equals - pair) : count;
	char *name = decode(pair, n);
	char *value = equals ? decode(equals + 1, count - n - 1) : strdup("");
	bool done = name && value && !json_object_get(form, name) &&
		    json_object_set_new(form, name, json_string(value)) == 0;

	free(name);
	free(value);
	return done;
}

static bool is_form(const struct request *q)
{
	const char *type =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Content-Type");
	const char *wanted = "application/x-www-form-urlencoded";
	size_t n = strlen(wanted);

	return type && strncasecmp(type, wanted, n) == 0 && (!type[n] || strchr("; ", type[n]));
}

json_t *html_form_parse(const void *bytes, size_t count)
{
	const char *p = bytes, *end = p ? p + count : p;
	json_t *form = json_object();
	bool good = form != NULL;

	while (good && p && p < end) {
		const char *stop = memchr(p, '&', (size_t)(end - p));
		size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);

		good = json_object_size(form) < FIELDS_MOST && (!n || add_field(form, p, n));
		p = stop ? stop + 1 : end;
	}
	if (good)
		return form;
	json_decref(form);
	return NULL;
}

json_t *html_form(struct request *q)
{
	json_t *form = is_form(q) ? html_form_parse(buffer_bytes(&q->body), buffer_length(&q->body))
				  : NULL;

	if (!form)
		html_message(q, 400, "That did not arrive",
			"The form could not be read. Go back and try again.", NULL);
	return form;
}
