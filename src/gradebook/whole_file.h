/* SPDX-License-Identifier: Apache-2.0 - a file written piece by piece that appears whole or not at
 * all. */
#ifndef SEALMARK_GRADEBOOK_WHOLE_FILE_H
#define SEALMARK_GRADEBOOK_WHOLE_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>

/* For one that fits in memory there is path_write_whole(). */
struct whole_file {
	char path[4096], temporary[4200];
	int fd; /* -1: not open */
	struct buffer pending;
};

int whole_file_open(struct whole_file *f, const char *path, struct error *err);
int whole_file_add(struct whole_file *f, const void *bytes, size_t count, struct error *err);
/* Write, sync, rename over the old one, sync the folder. */
int whole_file_close(struct whole_file *f, struct error *err);
/* Remove what processes that were killed in the middle have left of a file `name` in `folder`; only
 * when nobody writes it now. */
void whole_file_sweep(const char *folder, const char *name);
/* Give it up; does nothing after whole_file_close(). */
void whole_file_abandon(struct whole_file *f);

#endif
