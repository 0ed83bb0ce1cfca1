/* SPDX-License-Identifier: Apache-2.0 - the host's end of a scripted guest, for tests. */
#ifndef SEALMARK_TESTS_ENGINE_HOST_H
#define SEALMARK_TESTS_ENGINE_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "wire/wire.h"

#include <sys/types.h>

struct host {
	int fd;
	pid_t pid;
	struct buffer in;
	struct wire_frame frame; /* the last one; valid until the next call */
	size_t taken;            /* bytes of it at the front of `in` */
	char script[64];         /* its path, "" for none */
};

/* Start engine fake in a child, by its plan. NULL: no script. */
void host_start(struct host *h, const char *script);
/* Close the connection and wait: the exit status. */
int host_end(struct host *h);
/* Next frame within 10 s: 1, 0 at the end of the stream, -EPROTO for what is no frame. */
int host_next(struct host *h);
/* True when nothing comes for a while. */
bool host_is_silent(struct host *h);
/* The next frame must be of this type on this stream. */
void host_expect(struct host *h, enum wire_type type, uint32_t stream);
void host_send(struct host *h, const uint8_t *frame, int size);
void host_data(struct host *h, uint32_t stream, const void *bytes, size_t count);
void host_end_input(struct host *h, uint32_t stream);
void host_credit(struct host *h, uint32_t stream, enum wire_channel channel, uint32_t bytes);
/* EXEC of a command line split at blanks; `m` may preset limits and flags. */
void host_exec(struct host *h, uint32_t stream, const char *command, const struct wire_exec *m);
/* Frames of the stream until its final one: data of channels added to out (WIRE_CHANNELS
 * buffers, or NULL), credit returned for all of it. The EXIT is decoded into *exit. */
void host_finish(struct host *h, uint32_t stream, struct buffer *out, struct wire_exit *exit);
/* Like it for requests that end with DONE (0) or FAIL (its errno). */
int host_done(struct host *h, uint32_t stream, struct buffer *out);

#endif
