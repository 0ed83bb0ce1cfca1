/* SPDX-License-Identifier: Apache-2.0 - the one vsock connection of a machine, see vsock.h. */
#include "monitor/vsock.h"

#include "monitor/vhost_user.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/virtio_vsock.h>
#include <stdlib.h>
#include <string.h>

/*
 * Theory of operation
 *
 * The guest's kernel puts packets (a header of 44 bytes and data) into the tx queue and empty
 * buffers into the rx queue; the event queue stays unused. We answer a REQUEST to our port with
 * RESPONSE, once; every other packet that belongs to no connection of ours is answered with RST.
 *
 *	WAITING --REQUEST--> ANSWERING --RESPONSE sent--> OPEN --SHUTDOWN, RST--> ended
 *
 * Credit: each header tells how large its sender's receive buffer is (buf_alloc) and how many bytes
 * its reader took in all (fwd_cnt); the other side may have buf_alloc bytes sent and not taken.
 * The counters are 32 bits and wrap. Our buffer is the ring below, so a guest that keeps to its
 * credit always finds room and one that does not is cut off. Linux guests use at most 256 KiB of
 * it, so we tell what was taken at least every 64 KiB or a guest that only sends would stall.
 *
 * Control packets wait as flags and in a short list until the guest has a buffer for them. When the
 * list is full, RSTs are dropped: programs in the guest that connect to nowhere in a loop then wait
 * for their kernel's timeout, and nobody else does.
 */
enum queue { QUEUE_RX, QUEUE_TX, QUEUE_EVENT };

#define CID_HOST         2u
#define RING_BYTES       (1u << 20) /* the receive window of the guest */
#define CREDIT_STEP      (64u << 10)
#define RSTS_MOST        64u
#define PACKETS_PER_PUMP 128

static_assert(QUEUE_EVENT + 1 == VHOST_USER_QUEUES, "the queues of a vsock device");

enum state { WAITING, ANSWERING, OPEN };

struct rst {
	uint64_t from_cid;
	uint32_t from_port, to_port;
	uint16_t type;
};

struct vsock {
	struct vhost_user user;
	uint64_t guest_cid;
	uint32_t port, peer_port;
	enum state state;
	uint32_t peer_alloc, peer_taken; /* the guest's buffer, and what its reader took */
	uint32_t sent;
	uint32_t taken, taken_told; /* what our reader took, and the last the guest heard of it */
	bool owes_credit;
	struct rst rsts[RSTS_MOST];
	unsigned rst_first, rst_count;
	uint8_t *ring;
	size_t ring_start, ring_count;
};

int vsock_new(
	int listen_fd, uint64_t guest_cid, uint32_t port, struct vsock **out, struct error *err)
{
	uint64_t cid_le = htole64(guest_cid);
	struct vsock *v = calloc(1, sizeof(*v));
	int r;

	*out = NULL;
	if (v)
		v->ring = malloc(RING_BYTES);
	if (!v || !v->ring) {
		free(v);
		close(listen_fd);
		return error_set(err, -ENOMEM, "no memory for a channel");
	}
	v->guest_cid = guest_cid;
	v->port = port;
	r = vhost_user_init(&v->user, listen_fd, &cid_le, sizeof(cid_le), err);
	if (r) {
		free(v->ring);
		free(v);
		return r;
	}
	*out = v;
	return 0;
}

void vsock_free(struct vsock *v)
{
	if (!v)
		return;
	vhost_user_fini(&v->user);
	free(v->ring);
	free(v);
}

int vsock_fd(const struct vsock *v)
{
	return v->user.epoll_fd;
}

/* --- to the guest --- */

static struct virtio_vsock_hdr header(struct vsock *v, uint16_t op, uint32_t length)
{
	v->taken_told = v->taken;
	return (struct virtio_vsock_hdr){.src_cid = htole64(CID_HOST),
		.dst_cid = htole64(v->guest_cid),
		.src_port = htole32(v->port),
		.dst_port = htole32(v->peer_port),
		.len = htole32(length),
		.type = htole16(VIRTIO_VSOCK_TYPE_STREAM),
		.op = htole16(op),
		.buf_alloc = htole32(RING_BYTES),
		.fwd_cnt = htole32(v->taken)};
}

static struct virtio_vsock_hdr rst_header(struct vsock *v)
{
	const struct rst *r = &v->rsts[v->rst_first];
	struct virtio_vsock_hdr h = {.src_cid = htole64(r->from_cid),
		.dst_cid = htole64(v->guest_cid),
		.src_port = htole32(r->from_port),
		.dst_port = htole32(r->to_port),
		.type = htole16(r->type),
		.op = htole16(VIRTIO_VSOCK_OP_RST)};

	v->rst_first = (v->rst_first + 1) % RSTS_MOST;
	v->rst_count--;
	return h;
}

static bool owes_control(const struct vsock *v)
{
	return v->state == ANSWERING || v->owes_credit || v->rst_count;
}

/* Put control packets into the guest's buffers, as far as there are any. */
static void flush_control(struct vsock *v)
{
	struct virtqueue *q = &v->user.queues[QUEUE_RX].ring;
	struct virtqueue_chain c;
	struct virtio_vsock_hdr h;
	bool published = true;

	while (owes_control(v)) {
		if (!vhost_user_pop(&v->user, QUEUE_RX, true, &c)) {
			if (!published)
				vhost_user_publish(&v->user, QUEUE_RX);
			published = true;
			if (v->user.ended || !virtqueue_arm(q))
				return;
			continue;
		}
		if (c.bytes < sizeof(h)) {
			vhost_user_breach(&v->user, "receive buffer smaller than a header");
			return;
		}
		if (v->state == ANSWERING) {
			h = header(v, VIRTIO_VSOCK_OP_RESPONSE, 0);
			v->state = OPEN;
		} else if (v->rst_count) {
			h = rst_header(v);
		} else {
			h = header(v, VIRTIO_VSOCK_OP_CREDIT_UPDATE, 0);
			v->owes_credit = false;
		}
		virtqueue_chain_write(&c, 0, &h, sizeof(h));
		virtqueue_push(q, c.head, sizeof(h));
		published = false;
	}
	if (!published)
		vhost_user_publish(&v->user, QUEUE_RX);
}

/* Bytes the guest still has room for. A buffer that shrank may leave less than nothing. */
static size_t credit(const struct vsock *v)
{
	uint32_t in_flight = v->sent - v->peer_taken;

	return v->peer_alloc > in_flight ? v->peer_alloc - in_flight : 0;
}

bool vsock_connected(const struct vsock *v)
{
	return v->state == OPEN && !v->user.ended;
}

size_t vsock_write(struct vsock *v, const void *bytes, size_t count)
{
	struct virtqueue *q = &v->user.queues[QUEUE_RX].ring;
	struct virtqueue_chain c;
	struct virtio_vsock_hdr h;
	size_t done = 0, n;
	bool published = true;

	if (!vsock_connected(v) || owes_control(v))
		return 0;
	while (done < count && credit(v)) {
		if (!vhost_user_pop(&v->user, QUEUE_RX, true, &c)) {
			if (!published)
				vhost_user_publish(&v->user, QUEUE_RX);
			published = true;
			/* the guest fills up in batches and kicks at the end of each */
			if (v->user.ended || !virtqueue_arm(q))
				break;
			continue;
		}
		if (c.bytes <= sizeof(h)) {
			vhost_user_breach(&v->user, "receive buffer without room for data");
			break;
		}
		n = c.bytes - sizeof(h);
		if (n > count - done)
			n = count - done;
		if (n > credit(v))
			n = credit(v);
		h = header(v, VIRTIO_VSOCK_OP_RW, (uint32_t)n);
		virtqueue_chain_write(&c, 0, &h, sizeof(h));
		virtqueue_chain_write(&c, sizeof(h), (const uint8_t *)bytes + done, n);
		virtqueue_push(q, c.head, (uint32_t)(sizeof(h) + n));
		published = false;
		done += n;
		v->sent += (uint32_t)n;
	}
	if (!published)
		vhost_user_publish(&v->user, QUEUE_RX);
	return done;
}

/* --- from the guest --- */

static void answer_rst(struct vsock *v, const struct virtio_vsock_hdr *h)
{
	if (le16toh(h->op) == VIRTIO_VSOCK_OP_RST || v->rst_count == RSTS_MOST)
		return;
	v->rsts[(v->rst_first + v->rst_count++) % RSTS_MOST] =
		(struct rst){.from_cid = le64toh(h->dst_cid),
			.from_port = le32toh(h->dst_port),
			.to_port = le32toh(h->src_port),
			.type = le16toh(h->type)};
}

/* Copy the data behind the header into the ring. */
static void receive_data(struct vsock *v, const struct virtqueue_chain *c, size_t count)
{
	size_t at = (v->ring_start + v->ring_count) % RING_BYTES, first = RING_BYTES - at;

	if (count > RING_BYTES - v->ring_count) {
		vhost_user_breach(&v->user, "the guest sent more than its credit");
		return;
	}
	if (first > count)
		first = count;
	virtqueue_chain_read(c, sizeof(struct virtio_vsock_hdr), v->ring + at, first);
	virtqueue_chain_read(c, sizeof(struct virtio_vsock_hdr) + first, v->ring, count - first);
	v->ring_count += count;
}

static void closed_by_guest(struct vsock *v, const char *how)
{
	flush_control(v); /* the guest's close waits for the RST, if there is one */
	vhost_user_end(&v->user, "%s", how);
}

/* A packet of the connection. */
static void handle_connected(
	struct vsock *v, const struct virtio_vsock_hdr *h, const struct virtqueue_chain *c)
{
	v->peer_alloc = le32toh(h->buf_alloc);
	v->peer_taken = le32toh(h->fwd_cnt);
	if (v->sent - v->peer_taken > INT32_MAX) {
		vhost_user_breach(&v->user, "the guest took more than was sent");
		return;
	}
	switch (le16toh(h->op)) {
	case VIRTIO_VSOCK_OP_RW:
		receive_data(v, c, le32toh(h->len));
		break;
	case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		v->owes_credit = true;
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		/* the agent never closes one half: nothing is to come after either */
		answer_rst(v, h);
		closed_by_guest(v, "the guest closed its connection");
		break;
	case VIRTIO_VSOCK_OP_RST:
		closed_by_guest(v, "the guest reset its connection");
		break;
	default:
		vhost_user_breach(
			&v->user, "packet with operation %u on the connection", le16toh(h->op));
	}
}

static void handle_packet(struct vsock *v, const struct virtqueue_chain *c)
{
	struct virtio_vsock_hdr h;
	bool for_us;

	if (virtqueue_chain_read(c, 0, &h, sizeof(h)) != sizeof(h)) {
		vhost_user_breach(&v->user, "packet shorter than a header");
		return;
	}
	if (le32toh(h.len) > c->bytes - sizeof(h)) {
		vhost_user_breach(&v->user, "packet longer than its buffer");
		return;
	}
	if (le64toh(h.src_cid) != v->guest_cid)
		return; /* nobody of ours would hear the answer */
	for_us = le64toh(h.dst_cid) == CID_HOST && le32toh(h.dst_port) == v->port &&
		 le16toh(h.type) == VIRTIO_VSOCK_TYPE_STREAM;
	if (for_us && v->state == WAITING && le16toh(h.op) == VIRTIO_VSOCK_OP_REQUEST) {
		v->state = ANSWERING;
		v->peer_port = le32toh(h.src_port);
		v->peer_alloc = le32toh(h.buf_alloc);
		v->peer_taken = v->sent = le32toh(h.fwd_cnt);
	} else if (for_us && v->state != WAITING && le32toh(h.src_port) == v->peer_port) {
		handle_connected(v, &h, c);
	} else {
		answer_rst(v, &h);
	}
}

/* Take packets, at most so many; what is left is for the next pump. */
static void receive(struct vsock *v)
{
	struct virtqueue *q = &v->user.queues[QUEUE_TX].ring;
	struct virtqueue_chain c;
	bool published = true;

	for (int left = PACKETS_PER_PUMP; vhost_user_alive(&v->user); left--) {
		if (left == 0) {
			vhost_user_again(&v->user);
			break;
		}
		if (!vhost_user_pop(&v->user, QUEUE_TX, false, &c)) {
			if (!published)
				vhost_user_publish(&v->user, QUEUE_TX);
			published = true;
			if (!virtqueue_arm(q))
				break;
			continue;
		}
		handle_packet(v, &c);
		virtqueue_push(q, c.head, 0);
		published = false;
	}
	if (!published)
		vhost_user_publish(&v->user, QUEUE_TX);
}

int vsock_pump(struct vsock *v)
{
	unsigned kicked;

	if (vhost_user_pump(&v->user, &kicked))
		return -ECONNRESET;
	if (kicked & 1u << QUEUE_TX)
		receive(v);
	flush_control(v);
	return vhost_user_alive(&v->user) ? 0 : -ECONNRESET;
}

/* --- what was received --- */

size_t vsock_peek(const struct vsock *v, const uint8_t **bytes)
{
	size_t first = RING_BYTES - v->ring_start;

	*bytes = v->ring + v->ring_start;
	return v->ring_count < first ? v->ring_count : first;
}

size_t vsock_available(const struct vsock *v)
{
	return v->ring_count;
}

void vsock_copy(const struct vsock *v, size_t offset, void *out, size_t count)
{
	size_t at = (v->ring_start + offset) % RING_BYTES, first = RING_BYTES - at;

	if (first > count)
		first = count;
	memcpy(out, v->ring + at, first);
	memcpy((uint8_t *)out + first, v->ring, count - first);
}

void vsock_consume(struct vsock *v, size_t count)
{
	if (count > v->ring_count)
		count = v->ring_count;
	v->ring_count -= count;
	/* an empty ring starts anew, so that a quiet connection touches little memory */
	v->ring_start = v->ring_count ? (v->ring_start + count) % RING_BYTES : 0;
	v->taken += (uint32_t)count;
	if (v->taken - v->taken_told >= CREDIT_STEP && vsock_connected(v)) {
		v->owes_credit = true;
		flush_control(v);
	}
}

const char *vsock_fault(const struct vsock *v)
{
	return v->user.ended ? v->user.fault : NULL;
}

bool vsock_was_breach(const struct vsock *v)
{
	return v->user.ended && v->user.breach;
}
