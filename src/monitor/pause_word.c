/* SPDX-License-Identifier: Apache-2.0 - the keeper's word that its sandbox is paused. */
#include "monitor/monitor.h"

#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * <home>/paused/<id> holds since when and until when it is paused, in milliseconds of the wall
 * clock, and is there as long as it is. It tells whoever wants to know without asking the monitor,
 * and means nothing once the keeper is gone: so it need not survive a power cut.
 */

int pause_word_leave(const char *home, const char *id, int64_t for_ms, struct error *err)
{
	char path[PATH_MAX], new_path[PATH_MAX], text[64];
	struct timespec t;
	int64_t now;
	int fd, r;

	clock_gettime(CLOCK_REALTIME, &t);
	now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	text_format(text, sizeof(text), "%lld %lld\n", (long long)now, (long long)(now + for_ms));
	if (text_format(path, sizeof(path), "%s/paused", home))
		return error_set(err, -ENAMETOOLONG, "home is too long");
	r = path_make(path, 0700, err);
	if (r)
		return r;
	if (text_format(path, sizeof(path), "%s/paused/%s", home, id) ||
		text_format(new_path, sizeof(new_path), "%s/paused/.%s", home, id))
		return error_set(err, -ENAMETOOLONG, "home is too long");
	fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_sys(err, errno, "%s", new_path);
	r = path_write_fd(fd, text, strlen(text));
	close(fd);
	if (!r && rename(new_path, path))
		r = -errno;
	if (r)
		unlink(new_path);
	return r ? error_sys(err, r, "%s", path) : 0;
}

void pause_word_take_back(const char *home, const char *id)
{
	char path[PATH_MAX];

	if (text_format(path, sizeof(path), "%s/paused/%s", home, id) == 0)
		unlink(path);
}
