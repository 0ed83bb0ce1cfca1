/* SPDX-License-Identifier: Apache-2.0 - a tar of a sandbox, unpacked beneath a folder of ours and
 * nowhere else (libarchive reads, we write). */
#include "cli/remote_unpack.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Theory of operation
 *
 * The archive was written by whoever had the sandbox, so it is taken for hostile. It is read twice.
 * The first reading only looks: one name that leaves the folder, too many entries or bytes, or
 * damage, and nothing at all is unpacked. The second writes, each file under a passing name that is
 * then renamed, so that no file is ever there half. Folders are entered one by one from the target
 * on, and a symbolic link among them is never followed, whether the archive or somebody else made
 * it. Links are made only when they lead to something beneath the target: relative, with ".." only
 * at the begin and not more often than the link lies deep. Set-user-id bits, owners, devices and
 * hard links are not taken over.
 */
#define ENTRIES_MOST 1000000u
#define DEPTH_MOST   128u
#define BLOCK        65536

struct unpack {
	struct archive *archive;
	int target_fd;
	bool write; /* the second reading */
	uint64_t left;
	size_t entries, *skipped;
	struct error *err;
};

/* whatever the locale */
static const char *name_of(struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e);

	return name ? name : archive_entry_pathname_utf8(e);
}

static const char *target_of(struct archive_entry *e)
{
	const char *target = archive_entry_symlink(e);

	return target ? target : archive_entry_symlink_utf8(e);
}

static struct archive *open_archive(int fd)
{
	struct archive *a = archive_read_new();

	if (lseek(fd, 0, SEEK_SET) == 0 && a && archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
		archive_read_support_format_tar(a) == ARCHIVE_OK &&
		archive_read_open_fd(a, fd, BLOCK) == ARCHIVE_OK)
		return a;
	archive_read_free(a);
	return NULL;
}

/* The next component of a path, or NULL at its end; "." and repeated slashes are passed over. */
static const char *component(const char **path, size_t *length)
{
	for (;;) {
		const char *from;

		*path += strspn(*path, "/");
		from = *path;
		*length = strcspn(from, "/");
		*path += *length;
		if (!*length)
			return NULL;
		if (*length != 1 || *from != '.')
			return from;
	}
}

/* How deep a name lies, or -1: it leaves the folder or is none. */
static int depth_of(const char *name)
{
	const char *p = name, *c;
	size_t length;
	int depth = 0;

	if (!name || *name == '/')
		return -1;
	while ((c = component(&p, &length))) {
		if ((length == 2 && memcmp(c, "..", 2) == 0) || length > NAME_MAX ||
			++depth > (int)DEPTH_MOST)
			return -1;
	}
	return depth;
}

/* Does a link in a folder so deep lead to something beneath the target? */
static bool link_stays(const char *target, int folder_depth)
{
	const char *p = target, *c;
	size_t length;
	bool leading = true;

	if (!target || !*target || *target == '/')
		return false;
	while ((c = component(&p, &length))) {
		if (length != 2 || memcmp(c, "..", 2) != 0)
			leading = false;
		else if (!leading || folder_depth-- == 0)
			return false;
	}
	return true;
}

/* --- writing --- */

static int enter(int dir_fd, const char *name, bool make)
{
	int fd;

	if (make && mkdirat(dir_fd, name, 0755) && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The folder of `path`, made where it is missing, and the last name. */
static int enter_parent(struct unpack *u, const char *path, char *last)
{
	cleanup_close int fd = fcntl(u->target_fd, F_DUPFD_CLOEXEC, 3);
	const char *p = path, *c;
	size_t length;

	last[0] = 0;
	if (fd < 0)
		return -errno;
	while ((c = component(&p, &length))) {
		if (last[0]) {
			int next = enter(fd, last, true);

			if (next < 0)
				return next;
			close(fd);
			fd = next;
		}
		text_format(last, NAME_MAX + 1, "%.*s", (int)length, c);
	}
	return steal_fd(&fd);
}

static void passing_name(char *out, size_t size)
{
	char uuid[ID_SIZE];

	id_uuid(uuid);
	text_format(out, size, ".sealmark-%s", uuid);
}

static int copy_data(struct unpack *u, int fd)
{
	const void *bytes;
	size_t count;
	la_int64_t offset;
	int r;

	while ((r = archive_read_data_block(u->archive, &bytes, &count, &offset)) == ARCHIVE_OK) {
		while (count) {
			ssize_t n = pwrite(fd, bytes, count, offset);

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return -errno;
			bytes = (const char *)bytes + n;
			count -= (size_t)n;
			offset += n;
		}
	}
	return r == ARCHIVE_EOF ? 0 : -EBADMSG;
}

static int put_file(struct unpack *u, int dir_fd, const char *name, struct archive_entry *e)
{
	char passing[64];
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = archive_entry_mtime(e)}};
	cleanup_close int fd = -1;
	int r;

	passing_name(passing, sizeof(passing));
	fd = openat(dir_fd, passing, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = copy_data(u, fd);
	/* holes at the end are part of a file */
	if (!r && ftruncate(fd, archive_entry_size(e)))
		r = -errno;
	if (!r && fchmod(fd, archive_entry_perm(e) & 0777))
		r = -errno;
	if (!r)
		futimens(fd, times);
	if (!r && renameat(dir_fd, passing, dir_fd, name))
		r = -errno;
	if (r)
		unlinkat(dir_fd, passing, 0);
	return r;
}

static int put_link(int dir_fd, const char *name, const char *target)
{
	char passing[64];
	int r = 0;

	passing_name(passing, sizeof(passing));
	if (symlinkat(target, dir_fd, passing))
		return -errno;
	if (renameat(dir_fd, passing, dir_fd, name))
		r = -errno;
	if (r)
		unlinkat(dir_fd, passing, 0);
	return r;
}

static int put_folder(int dir_fd, const char *name, mode_t mode)
{
	cleanup_close int fd = -1;
	bool is_new = mkdirat(dir_fd, name, 0755) == 0;

	fd = enter(dir_fd, name, false);
	if (fd < 0)
		return fd;
	/* ours to enter and write, as more comes into it */
	return is_new && fchmod(fd, (mode & 0777) | 0700) ? -errno : 0;
}

static int put_entry(struct unpack *u, struct archive_entry *e)
{
	const char *path = name_of(e);
	char name[NAME_MAX + 1];
	cleanup_close int dir_fd = enter_parent(u, path, name);
	mode_t type = archive_entry_filetype(e);
	int r = dir_fd < 0 ? dir_fd : 0;

	if (!r && !name[0])
		return 0; /* the folder itself */
	if (!r && type == AE_IFDIR)
		r = put_folder(dir_fd, name, archive_entry_perm(e));
	else if (!r && type == AE_IFLNK)
		r = put_link(dir_fd, name, target_of(e));
	else if (!r)
		r = put_file(u, dir_fd, name, e);
	if (r == -ELOOP || r == -ENOTDIR)
		return error_set(u->err, r,
			"%.200s: a folder on its way is something else here, perhaps a link, and "
			"links are not followed",
			path);
	return r ? error_sys(u->err, r, "%.200s", path) : 0;
}

/* --- looking --- */

static int look(struct unpack *u, struct archive_entry *e)
{
	const char *path = name_of(e);
	int depth = depth_of(path);
	uint64_t size = archive_entry_size(e) > 0 ? (uint64_t)archive_entry_size(e) : 0;

	if (depth < 0)
		return error_set(u->err, -EXDEV,
			"the archive has \"%.200s\", which would be outside the target: nothing "
			"was "
			"unpacked",
			path ? path : "a name that is no text");
	if (depth == 0 && archive_entry_filetype(e) != AE_IFDIR)
		return error_set(u->err, -EXDEV,
			"the archive would replace the target itself: nothing was unpacked");
	if (++u->entries > ENTRIES_MOST || size > u->left)
		return error_set(u->err, -EFBIG,
			"the archive holds more than the sandbox can: nothing was unpacked");
	u->left -= size;
	return 0;
}

static bool is_taken(struct archive_entry *e)
{
	mode_t type = archive_entry_filetype(e);
	int depth = depth_of(name_of(e));

	if (archive_entry_hardlink(e))
		return false;
	if (type == AE_IFLNK)
		return depth > 0 && link_stays(target_of(e), depth - 1);
	return type == AE_IFDIR || type == AE_IFREG;
}

static int each(struct unpack *u)
{
	struct archive_entry *e;
	int r = 0, got = ARCHIVE_OK;

	while (!r && ((got = archive_read_next_header(u->archive, &e)) == ARCHIVE_OK ||
			     got == ARCHIVE_WARN)) {
		if (!u->write)
			r = look(u, e);
		else if (is_taken(e))
			r = put_entry(u, e);
		else
			++*u->skipped;
	}
	if (!r && got != ARCHIVE_EOF)
		r = error_set(u->err, -EBADMSG, "the archive is damaged: %.200s",
			archive_error_string(u->archive) ? archive_error_string(u->archive) : "?");
	return r;
}

int unpack_tar(int fd, const char *target, uint64_t most_bytes, size_t *skipped, struct error *err)
{
	struct unpack u = {.target_fd = -1, .left = most_bytes, .skipped = skipped, .err = err};
	cleanup_close int target_fd = -1;
	int r = 0;

	*skipped = 0;
	for (int pass = 0; pass < 2 && !r; pass++) {
		u.write = pass == 1;
		u.archive = open_archive(fd);
		if (!u.archive)
			return error_set(err, -EBADMSG, "what came is neither tar nor gzip");
		if (u.write) {
			if (mkdir(target, 0777) && errno != EEXIST)
				r = error_sys(err, errno, "%.300s", target);
			target_fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (!r && target_fd < 0)
				r = error_sys(err, errno, "%.300s", target);
			u.target_fd = target_fd;
		}
		if (!r)
			r = each(&u);
		archive_read_free(u.archive);
	}
	return r;
}
