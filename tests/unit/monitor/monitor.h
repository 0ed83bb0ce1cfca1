/* SPDX-License-Identifier: Apache-2.0 - a real monitor with a scripted machine, spoken to in
 * frames. */
#ifndef SEALMARK_TESTS_MONITOR_MONITOR_H
#define SEALMARK_TESTS_MONITOR_MONITOR_H

#include "home.h"

#include "../engine/host.h"

/* Start one; h->pid is its keeper, h->fd the owner's connection. `more`: a JSON object with fields
 * that replace those of the plain configuration, or NULL. host_end() ends it. */
void monitor_start(struct host *h, struct home *home, const char *script, const char *more);
/* The same, and MON_READY has come. */
void monitor_ready(struct host *h, struct home *home, const char *script, const char *more);
/* A connection to its control.sock. */
void monitor_connect(struct host *h, struct home *home);
/* A connection to its control.sock that has been told MON_READY. */
void monitor_attach(struct host *h, struct home *home);
/* Close a connection; the sandbox goes on. */
void monitor_detach(struct host *h);
/* Frames until MON_STOPPED, then the end: its reason, and a part of its detail. */
void monitor_expect_stopped(
	struct host *h, enum sandbox_stop_reason reason, const char *detail_part);
/* A connection that the monitor ends without a word. */
void monitor_expect_closed(struct host *h);
/* A round trip on the stream. */
void monitor_ping(struct host *h, uint32_t stream);
/* Append a frame as a quoted text of the script language. */
void monitor_quote(struct buffer *script, const uint8_t *frame, int size);

#endif
