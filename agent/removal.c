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
 * A stack of open directories, the deepest at the end. One step reads the deepest one from its
 * start and removes what it holds; the first directory found that is not empty is opened and
 * becomes the deepest. An empty one is closed and removed from its parent. When the stack is full,
 * the directory is moved up to the top instead, where it is met again: so any depth a program has
 * made is removed with a bounded number of descriptors, and no path is ever composed. Nothing is
 * followed: directories are opened beneath their parent's descriptor without links.
 */
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

static int push(struct removal *rm, int dir, const char *name)
{
	struct stat st;
	char up[32];
	int fd;

	if (rm->depth == REMOVAL_DEPTH) {
		snprintf(up, sizeof(up), ".sealmark-up-%x", rm->moved++);
		return renameat(dir, name, rm->dirs[0], up) ? -errno : 0;
	}
	fd = fs_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0, FS_WITHIN);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || (rm->depth && st.st_dev != rm->device)) {
		close(fd);
		return -EXDEV;
	}
	rm->device = st.st_dev;
	rm->dirs[rm->depth] = fd;
	snprintf(rm->names[rm->depth], sizeof(rm->names[0]), "%s", name);
	rm->depth++;
	return 0;
}

/* Empty directory at the top of the stack: close it, remove it. */
static int pop(struct removal *rm)
{
	int parent;

	rm->depth--;
	close(rm->dirs[rm->depth]);
	parent = rm->depth ? rm->dirs[rm->depth - 1] : rm->parent;
	if (unlinkat(parent, rm->names[rm->depth], AT_REMOVEDIR) && errno != ENOENT)
		return -errno;
	return 0;
}

/* Remove what the deepest directory holds. 1 when it is empty now, 0 when a directory was pushed or
 * the steps are used up, negative errno. */
static int clear_deepest(struct removal *rm, int *steps)
{
	int fd = rm->dirs[rm->depth - 1], copy = fcntl(fd, F_DUPFD_CLOEXEC, 4), r = 1;
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *d;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return -EMFILE;
	}
	rewinddir(dir);
	while (r == 1 && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (--*steps <= 0) {
			r = 0;
			break;
		}
		r = remove_name(fd, d->d_name);
		if (is_not_empty(r))
			r = push(rm, fd, d->d_name);
		else if (!r || r == -ENOENT)
			r = 1;
	}
	closedir(dir);
	return r;
}

/* 1 while there is more to do, 0 when all is gone, negative errno. */
static int remove_some(struct removal *rm)
{
	int steps = STEPS_AT_ONCE, r;

	while (rm->depth && steps > 0) {
		r = clear_deepest(rm, &steps);
		if (r == 1)
			r = pop(rm);
		if (r < 0)
			return r;
	}
	return rm->depth > 0;
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
		close(rm->dirs[--rm->depth]);
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
		return push(rm, rm->parent, rm->name);
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
