/* SPDX-License-Identifier: Apache-2.0 - the vhost-user protocol, see vhost_user.h. */
#include "monitor/vhost_user_internal.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * Theory of operation
 *
 * Messages come over a unix stream socket: a header of 12 bytes (request, flags, payload size) and
 * the payload, with file descriptors beside it. They are assembled byte by byte as they come, never
 * beyond the end of the message, so that descriptors stay with their message; a machine that sends
 * half a message just waits for itself. vhost_user_requests.c knows what the messages mean.
 *
 * File descriptors from the machine share their open file with it: it can make them block again
 * whenever it likes. So kicks come by eventfd and are read with RWF_NOWAIT, calls go to unix
 * sockets (which is what UML gives) with MSG_DONTWAIT, and O_NONBLOCK is relied on nowhere. A
 * descriptor is taken out of the epoll set before it is closed, because the machine's copy keeps
 * the registration alive. (An eventfd as call descriptor, which QEMU would give, can only be
 * written to blocking; it is refused until there is a way to signal it without.)
 */
#define HEADER            VHOST_USER_HEADER
#define MESSAGES_PER_PUMP 64
#define LOST              "guest memory was cut short or its file system is full"

static_assert(offsetof(struct vhost_user_message, payload) == HEADER, "header is packed");

__attribute__((format(printf, 3, 0))) static void vfault(
	struct vhost_user *u, bool breach, const char *format, va_list ap)
{
	if (u->ended)
		return;
	u->ended = true;
	u->breach = breach;
	vsnprintf(u->fault, sizeof(u->fault), format, ap);
	vhost_user_again(u);
}

void vhost_user_breach(struct vhost_user *u, const char *format, ...)
{
	va_list ap;

	/* lost memory reads as zeros, which then look like a breach of another kind */
	if (guest_memory_lost(&u->memory))
		format = LOST;
	va_start(ap, format);
	vfault(u, true, format, ap);
	va_end(ap);
}

void vhost_user_end(struct vhost_user *u, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfault(u, false, format, ap);
	va_end(ap);
}

void vhost_user_again(struct vhost_user *u)
{
	eventfd_write(u->wake_fd, 1); /* ours alone: its count never nears the top */
}

/* --- file descriptors --- */

int vhost_user_watch(struct vhost_user *u, int fd, uint32_t events, uint32_t tag)
{
	struct epoll_event e = {.events = events, .data.u32 = tag};

	return epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

void vhost_user_unwatch(struct vhost_user *u, int *fd)
{
	if (*fd < 0)
		return;
	epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
	close_fd(fd);
}

void vhost_user_drop_fds(struct vhost_user *u)
{
	while (u->in_fd_count)
		close(u->in_fds[--u->in_fd_count]);
}

/* --- replies --- */

static void flush(struct vhost_user *u)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = VHOST_USER_TAG_SOCKET};
	ssize_t n = send(u->fd, u->out, u->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		vhost_user_end(u, "the machine is gone");
		return;
	}
	if (n > 0) {
		u->out_bytes -= (size_t)n;
		memmove(u->out, u->out + n, u->out_bytes);
	}
	if (u->out_bytes)
		e.events |= EPOLLOUT;
	epoll_ctl(u->epoll_fd, EPOLL_CTL_MOD, u->fd, &e);
}

void vhost_user_reply(struct vhost_user *u, const void *payload, uint32_t size)
{
	uint32_t header[3] = {u->in.request, VHOST_USER_VERSION | VHOST_USER_REPLY, size};
	ssize_t n = 0;

	if (u->out_bytes + HEADER + size > sizeof(u->out)) {
		vhost_user_breach(u, "the machine does not read its replies");
		return;
	}
	memcpy(u->out + u->out_bytes, header, HEADER);
	memcpy(u->out + u->out_bytes + HEADER, payload, size);
	u->out_bytes += HEADER + size;
	/* nearly always all of it goes at once, without the epoll set's help */
	if (u->out_bytes == HEADER + size)
		n = send(u->fd, u->out, u->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n == (ssize_t)u->out_bytes) {
		u->out_bytes = 0;
		return;
	}
	if (n > 0) {
		u->out_bytes -= (size_t)n;
		memmove(u->out, u->out + n, u->out_bytes);
	}
	flush(u);
}

/* Keep the descriptors that came, up to the limit; more of them are a breach. */
static void collect_fds(struct vhost_user *u, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (u->in_fd_count < VHOST_USER_FDS) {
				u->in_fds[u->in_fd_count++] = fd;
			} else {
				close(fd);
				vhost_user_breach(u, "too many file descriptors in a message");
			}
		}
	}
	if (m->msg_flags & MSG_CTRUNC) /* the kernel closed those that had no room */
		vhost_user_breach(u, "too many file descriptors in a message");
}

/* Receive towards the end of the current message. 1 when it is whole, 0 when more must come. */
static int receive(struct vhost_user *u)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * VHOST_USER_FDS)];
		struct cmsghdr align;
	} control;
	size_t want = u->in_bytes < HEADER ? HEADER : HEADER + u->in.size;
	struct iovec io = {(uint8_t *)&u->in + u->in_bytes, want - u->in_bytes};
	struct msghdr m = {.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space)};
	ssize_t n = recvmsg(u->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			vhost_user_end(u, "the machine is gone");
		return -EAGAIN;
	}
	collect_fds(u, &m);
	if (n == 0) {
		vhost_user_end(u, "the machine closed its connection");
		return -EAGAIN;
	}
	u->in_bytes += (size_t)n;
	if (u->in_bytes < HEADER || u->ended)
		return 0;
	if (u->in_bytes == HEADER && !vhost_user_header_is_right(u))
		return 0;
	return u->in_bytes == HEADER + u->in.size;
}

static void read_messages(struct vhost_user *u)
{
	for (int left = MESSAGES_PER_PUMP; left > 0 && !u->ended;) {
		int r = receive(u);

		if (r < 0)
			return;
		if (r == 0)
			continue;
		vhost_user_handle(u);
		left--;
	}
}

/* --- events --- */

static void accept_machine(struct vhost_user *u)
{
	int fd = accept4(u->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			vhost_user_end(u, "cannot accept the machine: %s", strerror(errno));
		return;
	}
	vhost_user_unwatch(u, &u->listen_fd);
	u->fd = fd;
	if (vhost_user_watch(u, fd, EPOLLIN, VHOST_USER_TAG_SOCKET))
		vhost_user_end(u, "cannot wait for the machine: %s", strerror(errno));
}

/* Empty the kick's count; whether the machine made its file block does not matter. */
static void read_kick(struct vhost_user *u, struct vhost_user_queue *q)
{
	uint64_t count;
	struct iovec io = {&count, sizeof(count)};
	ssize_t n = preadv2(q->kick_fd, &io, 1, -1, RWF_NOWAIT);

	if (n != sizeof(count) && (n >= 0 || (errno != EAGAIN && errno != EINTR)))
		vhost_user_breach(u, "kick descriptor is not an eventfd");
}

int vhost_user_pump(struct vhost_user *u, unsigned *kicked)
{
	struct epoll_event events[8];
	eventfd_t ignored;
	int n;

	*kicked = 0;
	if (u->ended)
		return -ECONNRESET;
	n = epoll_wait(u->epoll_fd, events, ARRAY_SIZE(events), 0);
	for (int i = 0; i < n && !u->ended; i++) {
		uint32_t tag = events[i].data.u32;

		switch (tag) {
		case VHOST_USER_TAG_LISTEN:
			accept_machine(u);
			break;
		case VHOST_USER_TAG_SOCKET:
			if (events[i].events & EPOLLOUT)
				flush(u);
			if (events[i].events & ~(uint32_t)EPOLLOUT)
				read_messages(u);
			break;
		case VHOST_USER_TAG_WAKE:
			eventfd_read(u->wake_fd, &ignored);
			*kicked = (1u << VHOST_USER_QUEUES) - 1;
			break;
		default:
			/* a message before it may have taken this descriptor away */
			if (u->queues[tag - VHOST_USER_TAG_KICK].kick_fd < 0)
				break;
			read_kick(u, &u->queues[tag - VHOST_USER_TAG_KICK]);
			*kicked |= 1u << (tag - VHOST_USER_TAG_KICK);
		}
	}
	return vhost_user_alive(u) ? 0 : -ECONNRESET;
}

bool vhost_user_alive(struct vhost_user *u)
{
	if (guest_memory_lost(&u->memory))
		vhost_user_breach(u, LOST);
	return !u->ended;
}

int vhost_user_pop(struct vhost_user *u, unsigned index, bool writable, struct virtqueue_chain *out)
{
	struct virtqueue *q = &u->queues[index].ring;
	int r;

	if (u->ended)
		return 0;
	r = virtqueue_pop(q, &u->memory, writable, out);
	if (r < 0)
		vhost_user_breach(u, "queue %u: %s", index, q->fault);
	return vhost_user_alive(u) && r > 0;
}

void vhost_user_publish(struct vhost_user *u, unsigned index)
{
	struct vhost_user_queue *q = &u->queues[index];
	uint64_t one = 1;

	if (!virtqueue_publish(&q->ring) || q->call_fd < 0)
		return;
	/* a full socket has calls enough in it; a closed one is told by the connection itself */
	if (send(q->call_fd, &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		errno != EAGAIN && errno != EINTR)
		close_fd(&q->call_fd);
}

/* --- life --- */

int vhost_user_init(struct vhost_user *u, int listen_fd, const void *config, size_t config_bytes,
	struct error *err)
{
	int r;

	*u = (struct vhost_user){
		.epoll_fd = -1, .listen_fd = listen_fd, .fd = -1, .wake_fd = -1, .backend_fd = -1};
	for (unsigned i = 0; i < VHOST_USER_QUEUES; i++)
		u->queues[i].kick_fd = u->queues[i].call_fd = -1;
	memcpy(u->config, config, config_bytes);
	u->config_bytes = config_bytes;
	r = guest_memory_init(&u->memory, err);
	if (r)
		goto fail;
	u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	u->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (u->epoll_fd < 0 || u->wake_fd < 0 ||
		fcntl(listen_fd, F_SETFL, O_NONBLOCK) /* ours: a vanished peer must not block */
		|| fcntl(listen_fd, F_SETFD, FD_CLOEXEC)) {
		r = error_sys(err, errno, "vhost-user backend");
		goto fail;
	}
	r = vhost_user_watch(u, u->wake_fd, EPOLLIN, VHOST_USER_TAG_WAKE);
	if (!r)
		r = vhost_user_watch(u, listen_fd, EPOLLIN, VHOST_USER_TAG_LISTEN);
	if (r) {
		error_sys(err, r, "vhost-user backend");
		goto fail;
	}
	return 0;
fail:
	vhost_user_fini(u);
	return r;
}

void vhost_user_fini(struct vhost_user *u)
{
	vhost_user_drop_fds(u);
	for (unsigned i = 0; i < VHOST_USER_QUEUES; i++) {
		vhost_user_unwatch(u, &u->queues[i].kick_fd);
		close_fd(&u->queues[i].call_fd);
	}
	close_fd(&u->fd);
	close_fd(&u->listen_fd);
	close_fd(&u->backend_fd);
	guest_memory_fini(&u->memory);
	close_fd(&u->wake_fd);
	close_fd(&u->epoll_fd);
}
