/* SPDX-License-Identifier: Apache-2.0 - what a service manager is told of this process. */
#ifndef SEALMARK_CLI_NOTIFY_H
#define SEALMARK_CLI_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>

/* Where to send it; nowhere when nobody asked. */
struct notify {
	struct sockaddr_un address;
	socklen_t size; /* 0: nobody asked */
};

/* Take the manager's address ($NOTIFY_SOCKET) out of the environment, so that children do not speak
 * in our name. Before there are threads. */
void notify_init(struct notify *n);

/* Say one thing, as "READY=1". It is lost if nobody listens: the manager then finds out itself. */
void notify_say(const struct notify *n, const char *words);

#endif
