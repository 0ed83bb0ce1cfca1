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

/* The fields after the first line, without those that are between client and proxy. */
static bool copy_fields(struct writer *w, const char *at, const char *end)
{
	bool skipped = false;

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
		if (*at != ' ' && *at != '\t')
			skipped = is_field(at, n, "Connection") || is_field(at, n, "Keep-Alive") ||
				  (n > 6 && strncasecmp(at, "Proxy-", 6) == 0);
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

long proxy_http(const uint8_t *bytes, size_t count, struct proxy_target *target, bool *tunnel,
	uint8_t *out, size_t *out_count)
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
	*tunnel = space - line == 7 && memcmp(line, "CONNECT", 7) == 0;
	if (*tunnel)
		return proxy_authority(space + 1, (size_t)(version - space) - 1, 0, target)
			       ? (long)size
			       : -EPROTO;
	if (!split_url(space + 1, (size_t)(version - space) - 1, target, &path, &n))
		return -EPROTO;
	put(&w, line, (size_t)(space - line) + 1);
	if (!n || path[0] != '/')
		put(&w, "/", 1);
	put(&w, path, n);
	put(&w, version, 9);
	put(&w, "\r\n", 2);
	if (!copy_fields(&w, line_end + 2, line + size))
		return -EPROTO;
	*out_count = w.count;
	return (long)size;
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
