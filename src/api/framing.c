/* SPDX-License-Identifier: Apache-2.0 - heads of requests that two servers could read as two
 * things. */
#include "api/internal.h"

#include <string.h>
#include <strings.h>

/*
 * libmicrohttpd takes the first of two Content-Length, and Transfer-Encoding before either. What is
 * in front of this server may take the other one, and hand over the rest of one person's request as
 * the begin of another's. So a head that is not clear (RFC 9112, 6.3) is refused, and its
 * connection ends, before a byte of a body is read.
 */
struct head {
	unsigned lengths, encodings, hosts, keys;
	bool plain; /* what is in it may be there, so far */
};

static bool is_name(const char *text, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", c))
			return false;
	}
	return count > 0;
}

static bool is_value(const char *text, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static bool is(const char *name, size_t count, const char *wanted)
{
	return count == strlen(wanted) && strncasecmp(name, wanted, count) == 0;
}

static enum MHD_Result look(void *context, enum MHD_ValueKind kind, const char *name, size_t n,
	const char *value, size_t value_size)
{
	struct head *head = context;

	head->plain = head->plain && is_name(name, n) && is_value(value ? value : "", value_size);
	head->lengths += is(name, n, "Content-Length");
	head->hosts += is(name, n, "Host");
	head->keys += is(name, n, "Authorization");
	if (is(name, n, "Transfer-Encoding")) {
		head->encodings++;
		head->plain = head->plain && is(value ? value : "", value_size, "chunked");
	}
	return MHD_YES;
}

bool framing_is_clear(struct request *q)
{
	struct head head = {.plain = true};

	MHD_get_connection_values_n(q->connection, MHD_HEADER_KIND, look, &head);
	if (head.plain && head.lengths + head.encodings <= 1 && head.hosts <= 1 && head.keys <= 1)
		return true;
	answer_error(q, API_INVALID_REQUEST, NULL,
		"The head of the request is not clear: at most one of Content-Length and "
		"Transfer-Encoding: chunked, one Host, one Authorization, and names and values of "
		"plain letters.");
	return false;
}
