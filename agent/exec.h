/* SPDX-License-Identifier: Apache-2.0 - running one program: its state and what moves it. */
#ifndef SEALMARK_AGENT_EXEC_H
#define SEALMARK_AGENT_EXEC_H

#include "cgroup.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct agent;
struct stream;

/*
 * RUNNING until the first process has ended, ENDING until nothing of its tree lives, DRAINING until
 * its pipes are empty and sent, then EXIT. What kills an exec (limits, the host) only kills: the
 * end is then met like any other.
 */
enum exec_state { EXEC_RUNNING = 0, EXEC_ENDING, EXEC_DRAINING, EXEC_OVER };

struct exec {
	enum exec_state state;
	pid_t pid;
	struct cgroup cgroup;
	uint32_t flags;      /* WIRE_EXEC_… */
	uint32_t exit_flags; /* WIRE_EXIT_… so far */
	int fds[WIRE_CHANNELS];
	bool ready[WIRE_CHANNELS];            /* there may be something to read, or room to write */
	uint64_t listen_at_us[WIRE_CHANNELS]; /* when to ask for its next event */
	uint64_t limit[WIRE_CHANNELS];
	uint64_t seen[WIRE_CHANNELS];

	bool reaped, killed, gave_up;
	int status; /* of waitpid */
	enum wire_ending reason;
	uint32_t reason_status;
	bool abandoned; /* cancelled: the host may no longer read */

	uint64_t cpu_limit_us;
	uint64_t started_us, ended_us;
	uint64_t wall_at_us, cpu_at_us, tick_at_us, give_up_at_us;
	uint64_t rusage_cpu_us, rusage_peak;

	/* standard input that the process has not taken yet: a ring, made when first needed */
	uint8_t *ring;
	uint32_t ring_start, ring_used;
};

void exec_begin(struct agent *a, struct stream *s, const struct wire_exec *m);
/* SIGNAL from the host: 0 or -EPROTO. */
int exec_signal(struct agent *a, struct stream *s, uint32_t signal);
/* RESIZE from the host, for one that may have no terminal or be over. */
void exec_resize(struct stream *s, uint32_t cols, uint32_t rows);
/* One of its descriptors has an event. */
void exec_event(struct stream *s, unsigned which);
/* A child was reaped; true when it was this exec's first process. */
bool exec_reaped(
	struct agent *a, struct stream *s, pid_t pid, int status, const struct rusage *usage);
/* Look at the clock: limits, ticks, patience. Asks to be woken for the next of them. */
void exec_times(struct agent *a, struct stream *s);

/* --- terminal.c --- */

/* Our end into e->fds (output, and input if asked for), the other three times into *theirs. */
int terminal_open(struct exec *e, const struct wire_exec *m, int *theirs);
int terminal_resize(int fd, uint32_t cols, uint32_t rows);
/* The end of its input. */
void terminal_end(int fd);

/* --- exec_child.c: between clone and exec --- */

enum child_stage {
	CHILD_STARTED = 0,
	CHILD_SESSION,
	CHILD_CGROUP,
	CHILD_FILES,
	CHILD_LIMITS,
	CHILD_IDENTITY,
	CHILD_DIRECTORY,
	CHILD_PROGRAM
};

struct child {
	const struct wire_exec *request;
	char *const *argv;
	char *const *env;
	int fds[WIRE_CHANNELS]; /* to become 0..3; -1: none */
	int cgroup_procs;       /* -1: none */
	uint64_t stack_bytes;
	/* filled by the child */
	enum child_stage stage;
	int error;
};

/* Start it: the pid, with CHILD_STARTED once the program runs, else the stage that failed and why
 * (the process is gone by then, not yet reaped). Negative errno when there is no process. */
pid_t child_start(struct child *c);
/* Once, at boot: empty the bounding set, which is forty system calls, for all who come after. */
int child_capabilities(void);
const char *child_stage_name(enum child_stage stage);

#endif
