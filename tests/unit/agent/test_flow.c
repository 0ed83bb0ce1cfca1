/* SPDX-License-Identifier: Apache-2.0 - the protocol: credit, streams beside each other, breaches.
 */
#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct client client;

static int setup(void **state)
{
	*state = &client;
	client_start(&client);
	return 0;
}

static int teardown(void **state)
{
	client_stop(*state, 0);
	return 0;
}

/* The window is sent and no byte more; other streams go on meanwhile. */
static void stalled_stream_stalls_itself_only(void **state)
{
	struct client *c = *state;
	struct wire_frame f;
	struct outcome o;
	uint32_t id;
	size_t got = 0;

	id = client_shell(c, "yes", (struct exec_options){0});
	while (got < WIRE_WINDOW) {
		client_frame(c, &f);
		got += f.type == WIRE_DATA ? f.length : 0;
	}
	assert_int_equal(got, WIRE_WINDOW);
	for (int i = 0; i < 20; i++)
		assert_int_equal(client_ping(c, id), 0);
	client_write(c, client_path(c, "file"), "x", 1, &o);
	assert_done(&o);
	outcome_fini(&o);
	client_credit(c, id, WIRE_STDOUT, 5);
	for (got = 0; got < 5;) {
		client_frame(c, &f);
		assert_int_equal(f.stream, id);
		got += f.length;
	}
	assert_int_equal(got, 5);
	assert_int_equal(client_ping(c, id), 0);
	client_kill(c, id, WIRE_KILL_CANCEL);
	client_finish(c, id, &o);
	outcome_fini(&o);
}

/* One channel of an exec without credit does not hold up its other channels. */
static void channels_do_not_wait_for_each_other(void **state)
{
	struct client *c = *state;
	struct wire_frame f;
	struct outcome o;
	uint32_t id;
	size_t got = 0;

	id = client_shell(c, "yes & head -c 300000 /dev/zero >&2; echo done >&2; wait",
		(struct exec_options){0});
	while (got < 300005) {
		client_frame(c, &f);
		if (f.type == WIRE_DATA && f.channel == WIRE_STDERR)
			got += f.length;
	}
	client_kill(c, id, WIRE_KILL_CANCEL);
	client_finish(c, id, &o);
	outcome_fini(&o);
}

static void file_stream_waits_for_credit(void **state)
{
	struct client *c = *state;
	struct wire_file_read m = {.uid = geteuid(), .gid = getegid()};
	size_t size = 2 * WIRE_WINDOW, got = 0;
	uint8_t *bytes = calloc(1, size);
	struct wire_frame f;
	struct outcome o;
	uint32_t id;

	client_write(c, client_path(c, "f"), bytes, size, &o);
	outcome_fini(&o);
	m.path = wire_str(client_path(c, "f"));
	id = client_id(c);
	client_send(c, wire_put_file_read(c->out, sizeof(c->out), id, 0, &m));
	while (got < WIRE_WINDOW) {
		client_frame(c, &f);
		assert_int_equal(f.type, WIRE_DATA);
		got += f.length;
	}
	assert_int_equal(got, WIRE_WINDOW);
	assert_int_equal(client_ping(c, id), 0);
	client_credit(c, id, WIRE_STDOUT, WIRE_WINDOW);
	client_finish(c, id, &o);
	assert_done(&o);
	assert_int_equal(buffer_length(&o.bytes[1]) - 1, WIRE_WINDOW);
	outcome_fini(&o);
	free(bytes);
}

/* A program that reads nothing holds its input: what fits its pipe is less than a step of credit,
 * so none comes back. */
static void input_waits_in_the_window(void **state)
{
	static uint8_t bytes[WIRE_PAYLOAD_MAX];
	struct wire_ping ping = {.token = 1};
	struct client *c = *state;
	struct wire_frame f;
	struct outcome o;
	uint32_t id;

	id = client_shell(c, "exec sleep 1000", (struct exec_options){.flags = WIRE_EXEC_STDIN});
	client_frame(c, &f);
	assert_int_equal(f.type, WIRE_STARTED);
	client_data(c, id, bytes, sizeof(bytes));
	client_data(c, id, bytes, sizeof(bytes));
	client_send(c, wire_put_ping(c->out, sizeof(c->out), client_id(c), 0, &ping));
	client_frame(c, &f);
	assert_int_equal(f.type, WIRE_PONG);
	client_kill(c, id, WIRE_KILL_WALL);
	client_finish(c, id, &o);
	assert_int_equal(o.exit.reason, WIRE_END_WALL_LIMIT);
	outcome_fini(&o);
}

static void every_stream_is_answered(void **state)
{
	struct client *c = *state;
	struct wire_ping ping = {.token = 1};
	uint32_t ids[WIRE_STREAMS_MAX + 1];
	struct outcome o;

	for (unsigned i = 0; i < WIRE_STREAMS_MAX; i++)
		ids[i] = client_shell(c, "sleep 1000", (struct exec_options){0});
	ids[WIRE_STREAMS_MAX] = client_id(c);
	client_send(c, wire_put_ping(c->out, sizeof(c->out), ids[WIRE_STREAMS_MAX], 0, &ping));
	client_finish(c, ids[WIRE_STREAMS_MAX], &o);
	assert_int_equal(o.type, WIRE_FAIL);
	assert_int_equal(o.error, EBUSY);
	outcome_fini(&o);
	for (unsigned i = 0; i < WIRE_STREAMS_MAX; i++) {
		client_kill(c, ids[i], WIRE_KILL_CANCEL);
		client_finish(c, ids[i], &o);
		assert_int_equal(o.exit.reason, WIRE_END_KILLED);
		outcome_fini(&o);
	}
	client_ping(c, 0);
}

/* A host that asks and does not read is not listened to for long; nothing is lost by it. */
static void unread_answers_wait(void **state)
{
	struct client *c = *state;
	struct wire_ping m = {.token = 9};
	uint32_t first = c->next_id + 1, sent = 0, most = 1000000;
	bool stopped = false;
	struct wire_frame f;
	size_t left = 0;
	int size = 0;

	while (!stopped && sent < most) {
		struct pollfd wait = {.fd = c->fd, .events = POLLOUT};
		ssize_t n;

		if (!left) {
			size = wire_put_ping(c->out, sizeof(c->out), client_id(c), 0, &m);
			left = (size_t)size;
		}
		n = send(c->fd, c->out + size - left, left, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			left -= (size_t)n;
		sent += !left;
		stopped = n < 0 && poll(&wait, 1, 500) == 0;
	}
	assert_true(stopped);
	for (uint32_t i = 0; i < sent; i++) {
		client_frame(c, &f);
		assert_int_equal(f.type, WIRE_PONG);
		assert_int_equal(f.stream, first + i);
	}
	client_send_raw(c, c->out + size - left, left);
	client_frame(c, &f);
	assert_int_equal(f.stream, first + sent);
	client_ping(c, 0);
}

/* What breaks the protocol ends the connection, and the agent with it. */
static int start_only(void **state)
{
	*state = &client;
	client_start(&client);
	return 0;
}

static void breach_header(struct client *c)
{
	static const uint8_t bytes[WIRE_HEADER] = {0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 1, 0, 0, 0};

	client_send_raw(c, bytes, sizeof(bytes));
}

static void breach_type(struct client *c)
{
	static const uint8_t bytes[WIRE_HEADER] = {0, 0, 0, 0, 0x77, 0x77, 0, 0, 1, 0, 0, 0};

	client_send_raw(c, bytes, sizeof(bytes));
}

static void breach_direction(struct client *c)
{
	struct wire_pong m = {0};

	client_send(c, wire_put_pong(c->out, sizeof(c->out), 5, 0, &m));
}

static void breach_monitor_message(struct client *c)
{
	struct wire_mon_stop m = {0};

	client_send(c, wire_put_mon_stop(c->out, sizeof(c->out), 0, 0, &m));
}

static void breach_payload(struct client *c)
{
	struct wire_ping m = {0};
	int size = wire_put_ping(c->out, sizeof(c->out), 5, 0, &m);

	c->out[0]--;
	client_send(c, size - 1);
}

static void breach_stream_zero(struct client *c)
{
	struct wire_ping m = {0};

	client_send(c, wire_put_ping(c->out, sizeof(c->out), 0, 0, &m));
}

static void breach_id_in_use(struct client *c)
{
	struct wire_ping m = {0};
	uint32_t id = client_shell(c, "sleep 1000", (struct exec_options){0});

	client_send(c, wire_put_ping(c->out, sizeof(c->out), id, 0, &m));
}

static void breach_channel(struct client *c)
{
	uint32_t id = client_shell(c, "cat", (struct exec_options){.flags = WIRE_EXEC_STDIN});

	wire_header_put(c->out, 0, WIRE_DATA, WIRE_STDOUT, id);
	client_send(c, WIRE_HEADER);
}

static void breach_window(struct client *c)
{
	static uint8_t bytes[WIRE_PAYLOAD_MAX];
	uint32_t id =
		client_shell(c, "sleep 1000", (struct exec_options){.flags = WIRE_EXEC_STDIN});

	client_data(c, id, bytes, sizeof(bytes));
	client_data(c, id, bytes, sizeof(bytes));
	client_data(c, id, bytes, sizeof(bytes));
}

static void breach_credit(struct client *c)
{
	uint32_t id = client_shell(c, "sleep 1000", (struct exec_options){0});

	client_credit(c, id, WIRE_STDOUT, 1);
}

static void breach_data_after_end(struct client *c)
{
	uint32_t id =
		client_shell(c, "sleep 1000", (struct exec_options){.flags = WIRE_EXEC_STDIN});

	client_end(c, id);
	client_data(c, id, "x", 1);
}

static void breach_signal(struct client *c)
{
	struct wire_signal m = {.signal = 65};
	uint32_t id = client_shell(c, "sleep 1000", (struct exec_options){0});

	client_send(c, wire_put_signal(c->out, sizeof(c->out), id, 0, &m));
}

#define BREACH(name)                                                                               \
	static void name##_ends_it(void **state)                                                   \
	{                                                                                          \
		breach_##name(*state);                                                             \
		client_expect_breach(*state);                                                      \
	}
BREACH(header)
BREACH(type)
BREACH(direction)
BREACH(monitor_message)
BREACH(payload)
BREACH(stream_zero)
BREACH(id_in_use)
BREACH(channel)
BREACH(window)
BREACH(credit)
BREACH(data_after_end)
BREACH(signal)

/* SHUTDOWN and the end of the connection end whatever runs. */
static void shutdown_kills_all(void **state)
{
	struct client *c = *state;
	struct wire_shutdown m = {0};
	struct wire_frame f;
	uint8_t byte;

	client_shell(c, "echo x; exec sleep 1000", (struct exec_options){0});
	do {
		client_frame(c, &f);
	} while (f.type != WIRE_DATA);
	client_send(c, wire_put_shutdown(c->out, sizeof(c->out), 0, 0, &m));
	while (read(c->fd, &byte, 1) > 0)
		;
	client_stop(c, 0);
}

int main(void)
{
#define TEST(f)    cmocka_unit_test_setup_teardown(f, setup, teardown)
#define ENDS(name) cmocka_unit_test_setup(name##_ends_it, start_only)
	const struct CMUnitTest tests[] = {TEST(stalled_stream_stalls_itself_only),
		TEST(channels_do_not_wait_for_each_other), TEST(file_stream_waits_for_credit),
		TEST(input_waits_in_the_window), TEST(every_stream_is_answered),
		TEST(unread_answers_wait), ENDS(header), ENDS(type), ENDS(direction),
		ENDS(monitor_message), ENDS(payload), ENDS(stream_zero), ENDS(id_in_use),
		ENDS(channel), ENDS(window), ENDS(credit), ENDS(data_after_end), ENDS(signal),
		cmocka_unit_test_setup(shutdown_kills_all, start_only)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
