/* SPDX-License-Identifier: Apache-2.0 - walking a tree a step at a time, without following links.
 */
#ifndef SEALMARK_AGENT_WALK_H
#define SEALMARK_AGENT_WALK_H

#include "wire/wire.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Directories open at once. What lies deeper is not walked (walk_enter says so). */
#define WALK_DEPTH 48

struct walk {
	int depth; /* open directories */
	DIR *dirs[WALK_DEPTH];
	uint32_t lengths[WALK_DEPTH]; /* of the path of each */
	dev_t device;                 /* mounts are not crossed */
	/* the entry walk_next() has found */
	char path[WIRE_PATH_MAX]; /* relative to the start */
	const char *name;         /* its last part */
	struct stat stat;
};

/* Takes over dir_fd. 0 or negative errno. All zero is a walk that has not begun. */
int walk_begin(struct walk *w, int dir_fd);
/* 1 with the next entry, 0 at the end, negative errno. */
int walk_next(struct walk *w);
/* Go on inside the entry, a directory. 0, -ELOOP when it is too deep, -EXDEV for a mount. */
int walk_enter(struct walk *w);
/* The directory that holds the entry. */
int walk_fd(const struct walk *w);
void walk_end(struct walk *w);

#endif
