/* SPDX-License-Identifier: Apache-2.0 - the one vsock connection of a machine, over a vhost-user
 * backend. */
#ifndef SEALMARK_MONITOR_VSOCK_H
#define SEALMARK_MONITOR_VSOCK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A vhost-user device backend for virtio-vsock (device id 19) that serves one machine and one
 * connection from it: the first connect to `port` on CID 2. Everything else the guest tries gets
 * RST. The machine process, its kernel and whatever runs in it are hostile: every address, length,
 * index, descriptor and file descriptor from it is checked, ring contents are copied once, and a
 * breach ends the connection for good with a reason. Nothing here blocks. One thread.
 *
 * vsock_new() takes SIGBUS of the process (guest_memory.h); SIGPIPE is never raised. Bytes that
 * came before the end stay readable after it.
 */
struct vsock;

/* Takes over listen_fd (a listening unix stream socket). guest_cid >= 3. */
int vsock_new(
	int listen_fd, uint64_t guest_cid, uint32_t port, struct vsock **out, struct error *err);
void vsock_free(struct vsock *v);

/* A file descriptor (an epoll set) that polls readable when vsock_pump() has work. */
int vsock_fd(const struct vsock *v);

/* Do what is to be done now. 0, or -ECONNRESET once the machine or its connection is gone or was
 * cut off; vsock_fault() then says why. */
int vsock_pump(struct vsock *v);

/* The guest's agent is connected: bytes can flow. */
bool vsock_connected(const struct vsock *v);

/* Bytes taken (0: no room now; vsock_fd() polls readable when there is again). */
size_t vsock_write(struct vsock *v, const void *bytes, size_t count);

/* Bytes received so far and not yet consumed: up to two pieces without copying. Consuming returns
 * credit to the guest. */
size_t vsock_peek(const struct vsock *v, const uint8_t **bytes); /* first contiguous piece */
size_t vsock_available(const struct vsock *v);                   /* all of it */
void vsock_copy(
	const struct vsock *v, size_t offset, void *out, size_t count); /* within available */
void vsock_consume(struct vsock *v, size_t count);

/* Why it ended, NULL while it lives; whether that was a breach of the protocol. */
const char *vsock_fault(const struct vsock *v);
bool vsock_was_breach(const struct vsock *v);

#endif
