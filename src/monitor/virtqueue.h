/* SPDX-License-Identifier: Apache-2.0 - a split virtqueue whose driver is hostile. */
#ifndef SEALMARK_MONITOR_VIRTQUEUE_H
#define SEALMARK_MONITOR_VIRTQUEUE_H

#include "monitor/guest_memory.h"

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * The device's end of a split ring (VERSION_1, INDIRECT_DESC, EVENT_IDX). The guest can write to
 * all three parts at any time, so each word is copied once and then checked, and what comes out of
 * virtqueue_pop() are pointers that were proven to lie inside the guest's memory.
 */
#define VIRTQUEUE_SIZE_MOST 1024u
#define VIRTQUEUE_PARTS     64u /* pieces of one buffer */

struct virtqueue {
	uint16_t size;      /* entries, a power of two; 0: not set */
	bool enabled;       /* the machine has started it */
	bool event_idx;     /* VIRTIO_RING_F_EVENT_IDX */
	uint16_t next;      /* of the available ring */
	uint16_t used_next; /* of the used ring, with what is not published yet */
	uint16_t signalled; /* used index at the last look at the guest's wish for calls */
	bool signalled_valid;
	struct vring_desc *desc; /* NULL: no addresses yet */
	struct vring_avail *avail;
	struct vring_used *used;
	const char *fault; /* why pop answered -EPROTO */
};

/* One buffer of the guest: a chain of pieces. */
struct virtqueue_chain {
	uint16_t head;
	unsigned count;
	size_t bytes;
	struct iovec parts[VIRTQUEUE_PARTS];
};

/* The ring's three parts by addresses of the machine process; 0, or -EPROTO with q->fault. */
int virtqueue_place(struct virtqueue *q, const struct guest_memory *m, uint64_t desc,
	uint64_t avail, uint64_t used);
/* Forget the addresses (memory is going away). */
void virtqueue_displace(struct virtqueue *q);

/* Take the next buffer, which must be all writable by us or all readable. 1, 0 when there is none
 * or the queue does not run, -EPROTO with q->fault. */
int virtqueue_pop(struct virtqueue *q, const struct guest_memory *m, bool writable,
	struct virtqueue_chain *out);
/* Put a buffer back, `bytes` of it written. The guest sees it after virtqueue_publish(). */
void virtqueue_push(struct virtqueue *q, uint16_t head, uint32_t bytes);
/* Show what was pushed; true when the guest wants a call for it. */
bool virtqueue_publish(struct virtqueue *q);
/* Ask for a kick at the next buffer; true when one is there already. */
bool virtqueue_arm(struct virtqueue *q);

/* Copy between a chain, from `offset` on, and our memory; returns how much there was or fitted. */
size_t virtqueue_chain_read(
	const struct virtqueue_chain *c, size_t offset, void *out, size_t count);
size_t virtqueue_chain_write(
	const struct virtqueue_chain *c, size_t offset, const void *bytes, size_t count);

#endif
