/* SPDX-License-Identifier: Apache-2.0 - the guest's way out, with programs on one side and the host
 * on the other, in a network namespace of its own. */
#include "client.h"
#include "egress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct client client;

static void set(bool on)
{
	client_send(&client, wire_put_net_set(client.out, sizeof(client.out), 0, 0,
				     &(struct wire_net_set){.on = on}));
	client_ping(&client, 0); /* it has been taken */
}

static int start(void **state)
{
	client_start(&client);
	set(true);
	return 0;
}

static int stop(void **state)
{
	if (client.pid)
		client_stop(&client, 0);
	return 0;
}

/* --- programs --- */

static int try_to(const char *address, uint16_t port, int type)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval patience = {.tv_sec = 20};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, address, &to.sin_addr), 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int program(const char *address, uint16_t port, const void *bytes, size_t count)
{
	int fd = try_to(address, port, SOCK_STREAM);

	assert_true(fd >= 0);
	assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
	return fd;
}

static void reads(int fd, const void *bytes, size_t count)
{
	uint8_t *got = malloc(count);
	size_t n = 0;

	while (n < count) {
		ssize_t k = recv(fd, got + n, count - n, 0);

		if (k <= 0)
			fail_msg("%zu of %zu bytes came", n, count);
		n += (size_t)k;
	}
	assert_memory_equal(got, bytes, count);
	free(got);
}

static void reads_end(int fd)
{
	uint8_t byte;

	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

/* --- the host --- */

static struct wire_frame frame;

static void expect(enum wire_type type, uint32_t id)
{
	client_frame(&client, &frame);
	if (frame.type != type || (id && frame.stream != id))
		fail_msg("%s of %u, not %s of %u", wire_type_name(frame.type), frame.stream,
			wire_type_name((uint16_t)type), id);
}

/* NET_OPEN of this target; its id */
static uint32_t asked(const char *host, uint32_t port)
{
	struct wire_net_open m;

	expect(WIRE_NET_OPEN, 0);
	assert_int_equal(wire_get_net_open(frame.payload, frame.length, &m), 0);
	assert_string_equal(m.host.text, host);
	assert_int_equal(m.port, port);
	return frame.stream;
}

#define SAY(kind, id, ...)                                                                         \
	client_send(&client, wire_put_##kind(client.out, sizeof(client.out), id, 0,                \
				     &(struct wire_##kind){__VA_ARGS__}))

static void say_data(uint32_t id, const void *bytes, size_t count)
{
	SAY(net_data, id, .bytes = {bytes, (uint32_t)count});
}

static void hears(uint32_t id, const char *text)
{
	struct wire_net_data m;
	size_t n = 0;

	while (n < strlen(text)) {
		expect(WIRE_NET_DATA, id);
		assert_int_equal(wire_get_net_data(frame.payload, frame.length, &m), 0);
		assert_true(n + m.bytes.count <= strlen(text));
		assert_memory_equal(m.bytes.bytes, text + n, m.bytes.count);
		n += m.bytes.count;
	}
}

static int hears_close(uint32_t id)
{
	struct wire_net_close m;

	expect(WIRE_NET_CLOSE, id);
	assert_int_equal(wire_get_net_close(frame.payload, frame.length, &m), 0);
	return (int)m.error;
}

#define CONNECT     "CONNECT example.org:443 HTTP/1.1\r\n\r\n"
#define ESTABLISHED "HTTP/1.1 200 Connection established\r\n\r\n"

static uint32_t open_tunnel(int *fd)
{
	uint32_t id;

	*fd = program("127.0.0.1", 3128, CONNECT, strlen(CONNECT));
	id = asked("example.org", 443);
	SAY(net_opened, id, .unused_ = 0);
	reads(*fd, ESTABLISHED, strlen(ESTABLISHED));
	return id;
}

/* --- tests --- */

static void test_tunnel(void **state)
{
	uint32_t id;
	int fd;

	id = open_tunnel(&fd);
	assert_int_equal(send(fd, "hello", 5, 0), 5);
	hears(id, "hello");
	say_data(id, "good day", 8);
	reads(fd, "good day", 8);
	shutdown(fd, SHUT_WR);
	expect(WIRE_NET_END, id);
	say_data(id, "bye", 3);
	SAY(net_end, id, .unused_ = 0);
	reads(fd, "bye", 3);
	SAY(net_close, id, .error = 0, .why = wire_str(""));
	assert_int_equal(hears_close(id), 0);
	reads_end(fd);
}

/* What stands behind the head goes to the target, in order. */
static void test_bytes_behind_the_head(void **state)
{
	static const char post[] = "POST http://example.org:81/x HTTP/1.1\r\nHost: h\r\n"
				   "Content-Length: 4\r\n\r\nbody";
	uint32_t id;
	int fd = program("127.0.0.1", 3128, CONNECT "early", strlen(CONNECT) + 5);

	id = asked("example.org", 443);
	SAY(net_opened, id, .unused_ = 0);
	hears(id, "early");
	reads(fd, ESTABLISHED, strlen(ESTABLISHED));
	close(fd);
	expect(WIRE_NET_END, id);
	fd = program("127.0.0.1", 3128, post, sizeof(post) - 1);
	id = asked("example.org", 81);
	SAY(net_opened, id, .unused_ = 0);
	hears(id, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"
		  "Connection: close\r\n\r\nbody");
	close(fd);
	expect(WIRE_NET_END, id);
}

/* A target that leaves its connection open gets nothing of the next request: that may be for
 * another. */
static void test_the_next_request_is_not_for_this_target(void **state)
{
	static const char head[] = "POST http://one.org/ HTTP/1.1\r\nContent-Length: 4\r\n\r\n";
	static const char next[] = "GET http://other.org/ HTTP/1.1\r\nCookie: secret\r\n\r\n";
	char both[sizeof(head) + sizeof(next) + 4];
	uint32_t id;
	int fd = program("127.0.0.1", 3128, head, sizeof(head) - 1);

	id = asked("one.org", 80);
	SAY(net_opened, id, .unused_ = 0);
	hears(id, "POST / HTTP/1.1\r\nContent-Length: 4\r\nConnection: close\r\n\r\n");
	assert_int_equal(send(fd, "body\r\n", 6, 0), 6);
	hears(id, "body");
	say_data(id, "answer", 6);
	reads(fd, "answer", 6);
	assert_int_equal(send(fd, next, sizeof(next) - 1, 0), sizeof(next) - 1);
	hears_close(id);
	reads_end(fd);
	SAY(net_close, id, .error = 0, .why = wire_str(""));
	/* nor when both come at once */
	snprintf(both, sizeof(both), "%sbody%s", head, next);
	fd = program("127.0.0.1", 3128, both, strlen(both));
	reads(fd, "HTTP/1.1 400 ", 13);
	close(fd);
}

static void test_refusals_in_words(void **state)
{
	static const struct {
		int error;
		const char *line;
	} cases[] = {{EACCES, "HTTP/1.1 403 "}, {ETIMEDOUT, "HTTP/1.1 504 "},
		{EAGAIN, "HTTP/1.1 503 "}, {ECONNREFUSED, "HTTP/1.1 502 "}};
	uint32_t id;
	int fd;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fd = program("127.0.0.1", 3128, CONNECT, strlen(CONNECT));
		id = asked("example.org", 443);
		SAY(net_close, id, .error = (uint32_t)cases[i].error, .why = wire_str("no"));
		assert_int_equal(hears_close(id), 0);
		reads(fd, cases[i].line, strlen(cases[i].line));
		close(fd);
	}
	fd = program("127.0.0.1", 1080, "\5\1\0\5\1\0\1\300\0\2\1\0\120", 13);
	reads(fd, "\5\0", 2);
	id = asked("192.0.2.1", 80);
	SAY(net_close, id, .error = EACCES, .why = wire_str("no"));
	assert_int_equal(hears_close(id), 0);
	reads(fd, "\5\2\0\1\0\0\0\0\0\0", 10);
	reads_end(fd);
	fd = program("127.0.0.1", 3128, "GET / HTTP/1.1\r\n\r\n", 18);
	reads(fd, "HTTP/1.1 400 ", 13);
	close(fd);
	fd = program("127.0.0.1", 1080, "\5\1\2", 3);
	reads(fd, "\5\377", 2);
	reads_end(fd);
}

static void test_socks(void **state)
{
	int fd = program("127.0.0.1", 1080, "\5\1\0", 3);
	uint32_t id;

	reads(fd, "\5\0", 2);
	assert_int_equal(send(fd, "\5\1\0\3\13example.org\0\120early", 23, 0), 23);
	id = asked("example.org", 80);
	SAY(net_opened, id, .unused_ = 0);
	reads(fd, "\5\0\0\1\0\0\0\0\0\0", 10);
	hears(id, "early");
	close(fd);
	expect(WIRE_NET_END, id);
}

/* A program that does not read holds up only its own connection; nothing is lost or turned round.
 */
static void test_a_slow_reader(void **state)
{
	const size_t total = 8u << 20;
	uint8_t *bytes = malloc(total), *got = malloc(total);
	size_t credit = WIRE_NET_WINDOW, sent = 0, taken = 0, turns = 0;
	struct wire_net_credit m;
	uint32_t id, other;
	int fd, fast;

	for (size_t i = 0; i < total; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	id = open_tunnel(&fd);
	other = open_tunnel(&fast);
	while (taken < total) {
		size_t piece = total - sent < credit ? total - sent : credit;
		struct pollfd p = {client.fd, POLLIN, 0};

		piece = piece < 10000 ? piece : 10000;
		if (piece) {
			say_data(id, bytes + sent, piece);
			sent += piece;
			credit -= piece;
		} else if (client.in_start != client.in_end || poll(&p, 1, 0) > 0 ||
			   taken == sent) {
			expect(WIRE_NET_CREDIT, id);
			assert_int_equal(wire_get_net_credit(frame.payload, frame.length, &m), 0);
			credit += m.bytes;
		} else {
			ssize_t n;

			/* all credit is used up and it reads slowly: the other goes on */
			if (turns++ % 64 == 0) {
				say_data(other, "x", 1);
				reads(fast, "x", 1);
			}
			n = recv(fd, got + taken, total - taken < 20000 ? total - taken : 20000, 0);
			assert_true(n > 0);
			taken += (size_t)n;
		}
	}
	assert_true(turns > 0);
	assert_memory_equal(got, bytes, total);
	close(fd);
	close(fast);
	free(bytes);
	free(got);
}

/* The host gives no credit: the agent stops at the window. */
static void test_a_host_that_does_not_read(void **state)
{
	uint8_t *bytes = calloc(1, 1 << 20);
	struct wire_net_data m;
	size_t got = 0;
	uint32_t id;
	int fd;

	id = open_tunnel(&fd);
	for (size_t sent = 0; sent < 1 << 20;) {
		ssize_t n = send(fd, bytes + sent, (1 << 20) - sent, MSG_DONTWAIT);

		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	while (got < WIRE_NET_WINDOW) {
		expect(WIRE_NET_DATA, id);
		assert_int_equal(wire_get_net_data(frame.payload, frame.length, &m), 0);
		got += m.bytes.count;
	}
	assert_int_equal(got, WIRE_NET_WINDOW);
	client_ping(&client, 0); /* nothing else comes */
	SAY(net_credit, id, .bytes = 10);
	expect(WIRE_NET_DATA, id);
	assert_int_equal(frame.length, 4 + 10);
	close(fd);
	free(bytes);
}

static void test_resets(void **state)
{
	uint32_t id;
	uint8_t byte;
	int fd;

	id = open_tunnel(&fd);
	setsockopt(
		fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
	close(fd);
	assert_int_equal(hears_close(id), ECONNRESET);
	/* what was under way to it is no fault */
	say_data(id, "late", 4);
	SAY(net_close, id, .error = 0, .why = wire_str(""));
	id = open_tunnel(&fd);
	SAY(net_close, id, .error = ECONNRESET, .why = wire_str("a new policy denies it"));
	assert_int_equal(hears_close(id), 0);
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fd);
}

static const char question[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1";
#define QUESTION (sizeof(question) - 1)

static uint32_t asked_name(const char *name)
{
	struct wire_net_resolve m;

	expect(WIRE_NET_RESOLVE, 0);
	assert_int_equal(wire_get_net_resolve(frame.payload, frame.length, &m), 0);
	assert_string_equal(m.name.text, name);
	return frame.stream;
}

static void test_names_and_direct_connections(void **state)
{
	int udp = try_to("8.8.8.8", 53, SOCK_DGRAM), tcp, fd;
	char answer[512], address[INET_ADDRSTRLEN], twice[2 * (QUESTION + 2)];
	uint32_t id;
	ssize_t n;

	assert_int_equal(send(udp, question, QUESTION, 0), QUESTION);
	SAY(net_resolved, asked_name("example.org"), .error = 0);
	n = recv(udp, answer, sizeof(answer), 0);
	assert_int_equal(n, QUESTION + 16);
	assert_non_null(inet_ntop(AF_INET, answer + n - 4, address, sizeof(address)));
	assert_memory_equal(address, "198.18.", 7);
	fd = try_to(address, 443, SOCK_STREAM);
	assert_true(fd >= 0);
	id = asked("example.org", 443);
	SAY(net_opened, id, .unused_ = 0);
	say_data(id, "hi", 2);
	reads(fd, "hi", 2);
	close(fd);
	expect(WIRE_NET_END, id);
	fd = try_to("192.0.2.7", 80, SOCK_STREAM);
	id = asked("192.0.2.7", 80);
	SAY(net_close, id, .error = EACCES, .why = wire_str(""));
	assert_int_equal(hears_close(id), 0);
	assert_int_equal(recv(fd, answer, 1, 0), -1);
	close(fd);
	/* no such name; and two questions in one piece over TCP */
	assert_int_equal(send(udp, question, QUESTION, 0), QUESTION);
	SAY(net_resolved, asked_name("example.org"), .error = ENOENT);
	assert_int_equal(recv(udp, answer, sizeof(answer), 0), QUESTION);
	assert_int_equal(answer[3] & 15, 3);
	for (int i = 0; i < 2; i++) {
		twice[(size_t)i * (QUESTION + 2)] = 0;
		twice[(size_t)i * (QUESTION + 2) + 1] = QUESTION;
		memcpy(twice + (size_t)i * (QUESTION + 2) + 2, question, QUESTION);
	}
	tcp = program("127.0.0.1", 53, twice, sizeof(twice));
	for (int i = 0; i < 2; i++) {
		SAY(net_resolved, asked_name("example.org"), .error = 0);
		for (size_t got = 0; got < 2 + QUESTION + 16; got += (size_t)n) {
			n = recv(tcp, answer, 2 + QUESTION + 16 - got, 0);
			assert_true(n > 0);
		}
	}
	close(tcp);
	close(udp);
}

static void test_addresses_that_stand_for_nothing(void **state)
{
	static const char *const nobody[] = {"127.0.0.1", "127.9.9.9", "198.19.7.7"};
	uint8_t byte;

	for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
		int fd = try_to(nobody[i], 443, SOCK_STREAM);

		if (fd >= 0)
			assert_int_equal(recv(fd, &byte, 1, 0), -1);
		close(fd);
	}
	client_ping(&client, 0); /* the host was not asked */
	assert_int_equal(try_to("192.0.2.7", 81, SOCK_STREAM), -1);
}

static void test_more_connections_than_places(void **state)
{
	int fds[EGRESS_CONNECTIONS + 20];
	uint32_t ids[EGRESS_CONNECTIONS];

	for (size_t i = 0; i < EGRESS_CONNECTIONS + 20; i++)
		fds[i] = program("127.0.0.1", 3128, CONNECT, strlen(CONNECT));
	for (size_t i = 0; i < EGRESS_CONNECTIONS; i++)
		ids[i] = asked("example.org", 443);
	client_ping(&client, 0); /* the others wait */
	for (size_t i = 0; i < 20; i++) {
		SAY(net_close, ids[i], .error = EACCES, .why = wire_str(""));
		assert_int_equal(hears_close(ids[i]), 0);
		asked("example.org", 443);
	}
	for (size_t i = 0; i < EGRESS_CONNECTIONS + 20; i++)
		close(fds[i]);
}

static void test_off(void **state)
{
	uint32_t id;
	int fd;

	id = open_tunnel(&fd);
	set(false);
	assert_int_equal(try_to("127.0.0.1", 3128, SOCK_STREAM), -1);
	assert_int_equal(try_to("192.0.2.7", 443, SOCK_STREAM), -1);
	/* what is open ends when the host says so */
	SAY(net_close, id, .error = ECONNRESET, .why = wire_str(""));
	assert_int_equal(hears_close(id), 0);
	close(fd);
	set(true);
	open_tunnel(&fd);
	close(fd);
}

static void test_a_host_that_breaks_the_protocol(void **state)
{
	static uint8_t bytes[WIRE_NET_WINDOW + 1];
	uint32_t id;
	int fd;

	id = open_tunnel(&fd);
	say_data(id, bytes, sizeof(bytes));
	client_expect_breach(&client);
	close(fd);
	client_start(&client);
	SAY(net_opened, 77, .unused_ = 0);
	client_expect_breach(&client);
	client_start(&client);
	SAY(net_resolved, 77, .error = 0);
	client_expect_breach(&client);
	client_start(&client);
	SAY(net_set, 1, .on = 1);
	client_expect_breach(&client);
}

/* Ports of the agent are the same everywhere, and a route for all addresses is for nobody else. */
static int make_network(void **state)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd;

	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		return -1;
	close(fd);
	return egress_route(true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_tunnel),
		TEST(test_bytes_behind_the_head),
		TEST(test_the_next_request_is_not_for_this_target),
		TEST(test_refusals_in_words),
		TEST(test_socks),
		TEST(test_a_slow_reader),
		TEST(test_a_host_that_does_not_read),
		TEST(test_resets),
		TEST(test_names_and_direct_connections),
		TEST(test_addresses_that_stand_for_nothing),
		TEST(test_more_connections_than_places),
		TEST(test_off),
		TEST(test_a_host_that_breaks_the_protocol),
	};

	return cmocka_run_group_tests(tests, make_network, NULL);
}
