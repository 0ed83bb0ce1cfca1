/* SPDX-License-Identifier: Apache-2.0 - ENTRY messages: what a file is. */
#ifndef SEALMARK_AGENT_ENTRY_H
#define SEALMARK_AGENT_ENTRY_H

#include <stddef.h>
#include <sys/stat.h>

struct agent;
struct stream;

void entry_send(struct agent *a, struct stream *s, const char *path, const struct stat *st,
	const char *target);
/* Where a symbolic link points, "" for others. 0 or negative errno. */
int entry_target(int dir, const char *name, const struct stat *st, char *out, size_t size);

#endif
