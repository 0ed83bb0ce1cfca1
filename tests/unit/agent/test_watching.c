/* SPDX-License-Identifier: Apache-2.0 - watches: records of what changes, their bounds and ends. */
#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct client client;
static struct buffer told; /* "cf name" and the like, a line each, paths below the test's folder */

static int setup(void **state)
{
	*state = &client;
	client_start(&client);
	return 0;
}

static int teardown(void **state)
{
	client_stop(*state, 0);
	buffer_fini(&told);
	return 0;
}

static void touch(struct client *c, const char *name)
{
	int fd = open(client_path(c, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
}

static void append(struct client *c, const char *name)
{
	int fd = open(client_path(c, name), O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

static void folder(struct client *c, const char *name)
{
	assert_int_equal(mkdir(client_path(c, name), 0755), 0);
}

static void move(struct client *c, const char *from, const char *to)
{
	assert_int_equal(rename(client_path(c, from), client_path(c, to)), 0);
}

static uint32_t request(struct client *c, const char *name, struct wire_watch m)
{
	uint32_t id = client_id(c);

	m.path = wire_str(*name == '/' ? name : client_path(c, name));
	m.uid = geteuid();
	m.gid = getegid();
	m.events = m.events ? m.events : 31;
	client_send(c, wire_put_watch(c->out, sizeof(c->out), id, 0, &m));
	return id;
}

/* a record as a line, without the path of the test */
static void add_record(struct client *c, const char *record)
{
	size_t n = strlen(c->dir);
	const char *slash = strchr(record, '/');

	if (*record == '!' || !slash || strncmp(slash, c->dir, n) != 0)
		buffer_printf(&told, "%s\n", record);
	else
		buffer_printf(&told, "%.*s %s\n", (int)(slash - record), record, slash + n + 1);
}

/* Read records until this one, or (NULL) the final message. */
static void read_until(struct client *c, uint32_t id, const char *last)
{
	static char record[8192];
	static size_t at;
	struct wire_frame f;

	buffer_fini(&told);
	for (at = 0;;) {
		client_frame(c, &f);
		assert_int_equal(f.stream, id);
		if (f.type == WIRE_DONE && !last)
			return;
		if (f.type == WIRE_END && !last)
			continue;
		assert_int_equal(f.type, WIRE_DATA);
		client_credit(c, id, WIRE_STDOUT, f.length);
		for (uint32_t i = 0; i < f.length; i++) {
			assert_true(at < sizeof(record));
			record[at++] = (char)f.payload[i];
			if (f.payload[i])
				continue;
			at = 0;
			add_record(c, record);
		}
		if (last && strstr(buffer_text(&told), last))
			return;
	}
}

static uint32_t begin(struct client *c, const char *name, struct wire_watch m)
{
	uint32_t id = request(c, name, m);
	struct wire_frame f;

	client_frame(c, &f);
	assert_int_equal(f.type, WIRE_STARTED);
	assert_int_equal(f.stream, id);
	return id;
}

/* what was told until a marker is made */
static const char *changes(struct client *c, uint32_t id, const char *marker)
{
	char line[300];

	touch(c, marker);
	snprintf(line, sizeof(line), "cf %s\n", marker);
	read_until(c, id, line);
	*strstr(buffer_text(&told), line) = 0;
	return buffer_text(&told);
}

static void end(struct client *c, uint32_t id)
{
	client_kill(c, id, WIRE_KILL_CANCEL);
	read_until(c, id, NULL);
	assert_string_equal(buffer_text(&told), "!end stopped\n");
}

static void one_folder(void **state)
{
	struct client *c = *state;
	uint32_t id = begin(c, "", (struct wire_watch){0});

	touch(c, "a");
	append(c, "a");
	chmod(client_path(c, "a"), 0600);
	move(c, "a", "b");
	unlink(client_path(c, "b"));
	folder(c, "d");
	touch(c, "d/not-told");
	assert_string_equal(changes(c, id, "m"), "cf a\nwf a\naf a\nof a\nnf b\nrf b\ncd d\n");
	end(c, id);
}

static void only_some_events(void **state)
{
	struct client *c = *state;
	uint32_t id =
		begin(c, "", (struct wire_watch){.events = WIRE_WATCH_CREATE | WIRE_WATCH_REMOVE});

	touch(c, "a");
	append(c, "a");
	move(c, "a", "b");
	unlink(client_path(c, "b"));
	assert_string_equal(changes(c, id, "m"), "cf a\nrf b\n");
	end(c, id);
}

static void folders_below(void **state)
{
	struct client *c = *state;
	uint32_t id;

	folder(c, "out");
	folder(c, "w");
	folder(c, "w/a");
	folder(c, "w/a/b");
	id = begin(c, "w", (struct wire_watch){.flags = WIRE_RECURSIVE});
	touch(c, "w/a/b/f");
	assert_string_equal(changes(c, id, "w/m1"), "cf w/a/b/f\n");
	/* a new folder is watched as well, and so is one that has moved */
	folder(c, "w/n");
	assert_string_equal(changes(c, id, "w/n/m2"), "cd w/n\n");
	move(c, "w/a", "w/n/z");
	touch(c, "w/n/z/b/g");
	assert_string_equal(changes(c, id, "w/n/z/b/m3"), "od w/a\nnd w/n/z\ncf w/n/z/b/g\n");
	/* what moves out is not told any more; what comes in is */
	move(c, "w/n/z", "out/z");
	touch(c, "out/z/b/x");
	assert_string_equal(changes(c, id, "w/m4"), "rd w/n/z\n");
	move(c, "out/z", "w/back");
	read_until(c, id, "cf w/back/b/x\n");
	touch(c, "w/back/b/y");
	read_until(c, id, "cf w/back/b/y\n");
	end(c, id);
}

static void patterns(void **state)
{
	static const char *const include[] = {"*.c", "sub/**"}, *const exclude[] = {
									"skip", "*.tmp.c"};
	struct client *c = *state;
	uint32_t id = begin(c, "",
		(struct wire_watch){.flags = WIRE_RECURSIVE,
			.include = {.list = include, .count = 2},
			.exclude = {.list = exclude, .count = 2}});

	folder(c, "skip");
	touch(c, "skip/a.c");
	touch(c, "a.c");
	touch(c, "a.h");
	touch(c, "b.tmp.c");
	move(c, "a.h", "h.c");     /* comes from what is not told */
	move(c, "h.c", "h.tmp.c"); /* and goes there */
	assert_string_equal(changes(c, id, "m.c"), "cf a.c\ncf h.c\nrf h.c\n");
	end(c, id);
}

/* written as the agent itself does */
static void files_written_whole(void **state)
{
	struct client *c = *state;
	char path[128];
	struct wire_frame f;
	uint32_t write, id = begin(c, "", (struct wire_watch){0});
	struct wire_file_write m = {
		.path = wire_str(path), .mode = 0644, .uid = geteuid(), .gid = getegid()};

	snprintf(path, sizeof(path), "%s", client_path(c, "whole"));
	m.path = wire_str(path);
	write = client_id(c);
	client_send(c, wire_put_file_write(c->out, sizeof(c->out), write, 0, &m));
	client_data(c, write, "abc", 3);
	client_end(c, write);
	do {
		client_frame(c, &f);
	} while (f.stream != write || f.type != WIRE_DONE);
	unlink(path);
	assert_string_equal(changes(c, id, "m"), "cf whole\nrf whole\n");
	end(c, id);
}

static void how_it_ends(void **state)
{
	struct client *c = *state;
	uint32_t id;

	folder(c, "d");
	id = begin(c, "d", (struct wire_watch){.flags = WIRE_RECURSIVE});
	rmdir(client_path(c, "d"));
	read_until(c, id, NULL);
	assert_string_equal(buffer_text(&told), "!end root-removed\n");
	id = begin(c, "", (struct wire_watch){.timeout_ms = 1});
	read_until(c, id, NULL);
	assert_string_equal(buffer_text(&told), "!end timeout\n");
}

static void fails(struct client *c, uint32_t id, int error)
{
	struct outcome o = {0};

	client_finish(c, id, &o);
	assert_int_equal(o.type, WIRE_FAIL);
	assert_int_equal(o.error, error);
	outcome_fini(&o);
}

static void what_cannot_be_watched(void **state)
{
	static char text[WIRE_WATCH_PATTERNS];
	const char *const large[] = {text, "x"};
	struct client *c = *state;

	memset(text, 'x', sizeof(text) - 1);
	touch(c, "f");
	fails(c, request(c, "none", (struct wire_watch){0}), ENOENT);
	fails(c, request(c, "f", (struct wire_watch){0}), ENOTDIR);
	fails(c, request(c, "", (struct wire_watch){.exclude = {.list = large, .count = 2}}),
		E2BIG);
}

static void too_many(void **state)
{
	struct client *c = *state;
	uint32_t ids[WIRE_WATCHES_MOST];

	for (size_t i = 0; i < WIRE_WATCHES_MOST; i++)
		ids[i] = begin(c, "", (struct wire_watch){0});
	fails(c, request(c, "", (struct wire_watch){0}), EBUSY);
	for (size_t i = 0; i < WIRE_WATCHES_MOST; i++)
		end(c, ids[i]);
	end(c, begin(c, "", (struct wire_watch){0}));
}

static void too_many_folders(void **state)
{
	struct client *c = *state;
	uint32_t id;

	folder(c, "a");
	folder(c, "b");
	folder(c, "c");
	id = request(c, "", (struct wire_watch){.flags = WIRE_RECURSIVE, .folders = 3});
	for (struct wire_frame f;;) { /* the notice may come before it has started */
		client_frame(c, &f);
		if (f.type == WIRE_DATA)
			assert_string_equal((const char *)f.payload, "!limit");
		if (f.type == WIRE_DATA)
			break;
		assert_int_equal(f.type, WIRE_STARTED);
	}
	rmdir(client_path(c, "a"));
	rmdir(client_path(c, "b"));
	rmdir(client_path(c, "c"));
	folder(c, "d"); /* there is a place again */
	changes(c, id, "d/m");
	end(c, id);
}

/* what the kernel had no room for is said */
static void overflow(void **state)
{
	struct client *c = *state;
	char most[32] = {0};
	uint32_t id;
	int fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY | O_CLOEXEC);
	long limit;

	assert_true(fd >= 0 && read(fd, most, sizeof(most) - 1) > 0);
	close(fd);
	limit = strtol(most, NULL, 10);
	if (limit > 100000)
		skip();
	touch(c, "a");
	touch(c, "b");
	id = begin(c, "", (struct wire_watch){0});
	assert_int_equal(kill(c->pid, SIGSTOP), 0);
	for (long i = 0; i < limit + 10; i += 2) {
		append(c, "a");
		append(c, "b");
	}
	assert_int_equal(kill(c->pid, SIGCONT), 0);
	for (size_t n = 0;;) {
		struct wire_frame f;

		client_frame(c, &f);
		assert_int_equal(f.type, WIRE_DATA);
		client_credit(c, id, WIRE_STDOUT, f.length);
		for (uint32_t i = 0; i + 9 <= f.length; i++)
			n += memcmp(f.payload + i, "!overflow", 9) == 0;
		if (n)
			break;
	}
	client_kill(c, id, WIRE_KILL_CANCEL);
	for (struct wire_frame f = {0}; f.type != WIRE_DONE;)
		client_frame(c, &f);
}

/* a guest's process that moves folders about as fast as it can */
static void hostile_tree(void **state)
{
	struct client *c = *state;
	uint32_t id;

	folder(c, "a");
	id = begin(c, "", (struct wire_watch){.flags = WIRE_RECURSIVE});
	for (int i = 0; i < 500; i++) {
		mkdir(client_path(c, "a"), 0755);
		mkdir(client_path(c, "b"), 0755);
		rename(client_path(c, "a"), client_path(c, "b/a"));
		rename(client_path(c, "b/a"), client_path(c, "a"));
		rename(client_path(c, "b"), client_path(c, "a/b"));
		mkdir(client_path(c, "a/b/c"), 0755);
		rename(client_path(c, "a/b/c"), client_path(c, "c"));
		rename(client_path(c, "a"), client_path(c, "c/a"));
		rmdir(client_path(c, "c/a/b"));
		rmdir(client_path(c, "c/a"));
		rmdir(client_path(c, "c"));
	}
	folder(c, "z");
	changes(c, id, "z-m");
	touch(c, "z/f");
	read_until(c, id, "cf z/f\n");
	end(c, id);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(one_folder),
		test(only_some_events),
		test(folders_below),
		test(patterns),
		test(files_written_whole),
		test(how_it_ends),
		test(what_cannot_be_watched),
		test(too_many),
		test(too_many_folders),
		test(overflow),
		test(hostile_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
