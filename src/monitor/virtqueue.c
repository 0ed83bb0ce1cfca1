/* SPDX-License-Identifier: Apache-2.0 - a split virtqueue, see virtqueue.h. */
#include "monitor/virtqueue.h"

#include <errno.h>
#include <string.h>

/*
 * Theory of operation
 *
 * The driver writes descriptor heads into the available ring and moves avail->idx; we take them in
 * order, and give them back through the used ring by moving used->idx. Behind each ring is one more
 * word with which the other side says when it wants to hear (EVENT_IDX): used_event behind the
 * available ring (the guest's), avail_event behind the used ring (ours). After moving an index or
 * an event word there is a full barrier before the other side's word is read, or a wake-up is lost.
 *
 * Nothing here trusts what it read before: our own positions are kept in struct virtqueue, never
 * read back from the rings. A guest that gives the same buffer twice, or takes back what it gave,
 * only spoils its own data.
 */

/* One copy that the compiler may not repeat: checks and use see the same bytes. */
static void copy_once(void *to, const void *from, size_t count)
{
	memcpy(to, from, count);
	__asm__ volatile("" ::: "memory");
}

static int bad(struct virtqueue *q, const char *fault)
{
	q->fault = fault;
	return -EPROTO;
}

static bool aligned(const void *p, uintptr_t to)
{
	return ((uintptr_t)p & (to - 1)) == 0;
}

static uint16_t *used_event(const struct virtqueue *q)
{
	return &q->avail->ring[q->size];
}

static uint16_t *avail_event(const struct virtqueue *q)
{
	return (uint16_t *)(void *)((uint8_t *)q->used + sizeof(*q->used) +
				    q->size * sizeof(struct vring_used_elem));
}

int virtqueue_place(struct virtqueue *q, const struct guest_memory *m, uint64_t desc,
	uint64_t avail, uint64_t used)
{
	size_t n = q->size;

	virtqueue_displace(q);
	if (n == 0)
		return bad(q, "ring addresses before the ring's size");
	/* both rings with their event word, whether or not EVENT_IDX is on */
	void *d = guest_memory_at_user(m, desc, n * sizeof(struct vring_desc));
	void *a = guest_memory_at_user(m, avail, sizeof(*q->avail) + 2 * n + 2);
	void *u = guest_memory_at_user(
		m, used, sizeof(*q->used) + n * sizeof(struct vring_used_elem) + 2);

	if (!d || !a || !u)
		return bad(q, "ring outside guest memory");
	if (!aligned(d, VRING_DESC_ALIGN_SIZE) || !aligned(a, VRING_AVAIL_ALIGN_SIZE) ||
		!aligned(u, VRING_USED_ALIGN_SIZE))
		return bad(q, "ring is not aligned");
	q->desc = d;
	q->avail = a;
	q->used = u;
	q->used_next = __atomic_load_n(&q->used->idx, __ATOMIC_RELAXED);
	q->signalled_valid = false;
	return 0;
}

void virtqueue_displace(struct virtqueue *q)
{
	q->desc = NULL;
	q->avail = NULL;
	q->used = NULL;
}

/* Add the piece that a descriptor names to the chain. */
static int add_part(struct virtqueue *q, const struct guest_memory *m, const struct vring_desc *d,
	bool writable, struct virtqueue_chain *out)
{
	void *at;

	if (out->count == VIRTQUEUE_PARTS)
		return bad(q, "buffer of too many pieces");
	if (!!(d->flags & VRING_DESC_F_WRITE) != writable)
		return bad(q, writable ? "buffer to write to is read only"
				       : "buffer to read from is write only");
	if (d->len == 0)
		return bad(q, "descriptor of no length");
	at = guest_memory_at(m, d->addr, d->len);
	if (!at)
		return bad(q, "descriptor outside guest memory");
	out->parts[out->count++] = (struct iovec){at, d->len};
	out->bytes += d->len;
	return 0;
}

static int walk(struct virtqueue *q, const struct guest_memory *m, uint16_t head, bool writable,
	struct virtqueue_chain *out)
{
	const uint8_t *table = (const uint8_t *)q->desc; /* an indirect one may lie anywhere */
	unsigned entries = q->size, at = head, steps = 0;
	bool indirect = false;
	int r;

	*out = (struct virtqueue_chain){.head = head};
	for (;;) {
		struct vring_desc d;

		if (++steps > entries)
			return bad(q, "descriptors form a loop");
		copy_once(&d, table + at * sizeof(d), sizeof(d));
		if (d.flags & ~(VRING_DESC_F_NEXT | VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT))
			return bad(q, "descriptor with unknown flags");
		if (d.flags & VRING_DESC_F_INDIRECT) {
			/* the last of its chain and not inside another table */
			if (indirect || (d.flags & VRING_DESC_F_NEXT) || d.len == 0 ||
				d.len % sizeof(d) || d.len / sizeof(d) > VIRTQUEUE_SIZE_MOST)
				return bad(q, "bad indirect descriptor");
			table = guest_memory_at(m, d.addr, d.len);
			if (!table)
				return bad(q, "indirect table outside guest memory");
			entries = (unsigned)(d.len / sizeof(d));
			indirect = true;
			at = steps = 0;
			continue;
		}
		r = add_part(q, m, &d, writable, out);
		if (r)
			return r;
		if (!(d.flags & VRING_DESC_F_NEXT))
			return 0;
		at = d.next;
		if (at >= entries)
			return bad(q, "next descriptor outside its table");
	}
}

int virtqueue_pop(struct virtqueue *q, const struct guest_memory *m, bool writable,
	struct virtqueue_chain *out)
{
	uint16_t ready, head;
	int r;

	if (!q->enabled || !q->desc)
		return 0;
	ready = (uint16_t)(__atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) - q->next);
	if (ready == 0)
		return 0;
	if (ready > q->size)
		return bad(q, "available index ran away");
	head = __atomic_load_n(&q->avail->ring[q->next & (q->size - 1)], __ATOMIC_RELAXED);
	if (head >= q->size)
		return bad(q, "descriptor head outside the table");
	r = walk(q, m, head, writable, out);
	if (r)
		return r;
	q->next++;
	return 1;
}

void virtqueue_push(struct virtqueue *q, uint16_t head, uint32_t bytes)
{
	struct vring_used_elem e = {.id = head, .len = bytes};

	if (!q->used)
		return;
	memcpy(&q->used->ring[q->used_next & (q->size - 1)], &e, sizeof(e));
	q->used_next++;
}

bool virtqueue_publish(struct virtqueue *q)
{
	uint16_t old = q->signalled, event;
	bool valid = q->signalled_valid;

	if (!q->enabled || !q->desc)
		return false;
	__atomic_store_n(&q->used->idx, q->used_next, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!q->event_idx)
		return !(__atomic_load_n(&q->avail->flags, __ATOMIC_RELAXED) &
			 VRING_AVAIL_F_NO_INTERRUPT);
	q->signalled = q->used_next;
	q->signalled_valid = true;
	event = __atomic_load_n(used_event(q), __ATOMIC_RELAXED);
	return !valid || vring_need_event(event, q->used_next, old);
}

bool virtqueue_arm(struct virtqueue *q)
{
	if (!q->enabled || !q->desc)
		return false;
	/* without EVENT_IDX kicks come always: used->flags stays 0 */
	if (q->event_idx)
		__atomic_store_n(avail_event(q), q->next, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) != q->next;
}

/* Copy piece by piece; one of in and out is NULL. */
static size_t chain_copy(
	const struct virtqueue_chain *c, size_t offset, void *out, const void *in, size_t count)
{
	size_t done = 0;

	for (unsigned i = 0; i < c->count && done < count; i++) {
		size_t n = c->parts[i].iov_len;

		if (offset >= n) {
			offset -= n;
			continue;
		}
		n -= offset;
		if (n > count - done)
			n = count - done;
		if (out)
			memcpy((uint8_t *)out + done, (uint8_t *)c->parts[i].iov_base + offset, n);
		else
			memcpy((uint8_t *)c->parts[i].iov_base + offset, (const uint8_t *)in + done,
				n);
		done += n;
		offset = 0;
	}
	return done;
}

size_t virtqueue_chain_read(const struct virtqueue_chain *c, size_t offset, void *out, size_t count)
{
	size_t done = chain_copy(c, offset, out, NULL, count);

	__asm__ volatile("" ::: "memory");
	return done;
}

size_t virtqueue_chain_write(
	const struct virtqueue_chain *c, size_t offset, const void *bytes, size_t count)
{
	return chain_copy(c, offset, NULL, bytes, count);
}
