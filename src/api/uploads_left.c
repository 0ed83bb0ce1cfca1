/* SPDX-License-Identifier: Apache-2.0 - files of uploads that a killed server has left. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/*
 * A file is made before its record and removed after it, so that no record is without its file. A
 * server that is killed between the two leaves a file that nobody would ever look at again. Servers
 * of several stores may share a home: each has a shared lock on the folder while it runs, and what
 * is no upload of its own store is removed by one that is there alone.
 */

static int sweep(struct api_server *server, int fd, struct error *err)
{
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	cleanup_dir DIR *dir = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;

	if (!dir) {
		r = error_sys(err, errno, "%s/uploads", server->home);
		close_fd(&own);
	}
	while (!r && (e = readdir(dir))) {
		if (!id_is_like(e->d_name))
			continue;
		r = store_upload_find(server->store, e->d_name, err);
		if (r == -ENOENT) {
			r = 0;
			if (unlinkat(fd, e->d_name, 0))
				log_warning("%s/uploads/%s: %s", server->home, e->d_name,
					strerror(errno));
		}
	}
	return r;
}

int uploads_start(struct api_server *server, struct error *err)
{
	char path[PATH_MAX];
	int r = text_format(path, sizeof(path), "%s/uploads", server->home), fd;

	r = r ? error_set(err, r, "home is too long") : path_make(path, 0700, err);
	if (r)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		r = sweep(server, fd, err);
	/* others may have it for as long as their sweep takes */
	if (!r && flock(fd, LOCK_SH))
		r = error_sys(err, errno, "%s", path);
	server->uploads_fd = fd;
	return r;
}
