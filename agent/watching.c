/* SPDX-License-Identifier: Apache-2.0 - WATCH: a stream of records of what changes in a folder. */
#include "watching.h"
#include "agent.h"
#include "fs.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * One inotify descriptor for each watch: its queue in the kernel is the only one that grows, and is
 * bounded there; when it runs over, the kernel says so, and so does the record. A piece of work
 * reads folders, then events, and puts records into `out`, which always has room for what one step
 * can say. Without credit nothing is read. Changes are let pile up for the time of a batch, in
 * which the kernel makes equal ones that follow each other into one.
 *
 * The folders are opened with the rights of the user, and at their paths each time: a descriptor
 * that is held would keep a removed folder from being seen as removed.
 */
#define STEPS_AT_ONCE 256

/* Send what is in out: true when it is empty; else *p says why not. */
static bool flush(struct agent *a, struct stream *s, enum progress *p)
{
	struct watching *w = &s->u.watching;
	size_t n;
	uint8_t *to;

	while (w->out_at < w->out_count) {
		to = stream_data_begin(a, s, WIRE_STDOUT, w->out_count - w->out_at, &n);
		if (!to) {
			*p = n ? PROGRESS_ROOM : PROGRESS_IDLE;
			return false;
		}
		memcpy(to, w->out + w->out_at, n);
		stream_data_end(a, s, WIRE_STDOUT, n);
		w->out_at += (uint32_t)n;
	}
	w->out_at = w->out_count = 0;
	return true;
}

static bool take_one(struct agent *a, struct watching *w)
{
	const struct inotify_event *e;

	if (w->at >= w->filled)
		return false;
	e = (const struct inotify_event *)(const void *)(w->bytes + w->at);
	w->at += (uint32_t)sizeof(*e) + e->len;
	watching_take(a, w, e);
	return true;
}

/* what the kernel has: 1, 0 when there is nothing (any more), negative errno */
static int read_events(struct agent *a, struct stream *s)
{
	struct watching *w = &s->u.watching;
	ssize_t n;

	if (!w->ready || a->now_us < w->due_us)
		return 0;
	do {
		n = read(w->fd, w->bytes, sizeof(w->bytes));
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		w->at = 0;
		w->filled = (uint32_t)n;
		return 1;
	}
	if (n == 0 || errno != EAGAIN)
		return n ? -errno : -EIO;
	w->ready = false;
	return agent_watch_again(a, s, w->fd, EPOLLIN | EPOLLONESHOT, 0);
}

/* 1 when something was done, 0 when there is nothing to do now, negative errno */
static int step(struct agent *a, struct stream *s)
{
	struct watching *w = &s->u.watching;
	struct wire_started started = {0};

	if (w->over)
		return 0;
	if (a->now_us >= w->end_us) {
		watching_over(w, "end timeout");
		return 0;
	}
	if (watching_read(w))
		return 1;
	if (!w->started) {
		w->started = true;
		stream_commit(
			a, wire_put_started(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &started));
		return 1;
	}
	if (take_one(a, w))
		return 1;
	if (w->moved && !w->ready && a->now_us >= w->moved_until_us) {
		watching_settle(w);
		return 1;
	}
	return read_events(a, s);
}

static enum progress watching_work(struct agent *a, struct stream *s)
{
	struct watching *w = &s->u.watching;
	enum progress p = PROGRESS_IDLE;
	int r = fs_as(s->uid, s->gid), steps = 0;

	for (; !r && steps < STEPS_AT_ONCE; steps++) {
		if (sizeof(w->out) - w->out_count < WATCHING_STEP && !flush(a, s, &p))
			break;
		r = step(a, s);
		if (r <= 0)
			break;
		r = 0;
	}
	fs_as_root();
	if (r < 0) {
		stream_fail(a, s, r, "watch %.300s", w->root);
		return PROGRESS_IDLE;
	}
	/* an end without a reader is an end all the same */
	if (!flush(a, s, &p) && !(w->over && p == PROGRESS_IDLE))
		return p;
	if (w->over) {
		stream_channel_end(a, s, WIRE_STDOUT);
		stream_done(a, s);
		return PROGRESS_IDLE;
	}
	return steps == STEPS_AT_ONCE ? PROGRESS_MORE : PROGRESS_IDLE;
}

static void watching_kill(struct agent *a, struct stream *s, uint32_t reason)
{
	watching_over(&s->u.watching, "end stopped");
	s->busy = true;
}

static void watching_release(struct agent *a, struct stream *s)
{
	watching_tree_end(&s->u.watching);
}

static const struct stream_class class_watching = {
	.name = "watch", .kill = watching_kill, .work = watching_work, .release = watching_release};

static bool is_watching(const struct stream *s)
{
	return s->class == &class_watching;
}

void watching_event(struct agent *a, struct stream *s)
{
	struct watching *w = &s->u.watching;

	if (!is_watching(s))
		return;
	w->ready = true;
	w->due_us = a->now_us + w->batch_us;
}

void watching_times(struct agent *a, struct stream *s)
{
	struct watching *w = &s->u.watching;
	uint64_t next;

	if (!is_watching(s) || w->over)
		return;
	next = w->end_us;
	if (w->ready && w->due_us < next)
		next = w->due_us;
	if (w->moved && w->moved_until_us < next)
		next = w->moved_until_us;
	if (a->now_us >= next)
		s->busy = true;
	else
		agent_wake_at(a, next);
}

static int copy_patterns(const struct wire_strs *from, char *to, uint32_t *size)
{
	const char *text;
	uint32_t at = 0;

	*size = 0;
	while ((text = wire_strs_next(from, &at))) {
		uint32_t n = (uint32_t)strlen(text) + 1;

		if (n > WIRE_WATCH_PATTERNS - *size)
			return -E2BIG;
		memcpy(to + *size, text, n);
		*size += n;
	}
	return 0;
}

static int begin(struct watching *w, const struct wire_watch *m)
{
	size_t n = m->path.count;
	int r;

	while (n && m->path.text[n - 1] == '/')
		n--;
	if (m->path.text[0] != '/')
		return -EINVAL;
	if (n >= sizeof(w->root))
		return -ENAMETOOLONG;
	memcpy(w->root, m->path.text, n);
	w->root[n] = 0;
	r = copy_patterns(&m->include, w->include, &w->include_size);
	r = r ? r : copy_patterns(&m->exclude, w->exclude, &w->exclude_size);
	return r ? r : watching_tree_begin(w);
}

void watching_begin(struct agent *a, struct stream *s, const struct wire_watch *m)
{
	struct watching *w = &s->u.watching;
	uint64_t timeout = m->timeout_ms < UINT64_MAX / 2000 ? m->timeout_ms : 0;
	int r;

	s->uid = m->uid;
	s->gid = m->gid;
	w->fd = -1;
	w->slot = WIRE_WATCHES_MOST;
	w->most = m->folders && m->folders < WIRE_WATCH_FOLDERS ? m->folders : WIRE_WATCH_FOLDERS;
	w->used = w->count = w->entries = 0;
	w->moved_index = WIRE_WATCH_FOLDERS;
	w->walk.depth = 0;
	w->recursive = m->flags & WIRE_RECURSIVE;
	w->unread = w->started = w->ready = w->over = w->limited = w->moved = false;
	w->events = m->events;
	w->batch_us = (uint64_t)m->batch_ms * 1000;
	w->end_us = timeout ? a->now_us + timeout * 1000 : UINT64_MAX;
	w->at = w->filled = w->out_at = w->out_count = 0;
	stream_start(s, &class_watching);
	r = fs_as(m->uid, m->gid);
	if (!r) {
		r = begin(w, m);
		fs_as_root();
	}
	if (!r)
		r = agent_watch(a, s, w->fd, EPOLLIN | EPOLLONESHOT, 0);
	if (r)
		stream_fail(a, s, r, "watch %.300s", m->path.text);
}
