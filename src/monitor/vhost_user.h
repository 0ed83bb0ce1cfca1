/* SPDX-License-Identifier: Apache-2.0 - the vhost-user protocol, device end, for one machine. */
#ifndef SEALMARK_MONITOR_VHOST_USER_H
#define SEALMARK_MONITOR_VHOST_USER_H

#include "base/error.h"
#include "monitor/guest_memory.h"
#include "monitor/virtqueue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One connection from a machine process that sets up the queues of one device and then only kicks
 * them. Everything it sends is checked; the first thing that cannot be right ends the connection
 * for good (a breach). One thread; the structure must not move between init and fini.
 */
#define VHOST_USER_QUEUES      3u
#define VHOST_USER_PAYLOAD_MAX 512u
#define VHOST_USER_FDS         8u
#define VHOST_USER_OUT_MAX     2048u
#define VHOST_USER_CONFIG_MAX  64u

struct vhost_user_message {
	uint32_t request, flags, size; /* the header, as on the wire */
	uint8_t payload[VHOST_USER_PAYLOAD_MAX];
};

struct vhost_user_queue {
	struct virtqueue ring;
	int kick_fd, call_fd;
};

struct vhost_user {
	int epoll_fd, listen_fd, fd, wake_fd;
	int backend_fd; /* kept open only: the guest sees by it that we are gone */
	uint64_t features, protocol_features;
	bool features_set;
	struct guest_memory memory;
	struct vhost_user_queue queues[VHOST_USER_QUEUES];
	uint8_t config[VHOST_USER_CONFIG_MAX];
	size_t config_bytes;

	struct vhost_user_message in; /* being received */
	size_t in_bytes;
	int in_fds[VHOST_USER_FDS];
	unsigned in_fd_count;
	uint8_t out[VHOST_USER_OUT_MAX]; /* replies that the socket did not take yet */
	size_t out_bytes;

	bool ended, breach;
	char fault[200];
};

/* Takes over listen_fd; the first connection to it is the machine, then it is closed. `config` is
 * the device's configuration space. */
int vhost_user_init(struct vhost_user *u, int listen_fd, const void *config, size_t config_bytes,
	struct error *err);
void vhost_user_fini(struct vhost_user *u);

/* Do what is to be done on the file descriptors, a bounded amount of it. *kicked gets a bit for
 * each queue that may have something new. 0, or -ECONNRESET once ended. */
int vhost_user_pump(struct vhost_user *u, unsigned *kicked);

/* False once it ended; notices memory that was lost meanwhile. */
bool vhost_user_alive(struct vhost_user *u);

/* The rings, on queue `index`; a fault in them is a breach. As the functions of virtqueue.h. */
int vhost_user_pop(struct vhost_user *u, unsigned index, bool writable,
	struct virtqueue_chain *out); /* 1 or 0 */
void vhost_user_publish(struct vhost_user *u, unsigned index);

/* Have the epoll set poll readable, so that the owner comes back soon. */
void vhost_user_again(struct vhost_user *u);

/* End it, first reason wins: the machine broke the rules, or it is simply gone. */
void vhost_user_breach(struct vhost_user *u, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void vhost_user_end(struct vhost_user *u, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
