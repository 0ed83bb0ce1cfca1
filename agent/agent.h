/* SPDX-License-Identifier: Apache-2.0 - the agent: PID 1 of the guest, its parts and their calls.
 */
#ifndef SEALMARK_AGENT_AGENT_H
#define SEALMARK_AGENT_AGENT_H

#include "cgroup.h"
#include "exec.h"
#include "link.h"
#include "tar.h"
#include "transfer.h"
#include "walk.h"
#include "watching.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * One thread, one epoll set, no allocation: every operation has a slot in a fixed table, every
 * buffer a fixed size. A turn of the loop reads events, takes frames from the link, lets each open
 * stream do one piece of work and sends what has piled up. No piece of work waits for anything: a
 * stream that lacks credit, room in the link or data is left alone until that changes, so a reader
 * that stalls holds up its own stream only.
 *
 * Trust: the host is believed but its frames are checked all the same (a breach ends the machine).
 * Everything in the guest is hostile: processes can signal, stall, fork and fill what they own, so
 * nothing here trusts a path twice, blocks on a pipe or waits for a process without a deadline.
 */

/* What a stream can say after a piece of work. */
enum progress {
	PROGRESS_IDLE, /* nothing to do until an event, a credit or a frame */
	PROGRESS_MORE, /* could go on at once */
	PROGRESS_ROOM  /* waits for room in the link */
};

struct agent;
struct stream;

/* One kind of operation. Calls may end the stream (stream_done and the like). */
struct stream_class {
	const char *name;
	/* bytes on channel 0; the callee reports them consumed, now or later */
	void (*data)(struct agent *a, struct stream *s, const uint8_t *bytes, size_t count);
	/* END on channel 0 */
	void (*end)(struct agent *a, struct stream *s);
	/* KILL from the host; NULL: fail with ECANCELED */
	void (*kill)(struct agent *a, struct stream *s, uint32_t reason);
	enum progress (*work)(struct agent *a, struct stream *s);
	/* give back what it holds; the stream is over */
	void (*release)(struct agent *a, struct stream *s);
};

struct stream {
	const struct stream_class *class; /* NULL: free */
	uint32_t id;
	uint32_t generation;            /* tells events of this use from those of an earlier one */
	uint32_t credit[WIRE_CHANNELS]; /* bytes the host will still take */
	uint32_t window;                /* bytes the host may still send on channel 0 */
	uint32_t consumed;              /* of those received, not yet given back */
	bool ended;                     /* the host closed channel 0 */
	bool busy;                      /* has work */
	uint32_t uid, gid;
	union {
		struct exec exec;
		struct incoming incoming;
		struct outgoing outgoing;
		struct listing listing;
		struct removal removal;
		struct unpacking unpacking;
		struct packing packing;
		struct watching watching;
	} u;
};

struct agent {
	struct link link;
	struct stream streams[WIRE_STREAMS_MAX];
	uint32_t slots_used; /* streams beyond were never used */
	uint32_t turn;       /* where the round of work starts */
	int epoll_fd;
	int signal_fd;
	int null_fd;
	int disk_fd;   /* the writable layer, -1 without one */
	int cgroup_fd; /* root of the cgroup hierarchy, -1 where there is none */
	bool is_guest; /* PID 1 of a machine: its end is power-off */
	bool stop;
	uint64_t now_us;      /* agent_now_us() of this turn's events */
	uint64_t deadline_us; /* earliest thing to look at, for this turn */
	struct cgroup_pool cgroups;
};

/* main.c and loop.c: serve on fd until the channel ends; 0, or -EPROTO after a breach. */
int agent_serve(struct agent *a, int fd);
void agent_init(struct agent *a);

/* What an event belongs to: the link, the signals, or a stream's descriptor. */
#define EVENT_LINK   1u
#define EVENT_SIGNAL 2u
#define EVENT_STREAM 3u
#define EVENT_EGRESS 0x40u
/* Watch fd as descriptor number `which` of the stream; again: after an event of EPOLLONESHOT. */
int agent_watch(struct agent *a, struct stream *s, int fd, uint32_t events, unsigned which);
int agent_watch_again(struct agent *a, struct stream *s, int fd, uint32_t events, unsigned which);
/* Be called again at `at_us` at the latest. */
void agent_wake_at(struct agent *a, uint64_t at_us);
/* CLOCK_MONOTONIC in microseconds. */
uint64_t agent_now_us(void);
/* Bytes and files left in the writable layer: true when either is used up. */
bool agent_disk_full(const struct agent *a);

/* boot.c: from the first instruction to the connected channel. Returns its fd, never fails
 * quietly: what goes wrong is said on the console and ends the machine. */
int boot_machine(struct agent *a);
_Noreturn void boot_power_off(const char *why);

/* stream.c: the table of streams and what every stream may send. */
struct stream *stream_find(struct agent *a, uint32_t id);
struct stream *stream_open(struct agent *a, uint32_t id);
/* Attach the operation; until then a request may only be answered. */
void stream_start(struct stream *s, const struct stream_class *class);
/* Final messages; the stream is free afterwards. */
void stream_done(struct agent *a, struct stream *s);
void stream_fail(struct agent *a, struct stream *s, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void stream_final(struct agent *a, struct stream *s, int frame_size);
/* Room for a frame of control, always there within a piece of work. */
uint8_t *stream_frame(struct agent *a);
void stream_commit(struct agent *a, int frame_size);
/* Begin DATA of at most `most` bytes on a channel: where to put them and in *count how many fit;
 * NULL with count 0 for lack of credit, NULL with count > 0 for lack of room. */
uint8_t *stream_data_begin(
	struct agent *a, struct stream *s, unsigned channel, size_t most, size_t *count);
void stream_data_end(struct agent *a, struct stream *s, unsigned channel, size_t count);
void stream_channel_end(struct agent *a, struct stream *s, unsigned channel);
/* Bytes of channel 0 were used up: the host may send as many again. */
void stream_consumed(struct agent *a, struct stream *s, size_t count);

/* request.c: one frame from the host. 0 or -EPROTO. */
int request_take(struct agent *a, const struct wire_frame *frame);

/* system.c: requests about the machine as a whole. */
void system_stats(struct agent *a, struct stream *s);
void system_clock(const struct wire_clock *m);
void system_entropy(const struct wire_entropy *m);

#endif
