/* SPDX-License-Identifier: Apache-2.0 - what the files of the jail share; for src/jail only. */
#ifndef SEALMARK_JAIL_JAIL_INTERNAL_H
#define SEALMARK_JAIL_JAIL_INTERNAL_H

#include "jail/jail.h"

#include <linux/filter.h>
#include <stdnoreturn.h>

#define JAIL_INSIDE_ID 1000 /* the machine's uid and gid as its namespace has them */
#define JAIL_FIRST_FD  10   /* descriptors made for the children lie at or above it */

/* --- seccomp.c: lists compiled before the fork, so that the children allocate nothing --- */
struct jail_filter {
	struct sock_filter *code; /* owned */
	unsigned short count;
};

int jail_filter_machine(struct jail_filter *out, struct error *err); /* the machine's process */
int jail_filter_init(struct jail_filter *out, struct error *err);    /* pid 1 */
void jail_filter_fini(struct jail_filter *f);
/* Put it on the calling process for good; needs no_new_privs. 0 or negative errno. */
int jail_filter_apply(const struct jail_filter *f);
/* SEALMARK_SECCOMP_LOG=1: what the lists forbid is logged by the kernel, not refused. */
bool jail_seccomp_only_logs(void);

/* --- drop.c --- */
/* Every capability set emptied (the bounding set where that is allowed), no_new_privs. Makes
 * system calls only. 0 or negative errno. */
int jail_drop_capabilities(void);

/* --- what the children work on; filled by start.c before the fork --- */
struct jail_job {
	const struct jail_spec *spec;
	bool confined; /* false: code of ours (engine fake), no namespaces and no lists */
	bool own_uids; /* root gives the machine and the monitor uids of their own */
	int control;   /* the children's end of a SOCK_SEQPACKET pair */
	int life;      /* read end: end of file means die */
	int null_fd, console_fd, channel_fd, program_fd;
	int tree_fds[ENGINE_BINDS + 1]; /* own_uids: detached mounts of what is to be shown */
	char *argv[ENGINE_ARGS + 1];
	struct jail_filter machine_filter, init_filter;
	char detail[160]; /* of the stage that failed: a path and the like */
};

/* What the children tell the parent over `control`, one packet each. */
enum jail_report_kind {
	JAIL_REPORT_WANT_PLACE = 1, /* the launcher has its user namespace; answer with one byte */
	JAIL_REPORT_INIT,           /* value: pid of pid 1 */
	JAIL_REPORT_EXEC,           /* the machine is about to exec */
	JAIL_REPORT_FAILED          /* value: negative errno; text: stage and detail */
};
struct jail_report {
	int kind;
	int value;
	char text[240];
};

/* --- stages.c: runs in the forked child, never returns --- */
noreturn void jail_launch(struct jail_job *job);

/* --- view.c: the file system the machine sees --- */
/* Own uids: a detached, restricted mount of a host path, taken with root's rights. fd or -errno. */
int jail_view_clone(const char *path, bool writable);
/* In pid 1, in a mount namespace of its own: build the new root and move into it. */
int jail_view_enter(struct jail_job *job);
/* i-th thing to show: the plan's binds and last the socket; false when there are no more. */
bool jail_view_item(const struct jail_spec *spec, unsigned i, const char **from, const char **to,
	bool *writable);

/* --- init.c: pid 1 of the machine's namespace, never returns --- */
noreturn void jail_init_run(pid_t machine, int life, const struct jail_filter *filter);

#endif
