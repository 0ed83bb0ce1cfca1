/* SPDX-License-Identifier: Apache-2.0 - the processes of one exec, held together by a cgroup. */
#ifndef SEALMARK_AGENT_CGROUP_H
#define SEALMARK_AGENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Each exec has a cgroup (version 2) named exec-N below the root given. Where there is no such
 * hierarchy (unit tests, foreign kernels) number is 0 and the same calls work on the process tree
 * below the first process, see tree.h: weaker, as a tree can be raced, and without memory limits.
 */
struct cgroup {
	uint32_t number; /* 0: none, the tree of `main` is meant */
	pid_t main;      /* first process */
	bool alone;      /* no other exec runs: orphans are of this one */
	int procs_fd;    /* cgroup.procs: the first process enters here */
	int events_fd;   /* cgroup.events */
	int cpu_fd;      /* cpu.stat */
	int peak_fd;     /* memory.peak, -1 where the kernel has none */
	int memory_events_fd;
	int pids_events_fd;
	int memory_max_fd; /* memory.max and pids.max, for the one write of each */
	int pids_max_fd;
};

/* Made ahead and removed later, both while nothing else is to be done: each costs a millisecond
 * of a guest's time that nobody then waits for. */
#define CGROUP_DEAD_MOST 64
struct cgroup_pool {
	struct cgroup spare;
	uint32_t next;
	struct cgroup dead[CGROUP_DEAD_MOST]; /* still to be closed and removed */
	uint32_t dead_count;
};

void cgroup_pool_init(struct cgroup_pool *pool);
/* Housekeeping of an idle moment; true when it did something. */
bool cgroup_pool_tend(struct cgroup_pool *pool, int root);

/* A fresh cgroup, or number 0 when root is -1. 0 or negative errno. */
int cgroup_take(struct cgroup_pool *pool, int root, struct cgroup *out);
/* Limits of 0 mean none. The whole tree ends when it is out of memory. */
int cgroup_limit(const struct cgroup *cg, uint64_t memory_bytes, uint32_t processes);
/* Send a signal to every process of it. SIGKILL reaches those that are being forked too. */
void cgroup_signal(const struct cgroup *cg, int root, int signal);
/* Stop and resume the running of its processes; nothing where there is no cgroup. */
void cgroup_freeze(const struct cgroup *cg, int root, bool frozen);
/* No process lives in it. */
bool cgroup_is_empty(const struct cgroup *cg);
uint64_t cgroup_cpu_us(const struct cgroup *cg);
uint64_t cgroup_memory_peak(const struct cgroup *cg);
/* Processes killed for memory; refused forks. */
uint64_t cgroup_oom_kills(const struct cgroup *cg);
uint64_t cgroup_refused_forks(const struct cgroup *cg);
/* Done with it: it is closed and removed in an idle moment. */
void cgroup_drop(struct cgroup_pool *pool, struct cgroup *cg);

/* CPU time of the whole system since its start; 0 when unknown. */
uint64_t cgroup_total_cpu_us(int root);

#endif
