/* SPDX-License-Identifier: Apache-2.0 - unit tests of base/path.h, in a directory of their own. */
#include "base/path.h"

#include "base/cleanup.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct place {
	char root[64];
	int fd;
};

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	memcpy(p->root, "/tmp/sealmark-path-XXXXXX", 26);
	if (!mkdtemp(p->root))
		return -1;
	p->fd = open(p->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0;
}

static int remove_place(void **state)
{
	struct place *p = *state;
	int r;

	close(p->fd);
	r = path_remove_tree(AT_FDCWD, p->root, NULL);
	free(p);
	return r;
}

/* "<root>/<name>" in a static place that the next call reuses */
static const char *in(const struct place *p, const char *name)
{
	static char out[PATH_MAX];

	assert_int_equal(path_join(out, sizeof(out), p->root, name, NULL), 0);
	return out;
}

static void joins(void **state)
{
	struct error err = {0};
	char out[8];

	assert_int_equal(path_join(out, sizeof(out), "a", "b", &err), 0);
	assert_string_equal(out, "a/b");
	assert_int_equal(path_join(out, sizeof(out), "/", "b", &err), 0);
	assert_string_equal(out, "/b");
	assert_int_equal(path_join(out, sizeof(out), "abcd", "efgh", &err), -ENAMETOOLONG);
	assert_string_equal(err.message, "abcd/efgh: path is too long");
}

static void opens_only_beneath(void **state)
{
	struct place *p = *state;
	int fd;

	assert_int_equal(mkdirat(p->fd, "d", 0755), 0);
	fd = path_open_beneath(p->fd, "d/file", O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(symlinkat("d/file", p->fd, "link"), 0);
	assert_int_equal(symlinkat("d", p->fd, "linked"), 0);
	assert_int_equal(symlinkat("/etc/passwd", p->fd, "away"), 0);
	assert_int_equal(path_open_beneath(p->fd, "link", O_RDONLY, 0), -ELOOP);
	assert_int_equal(path_open_beneath(p->fd, "linked/file", O_RDONLY, 0), -ELOOP);
	assert_int_equal(path_open_beneath(p->fd, "away", O_RDONLY, 0), -ELOOP);
	assert_int_equal(path_open_beneath(p->fd, "../x", O_RDONLY, 0), -EXDEV);
	assert_int_equal(path_open_beneath(p->fd, "d/../../x", O_RDONLY, 0), -EXDEV);
	assert_int_equal(path_open_beneath(p->fd, "/etc/passwd", O_RDONLY, 0), -EXDEV);
	assert_int_equal(path_open_beneath(p->fd, "none", O_RDONLY, 0), -ENOENT);
	fd = path_open_beneath(p->fd, "d/../d/file", O_RDONLY, 0); /* dots that stay inside */
	assert_true(fd >= 0);
	close(fd);
}

static void makes_directories(void **state)
{
	struct place *p = *state;
	struct error err = {0};
	struct stat st;

	assert_int_equal(path_make(in(p, "a/b/c"), 0700, &err), 0);
	assert_int_equal(path_make(in(p, "a/b/c"), 0700, &err), 0);
	assert_int_equal(path_make(in(p, "a//b/d/"), 0700, &err), 0);
	assert_int_equal(stat(in(p, "a/b/d"), &st), 0);
	assert_int_equal(path_write_whole(in(p, "file"), "x", 1, 0600, &err), 0);
	assert_int_equal(path_make(in(p, "file"), 0700, &err), -ENOTDIR);
	assert_non_null(strstr(err.message, "is not a directory"));
	assert_true(path_make(in(p, "file/below"), 0700, &err) < 0);
	/* "not permitted" was told as "no such file": the stat after the mkdir had the last word */
	assert_true(path_make("/sys/sealmark", 0700, &err) < 0);
	assert_int_not_equal(err.code, -ENOENT);
}

static void reads_whole_files(void **state)
{
	struct place *p = *state;
	cleanup_free char *large = calloc(1, 200000);
	struct buffer b = {0};
	struct error err = {0};

	assert_int_equal(path_write_whole(in(p, "f"), "hello", 5, 0600, &err), 0);
	assert_int_equal(path_read(in(p, "f"), 5, &b, &err), 0);
	assert_string_equal(buffer_text(&b), "hello");
	buffer_clear(&b);
	assert_int_equal(path_read(in(p, "f"), 4, &b, &err), -EFBIG);
	assert_non_null(strstr(err.message, "is larger than 4 bytes"));
	assert_int_equal(path_write_whole(in(p, "large"), large, 200000, 0600, &err), 0);
	buffer_clear(&b);
	assert_int_equal(path_read(in(p, "large"), 200000, &b, &err), 0);
	assert_int_equal(buffer_length(&b), 200000);
	buffer_clear(&b);
	assert_int_equal(path_read(in(p, "large"), 199999, &b, &err), -EFBIG);
	assert_int_equal(path_read(in(p, "none"), 5, &b, &err), -ENOENT);
	assert_non_null(strstr(err.message, "No such file"));
	/* a directory, a fifo nobody writes to: an error at once, no waiting */
	assert_int_equal(path_read(p->root, 5, &b, &err), -EINVAL);
	assert_int_equal(mkfifoat(p->fd, "fifo", 0600), 0);
	assert_int_equal(path_read(in(p, "fifo"), 5, &b, &err), -EINVAL);
	assert_non_null(strstr(err.message, "is not a regular file"));
	buffer_fini(&b);
}

static unsigned count_entries(const struct place *p)
{
	cleanup_dir DIR *dir = opendir(p->root);
	unsigned n = 0;

	while (readdir(dir))
		n++;
	return n - 2;
}

static void writes_whole_or_not(void **state)
{
	struct place *p = *state;
	struct buffer b = {0};
	struct error err = {0};
	struct stat st;

	umask(022);
	assert_int_equal(path_write_whole(in(p, "f"), "old", 3, 0644, &err), 0);
	assert_int_equal(path_write_whole(in(p, "f"), "new text", 8, 0600, &err), 0);
	assert_int_equal(path_read(in(p, "f"), 100, &b, &err), 0);
	assert_string_equal(buffer_text(&b), "new text");
	assert_int_equal(stat(in(p, "f"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* a failure leaves the old state and no temporary file */
	assert_int_equal(mkdirat(p->fd, "dir", 0700), 0);
	assert_true(path_write_whole(in(p, "dir"), "x", 1, 0600, &err) < 0);
	assert_int_equal(count_entries(p), 2);
	assert_int_equal(path_write_whole(in(p, "none/f"), "x", 1, 0600, &err), -ENOENT);
	/* a link is replaced, not followed */
	assert_int_equal(symlinkat("f", p->fd, "link"), 0);
	assert_int_equal(path_write_whole(in(p, "link"), "mine", 4, 0600, &err), 0);
	assert_int_equal(lstat(in(p, "link"), &st), 0);
	assert_true(S_ISREG(st.st_mode));
	buffer_clear(&b);
	assert_int_equal(path_read(in(p, "f"), 100, &b, &err), 0);
	assert_string_equal(buffer_text(&b), "new text");
	buffer_fini(&b);
}

static void removes_trees_but_not_beyond_links(void **state)
{
	struct place *p = *state;
	struct error err = {0};
	char name[64];

	assert_int_equal(path_make(in(p, "keep"), 0700, &err), 0);
	assert_int_equal(path_write_whole(in(p, "keep/f"), "x", 1, 0600, &err), 0);
	assert_int_equal(path_make(in(p, "tree/a/b/c"), 0700, &err), 0);
	assert_int_equal(symlinkat("../keep", p->fd, "tree/link"), 0);
	assert_int_equal(symlinkat("nowhere", p->fd, "tree/a/dangling"), 0);
	assert_int_equal(mkfifoat(p->fd, "tree/fifo", 0600), 0);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "tree/a/%d", i);
		assert_int_equal(path_write_whole(in(p, name), "", 0, 0, &err), 0);
	}
	assert_int_equal(path_remove_tree(p->fd, "tree", &err), 0);
	assert_int_equal(faccessat(p->fd, "tree", F_OK, 0), -1);
	assert_int_equal(faccessat(p->fd, "keep/f", F_OK, 0), 0);
	assert_int_equal(path_remove_tree(p->fd, "tree", &err), 0); /* missing is fine */
	assert_int_equal(symlinkat("keep", p->fd, "link"), 0);
	assert_int_equal(path_remove_tree(p->fd, "link", &err), 0);
	assert_int_equal(faccessat(p->fd, "keep/f", F_OK, 0), 0);
}

static void finds_its_home(void **state)
{
	struct error err = {0};
	char out[64];

	setenv("SEALMARK_HOME", "/x/y", 1);
	assert_int_equal(path_home(out, sizeof(out), &err), 0);
	assert_string_equal(out, "/x/y");
	assert_int_equal(path_home(out, 3, &err), -ENAMETOOLONG);
	setenv("SEALMARK_HOME", "relative", 1);
	assert_int_equal(path_home(out, sizeof(out), &err), -EINVAL);
	assert_string_equal(err.message, "SEALMARK_HOME=relative: must be an absolute path");
	unsetenv("SEALMARK_HOME");
	setenv("XDG_DATA_HOME", "/data", 1);
	assert_int_equal(path_home(out, sizeof(out), &err), 0);
	assert_string_equal(out, geteuid() ? "/data/sealmark" : "/var/lib/sealmark");
	unsetenv("XDG_DATA_HOME");
}

#define place_test(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joins),
		place_test(opens_only_beneath),
		place_test(makes_directories),
		place_test(reads_whole_files),
		place_test(writes_whole_or_not),
		place_test(removes_trees_but_not_beyond_links),
		cmocka_unit_test(finds_its_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
