/* SPDX-License-Identifier: Apache-2.0 - walking a tree a step at a time, without following links.
 */
#include "walk.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int walk_begin(struct walk *w, int dir_fd)
{
	struct stat st;

	w->depth = 0;
	if (fstat(dir_fd, &st) || !(w->dirs[0] = fdopendir(dir_fd))) {
		int error = errno;

		close(dir_fd);
		return -error;
	}
	w->device = st.st_dev;
	w->lengths[0] = 0;
	w->path[0] = 0;
	w->name = w->path;
	w->depth = 1;
	return 0;
}

int walk_fd(const struct walk *w)
{
	return dirfd(w->dirs[w->depth - 1]);
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Put the name behind the path of its directory. */
static int set_entry(struct walk *w, const char *name)
{
	size_t at = w->lengths[w->depth - 1], length = strlen(name);

	if (at + 1 + length >= sizeof(w->path))
		return -ENAMETOOLONG;
	if (at)
		w->path[at++] = '/';
	memcpy(w->path + at, name, length + 1);
	w->name = w->path + at;
	return 0;
}

int walk_next(struct walk *w)
{
	struct dirent *d;
	int r;

	while (w->depth) {
		errno = 0;
		d = readdir(w->dirs[w->depth - 1]);
		if (!d && errno)
			return -errno;
		if (!d) {
			closedir(w->dirs[--w->depth]);
			continue;
		}
		if (is_dots(d->d_name))
			continue;
		r = set_entry(w, d->d_name);
		if (r)
			return r;
		if (fstatat(walk_fd(w), w->name, &w->stat, AT_SYMLINK_NOFOLLOW) == 0)
			return 1;
		/* gone since the directory was read: not there */
		if (errno != ENOENT)
			return -errno;
	}
	return 0;
}

int walk_enter(struct walk *w)
{
	int fd;

	if (w->depth == WALK_DEPTH)
		return -ELOOP;
	if (w->stat.st_dev != w->device)
		return -EXDEV;
	fd = fs_open(walk_fd(w), w->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0,
		FS_WITHIN);
	if (fd < 0)
		return fd;
	w->dirs[w->depth] = fdopendir(fd);
	if (!w->dirs[w->depth]) {
		int error = errno;

		close(fd);
		return -error;
	}
	w->lengths[w->depth] = (uint32_t)strlen(w->path);
	w->depth++;
	return 0;
}

void walk_end(struct walk *w)
{
	while (w->depth)
		closedir(w->dirs[--w->depth]);
}
