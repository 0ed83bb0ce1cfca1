/* SPDX-License-Identifier: Apache-2.0 - a private copy of one submission, the very bytes that were
 * checked. */
#include "intake/intake_internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

int stage_source(const struct intake *intake, const struct submission *s, struct error *err)
{
	char path[PATH_MAX], shown[700];
	int fd;

	if (s->is_file)
		text_copy(path, sizeof(path), ".");
	else if (text_format(
			 path, sizeof(path), "%s%s%s", s->entry, *s->inside ? "/" : "", s->inside))
		return error_set(err, -ENAMETOOLONG, "%s: the path is too long",
			tree_show(s->entry, shown, sizeof(shown)));
	fd = path_open_beneath(intake->dir_fd, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return error_sys(err, fd, "%s", tree_show(path, shown, sizeof(shown)));
	return fd;
}

/* mkdir -p for the folders of `path` below dir_fd, which is ours */
static int make_parents(int dir_fd, const char *path)
{
	char part[PATH_MAX];

	if (text_copy(part, sizeof(part), path))
		return -ENAMETOOLONG;
	for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdirat(dir_fd, part, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

/* exactly `size` bytes, or -ESTALE */
static int copy_bytes(int from, int to, uint64_t size)
{
	char chunk[65536];
	uint64_t done = 0;

	for (;;) {
		ssize_t n = read(from, chunk, sizeof(chunk));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return done == size ? 0 : -ESTALE;
		done += (uint64_t)n;
		if (done > size)
			return -ESTALE;
		r = path_write_fd(to, chunk, (size_t)n);
		if (r)
			return r;
	}
}

static int stage_file(
	int from_dir, const char *name, int to_dir, const struct tree_file *f, struct error *err)
{
	char shown[700];
	cleanup_close int from = tree_open(from_dir, name, err);
	int r;

	if (from < 0)
		return from;
	r = make_parents(to_dir, f->path);
	if (r)
		return error_sys(err, r, "%s", tree_show(f->path, shown, sizeof(shown)));
	cleanup_close int to = path_open_beneath(
		to_dir, f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, f->mode);
	r = to < 0 ? to : copy_bytes(from, to, f->size_bytes);
	/* the mode asked for, whatever the umask */
	if (!r && fchmod(to, f->mode))
		r = -errno;
	return r ? error_sys(err, r, "%s", tree_show(f->path, shown, sizeof(shown))) : 0;
}

int intake_stage(
	const struct intake *intake, const struct submission *s, int dir_fd, struct error *err)
{
	char digest[HASH_HEX_SIZE];
	cleanup_close int from = stage_source(intake, s, err);
	int r = from < 0 ? from : 0;

	for (size_t i = 0; !r && i < s->tree.count; i++) {
		const struct tree_file *f = &s->tree.files[i];

		r = stage_file(from, s->is_file ? s->entry : f->path, dir_fd, f, err);
	}
	if (!r)
		r = tree_digest(dir_fd, &s->tree, NULL, digest, err);
	if (!r && strcmp(digest, s->digest))
		r = error_set(err, -ESTALE, "%s: changed while it was graded", s->student);
	return r == -ENOENT || r == -ELOOP || r == -EXDEV || r == -ESTALE
		       ? error_set(err, -ESTALE, "%s: changed while it was graded", s->student)
		       : r;
}
