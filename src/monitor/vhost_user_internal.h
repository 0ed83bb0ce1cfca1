/* SPDX-License-Identifier: Apache-2.0 - between the connection (vhost_user.c) and its requests. */
#ifndef SEALMARK_MONITOR_VHOST_USER_INTERNAL_H
#define SEALMARK_MONITOR_VHOST_USER_INTERNAL_H

#include "monitor/vhost_user.h"

#define VHOST_USER_HEADER  12u
#define VHOST_USER_VERSION 1u /* in flags */
#define VHOST_USER_REPLY   4u /* in flags */

/* what an epoll event belongs to; from TAG_KICK on it is a queue's kick */
enum vhost_user_tag {
	VHOST_USER_TAG_LISTEN,
	VHOST_USER_TAG_SOCKET,
	VHOST_USER_TAG_WAKE,
	VHOST_USER_TAG_KICK
};

/* vhost_user.c */
int vhost_user_watch(struct vhost_user *u, int fd, uint32_t events, uint32_t tag);
void vhost_user_unwatch(struct vhost_user *u, int *fd); /* and close */
void vhost_user_drop_fds(struct vhost_user *u);         /* those of the current message */
void vhost_user_reply(struct vhost_user *u, const void *payload, uint32_t size);

/* vhost_user_requests.c: both work on u->in and may end in a breach */
bool vhost_user_header_is_right(struct vhost_user *u);
void vhost_user_handle(struct vhost_user *u); /* a whole message */

#endif
