/* SPDX-License-Identifier: Apache-2.0 - programs: what they are given, how they end, what is left.
 */
#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct client client;

static int setup(void **state)
{
	*state = &client;
	/* the agent must not hand this on */
	setenv("AGENT_SECRET", "1", 1);
	client_start(&client);
	return 0;
}

static int teardown(void **state)
{
	client_stop(*state, 0);
	return 0;
}

static const char *text(const struct outcome *o, unsigned channel)
{
	return (const char *)buffer_bytes(&o->bytes[channel]);
}

static size_t length(const struct outcome *o, unsigned channel)
{
	return buffer_length(&o->bytes[channel]) - 1;
}

static void shell(
	struct client *c, const char *script, struct exec_options options, struct outcome *o)
{
	client_finish(c, client_shell(c, script, options), o);
}

#define assert_exited(o, code)                                                                     \
	do {                                                                                       \
		assert_int_equal((o)->type, WIRE_EXIT);                                            \
		assert_int_equal((o)->exit.reason, WIRE_END_EXITED);                               \
		assert_int_equal((o)->exit.status, code);                                          \
	} while (0)

static void gives_arguments_and_environment_exactly(void **state)
{
	static const char *const argv[] = {"printf", "[%s]", "a b", "", "*", "$HOME", "\xff", NULL};
	static const char *const env_argv[] = {"/usr/bin/env", NULL};
	static const char *const env[] = {"A=1", "A=2", "odd", NULL};
	struct client *c = *state;
	struct outcome o;

	client_finish(c, client_exec(c, &(struct exec_options){.argv = argv}), &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o, 1), "[a b][][*][$HOME][\xff]");
	outcome_fini(&o);
	client_finish(c, client_exec(c, &(struct exec_options){.argv = env_argv, .env = env}), &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o, 1), "A=1\nA=2\nodd\n");
	outcome_fini(&o);
}

static void separates_streams_and_status(void **state)
{
	struct client *c = *state;
	struct outcome o;

	shell(c, "echo out; echo err >&2; echo rep >&3; exit 7",
		(struct exec_options){.flags = WIRE_EXEC_REPORT}, &o);
	assert_exited(&o, 7);
	assert_string_equal(text(&o, WIRE_STDOUT), "out\n");
	assert_string_equal(text(&o, WIRE_STDERR), "err\n");
	assert_string_equal(text(&o, WIRE_REPORT), "rep\n");
	assert_int_equal(o.exit.stdout_bytes, 4);
	assert_int_equal(o.exit.flags, 0);
	outcome_fini(&o);
	shell(c, "kill -SEGV $$", (struct exec_options){0}, &o);
	assert_int_equal(o.exit.reason, WIRE_END_SIGNALED);
	assert_int_equal(o.exit.status, SIGSEGV);
	outcome_fini(&o);
}

static void leaves_no_descriptor_and_no_signal_state(void **state)
{
	struct client *c = *state;
	struct outcome o;

	/* ls itself opens one to read the directory */
	shell(c, "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; umask; ulimit -c",
		(struct exec_options){0}, &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o, 1), "0\n1\n2\n3\n"
					 "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
					 "0022\n0\n");
	outcome_fini(&o);
}

static void says_why_it_did_not_start(void **state)
{
	static const char *const none[] = {"no-such-program", NULL};
	static const char *const path_none[] = {"/no/such/program", NULL};
	static const char *const denied[] = {"/etc/passwd", NULL};
	static const char *const good[] = {"true", NULL};
	static const char *const nothing[] = {NULL};
	static const struct {
		struct exec_options options;
		int error;
		const char *message;
	} cases[] = {{{.argv = none}, ENOENT, "program no-such-program"},
		{{.argv = path_none}, ENOENT, "program /no/such/program"},
		{{.argv = denied}, EACCES, "program /etc/passwd"},
		{{.argv = nothing}, EINVAL, "no program"},
		{{.argv = good, .cwd = "/no/such"}, ENOENT, "working directory /no/such"},
		{{.argv = good, .cwd = "/etc/passwd"}, ENOTDIR, "working directory"}};
	struct client *c = *state;
	struct outcome o;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		client_finish(c, client_exec(c, &cases[i].options), &o);
		assert_int_equal(o.type, WIRE_FAIL);
		assert_int_equal(o.error, cases[i].error);
		assert_non_null(strstr(o.message, cases[i].message));
		outcome_fini(&o);
	}
}

static void looks_programs_up_in_its_own_path(void **state)
{
	static const char *const argv[] = {"tool", NULL};
	struct client *c = *state;
	char path[300];
	const char *const env[] = {path, NULL};
	struct outcome o;

	snprintf(path, sizeof(path), "PATH=/no/such:%s/denied:%s", c->dir, c->dir);
	client_write(c, client_path(c, "denied/tool"), "no", 2, &o);
	outcome_fini(&o);
	client_write(c, client_path(c, "tool"), "#!/bin/sh\necho found\n", 21, &o);
	outcome_fini(&o);
	assert_int_equal(chmod(client_path(c, "denied/tool"), 0600), 0);
	assert_int_equal(chmod(client_path(c, "tool"), 0755), 0);
	client_finish(c, client_exec(c, &(struct exec_options){.argv = argv, .env = env}), &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o, 1), "found\n");
	outcome_fini(&o);
}

static void passes_input_unchanged(void **state)
{
	static const uint32_t sizes[] = {0, 1, 65535, 65536, 65537, 400000};
	struct client *c = *state;
	uint8_t *bytes = malloc(400000);
	struct outcome o;

	for (uint32_t i = 0; i < 400000; i++)
		bytes[i] = (uint8_t)(i ^ i >> 8);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t id =
			client_shell(c, "cat", (struct exec_options){.flags = WIRE_EXEC_STDIN});

		client_data(
			c, id, bytes, sizes[i] < WIRE_PAYLOAD_MAX ? sizes[i] : WIRE_PAYLOAD_MAX);
		if (sizes[i] > WIRE_PAYLOAD_MAX)
			client_data(c, id, bytes + WIRE_PAYLOAD_MAX, sizes[i] - WIRE_PAYLOAD_MAX);
		client_end(c, id);
		client_finish(c, id, &o);
		assert_exited(&o, 0);
		assert_int_equal(length(&o, 1), sizes[i]);
		assert_memory_equal(text(&o, 1), bytes, sizes[i]);
		outcome_fini(&o);
	}
	free(bytes);
}

/* The host goes on sending to a program that has ended, or that never reads. */
static void survives_input_nobody_reads(void **state)
{
	struct client *c = *state;
	static uint8_t bytes[WIRE_PAYLOAD_MAX];
	struct outcome o;
	uint32_t id;

	id = client_shell(
		c, "exec <&-; echo closed", (struct exec_options){.flags = WIRE_EXEC_STDIN});
	client_data(c, id, bytes, sizeof(bytes));
	client_data(c, id, bytes, sizeof(bytes));
	client_finish(c, id, &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o, 1), "closed\n");
	outcome_fini(&o);
	client_data(c, id, bytes, 10);
	client_end(c, id);
	client_credit(c, id, 1, 10);
	client_kill(c, id, WIRE_KILL_CANCEL);
	client_ping(c, 0);
}

static void cuts_output_at_the_limit(void **state)
{
	static const struct {
		uint32_t bytes, flags, expected;
	} cases[] = {{999, 0, 0}, {1000, 0, 0}, {1001, 0, WIRE_EXIT_STDOUT_CUT}};
	struct client *c = *state;
	char script[64];
	struct outcome o;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(script, sizeof(script), "head -c %u /dev/zero", cases[i].bytes);
		shell(c, script, (struct exec_options){.output_bytes = 1000}, &o);
		assert_exited(&o, 0);
		assert_int_equal(o.exit.flags, cases[i].expected);
		assert_int_equal(o.exit.stdout_bytes, cases[i].bytes);
		assert_int_equal(length(&o, 1), cases[i].bytes < 1000 ? cases[i].bytes : 1000);
		outcome_fini(&o);
	}
	/* stderr has a limit of its own */
	shell(c, "head -c 1000 /dev/zero; head -c 3000 /dev/zero >&2",
		(struct exec_options){.output_bytes = 1000}, &o);
	assert_int_equal(o.exit.flags, WIRE_EXIT_STDERR_CUT);
	outcome_fini(&o);
	shell(c, "yes", (struct exec_options){.output_bytes = 5000, .flags = WIRE_EXEC_OUTPUT_KILL},
		&o);
	assert_int_equal(o.exit.reason, WIRE_END_OUTPUT_LIMIT);
	assert_true(o.exit.flags & WIRE_EXIT_STDOUT_CUT);
	assert_int_equal(length(&o, 1), 5000);
	outcome_fini(&o);
}

static void holds_its_limits(void **state)
{
	struct client *c = *state;
	struct outcome o;

	/* what was written before a timeout is kept */
	shell(c, "echo before; sleep 1000", (struct exec_options){.wall_us = 4000000}, &o);
	assert_int_equal(o.exit.reason, WIRE_END_WALL_LIMIT);
	assert_string_equal(text(&o, 1), "before\n");
	assert_true(o.exit.wall_us >= 4000000);
	outcome_fini(&o);
	/* sleeping is no CPU time, and that of children is */
	shell(c, "sleep 0.5; echo slept", (struct exec_options){.cpu_us = 300000}, &o);
	assert_exited(&o, 0);
	outcome_fini(&o);
	shell(c, "(while :; do :; done) & wait",
		(struct exec_options){.cpu_us = 300000, .wall_us = 60000000}, &o);
	assert_int_equal(o.exit.reason, WIRE_END_CPU_LIMIT);
	outcome_fini(&o);
	shell(c, "exec dd if=/dev/zero of=big bs=4096 count=100 status=none",
		(struct exec_options){.file_bytes = 8192}, &o);
	assert_int_equal(o.exit.reason, WIRE_END_FILE_LIMIT);
	assert_int_equal(o.exit.status, SIGXFSZ);
	outcome_fini(&o);
}

static pid_t pid_in(struct client *c, const char *name)
{
	FILE *f = fopen(client_path(c, name), "r");
	int pid = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	fclose(f);
	return pid;
}

/* Everything that an exec started is over when it is: also what left its session and its parent. */
static void leaves_no_process(void **state)
{
	struct client *c = *state;
	struct outcome o;

	shell(c,
		"setsid sh -c 'setsid sleep 1000 & echo $! > pid.new; mv pid.new pid; wait' "
		"</dev/null >/dev/null 2>&1 & while ! [ -e pid ]; do :; done; echo bye",
		(struct exec_options){0}, &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o, 1), "bye\n");
	assert_int_equal(o.exit.flags, WIRE_EXIT_LEFTOVERS);
	assert_int_equal(kill(pid_in(c, "pid"), 0), -1);
	outcome_fini(&o);
	/* one that holds the output open does not hold up the end */
	shell(c, "sleep 1000 & echo $! > pid", (struct exec_options){0}, &o);
	assert_exited(&o, 0);
	assert_int_equal(kill(pid_in(c, "pid"), 0), -1);
	outcome_fini(&o);
}

static void is_cancelled_without_credit(void **state)
{
	struct client *c = *state;
	struct wire_frame f;
	struct outcome o;
	uint32_t id;
	size_t got = 0;

	id = client_shell(c, "yes", (struct exec_options){0});
	while (got < WIRE_WINDOW) {
		client_frame(c, &f);
		assert_int_equal(f.stream, id);
		got += f.type == WIRE_DATA ? f.length : 0;
	}
	client_kill(c, id, WIRE_KILL_CANCEL);
	client_finish(c, id, &o);
	assert_int_equal(o.exit.reason, WIRE_END_KILLED);
	assert_int_equal(o.exit.status, WIRE_KILL_CANCEL);
	assert_int_equal(length(&o, 1), 0);
	outcome_fini(&o);
	id = client_shell(c, "sleep 1000", (struct exec_options){0});
	client_kill(c, id, WIRE_KILL_CPU);
	client_finish(c, id, &o);
	assert_int_equal(o.exit.reason, WIRE_END_CPU_LIMIT);
	outcome_fini(&o);
}

static void signals_the_whole_tree(void **state)
{
	struct client *c = *state;
	struct wire_signal m = {.signal = SIGUSR1};
	struct wire_frame f;
	struct outcome o;
	uint32_t id;

	id = client_shell(c,
		"sh -c 'trap \"echo child; exit\" USR1; echo ready; while :; do sleep 0.05; done' &"
		"trap 'wait; echo parent; exit 3' USR1; while :; do sleep 0.05; done",
		(struct exec_options){.wall_us = 15000000});
	do {
		client_frame(c, &f);
	} while (f.type != WIRE_DATA);
	client_send(c, wire_put_signal(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, &o);
	assert_exited(&o, 3);
	assert_string_equal(text(&o, 1), "child\nparent\n");
	outcome_fini(&o);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(gives_arguments_and_environment_exactly),
		TEST(separates_streams_and_status), TEST(leaves_no_descriptor_and_no_signal_state),
		TEST(says_why_it_did_not_start), TEST(looks_programs_up_in_its_own_path),
		TEST(passes_input_unchanged), TEST(survives_input_nobody_reads),
		TEST(cuts_output_at_the_limit), TEST(holds_its_limits), TEST(leaves_no_process),
		TEST(is_cancelled_without_credit), TEST(signals_the_whole_tree)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
