/* SPDX-License-Identifier: Apache-2.0 - stops the processes of a machine, and lets them go on. */
#include "engine/engine.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * Signals, and no freezer: what is stopped dies of SIGKILL at once, so that nothing is left behind
 * when its keeper is killed; and they work where no cgroup does.
 *
 * A machine that traces its processes (UML) gets SIGSTOP. What it traces must not: the tracer would
 * be told of it when it goes on, and knows no such stop. But a tracee runs on by itself until it
 * next asks for something. It is sent SIGALRM, which is how the machine itself interrupts it: the
 * tracee stops for its tracer, who takes it for a tick of the clock when it is back.
 */
#define STOP_MS    2000
#define BACKOFF_MS 16
#define CHILDREN   (64u << 10) /* bytes of a list of children */
#define STAT_MOST  2048
#define STOPPED    "tTZXx"

struct stat_line {
	char state;
	pid_t parent;
};

static int read_stat(pid_t pid, struct stat_line *out)
{
	struct buffer text = {0};
	char path[64];
	const char *at;
	int r;

	text_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = path_read(path, STAT_MOST, &text, NULL);
	/* the name, in brackets, may hold anything */
	at = r || !buffer_text(&text) ? NULL : strrchr(buffer_text(&text), ')');
	if (at && at[1] == ' ' && at[2] && at[3] == ' ') {
		out->state = at[2];
		out->parent = (pid_t)strtol(at + 4, NULL, 10);
	} else if (!r) {
		r = -EPROTO;
	}
	buffer_fini(&text);
	return r;
}

struct visit {
	int (*each)(struct visit *v, pid_t parent, pid_t pid);
	int sent; /* signal */
	unsigned count, running;
};

static int visit_task(struct visit *v, pid_t parent, const char *task, struct error *err)
{
	struct buffer text = {0};
	char path[96], *at, *end;
	int r;

	text_format(path, sizeof(path), "/proc/%d/task/%.16s/children", (int)parent, task);
	r = path_read(path, CHILDREN, &text, err);
	at = r ? NULL : buffer_text(&text);
	while (!r && at && *at) {
		long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		if (pid > 1)
			r = v->each(v, parent, (pid_t)pid);
		at = end + strspn(end, " \n");
	}
	buffer_fini(&text);
	return r;
}

/* every child of any thread of a process */
static int visit_children(struct visit *v, pid_t parent, struct error *err)
{
	char path[64];
	struct dirent *e;
	int r = 0;

	text_format(path, sizeof(path), "/proc/%d/task", (int)parent);
	cleanup_dir DIR *dir = opendir(path);
	if (!dir)
		return error_sys(err, errno, "%s", path);
	while (!r && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			r = visit_task(v, parent, e->d_name, err);
	}
	return r == -ENOENT ? error_set(err, -ENOTSUP,
				      "the host kernel does not list children of processes "
				      "(CONFIG_PROC_CHILDREN)")
			    : r;
}

/* only to a child of that parent: a number may be another process's by now */
static int send_signal(struct visit *v, pid_t parent, pid_t pid)
{
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct stat_line line;

	if (fd < 0 || read_stat(pid, &line) || line.parent != parent)
		return 0; /* it is gone */
	v->count++;
	if (v->sent == SIGALRM && strchr(STOPPED, line.state))
		return 0;
	if (syscall(SYS_pidfd_send_signal, fd, v->sent, NULL, 0) && errno != ESRCH)
		return -errno;
	return 0;
}

static int count_running(struct visit *v, pid_t parent, pid_t pid)
{
	struct stat_line line;

	if (read_stat(pid, &line) == 0 && line.parent == parent && !strchr(STOPPED, line.state))
		v->running++;
	return 0;
}

/* The kernel tells nobody but a parent or a tracer when a process has stopped. */
static int wait_stopped(pid_t parent, int64_t deadline_ms, struct error *err)
{
	struct visit v;
	int backoff_ms = 0, r;

	for (;;) {
		v = (struct visit){.each = count_running};
		r = visit_children(&v, parent, err);
		if (r || !v.running)
			return r;
		if (clock_ms() >= deadline_ms)
			return error_set(err, -ETIMEDOUT, "its processes do not stop");
		poll(NULL, 0, backoff_ms);
		backoff_ms = backoff_ms < BACKOFF_MS ? 2 * backoff_ms + 1 : BACKOFF_MS;
	}
}

static int stop_tracees(struct visit *v, pid_t parent, pid_t pid)
{
	struct visit tracees = {.each = send_signal, .sent = SIGALRM};
	int r = visit_children(&tracees, pid, NULL);

	(void)v;
	(void)parent;
	return r ? r : wait_stopped(pid, clock_deadline_ms(STOP_MS), NULL);
}

int engine_pause(pid_t init, bool traced, struct error *err)
{
	struct visit v = {.each = send_signal, .sent = SIGSTOP};
	int r = visit_children(&v, init, err);

	if (!r && !v.count)
		return error_set(err, -ESRCH, "the machine has ended");
	if (!r)
		r = wait_stopped(init, clock_deadline_ms(STOP_MS), err);
	if (!r && traced) {
		v = (struct visit){.each = stop_tracees};
		r = visit_children(&v, init, err);
	}
	if (r) {
		engine_resume(init, NULL);
		return error_sys(err, r, "the machine cannot be paused");
	}
	return 0;
}

int engine_resume(pid_t init, struct error *err)
{
	struct visit v = {.each = send_signal, .sent = SIGCONT};
	int r = visit_children(&v, init, err);

	return !r && !v.count ? error_set(err, -ESRCH, "the machine has ended") : r;
}
