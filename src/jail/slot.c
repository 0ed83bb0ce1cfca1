/* SPDX-License-Identifier: Apache-2.0 - slots: small numbers that a locked file holds. */
#include "jail/jail.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

/* Root's slots stand for uids, which are the host's and not a home's. */
#define HOST_SLOTS "/run/sealmark/slots"

static int open_slots(const char *home, char *path, size_t size, struct error *err)
{
	int r, fd;

	if (geteuid() == 0)
		r = text_copy(path, size, HOST_SLOTS);
	else
		r = path_join(path, size, home, "slots", err);
	r = r ? r : path_make(path, 0700, err);
	if (r)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_sys(err, errno, "%s", path) : fd;
}

int jail_slot_take(const char *home, int *slot, int *lock_fd, struct error *err)
{
	char path[512], name[16];

	*slot = *lock_fd = -1;
	cleanup_close int dir = open_slots(home, path, sizeof(path), err);
	if (dir < 0)
		return dir;
	for (int i = 0; i < JAIL_SLOTS; i++) {
		cleanup_close int fd = -1;

		text_format(name, sizeof(name), "%d", i);
		fd = path_open_beneath(dir, name, O_RDWR | O_CREAT, 0600);
		if (fd < 0)
			return error_sys(err, fd, "%s/%s: cannot take a slot", path, name);
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			*slot = i;
			*lock_fd = steal_fd(&fd);
			return 0;
		}
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_sys(err, errno, "%s/%s: cannot lock a slot", path, name);
	}
	return error_set(err, -EAGAIN,
		"all %d slots for sandboxes on this host are taken: wait for one to end",
		JAIL_SLOTS);
}
