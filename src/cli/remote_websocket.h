/* SPDX-License-Identifier: Apache-2.0 - a WebSocket to a server (RFC 6455, by wslay). */
#ifndef SEALMARK_CLI_REMOTE_WEBSOCKET_H
#define SEALMARK_CLI_REMOTE_WEBSOCKET_H

#include "cli/remote.h"

struct websocket;

/* What comes: whole messages. A negative errno ends the work. */
struct websocket_sink {
	int (*on_text)(void *context, const char *text, size_t count);
	int (*on_bytes)(void *context, const void *bytes, size_t count);
	void *context;
};

/* Connect and shake hands; an enum cli_status. */
int websocket_open(struct remote *r, const char *path, const struct websocket_sink *sink,
	struct websocket **out, struct error *err);
void websocket_free(struct websocket *w);
int websocket_fd(const struct websocket *w);
bool websocket_wants_write(const struct websocket *w);
/* Bytes that wait to be sent; a sender stops reading its source while there are many. */
size_t websocket_queued(const struct websocket *w);
/* Queue a message. */
int websocket_send(struct websocket *w, bool text, const void *bytes, size_t count);
int websocket_close(struct websocket *w);
/* Do what can be done now. 0; -EPIPE: it is over; or what the sink answered. */
int websocket_work(struct websocket *w);

#endif
