/* SPDX-License-Identifier: Apache-2.0 - files of the guest: written whole, read, listed, removed.
 */
#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
	client_start(&client);
	return 0;
}

static int teardown(void **state)
{
	client_stop(*state, 0);
	return 0;
}

static void request_read(
	struct client *c, const char *path, uint64_t offset, uint64_t length, struct outcome *o)
{
	struct wire_file_read m = {.path = wire_str(path),
		.uid = geteuid(),
		.gid = getegid(),
		.offset = offset,
		.length = length};
	uint32_t id = client_id(c);

	client_send(c, wire_put_file_read(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, o);
}

static void request_remove(struct client *c, const char *path, uint32_t flags, struct outcome *o)
{
	struct wire_file_remove m = {
		.path = wire_str(path), .uid = geteuid(), .gid = getegid(), .flags = flags};
	uint32_t id = client_id(c);

	client_send(c, wire_put_file_remove(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, o);
}

static void request_list(
	struct client *c, const char *path, uint32_t depth, uint32_t most, struct outcome *o)
{
	struct wire_file_list m = {.path = wire_str(path),
		.uid = geteuid(),
		.gid = getegid(),
		.depth = depth,
		.most = most};
	uint32_t id = client_id(c);

	client_send(c, wire_put_file_list(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, o);
}

static unsigned entries_in(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void write_and_read(void **state)
{
	struct client *c = *state;
	size_t count = 1500000;
	uint8_t *bytes = malloc(count);
	const char *path = client_path(c, "a/b/c.bin");
	struct outcome o;
	struct stat st;

	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	client_write(c, path, bytes, count, &o);
	assert_done(&o);
	outcome_fini(&o);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, count);
	assert_int_equal(st.st_mode & 07777, 0640);
	request_read(c, path, 0, 0, &o);
	assert_done(&o);
	assert_int_equal(buffer_length(&o.bytes[1]) - 1, count);
	assert_memory_equal(buffer_bytes(&o.bytes[1]), bytes, count);
	outcome_fini(&o);
	request_read(c, path, 1000001, 7, &o);
	assert_done(&o);
	assert_int_equal(buffer_length(&o.bytes[1]) - 1, 7);
	assert_memory_equal(buffer_bytes(&o.bytes[1]), bytes + 1000001, 7);
	outcome_fini(&o);
	request_read(c, path, 2000000, 0, &o);
	assert_done(&o);
	assert_int_equal(buffer_length(&o.bytes[1]) - 1, 0);
	outcome_fini(&o);
	free(bytes);
}

/* Until END the old contents stand, and a write that is given up leaves nothing behind. */
static void write_is_atomic(void **state)
{
	struct client *c = *state;
	struct wire_file_write m = {.path = wire_str(client_path(c, "f")),
		.mode = 0644,
		.uid = geteuid(),
		.gid = getegid()};
	uint32_t id = client_id(c);
	struct outcome o;

	client_write(c, m.path.text, "old", 3, &o);
	outcome_fini(&o);
	client_send(c, wire_put_file_write(c->out, sizeof(c->out), id, 0, &m));
	client_data(c, id, "new contents", 12);
	client_ping(c, 0);
	request_read(c, m.path.text, 0, 0, &o);
	assert_string_equal((char *)buffer_bytes(&o.bytes[1]), "old");
	outcome_fini(&o);
	assert_int_equal(entries_in(c->dir), 2);
	client_kill(c, id, WIRE_KILL_CANCEL);
	client_finish(c, id, &o);
	assert_int_equal(o.error, ECANCELED);
	outcome_fini(&o);
	assert_int_equal(entries_in(c->dir), 1);
}

static void write_limit_is_held(void **state)
{
	struct client *c = *state;
	struct wire_file_write m = {.path = wire_str(client_path(c, "f")),
		.mode = 0644,
		.uid = geteuid(),
		.gid = getegid(),
		.limit_bytes = 10};
	struct outcome o;
	uint32_t id;

	for (unsigned n = 10; n <= 11; n++) {
		id = client_id(c);
		client_send(c, wire_put_file_write(c->out, sizeof(c->out), id, 0, &m));
		client_data(c, id, "01234", 5);
		client_data(c, id, "56789x", n - 5);
		client_end(c, id);
		client_finish(c, id, &o);
		assert_int_equal(o.error, n == 11 ? EFBIG : 0);
		outcome_fini(&o);
	}
	assert_int_equal(entries_in(c->dir), 1);
}

static void write_refuses_what_is_no_file(void **state)
{
	struct client *c = *state;
	struct outcome o;

	client_write(c, c->dir, "x", 1, &o);
	assert_int_equal(o.error, EISDIR);
	outcome_fini(&o);
	assert_int_equal(mkfifo(client_path(c, "fifo"), 0600), 0);
	client_write(c, client_path(c, "fifo"), "x", 1, &o);
	assert_int_equal(o.error, EEXIST);
	outcome_fini(&o);
	client_write(c, "relative", "x", 1, &o);
	assert_int_equal(o.error, EINVAL);
	outcome_fini(&o);
	client_write(c, client_path(c, ".."), "x", 1, &o);
	assert_int_equal(o.error, EINVAL);
	outcome_fini(&o);
}

/* A student's link into /proc read the agent's own memory and environment. */
static void read_does_not_reach_the_agent(void **state)
{
	struct client *c = *state;
	static const struct {
		const char *target;
		int error;
	} links[] = {{"/proc/self/environ", EACCES}, {"/proc/self/mem", EACCES},
		{"/proc/self/fd/0", ELOOP}, {"/proc/self/root/etc/passwd", ELOOP}};
	struct outcome o;

	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		const char *path = client_path(c, "link");

		unlink(path);
		assert_int_equal(symlink(links[i].target, path), 0);
		request_read(c, path, 0, 0, &o);
		assert_int_equal(o.error, links[i].error);
		outcome_fini(&o);
	}
	/* asked for by its name it is as good as any file */
	request_read(c, "/proc/meminfo", 0, 0, &o);
	assert_done(&o);
	assert_non_null(strstr((char *)buffer_bytes(&o.bytes[1]), "MemTotal"));
	outcome_fini(&o);
}

static void read_never_waits(void **state)
{
	struct client *c = *state;
	struct outcome o;

	assert_int_equal(mkfifo(client_path(c, "fifo"), 0600), 0);
	request_read(c, client_path(c, "fifo"), 0, 0, &o);
	assert_int_equal(o.error, EINVAL);
	outcome_fini(&o);
	request_read(c, c->dir, 0, 0, &o);
	assert_int_equal(o.error, EISDIR);
	outcome_fini(&o);
	request_read(c, client_path(c, "none"), 0, 0, &o);
	assert_int_equal(o.error, ENOENT);
	assert_non_null(strstr(o.message, "none"));
	outcome_fini(&o);
}

/* The owner of a file held a lease on it, and the agent asked again for ever. */
static void lease_does_not_hold_the_agent(void **state)
{
	struct client *c = *state;
	struct outcome o;
	int fd;

	client_write(c, client_path(c, "f"), "x", 1, &o);
	outcome_fini(&o);
	fd = open(client_path(c, "f"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	/* without a handler SIGIO would end the test */
	assert_int_equal(fcntl(fd, F_SETSIG, SIGCHLD), 0);
	if (fcntl(fd, F_SETLEASE, F_WRLCK)) {
		close(fd);
		skip();
	}
	request_read(c, client_path(c, "f"), 0, 0, &o);
	assert_int_equal(o.error, EAGAIN);
	outcome_fini(&o);
	close(fd);
}

static void list_goes_as_deep_as_asked(void **state)
{
	struct client *c = *state;
	struct outcome o;

	client_write(c, client_path(c, "d/e/f"), "x", 1, &o);
	outcome_fini(&o);
	assert_int_equal(symlink("/", client_path(c, "d/root")), 0);
	request_list(c, c->dir, 1, 0, &o);
	assert_done(&o);
	assert_string_equal((char *)buffer_bytes(&o.entries), "dir d>\n");
	outcome_fini(&o);
	request_list(c, c->dir, 9, 0, &o);
	assert_done(&o);
	assert_int_equal(o.entry_count, 4);
	assert_non_null(strstr((char *)buffer_bytes(&o.entries), "file d/e/f>\n"));
	assert_non_null(strstr((char *)buffer_bytes(&o.entries), "link d/root>/\n"));
	outcome_fini(&o);
	request_list(c, c->dir, 9, 2, &o);
	assert_done(&o);
	assert_int_equal(o.entry_count, 2);
	outcome_fini(&o);
	request_list(c, client_path(c, "d/e/f"), 1, 0, &o);
	assert_int_equal(o.error, ENOTDIR);
	outcome_fini(&o);
}

/* More entries than the agent's buffer holds, to a host that is slow to read. */
static void list_is_longer_than_the_buffer(void **state)
{
	struct client *c = *state;
	char name[300];
	struct outcome o;

	for (int i = 0; i < 4000; i++) {
		int fd;

		snprintf(name, sizeof(name), "%0200d", i);
		fd = open(client_path(c, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
	request_list(c, c->dir, 1, 0, &o);
	assert_done(&o);
	assert_int_equal(o.entry_count, 4000);
	outcome_fini(&o);
}

static void stat_does_not_follow(void **state)
{
	struct client *c = *state;
	struct wire_file_stat m = {.uid = geteuid(), .gid = getegid()};
	struct outcome o;
	uint32_t id;

	assert_int_equal(symlink("nowhere", client_path(c, "l")), 0);
	m.path = wire_str(client_path(c, "l"));
	id = client_id(c);
	client_send(c, wire_put_file_stat(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, &o);
	assert_done(&o);
	assert_non_null(strstr((char *)buffer_bytes(&o.entries), "l>nowhere\n"));
	outcome_fini(&o);
	m.path = wire_str("/");
	id = client_id(c);
	client_send(c, wire_put_file_stat(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, &o);
	assert_done(&o);
	assert_string_equal((char *)buffer_bytes(&o.entries), "dir />\n");
	outcome_fini(&o);
}

static void directories_and_names(void **state)
{
	struct client *c = *state;
	struct wire_file_mkdir mkdir_m = {
		.mode = 0770, .uid = geteuid(), .gid = getegid(), .flags = WIRE_PARENTS};
	struct wire_file_rename rename_m = {.uid = geteuid(), .gid = getegid()};
	struct wire_file_chmod chmod_m = {.mode = 0711, .uid = geteuid(), .gid = getegid()};
	struct outcome o;
	struct stat st;
	uint32_t id;

	mkdir_m.path = wire_str(client_path(c, "x/y/z"));
	for (int i = 0; i < 3; i++) {
		/* the third time without WIRE_PARENTS: then it must be new */
		mkdir_m.flags = i < 2 ? WIRE_PARENTS : 0;
		id = client_id(c);
		client_send(c, wire_put_file_mkdir(c->out, sizeof(c->out), id, 0, &mkdir_m));
		client_finish(c, id, &o);
		assert_int_equal(o.error, i < 2 ? 0 : EEXIST);
		outcome_fini(&o);
	}
	assert_int_equal(stat(client_path(c, "x/y/z"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0770);
	assert_int_equal(stat(client_path(c, "x/y"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);

	rename_m.from = wire_str(client_path(c, "x/y/z"));
	rename_m.to = wire_str(client_path(c, "x/w"));
	id = client_id(c);
	client_send(c, wire_put_file_rename(c->out, sizeof(c->out), id, 0, &rename_m));
	client_finish(c, id, &o);
	assert_done(&o);
	outcome_fini(&o);

	chmod_m.path = wire_str(client_path(c, "x/w"));
	id = client_id(c);
	client_send(c, wire_put_file_chmod(c->out, sizeof(c->out), id, 0, &chmod_m));
	client_finish(c, id, &o);
	assert_done(&o);
	outcome_fini(&o);
	assert_int_equal(stat(client_path(c, "x/w"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
}

static void remove_takes_trees(void **state)
{
	struct client *c = *state;
	struct outcome o;
	int fd, next;

	/* deeper than paths are long, deeper than the agent has descriptors for */
	assert_int_equal(mkdir(client_path(c, "deep"), 0700), 0);
	fd = open(client_path(c, "deep"), O_PATH | O_CLOEXEC);
	for (int i = 0; i < 700; i++) {
		assert_int_equal(mkdirat(fd, "a-rather-long-name", 0700), 0);
		assert_int_equal(mkdirat(fd, "beside", 0700), 0);
		next = openat(fd, "a-rather-long-name", O_PATH | O_CLOEXEC);
		close(openat(next, "file", O_CREAT | O_WRONLY, 0600));
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(mkdir(client_path(c, "kept"), 0700), 0);
	assert_int_equal(symlink(client_path(c, "kept"), client_path(c, "deep/link")), 0);
	client_write(c, client_path(c, "kept/file"), "x", 1, &o);
	outcome_fini(&o);
	request_remove(c, client_path(c, "deep"), 0, &o);
	assert_int_equal(o.error, ENOTEMPTY);
	outcome_fini(&o);
	request_remove(c, client_path(c, "deep"), WIRE_RECURSIVE, &o);
	assert_done(&o);
	outcome_fini(&o);
	assert_int_equal(entries_in(c->dir), 1);
	assert_int_equal(access(client_path(c, "kept/file"), F_OK), 0);
	request_remove(c, client_path(c, "deep"), 0, &o);
	assert_int_equal(o.error, ENOENT);
	outcome_fini(&o);
	request_remove(c, client_path(c, "deep/er"), WIRE_RECURSIVE, &o);
	assert_done(&o);
	outcome_fini(&o);
	request_remove(c, client_path(c, "kept/file"), 0, &o);
	assert_done(&o);
	outcome_fini(&o);
}

/* What is asked for as a user is done with the user's rights, though the agent is root. */
static void rights_are_the_users(void **state)
{
	struct client *c = *state;
	struct wire_file_read read_m = {.uid = 1000, .gid = 1000};
	struct wire_file_write write_m = {.uid = 1000, .gid = 1000, .mode = 0666};
	struct outcome o;
	struct stat st;
	uint32_t id;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(c->dir, 0755), 0);
	client_write(c, client_path(c, "secret"), "x", 1, &o);
	outcome_fini(&o);
	assert_int_equal(chmod(client_path(c, "secret"), 0600), 0);
	assert_int_equal(mkdir(client_path(c, "theirs"), 0700), 0);
	assert_int_equal(chown(client_path(c, "theirs"), 1000, 1000), 0);
	assert_int_equal(symlink(client_path(c, "secret"), client_path(c, "theirs/link")), 0);

	read_m.path = wire_str(client_path(c, "theirs/link"));
	id = client_id(c);
	client_send(c, wire_put_file_read(c->out, sizeof(c->out), id, 0, &read_m));
	client_finish(c, id, &o);
	assert_int_equal(o.error, EACCES);
	outcome_fini(&o);
	write_m.path = wire_str(client_path(c, "mine"));
	id = client_id(c);
	client_send(c, wire_put_file_write(c->out, sizeof(c->out), id, 0, &write_m));
	client_finish(c, id, &o);
	assert_int_equal(o.error, EACCES);
	outcome_fini(&o);
	write_m.path = wire_str(client_path(c, "theirs/new"));
	id = client_id(c);
	client_send(c, wire_put_file_write(c->out, sizeof(c->out), id, 0, &write_m));
	client_end(c, id);
	client_finish(c, id, &o);
	assert_done(&o);
	outcome_fini(&o);
	assert_int_equal(stat(client_path(c, "theirs/new"), &st), 0);
	assert_int_equal(st.st_uid, 1000);
	/* and then it is root again */
	request_read(c, client_path(c, "secret"), 0, 0, &o);
	assert_done(&o);
	outcome_fini(&o);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(write_and_read), TEST(write_is_atomic),
		TEST(write_limit_is_held), TEST(write_refuses_what_is_no_file),
		TEST(read_does_not_reach_the_agent), TEST(read_never_waits),
		TEST(lease_does_not_hold_the_agent), TEST(list_goes_as_deep_as_asked),
		TEST(list_is_longer_than_the_buffer), TEST(stat_does_not_follow),
		TEST(directories_and_names), TEST(remove_takes_trees), TEST(rights_are_the_users)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
