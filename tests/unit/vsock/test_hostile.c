/* SPDX-License-Identifier: Apache-2.0 - unit tests of the vsock channel: machines that attack. */
#include "driver.h"

#include "fixture.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

/* One attack each: does it to a driver in the state its table line says. */
enum start { FRESH, SET_UP, CONNECTED };

struct attack {
	void (*run)(struct driver *d);
	enum start start;
	const char *fault; /* what vsock_fault() must say */
};

/* --- messages --- */

static void version_2(struct driver *d)
{
	driver_message(d, SET_OWNER, 2, NULL, 0, NULL, 0);
}

static void reply_flag(struct driver *d)
{
	driver_message(d, SET_OWNER, 5, NULL, 0, NULL, 0);
}

static void unknown_flag(struct driver *d)
{
	driver_message(d, SET_OWNER, 0x101, NULL, 0, NULL, 0);
}

static void request_0(struct driver *d)
{
	driver_message(d, 0, 1, NULL, 0, NULL, 0);
}

static void request_not_offered(struct driver *d)
{
	uint64_t payload = 0;

	driver_message(d, 6, 1, &payload, sizeof(payload), NULL, 0); /* SET_LOG_BASE */
}

static void request_huge(struct driver *d)
{
	driver_message(d, UINT32_MAX, 1, NULL, 0, NULL, 0);
}

static void payload_huge(struct driver *d)
{
	uint32_t header[3] = {GET_CONFIG, 1, UINT32_MAX};

	assert_int_equal(send(d->sock, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
}

static void payload_short(struct driver *d)
{
	uint32_t payload = 0;

	driver_message(d, SET_FEATURES, 1, &payload, sizeof(payload), NULL, 0);
}

static void fd_with_features(struct driver *d)
{
	uint64_t features = driver_features();

	driver_message(d, SET_FEATURES, 1, &features, 8, &d->memory_fd, 1);
}

static void too_many_fds(struct driver *d)
{
	int fds[12];

	for (int i = 0; i < 12; i++)
		fds[i] = d->memory_fd;
	driver_message(d, SET_OWNER, 1, NULL, 0, fds, 12);
}

/* Some bytes of a message with one descriptor beside them. */
static void send_piece(struct driver *d, const void *bytes, size_t count, int fd)
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
	assert_int_equal(sendmsg(d->sock, &m, MSG_NOSIGNAL), count);
}

/* Each piece stays below the limit of one recvmsg(2); the message as a whole does not. */
static void fds_with_every_byte(struct driver *d)
{
	uint32_t header[3] = {SET_MEM_TABLE, 1, 40};

	for (size_t i = 0; i < sizeof(header); i++)
		send_piece(d, (uint8_t *)header + i, 1, d->memory_fd);
}

static void features_not_offered(struct driver *d)
{
	driver_u64(d, SET_FEATURES, driver_features() | 1);
}

static void features_legacy(struct driver *d)
{
	driver_u64(d, SET_FEATURES, UINT64_C(1) << 30);
}

static void protocol_not_offered(struct driver *d)
{
	driver_u64(d, SET_PROTOCOL_FEATURES, 1u << 14);
}

static void config_sizes_differ(struct driver *d)
{
	uint32_t payload[5] = {0, 9, 0, 0, 0};

	driver_message(d, GET_CONFIG, 1, payload, sizeof(payload), NULL, 0);
}

static void config_far_away(struct driver *d)
{
	uint32_t payload[5] = {UINT32_MAX, 8, 0, 0, 0};

	driver_message(d, GET_CONFIG, 1, payload, sizeof(payload), NULL, 0);
}

/* Asks and asks and never reads the answers: they must neither block us nor pile up. */
static void never_reads_replies(struct driver *d)
{
	for (int i = 0; i < 1000000; i++) {
		driver_message(d, GET_FEATURES, 1, NULL, 0, NULL, 0);
		if (vsock_pump(d->vsock))
			return;
	}
}

/* --- memory --- */

struct region {
	uint64_t guest, size, user, offset;
};

static void send_regions(struct driver *d, uint32_t count, const struct region *regions, int fd)
{
	struct {
		uint32_t count, padding;
		struct region regions[8];
	} t = {count, 0, {{0}}};
	int fds[8];
	uint32_t n = count < 8 ? count : 8;

	memcpy(t.regions, regions, n * sizeof(*regions));
	for (uint32_t i = 0; i < n; i++)
		fds[i] = fd;
	driver_message(d, SET_MEM_TABLE, 1, &t, 8 + 32 * n, fds, n);
}

static void one_region(
	struct driver *d, uint64_t guest, uint64_t size, uint64_t user, uint64_t offset)
{
	struct region r = {guest, size, user, offset};

	send_regions(d, 1, &r, d->memory_fd);
}

static void memory_beyond_file(struct driver *d)
{
	one_region(d, DRIVER_GUEST, DRIVER_MEMORY + 1, DRIVER_USER, 0);
}

static void memory_offset_beyond_file(struct driver *d)
{
	one_region(d, DRIVER_GUEST, 4096, DRIVER_USER, DRIVER_MEMORY);
}

static void memory_offset_wraps(struct driver *d)
{
	one_region(d, DRIVER_GUEST, 8192, DRIVER_USER, UINT64_MAX - 4095);
}

static void memory_empty(struct driver *d)
{
	one_region(d, DRIVER_GUEST, 0, DRIVER_USER, 0);
}

static void memory_huge(struct driver *d)
{
	one_region(d, DRIVER_GUEST, UINT64_C(1) << 40, DRIVER_USER, 0);
}

static void memory_guest_wraps(struct driver *d)
{
	one_region(d, UINT64_MAX - 100, 4096, DRIVER_USER, 0);
}

static void memory_overlaps(struct driver *d)
{
	struct region r[2] = {{0x1000, 0x2000, 0x10000, 0}, {0x2fff, 0x1000, 0x20000, 0}};

	send_regions(d, 2, r, d->memory_fd);
}

static void memory_overlaps_for_user(struct driver *d)
{
	struct region r[2] = {{0x1000, 0x2000, 0x10000, 0}, {0x3000, 0x1000, 0x11000, 0}};

	send_regions(d, 2, r, d->memory_fd);
}

static void memory_of_no_region(struct driver *d)
{
	uint64_t none = 0;

	driver_message(d, SET_MEM_TABLE, 1, &none, 8, NULL, 0);
}

static void memory_count_lies(struct driver *d)
{
	struct region r = {DRIVER_GUEST, 4096, DRIVER_USER, 0};

	send_regions(d, 1, &r, d->memory_fd); /* right */
	uint32_t lie[10] = {2};

	driver_message(d, SET_MEM_TABLE, 1, lie, sizeof(lie), &d->memory_fd, 1);
}

static void memory_without_fd(struct driver *d)
{
	uint32_t table[10] = {1};

	driver_message(d, SET_MEM_TABLE, 1, table, sizeof(table), NULL, 0);
}

static void memory_is_a_pipe(struct driver *d)
{
	struct region r = {DRIVER_GUEST, 4096, DRIVER_USER, 0};
	int pair[2];

	assert_int_equal(pipe(pair), 0);
	send_regions(d, 1, &r, pair[0]);
	close(pair[0]);
	close(pair[1]);
}

/* A fault in a file of another file system could wait for the machine for ever (FUSE). */
static void memory_on_another_file_system(struct driver *d)
{
	struct region r = {DRIVER_GUEST, 4096, DRIVER_USER, 0};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	send_regions(d, 1, &r, fd);
	close(fd);
}

static void memory_while_running(struct driver *d)
{
	driver_mem_table(d);
}

/* --- queues --- */

static void queue_3(struct driver *d)
{
	driver_state(d, SET_VRING_NUM, 3, 64);
}

static void queue_3_kick(struct driver *d)
{
	driver_fd(d, SET_VRING_KICK, 3, d->queues[0].kick);
}

static void size_0(struct driver *d)
{
	driver_state(d, SET_VRING_NUM, 0, 0);
}

static void size_odd(struct driver *d)
{
	driver_state(d, SET_VRING_NUM, 0, 65);
}

static void size_huge(struct driver *d)
{
	driver_state(d, SET_VRING_NUM, 0, 65536);
}

static void base_huge(struct driver *d)
{
	driver_state(d, SET_VRING_BASE, 0, 65536);
}

static void send_addresses(struct driver *d, uint64_t desc, uint64_t avail, uint64_t used)
{
	struct {
		uint32_t index, flags;
		uint64_t desc, used, avail, log;
	} a = {0, 0, DRIVER_USER + desc, DRIVER_USER + used, DRIVER_USER + avail, 0};

	driver_state(d, SET_VRING_NUM, 0, 64);
	driver_message(d, SET_VRING_ADDR, 1, &a, sizeof(a), NULL, 0);
}

static void addresses_before_size(struct driver *d)
{
	uint64_t a[5] = {0};

	driver_mem_table(d);
	driver_message(d, SET_VRING_ADDR, 1, a, sizeof(a), NULL, 0);
}

static void addresses_before_memory(struct driver *d)
{
	send_addresses(d, 0x10000, 0x12000, 0x13000);
}

static void addresses_outside(struct driver *d)
{
	driver_mem_table(d);
	send_addresses(d, 0x10000, 0x12000, DRIVER_MEMORY - 64);
}

static void addresses_of_the_guest(struct driver *d)
{
	driver_mem_table(d);
	send_addresses(d, DRIVER_GUEST - DRIVER_USER + 0x10000, 0x12000, 0x13000);
}

static void addresses_odd(struct driver *d)
{
	driver_mem_table(d);
	send_addresses(d, 0x10008, 0x12000, 0x13000);
}

static void address_flags(struct driver *d)
{
	uint64_t a[5] = {UINT64_C(1) << 32};

	driver_message(d, SET_VRING_ADDR, 1, a, sizeof(a), NULL, 0);
}

static void kick_with_a_pipe(struct driver *d)
{
	int pair[2];

	assert_int_equal(pipe(pair), 0);
	driver_fd(d, SET_VRING_KICK, 0, pair[0]);
	close(pair[0]);
	close(pair[1]);
}

static void kick_with_two(struct driver *d)
{
	uint64_t index = 0;
	int fds[2] = {d->queues[0].kick, d->queues[1].kick};

	driver_message(d, SET_VRING_KICK, 1, &index, 8, fds, 2);
}

static void kick_by_polling(struct driver *d)
{
	driver_u64(d, SET_VRING_KICK, 0x100);
}

static void kick_with_our_own_kind(struct driver *d)
{
	int fd = epoll_create1(EPOLL_CLOEXEC), one = eventfd(1, EFD_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN};

	assert_int_equal(epoll_ctl(fd, EPOLL_CTL_ADD, one, &e), 0);
	driver_fd(d, SET_VRING_KICK, 0, fd); /* an epoll set: readable, not to be read */
	driver_pump(d);
	close(fd);
	close(one);
}

static void call_with_a_file(struct driver *d)
{
	driver_fd(d, SET_VRING_CALL, 0, d->memory_fd);
}

static void call_with_an_inet_socket(struct driver *d)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	driver_fd(d, SET_VRING_CALL, 0, fd);
	close(fd);
}

static void backend_with_a_file(struct driver *d)
{
	driver_message(d, SET_BACKEND_REQ_FD, 1, NULL, 0, &d->memory_fd, 1);
}

static void enable_at_once(struct driver *d)
{
	driver_state(d, SET_VRING_ENABLE, 0, 1);
}

static void enable_without_addresses(struct driver *d)
{
	driver_u64(d, SET_FEATURES, driver_features());
	driver_state(d, SET_VRING_ENABLE, 0, 1);
}

static void enable_without_kick(struct driver *d)
{
	driver_u64(d, SET_FEATURES, driver_features());
	driver_mem_table(d);
	send_addresses(d, 0x10000, 0x12000, 0x13000);
	driver_state(d, SET_VRING_ENABLE, 0, 1);
}

/* New memory takes the addresses away, or they would point into what is unmapped. */
static void enable_after_new_memory(struct driver *d)
{
	driver_u64(d, SET_FEATURES, driver_features());
	driver_mem_table(d);
	driver_ring(d, 0);
	driver_mem_table(d);
	driver_state(d, SET_VRING_ENABLE, 0, 1);
}

/* A larger ring at the old addresses would reach beyond what was checked. */
static void enable_after_new_size(struct driver *d)
{
	driver_u64(d, SET_FEATURES, driver_features());
	driver_mem_table(d);
	driver_ring(d, 0);
	driver_state(d, SET_VRING_NUM, 0, 1024);
	driver_state(d, SET_VRING_ENABLE, 0, 1);
}

static void enable_with_7(struct driver *d)
{
	driver_state(d, SET_VRING_ENABLE, 0, 7);
}

static void size_while_running(struct driver *d)
{
	driver_state(d, SET_VRING_NUM, 1, 128);
}

static void addresses_while_running(struct driver *d)
{
	uint64_t a[5] = {1};

	driver_message(d, SET_VRING_ADDR, 1, a, sizeof(a), NULL, 0);
}

static void features_while_running(struct driver *d)
{
	driver_u64(d, SET_FEATURES, UINT64_C(1) << 32);
}

/* --- rings --- */

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
	{version_2, FRESH, "message with flags 0x2"},
	{reply_flag, FRESH, "message with flags 0x5"},
	{unknown_flag, FRESH, "message with flags 0x101"},
	{request_0, FRESH, "unknown vhost-user request 0"},
	{request_not_offered, FRESH, "unknown vhost-user request 6"},
	{request_huge, FRESH, "unknown vhost-user request 4294967295"},
	{payload_huge, FRESH, "vhost-user request 24 with 4294967295 bytes"},
	{payload_short, FRESH, "vhost-user request 2 with 4 bytes"},
	{fd_with_features, FRESH, "vhost-user request 2 with a file descriptor"},
	{too_many_fds, FRESH, "too many file descriptors in a message"},
	{fds_with_every_byte, FRESH, "too many file descriptors in a message"},
	{features_not_offered, FRESH, "features that were not offered"},
	{features_legacy, FRESH, "feature VERSION_1 is missing"},
	{protocol_not_offered, FRESH, "protocol features that were not offered"},
	{config_sizes_differ, FRESH, "configuration read of a wrong size"},
	{config_far_away, FRESH, "configuration read of a wrong size"},
	{never_reads_replies, FRESH, "the machine does not read its replies"},

	{memory_beyond_file, FRESH, "memory region ends behind the end of its file"},
	{memory_offset_beyond_file, FRESH, "memory region ends behind the end of its file"},
	{memory_offset_wraps, FRESH, "memory region beyond the address space"},
	{memory_empty, FRESH, "memory region of a size out of range"},
	{memory_huge, FRESH, "memory region of a size out of range"},
	{memory_guest_wraps, FRESH, "memory region beyond the address space"},
	{memory_overlaps, FRESH, "memory regions overlap"},
	{memory_overlaps_for_user, FRESH, "memory regions overlap"},
	{memory_of_no_region, FRESH, "memory table of a wrong size"},
	{memory_count_lies, FRESH, "memory table of a wrong size"},
	{memory_without_fd, FRESH, "memory table of 1 regions with 0 file descriptors"},
	{memory_is_a_pipe, FRESH, "memory is not a file of a tmpfs"},
	{memory_on_another_file_system, FRESH, "memory is not a file of a tmpfs"},
	{memory_while_running, SET_UP, "memory changed while a queue runs"},

	{queue_3, FRESH, "request for queue 3 of 3"},
	{queue_3_kick, FRESH, "request for queue 3 of 3"},
	{size_0, FRESH, "queue of 0 entries"},
	{size_odd, FRESH, "queue of 65 entries"},
	{size_huge, FRESH, "queue of 65536 entries"},
	{base_huge, FRESH, "ring base out of range"},
	{addresses_before_size, FRESH, "ring addresses before the ring's size"},
	{addresses_before_memory, FRESH, "ring outside guest memory"},
	{addresses_outside, FRESH, "ring outside guest memory"},
	{addresses_of_the_guest, FRESH, "ring outside guest memory"},
	{addresses_odd, FRESH, "ring is not aligned"},
	{address_flags, FRESH, "flags with ring addresses"},
	{kick_with_a_pipe, FRESH, "kick without an eventfd"},
	{kick_with_two, FRESH, "queue descriptor message with 2 file descriptors"},
	{kick_by_polling, FRESH, "kick without an eventfd"},
	{kick_with_our_own_kind, FRESH, "kick descriptor is not an eventfd"},
	{call_with_a_file, FRESH, "call descriptor is not a unix socket"},
	{call_with_an_inet_socket, FRESH, "call descriptor is not a unix socket"},
	{backend_with_a_file, FRESH, "backend channel is not a unix socket"},
	{enable_at_once, FRESH, "queue enabled before the features were set"},
	{enable_without_addresses, FRESH, "queue enabled before its addresses were set"},
	{enable_without_kick, FRESH, "queue enabled without a kick descriptor"},
	{enable_after_new_memory, FRESH, "queue enabled before its addresses were set"},
	{enable_after_new_size, FRESH, "queue enabled before its addresses were set"},
	{enable_with_7, FRESH, "queue enabled with 7"},
	{size_while_running, SET_UP, "queue changed while it runs"},
	{addresses_while_running, SET_UP, "queue changed while it runs"},
	{features_while_running, SET_UP, "features changed while a queue runs"},

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

static void begin(struct driver *d, enum start start)
{
	driver_start(d, 64);
	if (start == SET_UP)
		driver_setup(d, 1024);
	else if (start == CONNECTED)
		driver_connect(d, 1024);
	else
		assert_int_equal(driver_pump(d), 0);
}

static void cuts_off_each_breach(void **state)
{
	struct fixture *f = *state;
	struct driver *d = &f->driver;
	struct pollfd p = {.events = POLLIN};

	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		begin(d, attacks[i].start);
		attacks[i].run(d);
		assert_int_equal(driver_pump(d), -ECONNRESET);
		assert_non_null(vsock_fault(d->vsock));
		assert_string_equal(vsock_fault(d->vsock), attacks[i].fault);
		assert_true(vsock_was_breach(d->vsock));
		assert_false(vsock_connected(d->vsock));
		/* for good: nothing moves any more, and the loop keeps being told */
		assert_int_equal(vsock_write(d->vsock, "x", 1), 0);
		p.fd = vsock_fd(d->vsock);
		assert_int_equal(poll(&p, 1, 0), 1);
		assert_int_equal(vsock_pump(d->vsock), -ECONNRESET);
		driver_stop(d);
		assert_int_equal(count_fds(), f->fds_before);
	}
	driver_start(d, 64); /* for the teardown */
}

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
			send_piece(d, header, sizeof(header), d->queues[0].kick);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(cuts_off_each_breach),
		fixture_test(leaks_nothing_when_cut_short),
		fixture_test(refuses_a_second_machine),
		fixture_test(survives_memory_cut_before_a_read),
		fixture_test(survives_memory_cut_before_a_write),
		fixture_test(keeps_the_other_machine_alive),
		fixture_test(never_blocks_on_a_kick),
		fixture_test(never_blocks_on_a_call),
		fixture_test(forgets_replaced_kicks),
		fixture_test(works_in_bounded_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
