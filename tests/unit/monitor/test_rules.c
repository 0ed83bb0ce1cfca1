/* SPDX-License-Identifier: Apache-2.0 - who may say what: guests and clients that break the
 * protocol. */
#include "monitor.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- guests --- */

/* the stream numbers of a monitor towards its guest begin here */
#define FIRST 1

struct offence {
	const char *name;
	enum wire_type at; /* said when this request comes, on its stream */
	int (*make)(uint8_t *out, size_t size);
};

#define FRAME(name, kind, stream, channel, ...)                                                    \
	static int name(uint8_t *out, size_t size)                                                 \
	{                                                                                          \
		return wire_put_##kind(                                                            \
			out, size, stream, channel, &(struct wire_##kind){__VA_ARGS__});           \
	}

FRAME(second_hello, hello, 0, 0, .version = WIRE_VERSION, .kernel = wire_str("x"))
FRAME(done, done, FIRST, 0, .unused_ = 0)
FRAME(done_elsewhere, done, FIRST + 9, 0, .unused_ = 0)
FRAME(fail_of_nothing, fail, 0, 0, .error = 1)
FRAME(exited, exit, FIRST, 0, .status = 1)
FRAME(pong, pong, FIRST, 0, .token = 0)
FRAME(stats, stats_reply, FIRST, 0, .cpu_us = 0)
FRAME(entry, entry, FIRST, 0, .path = wire_str("x"), .type = WIRE_FILE_REGULAR)
FRAME(started, started, FIRST, 0, .pid = 1)
FRAME(much_credit, credit, FIRST, WIRE_STDIN, .bytes = 1)
FRAME(odd_credit, credit, FIRST, WIRE_STDOUT, .bytes = 1)
FRAME(request, ping, FIRST, 0, .token = 1)
FRAME(kill_frame, kill, FIRST, 0, .reason = 0)
FRAME(of_a_monitor, mon_ready, 0, 0, .id = wire_str("x"))
FRAME(end_of_stdin, end, FIRST, WIRE_STDIN, .unused_ = 0)
FRAME(end_of_stderr, end, FIRST, WIRE_STDERR, .unused_ = 0)

static int twice(int (*one)(uint8_t *, size_t), uint8_t *out, size_t size)
{
	int n = one(out, size);

	return n + one(out + n, size - (size_t)n);
}

static int end_twice(uint8_t *out, size_t size)
{
	return twice(end_of_stderr, out, size);
}

static int started_twice(uint8_t *out, size_t size)
{
	return twice(started, out, size);
}

static int data(uint8_t *out, uint16_t channel, uint32_t count)
{
	wire_header_put(out, count, WIRE_DATA, channel, FIRST);
	memset(out + WIRE_HEADER, 'x', count);
	return (int)(WIRE_HEADER + count);
}

static int data_on_stdin(uint8_t *out, size_t size)
{
	return data(out, WIRE_STDIN, 1);
}

static int data_on_stderr(uint8_t *out, size_t size)
{
	return data(out, WIRE_STDERR, 1);
}

static int empty_data(uint8_t *out, size_t size)
{
	return data(out, WIRE_STDOUT, 0);
}

static int data_after_end(uint8_t *out, size_t size)
{
	int n = end_of_stderr(out, size);

	return n + data(out + n, WIRE_STDERR, 1);
}

static int long_frame(uint8_t *out, size_t size)
{
	wire_header_put(out, WIRE_PAYLOAD_MAX + 1, WIRE_DATA, WIRE_STDOUT, FIRST);
	return WIRE_HEADER;
}

static int unknown_type(uint8_t *out, size_t size)
{
	wire_header_put(out, 0, (enum wire_type)0x7777, 0, FIRST);
	return WIRE_HEADER;
}

static int short_payload(uint8_t *out, size_t size)
{
	wire_header_put(out, 1, WIRE_EXIT, 0, FIRST);
	out[WIRE_HEADER] = 0;
	return WIRE_HEADER + 1;
}

static const struct offence offences[] = {
	{"second hello", WIRE_EXEC, second_hello},
	{"DONE of a command", WIRE_EXEC, done},
	{"DONE of nothing", WIRE_EXEC, done_elsewhere},
	{"FAIL of nothing", WIRE_EXEC, fail_of_nothing},
	{"PONG of a command", WIRE_EXEC, pong},
	{"STATS_REPLY of a command", WIRE_EXEC, stats},
	{"ENTRY of a command", WIRE_EXEC, entry},
	{"started twice", WIRE_EXEC, started_twice},
	{"credit beyond the window", WIRE_EXEC, much_credit},
	{"credit for its own output", WIRE_EXEC, odd_credit},
	{"a request", WIRE_EXEC, request},
	{"KILL", WIRE_EXEC, kill_frame},
	{"a message of monitors", WIRE_EXEC, of_a_monitor},
	{"END of stdin", WIRE_EXEC, end_of_stdin},
	{"END twice", WIRE_EXEC, end_twice},
	{"DATA on stdin", WIRE_EXEC, data_on_stdin},
	{"DATA after END", WIRE_EXEC, data_after_end},
	{"empty DATA", WIRE_EXEC, empty_data},
	{"a frame too long", WIRE_EXEC, long_frame},
	{"an unknown type", WIRE_EXEC, unknown_type},
	{"a short payload", WIRE_EXEC, short_payload},
	{"EXIT of a write", WIRE_FILE_WRITE, exited},
	{"DONE before the input's end", WIRE_FILE_WRITE, done},
	{"DATA of a write", WIRE_FILE_WRITE, empty_data},
	{"STARTED of a write", WIRE_FILE_WRITE, started},
	{"ENTRY of a write", WIRE_FILE_WRITE, entry},
	{"credit beyond the window of a write", WIRE_FILE_WRITE, much_credit},
	{"stderr of a read", WIRE_FILE_READ, data_on_stderr},
	{"STATS_REPLY of a read", WIRE_FILE_READ, stats},
	{"credit of a read", WIRE_FILE_READ, much_credit},
	{"DONE of a PING", WIRE_PING, done},
	{"STATS_REPLY of a PING", WIRE_PING, stats},
	{"PONG of STATS", WIRE_STATS, pong},
	{"DATA of a list", WIRE_FILE_LIST, data_on_stderr},
};

static void send_request(struct host *h, enum wire_type type, uint32_t stream)
{
	struct wire_str path = wire_str("/f");
	uint8_t f[256];
	int n = -1;

	if (type == WIRE_EXEC)
		return host_exec(h, stream, "x", &(struct wire_exec){.flags = WIRE_EXEC_STDIN});
	if (type == WIRE_FILE_WRITE)
		n = wire_put_file_write(
			f, sizeof(f), stream, 0, &(struct wire_file_write){.path = path});
	else if (type == WIRE_FILE_READ)
		n = wire_put_file_read(
			f, sizeof(f), stream, 0, &(struct wire_file_read){.path = path});
	else if (type == WIRE_FILE_LIST)
		n = wire_put_file_list(
			f, sizeof(f), stream, 0, &(struct wire_file_list){.path = path});
	else if (type == WIRE_STATS)
		n = wire_put_stats(f, sizeof(f), stream, 0, &(struct wire_stats){0});
	else if (type == WIRE_PING)
		n = wire_put_ping(f, sizeof(f), stream, 0, &(struct wire_ping){0});
	host_send(h, f, n);
}

static void offend(struct home *home, const struct offence *o)
{
	static uint8_t frames[4 * WIRE_FRAME_MAX];
	struct buffer script = {0};
	struct host h;

	print_message("    %s\n", o->name);
	buffer_printf(&script, "exec * hang\nsend at %s ", wire_type_name((uint16_t)o->at));
	monitor_quote(&script, frames, o->make(frames, sizeof(frames)));
	buffer_add_text(&script, "\n");
	monitor_ready(&h, home, buffer_text(&script), NULL);
	buffer_fini(&script);
	send_request(&h, o->at, 5);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_FAULT, "");
	host_end(&h);
}

static void guests_that_break_the_protocol(void **state)
{
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++)
		offend(*state, &offences[i]);
}

static void guest_that_sends_without_credit(void **state)
{
	struct buffer script = {0};
	uint8_t frame[32];
	struct host h;

	buffer_printf(&script, "exec * flood %u hang\nsend at PING ", WIRE_WINDOW);
	monitor_quote(&script, frame, data(frame, WIRE_STDOUT, 1));
	buffer_add_text(&script, "\n");
	monitor_ready(&h, *state, buffer_text(&script), NULL);
	host_exec(&h, 1, "x", NULL);
	host_expect(&h, WIRE_STARTED, 1);
	for (size_t got = 0; got < WIRE_WINDOW; got += h.frame.length)
		host_expect(&h, WIRE_DATA, 1);
	send_request(&h, WIRE_PING, 2);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_FAULT, "without credit");
	host_end(&h);
	buffer_fini(&script);
}

/* 200 frames in one burst and then silence: once, all but the first 64 were left lying. */
static void bursts_arrive_whole(void **state)
{
	struct buffer script = {0}, out[WIRE_CHANNELS] = {0};
	struct wire_exit exit;
	struct host h;

	buffer_add_text(&script, "exec *");
	for (int i = 0; i < 200; i++)
		buffer_printf(&script, " stdout %d,", i);
	buffer_add_text(&script, " exit 7\n");
	monitor_ready(&h, *state, buffer_text(&script), NULL);
	host_exec(&h, 1, "x", NULL);
	host_finish(&h, 1, out, &exit);
	assert_int_equal(exit.status, 7);
	assert_int_equal(buffer_length(&out[WIRE_STDOUT]), exit.stdout_bytes);
	host_end(&h);
	buffer_fini(&out[WIRE_STDOUT]);
	buffer_fini(&script);
}

static void last_words_arrive_whole(void **state)
{
	struct buffer script = {0};
	uint8_t frame[128];
	size_t got = 0;
	struct host h;

	buffer_add_text(&script, "send at EXEC \"");
	for (int i = 0; i < 200; i++) {
		int n = data(frame, WIRE_STDOUT, 3);

		for (int k = 0; k < n; k++)
			buffer_printf(&script, "\\x%02x", frame[k]);
	}
	buffer_add_text(&script, "\"\nsend at EXEC ");
	monitor_quote(&script, frame, exited(frame, sizeof(frame)));
	buffer_add_text(&script, "\nhalf at EXEC\n");
	monitor_ready(&h, *state, buffer_text(&script), NULL);
	host_exec(&h, 1, "x", NULL);
	do { /* no credit: the monitor may be gone as well */
		assert_int_equal(host_next(&h), 1);
		got += h.frame.type == WIRE_DATA ? h.frame.length : 0;
	} while (h.frame.type != WIRE_EXIT);
	assert_int_equal(got, 600);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_ENDED, "ended with status 9");
	host_end(&h);
	buffer_fini(&script);
}

/* The host's measure is the host's: a guest's word for it once passed through. */
static void guest_cannot_claim_the_hosts_measure(void **state)
{
	struct buffer script = {0};
	struct wire_exit exit = {.host_cpu_us = 123456789};
	uint8_t frame[128];
	struct host h;
	uint32_t last;

	/* the second exec is not alone, so nothing is measured for it */
	buffer_add_text(&script, "exec * hang\nsend at EXEC ");
	monitor_quote(&script, frame, wire_put_exit(frame, sizeof(frame), FIRST + 1, 0, &exit));
	buffer_add_text(&script, " 2\n");
	monitor_ready(&h, *state, buffer_text(&script), NULL);
	host_exec(&h, 1, "x", NULL);
	host_exec(&h, 2, "x", NULL);
	do {
		assert_int_equal(host_next(&h), 1);
		last = h.frame.stream;
	} while (h.frame.type != WIRE_EXIT);
	assert_int_equal(last, 2);
	assert_int_equal(wire_get_exit(h.frame.payload, h.frame.length, &exit), 0);
	assert_int_equal(exit.host_cpu_us, 0);
	host_end(&h);
	buffer_fini(&script);
}

/* --- clients --- */

struct fault {
	const char *name;
	enum wire_type open; /* a stream of this kind is open as 1; 0: none */
	int (*make)(uint8_t *out, size_t size);
};

FRAME(client_hello, hello, 1, 0, .version = WIRE_VERSION)
FRAME(client_clock, clock, 0, 0, .realtime_ns = 1)
FRAME(client_shutdown, shutdown, 0, 0, .unused_ = 0)
FRAME(client_entropy, entropy, 0, 0, .bytes = {0})
FRAME(client_exit, exit, 1, 0, .status = 0)
FRAME(stream_zero, ping, 0, 0, .token = 0)
FRAME(stream_in_use, ping, 1, 0, .token = 0)
FRAME(with_a_channel, ping, 3, 1, .token = 0)
FRAME(credit_for_input, credit, 1, WIRE_STDIN, .bytes = 1)
FRAME(credit_beyond_window, credit, 1, WIRE_STDOUT, .bytes = 1)
FRAME(signal_zero, signal, 1, 0, .signal = 0)
FRAME(signal_99, signal, 1, 0, .signal = 99)
FRAME(signal_9, signal, 1, 0, .signal = 9)
FRAME(monitors_word, mon_stopped, 0, 0, .reason = 1)
FRAME(end_of_output, end, 1, WIRE_STDOUT, .unused_ = 0)
FRAME(end_of_input, end, 1, WIRE_STDIN, .unused_ = 0)

static int end_of_input_twice(uint8_t *out, size_t size)
{
	return twice(end_of_input, out, size);
}

static int input_without_credit(uint8_t *out, size_t size)
{
	int n = data(out, WIRE_STDIN, WIRE_PAYLOAD_MAX);

	n += data(out + n, WIRE_STDIN, WIRE_PAYLOAD_MAX);
	return n + data(out + n, WIRE_STDIN, 1);
}

/* Both at once, before the read can have ended: what comes after the end is let pass. */
static int input_of_a_read(uint8_t *out, size_t size)
{
	int n = wire_put_file_read(
		out, size, 1, 0, &(struct wire_file_read){.path = wire_str("/f")});

	assert_true(n > 0);
	return n + data(out + n, WIRE_STDIN, 1);
}

static const struct fault faults[] = {
	{"HELLO", WIRE_EXEC, client_hello},
	{"CLOCK", 0, client_clock},
	{"SHUTDOWN", 0, client_shutdown},
	{"ENTROPY", 0, client_entropy},
	{"EXIT", WIRE_EXEC, client_exit},
	{"stream 0", 0, stream_zero},
	{"a stream in use", WIRE_EXEC, stream_in_use},
	{"a request on a channel", 0, with_a_channel},
	{"credit for input", WIRE_EXEC, credit_for_input},
	{"credit beyond the window", WIRE_EXEC, credit_beyond_window},
	{"credit for what is not sent", WIRE_FILE_WRITE, credit_beyond_window},
	{"signal 0", WIRE_EXEC, signal_zero},
	{"signal 99", WIRE_EXEC, signal_99},
	{"signal to a write", WIRE_FILE_WRITE, signal_9},
	{"MON_STOPPED", 0, monitors_word},
	{"END of output", WIRE_EXEC, end_of_output},
	{"END twice", WIRE_EXEC, end_of_input_twice},
	{"input without credit", WIRE_EXEC, input_without_credit},
	{"input of a read", 0, input_of_a_read},
	{"a frame too long", 0, long_frame},
	{"an unknown type", 0, unknown_type},
	{"a short payload", 0, short_payload},
};

/* Each ends the connection it came on; the machine, and its owner, notice nothing. */
static void clients_that_break_the_protocol(void **state)
{
	static uint8_t frames[4 * WIRE_FRAME_MAX];
	struct host owner, client;

	monitor_ready(&owner, *state, "exec * hang\n", NULL);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		print_message("    %s\n", faults[i].name);
		monitor_attach(&client, *state);
		if (faults[i].open)
			send_request(&client, faults[i].open, 1);
		host_send(&client, frames, faults[i].make(frames, sizeof(frames)));
		monitor_expect_closed(&client);
		monitor_ping(&owner, (uint32_t)i + 1);
	}
	host_end(&owner);
}

static void second_client_runs_commands_of_its_own(void **state)
{
	struct host owner, client;
	struct buffer out[WIRE_CHANNELS] = {0};
	struct wire_exit exit;

	monitor_ready(&owner, *state, "exec a echo exit 1\nexec b stdout b exit 2\n", NULL);
	/* the same numbers do not meet */
	host_exec(&owner, 1, "a", &(struct wire_exec){.flags = WIRE_EXEC_STDIN});
	monitor_attach(&client, *state);
	host_exec(&client, 1, "b", NULL);
	host_finish(&client, 1, out, &exit);
	assert_int_equal(exit.status, 2);
	assert_string_equal(buffer_text(&out[WIRE_STDOUT]), "b");
	buffer_clear(&out[WIRE_STDOUT]);
	/* its end leaves the owner's alone */
	host_exec(&client, 2, "a", &(struct wire_exec){.flags = WIRE_EXEC_STDIN});
	monitor_detach(&client);
	host_data(&owner, 1, "hello", 5);
	host_end_input(&owner, 1);
	host_finish(&owner, 1, out, &exit);
	assert_int_equal(exit.status, 1);
	assert_string_equal(buffer_text(&out[WIRE_STDOUT]), "hello");
	host_end(&owner);
	buffer_fini(&out[WIRE_STDOUT]);
}

static void commands_of_a_dead_client_are_killed(void **state)
{
	struct host owner, client;

	monitor_ready(&owner, *state, "exec * hang\ndie at KILL\n", NULL);
	monitor_attach(&client, *state);
	host_exec(&client, 1, "x", NULL);
	host_expect(&client, WIRE_STARTED, 1);
	monitor_detach(&client);
	monitor_expect_stopped(&owner, SANDBOX_STOPPED_GUEST_ENDED, "status 9");
	host_end(&owner);
}

/* The stop is told to all, and their connections are closed. */
static void all_clients_are_told_the_end(void **state)
{
	struct host owner, client;
	uint8_t frame[WIRE_HEADER];

	monitor_ready(&owner, *state, "", NULL);
	monitor_attach(&client, *state);
	host_send(&client, frame,
		wire_put_mon_stop(frame, sizeof(frame), 1, 0, &(struct wire_mon_stop){0}));
	monitor_expect_stopped(&client, SANDBOX_STOPPED_REQUESTED, "");
	monitor_expect_stopped(&owner, SANDBOX_STOPPED_REQUESTED, "");
	monitor_detach(&client);
	host_end(&owner);
}

static void places_are_limited(void **state)
{
	struct wire_fail fail;
	struct wire_exit exit;
	uint8_t frame[WIRE_HEADER + 4];
	struct host h;

	monitor_ready(&h, *state, "exec hang hang\n", NULL);
	for (uint32_t id = 1; id < WIRE_STREAMS_MAX; id++) {
		host_exec(&h, id, "hang", NULL);
		host_expect(&h, WIRE_STARTED, id);
	}
	/* the last place is the monitor's */
	host_exec(&h, 100, "x", NULL);
	host_expect(&h, WIRE_FAIL, 100);
	assert_int_equal(wire_get_fail(h.frame.payload, h.frame.length, &fail), 0);
	assert_int_equal(fail.error, EBUSY);
	host_send(&h, frame, wire_put_kill(frame, sizeof(frame), 7, 0, &(struct wire_kill){0}));
	host_finish(&h, 7, NULL, &exit);
	assert_int_equal(exit.reason, WIRE_END_KILLED);
	host_exec(&h, 7, "x", NULL); /* the number is free as well */
	host_finish(&h, 7, NULL, &exit);
	assert_int_equal(exit.reason, WIRE_END_EXITED);
	host_end(&h);
}

#define MORE 63 /* MONITOR_CLIENTS beside the owner */

static void more_connections_than_places(void **state)
{
	struct host owner, client[MORE], one_more = {0};

	monitor_ready(&owner, *state, "", NULL);
	for (size_t i = 0; i < MORE; i++)
		monitor_attach(&client[i], *state);
	for (size_t i = 0; i < MORE; i++)
		monitor_ping(&client[i], 1);
	monitor_connect(&one_more, *state);
	host_expect(&one_more, WIRE_FAIL, 0);
	assert_int_equal(host_next(&one_more), 0);
	monitor_detach(&one_more);
	for (size_t i = 0; i < MORE; i++)
		monitor_detach(&client[i]);
	monitor_ping(&owner, 1);
	host_end(&owner);
}

/* --- limits of the host --- */

static void cpu_time_is_limited_by_the_hosts_measure(void **state)
{
	struct wire_exec limits = {.cpu_us = 50000};
	struct wire_exit exit;
	struct host h;

	if (access("/sys/fs/cgroup/cpuacct/cgroup.procs", W_OK) &&
		access("/sys/fs/cgroup/cgroup.subtree_control", W_OK))
		skip();
	/* the flood is work for the machine, as much of it as the client takes */
	monitor_ready(&h, *state, "exec * flood 100000000000\n", NULL);
	host_exec(&h, 1, "x", &limits);
	host_finish(&h, 1, NULL, &exit);
	assert_int_equal(exit.reason, WIRE_END_CPU_LIMIT);
	assert_true(exit.host_cpu_us >= limits.cpu_us);
	assert_true(exit.host_cpu_us < 100 * limits.cpu_us);
	host_end(&h);
}

static void usage_is_told(void **state)
{
	struct wire_mon_usage_reply m;
	uint8_t frame[WIRE_HEADER];
	struct host h;

	monitor_ready(&h, *state, "", NULL);
	host_send(&h, frame,
		wire_put_mon_usage(frame, sizeof(frame), 4, 0, &(struct wire_mon_usage){0}));
	host_expect(&h, WIRE_MON_USAGE_REPLY, 4);
	assert_int_equal(wire_get_mon_usage_reply(h.frame.payload, h.frame.length, &m), 0);
	assert_true(m.wall_us > 0);
	host_end(&h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(guests_that_break_the_protocol),
		TEST(guest_that_sends_without_credit),
		TEST(bursts_arrive_whole),
		TEST(last_words_arrive_whole),
		TEST(guest_cannot_claim_the_hosts_measure),
		TEST(clients_that_break_the_protocol),
		TEST(second_client_runs_commands_of_its_own),
		TEST(commands_of_a_dead_client_are_killed),
		TEST(all_clients_are_told_the_end),
		TEST(places_are_limited),
		TEST(more_connections_than_places),
		TEST(cpu_time_is_limited_by_the_hosts_measure),
		TEST(usage_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
