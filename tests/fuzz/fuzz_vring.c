/* SPDX-License-Identifier: Apache-2.0 - fuzzes the vsock channel: the input is what a hostile
 * machine does. */
#include "driver.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The first bytes choose how far the machine behaves (set-up by messages of the input, a valid
 * set-up, a valid connection) and its queues' size; what follows are operations, a byte each with
 * its arguments: messages, writes into rings and buffers, kicks, and between them what a monitor
 * does. The memory file can be cut short at any time. After each input everything must be closed.
 */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define OPERATIONS_MOST 300

struct input {
	const uint8_t *p;
	size_t left;
};

static uint64_t take(struct input *in, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes && in->left; i++, in->left--)
		v |= (uint64_t)*in->p++ << (8 * i);
	return v;
}

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* Something to send beside a message; what it is decides the input. */
static int some_fd(struct driver *d, struct input *in, int *temporary)
{
	uint8_t kind = (uint8_t)take(in, 1);
	struct driver_queue *q = &d->queues[kind / 16 % DRIVER_QUEUES];

	switch (kind % 8) {
	case 0:
		return d->memory_fd;
	case 1:
		return q->kick;
	case 2:
		return q->call;
	case 3:
		return *temporary = eventfd(kind & 128 ? 0x7ffffff0u : 0, EFD_SEMAPHORE);
	case 4:
		return *temporary = epoll_create1(0);
	case 5:
		return *temporary = memfd_create("other", 0); /* empty */
	case 6:
		return d->sock;
	default:
		return *temporary = open("/dev/null", O_RDWR);
	}
}

static void send_message(struct driver *d, struct input *in)
{
	static const uint32_t flags[] = {1, 1, 1, 9, 9, 5, 0, 0xffff};
	uint8_t payload[255] = {0}, a = (uint8_t)take(in, 1), b = (uint8_t)take(in, 1);
	uint32_t request = a < 250 ? a % 28 : (uint32_t)take(in, 4);
	uint32_t size = (uint32_t)take(in, 1);
	int fds[12], temporary[12];
	unsigned count = b / 8 % 16;

	count = count < 8 ? 0 : count < 13 ? 1 : count - 11 + 8 * (count == 15);
	for (uint32_t i = 0; i < size; i++)
		payload[i] = (uint8_t)take(in, 1);
	for (unsigned i = 0; i < count; i++) {
		temporary[i] = -1;
		fds[i] = some_fd(d, in, &temporary[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (fds[i] < 0)
			fds[i] = 0; /* closed by an operation before */
	}
	driver_message(d, request, flags[b % 8], payload, size, fds, count);
	for (unsigned i = 0; i < count; i++) {
		if (temporary[i] >= 0)
			close(temporary[i]);
	}
}

/* A memory table of regions that mostly make sense. */
static void send_memory(struct driver *d, struct input *in)
{
	struct {
		uint32_t count, padding;
		struct {
			uint64_t guest, size, user, offset;
		} regions[8];
	} t = {.count = 1 + (uint32_t)take(in, 1) % 3};
	int fds[8];

	for (uint32_t i = 0; i < t.count; i++) {
		uint64_t at = take(in, 2) << (take(in, 1) % 16), size = take(in, 2) << 8;

		t.regions[i].guest = DRIVER_GUEST + at;
		t.regions[i].user = DRIVER_USER + at;
		t.regions[i].size = size;
		t.regions[i].offset = take(in, 3);
		fds[i] = d->memory_fd;
	}
	driver_message(d, SET_MEM_TABLE, 1, &t, 8 + 32 * t.count, fds, t.count);
}

static uint64_t some_address(struct input *in)
{
	uint8_t kind = (uint8_t)take(in, 1);

	if (kind < 200)
		return DRIVER_GUEST + 0x80000 + take(in, 2) * 16;
	if (kind < 230)
		return DRIVER_GUEST + take(in, 3); /* rings too, and just beyond the end */
	if (kind < 240)
		return DRIVER_USER + take(in, 3);
	return take(in, 8);
}

static void write_descriptor(struct driver *d, struct input *in)
{
	unsigned queue = (unsigned)take(in, 1) % DRIVER_QUEUES;
	uint16_t i = (uint16_t)(take(in, 1) % d->size);
	uint8_t flags = (uint8_t)take(in, 1);
	struct vring_desc e = {.addr = some_address(in),
		.len = flags & 64 ? (uint32_t)take(in, 4) : (uint32_t)take(in, 2) % 5000,
		.flags = (uint16_t)(flags & 128 ? take(in, 2) : flags & 7),
		.next = (uint16_t)(flags & 32 ? take(in, 2) : take(in, 1) % d->size)};

	if (e.flags & VRING_DESC_F_INDIRECT && !(flags & 16))
		e.len &= 0xff0u;
	d->queues[queue].desc[i] = e;
}

/* A table of descriptors somewhere in the data, for indirect ones to point to. */
static void write_table(struct driver *d, struct input *in)
{
	uint32_t at = 0x80000u + (uint32_t)take(in, 2) * 16, n = (uint32_t)take(in, 1) % 16;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t flags = (uint8_t)take(in, 1);
		struct vring_desc e = {some_address(in), (uint32_t)take(in, 2) % 3000,
			(uint16_t)(flags & 128 ? flags & 7 : flags & 3),
			(uint16_t)(flags & 64 ? take(in, 2) : i + 1)};

		memcpy(d->memory + at + 16 * i, &e, sizeof(e));
	}
}

static void write_bytes(struct driver *d, struct input *in)
{
	uint32_t at = (uint32_t)take(in, 3) % (DRIVER_MEMORY - 256), n = (uint32_t)take(in, 1);

	for (uint32_t i = 0; i < n && in->left; i++)
		d->memory[at + i] = (uint8_t)take(in, 1);
}

static void send_packet(struct driver *d, struct input *in)
{
	static const uint8_t data[8000];
	uint8_t how = (uint8_t)take(in, 1);
	uint32_t length = how & 1 ? (uint32_t)take(in, 2) % sizeof(data) : 0;
	struct virtio_vsock_hdr h = driver_header(d, (uint16_t)(how / 2 % 8), length);

	if (how & 16)
		h.src_port = (uint32_t)take(in, 2);
	if (how & 32) {
		h.buf_alloc = (uint32_t)take(in, 4);
		h.fwd_cnt = (uint32_t)take(in, 4);
	}
	if (how & 64) {
		uint8_t where = (uint8_t)take(in, 1) % sizeof(h);

		((uint8_t *)&h)[where] ^= (uint8_t)take(in, 1);
	}
	d->indirect = (how & 128) != 0;
	d->pieces = 1;
	if (length && le32toh(h.len) == length)
		driver_packet(d, &h, data);
	else
		driver_packet(d, &h, NULL);
}

/* Data, fast: what a sender does that runs over its credit. */
static void send_burst(struct driver *d, unsigned count)
{
	static const uint8_t data[8000];
	struct virtio_vsock_hdr h = driver_header(d, VIRTIO_VSOCK_OP_RW, sizeof(data));

	d->pieces = 1;
	for (unsigned i = 0; i < count; i++) {
		driver_packet(d, &h, data);
		driver_kick(d, DRIVER_TX);
		vsock_pump(d->vsock);
	}
}

/* Cut the file; what we see of it ourselves becomes memory of our own. */
static void cut_memory(struct driver *d, struct input *in)
{
	if (ftruncate(d->memory_fd, (off_t)(take(in, 2) % 1024 * 4096)))
		abort();
	check(mmap(d->memory, DRIVER_MEMORY, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == d->memory);
}

static void use(struct driver *d, struct input *in)
{
	static uint8_t bytes[1 << 16];
	size_t count = (size_t)take(in, 2), n = vsock_write(d->vsock, bytes, count);
	const uint8_t *p;

	check(n <= count && (n == 0 || vsock_connected(d->vsock) || vsock_fault(d->vsock)));
	n = vsock_peek(d->vsock, &p);
	check(n <= vsock_available(d->vsock) && vsock_available(d->vsock) <= 1 << 20);
	check((n == 0) == (vsock_available(d->vsock) == 0));
	count = vsock_available(d->vsock) < sizeof(bytes) ? vsock_available(d->vsock)
							  : sizeof(bytes);
	vsock_copy(d->vsock, vsock_available(d->vsock) - count, bytes, count);
	vsock_consume(d->vsock, (size_t)take(in, 2));
}

static void operate(struct driver *d, struct input *in)
{
	struct driver_queue *q;
	uint8_t operation = (uint8_t)take(in, 1);
	eventfd_t ignored;

	switch (operation % 16) {
	case 0:
		send_message(d, in);
		break;
	case 1:
		driver_state(d, SET_VRING_NUM + (uint32_t)take(in, 1) % 11,
			(uint32_t)take(in, 1) % 4, (uint32_t)take(in, operation & 128 ? 4 : 1));
		break;
	case 2:
		operation & 128 ? send_memory(d, in)
				: driver_ring(d, (unsigned)take(in, 1) % DRIVER_QUEUES);
		break;
	case 3:
	case 4:
		write_descriptor(d, in);
		break;
	case 5:
		operation & 128 ? write_table(d, in) : write_bytes(d, in);
		break;
	case 6:
	case 7:
		driver_avail(d, (unsigned)take(in, 1) % DRIVER_QUEUES,
			(uint16_t)(operation & 128 ? take(in, 2) : take(in, 1) % d->size));
		break;
	case 8:
		q = &d->queues[take(in, 1) % DRIVER_QUEUES];
		q->avail->idx = (uint16_t)take(in, 2);
		q->avail_next = q->avail->idx;
		break;
	case 9:
		send_packet(d, in);
		driver_kick(d, DRIVER_TX);
		break;
	case 10:
		send_burst(d, operation / 16);
		break;
	case 11:
		q = &d->queues[DRIVER_RX];
		q->used_seen = q->used->idx;
		driver_refill(d);
		driver_kick(d, DRIVER_RX);
		break;
	case 12:
		use(d, in);
		break;
	case 13:
		operation = (uint8_t)take(in, 1);
		q = &d->queues[operation / 8 % DRIVER_QUEUES];
		if (operation < 8)
			cut_memory(d, in);
		else if (operation < 16)
			shutdown(d->sock, SHUT_RDWR);
		else if (operation < 64)
			fcntl(q->kick, F_SETFL, operation & 1 ? O_NONBLOCK : 0);
		else if (operation < 128)
			fcntl(q->call, F_SETFL, operation & 1 ? O_NONBLOCK : 0);
		else if (fcntl(q->kick, F_SETFL, O_NONBLOCK) == 0)
			eventfd_read(q->kick, &ignored);
		break;
	default:
		driver_kick(d, operation / 16 % DRIVER_QUEUES);
		vsock_pump(d->vsock);
	}
}

/* The lowest free descriptor is the same after an input that left none open. */
static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct input in = {bytes, count};
	uint8_t mode = (uint8_t)take(&in, 1);
	int lowest = lowest_free();
	struct driver d;

	driver_start(&d, (uint16_t)(4u << (mode / 4 % 7)));
	if (mode % 4 == 3) {
		driver_connect(&d, 64 + (uint32_t)take(&in, 1) * 8);
	} else if (mode % 4 == 2) {
		driver_setup(&d, 45 + (uint32_t)mode * 8);
	} else {
		d.queues[DRIVER_RX].part_bytes = 1024;
		if (mode % 4 == 1) {
			uint64_t event_idx = UINT64_C(1) << 29;

			driver_u64(&d, SET_FEATURES,
				driver_features() & ~(take(&in, 1) & 1 ? event_idx : 0));
			driver_mem_table(&d);
		}
	}
	for (int i = 0; i < OPERATIONS_MOST && in.left; i++)
		operate(&d, &in);
	for (int i = 0; i < 4; i++) {
		int r = vsock_pump(d.vsock);

		check(r == 0 || r == -ECONNRESET);
		check((r == 0) == (vsock_fault(d.vsock) == NULL));
		check(r == 0 || (!vsock_connected(d.vsock) && vsock_write(d.vsock, "x", 1) == 0));
	}
	driver_stop(&d);

	check(lowest_free() == lowest);
	return 0;
}
