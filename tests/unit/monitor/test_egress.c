/* SPDX-License-Identifier: Apache-2.0 - connections of a guest: what breaks the protocol, what is
 * refused, and bytes both ways, with a real monitor and its connector. */
#include "monitor.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ON     "{\"network\": \"{\\\"internet\\\": true, \\\"alsoAllow\\\": [\\\"127.66.0.0/16\\\"]}\"}"
#define OFF    "{\"network\": \"{\\\"internet\\\": false}\"}"
#define FRAMES (300 * 64)

struct words {
	uint8_t bytes[FRAMES + WIRE_NET_WINDOW];
	int count;
};
static struct words words;

#define SAY(kind, id, ...)                                                                         \
	do {                                                                                       \
		int n_ = wire_put_##kind(words.bytes + words.count,                                \
			sizeof(words.bytes) - (size_t)words.count, id, 0,                          \
			&(struct wire_##kind){__VA_ARGS__});                                       \
		assert_true(n_ > 0);                                                               \
		words.count += n_;                                                                 \
	} while (0)

static void say_open(uint32_t id, const char *host, uint32_t port)
{
	SAY(net_open, id, .host = wire_str(host), .port = port);
}

static void say_data(uint32_t id, const void *bytes, uint32_t count)
{
	SAY(net_data, id, .bytes = {bytes, count});
}

/* --- breaches --- */

static void id_of_nothing(void)
{
	say_open(0, "example.org", 80);
}

static void id_twice(void)
{
	say_open(1, "10.0.0.1", 80);
	say_open(1, "10.0.0.1", 80);
}

static void id_of_a_lookup(void)
{
	SAY(net_resolve, 1, .name = wire_str("a.invalid"));
	say_open(1, "10.0.0.1", 80);
}

static void data_of_nothing(void)
{
	say_data(7, "x", 1);
}

static void data_of_a_lookup(void)
{
	SAY(net_resolve, 1, .name = wire_str("a.invalid"));
	say_data(1, "x", 1);
}

/* nothing answers there, so that it waits */
static void data_before_it_is_open(void)
{
	say_open(1, "192.0.2.77", 80);
	say_data(1, "x", 1);
}

static void end_before_it_is_open(void)
{
	say_open(1, "192.0.2.77", 80);
	SAY(net_end, 1, .unused_ = 0);
}

static void credit_beyond_the_window(void)
{
	say_open(1, "192.0.2.77", 80);
	SAY(net_credit, 1, .bytes = 1);
}

static void close_of_nothing(void)
{
	SAY(net_close, 3, .error = 0, .why = wire_str(""));
}

static void end_of_nothing(void)
{
	SAY(net_end, 3, .unused_ = 0);
}

static void what_only_hosts_say(void)
{
	SAY(net_set, 0, .on = 1);
}

static void opened(void)
{
	SAY(net_opened, 1, .unused_ = 0);
}

static void resolved(void)
{
	SAY(net_resolved, 1, .error = 0);
}

static void too_many(void)
{
	for (uint32_t i = 1; i <= WIRE_NET_MOST + 1; i++)
		say_open(i, "x", 0);
}

static void malformed(void)
{
	say_open(1, "10.0.0.1", 80);
	words.bytes[WIRE_HEADER] = 0xff; /* the length of the name */
}

struct offence {
	const char *name;
	void (*say)(void);
};
#define OFFENCE(name)                                                                              \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct offence offences[] = {OFFENCE(id_of_nothing), OFFENCE(id_twice),
	OFFENCE(id_of_a_lookup), OFFENCE(data_of_nothing), OFFENCE(data_of_a_lookup),
	OFFENCE(data_before_it_is_open), OFFENCE(end_before_it_is_open),
	OFFENCE(credit_beyond_the_window), OFFENCE(close_of_nothing), OFFENCE(end_of_nothing),
	OFFENCE(what_only_hosts_say), OFFENCE(opened), OFFENCE(resolved), OFFENCE(too_many),
	OFFENCE(malformed)};

static void ping(struct host *h, uint32_t stream)
{
	uint8_t f[64];

	host_send(h, f, wire_put_ping(f, sizeof(f), stream, 0, &(struct wire_ping){0}));
}

/* A machine that says `words` when the first PING comes. */
static void begin(struct host *h, struct home *home, const char *config)
{
	struct buffer script = {0};

	buffer_add_text(&script, "send at PING ");
	monitor_quote(&script, words.bytes, words.count);
	buffer_add_text(&script, "\n");
	monitor_ready(h, home, buffer_text(&script), config);
	buffer_fini(&script);
	ping(h, 5);
}

static void breaks(struct home *home, const struct offence *o, const char *config)
{
	struct host h;

	print_message("    %s\n", o->name);
	words.count = 0;
	o->say();
	begin(&h, home, config);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_FAULT, "");
	host_end(&h);
}

static void guests_that_break_the_protocol(void **state)
{
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++)
		breaks(*state, &offences[i], ON);
}

static void one_open(void)
{
	say_open(1, "127.66.0.1", 80);
}

static void one_lookup(void)
{
	SAY(net_resolve, 1, .name = wire_str("example.org"));
}

/* internet: false: whatever is said of the network ends the sandbox */
static void without_internet_all_is_a_breach(void **state)
{
	static const struct offence all[] = {OFFENCE(one_open), OFFENCE(one_lookup),
		OFFENCE(data_of_nothing), OFFENCE(close_of_nothing)};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		breaks(*state, &all[i], NULL);
		breaks(*state, &all[i], OFF);
	}
}

/* --- what is refused --- */

static struct wire_mon_network_reply ask(struct host *h, const char *policy)
{
	struct wire_mon_network_reply m;
	uint8_t f[512];

	host_send(h, f,
		wire_put_mon_network(f, sizeof(f), 9, 0,
			&(struct wire_mon_network){.policy = wire_str(policy)}));
	do {
		assert_int_equal(host_next(h), 1);
		assert_int_not_equal(h->frame.type, WIRE_MON_STOPPED);
	} while (h->frame.stream != 9);
	assert_int_equal(h->frame.type, WIRE_MON_NETWORK_REPLY);
	assert_int_equal(wire_get_mon_network_reply(h->frame.payload, h->frame.length, &m), 0);
	return m;
}

/* Ask until it is so: what is refused on the way through the connector takes a moment. */
static struct wire_mon_network_reply ask_until_refused(struct host *h, uint64_t refused)
{
	struct wire_mon_network_reply m;

	do {
		m = ask(h, "");
	} while (m.refused < refused);
	return m;
}

static void refusals_are_no_breach(void **state)
{
	static const char *const never[] = {"10.0.0.1", "127.0.0.1", "169.254.169.254", "::1",
		"::ffff:127.0.0.1", "fd00:ec2::254", "64:ff9b::7f00:1", "localhost"};
	static const char *const odd[] = {
		"", "2130706433", "127.1", "exa mple.org", "a..b", "-\n", "[::1]", "*"};
	struct wire_mon_network_reply m;
	struct host h;
	uint32_t id = 0;

	words.count = 0;
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		say_open(++id, never[i], 80);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		say_open(++id, odd[i], 80);
	say_open(++id, "127.66.0.1", 0);
	say_open(++id, "127.66.0.1", 65536);
	/* given up while it waits, and its id used again at once */
	say_open(++id, "192.0.2.77", 80);
	SAY(net_close, id, .error = 0, .why = wire_str(""));
	say_open(id, "10.0.0.1", 80);
	begin(&h, *state, ON);
	m = ask_until_refused(&h, 9);
	assert_int_equal(m.refused, 9);
	assert_int_equal(m.connections, 0);
	assert_true(m.on);
	host_end(&h);
}

static void connections_at_once_are_limited(void **state)
{
	struct wire_mon_network_reply m;
	struct host h;

	words.count = 0;
	for (uint32_t id = 1; id <= 200; id++)
		say_open(id, "192.0.2.77", 80);
	begin(&h, *state, ON);
	m = ask_until_refused(&h, 8);
	assert_int_equal(m.refused, 8);
	host_end(&h);
}

/* Each is given up at once, so that only their pace is at fault: 600 would need three seconds. */
static void connections_in_a_short_time_are_limited(void **state)
{
	struct wire_mon_network_reply m;
	struct host h;

	words.count = 0;
	for (uint32_t i = 0; i < 600; i++) {
		say_open(1, "10.0.0.1", 80);
		SAY(net_close, 1, .error = 0, .why = wire_str(""));
	}
	begin(&h, *state, ON);
	m = ask_until_refused(&h, 1);
	assert_int_equal(m.connections, 0);
	host_end(&h);
}

/* --- bytes --- */

static int listen_on(const char *address, uint32_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static void assert_bytes(int fd, const char *text)
{
	char bytes[64];
	size_t n = 0;

	while (n < strlen(text)) {
		ssize_t k = recv(fd, bytes + n, strlen(text) - n, 0);

		assert_true(k > 0);
		n += (size_t)k;
	}
	assert_memory_equal(bytes, text, n);
}

/* The guest speaks as soon as it is told NET_OPENED, and ends what it says. */
static void bytes_go_both_ways_and_a_new_policy_resets(void **state)
{
	struct wire_mon_network_reply m;
	struct buffer script = {0};
	uint32_t port;
	int listener = listen_on("127.66.0.1", &port), fd;
	struct host h;

	words.count = 0;
	say_open(1, "127.66.0.1", port);
	buffer_add_text(&script, "send at PING ");
	monitor_quote(&script, words.bytes, words.count);
	words.count = 0;
	say_data(1, "hello", 5);
	buffer_add_text(&script, "\nsend at NET_OPENED ");
	monitor_quote(&script, words.bytes, words.count);
	buffer_add_text(&script, "\n");
	monitor_ready(&h, *state, buffer_text(&script), ON);
	ping(&h, 5);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	assert_bytes(fd, "hello");
	assert_int_equal(send(fd, "good day", 8, 0), 8);
	do {
		m = ask(&h, "");
	} while (m.bytes_in < 8);
	assert_int_equal(m.bytes_in, 8);
	assert_int_equal(m.bytes_out, 5);
	assert_int_equal(m.open, 1);
	assert_int_equal(m.connections, 1);
	/* a policy that still allows it changes nothing */
	m = ask(&h, "{\"internet\": true, \"alsoAllow\": [\"127.66.0.1\"], \"deny\": [\"a.net\"]}");
	assert_int_equal(m.refused, 0);
	assert_int_equal(send(fd, "!", 1, MSG_NOSIGNAL), 1);
	m = ask(&h, "{\"internet\": true, \"alsoAllow\": [\"127.66.0.1\"],"
		    "\"deny\": [\"127.66.0.0/24\"]}");
	assert_int_equal(m.refused, 1);
	assert_int_equal(recv(fd, &port, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fd);
	close(listener);
	host_end(&h);
	buffer_fini(&script);
}

static void wrong_policies_are_told(void **state)
{
	struct wire_fail m;
	struct host h;
	uint8_t f[512];

	monitor_ready(&h, *state, "", ON);
	host_send(&h, f,
		wire_put_mon_network(f, sizeof(f), 9, 0,
			&(struct wire_mon_network){
				.policy = wire_str("{\"internet\": true, \"deny\": [\"a b\"]}")}));
	host_expect(&h, WIRE_FAIL, 9);
	assert_int_equal(wire_get_fail(h.frame.payload, h.frame.length, &m), 0);
	assert_int_equal(m.error, EINVAL);
	assert_non_null(strstr(m.message.text, "deny[0]"));
	/* the old one is still there */
	assert_true(ask(&h, "").on);
	host_end(&h);
	monitor_ready(&h, *state, "", NULL);
	host_send(&h, f,
		wire_put_mon_network(f, sizeof(f), 9, 0,
			&(struct wire_mon_network){.policy = wire_str("{\"internet\": true}")}));
	host_expect(&h, WIRE_FAIL, 9);
	assert_int_equal(wire_get_fail(h.frame.payload, h.frame.length, &m), 0);
	assert_int_equal(m.error, EPERM);
	host_end(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			guests_that_break_the_protocol, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(
			without_internet_all_is_a_breach, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(refusals_are_no_breach, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(
			connections_at_once_are_limited, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(
			connections_in_a_short_time_are_limited, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(
			bytes_go_both_ways_and_a_new_policy_resets, home_setup, home_teardown),
		cmocka_unit_test_setup_teardown(wrong_policies_are_told, home_setup, home_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
