/* SPDX-License-Identifier: Apache-2.0 - the requests of vhost-user, one handler each. */
#include "monitor/vhost_user_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

/*
 * The table at the end says for each request how long its payload is, whether descriptors come with
 * it and who handles it; all else is a breach.
 *
 * Order: features, memory, then per queue size, base, addresses, descriptors, enable. A request
 * that needs an earlier one refuses without it. A queue that runs must be disabled before it is
 * changed, and all of them before memory is; new memory takes the queues' addresses away.
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

#define FLAG_VERSION_ALL 3u
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

/* --- requests --- */

static void reply_u64(struct vhost_user *u, uint64_t value)
{
	vhost_user_reply(u, &value, sizeof(value));
}

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
		int r = guest_memory_add(&u->memory, u->in_fds[i], load64(u, at),
			load64(u, at + 16), load64(u, at + 8), load64(u, at + 24), &err);

		if (r == -ENOMEM) /* our limits, not its fault */
			vhost_user_end(u, "%s", error_message(&err));
		else if (r)
			vhost_user_breach(u, "%s", error_message(&err));
		if (r)
			return;
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
	vhost_user_unwatch(u, &q->kick_fd);
	state[0] = load32(u, 0);
	state[1] = q->ring.next;
	vhost_user_reply(u, state, sizeof(state));
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
	vhost_user_unwatch(u, &q->kick_fd);
	q->kick_fd = take_fd(u);
	if (vhost_user_watch(
		    u, q->kick_fd, EPOLLIN, VHOST_USER_TAG_KICK + (uint32_t)(q - u->queues)))
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
	vhost_user_reply(u, out, u->in.size);
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

bool vhost_user_header_is_right(struct vhost_user *u)
{
	uint32_t request = u->in.request;

	if ((u->in.flags & FLAG_VERSION_ALL) != VHOST_USER_VERSION ||
		(u->in.flags & ~FLAGS_KNOWN) || (u->in.flags & VHOST_USER_REPLY))
		vhost_user_breach(u, "message with flags 0x%x", u->in.flags);
	else if (request >= REQUEST_COUNT || !requests[request].handle)
		vhost_user_breach(u, "unknown vhost-user request %u", request);
	else if (u->in.size < requests[request].size_least ||
		 u->in.size > requests[request].size_most)
		vhost_user_breach(u, "vhost-user request %u with %u bytes", request, u->in.size);
	return !u->ended;
}

void vhost_user_handle(struct vhost_user *u)
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
	vhost_user_drop_fds(u);
	u->in_bytes = 0;
}
