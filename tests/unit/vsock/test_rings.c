/* SPDX-License-Identifier: Apache-2.0 - guests that break their rings and their packets. */
#include "driver.h"

#include "fixture.h"

#include <string.h>

static void tx(struct driver *d, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
	d->queues[DRIVER_TX].desc[9] = (struct vring_desc){addr, len, flags, next};
	driver_avail(d, DRIVER_TX, 9);
	driver_kick(d, DRIVER_TX);
}

static void index_runs_away(struct driver *d)
{
	d->queues[DRIVER_TX].avail->idx = (uint16_t)(d->queues[DRIVER_TX].avail_next + 65);
	driver_kick(d, DRIVER_TX);
}

static void head_outside(struct driver *d)
{
	driver_avail(d, DRIVER_TX, 64);
	driver_kick(d, DRIVER_TX);
}

static void loop(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 1, VRING_DESC_F_NEXT, 9);
}

static void next_outside(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 64, VRING_DESC_F_NEXT, 64);
}

static void no_length(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 0, 0, 0);
}

static void outside_memory(struct driver *d)
{
	tx(d, DRIVER_GUEST + DRIVER_MEMORY - 10, 64, 0, 0);
}

static void address_wraps(struct driver *d)
{
	tx(d, UINT64_MAX - 10, 64, 0, 0);
}

static void address_of_the_process(struct driver *d)
{
	tx(d, DRIVER_USER + 0x100000, 64, 0, 0);
}

static void wrong_direction(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 64, VRING_DESC_F_WRITE, 0);
}

static void unknown_descriptor_flag(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 64, 0x80, 0);
}

static void indirect_odd_size(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 17, VRING_DESC_F_INDIRECT, 0);
}

static void indirect_with_next(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_INDIRECT | VRING_DESC_F_NEXT, 1);
}

static void indirect_huge(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 16 * 1025, VRING_DESC_F_INDIRECT, 0);
}

static void indirect_outside(struct driver *d)
{
	tx(d, DRIVER_GUEST + DRIVER_MEMORY - 16, 32, VRING_DESC_F_INDIRECT, 0);
}

static void indirect_in_indirect(struct driver *d)
{
	struct vring_desc inner = {DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_INDIRECT, 0};

	memcpy(d->memory + 0x100000, &inner, sizeof(inner));
	tx(d, DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_INDIRECT, 0);
}

static void indirect_next_outside(struct driver *d)
{
	struct vring_desc inner = {DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_NEXT, 1};

	memcpy(d->memory + 0x100000, &inner, sizeof(inner));
	tx(d, DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_INDIRECT, 0);
}

static void indirect_loop(struct driver *d)
{
	struct vring_desc inner = {DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_NEXT, 0};

	memcpy(d->memory + 0x100000, &inner, sizeof(inner));
	tx(d, DRIVER_GUEST + 0x100000, 16, VRING_DESC_F_INDIRECT, 0);
}

static void too_many_pieces(struct driver *d)
{
	for (uint16_t i = 0; i < 70; i++) {
		struct vring_desc inner = {
			DRIVER_GUEST + 0x200000, 16, VRING_DESC_F_NEXT, (uint16_t)(i + 1)};

		memcpy(d->memory + 0x100000 + 16 * i, &inner, sizeof(inner));
	}
	tx(d, DRIVER_GUEST + 0x100000, 16 * 70, VRING_DESC_F_INDIRECT, 0);
}

static void tiny_rx_buffer(struct driver *d)
{
	d->queues[DRIVER_RX].desc[0].len = 43;
	driver_op(d, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
}

static void rx_buffer_for_a_header_only(struct driver *d)
{
	d->queues[DRIVER_RX].desc[1].len = 44;
	assert_int_equal(vsock_write(d->vsock, "x", 1), 0);
}

static void rx_buffer_read_only(struct driver *d)
{
	d->queues[DRIVER_RX].desc[1].flags = 0;
	assert_int_equal(vsock_write(d->vsock, "x", 1), 0);
}

/* --- packets --- */

static void packet_cut(struct driver *d)
{
	tx(d, DRIVER_GUEST + 0x100000, 43, 0, 0);
}

static void packet_length_lies(struct driver *d)
{
	struct virtio_vsock_hdr h = driver_header(d, VIRTIO_VSOCK_OP_RW, 5);

	assert_true(driver_packet(d, &h, NULL));
	driver_kick(d, DRIVER_TX);
}

static void packet_length_wraps(struct driver *d)
{
	struct virtio_vsock_hdr h = driver_header(d, VIRTIO_VSOCK_OP_RW, UINT32_MAX);

	assert_true(driver_packet(d, &h, NULL));
	driver_kick(d, DRIVER_TX);
}

static void operation_99(struct driver *d)
{
	driver_op(d, 99, NULL, 0);
}

static void second_request(struct driver *d)
{
	driver_op(d, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
}

static void overruns_its_credit(struct driver *d)
{
	static uint8_t data[8192];

	for (int i = 0; i < 129 && !vsock_fault(d->vsock); i++) { /* 128 are 1 MiB */
		assert_true(i < 128 || vsock_available(d->vsock) == 1 << 20);
		driver_op(d, VIRTIO_VSOCK_OP_RW, data, sizeof(data));
		driver_pump(d);
	}
}

static void takes_what_was_not_sent(struct driver *d)
{
	d->taken += 1;
	driver_op(d, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
}

static const struct attack attacks[] = {
	{index_runs_away, SET_UP, "queue 1: available index ran away"},
	{head_outside, SET_UP, "queue 1: descriptor head outside the table"},
	{loop, SET_UP, "queue 1: descriptors form a loop"},
	{next_outside, SET_UP, "queue 1: next descriptor outside its table"},
	{no_length, SET_UP, "queue 1: descriptor of no length"},
	{outside_memory, SET_UP, "queue 1: descriptor outside guest memory"},
	{address_wraps, SET_UP, "queue 1: descriptor outside guest memory"},
	{address_of_the_process, SET_UP, "queue 1: descriptor outside guest memory"},
	{wrong_direction, SET_UP, "queue 1: buffer to read from is write only"},
	{unknown_descriptor_flag, SET_UP, "queue 1: descriptor with unknown flags"},
	{indirect_odd_size, SET_UP, "queue 1: bad indirect descriptor"},
	{indirect_with_next, SET_UP, "queue 1: bad indirect descriptor"},
	{indirect_huge, SET_UP, "queue 1: bad indirect descriptor"},
	{indirect_outside, SET_UP, "queue 1: indirect table outside guest memory"},
	{indirect_in_indirect, SET_UP, "queue 1: bad indirect descriptor"},
	{indirect_next_outside, SET_UP, "queue 1: next descriptor outside its table"},
	{indirect_loop, SET_UP, "queue 1: descriptors form a loop"},
	{too_many_pieces, SET_UP, "queue 1: buffer of too many pieces"},
	{tiny_rx_buffer, SET_UP, "receive buffer smaller than a header"},
	{rx_buffer_for_a_header_only, CONNECTED, "receive buffer without room for data"},
	{rx_buffer_read_only, CONNECTED, "queue 0: buffer to write to is read only"},

	{packet_cut, SET_UP, "packet shorter than a header"},
	{packet_length_lies, CONNECTED, "packet longer than its buffer"},
	{packet_length_wraps, CONNECTED, "packet longer than its buffer"},
	{operation_99, CONNECTED, "packet with operation 99 on the connection"},
	{second_request, CONNECTED, "packet with operation 1 on the connection"},
	{overruns_its_credit, CONNECTED, "the guest sent more than its credit"},
	{takes_what_was_not_sent, CONNECTED, "the guest took more than was sent"},
};

static void cuts_off_each_breach(void **state)
{
	cut_off_each(*state, attacks, sizeof(attacks) / sizeof(attacks[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {fixture_test(cuts_off_each_breach)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
