/* SPDX-License-Identifier: Apache-2.0 - builds of images that are under way: their names and their
 * room, in the same transactions as the room of sandboxes.
 */
#ifndef SEALMARK_STORE_BUILDS_H
#define SEALMARK_STORE_BUILDS_H

#include "store/platform.h"

/*
 * A row stands from before a build is recorded in the home until its machine has ended. It is the
 * one build of its name, and it holds no room, claims it, or has it. What is claimed or had is
 * counted like the room of a sandbox, so a create finds it taken. A claim keeps what becomes free
 * for a build that would else never find enough at once; there is one at a time, of the build that
 * is next.
 */
struct store_build {
	const char *name; /* of the image */
	const char *owner;
	const char *server; /* names the process whose thread builds */
	uint32_t vcpu, memory_mib;
	int64_t created_ms;
};

/* It has no room yet. -EEXIST: another build of this name is under way. */
int store_build_add(struct store *store, const struct store_build *build, struct error *err);
/*
 * Give it its room; 0 when it has it. Else -ENOSPC, when all ceilings together are in the way, or
 * -EDQUOT, when those of its key are, and `taken` (ID_SIZE bytes) names the ceiling. After -ENOSPC
 * it claims its room if `claim` says so; every other claim ends, and its own does otherwise.
 * -ENOENT: there is no such build.
 */
int store_build_room(struct store *store, const char *name, const struct store_quota *quota,
	bool claim, char *taken, struct error *err);
/* It is over, or never began. */
int store_build_remove(struct store *store, const char *name, struct error *err);
/* Those of every other process are over. */
int store_build_sweep(struct store *store, const char *server, struct error *err);

#endif
