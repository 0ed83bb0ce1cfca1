/* SPDX-License-Identifier: Apache-2.0 - TAR_OUT: a directory or a file as a tar stream. */
#include "agent.h"
#include "entry.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * What is to be sent next is one of: header blocks in `head`, contents of the open file, zeros of
 * its padding. A step sends one piece of the first that is not empty, or finds the next entry.
 * Files change while they are read: the header has promised a size, so a file that grew is cut and
 * one that shrank is filled with zeros. Sockets, pipes and devices are left out.
 */

static void set_head(struct packing *p, const char *path, const char *target, const struct stat *st)
{
	p->head_at = 0;
	p->head_count = tar_head(p->head, path, target, st);
	p->left = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
	p->padding = (uint32_t)(-p->left & (TAR_BLOCK - 1));
}

static bool is_excluded(const struct packing *p)
{
	for (uint32_t at = 0; at < p->exclude_size; at += (uint32_t)strlen(p->exclude + at) + 1) {
		if (strcmp(p->exclude + at, p->walk.path) == 0)
			return true;
	}
	return false;
}

/* The paths in normal form: "./a//b/" is "a/b". */
static int take_exclude(struct packing *p, const struct wire_strs *list)
{
	char path[WIRE_PATH_MAX];
	const char *text;
	uint32_t at = 0;
	size_t n;
	int r;

	p->exclude_size = 0;
	while ((text = wire_strs_next(list, &at))) {
		r = fs_normal_path(text, path, sizeof(path));
		if (r)
			return r;
		n = strlen(path) + 1;
		if (n > sizeof(p->exclude) - p->exclude_size)
			return -E2BIG;
		memcpy(p->exclude + p->exclude_size, path, n);
		p->exclude_size += (uint32_t)n;
	}
	return 0;
}

/* The next entry into head. 1, 0 at the end, negative errno. */
static int next_entry(struct packing *p)
{
	char target[WIRE_PATH_MAX];
	int r;

	do {
		r = walk_next(&p->walk);
		if (r <= 0)
			return r;
	} while ((!S_ISREG(p->walk.stat.st_mode) && !S_ISDIR(p->walk.stat.st_mode) &&
			 !S_ISLNK(p->walk.stat.st_mode)) ||
		 is_excluded(p));
	r = entry_target(walk_fd(&p->walk), p->walk.name, &p->walk.stat, target, sizeof(target));
	if (r)
		return r;
	if (S_ISREG(p->walk.stat.st_mode)) {
		p->fd = fs_open(walk_fd(&p->walk), p->walk.name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, FS_WITHIN);
		if (p->fd < 0)
			return p->fd;
		if (fstat(p->fd, &p->walk.stat) || !S_ISREG(p->walk.stat.st_mode))
			return -EAGAIN;
	}
	set_head(p, p->walk.path, target, &p->walk.stat);
	if (S_ISDIR(p->walk.stat.st_mode)) {
		r = walk_enter(&p->walk);
		/* a mount is sent as the empty directory that it covers */
		if (r && r != -EXDEV)
			return r;
	}
	return 1;
}

static size_t fill_contents(struct packing *p, uint8_t *to, size_t count)
{
	ssize_t n;

	do {
		n = read(p->fd, to, count);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		return (size_t)n;
	memset(to, 0, count);
	return count;
}

/* Bytes of the archive, if any are ready. */
static size_t fill(struct packing *p, uint8_t *to, size_t count)
{
	size_t n = p->head_count - p->head_at;

	if (n) {
		n = n < count ? n : count;
		memcpy(to, p->head + p->head_at, n);
		p->head_at += (uint32_t)n;
		return n;
	}
	if (p->left) {
		n = fill_contents(p, to, p->left < count ? (size_t)p->left : count);
		p->left -= n;
		return n;
	}
	n = p->padding < count ? p->padding : count;
	memset(to, 0, n);
	p->padding -= (uint32_t)n;
	return n;
}

static bool is_drained(const struct packing *p)
{
	return p->head_at == p->head_count && !p->left && !p->padding;
}

/* Make something ready to be sent: 1, 0 when all has been, negative errno. */
static int advance(struct packing *p)
{
	int r = 0;

	if (!is_drained(p))
		return 1;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (p->walking)
		r = next_entry(p);
	if (r)
		return r;
	if (p->finished)
		return 0;
	/* two blocks of zeros end an archive */
	p->walking = false;
	p->finished = true;
	p->padding = 2 * TAR_BLOCK;
	return 1;
}

static enum progress packing_work(struct agent *a, struct stream *s)
{
	struct packing *p = &s->u.packing;
	size_t room, n = 0;
	uint8_t *to;
	int r;

	to = stream_data_begin(a, s, WIRE_STDOUT, LINK_PIECE, &room);
	if (!to)
		return room ? PROGRESS_ROOM : PROGRESS_IDLE;
	r = fs_as(s->uid, s->gid);
	while (!r && n < room) {
		r = advance(p);
		if (r <= 0)
			break;
		r = 0;
		n += fill(p, to + n, room - n);
	}
	fs_as_root();
	if (n)
		stream_data_end(a, s, WIRE_STDOUT, n);
	if (r < 0) {
		stream_fail(a, s, r, "pack %.300s", p->walk.path);
		return PROGRESS_IDLE;
	}
	if (n == room)
		return PROGRESS_MORE;
	stream_channel_end(a, s, WIRE_STDOUT);
	stream_done(a, s);
	return PROGRESS_IDLE;
}

static void packing_release(struct agent *a, struct stream *s)
{
	walk_end(&s->u.packing.walk);
	if (s->u.packing.fd >= 0)
		close(s->u.packing.fd);
}

static const struct stream_class class_packing = {
	.name = "pack", .work = packing_work, .release = packing_release};

static int begin(struct packing *p, const char *path)
{
	const char *last;
	struct stat st;
	int fd;

	fd = fs_open_read(path, S_IFDIR);
	if (fd >= 0) {
		p->walking = true;
		return walk_begin(&p->walk, fd);
	}
	if (fd != -ENOTDIR)
		return fd;
	p->fd = fs_open_read(path, S_IFREG);
	if (p->fd < 0)
		return p->fd;
	if (fstat(p->fd, &st))
		return -errno;
	last = strrchr(path, '/');
	set_head(p, last + 1, "", &st);
	return 0;
}

void packing_begin(struct agent *a, struct stream *s, const struct wire_tar_out *m)
{
	struct packing *p = &s->u.packing;
	int r;

	s->uid = m->uid;
	s->gid = m->gid;
	p->walk.depth = 0;
	p->walk.path[0] = 0;
	p->fd = -1;
	p->walking = p->finished = false;
	p->left = 0;
	p->padding = p->head_at = p->head_count = 0;
	stream_start(s, &class_packing);
	r = take_exclude(p, &m->exclude);
	r = r ? r : fs_as(m->uid, m->gid);
	if (!r) {
		r = begin(p, m->path.text);
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "pack %.300s", m->path.text);
}
