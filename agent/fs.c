/* SPDX-License-Identifier: Apache-2.0 - paths of the guest, opened with the rights of its users. */
#include "fs.h"

#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PROC_MAGIC    0x9fa0
#define ATTEMPTS_MOST 64 /* when others keep changing what is being opened */
#define FS_NAME_SIZE  256

/* set*id for files answers the former id and no error: ask again what it is now */
static int set_ids(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	if ((gid_t)setfsgid((gid_t)-1) != gid || (uid_t)setfsuid((uid_t)-1) != uid)
		return -EPERM;
	return 0;
}

int fs_as(uint32_t uid, uint32_t gid)
{
	int r;

	/* already so, the usual case of requests as root */
	if (uid == geteuid() && gid == getegid())
		return 0;
	r = set_ids(uid, gid);
	if (r)
		fs_as_root();
	return r;
}

void fs_as_root(void)
{
	setfsuid(geteuid());
	setfsgid(getegid());
}

int fs_open(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = {(uint64_t)(unsigned)(flags | O_CLOEXEC), mode, resolve | FS_NO_MAGICLINKS};
	long fd = -1;

	/* EAGAIN: a rename was in the way, or a lease, which may never go */
	for (int i = 0; i < ATTEMPTS_MOST && fd < 0; i++) {
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd < 0 && errno != EINTR && errno != EAGAIN)
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

static int check_kind(int fd, const char *path, mode_t kind)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_mode & S_IFMT) != kind) {
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		return kind == S_IFDIR ? -ENOTDIR : -EINVAL;
	}
	/* /proc shows the agent to itself: only for who asks for it by its name */
	if (strncmp(path, "/proc", 5) != 0 && fstatfs(fd, &fs) == 0 && fs.f_type == PROC_MAGIC)
		return -EACCES;
	return 0;
}

int fs_open_read(const char *path, mode_t kind)
{
	int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
	int fd, r;

	if (*path != '/')
		return -EINVAL;
	fd = fs_open(AT_FDCWD, path, kind == S_IFDIR ? flags | O_DIRECTORY : flags, 0, 0);
	if (fd < 0)
		return fd;
	r = check_kind(fd, path, kind);
	if (r) {
		close(fd);
		return r;
	}
	return fd;
}

/* Split "/a/b/c///" into the length of "/a/b/" and the name "c". */
static int split_last(const char *path, size_t *parent, char *name)
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	if (end == start || !strncmp(path + start, ".", end - start) ||
		(end - start == 2 && !strncmp(path + start, "..", 2)))
		return -EINVAL;
	if (end - start >= FS_NAME_SIZE)
		return -ENAMETOOLONG;
	memcpy(name, path + start, end - start);
	name[end - start] = 0;
	*parent = start;
	return 0;
}

/* Open a directory below `dir`, making it if need be. Whoever else makes or removes it meanwhile
 * is tolerated for a while. */
static int step_into(int dir, const char *name, uint64_t resolve)
{
	int fd = -EAGAIN;

	for (int i = 0; i < ATTEMPTS_MOST; i++) {
		fd = fs_open(dir, name, O_PATH | O_DIRECTORY, 0, resolve);
		if (fd != -ENOENT)
			return fd;
		if (mkdirat(dir, name, 0755) && errno != EEXIST)
			return -errno;
	}
	return fd;
}

/* Walk `length` bytes of path from `dir`, one name at a time, making what is missing. */
static int make_walk(int dir, const char *path, size_t length, uint64_t resolve)
{
	char name[FS_NAME_SIZE];
	size_t at = 0;
	int fd, next;

	fd = fs_open(
		dir, *path == '/' && dir == AT_FDCWD ? "/" : ".", O_PATH | O_DIRECTORY, 0, resolve);
	while (fd >= 0) {
		size_t end;

		while (at < length && path[at] == '/')
			at++;
		if (at == length)
			return fd;
		end = at;
		while (end < length && path[end] != '/')
			end++;
		if (end - at >= sizeof(name)) {
			close(fd);
			return -ENAMETOOLONG;
		}
		memcpy(name, path + at, end - at);
		name[end - at] = 0;
		at = end;
		next = step_into(fd, name, resolve);
		close(fd);
		fd = next;
	}
	return fd;
}

static int open_head(int dir, const char *path, size_t length, uint64_t resolve)
{
	char head[WIRE_PATH_MAX];

	if (length >= sizeof(head))
		return -ENAMETOOLONG;
	memcpy(head, path, length);
	head[length] = 0;
	return fs_open(dir, length ? head : ".", O_PATH | O_DIRECTORY, 0, resolve);
}

int fs_open_parent(const char *path, int make, char *name)
{
	size_t length;
	int r;

	if (*path != '/')
		return -EINVAL;
	r = split_last(path, &length, name);
	if (r)
		return r;
	r = open_head(AT_FDCWD, path, length, 0);
	if (r == -ENOENT && make)
		r = make_walk(AT_FDCWD, path, length, 0);
	return r;
}

int fs_open_parent_within(int dir, const char *path, char *name)
{
	size_t length;
	int r = split_last(path, &length, name);

	if (r)
		return r;
	r = open_head(dir, path, length, FS_WITHIN);
	return r == -ENOENT ? make_walk(dir, path, length, FS_WITHIN) : r;
}

int fs_make_directory(const char *path)
{
	int fd;

	if (*path != '/')
		return -EINVAL;
	fd = fs_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, 0);
	return fd == -ENOENT ? make_walk(AT_FDCWD, path, strlen(path), 0) : fd;
}

int fs_normal_path(const char *path, char *out, size_t size)
{
	size_t n = 0;

	if (*path == '/')
		return -EXDEV;
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.')
			return -EXDEV;
		if (length && !(length == 1 && *path == '.')) {
			if (length >= FS_NAME_SIZE || n + length + 2 > size)
				return -ENAMETOOLONG;
			if (n)
				out[n++] = '/';
			memcpy(out + n, path, length);
			n += length;
		}
		path += length;
		path += *path == '/';
	}
	out[n] = 0;
	return 0;
}

int fs_chmod(int fd, mode_t mode)
{
	char path[48];

	if (fchmod(fd, mode) == 0)
		return 0;
	if (errno != EBADF)
		return -errno;
	/* O_PATH descriptors are changed by their name in /proc */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, mode) ? -errno : 0;
}
