/* SPDX-License-Identifier: Apache-2.0 - unit tests of the vsock channel: guests that behave. */
#include "driver.h"

#include "fixture.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Byte n of the endless pattern that both directions carry. */
static uint8_t pattern(uint64_t n)
{
	return (uint8_t)(n ^ n >> 8 ^ n >> 17 ^ 0x5a);
}

static void fill(uint8_t *p, size_t count, uint64_t from)
{
	for (size_t i = 0; i < count; i++)
		p[i] = pattern(from + i);
}

static bool matches(const uint8_t *p, size_t count, uint64_t from)
{
	for (size_t i = 0; i < count; i++) {
		if (p[i] != pattern(from + i))
			return false;
	}
	return true;
}

/* Take all that is in the rx queue; checks the data, gives buffers back. */
static void guest_reads(struct driver *d, uint64_t *received)
{
	struct virtio_vsock_hdr h;
	uint8_t data[4096];

	while (driver_receive(d, &h, data, sizeof(data))) {
		if (le16toh(h.op) != VIRTIO_VSOCK_OP_RW)
			continue;
		assert_true(matches(data, le32toh(h.len), *received));
		*received += le32toh(h.len);
		d->taken += le32toh(h.len);
		assert_true(d->window == 0 || le32toh(h.len) <= d->window);
	}
	driver_refill(d);
	driver_kick(d, DRIVER_RX);
	h = driver_header(d, VIRTIO_VSOCK_OP_CREDIT_UPDATE, 0);
	driver_packet(d, &h, NULL); /* no room: the packets that are there say nearly the same */
	driver_kick(d, DRIVER_TX);
}

/* Send what our credit (as a 7.2 guest counts it) and the tx queue allow. */
static void guest_writes(struct driver *d, uint64_t *sent, uint64_t end, uint32_t piece)
{
	uint8_t data[8192];

	while (*sent < end) {
		uint32_t window = d->host_alloc < d->window ? d->host_alloc : d->window;
		uint32_t room = window - (d->sent - d->host_taken);
		uint32_t n = piece;
		struct virtio_vsock_hdr h;

		if (n > end - *sent)
			n = (uint32_t)(end - *sent);
		if (n > room)
			n = room;
		if (n < d->pieces)
			break;
		fill(data, n, *sent);
		h = driver_header(d, VIRTIO_VSOCK_OP_RW, n);
		if (!driver_packet(d, &h, data))
			break;
		d->sent += n;
		*sent += n;
	}
	driver_kick(d, DRIVER_TX);
}

/* Both directions at once until `bytes` went each way. */
static void run_echo(struct driver *d, uint64_t bytes, uint32_t piece)
{
	uint64_t out = 0, received = 0, sent = 0, in = 0;
	uint8_t chunk[50000];
	int idle = 0;

	while (received < bytes || in < bytes) {
		uint64_t before = out + received + sent + in;
		const uint8_t *p;
		size_t n;

		n = sizeof(chunk) < bytes - out ? sizeof(chunk) : (size_t)(bytes - out);
		fill(chunk, n, out);
		out += vsock_write(d->vsock, chunk, n);
		guest_reads(d, &received);
		guest_writes(d, &sent, bytes, piece);
		assert_int_equal(driver_pump(d), 0);
		while ((n = vsock_peek(d->vsock, &p)) > 0) {
			n = n > 30000 ? 30000 : n;
			assert_true(matches(p, n, in));
			vsock_consume(d->vsock, n);
			in += n;
		}
		idle = before == out + received + sent + in ? idle + 1 : 0;
		assert_true(idle < 3); /* it stands still: credit or a kick was lost */
	}
	assert_int_equal(vsock_available(d->vsock), 0);
}

static void carries_both_ways(void **state)
{
	struct driver *d = *state;

	driver_start(d, 128);
	driver_connect(d, 3776);
	run_echo(d, 6u << 20, 4000);
}

/* 16-bit ring indices and, from a start near the top, the 32-bit count of bytes wrap. */
static void survives_wrapping_counters(void **state)
{
	struct driver *d = *state;

	driver_start(d, 16);
	d->taken = 0xffffff00;
	driver_connect(d, 60);
	run_echo(d, 16u * 70000, 16);       /* a buffer holds 16: 70000 packets each way */
	assert_true(d->taken < 0xffffff00); /* it did wrap */
}

static void carries_chains(void **state)
{
	struct driver *d = *state;

	driver_start(d, 64);
	d->pieces = 5;
	driver_connect(d, 512);
	run_echo(d, 1u << 20, 3000);
}

static void carries_indirect_chains(void **state)
{
	struct driver *d = *state;

	driver_start(d, 64);
	d->indirect = true;
	d->pieces = 9;
	driver_connect(d, 512);
	run_echo(d, 1u << 20, 3000);
}

/* Without EVENT_IDX kicks come always and calls unless the guest's flag says no. */
static void works_without_event_idx(void **state)
{
	struct driver *d = *state;
	uint64_t calls[64];

	driver_start(d, 64);
	d->features = driver_features() & ~(UINT64_C(1) << 29);
	driver_connect(d, 1024);
	run_echo(d, 1u << 20, 3000);
	while (recv(d->queues[DRIVER_RX].call, calls, sizeof(calls), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(vsock_write(d->vsock, "x", 1), 1);
	assert_int_equal(recv(d->queues[DRIVER_RX].call, calls, sizeof(calls), MSG_DONTWAIT), 8);
	d->queues[DRIVER_RX].avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	assert_int_equal(vsock_write(d->vsock, "x", 1), 1);
	assert_int_equal(recv(d->queues[DRIVER_RX].call, calls, sizeof(calls), MSG_DONTWAIT), -1);
}

static void obeys_the_guests_credit(void **state)
{
	struct driver *d = *state;
	uint8_t bytes[10000] = {0};
	uint64_t received = 0;
	size_t n;

	driver_start(d, 64);
	d->window = 5000;
	driver_connect(d, 1024);
	fill(bytes, sizeof(bytes), 0);
	assert_int_equal(vsock_write(d->vsock, bytes, sizeof(bytes)), 5000);
	assert_int_equal(vsock_write(d->vsock, bytes, sizeof(bytes)), 0);
	/* a shrunken buffer is no credit at all, not four gigabytes */
	d->window = 100;
	driver_op(d, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
	assert_int_equal(driver_pump(d), 0);
	assert_int_equal(vsock_write(d->vsock, bytes, sizeof(bytes)), 0);
	d->window = 5000;
	guest_reads(d, &received);
	assert_int_equal(received, 5000);
	driver_op(d, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
	assert_true(driver_wakes(d));
	assert_int_equal(driver_pump(d), 0);
	n = vsock_write(d->vsock, bytes + 5000, 5000);
	assert_int_equal(n, 5000);
	guest_reads(d, &received);
	assert_int_equal(received, 10000);
}

static void waits_for_buffers(void **state)
{
	struct driver *d = *state;
	uint8_t bytes[20000];
	uint64_t received = 0;

	driver_start(d, 16);
	driver_connect(d, 1044);
	fill(bytes, sizeof(bytes), 0);
	/* one of the 16 went for the answer */
	assert_int_equal(vsock_write(d->vsock, bytes, sizeof(bytes)), 15000);
	assert_int_equal(vsock_write(d->vsock, bytes + 15000, 5000), 0);
	driver_pump(d);
	assert_false(driver_wakes(d));
	guest_reads(d, &received);
	assert_true(driver_wakes(d));
	assert_int_equal(driver_pump(d), 0);
	assert_int_equal(vsock_write(d->vsock, bytes + 15000, 5000), 5000);
}

static void returns_credit_in_steps(void **state)
{
	struct driver *d = *state;
	struct virtio_vsock_hdr h;
	uint64_t sent = 0;

	driver_start(d, 128);
	driver_connect(d, 1024);
	guest_writes(d, &sent, 200000, 4000);
	assert_int_equal(driver_pump(d), 0);
	assert_int_equal(vsock_available(d->vsock), 200000);
	vsock_consume(d->vsock, 65535);
	assert_false(driver_receive(d, &h, NULL, 0));
	vsock_consume(d->vsock, 1);
	assert_true(driver_receive(d, &h, NULL, 0));
	assert_int_equal(h.op, VIRTIO_VSOCK_OP_CREDIT_UPDATE);
	assert_int_equal(d->host_taken, 65536);
	/* and on request at any time */
	vsock_consume(d->vsock, 10);
	driver_op(d, VIRTIO_VSOCK_OP_CREDIT_REQUEST, NULL, 0);
	assert_int_equal(driver_pump(d), 0);
	assert_true(driver_receive(d, &h, NULL, 0));
	assert_int_equal(h.op, VIRTIO_VSOCK_OP_CREDIT_UPDATE);
	assert_int_equal(d->host_taken, 65546);
}

static void copies_across_the_rings_end(void **state)
{
	struct driver *d = *state;
	uint64_t sent = 0;
	uint8_t out[3000];
	const uint8_t *p;

	driver_start(d, 256);
	driver_connect(d, 1024);
	while (sent < (1u << 20) - 1000) {
		struct virtio_vsock_hdr h;

		guest_writes(d, &sent, sent + 200000, 8000);
		assert_int_equal(driver_pump(d), 0);
		vsock_consume(
			d->vsock, vsock_available(d->vsock) - 1); /* never empty: it moves on */
		while (driver_receive(d, &h, NULL, 0))
			;
		driver_refill(d);
		driver_kick(d, DRIVER_RX);
	}
	guest_writes(d, &sent, sent + 100000, 8000);
	assert_int_equal(driver_pump(d), 0);
	for (size_t at = 0; at + sizeof(out) < vsock_available(d->vsock); at += 1000) {
		vsock_copy(d->vsock, at, out, sizeof(out));
		assert_true(matches(out, sizeof(out), sent - vsock_available(d->vsock) + at));
	}
	assert_true(vsock_peek(d->vsock, &p) <= vsock_available(d->vsock));
}

static void expect_rst(struct driver *d, uint64_t from_cid, uint32_t from_port, uint32_t to_port)
{
	struct virtio_vsock_hdr h;

	assert_int_equal(driver_pump(d), 0);
	assert_true(driver_receive(d, &h, NULL, 0));
	assert_int_equal(h.op, VIRTIO_VSOCK_OP_RST);
	assert_true(h.src_cid == from_cid && h.src_port == from_port && h.dst_port == to_port);
	assert_false(driver_receive(d, &h, NULL, 0));
}

static void resets_strangers(void **state)
{
	struct driver *d = *state;
	struct virtio_vsock_hdr h;

	driver_start(d, 64);
	driver_setup(d, 1024);
	/* a port that is not the agent's, before and after the agent has come */
	for (int i = 0; i < 2; i++) {
		h = driver_header(d, VIRTIO_VSOCK_OP_REQUEST, 0);
		h.src_port = 99;
		h.dst_port = DRIVER_PORT + 1;
		assert_true(driver_packet(d, &h, NULL));
		driver_kick(d, DRIVER_TX);
		expect_rst(d, 2, DRIVER_PORT + 1, 99);
		if (i == 0) {
			driver_op(d, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
			assert_int_equal(driver_pump(d), 0);
			assert_true(driver_receive(d, &h, NULL, 0));
			assert_int_equal(h.op, VIRTIO_VSOCK_OP_RESPONSE);
		}
	}
	/* a second connection to the agent's port, data out of nowhere, another CID */
	h = driver_header(d, VIRTIO_VSOCK_OP_REQUEST, 0);
	h.src_port = 99;
	assert_true(driver_packet(d, &h, NULL));
	driver_kick(d, DRIVER_TX);
	expect_rst(d, 2, DRIVER_PORT, 99);
	h.op = VIRTIO_VSOCK_OP_RW;
	assert_true(driver_packet(d, &h, NULL));
	driver_kick(d, DRIVER_TX);
	expect_rst(d, 2, DRIVER_PORT, 99);
	h.dst_cid = 5;
	assert_true(driver_packet(d, &h, NULL));
	driver_kick(d, DRIVER_TX);
	expect_rst(d, 5, DRIVER_PORT, 99);
	/* an RST is never answered, a forged sender is not heard */
	h.op = VIRTIO_VSOCK_OP_RST;
	assert_true(driver_packet(d, &h, NULL));
	h.op = VIRTIO_VSOCK_OP_REQUEST;
	h.src_cid = 4;
	assert_true(driver_packet(d, &h, NULL));
	driver_kick(d, DRIVER_TX);
	assert_int_equal(driver_pump(d), 0);
	assert_false(driver_receive(d, &h, NULL, 0));
	assert_true(vsock_connected(d->vsock));
}

/* A program that connects in a loop costs a bounded list, not the connection. */
static void bounds_pending_resets(void **state)
{
	struct driver *d = *state;
	struct virtio_vsock_hdr h;
	unsigned answers = 0;

	driver_start(d, 16);
	driver_connect(d, 1024);
	for (uint32_t i = 0; i < 1000; i++) {
		h = driver_header(d, VIRTIO_VSOCK_OP_REQUEST, 0);
		h.src_port = 1000 + i;
		assert_true(driver_packet(d, &h, NULL));
		driver_kick(d, DRIVER_TX);
		assert_int_equal(driver_pump(d), 0);
	}
	for (int i = 0; i < 20; i++) {
		while (driver_receive(d, &h, NULL, 0))
			answers += h.op == VIRTIO_VSOCK_OP_RST;
		driver_refill(d);
		driver_kick(d, DRIVER_RX);
		assert_int_equal(driver_pump(d), 0);
	}
	assert_int_equal(answers, 15 + 64);
	run_echo(d, 10000, 1000);
}

static void ends_when_the_guest_closes(void **state)
{
	struct driver *d = *state;
	struct virtio_vsock_hdr h;
	uint8_t out[4];

	driver_start(d, 64);
	driver_connect(d, 1024);
	driver_op(d, VIRTIO_VSOCK_OP_RW, "last", 4);
	driver_op(d, VIRTIO_VSOCK_OP_SHUTDOWN, NULL, 0);
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_true(driver_receive(d, &h, NULL, 0));
	assert_int_equal(h.op, VIRTIO_VSOCK_OP_RST);
	assert_false(vsock_was_breach(d->vsock));
	assert_string_equal(vsock_fault(d->vsock), "the guest closed its connection");
	assert_false(vsock_connected(d->vsock));
	assert_int_equal(vsock_write(d->vsock, "x", 1), 0);
	/* what came before stays readable, and the end stays visible */
	assert_int_equal(vsock_available(d->vsock), 4);
	vsock_copy(d->vsock, 0, out, 4);
	assert_memory_equal(out, "last", 4);
	vsock_consume(d->vsock, 4);
	assert_true(driver_wakes(d));
	assert_int_equal(vsock_pump(d->vsock), -ECONNRESET);
}

static void ends_when_the_guest_resets(void **state)
{
	struct driver *d = *state;

	driver_start(d, 64);
	driver_connect(d, 1024);
	driver_op(d, VIRTIO_VSOCK_OP_RST, NULL, 0);
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_false(vsock_was_breach(d->vsock));
	assert_string_equal(vsock_fault(d->vsock), "the guest reset its connection");
}

static void ends_when_the_machine_goes(void **state)
{
	struct driver *d = *state;

	driver_start(d, 64);
	driver_connect(d, 1024);
	close(d->sock);
	d->sock = -1;
	assert_true(driver_wakes(d));
	assert_int_equal(driver_pump(d), -ECONNRESET);
	assert_false(vsock_was_breach(d->vsock));
	assert_string_equal(vsock_fault(d->vsock), "the machine closed its connection");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(carries_both_ways),
		fixture_test(survives_wrapping_counters),
		fixture_test(carries_chains),
		fixture_test(carries_indirect_chains),
		fixture_test(works_without_event_idx),
		fixture_test(obeys_the_guests_credit),
		fixture_test(waits_for_buffers),
		fixture_test(returns_credit_in_steps),
		fixture_test(copies_across_the_rings_end),
		fixture_test(resets_strangers),
		fixture_test(bounds_pending_resets),
		fixture_test(ends_when_the_guest_closes),
		fixture_test(ends_when_the_guest_resets),
		fixture_test(ends_when_the_machine_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
