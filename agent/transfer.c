/* SPDX-License-Identifier: Apache-2.0 - FILE_WRITE and FILE_READ: one file as a stream. */
#include "agent.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- FILE_WRITE --- */

/* Only regular files and links are replaced: not a directory, not a device. */
static int check_target(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? 0 : -EEXIST;
}

static int open_incoming(struct incoming *in, const struct wire_file_write *m, uint32_t id)
{
	int r;

	in->dir = fs_open_parent(m->path.text, (m->flags & WIRE_PARENTS) != 0, in->name);
	if (in->dir < 0)
		return in->dir;
	r = check_target(in->dir, in->name);
	if (r)
		return r;
	snprintf(in->temporary, sizeof(in->temporary), ".sealmark-%08x-%llx", id,
		(unsigned long long)agent_now_us());
	in->fd = fs_open(in->dir, in->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, 0);
	return in->fd < 0 ? in->fd : 0;
}

static void incoming_data(struct agent *a, struct stream *s, const uint8_t *bytes, size_t count)
{
	struct incoming *in = &s->u.incoming;
	size_t done = 0;

	if (in->limit && count > in->limit - in->written) {
		stream_fail(a, s, EFBIG, "write %s", in->name);
		return;
	}
	in->written += count;
	while (done < count) {
		ssize_t n = write(in->fd, bytes + done, count - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			stream_fail(a, s, errno, "write %s", in->name);
			return;
		}
		done += (size_t)n;
	}
	stream_consumed(a, s, count);
}

static void incoming_end(struct agent *a, struct stream *s)
{
	struct incoming *in = &s->u.incoming;
	int r = fs_as(s->uid, s->gid);

	if (!r) {
		if (fchmod(in->fd, in->mode & 07777) ||
			renameat(in->dir, in->temporary, in->dir, in->name))
			r = -errno;
		else
			in->temporary[0] = 0;
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "write %s", in->name);
	else
		stream_done(a, s);
}

static void incoming_release(struct agent *a, struct stream *s)
{
	struct incoming *in = &s->u.incoming;

	if (in->fd >= 0)
		close(in->fd);
	if (in->fd >= 0 && in->temporary[0] && fs_as(s->uid, s->gid) == 0) {
		unlinkat(in->dir, in->temporary, 0);
		fs_as_root();
	}
	if (in->dir >= 0)
		close(in->dir);
}

static const struct stream_class class_incoming = {
	.name = "write", .data = incoming_data, .end = incoming_end, .release = incoming_release};

void incoming_begin(struct agent *a, struct stream *s, const struct wire_file_write *m)
{
	struct incoming *in = &s->u.incoming;
	int r;

	s->uid = m->uid;
	s->gid = m->gid;
	in->dir = in->fd = -1;
	in->mode = m->mode;
	in->written = 0;
	in->limit = m->limit_bytes;
	in->temporary[0] = 0;
	stream_start(s, &class_incoming);
	r = fs_as(m->uid, m->gid);
	if (!r) {
		r = open_incoming(in, m, s->id);
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "write %.300s", m->path.text);
}

/* --- FILE_READ --- */

static enum progress outgoing_work(struct agent *a, struct stream *s)
{
	struct outgoing *out = &s->u.outgoing;
	size_t most = out->left < LINK_PIECE ? (size_t)out->left : LINK_PIECE, count;
	uint8_t *to;
	ssize_t n = 0;

	if (most) {
		to = stream_data_begin(a, s, WIRE_STDOUT, most, &count);
		if (!to)
			return count ? PROGRESS_ROOM : PROGRESS_IDLE;
		do {
			n = read(out->fd, to, count);
		} while (n < 0 && errno == EINTR);
	}
	if (n < 0) {
		stream_fail(a, s, errno, "read");
		return PROGRESS_IDLE;
	}
	if (n > 0) {
		stream_data_end(a, s, WIRE_STDOUT, (size_t)n);
		out->left -= (size_t)n;
		return PROGRESS_MORE;
	}
	stream_channel_end(a, s, WIRE_STDOUT);
	stream_done(a, s);
	return PROGRESS_IDLE;
}

static void outgoing_release(struct agent *a, struct stream *s)
{
	if (s->u.outgoing.fd >= 0)
		close(s->u.outgoing.fd);
}

static const struct stream_class class_outgoing = {
	.name = "read", .work = outgoing_work, .release = outgoing_release};

void outgoing_begin(struct agent *a, struct stream *s, const struct wire_file_read *m)
{
	struct outgoing *out = &s->u.outgoing;
	int r;

	out->fd = -1;
	out->left = m->length ? m->length : UINT64_MAX;
	stream_start(s, &class_outgoing);
	r = fs_as(m->uid, m->gid);
	if (!r) {
		out->fd = fs_open_read(m->path.text, S_IFREG);
		r = out->fd < 0 ? out->fd : 0;
		fs_as_root();
	}
	if (!r && m->offset &&
		(m->offset > INT64_MAX || lseek(out->fd, (off_t)m->offset, SEEK_SET) < 0))
		r = -EINVAL;
	if (r)
		stream_fail(a, s, r, "read %.300s", m->path.text);
}
