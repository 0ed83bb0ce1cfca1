/* SPDX-License-Identifier: Apache-2.0 - tar in and out: good archives, and those made to escape. */
#include "client.h"
#include "base/path.h"
#include "tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* --- an archive, built by hand --- */

static void add_header(struct buffer *b, const char *name, char kind, const char *link, size_t size)
{
	uint8_t block[TAR_BLOCK] = {0};
	unsigned sum = 0;

	snprintf((char *)block, 100, "%s", name);
	memcpy(block + 100, "0000640", 7);
	snprintf((char *)block + 124, 12, "%011o", (unsigned)size);
	memcpy(block + 136, "14000000000", 11);
	memset(block + 148, ' ', 8);
	block[156] = (uint8_t)kind;
	snprintf((char *)block + 157, 100, "%s", link);
	memcpy(block + 257,
		"ustar\0"
		"00",
		8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += block[i];
	snprintf((char *)block + 148, 8, "%06o", sum);
	assert_int_equal(buffer_add(b, block, sizeof(block)), 0);
}

static void add_padded(struct buffer *b, const void *bytes, size_t count)
{
	static const uint8_t zeros[TAR_BLOCK];

	assert_int_equal(buffer_add(b, bytes, count), 0);
	assert_int_equal(buffer_add(b, zeros, -count & (TAR_BLOCK - 1)), 0);
}

static void add_entry(
	struct buffer *b, const char *name, char kind, const char *link, const char *contents)
{
	size_t size = contents ? strlen(contents) : 0;

	add_header(b, name, kind, link, size);
	add_padded(b, contents ? contents : "", size);
}

static void add_end(struct buffer *b)
{
	static const uint8_t zeros[2 * TAR_BLOCK];

	assert_int_equal(buffer_add(b, zeros, sizeof(zeros)), 0);
}

static void unpack(struct client *c, struct buffer *b, const char *path, struct outcome *o)
{
	client_tar(c, path, buffer_bytes(b), buffer_length(b), 0, o);
}

static void assert_file(const char *path, const char *contents)
{
	char text[1024] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	close(fd);
	assert_string_equal(text, contents);
}

static void unpacks_what_is_good(void **state)
{
	char long_path[300], record[400], link[64];
	struct client *c = *state;
	struct buffer b = {0};
	struct outcome o;
	struct stat st;
	ssize_t n;

	memset(long_path, 'x', sizeof(long_path));
	memcpy(long_path, "./d/", 4);
	long_path[150] = '/';
	long_path[250] = 0;
	add_entry(&b, "./", '5', "", NULL);
	add_entry(&b, "./a.txt", '0', "", "first");
	add_entry(&b, "a.txt", '0', "", "again"); /* a later entry replaces the earlier one */
	add_entry(&b, "d//e/", '5', "", NULL);
	add_entry(&b, "d/e/up", '2', "../../a.txt", NULL);
	add_entry(&b, "d/hard", '1', "a.txt", NULL);
	snprintf(record, sizeof(record), "%zu path=%s\n", strlen(long_path) + 10, long_path);
	add_entry(&b, "ignored", 'x', "", record);
	add_entry(&b, "short", '0', "", "by pax");
	long_path[4] = 'y';
	add_header(&b, "././@LongLink", 'L', "", strlen(long_path) + 1);
	add_padded(&b, long_path, strlen(long_path) + 1);
	add_entry(&b, "short", '0', "", "by GNU");
	add_entry(&b, "pax_global_header", 'g', "", "22 comment=whatever..\n");
	add_entry(&b, "empty", '0', "", "");
	add_end(&b);
	assert_int_equal(buffer_add(&b, "trailing rubbish", 16), 0);
	unpack(c, &b, client_path(c, "new/place"), &o);
	assert_done(&o);
	outcome_fini(&o);
	assert_file(client_path(c, "new/place/a.txt"), "again");
	assert_file(client_path(c, "new/place/d/hard"), "again");
	assert_file(client_path(c, "new/place/empty"), "");
	n = readlink(client_path(c, "new/place/d/e/up"), link, sizeof(link) - 1);
	assert_true(n > 0);
	link[n] = 0;
	assert_string_equal(link, "../../a.txt");
	snprintf(record, sizeof(record), "new/place/%s", long_path);
	assert_file(client_path(c, record), "by GNU");
	record[14] = 'x';
	assert_file(client_path(c, record), "by pax");
	assert_int_equal(stat(client_path(c, "new/place/a.txt"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_mtime, 1610612736);
	buffer_fini(&b);
}

/* One bad entry after a good one: refused by its name, and nothing beyond the directory touched. */
static void refuses_what_would_leave(void **state)
{
	static const struct {
		const char *name;
		char kind;
		const char *link;
		int error;
	} cases[] = {
		{"../evil", '0', "", EXDEV},
		{"ok/../../evil", '0', "", EXDEV},
		{"/tmp/evil", '0', "", EXDEV},
		{"ok/..", '5', "", EXDEV},
		{"evil", '2', "/etc/passwd", EXDEV},
		{"evil", '2', "../outside", EXDEV},
		{"ok/evil", '2', "x/../../../outside", EXDEV},
		{"evil", '2', "", EXDEV},
		{"evil", '1', "../outside", EXDEV},
		{"evil", '1', "/etc/passwd", EXDEV},
		{"evil", '1', "not-there", ENOENT},
		{"evil", '3', "", EOPNOTSUPP},
		{"evil", '4', "", EOPNOTSUPP},
		{"evil", '6', "", EOPNOTSUPP},
		{"evil", 'S', "", EOPNOTSUPP},
		/* through links that were there before */
		{"before/evil", '0', "", ELOOP},
		{"before/evil", '5', "", ELOOP},
		{"evil", '1', "before/sentinel", ELOOP},
		/* a link is no way on, though it stays inside */
		{"inside/evil", '0', "", ELOOP},
		{"", '0', "", EINVAL},
		{"./", '0', "", EINVAL},
	};
	struct client *c = *state;
	struct outcome o;

	client_write(c, client_path(c, "outside/sentinel"), "safe", 4, &o);
	outcome_fini(&o);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buffer b = {0};

		assert_int_equal(mkdir(client_path(c, "in"), 0755), 0);
		assert_int_equal(symlink("../outside", client_path(c, "in/before")), 0);
		assert_int_equal(mkdir(client_path(c, "in/ok"), 0755), 0);
		assert_int_equal(symlink("ok", client_path(c, "in/inside")), 0);
		add_entry(&b, "good", '0', "", "good");
		add_entry(&b, cases[i].name, cases[i].kind, cases[i].link,
			cases[i].kind == '0' ? "evil" : NULL);
		add_end(&b);
		unpack(c, &b, client_path(c, "in"), &o);
		assert_int_equal(o.type, WIRE_FAIL);
		assert_int_equal(o.error, cases[i].error);
		assert_non_null(strstr(o.message, cases[i].name));
		outcome_fini(&o);
		buffer_fini(&b);
		assert_int_not_equal(access(client_path(c, "outside/evil"), F_OK), 0);
		assert_int_not_equal(access(client_path(c, "evil"), F_OK), 0);
		assert_int_not_equal(access("/tmp/evil", F_OK), 0);
		assert_file(client_path(c, "outside/sentinel"), "safe");
		assert_int_equal(path_remove_tree(AT_FDCWD, client_path(c, "in"), NULL), 0);
	}
}

/* An entry in place of a link replaces the link; what it led to stays. */
static void replaces_links(void **state)
{
	struct client *c = *state;
	struct buffer b = {0};
	struct outcome o;

	client_write(c, client_path(c, "outside"), "safe", 4, &o);
	outcome_fini(&o);
	assert_int_equal(mkdir(client_path(c, "in"), 0755), 0);
	assert_int_equal(symlink("../outside", client_path(c, "in/f")), 0);
	add_entry(&b, "f", '0', "", "new");
	add_end(&b);
	unpack(c, &b, client_path(c, "in"), &o);
	assert_done(&o);
	outcome_fini(&o);
	buffer_fini(&b);
	assert_file(client_path(c, "in/f"), "new");
	assert_file(client_path(c, "outside"), "safe");
}

static void refuses_what_is_damaged(void **state)
{
	struct client *c = *state;
	struct buffer good = {0};
	struct outcome o;

	add_entry(&good, "a", '0', "", "contents");
	add_entry(&good, "b", '0', "", "contents");
	/* cut anywhere, also between entries */
	for (size_t cut = 0; cut <= buffer_length(&good); cut += 256) {
		client_tar(c, client_path(c, "in"), buffer_bytes(&good), cut, 0, &o);
		assert_int_equal(o.error, EINVAL);
		outcome_fini(&o);
	}
	/* one changed byte of a header */
	add_end(&good);
	buffer_bytes(&good)[1024 + 3] ^= 1;
	unpack(c, &good, client_path(c, "in"), &o);
	assert_int_equal(o.error, EINVAL);
	assert_non_null(strstr(o.message, "\"a\""));
	outcome_fini(&o);
	client_tar(c, client_path(c, "in"), "PK\3\4", 4, 0, &o);
	assert_int_equal(o.error, EINVAL);
	outcome_fini(&o);
	buffer_fini(&good);
}

static void refuses_bad_records(void **state)
{
	static const char *const records[] = {"5 a=b\n", "7 a=b\n", "6 a=b", "6 =bc\n", "6abcd\n",
		"99999999999999999999 a=b\n", "0 a=b\n", "12 size=1x\n", "9 size=\n"};
	struct client *c = *state;
	struct outcome o;

	for (size_t i = 0; i < sizeof(records) / sizeof(*records); i++) {
		struct buffer b = {0};

		add_entry(&b, "pax", 'x', "", records[i]);
		add_entry(&b, "f", '0', "", "");
		add_end(&b);
		unpack(c, &b, client_path(c, "in"), &o);
		assert_int_equal(o.error, EINVAL);
		outcome_fini(&o);
		buffer_fini(&b);
	}
}

static void holds_the_size_limit(void **state)
{
	struct client *c = *state;
	struct buffer b = {0};
	struct outcome o;

	add_entry(&b, "one", '0', "", "12345");
	add_entry(&b, "two", '0', "", "12345");
	add_end(&b);
	client_tar(c, client_path(c, "a"), buffer_bytes(&b), buffer_length(&b), 10, &o);
	assert_done(&o);
	outcome_fini(&o);
	client_tar(c, client_path(c, "b"), buffer_bytes(&b), buffer_length(&b), 9, &o);
	assert_int_equal(o.error, EFBIG);
	assert_non_null(strstr(o.message, "two"));
	outcome_fini(&o);
	buffer_fini(&b);
}

static void request_pack_without(
	struct client *c, const char *path, const char *const *exclude, struct outcome *o)
{
	struct wire_tar_out m = {.path = wire_str(path),
		.uid = geteuid(),
		.gid = getegid(),
		.exclude = wire_list(exclude)};
	uint32_t id = client_id(c);

	client_send(c, wire_put_tar_out(c->out, sizeof(c->out), id, 0, &m));
	client_finish(c, id, o);
}

static void request_pack(struct client *c, const char *path, struct outcome *o)
{
	request_pack_without(c, path, NULL, o);
}

static bool has_name(const struct outcome *o, const char *name)
{
	const struct buffer *b = &o->bytes[WIRE_STDOUT];

	return memmem(buffer_bytes(b), buffer_length(b), name, strlen(name)) != NULL;
}

static void without_some_paths(void **state)
{
	static const char *const exclude[] = {"b", "./a//x/", NULL}, *const outside[] = {
									     "../x", NULL};
	static char large[WIRE_EXCLUDE_MOST];
	const char *const too_large[] = {large, large, NULL};
	struct client *c = *state;
	struct outcome o;

	for (size_t i = 0; i < sizeof(large) - 1; i++)
		large[i] = i % 100 ? 'x' : '/';
	large[0] = 'x';
	for (const char *const *p =
			(const char *const[]){"p/a/x/f", "p/a/y", "p/b/f", "p/c/b", NULL};
		*p; p++) {
		client_write(c, client_path(c, *p), "", 0, &o);
		assert_done(&o);
		outcome_fini(&o);
	}
	request_pack_without(c, client_path(c, "p"), exclude, &o);
	assert_done(&o);
	assert_true(has_name(&o, "a/y") && has_name(&o, "c/b"));
	assert_false(has_name(&o, "a/x") || has_name(&o, "b/f"));
	outcome_fini(&o);
	request_pack_without(c, client_path(c, "p"), outside, &o);
	assert_int_equal(o.error, EXDEV);
	outcome_fini(&o);
	request_pack_without(c, client_path(c, "p"), too_large, &o);
	assert_int_not_equal(o.error, 0);
	outcome_fini(&o);
}

/* Out, in again elsewhere, out again: the same entries with the same bytes. */
static void comes_back_as_it_went(void **state)
{
	static const size_t sizes[] = {0, 1, 511, 512, 513, 131072, 700000};
	struct client *c = *state;
	uint8_t *bytes = malloc(700000);
	char name[400], path[512];
	struct outcome o, in;
	struct stat st;

	for (size_t i = 0; i < 700000; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 509);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		snprintf(name, sizeof(name), "src/%0*d/file", 20 + (int)i * 35, (int)i);
		client_write(c, client_path(c, name), bytes, sizes[i], &o);
		assert_done(&o);
		outcome_fini(&o);
	}
	memset(name, 'n', 200);
	name[200] = 0;
	assert_int_equal(symlink(name, client_path(c, "src/link")), 0);
	assert_int_equal(mkfifo(client_path(c, "src/fifo"), 0600), 0);
	request_pack(c, client_path(c, "src"), &o);
	assert_done(&o);
	assert_int_equal((buffer_length(&o.bytes[1]) - 1) % TAR_BLOCK, 0);
	client_tar(c, client_path(c, "dst"), buffer_bytes(&o.bytes[1]),
		buffer_length(&o.bytes[1]) - 1, 0, &in);
	assert_done(&in);
	outcome_fini(&in);
	outcome_fini(&o);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *copy = malloc(700001);
		int fd;

		snprintf(path, sizeof(path), "dst/%0*d/file", 20 + (int)i * 35, (int)i);
		fd = open(client_path(c, path), O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(read(fd, copy, 700001), sizes[i]);
		assert_memory_equal(copy, bytes, sizes[i]);
		close(fd);
		free(copy);
	}
	memset(path, 0, sizeof(path));
	assert_int_equal(readlink(client_path(c, "dst/link"), path, sizeof(path)), 200);
	assert_string_equal(path, name);
	/* what is no file, directory or link stays behind */
	assert_int_equal(lstat(client_path(c, "dst/fifo"), &st), -1);
	free(bytes);
}

static void packs_one_file(void **state)
{
	struct client *c = *state;
	struct outcome o, in;

	client_write(c, client_path(c, "d/one"), "content", 7, &o);
	outcome_fini(&o);
	request_pack(c, client_path(c, "d/one"), &o);
	assert_done(&o);
	assert_int_equal(buffer_length(&o.bytes[1]) - 1, 4 * TAR_BLOCK);
	client_tar(c, client_path(c, "e"), buffer_bytes(&o.bytes[1]),
		buffer_length(&o.bytes[1]) - 1, 0, &in);
	assert_done(&in);
	assert_file(client_path(c, "e/one"), "content");
	outcome_fini(&o);
	outcome_fini(&in);
	request_pack(c, client_path(c, "none"), &o);
	assert_int_equal(o.error, ENOENT);
	outcome_fini(&o);
}

/* --- the parser alone --- */

struct record {
	char text[4096];
	size_t used;
};

static void note(struct record *r, const char *what, const void *bytes, size_t count)
{
	assert_true(r->used + strlen(what) + count < sizeof(r->text));
	memcpy(r->text + r->used, what, strlen(what));
	r->used += strlen(what);
	memcpy(r->text + r->used, bytes, count);
	r->used += count;
}

static int on_entry(void *context, const struct tar_entry *e)
{
	note(context, "\n", e->path, strlen(e->path));
	note(context, ">", e->target, strlen(e->target));
	return 0;
}

static int on_content(void *context, const uint8_t *bytes, size_t count)
{
	note(context, "", bytes, count);
	return 0;
}

static int on_entry_end(void *context)
{
	note(context, ".", "", 0);
	return 0;
}

static void parses_alike_in_any_pieces(void **state)
{
	static const struct tar_sink sink = {on_entry, on_content, on_entry_end};
	static const size_t pieces[] = {1, 7, 511, 512, 513, 100000};
	static struct tar_reader reader;
	struct buffer b = {0};

	(void)state;
	add_entry(&b, "a", '0', "", "some contents");
	add_entry(&b, "p", 'x', "", "18 path=long/name\n");
	add_entry(&b, "b", '0', "", NULL);
	add_entry(&b, "l", '2', "a", NULL);
	add_end(&b);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		size_t at = 0, length = buffer_length(&b);
		struct record r = {0};

		memset(&reader, 0, sizeof(reader));
		while (at < length) {
			size_t n = length - at < pieces[i] ? length - at : pieces[i];

			assert_int_equal(tar_feed(&reader, buffer_bytes(&b) + at, n, &sink, &r), 0);
			at += n;
		}
		assert_int_equal(tar_close(&reader), 0);
		assert_string_equal(r.text, "\na>some contents.\nlong/name>.\nl>a.");
	}
	buffer_fini(&b);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(unpacks_what_is_good),
		TEST(refuses_what_would_leave), TEST(replaces_links), TEST(refuses_what_is_damaged),
		TEST(refuses_bad_records), TEST(holds_the_size_limit), TEST(comes_back_as_it_went),
		TEST(without_some_paths), TEST(packs_one_file),
		cmocka_unit_test(parses_alike_in_any_pieces)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
