/* SPDX-License-Identifier: Apache-2.0 - processes: commands that the monitor itself looks after. */
#ifndef SEALMARK_MONITOR_PROCESS_H
#define SEALMARK_MONITOR_PROCESS_H

#include "base/buffer.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <uv.h>

/*
 * Theory of operation
 *
 * An EXEC belongs to the client that asked for it, and ends with it. A process belongs to the
 * monitor: its stream towards the guest has no client, its output is kept here, and any client asks
 * for it by its id. So it outlives the server that started it.
 *
 * Output is kept as records of one channel each, in the order in which they came; a cursor is an
 * offset into all its output. Beyond PROCESS_OUTPUT the oldest records are dropped, and whoever
 * asks for them sees by the offsets that they are gone. A process that is held (WIRE_SPAWN_HOLD) is
 * different as long as its spawner's connection lasts: the guest is given credit only for what that
 * client has asked beyond, so that nothing is lost and the program waits for its reader.
 *
 * A WATCH is kept in the same way: its records are its output.
 *
 * Everything here is bounded: processes, their output, their input, each and together. An ended one
 * is remembered until its place is wanted.
 */
#define PROCESSES_RUNNING 48u  /* leaves streams for commands and files */
#define PROCESSES_MOST    128u /* with those that have ended */
#define PROCESS_ID        48u
#define PROCESS_ABOUT     8192u

#define PROCESS_OUTPUT   (1u << 20)  /* kept of one */
#define PROCESS_HELD     (6u << 20)  /* of a held one: two windows, in the shortest records */
#define PROCESSES_OUTPUT (16u << 20) /* of all */
#define PROCESS_INPUT    (2u << 20)  /* waiting for the guest */
#define PROCESSES_INPUT  (8u << 20)

struct client;
struct monitor;
struct stream;

struct process {
	char id[PROCESS_ID];
	char *about;
	struct stream *stream; /* NULL once it has ended */
	bool watch;            /* a WATCH, not an EXEC */
	enum wire_process_state state;
	struct client *holder;   /* or NULL */
	struct client *spawner;  /* waits for its start, or NULL */
	uint32_t spawner_stream; /* of that client */
	uint32_t pid, cols, rows;
	struct wire_exit end;
	int64_t started_ms, ended_ms; /* wall clock */

	struct buffer output;         /* records */
	uint64_t first, next;         /* offsets of the oldest byte kept and of the one to come */
	uint32_t last_count;          /* bytes of the newest record; 0: it takes no more */
	uint32_t last_channel;        /* its channel */
	uint64_t acked;               /* the holder has what is before */
	uint32_t owed[WIRE_CHANNELS]; /* consumed, credit not given back yet */

	struct buffer input; /* waiting for credit */
	bool input_open, input_ends;
	uint64_t input_bytes; /* taken from clients, all told */
};

struct processes {
	struct process *list[PROCESSES_MOST]; /* the oldest first; NULL at the end */
	size_t count, running;
	size_t output_bytes, input_bytes; /* in all buffers */
	uv_timer_t waits;
};

/* What a client waits for on MON_OUTPUT. */
struct process_wait {
	struct process *process; /* NULL: nothing */
	uint32_t stream, most;
	uint64_t cursor;
	int64_t until_ms;
};

/* process_request.c: a MON_… message about processes. 0 or -EPROTO. */
int process_request(struct client *c, const struct wire_frame *f, const char **why);
void process_client_gone(struct client *c);
/* There is room towards the guest: input that waits goes on. */
void process_resume_all(struct monitor *m);
void processes_close(struct monitor *m);
/* Somebody may wait for what has come. */
void process_tell(struct monitor *m, struct process *p);
/* Its start is over, well or not (`failure`: FAIL of the guest, or NULL). */
void process_begun(struct monitor *m, struct process *p, const struct wire_fail *failure);

/* process.c: what the guest has said on its stream, already checked. */
void process_from_guest(struct monitor *m, struct stream *s, const struct wire_frame *f);
struct process *process_find(struct monitor *m, const char *id);
/* NULL: no place, or no memory. The stream is the caller's to open. */
struct process *process_new(struct monitor *m, const char *id, const char *about);
void process_free(struct monitor *m, struct process *p);
/* Send records from `cursor` on; returns the offset after them. */
uint64_t process_pieces(
	struct client *c, uint32_t stream, const struct process *p, uint64_t cursor, uint32_t most);
/* The holder has read up to `cursor`, or (UINT64_MAX) nobody holds it any more. */
void process_acked(struct monitor *m, struct process *p, uint64_t cursor);
size_t process_input_room(const struct monitor *m, const struct process *p);
/* Take input, as much as there is room for; returns how much. */
size_t process_input(struct monitor *m, struct process *p, const void *bytes, size_t count);
/* Move waiting input, and its end, to the guest. */
void process_pump(struct monitor *m, struct process *p);

#endif
