/* SPDX-License-Identifier: Apache-2.0 - the n-th allocation or system call fails: on the caller's
 * side, and in the monitor. Each answers with a clean error, and leaves nothing. */
#include "box.h"
#include "faults.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALLS_MOST  300
#define IN_ORDER    12 /* stories without a failure: the monitor makes no more such calls */
#define AT_MOST_S   60
#define INPUT_BYTES 300000

static int use_files(struct sandbox *s, struct error *err)
{
	struct sandbox_entry *list = NULL;
	struct buffer out = {0};
	size_t count = 0;
	int fd = open("/etc/apt", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	r = sandbox_write(s, "/w/f", "hello", 5, 0600, 0, err);
	r = r ? r : sandbox_read(s, "/w/f", 5, 0, &out, err);
	r = r ? r : sandbox_put_tree(s, "/w", fd, 0, 0, 0, err);
	r = r ? r : sandbox_list(s, "/w", 9, 0, 0, &list, &count, err);
	if (!r && (buffer_length(&out) != 5 || count < 3))
		fail_msg("a success that is none: %zu entries", count);
	sandbox_entries_free(list, count);
	buffer_fini(&out);
	close(fd);
	return r;
}

/* all that a caller does */
static int story(const struct sandbox_spec *spec, struct error *err)
{
	static const uint8_t input[INPUT_BYTES];
	const char *argv[] = {"x", NULL};
	struct exec_spec exec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	struct sandbox_usage usage;
	struct sandbox *s;
	int r = sandbox_create(spec, &s, err);

	if (r) {
		assert_null(s);
		return r;
	}
	exec.argv = argv;
	exec.stdin_bytes = input;
	exec.stdin_count = sizeof(input);
	r = sandbox_exec(s, &exec, &result, err);
	if (!r && buffer_length(&result.out) != sizeof(input))
		fail_msg("a success that is none");
	exec_result_fini(&result);
	r = r ? r : use_files(s, err);
	r = r ? r : sandbox_usage(s, &usage, err);
	r = r ? r : sandbox_stop(s, &usage, err);
	sandbox_free(s);
	return r;
}

static int story_with_fault(struct home *home, const char *where)
{
	struct sandbox_spec spec = box_spec(home, "exec * echo\n");
	struct error err = {0};
	unsigned fds = home_count_fds();
	int r;

	spec.patience_ms = 2000;
	spec.start_timeout_ms = 5000;
	alarm(AT_MOST_S);
	r = story(&spec, &err);
	alarm(0);
	if (r > 0 || (r < 0 && !err.message[0]))
		fail_msg("%s: %d \"%s\"", where, r, err.message);
	if (home_count_fds() != fds)
		fail_msg("%s: leaves descriptors open", where);
	return r;
}

static void caller_side(void **state)
{
	static const char *const calls[] = {
		"malloc", "calloc", "realloc", "strdup", "socketpair", "pipe2", "posix_spawn"};
	char where[64];

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned failed = 0;
		bool was_hit = true;

		for (unsigned n = 1; was_hit; n++) {
			int r;

			assert_true(n < CALLS_MOST);
			text_format(where, sizeof(where), "%s %u", calls[i], n);
			fault_set(calls[i], n);
			r = story_with_fault(*state, where);
			was_hit = fault_was_hit();
			fault_set(NULL, 0);
			if (!was_hit)
				assert_int_equal(r, 0);
			failed += r < 0;
		}
		print_message("    %s: %u failures\n", calls[i], failed);
		assert_true(failed > 0);
	}
}

static void monitor_side(void **state)
{
	static const char *const calls[] = {
		"malloc", "calloc", "socketpair", "socket", "pipe2", "fork"};
	char where[64];

	setenv("SEALMARK_LIBEXEC", FAULTY, 1);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned failed = 0, in_order = 0;

		for (unsigned n = 1; in_order < IN_ORDER; n++) {
			assert_true(n < CALLS_MOST);
			text_format(where, sizeof(where), "%s:%u", calls[i], n);
			setenv(FAULT_VARIABLE, where, 1);
			if (story_with_fault(*state, where) < 0) {
				failed++;
				in_order = 0;
			} else {
				in_order++;
			}
			unsetenv(FAULT_VARIABLE);
		}
		print_message("    %s: %u failures\n", calls[i], failed);
		assert_true(failed > 0);
	}
	unsetenv("SEALMARK_LIBEXEC");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(caller_side),
		TEST(monitor_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
