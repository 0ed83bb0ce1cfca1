/* SPDX-License-Identifier: Apache-2.0 - the scripted guest: what it says, and how it fails. */
#include "host.h"

#include "base/text.h"
#include "engine/engine.h"
#include "engine/fake_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void start(struct host *h, const char *script)
{
	struct wire_hello hello;

	host_start(h, script);
	host_expect(h, WIRE_HELLO, 0);
	assert_int_equal(wire_get_hello(h->frame.payload, h->frame.length, &hello), 0);
	assert_int_equal(hello.version, WIRE_VERSION);
	assert_string_equal(hello.kernel.text, "fake");
}

static void ping(struct host *h, uint32_t stream)
{
	uint8_t frame[32];

	host_send(h, frame,
		wire_put_ping(frame, sizeof(frame), stream, 0, &(struct wire_ping){.token = 42}));
}

static void free_all(struct buffer *out)
{
	for (int i = 0; i < WIRE_CHANNELS; i++)
		buffer_fini(&out[i]);
}

static void empty_script_succeeds(void **state)
{
	struct buffer out[WIRE_CHANNELS] = {0};
	struct wire_exit e;
	struct host h;

	(void)state;
	start(&h, NULL);
	host_exec(&h, 1, "python3 -c pass", NULL);
	host_finish(&h, 1, out, &e);
	assert_int_equal(e.reason, WIRE_END_EXITED);
	assert_int_equal(e.status, 0);
	assert_int_equal(buffer_length(&out[WIRE_STDOUT]) + buffer_length(&out[WIRE_STDERR]), 0);
	ping(&h, 2);
	host_expect(&h, WIRE_PONG, 2);
	assert_int_equal(host_end(&h), 0);
	free_all(out);
}

static void patterns_choose(void **state)
{
	static const char script[] = "# a class\n"
				     "exec \"cc *\" stderr \"hw.c:1: error\\n\" exit 1\n"
				     "exec */a.out stdout \"5\\x0a\" report r cpu 20 memory 4096\n"
				     "exec crash signal 11\n"
				     "exec slow end cpu_limit\n";
	struct buffer out[WIRE_CHANNELS] = {0};
	struct wire_exec with_report = {.flags = WIRE_EXEC_REPORT};
	struct wire_exit e;
	struct host h;

	(void)state;
	start(&h, script);
	host_exec(&h, 1, "cc -o a.out hw.c", NULL);
	host_finish(&h, 1, out, &e);
	assert_int_equal(e.status, 1);
	assert_string_equal(buffer_text(&out[WIRE_STDERR]), "hw.c:1: error\n");
	assert_int_equal(e.stderr_bytes, 14);
	host_exec(&h, 2, "/workspace/a.out", &with_report);
	host_finish(&h, 2, out, &e);
	assert_int_equal(e.status, 0);
	assert_int_equal(e.cpu_us, 20000);
	assert_int_equal(e.memory_peak_bytes, 4096);
	assert_string_equal(buffer_text(&out[WIRE_STDOUT]), "5\n");
	assert_string_equal(buffer_text(&out[WIRE_REPORT]), "r");
	host_exec(&h, 3, "crash", NULL);
	host_finish(&h, 3, out, &e);
	assert_int_equal(e.reason, WIRE_END_SIGNALED);
	assert_int_equal(e.status, SIGSEGV);
	host_exec(&h, 4, "slow", NULL);
	host_finish(&h, 4, out, &e);
	assert_int_equal(e.reason, WIRE_END_CPU_LIMIT);
	assert_int_equal(host_end(&h), 0);
	free_all(out);
}

/* Three windows there and back: no more is sent than credit allows, and all of it arrives. */
static void echo_keeps_credit(void **state)
{
	enum { TOTAL = 3 * WIRE_WINDOW + 17, PIECE = 60000 };
	struct wire_exec with_input = {.flags = WIRE_EXEC_STDIN};
	struct buffer out = {0};
	uint8_t *bytes = malloc(TOTAL);
	size_t sent = 0, window = WIRE_WINDOW;
	struct wire_credit c;
	struct host h;

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < TOTAL; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	start(&h, "exec cat echo exit 0\n");
	host_exec(&h, 1, "cat", &with_input);
	host_expect(&h, WIRE_STARTED, 1);
	for (;;) {
		size_t n = TOTAL - sent < PIECE ? TOTAL - sent : PIECE;

		if (n && n <= window) {
			host_data(&h, 1, bytes + sent, n);
			sent += n;
			window -= n;
			if (sent == TOTAL)
				host_end_input(&h, 1);
			continue;
		}
		assert_int_equal(host_next(&h), 1);
		if (h.frame.type == WIRE_EXIT)
			break;
		if (h.frame.type == WIRE_CREDIT) {
			assert_int_equal(wire_get_credit(h.frame.payload, h.frame.length, &c), 0);
			assert_true(c.bytes >= WIRE_CREDIT_STEP);
			window += c.bytes;
			assert_true(window <= WIRE_WINDOW);
			continue;
		}
		assert_int_equal(h.frame.type, WIRE_DATA);
		assert_int_equal(buffer_add(&out, h.frame.payload, h.frame.length), 0);
		host_credit(&h, 1, WIRE_STDOUT, h.frame.length);
	}
	assert_int_equal(buffer_length(&out), TOTAL);
	assert_memory_equal(buffer_bytes(&out), bytes, TOTAL);
	assert_int_equal(host_end(&h), 0);
	buffer_fini(&out);
	free(bytes);
}

static void flood_waits_for_credit(void **state)
{
	struct wire_exit e;
	struct host h;
	size_t seen = 0;

	(void)state;
	start(&h, "exec * flood 1000000 exit 3\n");
	host_exec(&h, 1, "yes", NULL);
	host_expect(&h, WIRE_STARTED, 1);
	while (seen < WIRE_WINDOW) {
		host_expect(&h, WIRE_DATA, 1);
		seen += h.frame.length;
	}
	assert_int_equal(seen, WIRE_WINDOW);
	assert_true(host_is_silent(&h));
	host_credit(&h, 1, WIRE_STDOUT, WIRE_WINDOW);
	host_finish(&h, 1, NULL, &e);
	assert_int_equal(e.stdout_bytes, 1000000);
	assert_int_equal(e.status, 3);
	assert_int_equal(host_end(&h), 0);
}

static void output_limit_holds(void **state)
{
	struct wire_exec cut = {.output_bytes = 1000};
	struct wire_exec kill = {.output_bytes = 1000, .flags = WIRE_EXEC_OUTPUT_KILL};
	struct buffer out[WIRE_CHANNELS] = {0};
	struct wire_exit e;
	struct host h;

	(void)state;
	start(&h, "exec * flood 5000 stderr short exit 0\n");
	host_exec(&h, 1, "yes", &cut);
	host_finish(&h, 1, out, &e);
	assert_int_equal(buffer_length(&out[WIRE_STDOUT]), 1000);
	assert_int_equal(e.stdout_bytes, 5000);
	assert_int_equal(e.flags, WIRE_EXIT_STDOUT_CUT);
	assert_int_equal(e.reason, WIRE_END_EXITED);
	host_exec(&h, 2, "yes", &kill);
	host_finish(&h, 2, out, &e);
	assert_int_equal(e.reason, WIRE_END_OUTPUT_LIMIT);
	assert_int_equal(host_end(&h), 0);
	free_all(out);
}

static void hang_ends_by_limit_or_kill(void **state)
{
	struct wire_exec limited = {.wall_us = 50000};
	uint8_t frame[64];
	struct wire_exit e;
	struct host h;

	(void)state;
	start(&h, "exec * stdout x hang\n");
	host_exec(&h, 1, "sleep", &limited);
	host_finish(&h, 1, NULL, &e);
	assert_int_equal(e.reason, WIRE_END_WALL_LIMIT);
	assert_true(e.wall_us >= 49000);
	host_exec(&h, 2, "sleep", NULL);
	host_expect(&h, WIRE_STARTED, 2);
	host_send(&h, frame,
		wire_put_kill(frame, sizeof(frame), 2, 0,
			&(struct wire_kill){.reason = WIRE_KILL_CANCEL}));
	host_finish(&h, 2, NULL, &e);
	assert_int_equal(e.reason, WIRE_END_KILLED);
	assert_int_equal(e.status, WIRE_KILL_CANCEL);
	host_exec(&h, 3, "sleep", NULL);
	host_send(&h, frame,
		wire_put_signal(
			frame, sizeof(frame), 3, 0, &(struct wire_signal){.signal = SIGTERM}));
	host_finish(&h, 3, NULL, &e);
	assert_int_equal(e.reason, WIRE_END_SIGNALED);
	assert_int_equal(e.status, SIGTERM);
	assert_int_equal(host_end(&h), 0);
}

static void delays_take_their_time(void **state)
{
	struct wire_exit e;
	struct host h;

	(void)state;
	start(&h, "slow 20\nexec * delay 30 exit 0\nboot delay 5\n");
	host_exec(&h, 1, "x", NULL);
	host_finish(&h, 1, NULL, &e);
	assert_true(e.wall_us >= 49000);
	assert_int_equal(host_end(&h), 0);
}

/* --- files --- */

static int write_file(struct host *h, uint32_t stream, const char *path, const char *text,
	uint32_t flags, uint64_t limit)
{
	struct wire_file_write m = {.path = wire_str(path),
		.mode = 0640,
		.uid = 7,
		.flags = flags,
		.limit_bytes = limit};
	uint8_t frame[512];

	host_send(h, frame, wire_put_file_write(frame, sizeof(frame), stream, 0, &m));
	host_data(h, stream, text, strlen(text));
	host_end_input(h, stream);
	return host_done(h, stream, NULL);
}

static int read_file(struct host *h, uint32_t stream, const char *path, struct buffer *out)
{
	struct wire_file_read m = {.path = wire_str(path)};
	uint8_t frame[512];

	host_send(h, frame, wire_put_file_read(frame, sizeof(frame), stream, 0, &m));
	return host_done(h, stream, out);
}

static void files_are_kept(void **state)
{
	struct buffer out[WIRE_CHANNELS] = {0};
	struct wire_entry entry;
	uint8_t frame[512];
	struct host h;

	(void)state;
	start(&h, NULL);
	assert_int_equal(write_file(&h, 1, "/a/b/c.txt", "hello", 0, 0), ENOENT);
	assert_int_equal(write_file(&h, 1, "/a/b/c.txt", "hello", WIRE_PARENTS, 0), 0);
	assert_int_equal(write_file(&h, 1, "/a/b/c.txt", "hello", 0, 4), EFBIG);
	assert_int_equal(write_file(&h, 1, "/a/../c", "x", WIRE_PARENTS, 0), EINVAL);
	assert_int_equal(write_file(&h, 1, "/a/b", "x", 0, 0), EISDIR);
	assert_int_equal(read_file(&h, 2, "/a/b/c.txt", out), 0);
	assert_string_equal(buffer_text(&out[WIRE_STDOUT]), "hello");
	assert_int_equal(read_file(&h, 2, "/a/b/d", NULL), ENOENT);
	assert_int_equal(read_file(&h, 2, "/a/b", NULL), EISDIR);

	host_send(&h, frame,
		wire_put_file_stat(frame, sizeof(frame), 3, 0,
			&(struct wire_file_stat){.path = wire_str("/a/b/c.txt")}));
	host_expect(&h, WIRE_ENTRY, 3);
	assert_int_equal(wire_get_entry(h.frame.payload, h.frame.length, &entry), 0);
	assert_int_equal(entry.size, 5);
	assert_int_equal(entry.mode, 0640);
	assert_int_equal(entry.uid, 7);
	assert_int_equal(entry.type, WIRE_FILE_REGULAR);
	host_expect(&h, WIRE_DONE, 3);

	host_send(&h, frame,
		wire_put_file_list(frame, sizeof(frame), 4, 0,
			&(struct wire_file_list){.path = wire_str("/a"), .depth = 2, .most = 10}));
	host_expect(&h, WIRE_ENTRY, 4);
	assert_int_equal(wire_get_entry(h.frame.payload, h.frame.length, &entry), 0);
	assert_string_equal(entry.path.text, "b");
	host_expect(&h, WIRE_ENTRY, 4);
	assert_int_equal(wire_get_entry(h.frame.payload, h.frame.length, &entry), 0);
	assert_string_equal(entry.path.text, "b/c.txt");
	host_expect(&h, WIRE_DONE, 4);

	host_send(&h, frame,
		wire_put_file_rename(frame, sizeof(frame), 5, 0,
			&(struct wire_file_rename){
				.from = wire_str("/a/b/c.txt"), .to = wire_str("/tmp/z")}));
	assert_int_equal(host_done(&h, 5, NULL), 0);
	assert_int_equal(read_file(&h, 6, "/tmp/z", NULL), 0);
	host_send(&h, frame,
		wire_put_file_remove(frame, sizeof(frame), 7, 0,
			&(struct wire_file_remove){.path = wire_str("/a")}));
	assert_int_equal(host_done(&h, 7, NULL), ENOTEMPTY);
	host_send(&h, frame,
		wire_put_file_remove(frame, sizeof(frame), 7, 0,
			&(struct wire_file_remove){
				.path = wire_str("/a"), .flags = WIRE_RECURSIVE}));
	assert_int_equal(host_done(&h, 7, NULL), 0);
	assert_int_equal(read_file(&h, 8, "/a/b", NULL), ENOENT);
	assert_int_equal(host_end(&h), 0);
	free_all(out);
}

/* What one machine packs another unpacks. */
static void tar_goes_round(void **state)
{
	struct buffer out[WIRE_CHANNELS] = {0};
	uint8_t frame[512];
	struct host h;
	struct wire_tar_in in = {.path = wire_str("/workspace"), .uid = 9, .flags = WIRE_PARENTS};

	(void)state;
	start(&h, NULL);
	assert_int_equal(write_file(&h, 1, "/src/sub/one", "first", WIRE_PARENTS, 0), 0);
	assert_int_equal(write_file(&h, 1, "/src/two", "", WIRE_PARENTS, 0), 0);
	host_send(&h, frame,
		wire_put_tar_out(frame, sizeof(frame), 2, 0,
			&(struct wire_tar_out){.path = wire_str("/src")}));
	assert_int_equal(host_done(&h, 2, out), 0);
	assert_int_equal(host_end(&h), 0);

	start(&h, NULL);
	host_send(&h, frame, wire_put_tar_in(frame, sizeof(frame), 1, 0, &in));
	host_data(&h, 1, buffer_bytes(&out[WIRE_STDOUT]), buffer_length(&out[WIRE_STDOUT]));
	host_end_input(&h, 1);
	assert_int_equal(host_done(&h, 1, NULL), 0);
	buffer_clear(&out[WIRE_STDOUT]);
	assert_int_equal(read_file(&h, 2, "/workspace/sub/one", out), 0);
	assert_string_equal(buffer_text(&out[WIRE_STDOUT]), "first");
	assert_int_equal(read_file(&h, 3, "two", NULL), 0);
	host_send(&h, frame, wire_put_tar_in(frame, sizeof(frame), 4, 0, &in));
	host_data(&h, 4, "no archive at all", 17);
	host_end_input(&h, 4);
	assert_int_equal(host_done(&h, 4, NULL), EBADMSG);
	assert_int_equal(host_end(&h), 0);
	free_all(out);
}

/* --- failures --- */

static void boots_fail_as_told(void **state)
{
	struct wire_hello hello;
	struct host h;

	(void)state;
	host_start(&h, "boot hang\n");
	assert_true(host_is_silent(&h));
	ping(&h, 1);
	assert_true(host_is_silent(&h));
	assert_int_equal(host_end(&h), 0);

	host_start(&h, "boot die\n");
	assert_int_equal(host_next(&h), 0);
	assert_int_equal(host_end(&h), 9);

	host_start(&h, "boot garbage\n");
	assert_int_equal(host_next(&h), -EPROTO);
	assert_int_equal(host_end(&h), 0);

	start(&h, "boot mute\n");
	ping(&h, 1);
	assert_true(host_is_silent(&h));
	assert_int_equal(host_end(&h), 0);

	host_start(&h, "boot version 7\n");
	host_expect(&h, WIRE_HELLO, 0);
	assert_int_equal(wire_get_hello(h.frame.payload, h.frame.length, &hello), 0);
	assert_int_equal(hello.version, 7);
	assert_int_equal(host_end(&h), 0);
}

static void trouble_comes_at_its_message(void **state)
{
	struct host h;

	(void)state;
	start(&h, "die at PING 2\n");
	ping(&h, 1);
	host_expect(&h, WIRE_PONG, 1);
	ping(&h, 2);
	assert_int_equal(host_next(&h), 0);
	assert_int_equal(host_end(&h), 9);

	start(&h, "garbage at EXEC\n");
	host_exec(&h, 1, "x", NULL);
	assert_int_equal(host_next(&h), -EPROTO);
	assert_int_equal(host_end(&h), 0);

	start(&h, "half at PING\n");
	ping(&h, 1);
	assert_int_equal(host_next(&h), -EPROTO); /* the stream ends within a frame */
	assert_int_equal(host_end(&h), 9);

	start(&h, "mute at STATS\n");
	ping(&h, 1);
	host_expect(&h, WIRE_PONG, 1);
	uint8_t frame[32];
	host_send(&h, frame, wire_put_stats(frame, sizeof(frame), 2, 0, &(struct wire_stats){0}));
	ping(&h, 3);
	assert_true(host_is_silent(&h));
	assert_int_equal(host_end(&h), 0);

	/* a DONE on a stream that nobody has opened, then on as usual */
	start(&h,
		"send at PING \"\\x00\\x00\\x00\\x00\\x05\\x00\\x00\\x00\\x09\\x00\\x00\\x00\"\n");
	ping(&h, 1);
	host_expect(&h, WIRE_DONE, 9);
	host_expect(&h, WIRE_PONG, 1);
	assert_int_equal(host_end(&h), 0);
}

static void host_without_credit_is_refused(void **state)
{
	static uint8_t bytes[WIRE_PAYLOAD_MAX];
	struct wire_exec with_input = {.flags = WIRE_EXEC_STDIN};
	struct host h;

	(void)state;
	start(&h, "exec * hang\n");
	host_exec(&h, 1, "x", &with_input);
	host_expect(&h, WIRE_STARTED, 1);
	host_data(&h, 1, bytes, WIRE_PAYLOAD_MAX);
	host_data(&h, 1, bytes, WIRE_PAYLOAD_MAX);
	assert_true(host_is_silent(&h)); /* the window is full */
	host_data(&h, 1, bytes, 1);
	assert_int_equal(host_next(&h), 0);
	assert_int_equal(host_end(&h), 3);
}

static void shutdown_ends_it(void **state)
{
	uint8_t frame[32];
	struct host h;

	(void)state;
	start(&h, NULL);
	host_send(&h, frame,
		wire_put_shutdown(frame, sizeof(frame), 0, 0, &(struct wire_shutdown){0}));
	assert_int_equal(host_next(&h), 0);
	assert_int_equal(host_end(&h), 0);
}

static void script_errors_name_the_line(void **state)
{
	static const struct {
		const char *script, *words;
	} cases[] = {
		{"boot ok\nbot hang\n", "s:2: a line begins with"},
		{"boot sideways\n", "s:1: boot:"},
		{"exec\n", "s:1: exec: a pattern"},
		{"exec * shout\n", "s:1: exec: there is no step 'shout'"},
		{"exec * exit\n", "s:1: a number is missing"},
		{"exec * exit x\n", "s:1: not a number: 'x'"},
		{"exec * stdout \"abc\n", "s:1: a quoted text has no end"},
		{"exec * stdout \"\\q\"\n", "s:1: no such escape"},
		{"exec * stdout \"\\x4\"\n", "s:1: no such escape"},
		{"exec * stdout \"a\"b\n", "s:1: a blank must follow"},
		{"exec * end soon\n", "s:1: end: there is no ending 'soon'"},
		{"\n\ndie EXEC\n", "s:3: 'at' must follow"},
		{"die at\n", "s:1: the name of a message"},
		{"die at LUNCH\n", "s:1: there is no message 'LUNCH'"},
		{"die at EXEC 0\n", "s:1: not a count from 1: '0'"},
		{"die at EXEC 1 2\n", "s:1: one word too many: '2'"},
		{"send at EXEC\n", "s:1: the bytes to send"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_script script;
		struct error err = {0};
		char text[64];

		text_copy(text, sizeof(text), cases[i].script);
		assert_int_equal(fake_script_parse("s", text, &script, &err), -EINVAL);
		if (!strstr(err.message, cases[i].words))
			fail_msg("not '%s': %s", cases[i].words, err.message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_script_succeeds),
		cmocka_unit_test(patterns_choose),
		cmocka_unit_test(echo_keeps_credit),
		cmocka_unit_test(flood_waits_for_credit),
		cmocka_unit_test(output_limit_holds),
		cmocka_unit_test(hang_ends_by_limit_or_kill),
		cmocka_unit_test(delays_take_their_time),
		cmocka_unit_test(files_are_kept),
		cmocka_unit_test(tar_goes_round),
		cmocka_unit_test(boots_fail_as_told),
		cmocka_unit_test(trouble_comes_at_its_message),
		cmocka_unit_test(host_without_credit_is_refused),
		cmocka_unit_test(shutdown_ends_it),
		cmocka_unit_test(script_errors_name_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
