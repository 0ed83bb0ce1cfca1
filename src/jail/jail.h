/* SPDX-License-Identifier: Apache-2.0 - confinement of a machine process and of its monitor. */
#ifndef SEALMARK_JAIL_JAIL_H
#define SEALMARK_JAIL_JAIL_H

#include "base/error.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/*
 * Stages of a machine's confinement, in order: a user namespace owned by the monitor's uid, pid,
 * mount, net, ipc, uts and cgroup namespaces; a tiny pid 1 that waits (UML must not be pid 1) and
 * dies with the monitor; an empty read-only tmpfs root with only the plan's files and one
 * executable tmpfs /mem; rlimits; no capabilities, no_new_privs, not dumpable pid 1; the seccomp
 * list; exec. As root each sandbox has two host uids of a private range of its own (one for the
 * machine, one for the monitor), taken by slot; as an ordinary user both are that user.
 */

/* Sandboxes at once on a host, and the first uid of the private range (2 uids a slot). */
#define JAIL_SLOTS    4096
#define JAIL_UID_BASE 1879048192u

/* Can this process give out the private range? (Root; not so in a container that maps few ids.) */
bool jail_has_own_uids(void);

/* --- slots: numbers held by a locked file, free again when the holder (and every fork of it that
 * has lock_fd) is gone. Under home/slots; root's under /run/sealmark/slots, as uids are the host's
 * and not a home's. -EAGAIN when all are taken. --- */
int jail_slot_take(const char *home, int *slot, int *lock_fd, struct error *err);

/* --- cgroups: v2, or v1 controllers (memory, pids, cpu, cpuacct), whatever is usable --- */
struct jail_cgroup;
struct jail_cgroup_limits {
	uint64_t memory_bytes; /* 0: none */
	uint32_t processes;    /* 0: none */
};
/* Make sealmark/<id>, locked against sweeps as long as the caller or a fork of it has it open.
 * *out stays NULL with 0 when this host or user has no usable cgroup. */
int jail_cgroup_new(const char *id, const struct jail_cgroup_limits *limits,
	struct jail_cgroup **out, struct error *err);
/* Put the process (as seen from the caller) into it; before it forks. */
int jail_cgroup_enter(struct jail_cgroup *cg, pid_t pid, struct error *err);
/* open file descriptors stay usable after privileges are dropped */
int jail_cgroup_cpu_us(struct jail_cgroup *cg, uint64_t *out); /* -ENOTSUP when unknown */
int jail_cgroup_memory(struct jail_cgroup *cg, uint64_t *now, uint64_t *peak);
const char *jail_cgroup_kind(const struct jail_cgroup *cg); /* "cgroup-v2", "cgroup-v1" */
/* Kill all in it, wait for them, remove it (needs the rights it was made with); NULL is fine. */
void jail_cgroup_remove(struct jail_cgroup *cg);
void jail_cgroup_free(struct jail_cgroup *cg); /* close only */
/* Remove sealmark/<id> of ids that `alive(id)` denies and no living process has locked (so the
 * sandboxes of another home are safe); returns how many. */
int jail_cgroup_sweep(bool (*alive)(void *context, const char *id), void *context);
/* Is there a sealmark/<id>, whoever's it is? */
bool jail_cgroup_exists(const char *id);

/* --- the machine --- */
struct jail_spec {
	const struct engine_plan *plan;
	const struct engine_config *config;
	int slot;
	uid_t machine_uid, monitor_uid; /* equal when unprivileged */
	gid_t machine_gid, monitor_gid;
	const char *socket_path; /* vhost-user socket on the host, shown as socket_in_root */
	const char *socket_in_root;
	int channel_fd;             /* ENGINE_STREAM: becomes fd 3 */
	int console_fd;             /* becomes fd 1 and 2 (0 is /dev/null); -1: /dev/null too */
	struct jail_cgroup *cgroup; /* or NULL */
	int cpu;                    /* or -1 */
};
struct jail_machine {
	pid_t pid; /* the namespace's pid 1 as the caller sees it; wait for it */
	int pidfd;
	int life_fd; /* write end: when all copies are closed, the machine ends */
};
/*
 * Start; 0 when exec has happened (or ->run was entered), else the stage that failed is named.
 * Blocks for some milliseconds. The caller is the parent of out->pid and waits for it: it exits
 * with the machine's status (128 + signal; 137 after life_fd was closed; it may itself be killed),
 * and wait4(2)'s usage is that of everything which ran in the machine. It also dies with the
 * calling thread (PDEATHSIG). A dropped monitor may signal everything inside (its uid owns the user
 * namespace), but not code of ours (engine fake), which is not confined and keeps the caller's uid:
 * life_fd ends both.
 */
int jail_start(const struct jail_spec *spec, struct jail_machine *out, struct error *err);

/*
 * --- the monitor itself: drop to uid/gid, no capabilities, no forks; then the seccomp list: a
 * libuv loop on descriptors it has. No open, socket, connect, exec, fork, thread. Make the loop
 * before it (UV_USE_IO_URING=0), never use libuv's thread pool. A breach ends the process;
 * SEALMARK_SECCOMP_LOG=1 has the kernel log it instead (and records say so). Leak checking of
 * sanitizers forks: leave by _exit(2). ---
 */
int jail_monitor_drop(uid_t uid, gid_t gid, struct error *err);
int jail_monitor_seccomp(struct error *err);

/*
 * --- the connector of a monitor: the same uid and no rights either, but it looks names up and
 * makes connections, with threads. Its list refuses with EPERM instead of ending the process, since
 * the host's modules for names try this and that. Before the first thread is made. ---
 */
int jail_egress_drop(uid_t uid, gid_t gid, struct error *err);
int jail_egress_seccomp(struct error *err);

/* One line for records, as "userns seccomp cgroup-v1 own-uid"; what jail_start will give here. */
int jail_describe(bool privileged, const struct jail_cgroup *cg, char *out, size_t size);

/* What this host allows, for `sealmark doctor`. Each text is "" when fine, else what to do. */
struct jail_probe {
	bool user_namespaces, own_uids, cgroup, seccomp;
	char cgroup_kind[16];
	char user_namespaces_cure[240], own_uids_cure[240], cgroup_cure[240];
};
void jail_probe(struct jail_probe *out);

#endif
