/* SPDX-License-Identifier: Apache-2.0 - the connection to a monitor, shared by the sandbox files.
 */
#ifndef SEALMARK_SANDBOX_INTERNAL_H
#define SEALMARK_SANDBOX_INTERNAL_H

#include "sandbox/sandbox.h"

#include <sys/types.h>

struct sandbox {
	int fd;       /* -1 once it is over */
	pid_t keeper; /* 0 once reaped; never with a detached one, which nobody reaps */
	bool ready;
	bool over;
	uint32_t next_stream;
	int64_t patience_ms;
	struct buffer in, out;
	struct sandbox_info info;
	struct sandbox_end end;
};

/* The monitor's own watchdogs come long before; also on a host that has no time for it for a while,
 * so that nobody takes a monitor for lost that is about to say what was wrong. */
#define ANSWER_MS(s) (4 * (s)->patience_ms + 20000)

/* One request and the frames that belong to it. */
struct operation {
	struct sandbox *sandbox;
	uint32_t stream;
	uint64_t input_credit;   /* bytes that may still be sent on WIRE_STDIN */
	bool open;               /* the request was sent */
	bool final;              /* its last frame has come */
	int64_t answer_ms;       /* no wait for the monitor is longer than this; -1: no limit */
	struct wire_frame frame; /* the frame that op_next() found; valid until the next call */
};

/* A stream of its own for a request, which is then encoded with it and sent by op_request(). */
void op_begin(struct sandbox *s, struct operation *op);
int op_request(struct operation *op, const uint8_t *frame, int size, struct error *err);
/* Send a whole encoded frame (waits for room). */
int op_send(struct operation *op, const uint8_t *frame, size_t size, struct error *err);
/* Send input bytes as the guest takes them (waits for credit). -EPIPE when it ended before that:
 * op->frame is then its last frame. */
int op_input(struct operation *op, const void *bytes, size_t count, struct error *err);
/* Send at most op->input_credit input bytes without looking at answers. */
int op_push(struct operation *op, const uint8_t *bytes, size_t count, struct error *err);
int op_input_end(struct operation *op, struct error *err);
/* Wait for the next frame of this operation; CREDIT for input is taken in here. FAIL becomes an
 * error: its errno and message. */
int op_next(struct operation *op, struct error *err);
/* As op_next(), waiting at most until the deadline (clock_ms; then -ETIMEDOUT as from a monitor
 * that is given up) and while cancel_fd (-1: none) is not readable (-EINTR). */
int op_next_until(struct operation *op, int64_t deadline_ms, int cancel_fd, struct error *err);
/* Read and handle what is there without waiting; used between polls. 1: a frame is in op->frame,
 * 0: none now. */
int op_poll(struct operation *op, struct error *err);
/* Return credit for `bytes` on a channel. */
int op_credit(struct operation *op, enum wire_channel channel, size_t bytes, struct error *err);
/* Turn a FAIL frame into an error. */
int op_failure(const struct wire_frame *f, struct error *err);
/* The monitor has not answered in time: it is given up. -ENODEV. */
int op_too_late(struct operation *op, struct error *err);
/* After input, sent with result r: end it and wait for DONE, or find out why the guest said no
 * before; with `path` before the message. */
int op_conclude(struct operation *op, int r, const char *path, struct error *err);
/* Give up what is under way, if anything is: KILL, and wait for the last frame. */
void op_cancel(struct operation *op);

/* exec.c: an EXEC frame; its size, or an error. */
int exec_encode(const struct exec_spec *spec, uint32_t stream, bool input, uint8_t *frame,
	size_t size, struct error *err);

/* process.c: the answer of a request that was sent: MON_PROCESS, DONE. */
int process_take_answer(struct operation *op, struct sandbox_process *out, struct error *err);

/* Move bytes of s->out to the socket without waiting; 0 or -ENODEV. */
int connection_flush(struct sandbox *s, struct error *err);
/* Read what is there without waiting. */
int connection_fill(struct sandbox *s, struct error *err);
/* Note that it is over; fills end when nothing better is known. Returns -ENODEV with a message. */
int connection_over(struct sandbox *s, struct error *err);
/* Wait until stream 0 says MON_READY or it is over, or the deadline (clock_ms). */
int connection_ready(struct sandbox *s, int64_t deadline_ms, struct error *err);
/* What a MON_STOPPED frame says; -EPROTO when it is none. */
int connection_end(const struct wire_frame *f, struct sandbox_end *end);
/* Wait for MON_STOPPED or the end of the connection. */
void connection_drain(struct sandbox *s, int64_t deadline_ms);

#endif
