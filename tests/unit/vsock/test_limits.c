/* SPDX-License-Identifier: Apache-2.0 - machines that take away, block, flood or leave half-way. */
#include "driver.h"

#include "fixture.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* Free at every stage of the set-up leaves nothing behind, half a message with a descriptor too. */
static void leaks_nothing_when_cut_short(void **state)
{
	struct fixture *f = *state;
	struct driver *d = &f->driver;
	uint32_t header[3] = {SET_VRING_KICK, 1, 8};

	for (int stage = 0; stage < 5; stage++) {
		driver_start(d, 64);
		if (stage >= 1)
			driver_mem_table(d);
		if (stage >= 2)
			driver_ring(d, 0);
		if (stage >= 3)
			driver_pump(d);
		if (stage >= 4) {
			driver_piece(d, header, sizeof(header), d->queues[0].kick);
			driver_pump(d);
			assert_null(vsock_fault(d->vsock));
		}
		driver_stop(d);
		assert_int_equal(count_fds(), f->fds_before);
	}
	driver_start(d, 64);
}

static void refuses_a_second_machine(void **state)
{
	struct driver *d = *state;
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	driver_start(d, 64);
	assert_int_equal(getpeername(d->sock, (void *)&name, &length), 0);
	assert_int_equal(driver_pump(d), 0);
	assert_int_equal(connect(fd, (void *)&name, length), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(fd);
}

/* --- memory that goes away under our hands --- */

static void survives_memory_cut_before_a_read(void **state)
{
	struct driver *d = *state;

	driver_start(d, 64);
	driver_connect(d, 1024);
	driver_kick(d, DRIVER_TX);
	assert_int_equal(ftruncate(d->memory_fd, 0), 0);
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_string_equal(
		vsock_fault(d->vsock), "guest memory was cut short or its file system is full");
	assert_true(vsock_was_breach(d->vsock));
}

static void survives_memory_cut_before_a_write(void **state)
{
	struct driver *d = *state;
	uint8_t bytes[5000] = {1};

	driver_start(d, 64);
	driver_connect(d, 1024);
	/* the rings stay, the buffers are gone */
	assert_int_equal(ftruncate(d->memory_fd, 0x50000), 0);
	vsock_write(d->vsock, bytes, sizeof(bytes));
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_true(vsock_was_breach(d->vsock));
	assert_int_equal(vsock_write(d->vsock, bytes, sizeof(bytes)), 0);
}

static void keeps_the_other_machine_alive(void **state)
{
	struct driver *d = *state;
	struct driver other;
	struct virtio_vsock_hdr h;

	driver_start(d, 64);
	driver_connect(d, 1024);
	driver_start(&other, 64);
	driver_connect(&other, 1024);
	assert_int_equal(ftruncate(d->memory_fd, 0), 0);
	driver_kick(d, DRIVER_TX);
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_int_equal(vsock_write(other.vsock, "hello", 5), 5);
	assert_true(driver_receive(&other, &h, NULL, 0));
	assert_int_equal(driver_pump(&other), 0);
	driver_stop(&other);
}

/* --- descriptors the machine shares with us --- */

static void never_blocks_on_a_kick(void **state)
{
	struct driver *d = *state;
	struct virtio_vsock_hdr h;
	eventfd_t ignored;
	unsigned answers = 0;

	driver_start(d, 64);
	driver_connect(d, 1024);
	/* blocking, readable at epoll_wait, taken away before the read: a race the machine can win;
	 * a semaphore that stays readable for ever is the other extreme */
	for (unsigned i = 0; i < DRIVER_QUEUES; i++)
		assert_int_equal(fcntl(d->queues[i].kick, F_SETFL, 0), 0);
	driver_kick(d, DRIVER_EVENT);
	assert_int_equal(eventfd_read(d->queues[DRIVER_EVENT].kick, &ignored), 0);
	assert_int_equal(driver_pump(d), 0);

	int endless = eventfd(0xfffffff0, EFD_SEMAPHORE | EFD_CLOEXEC);

	assert_true(endless >= 0);
	driver_fd(d, SET_VRING_KICK, DRIVER_EVENT, endless);
	for (int i = 0; i < 5; i++) {
		driver_op(d, VIRTIO_VSOCK_OP_CREDIT_REQUEST, NULL, 0);
		assert_int_equal(vsock_pump(d->vsock), 0);
		assert_int_equal(vsock_pump(d->vsock), 0);
		while (driver_receive(d, &h, NULL, 0))
			answers++;
	}
	assert_int_equal(answers, 5);
	close(endless);
}

static void never_blocks_on_a_call(void **state)
{
	struct driver *d = *state;
	struct virtio_vsock_hdr h;

	driver_start(d, 64);
	driver_connect(d, 1024);
	/* nobody reads the calls: far more of them than a socket holds */
	for (int i = 0; i < 3000; i++) {
		driver_op(d, VIRTIO_VSOCK_OP_CREDIT_REQUEST, NULL, 0);
		assert_int_equal(driver_pump(d), 0);
		assert_true(driver_receive(d, &h, NULL, 0));
		driver_refill(d);
	}
	/* and one whose other end is closed does not end us (no SIGPIPE) either */
	close(d->queues[DRIVER_RX].call);
	d->queues[DRIVER_RX].call = -1;
	assert_int_equal(vsock_write(d->vsock, "hello", 5), 5);
	assert_true(driver_receive(d, &h, NULL, 0));
	assert_int_equal(driver_pump(d), 0);
}

/* A descriptor that was replaced no longer wakes us, although the machine still holds it. */
static void forgets_replaced_kicks(void **state)
{
	struct driver *d = *state;
	struct pollfd p = {.events = POLLIN};
	int fresh = eventfd(0, EFD_CLOEXEC);

	driver_start(d, 64);
	driver_setup(d, 1024);
	driver_fd(d, SET_VRING_KICK, DRIVER_TX, fresh);
	assert_int_equal(driver_pump(d), 0);
	driver_kick(d, DRIVER_TX);
	p.fd = vsock_fd(d->vsock);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(eventfd_write(fresh, 1), 0);
	assert_int_equal(poll(&p, 1, 0), 1);
	close(fresh);
}

/* One pump does a bounded piece of work, however much the guest has ready; the rest is not lost. */
static void works_in_bounded_pieces(void **state)
{
	struct driver *d = *state;
	struct driver_queue *q = &d->queues[DRIVER_TX];
	struct virtio_vsock_hdr h;
	struct pollfd p = {.events = POLLIN};
	uint16_t done, all;

	driver_start(d, 256);
	d->indirect = true; /* as many packets as the queue has entries */
	driver_connect(d, 1024);
	h = driver_header(d, VIRTIO_VSOCK_OP_CREDIT_UPDATE, 0);
	while (driver_packet(d, &h, NULL))
		;
	all = q->avail_next;
	driver_kick(d, DRIVER_TX);
	assert_int_equal(vsock_pump(d->vsock), 0);
	done = q->used->idx;
	assert_in_range(done, 2, all - 1);
	p.fd = vsock_fd(d->vsock);
	assert_int_equal(poll(&p, 1, 0), 1); /* without another kick */
	assert_int_equal(driver_pump(d), 0);
	assert_int_equal(q->used->idx, all);
}

/* --- rings that change while they are read --- */

struct racer {
	struct driver *driver;
	bool stop;
};

/* Swaps the fields that are checked between a right and a wrong value, as fast as it can. */
static void *race(void *argument)
{
	struct racer *r = argument;
	struct driver *d = r->driver;
	uint32_t *length = (void *)(d->memory + 0x100000 + offsetof(struct virtio_vsock_hdr, len));
	struct vring_desc *e = &d->queues[DRIVER_TX].desc[9], *rx = d->queues[DRIVER_RX].desc;

	for (unsigned i = 0; !__atomic_load_n(&r->stop, __ATOMIC_RELAXED); i++) {
		__atomic_store_n(length, i & 1 ? 16 : 0xfffffff0, __ATOMIC_RELAXED);
		__atomic_store_n(&e->len, i & 2 ? 44 + 16 : UINT32_MAX, __ATOMIC_RELAXED);
		__atomic_store_n(&e->addr, i & 4 ? DRIVER_GUEST + 0x100000 : 1, __ATOMIC_RELAXED);
		__atomic_store_n(&rx[1].len, i & 8 ? 1024 : UINT32_MAX, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A value that is checked in one copy and used from another shows up here under ASan: each round is
 * either data as it was sent or a clean breach. */
static void reads_each_word_once(void **state)
{
	struct fixture *f = *state;
	struct driver *d = &f->driver;
	unsigned breaches = 0, packets = 0;

	for (int round = 0; round < 400; round++) {
		struct racer r = {.driver = d};
		struct virtio_vsock_hdr h;
		pthread_t thread;

		driver_start(d, 64);
		driver_connect(d, 1024);
		h = driver_header(d, VIRTIO_VSOCK_OP_RW, 16);
		memcpy(d->memory + 0x100000, &h, sizeof(h));
		d->queues[DRIVER_TX].desc[9] =
			(struct vring_desc){DRIVER_GUEST + 0x100000, 60, 0, 0};
		assert_int_equal(pthread_create(&thread, NULL, race, &r), 0);
		for (int i = 0; i < 200 && !vsock_fault(d->vsock); i++) {
			driver_avail(d, DRIVER_TX, 9);
			driver_kick(d, DRIVER_TX);
			vsock_pump(d->vsock);
			if (i % 32 == 31)
				vsock_write(d->vsock, "hello", 5);
			assert_true(vsock_available(d->vsock) % 16 == 0);
			packets += vsock_available(d->vsock) > 0;
			vsock_consume(d->vsock, vsock_available(d->vsock));
		}
		breaches += vsock_fault(d->vsock) != NULL;
		__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
		pthread_join(thread, NULL);
		driver_stop(d);
	}
	assert_true(breaches > 0 && packets > 0); /* both values were met */
	driver_start(d, 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(leaks_nothing_when_cut_short),
		fixture_test(refuses_a_second_machine),
		fixture_test(survives_memory_cut_before_a_read),
		fixture_test(survives_memory_cut_before_a_write),
		fixture_test(keeps_the_other_machine_alive),
		fixture_test(never_blocks_on_a_kick),
		fixture_test(never_blocks_on_a_call),
		fixture_test(forgets_replaced_kicks),
		fixture_test(works_in_bounded_pieces),
		fixture_test(reads_each_word_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
