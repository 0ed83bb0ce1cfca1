/* SPDX-License-Identifier: Apache-2.0 - the stages from a fork of the monitor to the machine's
 * exec. */
#include "jail/jail_internal.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * Theory of operation
 *
 *	caller ──fork──> launcher ──clone(CLONE_PARENT)──> pid 1 ──fork──> machine
 *
 * launcher  becomes the monitor's uid and makes the user namespace, which that uid thereby owns:
 *           so the monitor, once it has dropped to it, may end every process inside, and nothing
 *           outside. The caller writes the uid map (root; an ordinary user's launcher maps itself).
 *           Then it makes the other namespaces, forks pid 1 as a child of the caller, and is done.
 * pid 1     becomes the machine's uid, builds the view of files, forks the machine, gives up
 *           everything and waits (init.c).
 * machine   takes its descriptors and limits, gives up everything, and executes the program.
 *
 * Each is a table of stages; a stage that fails is named to the caller over the control socket,
 * and its process ends. The processes share nothing else, and what has been started when one fails
 * dies with the life pipe, which the caller then closes. Between fork and exec nothing here
 * allocates or locks.
 */
struct stage {
	const char *name; /* goes on after "cannot " */
	int (*run)(struct jail_job *job);
	bool always; /* also for code of ours, which is not confined */
};

static void report(struct jail_job *job, enum jail_report_kind kind, int value, const char *text)
{
	struct jail_report r = {.kind = (int)kind, .value = value};

	text_copy(r.text, sizeof(r.text), text);
	while (send(job->control, &r, sizeof(r), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void run_stages(struct jail_job *job, const struct stage *stages)
{
	char text[sizeof(((struct jail_report *)0)->text)];

	for (; stages->name; stages++) {
		int r;

		if (!job->confined && !stages->always)
			continue;
		job->detail[0] = 0;
		r = stages->run(job);
		if (!r)
			continue;
		text_format(text, sizeof(text), "%s%s%s", stages->name, job->detail[0] ? ": " : "",
			job->detail);
		report(job, JAIL_REPORT_FAILED, r, text);
		_exit(126);
	}
}

static int write_file(struct jail_job *job, const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text))
		return 0;
	text_copy(job->detail, sizeof(job->detail), path);
	return errno ? -errno : -EIO;
}

/* --- launcher --- */

/* Handlers and an alternate stack of the caller must not run here. All signals are blocked. */
static int reset_signals(struct jail_job *job)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	stack_t none = {.ss_flags = SS_DISABLE};

	for (int s = 1; s < _NSIG; s++)
		sigaction(s, &plain, NULL); /* SIGKILL, SIGSTOP and libc's own refuse */
	sigaltstack(&none, NULL);
	return setsid() < 0 ? -errno : 0;
}

static int close_the_rest(struct jail_job *job)
{
	int kept[ENGINE_BINDS + 8];
	unsigned count = 0, from = 0;
	const int fds[] = {job->control, job->life, job->null_fd, job->console_fd, job->channel_fd,
		job->program_fd};

	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			kept[count++] = fds[i];
	for (unsigned i = 0; i < ARRAY_SIZE(job->tree_fds); i++)
		if (job->tree_fds[i] >= 0)
			kept[count++] = job->tree_fds[i];
	for (;;) { /* close the gaps, lowest first */
		unsigned next = ~0u;

		for (unsigned i = 0; i < count; i++)
			if ((unsigned)kept[i] >= from && (unsigned)kept[i] < next)
				next = (unsigned)kept[i];
		if (next == ~0u)
			break;
		if (next > from && close_range(from, next - 1, 0))
			return -errno;
		from = next + 1;
	}
	return close_range(from, ~0u, 0) ? -errno : 0;
}

static int take_cpu(struct jail_job *job)
{
	cpu_set_t set;

	if (job->spec->cpu < 0)
		return 0;
	if (job->spec->cpu >= CPU_SETSIZE)
		return -EINVAL;
	CPU_ZERO(&set);
	CPU_SET((size_t)job->spec->cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* When memory runs out, machines go before what runs them. Not being allowed to say so is fine. */
static int offer_to_oom(struct jail_job *job)
{
	write_file(job, "/proc/self/oom_score_adj", "500");
	return 0;
}

static int become_monitor(struct jail_job *job)
{
	const struct jail_spec *s = job->spec;

	if (!job->own_uids)
		return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) ? -errno : 0; /* to open its own maps */
	if (setgroups(0, NULL) || setresgid(s->monitor_gid, s->monitor_gid, s->monitor_gid) ||
		setresuid(s->monitor_uid, s->monitor_uid, s->monitor_uid))
		return -errno;
	return 0;
}

static int make_user_namespace(struct jail_job *job)
{
	if (unshare(CLONE_NEWUSER))
		return -errno;
	return 0;
}

/* The caller puts it into its cgroup and, as root, writes its map; otherwise it does so itself. */
static int take_place(struct jail_job *job)
{
	const struct jail_spec *s = job->spec;
	char map[64], go;
	ssize_t n;
	int r;

	report(job, JAIL_REPORT_WANT_PLACE, 0, "");
	do
		n = recv(job->control, &go, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return -ECANCELED;
	if (!job->confined || job->own_uids)
		return 0;
	r = write_file(job, "/proc/self/setgroups", "deny");
	if (r)
		return r;
	text_format(map, sizeof(map), "%d %u 1", JAIL_INSIDE_ID, (unsigned)s->machine_uid);
	r = write_file(job, "/proc/self/uid_map", map);
	if (r)
		return r;
	text_format(map, sizeof(map), "%d %u 1", JAIL_INSIDE_ID, (unsigned)s->machine_gid);
	return write_file(job, "/proc/self/gid_map", map);
}

static int make_namespaces(struct jail_job *job)
{
	if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		    CLONE_NEWCGROUP))
		return -errno;
	return 0;
}

static const struct stage launcher_stages[] = {
	{"leave the monitor's session", reset_signals, true},
	{"close the monitor's files", close_the_rest, true},
	{"take its processor", take_cpu, true},
	{"change its out-of-memory score", offer_to_oom, true},
	{"become the monitor's user", become_monitor, false},
	{"make a user namespace", make_user_namespace, false},
	{"take its place", take_place, true},
	{"make its namespaces", make_namespaces, false},
	{NULL, NULL, false},
};

/* --- pid 1 --- */

static int die_with_parent(struct jail_job *job)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) ? -errno : 0;
}

static int become_machine(struct jail_job *job)
{
	const gid_t g = JAIL_INSIDE_ID;
	const uid_t u = JAIL_INSIDE_ID;

	prctl(PR_SET_NAME, "sealmark-init", 0, 0, 0);
	if (setresgid(g, g, g) || setresuid(u, u, u))
		return -errno;
	/* pid 1 keeps memory of the monitor, the machine has the same uid: it must not look */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ? -errno : 0;
}

static int name_host(struct jail_job *job)
{
	return sethostname("machine", 7) ? -errno : 0;
}

static const struct stage init_stages[] = {
	{"become the machine's user", become_machine, false},
	{"bind its life to the monitor's", die_with_parent, true},
	{"name its host", name_host, false},
	{"show it its files", jail_view_enter, false},
	{NULL, NULL, false},
};

/* --- machine --- */

static int take_descriptors(struct jail_job *job)
{
	int console = job->console_fd >= 0 ? job->console_fd : job->null_fd;
	int last = 2;

	if (dup2(job->null_fd, 0) < 0 || dup2(console, 1) < 0 || dup2(console, 2) < 0)
		return -errno;
	if (job->channel_fd >= 0 && dup2(job->channel_fd, last = 3) < 0)
		return -errno;
	close(job->life);
	/* the rest lies at JAIL_FIRST_FD and above and closes itself with the exec */
	return close_range((unsigned)last + 1, JAIL_FIRST_FD - 1, 0) ? -errno : 0;
}

static int limit(struct jail_job *job, const char *name, int which, uint64_t most)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)which, &r))
		return -errno;
	if (r.rlim_max > most)
		r.rlim_max = most;
	r.rlim_cur = r.rlim_max;
	if (setrlimit((__rlimit_resource_t)which, &r) == 0)
		return 0;
	text_copy(job->detail, sizeof(job->detail), name);
	return -errno;
}

static int set_limits(struct jail_job *job)
{
	const struct engine_plan *plan = job->spec->plan;
	int r = limit(job, "core", RLIMIT_CORE, 0);

	r = r ? r : limit(job, "files", RLIMIT_NOFILE, 4096);
	r = r ? r : limit(job, "locked memory", RLIMIT_MEMLOCK, 0);
	r = r ? r : limit(job, "message queues", RLIMIT_MSGQUEUE, 0);
	r = r ? r : limit(job, "priority", RLIMIT_NICE, 0);
	r = r ? r : limit(job, "real-time priority", RLIMIT_RTPRIO, 0);
	/* the pipe of the console is no file; nothing but /mem can be written */
	if (!r && plan->scratch_bytes)
		r = limit(job, "file size", RLIMIT_FSIZE, plan->scratch_bytes);
	if (!r && plan->processes)
		r = limit(job, "processes", RLIMIT_NPROC, plan->processes);
	return r;
}

/* A UML that finds its addresses random executes itself again, for which it would need /proc. */
static int fix_layout(struct jail_job *job)
{
	if (!job->spec->plan->needs_fixed_layout)
		return 0;
	return personality(ADDR_NO_RANDOMIZE) < 0 ? -errno : 0;
}

static int new_session(struct jail_job *job)
{
	return setsid() < 0 ? -errno : 0;
}

static int unblock_signals(struct jail_job *job)
{
	sigset_t none;

	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) ? -errno : 0;
}

static int drop(struct jail_job *job)
{
	return jail_drop_capabilities();
}

static int filter(struct jail_job *job)
{
	return jail_filter_apply(&job->machine_filter);
}

static const struct stage machine_stages[] = {
	{"begin its session", new_session, true},
	{"die with its pid 1", die_with_parent, true},
	{"take its descriptors", take_descriptors, true},
	{"set its limits", set_limits, false},
	{"fix its address layout", fix_layout, false},
	{"unblock its signals", unblock_signals, true},
	{"give up capabilities", drop, false},
	{NULL, NULL, false},
};

static const struct stage last_stages[] = {
	{"install its system call list", filter, false},
	{NULL, NULL, false},
};

static noreturn void run_machine(struct jail_job *job)
{
	static char *const environment[] = {"TMPDIR=/mem", "HOME=/mem", "PATH=/", NULL};
	static const char exec_failed[] = "execute it: ";
	struct jail_report failed = {.kind = JAIL_REPORT_FAILED};
	size_t used = sizeof(exec_failed) - 1;

	run_stages(job, machine_stages);
	if (job->spec->plan->is_code_of_ours) {
		int channel = 3;

		report(job, JAIL_REPORT_EXEC, 0, "");
		close_range(4, ~0u, 0);
		_exit(job->spec->plan->run(job->spec->config, channel));
	}
	memcpy(failed.text, exec_failed, used);
	text_copy(failed.text + used, sizeof(failed.text) - used, job->spec->plan->program);
	report(job, JAIL_REPORT_EXEC, 0, "");
	run_stages(job, last_stages);
	syscall(SYS_execveat, job->program_fd, "", job->argv, environment, AT_EMPTY_PATH);
	/* the list is on: write(2) is on it, send(2) is not */
	failed.value = -errno;
	if (write(job->control, &failed, sizeof(failed)) < 0)
		_exit(127);
	_exit(126);
}

static noreturn void run_init(struct jail_job *job)
{
	pid_t machine;

	run_stages(job, init_stages);
	machine = fork();
	if (machine < 0) {
		report(job, JAIL_REPORT_FAILED, -errno, "fork the machine");
		_exit(126);
	}
	if (machine == 0)
		run_machine(job);
	for (int fd = 0; fd < JAIL_FIRST_FD; fd++)
		if (fd != job->life)
			close(fd);
	if (job->life > JAIL_FIRST_FD)
		close_range(JAIL_FIRST_FD, (unsigned)job->life - 1, 0);
	close_range((unsigned)job->life + 1, ~0u, 0);
	if (job->confined && jail_drop_capabilities())
		_exit(125); /* ends the machine */
	jail_init_run(machine, job->life, job->confined ? &job->init_filter : NULL);
}

noreturn void jail_launch(struct jail_job *job)
{
	long pid;

	run_stages(job, launcher_stages);
	pid = syscall(SYS_clone, (long)CLONE_PARENT | SIGCHLD, 0L, 0L, 0L, 0L);
	if (pid == 0)
		run_init(job);
	if (pid < 0) {
		report(job, JAIL_REPORT_FAILED, -errno, "fork its pid 1");
		_exit(126);
	}
	report(job, JAIL_REPORT_INIT, (int)pid, "");
	_exit(0);
}
