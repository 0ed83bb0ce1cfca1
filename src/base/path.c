/* SPDX-License-Identifier: Apache-2.0 - files, see path.h. */
#include "base/path.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

int path_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | O_TMPFILE) ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	do {
		fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	return fd < 0 ? -errno : (int)fd;
}

int path_join(char *out, size_t size, const char *a, const char *b, struct error *err)
{
	const char *slash = *a && a[strlen(a) - 1] == '/' ? "" : "/";

	if (text_format(out, size, "%s%s%s", a, slash, b))
		return error_set(err, -ENAMETOOLONG, "%s/%s: path is too long", a, b);
	return 0;
}

int path_make(const char *path, mode_t mode, struct error *err)
{
	char part[PATH_MAX];
	struct stat st;

	if (text_copy(part, sizeof(part), path))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", path);
	for (char *p = part + 1;; p++) {
		char old = *p;

		if (old != '/' && old != 0)
			continue;
		*p = 0;
		if (mkdir(part, mode) && errno != EEXIST) {
			int why = errno; /* and not stat's: what is not there is no reason */

			if (stat(part, &st) || !S_ISDIR(st.st_mode))
				return error_sys(err, why, "%s: cannot make the directory", part);
		}
		*p = old;
		if (!old)
			break;
	}
	if (stat(path, &st))
		return error_sys(err, errno, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, -ENOTDIR, "%s: is not a directory", path);
	return 0;
}

int path_read_fd(int fd, size_t limit, struct buffer *out)
{
	size_t total = 0;

	for (;;) {
		size_t want = limit - total < 65536 ? limit - total + 1 : 65536;
		uint8_t *room = buffer_reserve(out, want);
		ssize_t n;

		if (!room)
			return -ENOMEM;
		n = read(fd, room, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		total += (size_t)n;
		if (total > limit)
			return -EFBIG;
		buffer_commit(out, (size_t)n);
	}
}

int path_read(const char *path, size_t limit, struct buffer *out, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "%s: is not a regular file", path);
	r = path_read_fd(fd, limit, out);
	if (r == -EFBIG)
		return error_set(err, r, "%s: is larger than %zu bytes", path, limit);
	if (r)
		return error_sys(err, r, "%s", path);
	return 0;
}

int path_write_fd(int fd, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	while (count) {
		ssize_t n = write(fd, p, count);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		count -= (size_t)n;
	}
	return 0;
}

int path_write_whole(
	const char *path, const void *bytes, size_t count, mode_t mode, struct error *err)
{
	char temporary[PATH_MAX], directory[PATH_MAX], random[17];
	uint8_t b[8];
	char *slash;
	int r;

	id_random(b, sizeof(b));
	id_hex(random, b, sizeof(b));
	if (text_format(temporary, sizeof(temporary), "%s.%s.tmp", path, random) ||
		text_copy(directory, sizeof(directory), path))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", path);
	slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = 0;
	else
		text_copy(directory, sizeof(directory), ".");

	cleanup_close int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_sys(err, errno, "%s", directory);
	cleanup_close int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return error_sys(err, errno, "%s", temporary);
	r = path_write_fd(fd, bytes, count);
	if (!r && fsync(fd))
		r = -errno;
	if (!r && rename(temporary, path))
		r = -errno;
	if (r) {
		unlink(temporary);
		return error_sys(err, r, "%s: cannot write", path);
	}
	if (fsync(dir))
		return error_sys(err, errno, "%s", directory);
	return 0;
}

static int remove_at(int dir_fd, const char *name, dev_t device, int depth)
{
	struct dirent *e;
	struct stat st;
	int fd, r = 0;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth > 200)
		return -ELOOP;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st)) {
		r = -errno;
		close(fd);
		return r;
	}
	if (device && st.st_dev != device) {
		close(fd);
		return -EXDEV;
	}
	cleanup_dir DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (!r && (e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = remove_at(dirfd(dir), e->d_name, st.st_dev, depth + 1);
	}
	if (!r && unlinkat(dir_fd, name, AT_REMOVEDIR) && errno != ENOENT)
		r = -errno;
	return r;
}

int path_remove_tree(int dir_fd, const char *name, struct error *err)
{
	int r = remove_at(dir_fd, name, 0, 0);

	return r ? error_sys(err, r, "%s: cannot remove", name) : 0;
}

int path_home(char *out, size_t size, struct error *err)
{
	const char *home = getenv("SEALMARK_HOME"), *base;
	int r;

	if (home && home[0] == '/')
		r = text_copy(out, size, home);
	else if (home && home[0])
		return error_set(err, -EINVAL, "SEALMARK_HOME=%s: must be an absolute path", home);
	else if (geteuid() == 0)
		r = text_copy(out, size, "/var/lib/sealmark");
	else if ((base = getenv("XDG_DATA_HOME")) && base[0] == '/')
		r = text_format(out, size, "%s/sealmark", base);
	else if ((base = getenv("HOME")) && base[0] == '/')
		r = text_format(out, size, "%s/.local/share/sealmark", base);
	else
		return error_set(err, -EINVAL,
			"no home directory is known: set SEALMARK_HOME to an absolute path");
	return r ? error_set(err, r, "the path of SEALMARK_HOME is too long") : 0;
}
