/* SPDX-License-Identifier: Apache-2.0 - between clone and exec: from the agent to a student's
 * process. */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * The child shares the agent's memory until it execs (CLONE_VM), and the agent waits for that
 * (CLONE_VFORK): no address space is copied, which is the dearest part of a fork in a UML guest,
 * and a failure is reported by writing it where the agent will look. So this code only makes
 * system calls, on a stack of its own, and ends with exec or _exit.
 *
 * While it shares memory it is already the student's uid for a few instructions. That is safe
 * because a process whose ids have changed is not dumpable: nobody of that uid may trace it or read
 * its memory. It could be stopped by a signal, and the agent with it, so exec.c freezes the other
 * execs meanwhile.
 *
 * Order matters: the cgroup comes before anything that can fail late, so that nothing ever runs
 * outside; limits need root and come before the ids; the directory and the program are looked up
 * with the student's own rights.
 */

#define STACK_SIZE 32768u
static char stack[STACK_SIZE] __attribute__((aligned(16)));

/* Sanitizers know nothing of this stack. */
#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

/* From linux/capability.h, which musl's headers do not have. */
struct capability_header {
	uint32_t version;
	int pid;
};
struct capability_data {
	uint32_t effective, permitted, inheritable;
};
#define CAPABILITY_VERSION_3 0x20080522u
#define CAPABILITY_LAST      63
#define CLOSE_ON_EXEC_RANGE  4u

NO_SANITIZE static int place_files(const struct child *c)
{
	unsigned used = 3;

	/* all sources are above 3, see the agent's start */
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		if (c->fds[i] < 0)
			continue;
		if (dup2(c->fds[i], i) < 0)
			return -errno;
		if (i == 3)
			used = 4;
	}
	if (c->request->flags & WIRE_EXEC_TERMINAL && ioctl(0, TIOCSCTTY, 0))
		return -errno;
	/* All of the agent's own are close-on-exec already; this holds even if one is forgotten. */
	syscall(SYS_close_range, used, ~0u, CLOSE_ON_EXEC_RANGE);
	return 0;
}

/*
 * The stack may grow to the memory limit (recursion is bounded by memory, not by a habit of 8 MiB).
 * Not "unlimited": that would switch to the legacy memory layout, and threads take the limit for
 * their own size; a number only reserves address space, of which there is plenty.
 */
NO_SANITIZE static int set_limits(const struct child *c)
{
	const struct rlimit stack_limit = {c->stack_bytes, c->stack_bytes};
	const struct rlimit files = {1024, 4096};
	const struct rlimit size = {c->request->file_bytes, c->request->file_bytes};

	if (setrlimit(RLIMIT_STACK, &stack_limit) || setrlimit(RLIMIT_NOFILE, &files) ||
		(c->request->file_bytes && setrlimit(RLIMIT_FSIZE, &size)))
		return -errno;
	return 0;
}

NO_SANITIZE static int drop_capabilities(void)
{
	struct capability_header header = {CAPABILITY_VERSION_3, 0};
	struct capability_data none[2] = {{0}, {0}};

	return syscall(SYS_capset, &header, none) ? -errno : 0;
}

/*
 * The agent's bounding set is empty and its inheritable set full, see child_capabilities(): what
 * clears the latter has nothing left for ever, and what keeps it may have it all as root (who is
 * given the inheritable set at exec): the privileged, and setuid programs where they are allowed.
 */
/*
 * A privileged program may divide its own cgroup: it sees the hierarchy writable, in a mount
 * namespace of its own, so that everybody else's view stays read only. Where there is none to
 * see, it finds out by itself.
 */
NO_SANITIZE static void open_cgroups(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return;
	mount(NULL, "/sys/fs/cgroup", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		NULL);
}

NO_SANITIZE static int set_identity(const struct child *c)
{
	const struct wire_exec *m = c->request;
	int r;

	if (setresgid(m->gid, m->gid, m->gid) || setresuid(m->uid, m->uid, m->uid))
		return -errno;
	if (!(m->flags & (WIRE_EXEC_PRIVILEGED | WIRE_EXEC_NEW_PRIVS))) {
		r = drop_capabilities();
		if (r)
			return r;
	}
	if (!(m->flags & WIRE_EXEC_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return 0;
}

int child_capabilities(void)
{
	struct capability_header header = {CAPABILITY_VERSION_3, 0};
	struct capability_data all[2];

	if (syscall(SYS_capget, &header, all))
		return -errno;
	for (int i = 0; i < 2; i++)
		all[i].inheritable = all[i].permitted;
	if (syscall(SYS_capset, &header, all))
		return -errno;
	for (int cap = 0; cap <= CAPABILITY_LAST; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			return errno == EINVAL ? 0 : -errno;
	return 0;
}

NO_SANITIZE static const char *find_path(char *const *env)
{
	for (; *env; env++)
		if (!strncmp(*env, "PATH=", 5))
			return *env + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

/* As execvp, with the PATH of the new environment; no shell is tried. Returns only on failure. */
NO_SANITIZE static int run_program(const struct child *c)
{
	const char *name = c->argv[0], *dir, *end;
	size_t name_length = strlen(name), length;
	char path[WIRE_PATH_MAX];
	int error = -ENOENT;

	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		execve(name, c->argv, c->env);
		return -errno;
	}
	for (dir = find_path(c->env);; dir = end + 1) {
		end = strchr(dir, ':');
		length = end ? (size_t)(end - dir) : strlen(dir);
		if (length + name_length + 2 <= sizeof(path)) {
			memcpy(path, dir, length);
			if (length)
				path[length++] = '/';
			memcpy(path + length, name, name_length + 1);
			execve(path, c->argv, c->env);
			/* "not there" goes on; a real reason is kept, and most end the search */
			if (errno != ENOENT && errno != ENOTDIR)
				error = -errno;
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				return error;
		}
		if (!end)
			return error;
	}
}

NO_SANITIZE static int run_stages(struct child *c)
{
	sigset_t none;
	int r;

	c->stage = CHILD_SESSION;
	sigemptyset(&none);
	if (setsid() < 0 || sigprocmask(SIG_SETMASK, &none, NULL))
		return -errno;
	c->stage = CHILD_CGROUP;
	if (c->cgroup_procs >= 0 && write(c->cgroup_procs, "0", 1) != 1)
		return -errno;
	if (c->request->flags & WIRE_EXEC_PRIVILEGED)
		open_cgroups();
	c->stage = CHILD_FILES;
	r = place_files(c);
	if (r)
		return r;
	c->stage = CHILD_LIMITS;
	r = set_limits(c);
	if (r)
		return r;
	c->stage = CHILD_IDENTITY;
	r = set_identity(c);
	if (r)
		return r;
	c->stage = CHILD_DIRECTORY;
	if (chdir(c->request->cwd.count ? c->request->cwd.text : "/"))
		return -errno;
	c->stage = CHILD_PROGRAM;
	return run_program(c);
}

NO_SANITIZE static int run_child(void *context)
{
	struct child *c = context;

	c->error = run_stages(c);
	syscall(SYS_exit_group, 127);
	return 127;
}

pid_t child_start(struct child *c)
{
	pid_t pid;

	c->stage = CHILD_STARTED;
	c->error = 0;
	pid = clone(run_child, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
	if (pid < 0)
		return -errno;
	if (!c->error)
		c->stage = CHILD_STARTED;
	return pid;
}

const char *child_stage_name(enum child_stage stage)
{
	static const char *const names[] = {"start", "new session", "cgroup", "standard files",
		"resource limits", "user and group", "working directory", "program"};

	return (unsigned)stage < sizeof(names) / sizeof(*names) ? names[stage] : "?";
}
