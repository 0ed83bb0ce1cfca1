/* SPDX-License-Identifier: Apache-2.0 - machines that break vhost-user: messages, memory, queues.
 */
#include "driver.h"

#include "fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

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

/* Each piece stays below the limit of one recvmsg(2); the message as a whole does not. */
static void fds_with_every_byte(struct driver *d)
{
	uint32_t header[3] = {SET_MEM_TABLE, 1, 40};

	for (size_t i = 0; i < sizeof(header); i++)
		driver_piece(d, (uint8_t *)header + i, 1, d->memory_fd);
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
