/* SPDX-License-Identifier: Apache-2.0 - a process and all it started, found in /proc. */
#ifndef SEALMARK_AGENT_TREE_H
#define SEALMARK_AGENT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * For systems without cgroups. The tree of `main` is its descendants and its session; with `alone`
 * it is every descendant of the caller, which must be a subreaper, so that daemons count too.
 */
void tree_signal(pid_t main, bool alone, int signal);
/* No living process (zombies do not live) is in it. */
bool tree_is_empty(pid_t main, bool alone);
/* CPU time of those that live and of those they waited for, in clock ticks' precision. */
uint64_t tree_cpu_us(pid_t main, bool alone);

#endif
