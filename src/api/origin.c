/* SPDX-License-Identifier: Apache-2.0 - by which name a request came, and from whose page. */
#include "api/people.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/*
 * A Host is believed when it is the operator's publicUrl, the name in --listen, an address or
 * localhost. Any other name could be a stranger's that he points at this server, so that his page
 * has the server's origin in the browser; and links are made of it.
 */

static const char *header(const struct request *q, const char *name)
{
	return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

/* "host:port" -> host, without brackets; false when it is no such thing */
static bool host_part(const char *text, char *out, size_t size)
{
	size_t n;

	if (text[0] == '[') {
		n = strcspn(++text, "]");
		if (!text[n] || (text[n + 1] && text[n + 1] != ':'))
			return false;
	} else {
		n = strcspn(text, ":");
	}
	if (strspn(text + n, "]:0123456789") != strlen(text + n))
		return false;
	return n && text_format(out, size, "%.*s", (int)n, text) == 0;
}

bool origin_host_is_plain(const char *host)
{
	char name[256];
	uint8_t address[16];

	if (!host_part(host, name, sizeof(name)))
		return false;
	return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1 ||
	       inet_pton(AF_INET6, name, address) == 1;
}

/* what follows "https://" */
static const char *authority(const char *url)
{
	const char *p = url ? strstr(url, "://") : NULL;

	return p ? p + 3 : "";
}

static bool host_is_known(const struct request *q, const char *host)
{
	char name[256], own[256];

	if (origin_host_is_plain(host))
		return true;
	return host_part(host, name, sizeof(name)) &&
	       host_part(authority(q->server->address), own, sizeof(own)) &&
	       strcasecmp(name, own) == 0;
}

bool origin_of(const struct request *q, char *out, size_t size)
{
	const char *host = header(q, "Host"), *url = q->server->options.public_url;

	if (url && (!host || strcasecmp(host, authority(url)) == 0))
		return text_copy(out, size, url) == 0;
	if (!host || !host_is_known(q, host))
		return false;
	return text_format(out, size, "%s://%s", q->server->cert ? "https" : "http", host) == 0;
}

bool origin_is_ours(const struct request *q)
{
	const char *site = header(q, "Sec-Fetch-Site"), *origin = header(q, "Origin");
	const char *url = q->server->options.public_url;
	char own[512];

	if (site && strcmp(site, "same-origin") && strcmp(site, "none"))
		return false;
	if (!origin_of(q, own, sizeof(own)))
		return false;
	/* a browser that keeps its Origin to itself has said where it comes from above */
	if (!origin || (strcmp(origin, "null") == 0 && site))
		return true;
	/* a proxy before us may have changed the Host, not the Origin */
	return strcasecmp(origin, own) == 0 || (url && strcasecmp(origin, url) == 0);
}

void origin_group(const char *address, char *out, size_t size)
{
	struct in6_addr six;
	char text[INET6_ADDRSTRLEN];

	if (inet_pton(AF_INET6, address, &six) == 1) {
		memset(six.s6_addr + 8, 0, 8);
		if (inet_ntop(AF_INET6, &six, text, sizeof(text))) {
			text_format(out, size, "%s/64", text);
			return;
		}
	}
	text_copy(out, size, address);
}
