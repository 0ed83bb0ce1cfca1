/* SPDX-License-Identifier: Apache-2.0 - the server's side of a WebSocket (RFC 6455) on a socket. */
#ifndef SEALMARK_API_WEBSOCKET_H
#define SEALMARK_API_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEBSOCKET_ACCEPT_SIZE  29
#define WEBSOCKET_MESSAGE_MOST (1u << 20)
#define WEBSOCKET_BACKLOG_MOST (256u << 10) /* beyond it nothing is read: pongs would pile up */

/* What is between a client's Sec-WebSocket-Key and the answer's Sec-WebSocket-Accept. -EINVAL: it
 * is no such key. */
int websocket_accept(const char *key, char out[WEBSOCKET_ACCEPT_SIZE]);

struct websocket;

/*
 * Frames are taken apart and checked here (fragments, masks, sizes, UTF-8, control frames); pings
 * are answered. Calls do not block and are for one thread. The socket stays the caller's.
 */
struct websocket_events {
	/* A whole message; `bytes` is valid during the call. */
	void (*message)(void *context, bool text, const uint8_t *bytes, size_t count);
	void *context;
};

/* `early`: bytes that came with the handshake, copied. NULL: no memory. */
struct websocket *websocket_new(
	int fd, const struct websocket_events *events, const void *early, size_t count);
void websocket_free(struct websocket *w);

/* Take what has come, a bounded part of it at once; call again while the socket is readable, or
 * websocket_has_early(). */
void websocket_read(struct websocket *w);
bool websocket_has_early(const struct websocket *w);
/* Send what waits, as far as the socket takes it. */
void websocket_write(struct websocket *w);
bool websocket_wants_read(const struct websocket *w);
bool websocket_wants_write(const struct websocket *w);

/* Queue; 0, -ENOMEM, or -EPIPE after a close. */
int websocket_put(struct websocket *w, bool text, const void *bytes, size_t count);
int websocket_ping(struct websocket *w);
/* Queue the end, for a reason of RFC 6455 (1000: normal). */
void websocket_close(struct websocket *w, uint16_t code);

/* The end is queued or sent: what the client still says does not count. */
bool websocket_is_closing(const struct websocket *w);
/* Nothing more can come of it: closed by both sides, cut off, or broken. */
bool websocket_is_over(const struct websocket *w);
/* The client has said goodbye, and was not just cut off. */
bool websocket_was_closed(const struct websocket *w);

#endif
