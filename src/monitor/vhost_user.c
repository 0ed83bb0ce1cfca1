/* SPDX-License-Identifier: Apache-2.0 - the vhost-user protocol, see vhost_user.h. */
#include "monitor/vhost_user.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/virtio_config.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

/*
 * Theory of operation
 *
 * Messages come over a unix stream socket: a header of 12 bytes (request, flags, payload size) and
 * the payload, with file descriptors beside it. They are assembled byte by byte as they come, never
 * beyond the end of the message, so that descriptors stay with their message; a machine that sends
 * half a message just waits for itself. The table below says for each request how long its payload
 * is, whether a descriptor comes with it and who handles it; all else is a breach.
 *
 * Order: features, memory, then per queue size, base, addresses, descriptors, enable. A request
 * that needs an earlier one refuses without it. A queue that runs must be disabled before it is
 * changed, and all of them before memory is; new memory takes the queues' addresses away.
 *
 * File descriptors from the machine share their open file with it: it can make them block again
 * whenever it likes. So kicks come by eventfd and are read with RWF_NOWAIT, calls go to unix
 * sockets (which is what UML gives) with MSG_DONTWAIT, and O_NONBLOCK is relied on nowhere. A
 * descriptor is taken out of the epoll set before it is closed, because the machine's copy keeps
 * the registration alive. (An eventfd as call descriptor, which QEMU would give, can only be
 * written to blocking; it is refused until there is a way to signal it without.)
 */
enum request {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	RESET_OWNER = 4,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	GET_VRING_BASE = 11,
	SET_VRING_KICK = 12,
	SET_VRING_CALL = 13,
	SET_VRING_ERR = 14,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	GET_QUEUE_NUM = 17,
	SET_VRING_ENABLE = 18,
	SET_BACKEND_REQ_FD = 21,
	GET_CONFIG = 24,
	SET_CONFIG = 25,
	REQUEST_COUNT
};

#define HEADER           12u
#define FLAG_VERSION     1u
#define FLAG_VERSION_ALL 3u
#define FLAG_REPLY       4u
#define FLAG_NEED_REPLY  8u
#define FLAGS_KNOWN      15u
#define NO_FD            0x100u /* in SET_VRING_KICK, _CALL and _ERR: none comes with it */

#define F_PROTOCOL_FEATURES (UINT64_C(1) << 30)
#define FEATURES                                                                                   \
	((UINT64_C(1) << VIRTIO_F_VERSION_1) | (UINT64_C(1) << VIRTIO_RING_F_INDIRECT_DESC) |      \
		(UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX) | F_PROTOCOL_FEATURES)

#define P_MQ          (UINT64_C(1) << 0)
#define P_REPLY_ACK   (UINT64_C(1) << 3)
#define P_BACKEND_REQ (UINT64_C(1) << 5)
#define P_CONFIG      (UINT64_C(1) << 9)
#define PROTOCOL      (P_MQ | P_REPLY_ACK | P_BACKEND_REQ | P_CONFIG)

#define MESSAGES_PER_PUMP 64

enum tag { TAG_LISTEN, TAG_SOCKET, TAG_WAKE, TAG_KICK };

static_assert(offsetof(struct vhost_user_message, payload) == HEADER, "header is packed");

static void vfault(struct vhost_user *u, bool breach, const char *format, va_list ap)
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

static int watch(struct vhost_user *u, int fd, uint32_t events, uint32_t tag)
{
	struct epoll_event e = {.events = events, .data.u32 = tag};

	return epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void unwatch_close(struct vhost_user *u, int *fd)
{
	if (*fd < 0)
		return;
	epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
	close_fd(fd);
}

static void drop_fds(struct vhost_user *u)
{
	while (u->in_fd_count)
		close(u->in_fds[--u->in_fd_count]);
}

static int take_fd(struct vhost_user *u)
{
	return u->in_fds[--u->in_fd_count];
}

static bool is_unix_socket(int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

/* Without a file type: an eventfd or one of its kin. What is not an eventfd fails in read. */
static bool is_anonymous(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

/* --- replies --- */

static void flush(struct vhost_user *u)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = TAG_SOCKET};
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

static void reply(struct vhost_user *u, const void *payload, uint32_t size)
{
	uint32_t header[3] = {u->in.request, FLAG_VERSION | FLAG_REPLY, size};
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

static void reply_u64(struct vhost_user *u, uint64_t value)
{
	reply(u, &value, sizeof(value));
}

/* --- requests --- */

static uint32_t load32(const struct vhost_user *u, size_t at)
{
	uint32_t v;

	memcpy(&v, u->in.payload + at, sizeof(v));
	return v;
}

static uint64_t load64(const struct vhost_user *u, size_t at)
{
	uint64_t v;

	memcpy(&v, u->in.payload + at, sizeof(v));
	return v;
}

static bool any_enabled(const struct vhost_user *u)
{
	for (unsigned i = 0; i < VHOST_USER_QUEUES; i++) {
		if (u->queues[i].ring.enabled)
			return true;
	}
	return false;
}

/* The queue a request names; NULL after a breach. */
static struct vhost_user_queue *named_queue(struct vhost_user *u, uint64_t index)
{
	if (index < VHOST_USER_QUEUES)
		return &u->queues[index];
	vhost_user_breach(
		u, "request for queue %llu of %u", (unsigned long long)index, VHOST_USER_QUEUES);
	return NULL;
}

/* The same for one that changes the queue, which must not run. */
static struct vhost_user_queue *idle_queue(struct vhost_user *u)
{
	struct vhost_user_queue *q = named_queue(u, load32(u, 0));

	if (q && q->ring.enabled) {
		vhost_user_breach(u, "queue changed while it runs");
		return NULL;
	}
	return q;
}

static void get_features(struct vhost_user *u)
{
	reply_u64(u, FEATURES);
}

static void set_features(struct vhost_user *u)
{
	uint64_t features = load64(u, 0);

	if (features & ~FEATURES) {
		vhost_user_breach(u, "features that were not offered");
	} else if (!(features & (UINT64_C(1) << VIRTIO_F_VERSION_1))) {
		vhost_user_breach(u, "feature VERSION_1 is missing");
	} else if (any_enabled(u) && features != u->features) {
		vhost_user_breach(u, "features changed while a queue runs");
	} else {
		u->features = features;
		u->features_set = true;
		for (unsigned i = 0; i < VHOST_USER_QUEUES; i++)
			u->queues[i].ring.event_idx =
				(features >> VIRTIO_RING_F_EVENT_IDX & 1) != 0;
	}
}

static void get_protocol_features(struct vhost_user *u)
{
	reply_u64(u, PROTOCOL);
}

static void set_protocol_features(struct vhost_user *u)
{
	uint64_t features = load64(u, 0);

	if (features & ~PROTOCOL)
		vhost_user_breach(u, "protocol features that were not offered");
	else
		u->protocol_features = features;
}

static void get_queue_num(struct vhost_user *u)
{
	reply_u64(u, VHOST_USER_QUEUES);
}

static void ignore(struct vhost_user *u)
{
	(void)u;
}

static void set_mem_table(struct vhost_user *u)
{
	uint32_t count = load32(u, 0);
	struct error err = {0};

	if (count == 0 || count > GUEST_MEMORY_REGIONS || u->in.size != 8 + 32 * count) {
		vhost_user_breach(u, "memory table of a wrong size");
		return;
	}
	if (u->in_fd_count != count) {
		vhost_user_breach(u, "memory table of %u regions with %u file descriptors", count,
			u->in_fd_count);
		return;
	}
	if (any_enabled(u)) {
		vhost_user_breach(u, "memory changed while a queue runs");
		return;
	}
	for (unsigned i = 0; i < VHOST_USER_QUEUES; i++)
		virtqueue_displace(&u->queues[i].ring);
	guest_memory_clear(&u->memory);
	for (uint32_t i = 0; i < count; i++) {
		size_t at = 8 + 32 * (size_t)i;

		if (guest_memory_add(&u->memory, u->in_fds[i], load64(u, at), load64(u, at + 16),
			    load64(u, at + 8), load64(u, at + 24), &err)) {
			vhost_user_breach(u, "%s", error_message(&err));
			return;
		}
	}
}

static void set_vring_num(struct vhost_user *u)
{
	struct vhost_user_queue *q = idle_queue(u);
	uint32_t size = load32(u, 4);

	if (!q)
		return;
	if (size == 0 || size > VIRTQUEUE_SIZE_MOST || (size & (size - 1))) {
		vhost_user_breach(u, "queue of %u entries", size);
		return;
	}
	virtqueue_displace(&q->ring);
	q->ring.size = (uint16_t)size;
}

static void set_vring_addr(struct vhost_user *u)
{
	struct vhost_user_queue *q = idle_queue(u);

	if (!q)
		return;
	if (load32(u, 4))
		vhost_user_breach(u, "flags with ring addresses");
	else if (virtqueue_place(&q->ring, &u->memory, load64(u, 8), load64(u, 24), load64(u, 16)))
		vhost_user_breach(u, "%s", q->ring.fault);
}

static void set_vring_base(struct vhost_user *u)
{
	struct vhost_user_queue *q = idle_queue(u);

	if (!q)
		return;
	if (load32(u, 4) > UINT16_MAX)
		vhost_user_breach(u, "ring base out of range");
	else
		q->ring.next = (uint16_t)load32(u, 4);
}

/* Also stops the queue. */
static void get_vring_base(struct vhost_user *u)
{
	struct vhost_user_queue *q = named_queue(u, load32(u, 0));
	uint32_t state[2];

	if (!q)
		return;
	q->ring.enabled = false;
	virtqueue_displace(&q->ring);
	unwatch_close(u, &q->kick_fd);
	state[0] = load32(u, 0);
	state[1] = q->ring.next;
	reply(u, state, sizeof(state));
}

/* The queue of a message that brings a file descriptor, which is there when *with_fd. */
static struct vhost_user_queue *fd_queue(struct vhost_user *u, bool *with_fd)
{
	uint64_t v = load64(u, 0);

	*with_fd = !(v & NO_FD);
	if (u->in_fd_count != (*with_fd ? 1u : 0u)) {
		vhost_user_breach(
			u, "queue descriptor message with %u file descriptors", u->in_fd_count);
		return NULL;
	}
	return named_queue(u, v & ~(uint64_t)NO_FD);
}

static void set_vring_kick(struct vhost_user *u)
{
	bool with_fd;
	struct vhost_user_queue *q = fd_queue(u, &with_fd);

	if (!q)
		return;
	if (!with_fd || !is_anonymous(u->in_fds[0])) {
		vhost_user_breach(u, "kick without an eventfd");
		return;
	}
	unwatch_close(u, &q->kick_fd);
	q->kick_fd = take_fd(u);
	if (watch(u, q->kick_fd, EPOLLIN, TAG_KICK + (uint32_t)(q - u->queues)))
		vhost_user_breach(u, "kick descriptor cannot be waited for");
}

static void set_vring_call(struct vhost_user *u)
{
	bool with_fd;
	struct vhost_user_queue *q = fd_queue(u, &with_fd);

	if (!q)
		return;
	close_fd(&q->call_fd);
	if (!with_fd)
		return;
	if (is_unix_socket(u->in_fds[0]))
		q->call_fd = take_fd(u);
	else
		vhost_user_breach(u, "call descriptor is not a unix socket");
}

static void set_vring_err(struct vhost_user *u)
{
	bool with_fd;

	fd_queue(u, &with_fd);
}

static void set_vring_enable(struct vhost_user *u)
{
	struct vhost_user_queue *q = named_queue(u, load32(u, 0));
	uint32_t on = load32(u, 4);

	if (!q)
		return;
	if (on > 1)
		vhost_user_breach(u, "queue enabled with %u", on);
	else if (on && !u->features_set)
		vhost_user_breach(u, "queue enabled before the features were set");
	else if (on && !q->ring.desc)
		vhost_user_breach(u, "queue enabled before its addresses were set");
	else if (on && q->kick_fd < 0)
		vhost_user_breach(u, "queue enabled without a kick descriptor");
	else
		q->ring.enabled = on == 1;
	if (on && !u->ended)
		vhost_user_again(u); /* buffers may be there whose kick came too early */
}

static void set_backend_req_fd(struct vhost_user *u)
{
	if (u->in_fd_count != 1) {
		vhost_user_breach(u, "backend channel without its file descriptor");
		return;
	}
	close_fd(&u->backend_fd);
	if (is_unix_socket(u->in_fds[0]))
		u->backend_fd = take_fd(u);
	else
		vhost_user_breach(u, "backend channel is not a unix socket");
}

/* {offset, size, flags, bytes}: the same comes back with the bytes filled in, zeros beyond them */
static void get_config(struct vhost_user *u)
{
	uint8_t out[VHOST_USER_PAYLOAD_MAX];
	uint32_t offset = load32(u, 0), size = load32(u, 4);

	if (size != u->in.size - 12 || offset > 4096) {
		vhost_user_breach(u, "configuration read of a wrong size");
		return;
	}
	memset(out, 0, sizeof(out));
	memcpy(out, u->in.payload, 12);
	for (uint32_t i = 0; i < size; i++) {
		if ((size_t)offset + i < u->config_bytes)
			out[12 + i] = u->config[offset + i];
	}
	reply(u, out, u->in.size);
}

static const struct {
	void (*handle)(struct vhost_user *u);
	uint16_t size_least, size_most;
	bool takes_fds, replies;
} requests[REQUEST_COUNT] = {
	[GET_FEATURES] = {get_features, 0, 0, false, true},
	[SET_FEATURES] = {set_features, 8, 8, false, false},
	[SET_OWNER] = {ignore, 0, 0, false, false},
	[RESET_OWNER] = {ignore, 0, 0, false, false},
	[SET_MEM_TABLE] = {set_mem_table, 8, 8 + 32 * GUEST_MEMORY_REGIONS, true, false},
	[SET_VRING_NUM] = {set_vring_num, 8, 8, false, false},
	[SET_VRING_ADDR] = {set_vring_addr, 40, 40, false, false},
	[SET_VRING_BASE] = {set_vring_base, 8, 8, false, false},
	[GET_VRING_BASE] = {get_vring_base, 8, 8, false, true},
	[SET_VRING_KICK] = {set_vring_kick, 8, 8, true, false},
	[SET_VRING_CALL] = {set_vring_call, 8, 8, true, false},
	[SET_VRING_ERR] = {set_vring_err, 8, 8, true, false},
	[GET_PROTOCOL_FEATURES] = {get_protocol_features, 0, 0, false, true},
	[SET_PROTOCOL_FEATURES] = {set_protocol_features, 8, 8, false, false},
	[GET_QUEUE_NUM] = {get_queue_num, 0, 0, false, true},
	[SET_VRING_ENABLE] = {set_vring_enable, 8, 8, false, false},
	[SET_BACKEND_REQ_FD] = {set_backend_req_fd, 0, 8, true, false},
	[GET_CONFIG] = {get_config, 12, 12 + 256, false, true},
	[SET_CONFIG] = {ignore, 12, 12 + 256, false, false},
};

static bool header_is_right(struct vhost_user *u)
{
	uint32_t request = u->in.request;

	if ((u->in.flags & FLAG_VERSION_ALL) != FLAG_VERSION || (u->in.flags & ~FLAGS_KNOWN) ||
		(u->in.flags & FLAG_REPLY))
		vhost_user_breach(u, "message with flags 0x%x", u->in.flags);
	else if (request >= REQUEST_COUNT || !requests[request].handle)
		vhost_user_breach(u, "unknown vhost-user request %u", request);
	else if (u->in.size < requests[request].size_least ||
		 u->in.size > requests[request].size_most)
		vhost_user_breach(u, "vhost-user request %u with %u bytes", request, u->in.size);
	return !u->ended;
}

static void handle_message(struct vhost_user *u)
{
	uint32_t request = u->in.request;

	if (u->in_fd_count && !requests[request].takes_fds)
		vhost_user_breach(u, "vhost-user request %u with a file descriptor", request);
	else
		requests[request].handle(u);
	/* as it stands now: UML wants an answer to the very message that turns answers on */
	if ((u->in.flags & FLAG_NEED_REPLY) && (u->protocol_features & P_REPLY_ACK) && !u->ended &&
		!requests[request].replies)
		reply_u64(u, 0);
	drop_fds(u);
	u->in_bytes = 0;
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
	if (u->in_bytes == HEADER && !header_is_right(u))
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
		handle_message(u);
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
	unwatch_close(u, &u->listen_fd);
	u->fd = fd;
	if (watch(u, fd, EPOLLIN, TAG_SOCKET))
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
		case TAG_LISTEN:
			accept_machine(u);
			break;
		case TAG_SOCKET:
			if (events[i].events & EPOLLOUT)
				flush(u);
			if (events[i].events & ~(uint32_t)EPOLLOUT)
				read_messages(u);
			break;
		case TAG_WAKE:
			eventfd_read(u->wake_fd, &ignored);
			*kicked = (1u << VHOST_USER_QUEUES) - 1;
			break;
		default:
			/* a message before it may have taken this descriptor away */
			if (u->queues[tag - TAG_KICK].kick_fd < 0)
				break;
			read_kick(u, &u->queues[tag - TAG_KICK]);
			*kicked |= 1u << (tag - TAG_KICK);
		}
	}
	return vhost_user_alive(u) ? 0 : -ECONNRESET;
}

bool vhost_user_alive(struct vhost_user *u)
{
	if (guest_memory_lost(&u->memory))
		vhost_user_breach(u, "guest memory was cut short or its file system is full");
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
	r = watch(u, u->wake_fd, EPOLLIN, TAG_WAKE);
	if (!r)
		r = watch(u, listen_fd, EPOLLIN, TAG_LISTEN);
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
	drop_fds(u);
	for (unsigned i = 0; i < VHOST_USER_QUEUES; i++) {
		unwatch_close(u, &u->queues[i].kick_fd);
		close_fd(&u->queues[i].call_fd);
	}
	close_fd(&u->fd);
	close_fd(&u->listen_fd);
	close_fd(&u->backend_fd);
	guest_memory_fini(&u->memory);
	close_fd(&u->wake_fd);
	close_fd(&u->epoll_fd);
}
