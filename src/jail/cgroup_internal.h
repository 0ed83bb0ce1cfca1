/* SPDX-License-Identifier: Apache-2.0 - where cgroups may be made; for src/jail only. */
#ifndef SEALMARK_JAIL_CGROUP_INTERNAL_H
#define SEALMARK_JAIL_CGROUP_INTERNAL_H

#include "base/error.h"

#include <stdbool.h>

/* One hierarchy of v1, or the one of v2. */
enum cgroup_role { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPUACCT, CGROUP_CPU, CGROUP_ROLES };

struct cgroup_place {
	bool unified;                  /* v2: only roots[0] is used */
	char roots[CGROUP_ROLES][512]; /* directory that holds "sealmark"; "" when there is none */
};

/*
 * Find where this process may make cgroups with at least memory and pids control: v2 first, then
 * v1. Root takes the top of what is mounted; an ordinary user only what was delegated to it above
 * its own cgroup. Makes the "sealmark" folders. 0, or -ENOTSUP with the reason and its cure.
 */
int cgroup_find(struct cgroup_place *out, struct error *err);

#endif
