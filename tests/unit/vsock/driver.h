/* SPDX-License-Identifier: Apache-2.0 - a guest in this process: the other end of vsock.h. */
#ifndef SEALMARK_TESTS_VSOCK_DRIVER_H
#define SEALMARK_TESTS_VSOCK_DRIVER_H

#include "monitor/vsock.h"

#include <linux/virtio_ring.h>
#include <linux/virtio_vsock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Speaks vhost-user and virtio-vsock as a machine would: a unix socket, a memfd as guest memory,
 * eventfds for kicks, socket pairs for calls. Guest addresses and the machine process's addresses
 * differ, so that mixing them up shows. Each step is a function, for tests that leave one out or do
 * it wrong. Functions that cannot work abort.
 */
#define DRIVER_MEMORY    (4u << 20)
#define DRIVER_GUEST     UINT64_C(0x100000)
#define DRIVER_USER      UINT64_C(0x7f0000000000)
#define DRIVER_QUEUES    3u
#define DRIVER_SIZE_MOST 256u
#define DRIVER_CID       3u
#define DRIVER_PORT      1024u
#define DRIVER_MY_PORT   77u
#define DRIVER_WINDOW    (256u << 10)

enum { DRIVER_RX, DRIVER_TX, DRIVER_EVENT };

enum driver_request {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	GET_VRING_BASE = 11,
	SET_VRING_KICK = 12,
	SET_VRING_CALL = 13,
	SET_VRING_ERR = 14,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	GET_QUEUE_NUM = 17,
	SET_VRING_ENABLE = 18,
	SET_BACKEND_REQ_FD = 21,
	GET_CONFIG = 24
};

struct driver_queue {
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint16_t avail_next, used_seen;
	uint32_t part_bytes;           /* rx: length of a buffer */
	uint32_t at[DRIVER_SIZE_MOST]; /* memory offset of each descriptor's buffer */
	int kick, call;                /* our ends */
	int kick_theirs, call_theirs;  /* what is sent */
};

struct driver {
	struct vsock *vsock;
	int sock, memory_fd, backend, backend_theirs;
	uint8_t *memory;
	uint16_t size;     /* of each queue */
	uint64_t features; /* that it takes of those offered */
	bool indirect;     /* send packets through indirect tables */
	unsigned pieces;   /* tx: descriptors for the data of a packet */
	struct driver_queue queues[DRIVER_QUEUES];
	uint32_t window; /* credit we give */
	uint32_t taken;  /* what we took */
	uint32_t host_alloc, host_taken, sent;
};

/* Everything up to the connected socket: no message yet. */
void driver_start(struct driver *d, uint16_t queue_size);
void driver_stop(struct driver *d);

/* One message, never blocking: -1 when the socket is full or closed. */
int driver_message(struct driver *d, uint32_t request, uint32_t flags, const void *payload,
	uint32_t size, const int *fds, unsigned fd_count);
/* Some bytes of a message with one descriptor beside them. */
void driver_piece(struct driver *d, const void *bytes, size_t count, int fd);
int driver_u64(struct driver *d, uint32_t request, uint64_t value);
int driver_state(struct driver *d, uint32_t request, uint32_t index, uint32_t value);
int driver_fd(struct driver *d, uint32_t request, uint32_t index, int fd);
/* Pump until a reply is there; its payload's size, or -1 when there is none. */
int driver_reply(struct driver *d, void *out, size_t size);

uint64_t driver_features(void); /* all that a Linux guest takes */
void driver_mem_table(struct driver *d);
void driver_ring(struct driver *d, unsigned queue); /* num, base, addr, kick, call */
/* The whole handshake, queues enabled, rx buffers of `part_bytes` given. */
void driver_setup(struct driver *d, uint32_t part_bytes);
/* And the connection from DRIVER_MY_PORT. */
void driver_connect(struct driver *d, uint32_t part_bytes);

/* Let the host work until it has nothing to do; vsock_pump's answer. */
int driver_pump(struct driver *d);

/* vsock_fd() polls readable. */
bool driver_wakes(const struct driver *d);

void driver_kick(struct driver *d, unsigned queue);
/* Give every free rx descriptor to the host (no kick). */
void driver_refill(struct driver *d);
/* Make one descriptor available. */
void driver_avail(struct driver *d, unsigned queue, uint16_t head);

struct virtio_vsock_hdr driver_header(struct driver *d, uint16_t op, uint32_t length);
/* Put a packet into the tx queue (no kick); false when it has no room. */
bool driver_packet(struct driver *d, const struct virtio_vsock_hdr *h, const void *data);
/* Packet of the connection, and kick. */
void driver_op(struct driver *d, uint16_t op, const void *data, uint32_t length);
/* Take the next packet from the rx queue; false when there is none. Data up to `size`. */
bool driver_receive(struct driver *d, struct virtio_vsock_hdr *h, void *data, size_t size);

#endif
