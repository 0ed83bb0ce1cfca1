/* SPDX-License-Identifier: Apache-2.0 - sandboxes that outlive their creator: found, used, ended.
 */
#include "monitor.h"

#include "base/id.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* of each test its own: a cgroup of that name is of the whole host */
static char id[ID_SIZE];

static int setup(void **state)
{
	id_uuid(id);
	return home_setup(state);
}

static void create(struct home *home, const char *script, int64_t lease_ms, bool stay)
{
	struct sandbox_spec spec = {.home = home->path,
		.engine = "fake",
		.script = home_script(home, script),
		.require_isolation = "none",
		.lease_ms = lease_ms,
		.cpu = -1,
		.detached = true,
		.id = id};
	struct sandbox *s;
	struct error err = {0};

	if (sandbox_create(&spec, &s, &err))
		fail_msg("%s", err.message);
	assert_string_equal(sandbox_info(s)->id, id);
	sandbox_free(s);
	if (!stay)
		home_wait_for_all();
}

static struct sandbox *attach(struct home *home)
{
	struct error err = {0};
	struct sandbox *s;

	if (sandbox_attach(home->path, id, 20000, &s, &err))
		fail_msg("%s", err.message);
	return s;
}

static void expect_end(struct home *home, enum sandbox_stop_reason reason)
{
	struct sandbox_end end;

	home_wait_for_all();
	assert_int_equal(sandbox_look(home->path, id, &end, NULL), 0);
	assert_int_equal(end.reason, reason);
	sandbox_forget(home->path, id);
	assert_int_equal(sandbox_look(home->path, id, &end, NULL), -ENOENT);
}

/* Without a descriptor to look with, one that runs was taken for one that was lost. */
static void who_cannot_look_says_nothing(void **state)
{
	const struct home *home = *state;
	struct rlimit files, none;
	struct sandbox_end end;
	int64_t since, until;
	struct error err = {0};
	struct sandbox *s;
	int free_fd;

	create(*state, "", 60000, true);
	free_fd = dup(0);
	assert_true(free_fd >= 0);
	close(free_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = (struct rlimit){(rlim_t)free_fd, files.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(sandbox_look(home->path, id, &end, &err), -EMFILE);
	assert_int_equal(sandbox_look_paused(home->path, id, &since, &until), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(sandbox_look(home->path, id, &end, NULL), 1);
	assert_int_equal(sandbox_look_paused(home->path, id, &since, &until), 0);
	s = attach(*state);
	assert_int_equal(sandbox_stop(s, NULL, &err), 0);
	sandbox_free(s);
	expect_end(*state, SANDBOX_STOPPED_REQUESTED);
}

static void it_is_found_and_used(void **state)
{
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	struct sandbox_end end;
	struct error err = {0};
	struct sandbox *s, *other;

	spec.argv = (const char *const[]){"x", NULL};
	create(*state, "exec * stdout \"42\"\n", 60000, true);
	assert_int_equal(sandbox_look(((struct home *)*state)->path, id, &end, NULL), 1);
	for (int i = 0; i < 3; i++) {
		s = attach(*state);
		other = attach(*state);
		assert_string_equal(sandbox_info(s)->id, id);
		assert_string_equal(sandbox_info(s)->engine, "fake");
		if (sandbox_exec(s, &spec, &result, &err))
			fail_msg("%s", err.message);
		assert_int_equal(buffer_length(&result.out), 2);
		exec_result_fini(&result);
		sandbox_free(s);
		assert_int_equal(sandbox_exec(other, &spec, &result, &err), 0);
		exec_result_fini(&result);
		sandbox_free(other);
	}
	s = attach(*state);
	assert_int_equal(sandbox_stop(s, NULL, &err), 0);
	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_REQUESTED);
	sandbox_free(s);
	expect_end(*state, SANDBOX_STOPPED_REQUESTED);
	assert_int_equal(
		sandbox_attach(((struct home *)*state)->path, id, 1000, &s, &err), -ENODEV);
}

static void its_lease_ends_it_alone(void **state)
{
	create(*state, "", 50, false);
	expect_end(*state, SANDBOX_STOPPED_LEASE);
}

static void a_lease_is_extended_from_a_second_connection(void **state)
{
	struct error err = {0};
	struct sandbox *s;

	create(*state, "", 60000, true);
	s = attach(*state);
	assert_int_equal(sandbox_extend(s, 50, &err), 0);
	sandbox_free(s);
	expect_end(*state, SANDBOX_STOPPED_LEASE);
}

static void one_that_does_not_start_leaves_word(void **state)
{
	struct home *home = *state;
	struct sandbox_spec spec = {.home = home->path,
		.engine = "fake",
		.script = home_script(home, "boot hang\n"),
		.require_isolation = "none",
		.start_timeout_ms = 100,
		.cpu = -1,
		.detached = true,
		.id = id};
	struct sandbox *s;

	assert_int_equal(sandbox_create(&spec, &s, NULL), -ENODEV);
	assert_null(s);
	expect_end(home, SANDBOX_STOPPED_START_FAILED);
}

/* the connections that there are go on to work */
static void connections_beyond_the_most_are_refused(void **state)
{
	struct home *home = *state;
	struct sandbox *held[80], *s = NULL;
	struct error err = {0};
	int count = 0, r = 0;

	create(home, "", 60000, true);
	while (count < 80 && (r = sandbox_attach(home->path, id, 20000, &s, &err)) == 0)
		held[count++] = s;
	assert_int_equal(r, -EBUSY);
	assert_true(count >= 32);
	for (int i = 1; i < count; i++)
		sandbox_free(held[i]);
	assert_int_equal(sandbox_stop(held[0], NULL, &err), 0);
	sandbox_free(held[0]);
	expect_end(home, SANDBOX_STOPPED_REQUESTED);
}

/* a monitor taken over by its guest may leave any bytes */
static void words_that_cannot_be_are_no_end(void **state)
{
	static const char *const words[] = {"", "x", "a text that is no frame at all, but long"};
	struct home *home = *state;
	struct sandbox_end end;
	char path[128];

	text_format(path, sizeof(path), "%s/ended", home->path);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < 3; i++) {
		FILE *f;

		text_format(path, sizeof(path), "%s/ended/%s", home->path, id);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(words[i], f);
		fclose(f);
		assert_int_equal(sandbox_look(home->path, id, &end, NULL), 0);
		assert_int_equal(end.reason, SANDBOX_STOPPED_MONITOR_LOST);
	}
	sandbox_forget(home->path, id);
}

static void ids_never_name_other_files(void **state)
{
	static const char *const ids[] = {"", ".", "..", "../x", "a/b", "/etc/passwd", "a.b",
		"0123456789012345678901234567890123456789"};
	struct home *home = *state;
	struct sandbox_end end;
	struct sandbox *s;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		assert_int_equal(sandbox_attach(home->path, ids[i], 100, &s, NULL), -ENODEV);
		assert_int_equal(sandbox_look(home->path, ids[i], &end, NULL), -ENOENT);
		sandbox_forget(home->path, ids[i]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_found_and_used),
		TEST(who_cannot_look_says_nothing),
		TEST(its_lease_ends_it_alone),
		TEST(a_lease_is_extended_from_a_second_connection),
		TEST(one_that_does_not_start_leaves_word),
		TEST(connections_beyond_the_most_are_refused),
		TEST(words_that_cannot_be_are_no_end),
		TEST(ids_never_name_other_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
