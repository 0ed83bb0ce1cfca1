/* SPDX-License-Identifier: Apache-2.0 - the loop: events in, one piece of work each, frames out. */
#include "agent.h"
#include "egress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 32

uint64_t agent_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

void agent_wake_at(struct agent *a, uint64_t at_us)
{
	if (at_us < a->deadline_us)
		a->deadline_us = at_us;
}

bool agent_disk_full(const struct agent *a)
{
	struct statfs fs;

	/* A file system of less than one page has no blocks and is no limit. */
	return a->disk_fd >= 0 && fstatfs(a->disk_fd, &fs) == 0 && fs.f_blocks &&
	       (!fs.f_bavail || (fs.f_files && !fs.f_ffree));
}

static uint64_t event_tag(const struct agent *a, const struct stream *s, unsigned which)
{
	uint32_t slot = (uint32_t)(s - a->streams);

	return (uint64_t)s->generation << 32 | slot << 16 | which << 8 | EVENT_STREAM;
}

int agent_watch(struct agent *a, struct stream *s, int fd, uint32_t events, unsigned which)
{
	struct epoll_event e = {.events = events, .data.u64 = event_tag(a, s, which)};

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int agent_watch_again(struct agent *a, struct stream *s, int fd, uint32_t events, unsigned which)
{
	struct epoll_event e = {.events = events, .data.u64 = event_tag(a, s, which)};

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, fd, &e) ? -errno : 0;
}

static int watch_own(struct agent *a, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event e = {.events = events, .data.u64 = tag};

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/* Every child is ours to reap: the first process of an exec, and orphans. */
static void reap(struct agent *a)
{
	struct signalfd_siginfo info;
	struct rusage usage;
	int status;
	pid_t pid;

	if (read(a->signal_fd, &info, sizeof(info)) < 0 && errno != EAGAIN)
		return;
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		for (uint32_t i = 0; i < a->slots_used; i++)
			if (exec_reaped(a, &a->streams[i], pid, status, &usage))
				break;
	}
}

static void handle_event(struct agent *a, const struct epoll_event *e)
{
	uint32_t slot = (uint32_t)(e->data.u64 >> 16) & 0xffffu;
	struct stream *s;

	switch (e->data.u64 & 0xff) {
	case EVENT_LINK:
		a->link.readable |= (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
		a->link.writable |= (e->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
		break;
	case EVENT_SIGNAL:
		reap(a);
		break;
	case EVENT_STREAM:
		s = slot < a->slots_used ? &a->streams[slot] : NULL;
		if (s && s->class && s->generation == (uint32_t)(e->data.u64 >> 32)) {
			exec_event(s, (unsigned)(e->data.u64 >> 8) & 0xffu);
			watching_event(a, s);
		}
		break;
	case EVENT_EGRESS:
		egress_event(slot, (uint32_t)(e->data.u64 >> 32), e->events);
		break;
	default:
		break;
	}
}

/* Frames are taken only while their answers have room: a host that does not read is not heard. */
static int take_frames(struct agent *a)
{
	struct wire_frame frame;
	int r;

	do {
		while (!a->stop && link_room(&a->link) >= LINK_RESERVE) {
			r = link_frame(&a->link, &frame);
			if (r > 0)
				r = request_take(a, &frame) ? -EPROTO : 1;
			if (r < 0)
				return r;
			if (!r)
				break;
		}
		if (link_room(&a->link) < LINK_RESERVE)
			link_send(&a->link);
	} while (!a->stop && link_room(&a->link) >= LINK_RESERVE && link_receive(&a->link));
	return 0;
}

/* One piece of work for each stream that has some. True when there is more at once. */
static bool work_round(struct agent *a)
{
	bool more = false;

	a->turn++;
	for (uint32_t n = 0; n < a->slots_used; n++) {
		struct stream *s = &a->streams[(a->turn + n) % a->slots_used];
		enum progress p;

		if (!s->class || !s->busy || !s->class->work)
			continue;
		if (link_room(&a->link) < LINK_RESERVE)
			link_send(&a->link);
		if (link_room(&a->link) < LINK_RESERVE)
			return false;
		s->busy = false;
		p = s->class->work(a, s);
		if (!s->class)
			continue;
		s->busy |= p != PROGRESS_IDLE;
		more |= p == PROGRESS_MORE;
	}
	return more;
}

static bool has_room_for_work(struct agent *a)
{
	return a->link.writable && link_room(&a->link) >= LINK_RESERVE + LINK_PIECE + WIRE_HEADER;
}

static bool any_busy(const struct agent *a)
{
	for (uint32_t i = 0; i < a->slots_used; i++)
		if (a->streams[i].class && a->streams[i].busy)
			return true;
	return false;
}

static int wait_time_ms(const struct agent *a, bool more)
{
	uint64_t ms;

	if (more)
		return 0;
	if (a->deadline_us == UINT64_MAX)
		return -1;
	if (a->deadline_us <= a->now_us)
		return 0;
	ms = (a->deadline_us - a->now_us + 999) / 1000;
	return ms > 60000 ? 60000 : (int)ms;
}

/* Ask for what can be used: bytes in while answers have room, room out while bytes wait. */
static int watch_link(struct agent *a)
{
	uint32_t events = link_room(&a->link) >= LINK_RESERVE ? EPOLLIN : 0;
	struct epoll_event e;

	if (a->link.out_start != a->link.out_end)
		events |= EPOLLOUT;
	if (events == a->link.watched)
		return 0;
	a->link.watched = events;
	e = (struct epoll_event){.events = events, .data.u64 = EVENT_LINK};
	return epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, a->link.fd, &e) ? -errno : 0;
}

static int turn(struct agent *a)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	bool more;
	int r;

	r = take_frames(a);
	if (r)
		return r;
	a->deadline_us = UINT64_MAX;
	for (uint32_t i = 0; i < a->slots_used; i++) {
		exec_times(a, &a->streams[i]);
		watching_times(a, &a->streams[i]);
	}
	more = work_round(a);
	egress_work(a);
	link_send(&a->link);
	/* what had no room before may have it now */
	more |= (any_busy(a) || egress_busy()) && has_room_for_work(a);
	if (a->stop || a->link.closed)
		return 0;
	more |= a->link.readable && link_room(&a->link) >= LINK_RESERVE;
	if (!more && a->link.out_start == a->link.out_end)
		more = cgroup_pool_tend(&a->cgroups, a->cgroup_fd);
	r = watch_link(a);
	if (r)
		return r;
	r = epoll_wait(a->epoll_fd, events, EVENTS_AT_ONCE, wait_time_ms(a, more));
	if (r < 0 && errno != EINTR)
		return -errno;
	a->now_us = agent_now_us();
	for (int i = 0; i < r; i++)
		handle_event(a, &events[i]);
	return 0;
}

static void say_hello(struct agent *a)
{
	struct wire_hello m = {.version = WIRE_VERSION, .uptime_us = agent_now_us()};
	struct utsname name;
	struct sysinfo info;

	uname(&name);
	m.kernel = wire_str(name.release);
	if (sysinfo(&info) == 0)
		m.memory_bytes = (uint64_t)info.totalram * info.mem_unit;
	stream_commit(a, wire_put_hello(stream_frame(a), LINK_RESERVE / 2, 0, 0, &m));
}

void agent_init(struct agent *a)
{
	a->epoll_fd = a->signal_fd = a->null_fd = a->disk_fd = a->cgroup_fd = -1;
	a->deadline_us = UINT64_MAX;
	cgroup_pool_init(&a->cgroups);
}

static int prepare(struct agent *a)
{
	const struct rlimit none = {0, 0};
	sigset_t all;
	int fd;

	/* inherited by all that is started */
	setrlimit(RLIMIT_CORE, &none);
	/* orphans come here, as they do to PID 1 */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/* A process gets 0 to 3; what is ours must not be there. */
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd < 4);
	if (fd < 0)
		return -errno;
	a->null_fd = fd;
	/* Blocked rather than ignored: a child starts with nothing to undo but its mask. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	a->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (a->signal_fd < 0 || a->epoll_fd < 0 ||
		watch_own(a, a->signal_fd, EPOLLIN, EVENT_SIGNAL) ||
		watch_own(a, a->link.fd, EPOLLIN, EVENT_LINK))
		return -errno;
	a->link.watched = EPOLLIN;
	umask(022);
	return 0;
}

int agent_serve(struct agent *a, int fd)
{
	int r;

	link_init(&a->link, fd);
	r = prepare(a);
	if (r)
		return r;
	a->now_us = agent_now_us();
	say_hello(a);
	while (!r && !a->stop && !a->link.closed)
		r = turn(a);
	for (uint32_t i = 0; i < a->slots_used; i++) {
		struct stream *s = &a->streams[i];

		if (s->class && s->class->release)
			s->class->release(a, s);
		s->class = NULL;
	}
	return r;
}
