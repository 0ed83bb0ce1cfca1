/* SPDX-License-Identifier: Apache-2.0 - FILE_REMOVE: a name, or a tree, a piece at a time. */
#include "agent.h"
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * A stack of open directories, the deepest at the end. A step reads one name of the deepest and
 * removes it; a directory that is not empty is opened and becomes the deepest. At its end it is
 * closed and removed from its parent, whose reading goes on where it was: starting over would make
 * large directories a matter of squares. When the stack is full, a directory is moved up to the top
 * instead, which is then read once more: so any depth a program has made is removed with a bounded
 * number of descriptors, and no path is ever composed. Nothing is followed: directories are opened
 * beneath their parent's descriptor without links. A directory that others keep filling is read a
 * few times and then left.
 */
#define ATTEMPTS_MOST 16u
#define STEPS_AT_ONCE 128

static int remove_name(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	return unlinkat(dir, name, AT_REMOVEDIR) ? -errno : 0;
}

static bool is_not_empty(int r)
{
	return r == -ENOTEMPTY || r == -EEXIST;
}

static int level_fd(const struct removal *rm, int level)
{
	return level < 0 ? rm->parent : dirfd(rm->dirs[level]);
}

/* Go into a directory below the deepest. */
static int push(struct removal *rm, const char *name)
{
	int above = level_fd(rm, rm->depth - 1), fd;
	struct stat st;
	char up[32];

	if (rm->depth == REMOVAL_DEPTH) {
		snprintf(up, sizeof(up), ".sealmark-up-%x", rm->moved++);
		rm->again[0] = true;
		return renameat(above, name, level_fd(rm, 0), up) ? -errno : 0;
	}
	fd = fs_open(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0, FS_WITHIN);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || (rm->depth && st.st_dev != rm->device)) {
		close(fd);
		return -EXDEV;
	}
	rm->dirs[rm->depth] = fdopendir(fd);
	if (!rm->dirs[rm->depth]) {
		close(fd);
		return -ENOMEM;
	}
	rm->device = st.st_dev;
	rm->again[rm->depth] = false;
	rm->attempts[rm->depth] = 1;
	snprintf(rm->names[rm->depth], sizeof(rm->names[0]), "%s", name);
	rm->depth++;
	return 0;
}

/* The deepest directory has been read to its end: remove it, or read it again. */
static int pop(struct removal *rm)
{
	int level = rm->depth - 1;
	int r = -ENOTEMPTY;

	if (!rm->again[level]) {
		r = unlinkat(level_fd(rm, level - 1), rm->names[level], AT_REMOVEDIR) ? -errno : 0;
		if (r == -ENOENT)
			r = 0;
	}
	if (is_not_empty(r) && (rm->again[level] || rm->attempts[level]++ < ATTEMPTS_MOST)) {
		rm->again[level] = false;
		rewinddir(rm->dirs[level]);
		return 0;
	}
	if (r)
		return r;
	closedir(rm->dirs[--rm->depth]);
	return 0;
}

/* One name of the deepest directory. 0 or negative errno. */
static int remove_one(struct removal *rm)
{
	DIR *dir = rm->dirs[rm->depth - 1];
	struct dirent *d = readdir(dir);
	int r;

	if (!d)
		return pop(rm);
	if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
		return 0;
	r = remove_name(dirfd(dir), d->d_name);
	if (is_not_empty(r))
		return push(rm, d->d_name);
	return r == -ENOENT ? 0 : r;
}

/* 1 while there is more to do, 0 when all is gone, negative errno. */
static int remove_some(struct removal *rm)
{
	int r = 0;

	for (int i = 0; i < STEPS_AT_ONCE && rm->depth && !r; i++)
		r = remove_one(rm);
	return r ? r : rm->depth > 0;
}

static enum progress removal_work(struct agent *a, struct stream *s)
{
	struct removal *rm = &s->u.removal;
	int r = fs_as(s->uid, s->gid);

	if (!r) {
		r = remove_some(rm);
		fs_as_root();
	}
	if (r > 0)
		return PROGRESS_MORE;
	if (r < 0)
		stream_fail(
			a, s, r, "remove %.300s", rm->depth ? rm->names[rm->depth - 1] : rm->name);
	else
		stream_done(a, s);
	return PROGRESS_IDLE;
}

static void removal_release(struct agent *a, struct stream *s)
{
	struct removal *rm = &s->u.removal;

	while (rm->depth)
		closedir(rm->dirs[--rm->depth]);
	if (rm->parent >= 0)
		close(rm->parent);
}

static const struct stream_class class_removal = {
	.name = "remove", .work = removal_work, .release = removal_release};

static int begin(struct removal *rm, const struct wire_file_remove *m)
{
	bool recursive = (m->flags & WIRE_RECURSIVE) != 0;
	int r;

	rm->parent = fs_open_parent(m->path.text, 0, rm->name);
	if (rm->parent < 0)
		return rm->parent == -ENOENT && recursive ? 0 : rm->parent;
	r = remove_name(rm->parent, rm->name);
	if (r == -ENOENT && recursive)
		return 0;
	if (is_not_empty(r) && recursive)
		return push(rm, rm->name);
	return r;
}

void removal_begin(struct agent *a, struct stream *s, const struct wire_file_remove *m)
{
	struct removal *rm = &s->u.removal;
	int r;

	s->uid = m->uid;
	s->gid = m->gid;
	rm->parent = -1;
	rm->depth = 0;
	rm->moved = 0;
	stream_start(s, &class_removal);
	r = fs_as(m->uid, m->gid);
	if (!r) {
		r = begin(rm, m);
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "remove %.300s", m->path.text);
}
