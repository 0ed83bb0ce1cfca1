/* SPDX-License-Identifier: Apache-2.0 - jail_start(): the caller's side of starting a machine. */
#include "jail/jail_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* No stage waits for anything; one that takes this long is stuck in the kernel. */
#define START_TIMEOUT_MS 20000

/* Put *fd out of the way of 0..3, which the machine gets anew; -1 stays. */
static int lift(int fd, int *out)
{
	if (fd < 0) {
		*out = -1;
		return 0;
	}
	*out = fcntl(fd, F_DUPFD_CLOEXEC, JAIL_FIRST_FD);
	return *out < 0 ? -errno : 0;
}

static void job_fini(struct jail_job *job)
{
	close_fd(&job->control);
	close_fd(&job->life);
	close_fd(&job->null_fd);
	close_fd(&job->console_fd);
	close_fd(&job->channel_fd);
	close_fd(&job->program_fd);
	for (unsigned i = 0; i < ARRAY_SIZE(job->tree_fds); i++)
		close_fd(&job->tree_fds[i]);
	jail_filter_fini(&job->machine_filter);
	jail_filter_fini(&job->init_filter);
}

static void job_init(struct jail_job *job, const struct jail_spec *spec)
{
	*job = (struct jail_job){
		.spec = spec,
		.confined = !spec->plan->is_code_of_ours,
		.own_uids = spec->machine_uid != geteuid(),
		.control = -1,
		.life = -1,
		.null_fd = -1,
		.console_fd = -1,
		.channel_fd = -1,
		.program_fd = -1,
	};
	for (unsigned i = 0; i < ARRAY_SIZE(job->tree_fds); i++)
		job->tree_fds[i] = -1;
}

/* "/name" with nothing that leads elsewhere */
static bool is_plain_place(const char *to)
{
	return to[0] == '/' && to[1] && to[1] != '.' && !strchr(to + 1, '/');
}

static int check_spec(const struct jail_spec *spec, struct error *err)
{
	const struct engine_plan *plan = spec->plan;
	const char *from, *to;
	bool writable;

	if (plan->arg_count > ENGINE_ARGS || plan->bind_count > ENGINE_BINDS)
		return error_set(err, -EINVAL, "the plan has too many arguments or files");
	if (!plan->is_code_of_ours && (!plan->arg_count || plan->program[0] != '/'))
		return error_set(err, -EINVAL, "the plan names no program by its absolute path");
	if (plan->is_code_of_ours && !plan->run)
		return error_set(err, -EINVAL, "the plan has no code to run");
	if (plan->channel == ENGINE_STREAM && spec->channel_fd < 0)
		return error_set(err, -EINVAL, "the machine has no channel");
	for (unsigned i = 0; jail_view_item(spec, i, &from, &to, &writable); i++) {
		if (!from || from[0] != '/')
			return error_set(err, -EINVAL, "%s: must be an absolute path",
				from ? from : "socket");
		if (!is_plain_place(to) || strcmp(to, "/mem") == 0)
			return error_set(err, -EINVAL, "%s: is no place in a machine's root", to);
	}
	return 0;
}

/* The descriptors that the children inherit. */
static int open_descriptors(struct jail_job *job, struct error *err)
{
	const struct jail_spec *spec = job->spec;
	cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC), program = -1;
	int r;

	if (null < 0)
		return error_sys(err, errno, "/dev/null");
	r = lift(null, &job->null_fd);
	r = r ? r : lift(spec->console_fd, &job->console_fd);
	if (!r && spec->plan->channel == ENGINE_STREAM)
		r = lift(spec->channel_fd, &job->channel_fd);
	if (r)
		return error_sys(err, r, "cannot take the machine's descriptors");
	if (spec->plan->is_code_of_ours)
		return 0;
	program = open(spec->plan->program, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (program < 0)
		return error_sys(err, errno, "%s", spec->plan->program);
	r = lift(program, &job->program_fd);
	return r ? error_sys(err, r, "%s", spec->plan->program) : 0;
}

/*
 * The files to be shown. An ordinary user's are only looked at here (so that a missing one is
 * named before anything is started); the machine's own uid needs them handed over.
 */
static int open_view(struct jail_job *job, struct error *err)
{
	const struct jail_spec *spec = job->spec;
	const char *from, *to;
	bool writable;
	struct stat st;

	for (unsigned i = 0; jail_view_item(spec, i, &from, &to, &writable); i++) {
		int fd;

		if (lstat(from, &st))
			return error_sys(err, errno, "%s", from);
		if (!S_ISREG(st.st_mode) && !S_ISSOCK(st.st_mode))
			return error_set(
				err, -EINVAL, "%s: is no regular file and no socket", from);
		if (!job->own_uids)
			continue;
		/* connect(2) asks for the right to write */
		if (S_ISSOCK(st.st_mode) && fchownat(AT_FDCWD, from, spec->machine_uid,
						    spec->machine_gid, AT_SYMLINK_NOFOLLOW))
			return error_sys(err, errno, "%s: cannot give it to the machine", from);
		fd = jail_view_clone(from, writable);
		if (fd < 0)
			return error_sys(err, fd, "%s: cannot be shown to the machine", from);
		if (lift(fd, &job->tree_fds[i])) {
			close(fd);
			return error_sys(err, errno, "%s", from);
		}
		close(fd);
	}
	return 0;
}

static int write_map(pid_t pid, const char *name, const char *text, struct error *err)
{
	char path[64];
	int r;

	text_format(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	r = path_write_fd(fd, text, strlen(text));
	return r ? error_sys(err, r, "%s: cannot map its user", path) : 0;
}

static int write_maps(const struct jail_spec *spec, pid_t launcher, struct error *err)
{
	char map[64];
	int r = write_map(launcher, "setgroups", "deny", err);

	text_format(map, sizeof(map), "%d %u 1", JAIL_INSIDE_ID, (unsigned)spec->machine_gid);
	r = r ? r : write_map(launcher, "gid_map", map, err);
	text_format(map, sizeof(map), "%d %u 1", JAIL_INSIDE_ID, (unsigned)spec->machine_uid);
	return r ? r : write_map(launcher, "uid_map", map, err);
}

/* Next packet of the children; 0 at their end, -ETIMEDOUT. */
static int next_report(int control, int64_t deadline_ms, struct jail_report *out)
{
	struct pollfd p = {.fd = control, .events = POLLIN};
	ssize_t n;
	int r;

	do
		r = poll(&p, 1, clock_poll_ms(deadline_ms));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	do
		n = recv(control, out, sizeof(*out), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if (n && n != (ssize_t)sizeof(*out))
		return -EPROTO;
	out->text[sizeof(out->text) - 1] = 0;
	return n > 0;
}

/* The launcher has its user namespace: put it into its cgroup, and map its user. */
static int place(const struct jail_job *job, int control, pid_t launcher, struct error *err)
{
	const struct jail_spec *spec = job->spec;
	int r = spec->cgroup ? jail_cgroup_enter(spec->cgroup, launcher, err) : 0;

	if (!r && job->confined && job->own_uids)
		r = write_maps(spec, launcher, err);
	if (!r && send(control, "", 1, MSG_NOSIGNAL) != 1)
		r = error_sys(err, errno, "the launcher is gone");
	return r;
}

/*
 * Follow the children until the machine has executed: then, or at their end, `control` has no
 * other end any more. After a failure too, since the report of pid 1 may be still on its way.
 */
static int follow(
	const struct jail_job *job, int control, pid_t launcher, pid_t *init, struct error *err)
{
	int64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);
	struct jail_report report;
	bool executed = false;
	int r, failed = 0;

	while ((r = next_report(control, deadline, &report)) > 0) {
		switch (report.kind) {
		case JAIL_REPORT_WANT_PLACE:
			r = failed ? failed : place(job, control, launcher, err);
			if (r)
				return r;
			break;
		case JAIL_REPORT_INIT:
			*init = report.value;
			break;
		case JAIL_REPORT_EXEC:
			executed = true;
			break;
		case JAIL_REPORT_FAILED:
			if (!failed)
				failed = error_sys(err, report.value, "cannot %s", report.text);
			break;
		default:
			return error_set(err, -EPROTO, "an unknown report of a start stage");
		}
	}
	if (failed)
		return failed;
	if (r < 0)
		return error_sys(err, r, "the start of the machine hangs");
	if (!executed || *init <= 0)
		return error_set(err, -EIO, "the machine ended before it was executed");
	return 0;
}

static void reap(pid_t pid, bool kill_it)
{
	if (pid <= 0)
		return;
	if (kill_it)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* Handlers must not run in the child before it has reset them. */
static pid_t fork_launcher(struct jail_job *job, int parent_control, int parent_life)
{
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0) {
		close(parent_control);
		close(parent_life);
		jail_launch(job);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

/*
 * When memory runs out the machine is to be chosen and not its pid 1, so that its status tells. An
 * ordinary user may not say so; then the choice falls by size, on the machine as well.
 */
static void spare_from_oom(pid_t init)
{
	char path[64];

	text_format(path, sizeof(path), "/proc/%d/oom_score_adj", (int)init);
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && path_write_fd(fd, "0", 1))
		return;
}

static int prepare(struct jail_job *job, struct error *err)
{
	const struct engine_plan *plan = job->spec->plan;
	int r = check_spec(job->spec, err);

	r = r ? r : open_descriptors(job, err);
	if (r || !job->confined)
		return r;
	for (unsigned i = 0; i < plan->arg_count; i++)
		job->argv[i] = (char *)plan->args[i];
	r = open_view(job, err);
	r = r ? r : jail_filter_machine(&job->machine_filter, err);
	return r ? r : jail_filter_init(&job->init_filter, err);
}

static int start(struct jail_job *job, struct jail_machine *out, struct error *err)
{
	cleanup_close int control = -1, life = -1;
	int pair[2], ends[2], r;
	pid_t launcher, init = -1;

	r = prepare(job, err);
	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_sys(err, errno, "socketpair");
	control = pair[0];
	r = lift(pair[1], &job->control);
	close(pair[1]);
	if (!r && pipe2(ends, O_CLOEXEC))
		r = -errno;
	if (r)
		return error_sys(err, r, "cannot make the pipes of a machine");
	life = ends[1];
	r = lift(ends[0], &job->life);
	close(ends[0]);
	if (r)
		return error_sys(err, r, "cannot make the pipes of a machine");

	launcher = fork_launcher(job, control, life);
	if (launcher < 0)
		return error_sys(err, errno, "fork");
	close_fd(&job->control);
	r = follow(job, control, launcher, &init, err);
	if (!r) {
		out->pidfd = (int)syscall(SYS_pidfd_open, init, 0);
		if (out->pidfd < 0)
			r = error_sys(err, errno, "pidfd_open");
	}
	reap(launcher, r != 0);
	if (r) {
		close_fd(&life);
		reap(init, true);
		return r;
	}
	spare_from_oom(init);
	out->pid = init;
	out->life_fd = steal_fd(&life);
	return 0;
}

int jail_start(const struct jail_spec *spec, struct jail_machine *out, struct error *err)
{
	struct jail_job job;
	int r;

	*out = (struct jail_machine){.pid = -1, .pidfd = -1, .life_fd = -1};
	job_init(&job, spec);
	r = start(&job, out, err);
	job_fini(&job);
	return r;
}
