/* SPDX-License-Identifier: Apache-2.0 - answers: JSON, errors by their table, headers. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MESSAGE_MOST 1024

static const struct {
	const char *code;
	int status;
	int retry_ms; /* -1: it does not pass by itself */
	const char *hint;
} errors[] = {
#define E(NAME, code, status, retry_ms, hint) {code, status, retry_ms, hint},
	API_ERRORS(E)
#undef E
};

void answer_json(struct request *q, int status, json_t *json)
{
	json_decref(q->answer);
	q->answer = json;
	q->status = status;
	if (!json)
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
}

json_t *answer_error_object(
	enum api_error error, const char *request_id, json_t *details, const char *message)
{
	json_t *e = json_pack("{ss si ss so so ss}", "code", errors[error].code, "status",
		errors[error].status, "message", message, "hint",
		errors[error].hint ? json_string(errors[error].hint) : json_null(), "details",
		details ? details : json_null(), "requestId", request_id);

	if (e && errors[error].retry_ms >= 0)
		json_object_set_new(e, "retryAfterMs", json_integer(errors[error].retry_ms));
	return e;
}

void answer_error(struct request *q, enum api_error error, json_t *details, const char *format, ...)
{
	char message[MESSAGE_MOST];
	struct buffer safe = {0};
	const char *text = NULL;
	va_list ap;

	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	/* a part of it may be the client's or the guest's, and it may be cut within a letter */
	if (text_add_safe(&safe, message, strlen(message), false) == 0)
		text = buffer_text(&safe);
	json_decref(q->answer);
	q->answer = json_pack("{so*}", "error",
		answer_error_object(error, q->id, details, text ? text : "Out of memory."));
	q->status = errors[error].status;
	q->retry_ms = errors[error].retry_ms;
	buffer_fini(&safe);
	if (q->response)
		MHD_destroy_response(q->response);
	q->response = NULL;
}

void answer_retry_in(struct request *q, int64_t ms)
{
	q->retry_ms = ms;
	json_object_set_new(json_object_get(q->answer, "error"), "retryAfterMs", json_integer(ms));
}

void answer_failure(struct request *q, const struct error *err)
{
	log_error("request %s: %s", q->id, error_message(err));
	if (err->code == -ENOSPC) {
		answer_error(q, API_HOST_UNAVAILABLE, NULL,
			"The server's disk is full; its operator must make room.");
		return;
	}
	if (err->code == -EMFILE || err->code == -ENFILE || err->code == -ENOMEM) {
		answer_error(q, API_HOST_UNAVAILABLE, NULL,
			"The server has as many files open, or as much memory, as it may have.");
		return;
	}
	answer_error(q, API_INTERNAL, NULL,
		"Something went wrong here; the server's log says more under this request's id.");
}

static void add_common(struct request *q, struct MHD_Response *response)
{
	char text[32];

	MHD_add_response_header(response, "x-request-id", q->id);
	MHD_add_response_header(response, "Cache-Control", q->cache ? q->cache : "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	for (size_t i = 0; i < q->cookie_count; i++)
		MHD_add_response_header(response, "Set-Cookie", q->cookies[i]);
	if (q->replayed)
		MHD_add_response_header(response, "Idempotency-Replayed", "true");
	if (q->status >= 400 && q->retry_ms >= 0) {
		snprintf(text, sizeof(text), "%lld", (long long)(q->retry_ms + 999) / 1000);
		MHD_add_response_header(response, "Retry-After", text);
	}
	if (q->cut)
		MHD_add_response_header(response, "Connection", "close");
	if (q->status == 401)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
}

bool answer_send(struct request *q)
{
	struct MHD_Response *response = q->response;
	enum MHD_Result sent;
	char *text;

	q->response = NULL;
	if (!response) {
		if (q->replayed && json_is_object(q->answer))
			json_object_set_new(q->answer, "replayed", json_true());
		text = q->answer ? json_dumps(q->answer, JSON_COMPACT) : NULL;
		if (!text) {
			q->status = 500;
			text = strdup("{\"error\":{\"code\":\"internal_error\",\"status\":500,"
				      "\"message\":\"Out of memory.\"}}");
		}
		if (!text)
			return false;
		response =
			MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
		if (!response) {
			free(text);
			return false;
		}
		MHD_add_response_header(response, "Content-Type", "application/json");
	}
	add_common(q, response);
	sent = MHD_queue_response(q->connection, (unsigned)q->status, response);
	MHD_destroy_response(response);
	return sent == MHD_YES;
}

const char *request_text(const json_t *object, const char *name, const char *otherwise)
{
	const json_t *value = json_object_get(object, name);

	return json_is_string(value) ? json_string_value(value) : otherwise;
}

int64_t request_integer(const json_t *object, const char *name, int64_t otherwise)
{
	const json_t *value = json_object_get(object, name);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool request_boolean(const json_t *object, const char *name, bool otherwise)
{
	const json_t *value = json_object_get(object, name);

	return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

int64_t api_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

json_t *api_time(int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[CLOCK_STAMP_SIZE];
	struct tm tm;

	if (ms <= 0)
		return json_null();
	gmtime_r(&seconds, &tm);
	snprintf(text, sizeof(text), "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		(unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		(unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
		(unsigned)tm.tm_sec % 100, (unsigned)(ms % 1000));
	return json_string(text);
}

/* how many of the first bytes are one well-formed character; 0: none is */
static size_t character(const uint8_t *p, size_t count)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	return n <= count && text_is_utf8(p, n) ? n : 0;
}

json_t *api_guest_text(const void *bytes, size_t count, bool *exact)
{
	const uint8_t *p = bytes, *end = p + count;
	struct buffer out = {0};
	json_t *text;

	*exact = true;
	if (!count)
		return json_string("");
	if (text_is_utf8(bytes, count))
		return json_stringn(bytes, count);
	*exact = false;
	while (p < end) {
		size_t n = character(p, (size_t)(end - p));
		int r = n ? buffer_add(&out, p, n) : buffer_add(&out, "\xef\xbf\xbd", 3);

		if (r)
			break;
		p += n ? n : 1;
	}
	text = p == end ? json_stringn((const char *)buffer_bytes(&out), buffer_length(&out))
			: NULL;
	buffer_fini(&out);
	return text;
}

char *api_base64(const void *bytes, size_t count)
{
	char *text = malloc(4 * (count / 3 + 1) + 1);

	if (text)
		EVP_EncodeBlock((unsigned char *)text, bytes, (int)count);
	return text;
}

int api_unbase64(const char *text, struct buffer *out)
{
	return strlen(text) > API_JSON_MOST ? -EINVAL : text_unbase64(text, out);
}
