/* SPDX-License-Identifier: Apache-2.0 - what programs ask a proxy for: HTTP and SOCKS5, parsed. */
#ifndef SEALMARK_AGENT_PROXY_H
#define SEALMARK_AGENT_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Parsers that own nothing: bytes from their beginning go in each time. They answer how many bytes
 * were used (> 0), 0 when more are needed, or a negative errno: -EPROTO, and -E2BIG for a head
 * beyond PROXY_HEAD_MOST.
 */
#define PROXY_HEAD_MOST 16384u
#define PROXY_HOST_MOST 253u

struct proxy_target {
	char host[PROXY_HOST_MOST + 1]; /* a name or an address, without brackets */
	uint16_t port;
};

/*
 * Which of the bytes that follow a head are the request's own (RFC 9112, 6.3): those of a tunnel
 * all; else as many as Content-Length says, or chunks until the last, or none.
 */
struct proxy_body {
	enum { PROXY_TUNNEL, PROXY_LENGTH, PROXY_CHUNKS } framing;
	uint64_t left;  /* of the length, or of the chunk */
	unsigned state; /* within chunks */
};

/*
 * The head of an HTTP request to a proxy. CONNECT HOST:PORT is a tunnel: all that follows is the
 * client's and the target's. Else its target is http://HOST[:PORT]/PATH, and `out` gets the head
 * that goes to the target: the path alone, no Proxy- fields, and Connection: close, so that the
 * connection serves one request. A target that keeps it open all the same gets nothing of the next,
 * which may be for another: proxy_body_take(). `out` has PROXY_HEAD_MOST + 64 bytes; *out_count is
 * 0 for a tunnel.
 */
long proxy_http(const uint8_t *bytes, size_t count, struct proxy_target *target,
	struct proxy_body *body, uint8_t *out, size_t *out_count);
/* How many of the bytes that came next belong to the request; less than `count`: it is over.
 * -EPROTO: chunks that are none. */
long proxy_body_take(struct proxy_body *body, const uint8_t *bytes, size_t count);

/* SOCKS5: the greeting; *usable: does it offer to go without authentication? */
long proxy_socks_hello(const uint8_t *bytes, size_t count, bool *usable);
/* The request. -EOPNOTSUPP for commands other than CONNECT. */
long proxy_socks_request(const uint8_t *bytes, size_t count, struct proxy_target *target);

/* "HOST:PORT", "[V6]:PORT" or, with a port of `otherwise` != 0, without port. */
bool proxy_authority(
	const char *text, size_t count, uint16_t otherwise, struct proxy_target *target);

#endif
