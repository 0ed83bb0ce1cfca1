/* SPDX-License-Identifier: Apache-2.0 - machines and monitors that fail under a caller: always the
 * right reason, in time, and nothing is left. */
#include "box.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_MS    60000
#define AT_MOST_MS 60000 /* on a loaded host; what hangs does so for ever */

/* --- every operation, every trouble --- */

static int do_exec(struct sandbox *s, struct error *err)
{
	static const uint8_t input[2 * WIRE_WINDOW];
	const char *argv[] = {"echo", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	int code;

	spec.argv = argv;
	spec.stdin_bytes = input;
	spec.stdin_count = sizeof(input);
	code = sandbox_exec(s, &spec, &r, err);
	exec_result_fini(&r);
	return code;
}

static int do_write(struct sandbox *s, struct error *err)
{
	static const uint8_t bytes[2 * WIRE_WINDOW];

	return sandbox_write(s, "/w", bytes, sizeof(bytes), 0600, 0, err);
}

static int do_read(struct sandbox *s, struct error *err)
{
	struct buffer out = {0};
	int r = do_write(s, err);

	r = r ? r : sandbox_read(s, "/w", SIZE_MAX, 0, &out, err);
	buffer_fini(&out);
	return r;
}

static int do_list(struct sandbox *s, struct error *err)
{
	struct sandbox_entry *list;
	size_t count;
	int r = sandbox_list(s, "/", 9, 0, 0, &list, &count, err);

	sandbox_entries_free(list, count);
	return r;
}

static int do_stat(struct sandbox *s, struct error *err)
{
	struct sandbox_entry e = {0};
	int r = sandbox_stat(s, "/", 0, &e, err);

	free(e.path);
	free(e.target);
	return r;
}

static int do_mkdir(struct sandbox *s, struct error *err)
{
	return sandbox_mkdir(s, "/d", 0755, 0, err);
}

static int do_remove(struct sandbox *s, struct error *err)
{
	return sandbox_remove(s, "/d", true, 0, err);
}

static int do_rename(struct sandbox *s, struct error *err)
{
	int r = do_mkdir(s, err);

	return r ? r : sandbox_rename(s, "/d", "/e", 0, err);
}

static int do_chmod(struct sandbox *s, struct error *err)
{
	return sandbox_chmod(s, "/", 0755, 0, err);
}

static int do_chown(struct sandbox *s, struct error *err)
{
	return sandbox_chown(s, "/", 0, 0, err);
}

static int do_tree(struct sandbox *s, struct error *err)
{
	int fd = open("/etc/apt", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	r = sandbox_put_tree(s, "/w", fd, 0, 0, 0, err);
	close(fd);
	return r;
}

static int ignore(void *context, const void *bytes, size_t count)
{
	return 0;
}

static int do_pack(struct sandbox *s, struct error *err)
{
	return sandbox_get_tar(s, "/", NULL, 0, ignore, NULL, err);
}

static const struct {
	int (*call)(struct sandbox *s, struct error *err);
	const char *message; /* at which the trouble comes */
} operations[] = {
	{do_exec, "EXEC"},
	{do_exec, "DATA"},
	{do_exec, "END"},
	{do_exec, "CREDIT"},
	{do_write, "FILE_WRITE"},
	{do_write, "DATA"},
	{do_write, "END"},
	{do_read, "FILE_READ"},
	{do_read, "CREDIT"},
	{do_list, "FILE_LIST"},
	{do_stat, "FILE_STAT"},
	{do_mkdir, "FILE_MKDIR"},
	{do_remove, "FILE_REMOVE"},
	{do_rename, "FILE_RENAME"},
	{do_chmod, "FILE_CHMOD"},
	{do_chown, "FILE_CHOWN"},
	{do_tree, "TAR_IN"},
	{do_tree, "DATA"},
	{do_pack, "TAR_OUT"},
};

static void expect_trouble(struct home *home, const char *trouble, int64_t patience_ms,
	enum sandbox_stop_reason reason, const char *says)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		int64_t start = clock_ms();
		struct error err = {0};
		struct sandbox *s;
		char script[256];
		int r;

		text_format(script, sizeof(script), "exec echo echo\n%s at %s\n", trouble,
			operations[i].message);
		s = box_make(home, script, patience_ms);
		r = operations[i].call(s, &err);
		if (r != -ENODEV || sandbox_end(s)->reason != reason ||
			!strstr(sandbox_end(s)->detail, says))
			fail_msg("%s at %s: %d, %s: %s", trouble, operations[i].message, r,
				sandbox_stop_reason_name(sandbox_end(s)->reason), err.message);
		/* it stays so, and is told again */
		assert_int_equal(do_mkdir(s, &err), -ENODEV);
		assert_non_null(strstr(err.message, sandbox_stop_reason_name(reason)));
		assert_int_equal(sandbox_stop(s, NULL, &err), 0);
		sandbox_free(s);
		assert_true(clock_ms() - start < AT_MOST_MS);
	}
}

static void machines_that_die(void **state)
{
	expect_trouble(*state, "die", LONG_MS, SANDBOX_STOPPED_GUEST_ENDED, "status 9");
}

static void machines_that_die_half_way(void **state)
{
	expect_trouble(*state, "half", LONG_MS, SANDBOX_STOPPED_GUEST_ENDED, "status 9");
}

static void machines_that_say_nonsense(void **state)
{
	expect_trouble(
		*state, "garbage", LONG_MS, SANDBOX_STOPPED_GUEST_FAULT, "a frame that cannot be");
}

static void machines_that_fall_silent(void **state)
{
	expect_trouble(*state, "mute", 300, SANDBOX_STOPPED_GUEST_FAULT, "");
}

static void machines_that_do_not_start(void **state)
{
	static const struct {
		const char *script, *says;
	} cases[] = {
		{"boot hang\n", "did not start within 200 ms"},
		{"boot die\n", "the machine ended with status 9"},
		{"boot garbage\n", "a frame that cannot be"},
		{"boot version 7\n", "run sealmark setup"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sandbox_spec spec = box_spec(*state, cases[i].script);
		int64_t start = clock_ms();
		struct error err = {0};
		struct sandbox *s;

		spec.start_timeout_ms = i == 0 ? 200 : 0;
		assert_int_equal(sandbox_create(&spec, &s, &err), -ENODEV);
		assert_null(s);
		if (!strstr(err.message, cases[i].says))
			fail_msg("%s", err.message);
		assert_true(clock_ms() - start < AT_MOST_MS);
	}
}

/* --- what a guest says --- */

/* A FAIL on the first stream when a message comes; then the machine is mute. */
static struct sandbox *box_that_fails(struct home *home, const char *message, uint32_t error,
	const char *text, int64_t patience_ms)
{
	uint8_t frame[256];
	char script[2048];
	size_t at;
	int n = wire_put_fail(frame, sizeof(frame), 1, 0,
		&(struct wire_fail){.error = error, .message = wire_str(text)});

	text_format(script, sizeof(script), "exec echo echo\nsend at %s \"", message);
	at = strlen(script);
	for (int i = 0; i < n; i++, at += 4)
		text_format(script + at, sizeof(script) - at, "\\x%02x", frame[i]);
	text_format(script + at, sizeof(script) - at, "\"\nmute at %s\n", message);
	return box_make(home, script, patience_ms);
}

/* The input is still on its way when the answer comes. */
static void failures_while_input_is_sent(void **state)
{
	static const struct {
		int (*call)(struct sandbox *s, struct error *err);
		const char *message, *says;
	} cases[] = {
		{do_exec, "EXEC", "no such thing"},
		{do_write, "FILE_WRITE", "/w: no such thing"},
		{do_write, "DATA", "/w: no such thing"},
		{do_tree, "TAR_IN", "/w: no such thing"},
		{do_tree, "DATA", "/w: no such thing"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sandbox *s =
			box_that_fails(*state, cases[i].message, ENOENT, "no such thing", 60000);
		struct error err = {0};

		assert_int_equal(cases[i].call(s, &err), -ENOENT);
		assert_string_equal(err.message, cases[i].says);
		sandbox_free(s);
	}
}

/* These mean something else to callers: over, cancelled, given up. A guest cannot say them. */
static void errnos_that_are_not_the_guests(void **state)
{
	static const uint32_t errors[] = {ENODEV, EINTR, EPIPE};

	for (size_t i = 0; i < 3; i++) {
		struct sandbox *s = box_that_fails(*state, "FILE_CHMOD", errors[i], "lie", 60000);
		struct error err = {0};

		assert_int_equal(do_chmod(s, &err), -EIO);
		assert_string_equal(err.message, "/: lie");
		assert_int_equal(sandbox_end(s)->reason, SANDBOX_RUNNING);
		sandbox_free(s);
	}
}

static void messages_are_harmless_to_print(void **state)
{
	struct sandbox *s = box_that_fails(*state, "FILE_CHMOD", EIO, "\x1b[2Jx\n\xff", 60000);
	struct error err = {0};

	assert_int_equal(do_chmod(s, &err), -EIO);
	assert_string_equal(err.message, "/: \\x1b[2Jx\\x0a\xef\xbf\xbd");
	sandbox_free(s);
}

static int refuse(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	return -EDOM;
}

/* A guest that is told to end a command and never does so cannot hold the caller. */
static void cancel_that_the_guest_ignores(void **state)
{
	struct sandbox *s = box_make(*state, "exec * flood 100000000\nmute at KILL\n", 4000);
	const char *argv[] = {"x", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	struct error err = {0};

	spec.argv = argv;
	spec.on_output = refuse;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -EDOM);
	assert_int_equal(do_chmod(s, &err), -ENODEV);
	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_GUEST_FAULT);
	sandbox_free(s);
}

static void wall_limit_that_the_guest_ignores(void **state)
{
	struct sandbox *s = box_make(*state, "mute at EXEC\n", 4000);
	const char *argv[] = {"x", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	struct error err = {0};

	spec.argv = argv;
	spec.wall_ms = 50;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -ENODEV);
	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_GUEST_FAULT);
	assert_non_null(strstr(sandbox_end(s)->detail, "time limit"));
	sandbox_free(s);
}

static void lease_that_ends_under_a_command(void **state)
{
	struct sandbox_spec spec = box_spec(*state, "exec * hang\n");
	struct sandbox_usage usage = {0};
	struct error err = {0};
	struct sandbox *s;

	spec.lease_ms = 100;
	assert_int_equal(sandbox_create(&spec, &s, &err), 0);
	assert_int_equal(box_exec(s, "x", &(struct exec_result){0}, &err), -ENODEV);
	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_LEASE);
	assert_non_null(strstr(err.message, "lease_expired"));
	assert_int_equal(sandbox_stop(s, &usage, &err), 0);
	assert_true(usage.wall_us >= 100000);
	sandbox_free(s);
}

/* --- deaths of ours --- */

/* kill one of keeper (0), machine (1), monitor (2) while a command runs */
static struct sandbox *kill_one(struct home *home, int which)
{
	struct sandbox *s = box_make(home, "exec * hang\n", 0);
	const char *argv[] = {"x", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct error err = {0};
	pid_t pids[3];

	assert_int_equal(home_children(getpid(), pids, 1), 1);
	assert_int_equal(home_children(pids[0], pids + 1, 2), 2);
	spec.argv = argv;
	kill(pids[which], SIGKILL);
	assert_int_equal(sandbox_exec(s, &spec, &(struct exec_result){0}, &err), -ENODEV);
	return s;
}

static void killed_keeper(void **state)
{
	struct sandbox *s = kill_one(*state, 0);
	struct error err = {0};

	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_MONITOR_LOST);
	assert_int_equal(sandbox_stop(s, NULL, &err), -ENODEV);
	sandbox_free(s);
	home_wait_for_all();
	assert_int_equal(sandbox_sweep(((struct home *)*state)->path, &err), 1);
}

static void killed_machine(void **state)
{
	struct sandbox *s = kill_one(*state, 1);

	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_GUEST_ENDED);
	sandbox_free(s);
}

static void killed_monitor(void **state)
{
	struct sandbox *s = kill_one(*state, 2);
	struct error err = {0};

	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_MONITOR_LOST);
	assert_int_equal(sandbox_stop(s, NULL, &err), -ENODEV);
	sandbox_free(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(machines_that_die),
		TEST(machines_that_die_half_way),
		TEST(machines_that_say_nonsense),
		TEST(machines_that_fall_silent),
		TEST(machines_that_do_not_start),
		TEST(failures_while_input_is_sent),
		TEST(errnos_that_are_not_the_guests),
		TEST(messages_are_harmless_to_print),
		TEST(cancel_that_the_guest_ignores),
		TEST(wall_limit_that_the_guest_ignores),
		TEST(lease_that_ends_under_a_command),
		TEST(killed_keeper),
		TEST(killed_machine),
		TEST(killed_monitor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
