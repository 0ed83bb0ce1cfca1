/* SPDX-License-Identifier: Apache-2.0 - a machine's memory, mapped from the file it shares. */
#ifndef SEALMARK_MONITOR_GUEST_MEMORY_H
#define SEALMARK_MONITOR_GUEST_MEMORY_H

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The machine owns the file behind its memory: it can cut it short at any time, or its tmpfs can be
 * full when we are the first to touch a page. Both are SIGBUS. The handler puts anonymous memory in
 * the region's place, so the access ends, and marks the memory as lost; whoever works on it goes on
 * with zeros until it looks at guest_memory_lost(). One thread.
 */
#define GUEST_MEMORY_REGIONS    8u
#define GUEST_MEMORY_BYTES_MOST (UINT64_C(64) << 30) /* of all regions */

struct guest_memory_region {
	uint64_t guest; /* first address as the guest kernel counts (descriptors) */
	uint64_t user;  /* first address as the machine process counts (rings) */
	uint64_t size;
	uint8_t *base; /* where its first byte is here */
	uint8_t *map;
	size_t map_size;
};

struct guest_memory {
	struct guest_memory_region regions[GUEST_MEMORY_REGIONS];
	unsigned count;
	volatile sig_atomic_t lost;
};

/* All zero is empty. Init also installs the SIGBUS handler of the process. -EMFILE when too many
 * memories are guarded already. The structure must not move until fini. */
int guest_memory_init(struct guest_memory *m, struct error *err);
void guest_memory_fini(struct guest_memory *m);

/* Unmap all regions. */
void guest_memory_clear(struct guest_memory *m);

/* Map [offset, offset + size) of fd, which stays the caller's: a file of a tmpfs (or memfd) that is
 * large enough, and no overlap with the regions before. -EPROTO, or what mmap(2) said. */
int guest_memory_add(struct guest_memory *m, int fd, uint64_t guest, uint64_t user, uint64_t size,
	uint64_t offset, struct error *err);

/* Where `size` bytes (> 0) from a guest's or a machine process's address are, or NULL when any of
 * them is outside one region. */
void *guest_memory_at(const struct guest_memory *m, uint64_t guest, uint64_t size);
void *guest_memory_at_user(const struct guest_memory *m, uint64_t user, uint64_t size);

static inline bool guest_memory_lost(const struct guest_memory *m)
{
	return m->lost != 0;
}

#endif
