/* SPDX-License-Identifier: Apache-2.0 - requests about files that are answered at once. */
#include "agent.h"
#include "entry.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t entry_type(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return WIRE_FILE_REGULAR;
	case S_IFDIR:
		return WIRE_FILE_DIRECTORY;
	case S_IFLNK:
		return WIRE_FILE_SYMLINK;
	default:
		return WIRE_FILE_OTHER;
	}
}

void entry_send(struct agent *a, struct stream *s, const char *path, const struct stat *st,
	const char *target)
{
	struct wire_entry m = {.path = wire_str(path),
		.type = entry_type(st->st_mode),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
		.target = wire_str(target)};

	stream_commit(a, wire_put_entry(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &m));
}

int entry_target(int dir, const char *name, const struct stat *st, char *out, size_t size)
{
	ssize_t n;

	out[0] = 0;
	if (!S_ISLNK(st->st_mode))
		return 0;
	n = readlinkat(dir, name, out, size - 1);
	if (n < 0)
		return -errno;
	out[n] = 0;
	return 0;
}

static void answer(struct agent *a, struct stream *s, int r, const char *what, const char *path)
{
	if (r)
		stream_fail(a, s, r, "%s %.300s", what, path);
	else
		stream_done(a, s);
}

static int stat_as(const struct wire_file_stat *m, struct stat *st, char *target, size_t size)
{
	int fd, r = fs_as(m->uid, m->gid);

	if (r)
		return r;
	fd = *m->path.text == '/' ? fs_open(AT_FDCWD, m->path.text, O_PATH | O_NOFOLLOW, 0, 0)
				  : -EINVAL;
	if (fd >= 0) {
		r = fstat(fd, st) ? -errno : entry_target(fd, "", st, target, size);
		close(fd);
	}
	fs_as_root();
	return fd < 0 ? fd : r;
}

void file_stat(struct agent *a, struct stream *s, const struct wire_file_stat *m)
{
	char target[WIRE_PATH_MAX];
	struct stat st;
	int r = stat_as(m, &st, target, sizeof(target));

	if (!r)
		entry_send(a, s, m->path.text, &st, target);
	answer(a, s, r, "stat", m->path.text);
}

static int make_directory(const struct wire_file_mkdir *m)
{
	char name[256];
	int dir, fd, r;

	dir = fs_open_parent(m->path.text, (m->flags & WIRE_PARENTS) != 0, name);
	if (dir < 0)
		return dir;
	if (mkdirat(dir, name, m->mode & 01777)) {
		r = -errno;
		if (r == -EEXIST && (m->flags & WIRE_PARENTS)) {
			fd = fs_open(dir, name, O_PATH | O_DIRECTORY, 0, 0);
			r = fd < 0 ? fd : 0;
			if (fd >= 0)
				close(fd);
		}
		close(dir);
		return r;
	}
	/* the umask has taken bits away; the directory is new and ours */
	fd = fs_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, 0);
	r = fd >= 0 ? fs_chmod(fd, m->mode & 01777) : 0;
	if (fd >= 0)
		close(fd);
	close(dir);
	return r;
}

void file_mkdir(struct agent *a, struct stream *s, const struct wire_file_mkdir *m)
{
	int r = fs_as(m->uid, m->gid);

	if (!r) {
		r = make_directory(m);
		fs_as_root();
	}
	answer(a, s, r, "mkdir", m->path.text);
}

static int rename_path(const char *from, const char *to)
{
	char old_name[256], new_name[256];
	int old_dir, new_dir, r = 0;

	old_dir = fs_open_parent(from, 0, old_name);
	if (old_dir < 0)
		return old_dir;
	new_dir = fs_open_parent(to, 0, new_name);
	if (new_dir < 0) {
		close(old_dir);
		return new_dir;
	}
	if (renameat(old_dir, old_name, new_dir, new_name))
		r = -errno;
	close(old_dir);
	close(new_dir);
	return r;
}

void file_rename(struct agent *a, struct stream *s, const struct wire_file_rename *m)
{
	int r = fs_as(m->uid, m->gid);

	if (!r) {
		r = rename_path(m->from.text, m->to.text);
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "rename %.190s to %.190s", m->from.text, m->to.text);
	else
		stream_done(a, s);
}

void file_chmod(struct agent *a, struct stream *s, const struct wire_file_chmod *m)
{
	int fd, r = fs_as(m->uid, m->gid);

	if (!r) {
		r = fd = *m->path.text == '/' ? fs_open(AT_FDCWD, m->path.text, O_PATH, 0, 0)
					      : -EINVAL;
		if (fd >= 0) {
			r = fs_chmod(fd, m->mode & 07777);
			close(fd);
		}
		fs_as_root();
	}
	answer(a, s, r, "chmod", m->path.text);
}

void file_chown(struct agent *a, struct stream *s, const struct wire_file_chown *m)
{
	int fd, r;

	r = fd = *m->path.text == '/' ? fs_open(AT_FDCWD, m->path.text, O_PATH | O_NOFOLLOW, 0, 0)
				      : -EINVAL;
	if (fd >= 0) {
		r = fchownat(fd, "", m->owner, m->group, AT_EMPTY_PATH) ? -errno : 0;
		close(fd);
	}
	answer(a, s, r, "chown", m->path.text);
}
