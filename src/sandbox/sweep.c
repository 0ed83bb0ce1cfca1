/* SPDX-License-Identifier: Apache-2.0 - remove what monitors that were killed left behind. */
#include "sandbox/sandbox.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define YOUNG_S 60 /* a directory without its name is being made for less than that */

/* A keeper holds the lock of its directory as long as it lives. */
static bool alive_in(int directory_fd, const char *id)
{
	cleanup_close int fd =
		openat(directory_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno != ENOENT;
	if (id[0] == '.' && (fstat(fd, &st) || time(NULL) - st.st_ctime < YOUNG_S))
		return true;
	return flock(fd, LOCK_EX | LOCK_NB) != 0;
}

static bool alive(void *context, const char *id)
{
	return alive_in(*(int *)context, id);
}

int sandbox_sweep(const char *home, struct error *err)
{
	char path[PATH_MAX], own[PATH_MAX];
	struct dirent *e;
	int count = 0, fd, r;

	if (!home) {
		r = path_home(own, sizeof(own), err);
		if (r)
			return r;
		home = own;
	}
	r = path_join(path, sizeof(path), home, "sandboxes", err);
	if (r)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_sys(err, errno, "%s", path);
	jail_cgroup_sweep(alive, &fd);
	cleanup_dir DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return error_set(err, -ENOMEM, "out of memory");
	}
	while ((e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
			alive_in(fd, e->d_name))
			continue;
		if (text_format(path, sizeof(path), "%s/paused/%s", home, e->d_name) == 0)
			unlink(path);
		r = path_remove_tree(fd, e->d_name, err);
		if (r)
			return r;
		count++;
	}
	return count;
}

bool sandbox_is_left(const char *home, const char *id)
{
	char path[PATH_MAX];

	if (text_format(path, sizeof(path), "%s/sandboxes/%s", home, id))
		return false;
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || jail_cgroup_exists(id);
}
