/* SPDX-License-Identifier: Apache-2.0 - a guest in this process, see driver.h. */
#include "driver.h"

#include "base/cleanup.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RING_AREA  0x10000u /* of the memory, for each queue */
#define TABLE_AREA 0x1000u  /* inside it: an indirect table for each tx descriptor */
#define DATA_AREA  0x80000u

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #condition);        \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static uint32_t ring_at(unsigned queue)
{
	return RING_AREA * (queue + 1);
}

static void place_queue(struct driver *d, unsigned queue)
{
	struct driver_queue *q = &d->queues[queue];
	uint8_t *p = d->memory + ring_at(queue);
	int pair[2];

	q->desc = (void *)p;
	q->avail = (void *)(p + 0x2000);
	q->used = (void *)(p + 0x3000);
	q->kick = q->kick_theirs = eventfd(0, EFD_CLOEXEC);
	must(q->kick >= 0);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	q->call = pair[0];
	q->call_theirs = pair[1];
}

void driver_start(struct driver *d, uint16_t queue_size)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t length = sizeof(name);
	struct error err = {0};
	int fd, pair[2];

	*d = (struct driver){.size = queue_size,
		.pieces = 1,
		.window = DRIVER_WINDOW,
		.features = driver_features()};
	/* bound to a name of the kernel's choice */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && bind(fd, (void *)&name, sizeof(name.sun_family)) == 0);
	must(listen(fd, 4) == 0 && getsockname(fd, (void *)&name, &length) == 0);
	must(vsock_new(fd, DRIVER_CID, DRIVER_PORT, &d->vsock, &err) == 0);
	d->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(d->sock >= 0 && connect(d->sock, (void *)&name, length) == 0);

	d->memory_fd = memfd_create("guest", MFD_CLOEXEC);
	must(d->memory_fd >= 0 && ftruncate(d->memory_fd, DRIVER_MEMORY) == 0);
	d->memory = mmap(NULL, DRIVER_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, d->memory_fd, 0);
	must(d->memory != MAP_FAILED);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	d->backend = pair[0];
	d->backend_theirs = pair[1];
	for (unsigned i = 0; i < DRIVER_QUEUES; i++)
		place_queue(d, i);
}

void driver_stop(struct driver *d)
{
	vsock_free(d->vsock);
	close_fd(&d->sock);
	close_fd(&d->memory_fd);
	close_fd(&d->backend);
	close_fd(&d->backend_theirs);
	munmap(d->memory, DRIVER_MEMORY);
	for (unsigned i = 0; i < DRIVER_QUEUES; i++) {
		close_fd(&d->queues[i].kick);
		close_fd(&d->queues[i].call);
		close_fd(&d->queues[i].call_theirs);
	}
}

int driver_message(struct driver *d, uint32_t request, uint32_t flags, const void *payload,
	uint32_t size, const int *fds, unsigned fd_count)
{
	uint32_t header[3] = {request, flags, size};
	union {
		char space[CMSG_SPACE(16 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec io[2] = {{header, sizeof(header)}, {(void *)(uintptr_t)payload, size}};
	struct msghdr m = {.msg_iov = io, .msg_iovlen = 2};

	must(fd_count <= 16);
	if (fd_count) {
		struct cmsghdr *c;

		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	}
	return sendmsg(d->sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)(12 + size) ? 0 : -1;
}

void driver_piece(struct driver *d, const void *bytes, size_t count, int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec io = {(void *)(uintptr_t)bytes, count};
	struct msghdr m = {.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	must(sendmsg(d->sock, &m, MSG_NOSIGNAL) == (ssize_t)count);
}

int driver_u64(struct driver *d, uint32_t request, uint64_t value)
{
	return driver_message(d, request, 1, &value, sizeof(value), NULL, 0);
}

int driver_state(struct driver *d, uint32_t request, uint32_t index, uint32_t value)
{
	uint32_t state[2] = {index, value};

	return driver_message(d, request, 1, state, sizeof(state), NULL, 0);
}

int driver_fd(struct driver *d, uint32_t request, uint32_t index, int fd)
{
	uint64_t value = index;

	return driver_message(d, request, 1, &value, sizeof(value), &fd, 1);
}

bool driver_wakes(const struct driver *d)
{
	struct pollfd p = {.fd = vsock_fd(d->vsock), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

int driver_pump(struct driver *d)
{
	int r = 0;

	for (int i = 0; i < 1000 && !r && driver_wakes(d); i++)
		r = vsock_pump(d->vsock);
	return r;
}

int driver_reply(struct driver *d, void *out, size_t size)
{
	uint32_t header[3];

	driver_pump(d);
	if (recv(d->sock, header, sizeof(header), MSG_DONTWAIT) != sizeof(header))
		return -1;
	must(header[1] == 5 && header[2] <= size);
	must(recv(d->sock, out, header[2], MSG_DONTWAIT) == (ssize_t)header[2]);
	return (int)header[2];
}

uint64_t driver_features(void)
{
	return UINT64_C(1) << 32 | UINT64_C(1) << 30 | UINT64_C(1) << 29 | UINT64_C(1) << 28;
}

void driver_mem_table(struct driver *d)
{
	/* the first page stays outside, so that offsets are not all zero */
	struct {
		uint32_t count, padding;
		uint64_t guest, size, user, offset;
	} t = {1, 0, DRIVER_GUEST + 0x1000, DRIVER_MEMORY - 0x1000, DRIVER_USER + 0x1000, 0x1000};

	driver_message(d, SET_MEM_TABLE, 1, &t, sizeof(t), &d->memory_fd, 1);
}

void driver_ring(struct driver *d, unsigned queue)
{
	uint64_t base = DRIVER_USER + ring_at(queue);
	struct {
		uint32_t index, flags;
		uint64_t desc, used, avail, log;
	} a = {queue, 0, base, base + 0x3000, base + 0x2000, UINT64_MAX};

	driver_state(d, SET_VRING_NUM, queue, d->size);
	driver_state(d, SET_VRING_BASE, queue, 0);
	driver_message(d, SET_VRING_ADDR, 1, &a, sizeof(a), NULL, 0);
	driver_fd(d, SET_VRING_CALL, queue, d->queues[queue].call_theirs);
	driver_fd(d, SET_VRING_KICK, queue, d->queues[queue].kick_theirs);
}

void driver_setup(struct driver *d, uint32_t part_bytes)
{
	uint64_t features = 0;

	driver_message(d, SET_OWNER, 1, NULL, 0, NULL, 0);
	driver_message(d, GET_FEATURES, 1, NULL, 0, NULL, 0);
	must(driver_reply(d, &features, sizeof(features)) == 8);
	must(features == driver_features());
	driver_u64(d, SET_PROTOCOL_FEATURES, 0x221); /* no REPLY_ACK: messages go in one burst */
	driver_message(d, SET_BACKEND_REQ_FD, 1, NULL, 0, &d->backend_theirs, 1);
	close_fd(&d->backend_theirs);
	driver_u64(d, SET_FEATURES, d->features);
	driver_mem_table(d);
	d->queues[DRIVER_RX].part_bytes = part_bytes;
	for (unsigned i = 0; i < DRIVER_QUEUES; i++) {
		driver_ring(d, i);
		close_fd(&d->queues[i].call_theirs);
		driver_state(d, SET_VRING_ENABLE, i, 1);
	}
	must(driver_pump(d) == 0);
	driver_refill(d);
}

void driver_connect(struct driver *d, uint32_t part_bytes)
{
	struct virtio_vsock_hdr h;

	driver_setup(d, part_bytes);
	driver_op(d, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	must(driver_pump(d) == 0 && vsock_connected(d->vsock));
	must(driver_receive(d, &h, NULL, 0) && h.op == VIRTIO_VSOCK_OP_RESPONSE);
}

void driver_kick(struct driver *d, unsigned queue)
{
	must(eventfd_write(d->queues[queue].kick, 1) == 0);
}

void driver_avail(struct driver *d, unsigned queue, uint16_t head)
{
	struct driver_queue *q = &d->queues[queue];

	q->avail->ring[q->avail_next & (d->size - 1)] = head;
	q->avail_next++;
	__atomic_store_n(&q->avail->idx, q->avail_next, __ATOMIC_RELEASE);
	/* always a call, at any used index */
	q->avail->ring[d->size] = (uint16_t)(q->used_seen);
}

void driver_refill(struct driver *d)
{
	struct driver_queue *q = &d->queues[DRIVER_RX];

	/* used in the order given: descriptor i is free again when used_seen has passed it */
	while ((uint16_t)(q->avail_next - q->used_seen) < d->size) {
		uint16_t i = q->avail_next & (uint16_t)(d->size - 1);

		q->at[i] = DATA_AREA + 0x1000u * i;
		must(q->part_bytes <= 0x1000);
		q->desc[i] = (struct vring_desc){.addr = DRIVER_GUEST + q->at[i],
			.len = q->part_bytes,
			.flags = VRING_DESC_F_WRITE};
		driver_avail(d, DRIVER_RX, i);
	}
}

struct virtio_vsock_hdr driver_header(struct driver *d, uint16_t op, uint32_t length)
{
	return (struct virtio_vsock_hdr){.src_cid = htole64(DRIVER_CID),
		.dst_cid = htole64(2),
		.src_port = htole32(DRIVER_MY_PORT),
		.dst_port = htole32(DRIVER_PORT),
		.len = htole32(length),
		.type = htole16(VIRTIO_VSOCK_TYPE_STREAM),
		.op = htole16(op),
		.flags = op == VIRTIO_VSOCK_OP_SHUTDOWN ? htole32(3) : 0,
		.buf_alloc = htole32(d->window),
		.fwd_cnt = htole32(d->taken)};
}

/* Descriptors for one packet: its own stretch of memory, as one chain of direct or indirect ones.
 */
bool driver_packet(struct driver *d, const struct virtio_vsock_hdr *h, const void *data)
{
	struct driver_queue *q = &d->queues[DRIVER_TX];
	const uint32_t area = DATA_AREA + (1u << 20) + (64u << 10); /* behind the rx buffers */
	uint32_t length = data ? le32toh(h->len) : 0, done = 0, at;
	unsigned count = 1 + (length ? d->pieces : 0);
	unsigned slots = d->size; /* a power of two, so that the 16-bit index wraps well */
	struct vring_desc *table;
	uint16_t slot, first;
	uint32_t room;

	/* room for the longest chain in each, whatever this one needs */
	while (!d->indirect && slots * (1 + d->pieces) > d->size)
		slots /= 2;
	slot = q->avail_next & (uint16_t)(slots - 1);
	room = (uint32_t)((DRIVER_MEMORY - area) / slots) & ~63u;
	q->used_seen = __atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE);
	if ((uint16_t)(q->avail_next - q->used_seen) >= slots)
		return false;
	must(sizeof(*h) + length <= room && count <= 16);
	at = area + slot * room;
	first = d->indirect ? 0 : (uint16_t)(slot * (1 + d->pieces));
	table = d->indirect ? (void *)(d->memory + ring_at(3) + 256u * slot) : q->desc + first;
	memcpy(d->memory + at, h, sizeof(*h));
	if (length)
		memcpy(d->memory + at + sizeof(*h), data, length);
	for (unsigned i = 0; i < count; i++) {
		uint32_t n = i == 0           ? (uint32_t)sizeof(*h)
			     : i + 1 == count ? (uint32_t)sizeof(*h) + length - done
					      : length / d->pieces;

		must(n > 0);
		table[i] = (struct vring_desc){.addr = DRIVER_GUEST + at + done,
			.len = n,
			.flags = i + 1 < count ? VRING_DESC_F_NEXT : 0,
			.next = (uint16_t)(first + i + 1)};
		done += n;
	}
	if (d->indirect) {
		first = slot;
		q->desc[slot] = (struct vring_desc){.addr = DRIVER_GUEST + ring_at(3) + 256u * slot,
			.len = count * (uint32_t)sizeof(struct vring_desc),
			.flags = VRING_DESC_F_INDIRECT};
	}
	driver_avail(d, DRIVER_TX, first);
	return true;
}

void driver_op(struct driver *d, uint16_t op, const void *data, uint32_t length)
{
	struct virtio_vsock_hdr h = driver_header(d, op, length);

	must(driver_packet(d, &h, data));
	driver_kick(d, DRIVER_TX);
	if (op == VIRTIO_VSOCK_OP_RW)
		d->sent += length;
}

bool driver_receive(struct driver *d, struct virtio_vsock_hdr *h, void *data, size_t size)
{
	struct driver_queue *q = &d->queues[DRIVER_RX];
	uint16_t idx = __atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE);
	struct vring_used_elem e;

	if (idx == q->used_seen)
		return false;
	e = q->used->ring[q->used_seen & (d->size - 1)];
	must(e.id == (q->used_seen & (d->size - 1)) && e.len >= sizeof(*h) &&
		e.len <= q->part_bytes);
	memcpy(h, d->memory + q->at[e.id], sizeof(*h));
	must(le32toh(h->len) == e.len - sizeof(*h) && le64toh(h->dst_cid) == DRIVER_CID);
	if (size > le32toh(h->len))
		size = le32toh(h->len);
	if (size)
		memcpy(data, d->memory + q->at[e.id] + sizeof(*h), size);
	q->used_seen++;
	q->avail->ring[d->size] = q->used_seen;
	if (le16toh(h->op) != VIRTIO_VSOCK_OP_RST) {
		d->host_alloc = le32toh(h->buf_alloc);
		d->host_taken = le32toh(h->fwd_cnt);
	}
	return true;
}
