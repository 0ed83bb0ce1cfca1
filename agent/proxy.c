/* SPDX-License-Identifier: Apache-2.0 - what programs ask a proxy for, see proxy.h. */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define HTTP_PORT 80

static bool is_port(const char *text, size_t count, uint16_t *port)
{
	uint32_t n = 0;

	if (count < 1 || count > 5)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (uint32_t)(text[i] - '0');
	}
	*port = (uint16_t)n;
	return n >= 1 && n <= 65535;
}

/* Only what can be in a name or an address; what they mean is judged elsewhere. */
static bool is_host(const char *text, size_t count)
{
	if (count < 1 || count > PROXY_HOST_MOST)
		return false;
	for (size_t i = 0; i < count; i++) {
		char c = text[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
			c != '-' && c != '_' && c != '.' && c != ':')
			return false;
	}
	return true;
}

bool proxy_authority(
	const char *text, size_t count, uint16_t otherwise, struct proxy_target *target)
{
	const char *end = text + count, *close, *colon, *host = text;
	size_t n;

	if (count && text[0] == '[') {
		close = memchr(text, ']', count);
		if (!close)
			return false;
		host = text + 1;
		n = (size_t)(close - host);
		colon = close + 1;
		if (colon < end && *colon != ':')
			return false;
	} else {
		colon = memchr(text, ':', count);
		colon = colon ? colon : end;
		n = (size_t)(colon - text);
	}
	target->port = otherwise;
	if (colon < end ? !is_port(colon + 1, (size_t)(end - colon) - 1, &target->port)
			: !otherwise)
		return false;
	if (!is_host(host, n))
		return false;
	memcpy(target->host, host, n);
	target->host[n] = 0;
	return true;
}

/* --- HTTP --- */

/* bytes up to and with the empty line; 0: not there yet */
static size_t head_size(const uint8_t *bytes, size_t count)
{
	const uint8_t *at = memmem(bytes, count, "\r\n\r\n", 4);

	return at ? (size_t)(at - bytes) + 4 : 0;
}

static bool is_token(const char *text, size_t count)
{
	if (count < 1 || count > 32)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!(text[i] >= 'A' && text[i] <= 'Z') && !(text[i] >= 'a' && text[i] <= 'z') &&
			text[i] != '-')
			return false;
	}
	return true;
}

struct writer {
	uint8_t *out;
	size_t count;
};

static void put(struct writer *w, const void *bytes, size_t count)
{
	memcpy(w->out + w->count, bytes, count);
	w->count += count;
}

static bool is_field(const char *line, size_t count, const char *name)
{
	size_t n = strlen(name);

	return count > n && line[n] == ':' && strncasecmp(line, name, n) == 0;
}

/* The value of a field, without the blanks around it. */
static const char *value_of(const char *line, size_t *count)
{
	const char *at = (const char *)memchr(line, ':', *count) + 1, *end = line + *count;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*count = (size_t)(end - at);
	return at;
}

/* Content-Length and Transfer-Encoding: one of them, once. False for what can be read in two ways.
 */
static bool take_framing(
	const char *line, size_t count, struct proxy_body *body, unsigned *seen, bool *is_framing)
{
	bool length = is_field(line, count, "Content-Length");

	*is_framing = length || is_field(line, count, "Transfer-Encoding");
	if (!*is_framing)
		return true;
	if ((*seen)++)
		return false;
	line = value_of(line, &count);
	if (!length) {
		body->framing = PROXY_CHUNKS;
		return count == 7 && strncasecmp(line, "chunked", 7) == 0;
	}
	for (size_t i = 0; i < count; i++) {
		if (line[i] < '0' || line[i] > '9')
			return false;
		body->left = body->left * 10 + (uint64_t)(line[i] - '0');
	}
	return count >= 1 && count <= 18;
}

static bool is_field_line(const char *line, size_t count)
{
	const char *colon = memchr(line, ':', count);

	return colon && colon > line && colon[-1] != ' ' && colon[-1] != '\t';
}

/* The fields after the first line, without those that are between client and proxy. */
static bool copy_fields(struct writer *w, const char *at, const char *end, struct proxy_body *body)
{
	bool skipped = false, framing = false;
	unsigned seen = 0;

	while (at < end) {
		const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
		size_t n;

		if (!line_end)
			return false;
		n = (size_t)(line_end - at);
		if (!n)
			break;
		if (memchr(at, 0, n) || memchr(at, '\n', n) || memchr(at, '\r', n))
			return false;
		/* a line that goes on belongs to the field before */
		if (*at == ' ' || *at == '\t') {
			if (framing)
				return false;
		} else {
			if (!is_field_line(at, n) || !take_framing(at, n, body, &seen, &framing))
				return false;
			skipped = is_field(at, n, "Connection") || is_field(at, n, "Keep-Alive") ||
				  strncasecmp(at, "Proxy-", 6) == 0;
		}
		if (!skipped)
			put(w, at, n + 2);
		at = line_end + 2;
	}
	put(w, "Connection: close\r\n\r\n", 21);
	return true;
}

/* "http://HOST[:PORT]/PATH": the rest is the path, perhaps empty */
static bool split_url(const char *text, size_t count, struct proxy_target *target,
	const char **path, size_t *path_count)
{
	size_t n = 0;

	if (count < 8 || strncasecmp(text, "http://", 7) != 0)
		return false;
	text += 7;
	count -= 7;
	while (n < count && text[n] != '/' && text[n] != '?')
		n++;
	*path = text + n;
	*path_count = count - n;
	for (size_t i = n; i < count; i++) {
		if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
			return false;
	}
	return proxy_authority(text, n, HTTP_PORT, target);
}

long proxy_http(const uint8_t *bytes, size_t count, struct proxy_target *target,
	struct proxy_body *body, uint8_t *out, size_t *out_count)
{
	size_t size = head_size(bytes, count < PROXY_HEAD_MOST ? count : PROXY_HEAD_MOST), n;
	const char *line = (const char *)bytes, *line_end, *space, *version, *path;
	struct writer w = {out, 0};

	*out_count = 0;
	if (!size)
		return count >= PROXY_HEAD_MOST ? -E2BIG : 0;
	line_end = line ? memmem(line, size, "\r\n", 2) : NULL;
	if (!line_end)
		return -EPROTO;
	space = memchr(line, ' ', (size_t)(line_end - line));
	version = space ? memrchr(line, ' ', (size_t)(line_end - line)) : NULL;
	if (!space || version <= space || !is_token(line, (size_t)(space - line)) ||
		line_end - version != 9 || memcmp(version, " HTTP/1.", 8) != 0 ||
		(version[8] != '0' && version[8] != '1'))
		return -EPROTO;
	*body = (struct proxy_body){.framing = PROXY_LENGTH};
	if (space - line == 7 && memcmp(line, "CONNECT", 7) == 0) {
		body->framing = PROXY_TUNNEL;
		return proxy_authority(space + 1, (size_t)(version - space) - 1, 0, target)
			       ? (long)size
			       : -EPROTO;
	}
	if (!split_url(space + 1, (size_t)(version - space) - 1, target, &path, &n))
		return -EPROTO;
	put(&w, line, (size_t)(space - line) + 1);
	if (!n || path[0] != '/')
		put(&w, "/", 1);
	put(&w, path, n);
	put(&w, version, 9);
	put(&w, "\r\n", 2);
	if (!copy_fields(&w, line_end + 2, line + size, body))
		return -EPROTO;
	*out_count = w.count;
	return (long)size;
}

/* Chunks (RFC 9112, 7.1): size, extensions, bytes, and fields at the end. */
enum {
	SIZE_FIRST,
	SIZE,
	EXTENSION,
	SIZE_END,
	BYTES,
	BYTES_CR,
	BYTES_END,
	LINE,
	FIELD,
	FIELD_END,
	LAST_END,
	OVER
};

static int hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_size(struct proxy_body *b, uint8_t c)
{
	int digit = hex(c);

	if (digit >= 0) {
		if (b->left >> 56)
			return -EPROTO;
		b->left = b->left << 4 | (unsigned)digit;
		b->state = SIZE;
		return 0;
	}
	if (b->state == SIZE_FIRST || (c != '\r' && c != ';' && c != ' ' && c != '\t'))
		return -EPROTO;
	b->state = c == '\r' ? SIZE_END : EXTENSION;
	return 0;
}

/* until the end of the line, to which `next` belongs */
static int take_line(struct proxy_body *b, uint8_t c, unsigned state, unsigned next)
{
	b->state = c == '\r' ? next : state;
	return c == '\n' ? -EPROTO : 0;
}

static int take_only(struct proxy_body *b, uint8_t c, uint8_t wanted, unsigned next)
{
	b->state = next;
	return c == wanted ? 0 : -EPROTO;
}

/* One byte that is none of a chunk's own. */
static int take_mark(struct proxy_body *b, uint8_t c)
{
	switch (b->state) {
	case SIZE_FIRST:
	case SIZE:
		return take_size(b, c);
	case EXTENSION:
		return take_line(b, c, EXTENSION, SIZE_END);
	case SIZE_END:
		return take_only(b, c, '\n', b->left ? BYTES : LINE);
	case BYTES_CR:
		return take_only(b, c, '\r', BYTES_END);
	case BYTES_END:
		return take_only(b, c, '\n', SIZE_FIRST);
	case LINE:
		return take_line(b, c, FIELD, LAST_END);
	case FIELD:
		return take_line(b, c, FIELD, FIELD_END);
	case FIELD_END:
		return take_only(b, c, '\n', LINE);
	default:
		return take_only(b, c, '\n', OVER);
	}
}

static size_t take_bytes(struct proxy_body *b, size_t count)
{
	size_t n = b->left < count ? (size_t)b->left : count;

	b->left -= n;
	return n;
}

long proxy_body_take(struct proxy_body *body, const uint8_t *bytes, size_t count)
{
	size_t n = 0;

	if (body->framing == PROXY_TUNNEL)
		return (long)count;
	if (body->framing == PROXY_LENGTH)
		return (long)take_bytes(body, count);
	while (n < count && body->state != OVER) {
		if (body->state == BYTES) {
			n += take_bytes(body, count - n);
			if (!body->left)
				body->state = BYTES_CR;
		} else if (take_mark(body, bytes[n++])) {
			return -EPROTO;
		}
	}
	return (long)n;
}

/* --- SOCKS5 (RFC 1928) --- */

long proxy_socks_hello(const uint8_t *bytes, size_t count, bool *usable)
{
	if (count < 2)
		return 0;
	if (bytes[0] != 5 || !bytes[1])
		return -EPROTO;
	if (count < 2u + bytes[1])
		return 0;
	*usable = memchr(bytes + 2, 0, bytes[1]) != NULL;
	return 2 + bytes[1];
}

long proxy_socks_request(const uint8_t *bytes, size_t count, struct proxy_target *target)
{
	size_t head = 4, host = 4;
	int family = AF_INET;

	if (count < 5)
		return 0;
	if (bytes[0] != 5 || bytes[2] != 0)
		return -EPROTO;
	switch (bytes[3]) {
	case 1:
		break;
	case 3:
		head = 5;
		host = bytes[4];
		break;
	case 4:
		host = 16;
		family = AF_INET6;
		break;
	default:
		return -EPROTO;
	}
	if (count < head + host + 2)
		return 0;
	if (bytes[1] != 1)
		return -EOPNOTSUPP;
	if (head == 5) {
		if (!is_host((const char *)bytes + 5, host))
			return -EPROTO;
		memcpy(target->host, bytes + 5, host);
		target->host[host] = 0;
	} else if (!inet_ntop(family, bytes + 4, target->host, sizeof(target->host))) {
		return -EPROTO;
	}
	target->port = (uint16_t)(bytes[head + host] << 8 | bytes[head + host + 1]);
	return target->port ? (long)(head + host + 2) : -EPROTO;
}
