/* SPDX-License-Identifier: Apache-2.0 - the server's side of a WebSocket (RFC 6455) on a socket. */
#ifndef SEALMARK_API_WS_H
#define SEALMARK_API_WS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_ACCEPT_SIZE  29
#define WS_MESSAGE_MOST (1u << 20)
#define WS_BACKLOG_MOST (256u << 10) /* beyond it nothing is read: pongs would pile up */

/* What is between a client's Sec-WebSocket-Key and the answer's Sec-WebSocket-Accept. -EINVAL: it
 * is no such key. */
int ws_accept(const char *key, char out[WS_ACCEPT_SIZE]);

struct ws;

/*
 * Frames are taken apart and checked here (fragments, masks, sizes, UTF-8, control frames); pings
 * are answered. Calls do not block and are for one thread. The socket stays the caller's.
 */
struct ws_events {
	/* A whole message; `bytes` is valid during the call. */
	void (*message)(void *context, bool text, const uint8_t *bytes, size_t count);
	void *context;
};

/* `early`: bytes that came with the handshake, copied. NULL: no memory. */
struct ws *ws_new(int fd, const struct ws_events *events, const void *early, size_t count);
void ws_free(struct ws *w);

/* Take what has come, a bounded part of it at once; call again while the socket is readable, or
 * ws_has_early(). */
void ws_read(struct ws *w);
bool ws_has_early(const struct ws *w);
/* Send what waits, as far as the socket takes it. */
void ws_write(struct ws *w);
bool ws_wants_read(const struct ws *w);
bool ws_wants_write(const struct ws *w);

/* Queue; 0, -ENOMEM, or -EPIPE after a close. */
int ws_put(struct ws *w, bool text, const void *bytes, size_t count);
int ws_ping(struct ws *w);
/* Queue the end, for a reason of RFC 6455 (1000: normal). */
void ws_close(struct ws *w, uint16_t code);

/* The end is queued or sent: what the client still says does not count. */
bool ws_is_closing(const struct ws *w);
/* Nothing more can come of it: closed by both sides, cut off, or broken. */
bool ws_is_over(const struct ws *w);
/* The client has said goodbye, and was not just cut off. */
bool ws_was_closed(const struct ws *w);

#endif
