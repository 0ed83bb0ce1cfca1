/* SPDX-License-Identifier: Apache-2.0 - a host directory as tar, and into a sandbox (libarchive).
 */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST 64

/* A tree on its way. */
struct pack {
	int (*sink)(void *context, const void *bytes, size_t count);
	void *context;
	struct archive *archive;
	struct error *err;
	int result;    /* 0 as long as bytes are sent */
	uint64_t left; /* bytes still allowed */
	char path[PATH_MAX];
};

static la_ssize_t send_packed(struct archive *a, void *context, const void *bytes, size_t count)
{
	struct pack *p = context;

	/* a failure told to libarchive would make it lose memory: after one, bytes are dropped */
	if (!p->result)
		p->result = p->sink(p->context, bytes, count);
	return (la_ssize_t)count;
}

static int broken(struct pack *p)
{
	return error_set(p->err, -EIO, "%s: cannot pack: %s", p->path,
		archive_error_string(p->archive) ? archive_error_string(p->archive) : "?");
}

static int add_header(struct pack *p, const struct stat *st, const char *target)
{
	struct archive_entry *e = archive_entry_new();
	int r;

	if (!e)
		return error_set(p->err, -ENOMEM, "out of memory");
	archive_entry_set_pathname(e, p->path);
	archive_entry_set_filetype(e, st->st_mode & S_IFMT);
	archive_entry_set_perm(e, st->st_mode & 0777);
	archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
	archive_entry_set_mtime(e, st->st_mtim.tv_sec, 0);
	if (target)
		archive_entry_set_symlink(e, target);
	r = archive_write_header(p->archive, e);
	archive_entry_free(e);
	return r == ARCHIVE_OK || r == ARCHIVE_WARN ? p->result : broken(p);
}

static int add_file(struct pack *p, int dir_fd, const char *name)
{
	cleanup_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_free uint8_t *chunk = malloc(65536);
	struct stat st;
	uint64_t left;
	int r;

	if (fd < 0 || fstat(fd, &st) || !chunk)
		return error_sys(p->err, errno, "%s", p->path);
	if (!S_ISREG(st.st_mode))
		return error_set(p->err, -EINVAL, "%s: is no longer a regular file", p->path);
	if ((uint64_t)st.st_size > p->left)
		return error_set(p->err, -EFBIG, "%s: the files are larger than allowed", p->path);
	p->left -= (uint64_t)st.st_size;
	r = add_header(p, &st, NULL);
	for (left = (uint64_t)st.st_size; !r && left;) {
		ssize_t n = read(fd, chunk, left < 65536 ? (size_t)left : 65536);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(p->err, -EIO, "%s: became shorter while read", p->path);
		if (archive_write_data(p->archive, chunk, (size_t)n) != n)
			return broken(p);
		left -= (uint64_t)n;
		r = p->result;
	}
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory. */
struct names {
	char **list;
	size_t count;
};

static void free_names(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->list[i]);
	free(n->list);
}

static int add_name(struct names *n, const char *name)
{
	char **more;

	if (n->count % 64 == 0) {
		more = realloc(n->list, (n->count + 64) * sizeof(*n->list));
		if (!more)
			return -ENOMEM;
		n->list = more;
	}
	n->list[n->count] = strdup(name);
	if (!n->list[n->count])
		return -ENOMEM;
	n->count++;
	return 0;
}

/* Sorted. A name that is missed would be a file that is missing in the sandbox: all or nothing. */
static int list(int dir_fd, struct names *out)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	cleanup_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (!r && (errno = 0, e = readdir(dir))) {
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			r = add_name(out, e->d_name);
	}
	if (!r && errno)
		r = -errno;
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), by_name);
	return r;
}

static int add_directory(struct pack *p, int dir_fd, int depth);

static int add_one(struct pack *p, int dir_fd, const char *name, int depth)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return error_sys(p->err, errno, "%s", p->path);
	if (S_ISREG(st.st_mode))
		return add_file(p, dir_fd, name);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
		if (n <= 0)
			return error_sys(p->err, errno, "%s", p->path);
		target[n] = 0;
		return add_header(p, &st, target);
	}
	if (!S_ISDIR(st.st_mode))
		return error_set(p->err, -EINVAL,
			"%s: only files, folders and symbolic links can be copied", p->path);
	cleanup_close int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_sys(p->err, errno, "%s", p->path);
	r = add_header(p, &st, NULL);
	return r ? r : add_directory(p, fd, depth + 1);
}

static int add_directory(struct pack *p, int dir_fd, int depth)
{
	size_t length = strlen(p->path);
	struct names names = {0};
	int r;

	if (depth > DEPTH_MOST)
		return error_set(p->err, -ELOOP, "%s: folders nest too deep", p->path);
	r = list(dir_fd, &names);
	if (r)
		error_sys(p->err, r, "%s: cannot list", length ? p->path : ".");
	for (size_t i = 0; i < names.count && !r; i++) {
		r = text_format(p->path + length, sizeof(p->path) - length, "%s%s",
			length ? "/" : "", names.list[i]);
		r = r ? error_set(p->err, r, "%s: path is too long", p->path)
		      : add_one(p, dir_fd, names.list[i], depth);
		p->path[length] = 0;
	}
	free_names(&names);
	return r;
}

int tree_pack(int dir_fd, uint64_t limit_bytes, bool gzip,
	int (*sink)(void *context, const void *bytes, size_t count), void *context,
	struct error *err)
{
	struct error own = {0};
	struct pack p = {.sink = sink,
		.context = context,
		.err = err ? err : &own,
		.left = limit_bytes ? limit_bytes : UINT64_MAX};
	int r = 0;

	p.archive = archive_write_new();
	if (!p.archive || archive_write_set_format_pax_restricted(p.archive) != ARCHIVE_OK ||
		(gzip && (archive_write_add_filter_gzip(p.archive) != ARCHIVE_OK ||
				 archive_write_set_options(
					 p.archive, "gzip:compression-level=1,gzip:!timestamp") !=
					 ARCHIVE_OK)) ||
		archive_write_set_bytes_per_block(p.archive, 65536) != ARCHIVE_OK ||
		archive_write_set_bytes_in_last_block(p.archive, gzip ? 1 : 512) != ARCHIVE_OK ||
		archive_write_open(p.archive, &p, NULL, send_packed, NULL) != ARCHIVE_OK)
		r = error_set(p.err, -ENOMEM, "cannot start an archive");
	if (!r)
		r = add_directory(&p, dir_fd, 0);
	if (!r && archive_write_close(p.archive) != ARCHIVE_OK)
		r = broken(&p);
	if (r && !p.result)
		p.result = r;
	archive_write_free(p.archive);
	return p.result;
}

/* A tree on its way into a sandbox. */
struct transfer {
	struct operation op;
	struct error *err;
};

static int send_input(void *context, const void *bytes, size_t count)
{
	struct transfer *t = context;

	return op_input(&t->op, bytes, count, t->err);
}

int sandbox_put_tree(struct sandbox *s, const char *path, int host_dir_fd, uint32_t uid,
	uint32_t gid, uint64_t limit_bytes, struct error *err)
{
	uint8_t frame[WIRE_HEADER + WIRE_PATH_MAX + 64];
	struct error own = {0};
	struct transfer t = {.err = err ? err : &own};
	int n, r;

	op_begin(s, &t.op);
	n = wire_put_tar_in(frame, sizeof(frame), t.op.stream, 0,
		&(struct wire_tar_in){
			.path = wire_str(path), .uid = uid, .gid = gid, .flags = WIRE_PARENTS});
	r = op_request(&t.op, frame, n, t.err);
	if (r)
		return r;
	r = tree_pack(host_dir_fd, limit_bytes, false, send_input, &t, t.err);
	return op_conclude(&t.op, r, path, t.err);
}
