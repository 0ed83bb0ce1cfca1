/* SPDX-License-Identifier: Apache-2.0 - the protocol of sd_notify(3), as far as it is used here. */
#include "cli/notify.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void notify_init(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path ? strlen(path) : 0;

	*n = (struct notify){.address.sun_family = AF_UNIX};
	/* a path, or a name that begins with @ for a zero byte */
	if (length > 1 && length < sizeof(n->address.sun_path) &&
		(path[0] == '/' || path[0] == '@')) {
		memcpy(n->address.sun_path, path, length);
		if (path[0] == '@')
			n->address.sun_path[0] = 0;
		n->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	}
	unsetenv("NOTIFY_SOCKET");
}

void notify_say(const struct notify *n, const char *words)
{
	cleanup_close int fd = -1;

	if (!n->size)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, words, strlen(words), MSG_NOSIGNAL,
			      (const struct sockaddr *)&n->address, n->size) < 0)
		log_warning("the service manager cannot be told %s: %s", words, strerror(errno));
}
