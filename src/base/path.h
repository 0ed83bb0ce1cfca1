/* SPDX-License-Identifier: Apache-2.0 - files: opened beneath a directory, written whole or not. */
#ifndef SEALMARK_BASE_PATH_H
#define SEALMARK_BASE_PATH_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* openat2(2) that stays beneath dir_fd and follows no symbolic link; fd or negative errno. */
int path_open_beneath(int dir_fd, const char *path, int flags, mode_t mode);

/* a/b -> out "a/b"; -ENAMETOOLONG with a message. */
int path_join(char *out, size_t size, const char *a, const char *b, struct error *err);

/* mkdir -p; existing directories are fine. */
int path_make(const char *path, mode_t mode, struct error *err);

/* Read a whole regular file of at most `limit` bytes into `out` (added). */
int path_read(const char *path, size_t limit, struct buffer *out, struct error *err);
int path_read_fd(int fd, size_t limit, struct buffer *out);

/* Write new file, fsync, rename over `path`, fsync the directory. */
int path_write_whole(
	const char *path, const void *bytes, size_t count, mode_t mode, struct error *err);

/* Remove a tree without following links or crossing into another file system; missing is fine. */
int path_remove_tree(int dir_fd, const char *name, struct error *err);

/* write(2) until all is written; 0 or negative errno. */
int path_write_fd(int fd, const void *bytes, size_t count);

/* $SEALMARK_HOME, else /var/lib/sealmark for root, else $XDG_DATA_HOME/sealmark. */
int path_home(char *out, size_t size, struct error *err);

#endif
