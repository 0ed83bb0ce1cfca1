/* SPDX-License-Identifier: Apache-2.0 - files of a sandbox: requests with one answer, and streams.
 */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MOST (WIRE_HEADER + 8 * WIRE_PATH_MAX)
#define ENTRIES_MOST 100000u
#define NAMES_MOST   (32u << 20) /* bytes of all their paths together: a guest says what they are */

static int check_path(const char *path, struct error *err)
{
	if (!path[0] || strlen(path) >= WIRE_PATH_MAX)
		return error_set(err, -ENAMETOOLONG, "a path in the sandbox has 1 to %u bytes",
			WIRE_PATH_MAX);
	return 0;
}

/* encode, begin and send one request */
#define REQUEST(kind, op, message, err)                                                            \
	({                                                                                         \
		uint8_t frame_[REQUEST_MOST];                                                      \
                                                                                                   \
		op_begin(s, op);                                                                   \
		op_request(op, frame_,                                                             \
			wire_put_##kind(frame_, sizeof(frame_), (op)->stream, 0, message), err);   \
	})

/* The end of an operation that failed or not: nothing of it stays under way; `path` goes before the
 * message. */
static int end(struct operation *op, int r, const char *path, struct error *err)
{
	op_cancel(op);
	if (r && r != -ENODEV)
		error_prefix(err, "%s", path);
	return r;
}

/* wait for DONE; entries and data in between are not expected */
static int finish(struct operation *op, const char *path, struct error *err)
{
	int r = op_next(op, err);

	if (!r && op->frame.type != WIRE_DONE)
		r = error_set(err, -EPROTO, "unexpected answer to a file request");
	return end(op, r, path, err);
}

static int begin_write(struct sandbox *s, struct operation *op, const char *path, uint32_t mode,
	uint32_t as, struct error *err)
{
	int r = check_path(path, err);

	return r ? r
		 : REQUEST(file_write, op,
			   (&(struct wire_file_write){.path = wire_str(path),
				   .mode = mode,
				   .uid = as,
				   .gid = as,
				   .flags = WIRE_PARENTS}),
			   err);
}

int sandbox_write(struct sandbox *s, const char *path, const void *bytes, size_t count,
	uint32_t mode, uint32_t as, struct error *err)
{
	struct operation op;
	int r = begin_write(s, &op, path, mode, as, err);

	return r ? r : op_conclude(&op, op_input(&op, bytes, count, err), path, err);
}

/* all that fd gives; to the hash (or NULL) as well, while the guest is at work with it */
static int send_fd(struct operation *op, int fd, struct hash *h, struct error *err)
{
	cleanup_free uint8_t *chunk = malloc(WIRE_CREDIT_STEP);
	ssize_t n = 1;
	int r = chunk ? 0 : error_set(err, -ENOMEM, "out of memory");

	while (!r && n) {
		n = read(fd, chunk, WIRE_CREDIT_STEP);
		if (n > 0)
			r = op_input(op, chunk, (size_t)n, err);
		else if (n < 0 && errno != EINTR)
			r = error_sys(err, errno, "cannot read what is to be written");
		if (h && n > 0)
			hash_add(h, chunk, (size_t)n);
	}
	return r;
}

int sandbox_write_fd(
	struct sandbox *s, const char *path, int fd, uint32_t mode, uint32_t as, struct error *err)
{
	struct operation op;
	int r = begin_write(s, &op, path, mode, as, err);

	return r ? r : op_conclude(&op, send_fd(&op, fd, NULL, err), path, err);
}

int sandbox_write_checked(struct sandbox *s, const char *path, int fd, uint32_t mode, uint32_t as,
	const char *sha256, char *found, struct error *err)
{
	struct operation op;
	struct hash *h = hash_new();
	int r;

	found[0] = 0;
	r = h ? begin_write(s, &op, path, mode, as, err) : error_set(err, -ENOMEM, "out of memory");
	if (!r) {
		r = send_fd(&op, fd, h, err);
		if (!r)
			hash_end(h, found);
		/* it takes the place of what is there with its end, which does not come then */
		if (!r && strcmp(found, sha256) != 0)
			r = error_set(err, -EBADMSG, "its SHA-256 is another");
		r = op_conclude(&op, r, path, err);
	}
	hash_free(h);
	return r;
}

/* hand DATA of channel 1 to on_bytes until DONE */
static int receive(struct operation *op, const char *path,
	int (*on_bytes)(void *context, const void *bytes, size_t count), void *context,
	struct error *err)
{
	size_t owed = 0;
	int r = op_next(op, err);

	for (; !r && op->frame.type != WIRE_DONE; r = r ? r : op_next(op, err)) {
		if (op->frame.type != WIRE_DATA)
			continue;
		owed += op->frame.length;
		r = on_bytes(context, op->frame.payload, op->frame.length);
		if (r)
			error_set(err, r, "its bytes could not be taken");
		if (!r && owed >= WIRE_CREDIT_STEP) {
			r = op_credit(op, WIRE_STDOUT, owed, err);
			owed = 0;
		}
	}
	return end(op, r, path, err);
}

struct limited {
	struct buffer *out;
	size_t left;
};

static int add_limited(void *context, const void *bytes, size_t count)
{
	struct limited *l = context;
	size_t n = count < l->left ? count : l->left;

	if (buffer_add(l->out, bytes, n))
		return -ENOMEM;
	l->left -= n;
	return n < count ? -EFBIG : 0;
}

int sandbox_read(struct sandbox *s, const char *path, size_t limit, uint32_t as, struct buffer *out,
	struct error *err)
{
	struct limited l = {out, limit};
	struct operation op;
	int r = check_path(path, err);

	if (!r)
		r = REQUEST(file_read, &op,
			(&(struct wire_file_read){.path = wire_str(path), .uid = as, .gid = as}),
			err);
	if (!r)
		r = receive(&op, path, add_limited, &l, err);
	if (r == -EFBIG)
		return error_set(err, r, "%s: is larger than %zu bytes", path, limit);
	return r;
}

int sandbox_read_to(struct sandbox *s, const char *path, uint32_t as,
	int (*on_bytes)(void *context, const void *bytes, size_t count), void *context,
	struct error *err)
{
	struct operation op;
	int r = check_path(path, err);

	if (!r)
		r = REQUEST(file_read, &op,
			(&(struct wire_file_read){.path = wire_str(path), .uid = as, .gid = as}),
			err);
	return r ? r : receive(&op, path, on_bytes, context, err);
}

int sandbox_get_tar(struct sandbox *s, const char *path, const char *const *exclude, uint32_t as,
	int (*on_bytes)(void *context, const void *bytes, size_t count), void *context,
	struct error *err)
{
	struct operation op;
	int r = check_path(path, err);

	if (!r)
		r = REQUEST(tar_out, &op,
			(&(struct wire_tar_out){.path = wire_str(path),
				.uid = as,
				.gid = as,
				.exclude = wire_list(exclude)}),
			err);
	return r ? r : receive(&op, path, on_bytes, context, err);
}

int sandbox_put_tar(struct sandbox *s, const char *path, const void *bytes, size_t count,
	uint32_t uid, uint32_t gid, struct error *err)
{
	struct operation op;
	int r = check_path(path, err);

	if (!r)
		r = REQUEST(tar_in, &op,
			(&(struct wire_tar_in){.path = wire_str(path),
				.uid = uid,
				.gid = gid,
				.flags = WIRE_PARENTS}),
			err);
	return r ? r : op_conclude(&op, op_input(&op, bytes, count, err), path, err);
}

int sandbox_put_tar_from(struct sandbox *s, const char *path,
	int (*next)(void *context, const void **bytes, size_t *count), void *context, uint32_t uid,
	uint32_t gid, struct error *err)
{
	const void *bytes;
	struct operation op;
	size_t count;
	int r = check_path(path, err), n = 1;

	if (!r)
		r = REQUEST(tar_in, &op,
			(&(struct wire_tar_in){.path = wire_str(path),
				.uid = uid,
				.gid = gid,
				.flags = WIRE_PARENTS}),
			err);
	if (r)
		return r;
	while (!r && (n = next(context, &bytes, &count)) > 0)
		r = op_input(&op, bytes, count, err);
	if (!r && n < 0)
		r = error_set(err, n, "the archive could not be read");
	return op_conclude(&op, r, path, err);
}

static int take_entry(const struct wire_frame *f, struct sandbox_entry *e)
{
	struct wire_entry m;

	if (wire_get_entry(f->payload, f->length, &m) || m.type < WIRE_FILE_REGULAR ||
		m.type > WIRE_FILE_OTHER)
		return -EPROTO;
	*e = (struct sandbox_entry){.path = strdup(m.path.text),
		.type = (enum wire_file_type)m.type,
		.mode = m.mode & 07777,
		.uid = m.uid,
		.gid = m.gid,
		.size = m.size,
		.mtime_ns = m.mtime_ns,
		.target = strdup(m.target.text)};
	return e->path && e->target ? 0 : -ENOMEM;
}

static int receive_entries(struct operation *op, const char *path, uint32_t most,
	struct sandbox_entry **out, size_t *count, struct error *err)
{
	size_t room = 0, names = 0;
	int r = op_next(op, err);

	for (; !r && op->frame.type != WIRE_DONE; r = r ? r : op_next(op, err)) {
		names += op->frame.length;
		if (op->frame.type != WIRE_ENTRY || *count >= most) {
			r = error_set(err, -EPROTO, "unexpected answer");
			continue;
		}
		if (names > NAMES_MOST) {
			r = error_set(err, -E2BIG, "has too many long names for one list");
			continue;
		}
		if (*count == room) {
			struct sandbox_entry *more;

			room = room ? 2 * room : 16;
			more = realloc(*out, room * sizeof(**out));
			if (!more) {
				r = error_set(err, -ENOMEM, "out of memory");
				continue;
			}
			*out = more;
		}
		r = take_entry(&op->frame, &(*out)[*count]);
		(*count)++;
		if (r)
			error_sys(err, r, "a malformed entry");
	}
	return end(op, r, path, err);
}

int sandbox_list(struct sandbox *s, const char *path, uint32_t depth, uint32_t most, uint32_t as,
	struct sandbox_entry **out, size_t *count, struct error *err)
{
	struct operation op;
	int r = check_path(path, err);

	*out = NULL;
	*count = 0;
	most = most && most < ENTRIES_MOST ? most : ENTRIES_MOST;
	if (!r)
		r = REQUEST(file_list, &op,
			(&(struct wire_file_list){.path = wire_str(path),
				.uid = as,
				.gid = as,
				.depth = depth,
				.most = most}),
			err);
	if (!r)
		r = receive_entries(&op, path, most, out, count, err);
	if (r) {
		sandbox_entries_free(*out, *count);
		*out = NULL;
		*count = 0;
	}
	return r;
}

void sandbox_entries_free(struct sandbox_entry *entries, size_t count)
{
	for (size_t i = 0; entries && i < count; i++) {
		free(entries[i].path);
		free(entries[i].target);
	}
	free(entries);
}

int sandbox_stat(struct sandbox *s, const char *path, uint32_t as, struct sandbox_entry *out,
	struct error *err)
{
	struct sandbox_entry *list = NULL;
	size_t count = 0;
	struct operation op;
	int r = check_path(path, err);

	if (!r)
		r = REQUEST(file_stat, &op,
			(&(struct wire_file_stat){.path = wire_str(path), .uid = as, .gid = as}),
			err);
	if (!r)
		r = receive_entries(&op, path, 1, &list, &count, err);
	if (!r && count == 1) {
		*out = list[0]; /* its strings are the caller's now */
		free(list);
		return 0;
	}
	sandbox_entries_free(list, count);
	return r ? r : error_set(err, -EPROTO, "%s: no answer", path);
}

#define SIMPLE(kind, path, ...)                                                                    \
	({                                                                                         \
		struct operation op_;                                                              \
		int r_ = check_path(path, err);                                                    \
                                                                                                   \
		if (!r_)                                                                           \
			r_ = REQUEST(kind, &op_, (&(struct wire_##kind){__VA_ARGS__}), err);       \
		r_ ? r_ : finish(&op_, path, err);                                                 \
	})

int sandbox_mkdir(
	struct sandbox *s, const char *path, uint32_t mode, uint32_t as, struct error *err)
{
	return SIMPLE(file_mkdir, path, .path = wire_str(path), .mode = mode, .uid = as, .gid = as,
		.flags = WIRE_PARENTS);
}

int sandbox_remove(
	struct sandbox *s, const char *path, bool recursive, uint32_t as, struct error *err)
{
	return SIMPLE(file_remove, path, .path = wire_str(path), .uid = as, .gid = as,
		.flags = recursive ? WIRE_RECURSIVE : 0);
}

int sandbox_rename(
	struct sandbox *s, const char *from, const char *to, uint32_t as, struct error *err)
{
	int r = check_path(to, err);

	return r ? r
		 : SIMPLE(file_rename, from, .from = wire_str(from), .to = wire_str(to), .uid = as,
			   .gid = as);
}

int sandbox_chmod(
	struct sandbox *s, const char *path, uint32_t mode, uint32_t as, struct error *err)
{
	return SIMPLE(file_chmod, path, .path = wire_str(path), .mode = mode, .uid = as, .gid = as);
}

int sandbox_chown(
	struct sandbox *s, const char *path, uint32_t owner, uint32_t group, struct error *err)
{
	return SIMPLE(file_chown, path, .path = wire_str(path), .owner = owner, .group = group);
}
