/* SPDX-License-Identifier: Apache-2.0 - sandboxes as callers use them, with their odd requests. */
#include "box.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static void life_of_a_sandbox(void **state)
{
	struct sandbox *s = box_make(*state, "", 0);
	struct sandbox_usage usage = {0};
	struct error err = {0};

	assert_int_equal(strlen(sandbox_info(s)->id), 36);
	assert_string_equal(sandbox_info(s)->engine, "fake");
	assert_string_equal(sandbox_info(s)->kernel, "fake");
	assert_string_equal(sandbox_info(s)->isolation, "fake none");
	assert_true(sandbox_info(s)->boot_us > 0);
	box_expect_works(s);
	assert_int_equal(sandbox_usage(s, &usage, &err), 0);
	assert_true(usage.wall_us > 0);
	assert_int_equal(sandbox_extend(s, 60000, &err), 0);
	assert_int_equal(sandbox_extend(s, 0, &err), -EINVAL);
	assert_int_equal(sandbox_extend(s, INT64_MAX, &err), -EINVAL);
	assert_int_equal(sandbox_stop(s, &usage, &err), 0);
	assert_int_equal(sandbox_end(s)->reason, SANDBOX_STOPPED_REQUESTED);
	home_wait_for_all(); /* nothing: stop waits for all of it */
	assert_int_equal(sandbox_stop(s, &usage, &err), 0);
	assert_int_equal(sandbox_usage(s, &usage, &err), -ENODEV);
	assert_int_equal(sandbox_mkdir(s, "/x", 0755, 0, &err), -ENODEV);
	assert_non_null(strstr(err.message, "requested"));
	sandbox_free(s);
	sandbox_free(NULL);
	sandbox_free(box_make(*state, "", 0)); /* without a stop */
}

static void wrong_specifications_are_named(void **state)
{
	static char far[600];
	const struct sandbox_spec plain = box_spec(*state, "");
	struct sandbox_spec specs[] = {plain, plain, plain, plain, plain};
	const char *says[] = {
		"none.script", "\"kernel\" is required", "memory_mib", "disk_mib", "home"};
	struct sandbox *s;

	memset(far, 'x', sizeof(far) - 1);
	far[0] = '/';
	specs[0].script = "/none.script";
	specs[1].require_isolation = "kernel";
	specs[2].memory_mib = 1;
	specs[3].disk_mib = 1u << 20;
	specs[4].home = far;
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		struct error err = {0};

		assert_true(sandbox_create(&specs[i], &s, &err) < 0);
		assert_null(s);
		if (!strstr(err.message, says[i]))
			fail_msg("\"%s\" does not name %s", err.message, says[i]);
	}
}

/* --- exec --- */

static void results_of_commands(void **state)
{
	struct sandbox *s = box_make(*state,
		"exec a stdout out stderr err cpu 20 memory 4096 exit 3\n"
		"exec b signal 11\nexec c end memory_limit\nexec d end cpu_limit\n",
		0);
	struct exec_result r = {0};
	struct error err = {0};

	assert_int_equal(box_exec(s, "a", &r, &err), 0);
	assert_string_equal(buffer_text(&r.out), "out");
	assert_string_equal(buffer_text(&r.err), "err");
	assert_int_equal(r.memory_peak_bytes, 4096);
	assert_int_equal(exec_result_status(&r), 3);
	exec_result_fini(&r);
	assert_int_equal(box_exec(s, "b", &r, &err), 0);
	assert_int_equal(exec_result_status(&r), 139);
	assert_int_equal(box_exec(s, "c", &r, &err), 0);
	assert_int_equal(exec_result_status(&r), 137);
	assert_int_equal(box_exec(s, "d", &r, &err), 0);
	assert_int_equal(exec_result_status(&r), 124);
	box_end(s);
}

/* Each once waited for the end of a command that had never been sent. */
static void commands_that_cannot_be_sent(void **state)
{
	static char large[300000];
	const char *none[] = {NULL}, *long_one[] = {"x", large, NULL};
	struct sandbox *s = box_make(*state, "", 0);
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	struct error err = {0};

	spec.argv = none;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -EINVAL);
	memset(large, 'x', sizeof(large) - 1);
	spec.argv = long_one;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -E2BIG);
	box_expect_works(s);
	box_end(s);
}

static void input_comes_back(
	struct sandbox *s, struct exec_spec *spec, const void *bytes, size_t count)
{
	const char *argv[] = {"echo", NULL};
	struct exec_result r = {0};
	struct error err = {0};

	spec->argv = argv;
	if (sandbox_exec(s, spec, &r, &err))
		fail_msg("%s", err.message);
	assert_int_equal(buffer_length(&r.out), count);
	if (count)
		assert_memory_equal(buffer_bytes(&r.out), bytes, count);
	exec_result_fini(&r);
}

static void input_of_every_size(void **state)
{
	static const size_t sizes[] = {
		0, 1, WIRE_CREDIT_STEP, WIRE_WINDOW, WIRE_WINDOW + 1, 3000001};
	struct sandbox *s = box_make(*state, "exec * echo\n", 0);
	struct exec_spec spec = EXEC_SPEC_INIT;
	uint8_t *bytes = malloc(3000001);

	assert_non_null(bytes);
	for (size_t i = 0; i < 3000001; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	spec.stdin_bytes = bytes;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		spec.stdin_count = sizes[i];
		input_comes_back(s, &spec, bytes, sizes[i]);
	}
	free(bytes);
	box_end(s);
}

static void input_from_descriptors(void **state)
{
	struct sandbox *s = box_make(*state, "exec * echo\n", 0);
	struct exec_spec spec = EXEC_SPEC_INIT;
	int pair[2];

	spec.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	input_comes_back(s, &spec, NULL, 0);
	close(spec.stdin_fd);
	input_comes_back(s, &spec, NULL, 0); /* closed: at its end */
	spec.stdin_fd = open("/", O_RDONLY | O_CLOEXEC);
	input_comes_back(s, &spec, NULL, 0); /* cannot be read: at its end */
	close(spec.stdin_fd);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(write(pair[1], "hello", 5), 5);
	close(pair[1]);
	spec.stdin_fd = pair[0];
	input_comes_back(s, &spec, "hello", 5);
	close(pair[0]);
	box_end(s);
}

/* A program that ends without having read holds nobody. */
static void input_that_nobody_reads(void **state)
{
	const char *argv[] = {"x", NULL};
	struct sandbox *s = box_make(*state, "exec * delay 100 exit 4\n", 0);
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	struct error err = {0};
	uint8_t *bytes = calloc(1, 8u << 20);

	spec.argv = argv;
	spec.stdin_bytes = bytes;
	spec.stdin_count = 8u << 20;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), 0);
	assert_int_equal(r.status, 4);
	free(bytes);
	spec.stdin_bytes = NULL;
	spec.stdin_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), 0);
	assert_int_equal(r.status, 4);
	close(spec.stdin_fd);
	box_expect_works(s);
	box_end(s);
}

struct sink {
	uint64_t bytes;
	uint64_t stop_at;  /* then -EDOM */
	unsigned pause_ms; /* before each piece */
};

static int swallow(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	struct sink *sink = context;

	if (sink->pause_ms)
		usleep(sink->pause_ms * 1000);
	sink->bytes += count;
	return sink->stop_at && sink->bytes >= sink->stop_at ? -EDOM : 0;
}

static void output_goes_where_it_is_wanted(void **state)
{
	struct sandbox *s = box_make(*state, "exec * flood 20000000 exit 5\n", 0);
	const char *argv[] = {"x", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	struct error err = {0};
	struct sink sink = {0};

	spec.argv = argv;
	spec.on_output = swallow;
	spec.context = &sink;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), 0);
	assert_int_equal(sink.bytes, 20000000);
	assert_int_equal(r.status, 5);
	/* an error of the taker ends the command and is the answer */
	sink = (struct sink){.stop_at = 1000000};
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -EDOM);
	/* kept bytes have their limit, the rest is counted */
	spec.on_output = NULL;
	spec.output_bytes = 1000;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), 0);
	assert_int_equal(buffer_length(&r.out), 1000);
	assert_int_equal(r.stdout_bytes, 20000000);
	assert_true(r.flags & WIRE_EXIT_STDOUT_CUT);
	exec_result_fini(&r);
	box_end(s);
}

/* A taker that is slower than all patience is still no fault of the machine. */
static void slow_taker(void **state)
{
	struct sandbox *s = box_make(*state, "exec * flood 1000000 exit 6\n", 200);
	const char *argv[] = {"x", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct sink sink = {.pause_ms = 60};
	struct exec_result r = {0};
	struct error err = {0};

	spec.argv = argv;
	spec.wall_ms = 100;
	spec.on_output = swallow;
	spec.context = &sink;
	if (sandbox_exec(s, &spec, &r, &err))
		fail_msg("%s", err.message);
	assert_true(r.reason == WIRE_END_WALL_LIMIT || r.status == 6);
	box_end(s);
}

static void cancelled_by_a_descriptor(void **state)
{
	struct sandbox *s = box_make(*state, "exec x hang\nexec y flood 100000000000\n", 0);
	const char *argv[] = {"x", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result r = {0};
	struct error err = {0};
	struct sink sink = {0};
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(write(pair[1], "", 1), 1);
	spec.argv = argv;
	spec.cancel_fd = pair[0];
	spec.on_output = swallow;
	spec.context = &sink;
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -EINTR);
	argv[0] = "y";
	assert_int_equal(sandbox_exec(s, &spec, &r, &err), -EINTR);
	box_expect_works(s);
	close(pair[0]);
	close(pair[1]);
	box_end(s);
}

/* --- files --- */

static void expect_prefix(const struct error *err, const char *prefix)
{
	if (strncmp(err->message, prefix, strlen(prefix)))
		fail_msg("\"%s\" does not begin with \"%s\"", err->message, prefix);
}

static void files_and_their_errors(void **state)
{
	struct sandbox *s = box_make(*state, "", 0);
	struct sandbox_entry *list, one;
	struct buffer out = {0};
	struct error err = {0};
	size_t count;

	assert_int_equal(sandbox_write(s, "/w/a/f", "hello", 5, 0640, 0, &err), 0);
	assert_int_equal(sandbox_read(s, "/w/a/f", 5, 0, &out, &err), 0);
	assert_string_equal(buffer_text(&out), "hello");
	buffer_clear(&out);
	assert_int_equal(sandbox_read(s, "/w/a/f", 4, 0, &out, &err), -EFBIG);
	assert_int_equal(buffer_length(&out), 4);
	assert_string_equal(err.message, "/w/a/f: is larger than 4 bytes");
	buffer_clear(&out);
	assert_int_equal(sandbox_read(s, "/none", 4, 0, &out, &err), -ENOENT);
	expect_prefix(&err, "/none: ");
	/* the errno is told without a message, too */
	assert_int_equal(sandbox_read(s, "/none", 4, 0, &out, NULL), -ENOENT);
	assert_int_equal(sandbox_chmod(s, "/none", 0600, 0, NULL), -ENOENT);
	assert_int_equal(sandbox_mkdir(s, "", 0755, 0, &err), -ENAMETOOLONG);
	assert_int_equal(sandbox_write(s, "", "x", 1, 0644, 0, &err), -ENAMETOOLONG);
	/* once, this looked at an operation that had not begun */
	assert_int_equal(sandbox_list(s, "", 1, 0, 0, &list, &count, &err), -ENAMETOOLONG);
	assert_null(list);
	assert_int_equal(sandbox_stat(s, "", 0, &one, &err), -ENAMETOOLONG);
	assert_int_equal(sandbox_list(s, "/w", 9, 0, 0, &list, &count, &err), 0);
	assert_int_equal(count, 2);
	assert_string_equal(list[1].path, "a/f");
	sandbox_entries_free(list, count);
	assert_int_equal(sandbox_stat(s, "/w/a/f", 0, &one, &err), 0);
	assert_int_equal(one.size, 5);
	free(one.path);
	free(one.target);
	assert_int_equal(sandbox_rename(s, "/w/a/f", "/w/g", 0, &err), 0);
	assert_int_equal(sandbox_remove(s, "/w", true, 0, &err), 0);
	buffer_fini(&out);
	box_end(s);
}

static void large_files(void **state)
{
	struct sandbox *s = box_make(*state, "", 0);
	struct buffer out = {0};
	struct error err = {0};
	uint8_t *bytes = calloc(1, 3u << 20);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), pair[2];
	char expected[HASH_HEX_SIZE], found[HASH_HEX_SIZE];

	assert_int_equal(sandbox_write(s, "/big", bytes, 3u << 20, 0600, 0, &err), 0);
	assert_int_equal(sandbox_read(s, "/big", SIZE_MAX, 0, &out, &err), 0);
	assert_int_equal(buffer_length(&out), 3u << 20);
	assert_true(sandbox_write_fd(s, "/big/x", fd, 0600, 0, &err) < 0);
	expect_prefix(&err, "/big/x: ");
	close(fd);
	assert_int_equal(sandbox_write_fd(s, "/closed", fd, 0600, 0, &err), -EBADF);
	assert_int_equal(sandbox_stat(s, "/closed", 0, &(struct sandbox_entry){0}, NULL), -ENOENT);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	close(pair[1]);
	assert_int_equal(sandbox_write_fd(s, "/empty", pair[0], 0600, 0, &err), 0);
	close(pair[0]);
	fd = memfd_create("bytes", MFD_CLOEXEC);
	assert_int_equal(write(fd, bytes, 3u << 20), 3u << 20);
	hash_bytes(bytes, 3u << 20, expected);
	/* what was there stays when other bytes come than were announced */
	expected[0] ^= 1;
	assert_int_equal(sandbox_write(s, "/checked", "old", 3, 0600, 0, &err), 0);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(
		sandbox_write_checked(s, "/checked", fd, 0600, 0, expected, found, &err), -EBADMSG);
	expected[0] ^= 1;
	assert_string_equal(found, expected);
	buffer_clear(&out);
	assert_int_equal(sandbox_read(s, "/checked", SIZE_MAX, 0, &out, &err), 0);
	assert_string_equal(buffer_text(&out), "old");
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(
		sandbox_write_checked(s, "/checked", fd, 0600, 0, expected, found, &err), 0);
	buffer_clear(&out);
	assert_int_equal(sandbox_read(s, "/checked", SIZE_MAX, 0, &out, &err), 0);
	assert_int_equal(buffer_length(&out), 3u << 20);
	assert_true(sandbox_write_checked(s, "/big/x", fd, 0600, 0, expected, found, &err) < 0);
	close(fd);
	free(bytes);
	buffer_fini(&out);
	box_end(s);
}

/* --- trees --- */

static int make_file(int dir_fd, const char *name, size_t size)
{
	cleanup_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : ftruncate(fd, (off_t)size);
}

static int make_tree(struct home *home)
{
	char path[128], name[256];
	int fd;

	text_format(path, sizeof(path), "%s/tree", home->path);
	assert_int_equal(mkdir(path, 0755), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(mkdirat(fd, "empty", 0755), 0);
	assert_int_equal(mkdirat(fd, "sub", 0755), 0);
	assert_int_equal(make_file(fd, "sub/f", 3000), 0);
	assert_int_equal(make_file(fd, "b\xc3\xa4r", 1), 0);
	assert_int_equal(make_file(fd, "latin-\xe4", 1), 0);
	memset(name, 'n', sizeof(name) - 1);
	name[200] = 0;
	assert_int_equal(make_file(fd, name, 1), 0);
	assert_int_equal(symlinkat("sub/f", fd, "link"), 0);
	return fd;
}

static void trees_arrive_whole(void **state)
{
	struct sandbox *s = box_make(*state, "", 0);
	struct sandbox_entry *list;
	struct error err = {0};
	int fd = make_tree(*state);
	size_t count;

	if (sandbox_put_tree(s, "/w", fd, 1000, 1000, 0, &err))
		fail_msg("%s", err.message);
	assert_int_equal(sandbox_list(s, "/w", 9, 0, 0, &list, &count, &err), 0);
	assert_int_equal(count, 7);
	sandbox_entries_free(list, count);
	/* limits, and what cannot be copied */
	assert_int_equal(sandbox_put_tree(s, "/w", fd, 0, 0, 3000, &err), -EFBIG);
	assert_int_equal(mknodat(fd, "pipe", S_IFIFO | 0600, 0), 0);
	assert_int_equal(sandbox_put_tree(s, "/w", fd, 0, 0, 0, &err), -EINVAL);
	assert_non_null(strstr(err.message, "/w: pipe: only files"));
	/* the guest says no, at once and in the middle of large files */
	unlinkat(fd, "pipe", 0);
	assert_int_equal(make_file(fd, "big", 5u << 20), 0);
	assert_true(sandbox_put_tree(s, "/w/sub/f", fd, 0, 0, 0, &err) < 0);
	expect_prefix(&err, "/w/sub/f: ");
	box_expect_works(s);
	close(fd);
	box_end(s);
}

/* Once, a directory that could not be listed arrived empty: files were missing without a word. */
static void tree_that_cannot_be_read(void **state)
{
	struct sandbox *s = box_make(*state, "", 0);
	struct rlimit old, few;
	struct error err = {0};
	int fd = make_tree(*state), r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = sandbox_put_tree(s, "/w", fd, 0, 0, 0, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	box_expect_works(s);
	close(fd);
	box_end(s);
}

static int count_bytes(void *context, const void *bytes, size_t count)
{
	*(size_t *)context += count;
	return *(size_t *)context > 1000000 ? -EDOM : 0;
}

static void archives_out(void **state)
{
	struct sandbox *s = box_make(*state, "", 0);
	uint8_t *bytes = calloc(1, 3u << 20);
	struct error err = {0};
	size_t count = 0;

	assert_int_equal(sandbox_write(s, "/w/f", "hello", 5, 0640, 0, &err), 0);
	assert_int_equal(sandbox_get_tar(s, "/w", NULL, 0, count_bytes, &count, &err), 0);
	assert_true(count >= 1024 && count % 512 == 0);
	assert_int_equal(sandbox_write(s, "/w/big", bytes, 3u << 20, 0640, 0, &err), 0);
	assert_int_equal(sandbox_get_tar(s, "/w", NULL, 0, count_bytes, &count, &err), -EDOM);
	assert_true(err.message[0]);
	box_expect_works(s);
	free(bytes);
	box_end(s);
}

/* --- threads and signals --- */

static void *worker(void *home)
{
	for (int i = 0; i < 4; i++) {
		struct sandbox_spec spec = {.home = ((struct home *)home)->path,
			.engine = "fake",
			.require_isolation = "none",
			.cpu = -1};
		struct sandbox *s;
		struct exec_result r = {0};

		if (sandbox_create(&spec, &s, NULL) || box_exec(s, "x", &r, NULL) ||
			sandbox_stop(s, NULL, NULL))
			return home;
		sandbox_free(s);
	}
	return NULL;
}

static void many_threads(void **state)
{
	pthread_t threads[4];
	void *failed;

	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, worker, *state), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
}

static void nothing(int signal)
{
}

/* Signals without SA_RESTART interrupt every wait there is. */
static void signals_in_between(void **state)
{
	struct itimerval often = {{0, 700}, {0, 700}}, never = {0};
	struct sigaction action = {.sa_handler = nothing};
	struct error err = {0};
	uint8_t *bytes = calloc(1, 3u << 20);
	int fd = make_tree(*state);
	struct sandbox *s;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	s = box_make(*state, "exec * delay 30\n", 0);
	box_expect_works(s);
	if (sandbox_put_tree(s, "/w", fd, 0, 0, 0, &err) ||
		sandbox_write(s, "/f", bytes, 3u << 20, 0600, 0, &err) ||
		sandbox_stop(s, NULL, &err))
		fail_msg("%s", err.message);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sandbox_free(s);
	free(bytes);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(life_of_a_sandbox),
		TEST(wrong_specifications_are_named),
		TEST(results_of_commands),
		TEST(commands_that_cannot_be_sent),
		TEST(input_of_every_size),
		TEST(input_from_descriptors),
		TEST(input_that_nobody_reads),
		TEST(output_goes_where_it_is_wanted),
		TEST(slow_taker),
		TEST(cancelled_by_a_descriptor),
		TEST(files_and_their_errors),
		TEST(large_files),
		TEST(trees_arrive_whole),
		TEST(tree_that_cannot_be_read),
		TEST(archives_out),
		TEST(many_threads),
		TEST(signals_in_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
