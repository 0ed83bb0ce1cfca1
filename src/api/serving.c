/* SPDX-License-Identifier: Apache-2.0 - one server for each store, with files enough. */
#include "api/internal.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * What another server has under way is taken for what a dead one left: its starts would be begun
 * again, its spares ended, its requests done a second time. The lock is a record lock of fcntl(2):
 * it is this process's alone and no child's, so that it is free as soon as a killed server is gone.
 * It is on a file of its own, as closing any descriptor of the store would end SQLite's locks.
 */
int serving_begin(struct api_server *server, struct error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[PATH_MAX];

	if (text_format(path, sizeof(path), "%s.lock", server->options.store))
		return error_set(err, -ENAMETOOLONG, "the store's path is too long");
	server->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (server->lock_fd < 0)
		return error_sys(err, errno, "%s", path);
	if (fcntl(server->lock_fd, F_SETLK, &lock) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return error_sys(err, errno, "%s", path);
	if (fcntl(server->lock_fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
		lock.l_pid = 0;
	return error_set(err, -EBUSY,
		"%s: another sealmark serve (process %d) is at work with it: stop that one, or "
		"give this one a SEALMARK_HOME of its own",
		server->options.store, (int)lock.l_pid);
}

/* Connections, streams and machines have descriptors: as many as this process may have. */
void serving_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}
