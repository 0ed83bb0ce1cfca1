/* SPDX-License-Identifier: Apache-2.0 - TAR_IN: unpack a stream below a directory, and never
 * elsewhere. */
#include "agent.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * Two fences, each enough alone. By name: absolute paths and ".." are refused, and so are links
 * whose target, read as text, leaves the directory. By the kernel: every directory is opened
 * beneath the root of the unpacking without following any link, so a link in the archive (or one
 * that was there before) is never a way to somewhere else. An entry that exists is replaced, except
 * that a directory stays.
 */

/* A link's target as it will be read from the directory of its entry: does it stay below the
 * root? (`path` is in normal form.) */
static bool target_stays(const char *path, const char *target)
{
	int depth = 0;

	if (*target == '/')
		return false;
	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
		depth++;
	while (*target) {
		size_t length = strcspn(target, "/");

		if (length == 2 && !memcmp(target, "..", 2))
			depth--;
		else if (length && !(length == 1 && *target == '.'))
			depth++;
		if (depth < 0)
			return false;
		target += length;
		target += *target == '/';
	}
	return true;
}

/* The directory an entry lies in, and its name there. Not to be closed. */
static int enter_parent(struct unpacking *u, const char *path, char *name)
{
	const char *last = strrchr(path, '/');
	size_t length = last ? (size_t)(last - path) : 0;
	int fd;

	if (u->parent >= 0 && strlen(u->parent_path) == length &&
		!memcmp(u->parent_path, path, length)) {
		/* a part of a path in normal form is no longer than a name may be */
		last = last ? last + 1 : path;
		memcpy(name, last, strlen(last) + 1);
		return u->parent;
	}
	fd = fs_open_parent_within(u->root, path, name);
	if (fd < 0)
		return fd;
	if (u->parent >= 0)
		close(u->parent);
	u->parent = fd;
	memcpy(u->parent_path, path, length);
	u->parent_path[length] = 0;
	return fd;
}

static int make_directory(int dir, const char *name, uint32_t mode)
{
	int fd, r;

	if (mkdirat(dir, name, 0755) && errno != EEXIST)
		return -errno;
	fd = fs_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, FS_WITHIN);
	if (fd == -ENOTDIR || fd == -ELOOP)
		return -EEXIST;
	if (fd < 0)
		return fd;
	/* it must stay open to its owner for what the archive puts into it */
	r = fs_chmod(fd, (mode & 01777) | 0700);
	close(fd);
	/* a directory of somebody else's stays as it is */
	return r == -EPERM ? 0 : r;
}

static int remove_old(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) && errno != ENOENT)
		return errno == EPERM ? -EISDIR : -errno;
	return 0;
}

static int make_file(struct unpacking *u, int dir, const char *name, const struct tar_entry *e)
{
	u->fd = fs_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, FS_WITHIN);
	if (u->fd == -EEXIST) {
		int r = remove_old(dir, name);

		if (r)
			return r;
		u->fd = fs_open(
			dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, FS_WITHIN);
	}
	if (u->fd < 0)
		return u->fd;
	return fchmod(u->fd, e->mode & 0777) ? -errno : 0;
}

static int make_hardlink(struct unpacking *u, int dir, const char *name, const char *target)
{
	char normal[WIRE_PATH_MAX], old_name[256];
	struct stat st;
	int old_dir, r;

	r = fs_normal_path(target, normal, sizeof(normal));
	if (!r && !*normal)
		r = -EINVAL;
	if (r)
		return r;
	old_dir = fs_open_parent_within(u->root, normal, old_name);
	if (old_dir < 0)
		return old_dir;
	if (fstatat(old_dir, old_name, &st, AT_SYMLINK_NOFOLLOW))
		r = -errno;
	else if (!S_ISREG(st.st_mode))
		r = -EINVAL;
	else
		r = remove_old(dir, name);
	if (!r && linkat(old_dir, old_name, dir, name, 0))
		r = -errno;
	close(old_dir);
	return r;
}

static int on_entry(void *context, const struct tar_entry *e)
{
	struct unpacking *u = context;
	char path[WIRE_PATH_MAX], name[256];
	int dir, r;

	r = fs_normal_path(e->path, path, sizeof(path));
	if (r)
		return r;
	/* "./", the directory itself */
	if (!*path)
		return e->kind == TAR_DIRECTORY ? 0 : -EINVAL;
	if (u->limit && e->size > u->limit - u->total)
		return -EFBIG;
	u->total += e->size;
	dir = enter_parent(u, path, name);
	if (dir < 0)
		return dir;
	switch (e->kind) {
	case TAR_FILE:
		return make_file(u, dir, name, e);
	case TAR_DIRECTORY:
		return make_directory(dir, name, e->mode);
	case TAR_HARDLINK:
		return make_hardlink(u, dir, name, e->target);
	case TAR_SYMLINK:
		if (!*e->target || !target_stays(path, e->target))
			return -EXDEV;
		r = remove_old(dir, name);
		return r ? r : symlinkat(e->target, dir, name) ? -errno : 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int on_content(void *context, const uint8_t *bytes, size_t count)
{
	struct unpacking *u = context;

	while (count) {
		ssize_t n = write(u->fd, bytes, count);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		count -= (size_t)n;
	}
	return 0;
}

static int on_entry_end(void *context)
{
	struct unpacking *u = context;
	struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = u->reader.entry.mtime}};

	if (u->fd < 0)
		return 0;
	/* dates matter to make; one that cannot be set does not matter enough to fail */
	futimens(u->fd, times);
	close(u->fd);
	u->fd = -1;
	return 0;
}

static const struct tar_sink sink = {on_entry, on_content, on_entry_end};

static void unpacking_fail(struct agent *a, struct stream *s, int r)
{
	const struct tar_reader *t = &s->u.unpacking.reader;
	const char *what = r == -EINVAL ? "not a tar archive, or damaged, after"
			   : r == -EOPNOTSUPP
				   ? "only files, directories and links are unpacked, not"
			   : r == -EXDEV ? "would leave the directory:"
					 : "unpack";

	stream_fail(a, s, r, "%s \"%.250s\"", what, t->entry.path);
}

static void unpacking_data(struct agent *a, struct stream *s, const uint8_t *bytes, size_t count)
{
	struct unpacking *u = &s->u.unpacking;
	int r = fs_as(s->uid, s->gid);

	if (!r) {
		r = tar_feed(&u->reader, bytes, count, &sink, u);
		fs_as_root();
	}
	if (r)
		unpacking_fail(a, s, r);
	else
		stream_consumed(a, s, count);
}

static void unpacking_end(struct agent *a, struct stream *s)
{
	int r = tar_close(&s->u.unpacking.reader);

	if (r)
		stream_fail(a, s, r, "the archive is cut off after \"%.250s\"",
			s->u.unpacking.reader.entry.path);
	else
		stream_done(a, s);
}

static void unpacking_release(struct agent *a, struct stream *s)
{
	struct unpacking *u = &s->u.unpacking;

	if (u->fd >= 0)
		close(u->fd);
	if (u->parent >= 0)
		close(u->parent);
	if (u->root >= 0)
		close(u->root);
}

static const struct stream_class class_unpacking = {.name = "unpack",
	.data = unpacking_data,
	.end = unpacking_end,
	.release = unpacking_release};

void unpacking_begin(struct agent *a, struct stream *s, const struct wire_tar_in *m)
{
	struct unpacking *u = &s->u.unpacking;
	int r;

	s->uid = m->uid;
	s->gid = m->gid;
	u->root = u->fd = u->parent = -1;
	u->total = 0;
	u->limit = m->limit_bytes;
	memset(&u->reader, 0, offsetof(struct tar_reader, entry));
	u->reader.entry.path[0] = u->reader.entry.target[0] = 0;
	stream_start(s, &class_unpacking);
	r = fs_as(m->uid, m->gid);
	if (!r) {
		u->root = m->flags & WIRE_PARENTS
				  ? fs_make_directory(m->path.text)
				  : fs_open(AT_FDCWD, m->path.text, O_PATH | O_DIRECTORY, 0, 0);
		r = u->root < 0 ? u->root : *m->path.text == '/' ? 0 : -EINVAL;
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "unpack into %.300s", m->path.text);
}
