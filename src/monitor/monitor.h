/* SPDX-License-Identifier: Apache-2.0 - the monitor proper: what its files share. */
#ifndef SEALMARK_MONITOR_MONITOR_H
#define SEALMARK_MONITOR_MONITOR_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "jail/jail.h"
#include "monitor/config.h"
#include "monitor/process.h"
#include "monitor/vsock.h"
#include "wire/wire.h"

#include <uv.h>

/*
 * Theory of operation
 *
 * sealmark-monitor is two processes. The keeper (main.c) has the creator's rights and reads
 * nothing hostile: it takes a slot, makes the directory, the cgroup and the sockets, starts the
 * machine in its jail and forks the monitor proper; then it only waits, reports the machine's end
 * to the monitor, and cleans up whatever way the others end. The monitor proper (this file's
 * structures; loop.c) drops to a uid of its own and a seccomp list, and is one libuv loop that
 * carries frames between clients and the guest's agent:
 *
 *	client ── frames ──> client.c ──> stream.c ──> guest.c ── vsock ──> agent
 *	       <── frames ──           <── stream.c <──
 *
 * Clients number their streams as they like; stream.c gives each a number of its own towards the
 * guest, checks direction, shape and credit of every frame of either side, and applies what the
 * guest cannot be trusted with: CPU limits by the host's measure and a watchdog on wall limits.
 * Processes (process.h) are commands whose stream is the monitor's own.
 */
#define MONITOR_CLIENTS 64
#define MONITOR_BACKLOG (4u << 20) /* bytes waiting for a client before the guest is held back */
/* Bytes waiting for the guest before clients are held back: more than credit allows to a few
 * streams, so that a KILL or MON_STOP is heard even when the guest reads nothing. */
#define MONITOR_INPUT   (4u << 20)

enum monitor_state { MONITOR_BOOTING, MONITOR_RUNNING, MONITOR_STOPPING, MONITOR_STOPPED };

struct monitor;
struct stream_shape;
struct egress;

struct client {
	struct monitor *monitor;
	uv_poll_t poll;
	int fd;     /* -1: free place */
	bool owner; /* the sandbox ends with it */
	int events; /* what poll waits for */
	struct buffer in, out;
	uint32_t pauses, wakes; /* streams on which it waits for that; 0: none */
	struct process_wait wait;
};

struct stream {
	bool used;
	uint32_t id;             /* towards the guest */
	uint32_t client_id;      /* towards the client */
	struct client *client;   /* NULL: its client went away; the guest's answers are dropped */
	struct process *process; /* instead of a client, or NULL */
	uint16_t type;           /* the request */
	const struct stream_shape *shape; /* what may be said on it */
	bool input;                       /* the guest takes DATA */
	uint64_t credit[WIRE_CHANNELS];   /* bytes the sender may still send; STDIN: the client */
	bool ended[WIRE_CHANNELS];
	bool killed, abandoned; /* KILL was sent; and nobody waits for its output */
	int64_t watchdog_ms;    /* by then it must have ended, or something happened on it */
	/* EXEC */
	bool started;
	bool alone; /* the only exec so far: the host's measure is its own */
	uint64_t cpu_start_us, cpu_limit_us;
	int64_t wall_ms; /* its wall limit, where it is kept here */
};

/* The byte channel to the agent: vsock, or an inherited stream socket. */
struct guest {
	struct monitor *monitor;
	uv_poll_t poll;
	uv_idle_t more; /* there is something to do when the others had their turn */
	int events;
	struct vsock *vsock; /* or NULL */
	int fd;              /* stream socket, or -1 */
	struct buffer in;    /* stream socket only */
	struct buffer out;   /* waiting for room */
	uint8_t *frame;      /* WIRE_FRAME_MAX bytes: one frame in one piece */
	bool deaf;           /* takes nothing any more; what it has said is still read */
	bool gone;
	bool breach;
	char fault[200];
};

struct console {
	uv_poll_t poll;
	uv_timer_t pause;
	int fd;
	uint64_t total_bytes;
	size_t kept; /* bytes in tail */
	uint8_t tail[4096];
};

/* The machine is stopped, or about to be: pause.c. */
enum pause_state { PAUSE_NONE, PAUSE_STOPPING, PAUSE_STOPPED, PAUSE_RESUMING };
struct pausing {
	enum pause_state state;
	bool turn;         /* the other way, once the keeper has answered */
	bool at_lease_end; /* what led to it */
	int64_t since_ms, total_ms;
	int64_t lease_ms;  /* the one after it; 0: of the rules */
	int64_t ends_ms;   /* of the lease or of the pause, whichever runs: clock_ms() */
	int64_t active_ms; /* when something was last asked for, or ended */
	struct wire_mon_rules rules;
	uv_timer_t idle;
};

#define METRICS_MOST      1440
#define METRICS_FINE_MS   10000
#define METRICS_COARSE_MS 60000
struct metrics_ring {
	struct wire_sample samples[METRICS_MOST];
	size_t next, count;
};
struct metrics {
	uv_timer_t timer;
	uint64_t ticks;
	struct metrics_ring fine, coarse;
};

struct monitor {
	const struct monitor_config *config;
	uv_loop_t loop;
	enum monitor_state state;
	enum sandbox_stop_reason reason;
	char detail[WIRE_REASON_MAX + 1];
	char isolation[160];
	char kernel[80];
	const char *engine;
	int64_t started_us, boot_us;

	struct jail_cgroup *cgroup; /* or NULL */
	int machine_pidfd, life_fd;
	uint64_t memory_peak_bytes;
	uint64_t cpu_final_us;  /* from the keeper, once the machine has ended */
	uint64_t cpu_before_us; /* used before it was handed over */
	bool machine_ended;

	int keeper_fd;
	uv_poll_t keeper_poll;
	int listen_fd;
	uv_poll_t listen_poll;
	uv_timer_t lease, tick, settle;

	struct pausing pausing;
	struct metrics metrics;

	struct guest guest;
	struct egress *egress; /* NULL: never a network */
	struct console console;
	struct client clients[MONITOR_CLIENTS];
	struct stream streams[WIRE_STREAMS_MAX];
	struct processes processes;
	uint32_t next_stream;
	unsigned execs;
	int64_t heard_ms; /* when the guest last said anything */
	bool pinged;      /* it was asked for a sign of life */
};

/* What the keeper hands over: every descriptor is the monitor's from then on. */
struct monitor_parts {
	const struct monitor_config *config;
	const char *engine, *isolation;
	int owner_fd, listen_fd, console_fd, keeper_fd, machine_pidfd, life_fd;
	int egress_fd; /* to the connector, or -1 */
	struct vsock *vsock;
	int stream_fd;
	struct jail_cgroup *cgroup;
	int64_t started_us;
};

struct monitor_usage {
	uint64_t cpu_us, memory_bytes, memory_peak_bytes;
	uint64_t wall_us; /* without its pauses */
};

/*
 * The monitor gives the keeper orders, and at last, when it is detached, the frame of its
 * MON_STOPPED, which the keeper leaves in $SEALMARK_HOME/ended. Pause and resume are answered.
 */
enum keeper_order_kind { KEEPER_END = 1, KEEPER_PAUSE, KEEPER_RESUME };
struct keeper_order {
	int32_t kind, unused;
	int64_t for_ms; /* how long it will be paused at most */
};
struct keeper_answer {
	int32_t kind, result; /* 0 or negative errno */
};
/* What the keeper tells once the machine's process has ended. */
#define MONITOR_LAST_WORD 8192
struct keeper_note {
	int32_t status; /* as wait(2) */
	int32_t unused;
	uint64_t cpu_us, memory_peak_bytes;
};

/* loop.c: run until everything is over; fails when it cannot begin. */
int monitor_run(const struct monitor_parts *parts, struct error *err);
/* Begin to stop (first reason wins). */
void monitor_stop(struct monitor *m, enum sandbox_stop_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The channel has ended: the keeper will say why, or it is given up soon. */
void monitor_channel_lost(struct monitor *m);
/* The agent has said hello: tell the clients. */
void monitor_ready(struct monitor *m, const struct wire_str *kernel);
/* The lease ends `lease_ms` from now. */
void monitor_lease(struct monitor *m, int64_t lease_ms);
void monitor_order(struct monitor *m, enum keeper_order_kind kind, int64_t for_ms);
void monitor_usage(struct monitor *m, struct monitor_usage *out);
/* How long its machine was paused in all. */
int64_t monitor_paused_ms(const struct monitor *m);
void monitor_schedule_tick(struct monitor *m);
void monitor_close_when_drained(struct monitor *m);

/* pause.c */
void pause_init(struct monitor *m);
void pause_close(struct monitor *m);
/* Something is asked of the guest: true when it can go there, if need be because it wakes. */
bool pause_let(struct monitor *m);
/* Something was asked for, or has ended. */
void pause_active(struct monitor *m);
/* A client's message; *why when it broke the protocol. */
int pause_message(struct client *c, const struct wire_frame *f, const char **why);
/* The lease is over, or the time that it may be paused. */
void pause_lease_over(struct monitor *m);
void pause_answered(struct monitor *m, const struct keeper_answer *answer);

/* metrics.c */
int metrics_start(struct monitor *m);
void metrics_begin(struct monitor *m); /* it was handed over: what was before is forgotten */
void metrics_answer(struct client *c, uint32_t stream, bool coarse);

/* pause_word.c: the keeper's */
int pause_word_leave(const char *home, const char *id, int64_t for_ms, struct error *err);
void pause_word_take_back(const char *home, const char *id);

/* guest.c */
int guest_start(struct guest *g, struct monitor *m, struct vsock *vsock, int fd);
void guest_send(struct guest *g, const uint8_t *frame, size_t size); /* whole frames only */
bool guest_congested(const struct guest *g);
void guest_read(struct guest *g); /* handle frames that wait, as far as clients take them */
void guest_read_soon(struct guest *g);
void guest_read_last(struct guest *g); /* the machine has ended: all that it said before */
void guest_close(struct guest *g);

/* client.c */
void client_init(struct monitor *m);
struct client *client_add(struct monitor *m, int fd, bool owner); /* NULL: no place for it */
void client_send(struct client *c, const uint8_t *bytes, size_t size);
void client_resume_all(struct monitor *m); /* there is room towards the guest again */
bool client_congested(const struct monitor *m);
bool client_drained(const struct monitor *m);
void client_close(struct client *c);
void client_broadcast(struct monitor *m, const uint8_t *bytes, size_t size);

/* stream.c: 0, or -EPROTO when the sender broke the protocol (reason logged in *why) */
int stream_from_client(
	struct client *c, const struct wire_frame *f, const uint8_t *bytes, const char **why);
int stream_from_guest(
	struct monitor *m, const struct wire_frame *f, uint8_t *bytes, const char **why);
void stream_client_gone(struct client *c);
/* NULL: all places are taken. c NULL: the monitor's own. */
struct stream *stream_open(struct monitor *m, uint16_t type, struct client *c, uint32_t client_id);
void stream_kill(struct monitor *m, struct stream *s, uint32_t reason);
bool stream_any(const struct monitor *m); /* is anything of clients under way? */
void stream_answer_fail(struct client *c, uint32_t stream, uint32_t error, const char *message);
bool stream_says(const struct stream *s, unsigned channel); /* may it carry output there? */

/* limits.c */
/* An exec begins; takes from the encoded request what is enforced here. */
void limits_begin(struct monitor *m, struct stream *s, const struct wire_exec *e, uint8_t *bytes);
/* A stream has ended; an EXIT (or NULL) is told the host's measure. */
void limits_end(struct monitor *m, const struct stream *s, uint8_t *exit_frame);
void limits_progress(struct monitor *m, struct stream *s); /* something was said on it */
void limits_killed(struct monitor *m, struct stream *s, uint32_t reason); /* KILL was sent */
/* Time has passed that does not count. */
void limits_shift(struct monitor *m, int64_t ms);
/* Limits and watchdogs that are due; returns when to look again, CLOCK_NEVER if never. */
int64_t limits_tick(struct monitor *m);

/* console.c */
int console_start(struct console *c, struct monitor *m, int fd);
void console_text(const struct console *c, char *out, size_t size);
void console_close(struct console *c);

#endif
