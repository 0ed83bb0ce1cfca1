/* SPDX-License-Identifier: Apache-2.0 - unit tests of the vsock channel: vhost-user as it should
 * be. */
#include "driver.h"

#include "fixture.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void answers_the_handshake(void **state)
{
	struct driver *d = *state;
	uint8_t config[20] = {0, 0, 0, 0, 8};
	uint64_t value = 0;
	uint32_t base[2];

	driver_start(d, 64);
	driver_message(d, GET_FEATURES, 1, NULL, 0, NULL, 0);
	assert_int_equal(driver_reply(d, &value, 8), 8);
	assert_true(value == driver_features());
	driver_message(d, GET_PROTOCOL_FEATURES, 1, NULL, 0, NULL, 0);
	assert_int_equal(driver_reply(d, &value, 8), 8);
	assert_true(value == 0x229);
	/* UML asks for an answer to the message that turns answers on */
	driver_message(d, SET_PROTOCOL_FEATURES, 9, &value, 8, NULL, 0);
	value = 1;
	assert_int_equal(driver_reply(d, &value, 8), 8);
	assert_true(value == 0);
	driver_message(d, GET_QUEUE_NUM, 9, NULL, 0, NULL, 0);
	assert_int_equal(driver_reply(d, &value, 8), 8);
	assert_true(value == DRIVER_QUEUES);
	assert_int_equal(driver_reply(d, &value, 8), -1); /* one answer, not two */
	driver_message(d, GET_CONFIG, 1, config, sizeof(config), NULL, 0);
	assert_int_equal(driver_reply(d, config, sizeof(config)), 20);
	memcpy(&value, config + 12, 8);
	assert_true(le64toh(value) == DRIVER_CID);

	driver_u64(d, SET_FEATURES, driver_features());
	driver_mem_table(d);
	driver_ring(d, DRIVER_TX);
	driver_state(d, SET_VRING_BASE, DRIVER_TX, 5);
	driver_state(d, GET_VRING_BASE, DRIVER_TX, 0);
	assert_int_equal(driver_reply(d, base, sizeof(base)), 8);
	assert_int_equal(base[0], DRIVER_TX);
	assert_int_equal(base[1], 5);
	assert_null(vsock_fault(d->vsock));
}

/* A machine that sends its messages one byte at a time must neither block us nor lose descriptors.
 */
static void takes_messages_byte_by_byte(void **state)
{
	struct driver *d = *state;
	int real, pair[2];
	uint8_t byte;

	driver_start(d, 64);
	/* the handshake goes into a pair of ours and from there on bit by bit */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	real = d->sock;
	d->sock = pair[0];
	driver_u64(d, SET_FEATURES, driver_features());
	driver_mem_table(d);
	for (unsigned i = 0; i < DRIVER_QUEUES; i++) {
		driver_ring(d, i);
		driver_state(d, SET_VRING_ENABLE, i, 1);
	}
	d->sock = real;
	for (;;) {
		union {
			char space[CMSG_SPACE(8 * sizeof(int))];
			struct cmsghdr align;
		} control;
		struct iovec io = {&byte, 1};
		struct msghdr m = {.msg_iov = &io,
			.msg_iovlen = 1,
			.msg_control = control.space,
			.msg_controllen = sizeof(control)};
		int fd = -1;

		if (recvmsg(pair[1], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
			break;
		if (m.msg_controllen)
			memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
		else
			m.msg_control = NULL;
		m.msg_flags = 0;
		assert_int_equal(sendmsg(real, &m, MSG_NOSIGNAL), 1);
		if (fd >= 0)
			close(fd);
		assert_int_equal(driver_pump(d), 0);
	}
	close(pair[0]);
	close(pair[1]);
	d->queues[DRIVER_RX].part_bytes = 1024;
	driver_refill(d);
	driver_op(d, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	assert_int_equal(driver_pump(d), 0);
	assert_true(vsock_connected(d->vsock));
}

/* A reply that the socket does not take waits for its turn, whole and in order. */
static void delivers_held_back_replies(void **state)
{
	struct driver *d = *state;
	uint8_t config[12 + 256] = {0, 0, 0, 0, 0, 1}, reply[12 + sizeof(config)];
	unsigned asked = 0, held = 0;
	int there = 0;

	driver_start(d, 64);
	/* until three replies are on our side: fewer than it holds before it cuts us off */
	while (held < 3 && asked < 100000) {
		config[8] = (uint8_t)asked++; /* the flags come back as they went */
		assert_int_equal(
			driver_message(d, GET_CONFIG, 1, config, sizeof(config), NULL, 0), 0);
		assert_int_equal(driver_pump(d), 0);
		assert_int_equal(ioctl(d->sock, FIONREAD, &there), 0);
		held = asked - (unsigned)there / sizeof(reply);
	}
	assert_int_equal(held, 3);
	for (unsigned answered = 0; answered < asked; answered++) {
		size_t n = 0;

		while (n < sizeof(reply)) {
			ssize_t r = recv(d->sock, reply + n, sizeof(reply) - n, MSG_DONTWAIT);

			if (r > 0)
				n += (size_t)r;
			else
				assert_true(driver_wakes(d));
			assert_int_equal(driver_pump(d), 0);
		}
		assert_int_equal(reply[12 + 8], (uint8_t)answered);
	}
	assert_int_equal(recv(d->sock, reply, 1, MSG_DONTWAIT), -1);
}

static void calls_on_the_answer(void **state)
{
	struct driver *d = *state;
	uint64_t one = 0;

	driver_start(d, 64);
	driver_connect(d, 1024);
	assert_int_equal(recv(d->queues[DRIVER_RX].call, &one, 8, MSG_DONTWAIT), 8);
	assert_true(one == 1);
	assert_int_equal(recv(d->queues[DRIVER_TX].call, &one, 8, MSG_DONTWAIT), 8);
	/* nothing happened on the event queue */
	assert_int_equal(recv(d->queues[DRIVER_EVENT].call, &one, 8, MSG_DONTWAIT), -1);
}

static void one_notification_for_a_batch(void **state)
{
	struct driver *d = *state;
	uint64_t calls[8];
	uint8_t bytes[10000] = {0};

	driver_start(d, 64);
	driver_connect(d, 1044);
	assert_true(recv(d->queues[DRIVER_RX].call, calls, sizeof(calls), MSG_DONTWAIT) > 0);
	assert_int_equal(vsock_write(d->vsock, bytes, sizeof(bytes)), 10000);
	assert_int_equal(recv(d->queues[DRIVER_RX].call, calls, sizeof(calls), MSG_DONTWAIT), 8);
}

/* The guest notices by these two that its backend is gone. */
static void closes_what_the_guest_watches(void **state)
{
	struct driver *d = *state;
	uint8_t byte;

	driver_start(d, 64);
	driver_connect(d, 1024);
	assert_int_equal(recv(d->backend, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	vsock_free(d->vsock);
	d->vsock = NULL;
	assert_int_equal(recv(d->backend, &byte, 1, MSG_DONTWAIT), 0);
	assert_int_equal(recv(d->sock, &byte, 1, MSG_DONTWAIT), 0);
}

static void lets_a_queue_stop_and_start_again(void **state)
{
	struct driver *d = *state;
	struct driver_queue *q = &d->queues[DRIVER_RX];
	struct virtio_vsock_hdr h;
	uint32_t base[2];
	uint8_t bytes[10];

	driver_start(d, 64);
	driver_connect(d, 1024);
	driver_state(d, GET_VRING_BASE, DRIVER_RX, 0);
	assert_int_equal(driver_reply(d, base, sizeof(base)), 8);
	assert_int_equal(base[1], 1);
	assert_int_equal(vsock_write(d->vsock, "0123456789", 10), 0);
	/* as QEMU does it: everything once more, from where it was */
	q->call_theirs = dup(q->call); /* any unix socket will do */
	driver_ring(d, DRIVER_RX);
	close(q->call_theirs);
	q->call_theirs = -1;
	driver_state(d, SET_VRING_BASE, DRIVER_RX, base[1]);
	driver_state(d, SET_VRING_ENABLE, DRIVER_RX, 1);
	assert_int_equal(driver_pump(d), 0);
	assert_int_equal(vsock_write(d->vsock, "0123456789", 10), 10);
	assert_true(driver_receive(d, &h, bytes, sizeof(bytes)));
	assert_memory_equal(bytes, "0123456789", 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(answers_the_handshake),
		fixture_test(takes_messages_byte_by_byte),
		fixture_test(delivers_held_back_replies),
		fixture_test(calls_on_the_answer),
		fixture_test(one_notification_for_a_batch),
		fixture_test(closes_what_the_guest_watches),
		fixture_test(lets_a_queue_stop_and_start_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
