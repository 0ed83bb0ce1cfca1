/* SPDX-License-Identifier: Apache-2.0 - the tar format: a parser that owns nothing, and headers. */
#ifndef SEALMARK_AGENT_TAR_H
#define SEALMARK_AGENT_TAR_H

#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 *	archive = { header block, contents padded to 512 } , two blocks of zeros, anything
 *
 * Understood: ustar, GNU (long names 'L' and 'K', base-256 numbers), pax ('x': path, linkpath,
 * size, mtime). Kinds: files, directories, hard and symbolic links. Everything else is refused by
 * name: an entry that is skipped in silence would be a wrong answer later.
 */
#define TAR_BLOCK     512u
#define TAR_META_MOST (16u << 10) /* of a pax header or a long name */
/* pax header, its block and its contents for two long paths, and the header itself */
#define TAR_HEAD_MOST (3 * TAR_BLOCK + 2 * WIRE_PATH_MAX + TAR_BLOCK)

enum tar_kind { TAR_FILE, TAR_DIRECTORY, TAR_SYMLINK, TAR_HARDLINK };

struct tar_entry {
	enum tar_kind kind;
	uint32_t mode;
	uint64_t size; /* of the contents that follow; 0 but for files */
	int64_t mtime;
	char path[WIRE_PATH_MAX]; /* as the archive has it */
	char target[WIRE_PATH_MAX];
};

/* What the parser finds, in order. 0 or negative errno, which ends the parsing. */
struct tar_sink {
	int (*entry)(void *context, const struct tar_entry *entry);
	int (*content)(void *context, const uint8_t *bytes, size_t count);
	/* the contents of the last entry are complete (also called for those without) */
	int (*entry_end)(void *context);
};

enum tar_state { TAR_HEADER = 0, TAR_META, TAR_CONTENT, TAR_PADDING, TAR_MARKER };

/* All zero is a new reader. */
struct tar_reader {
	enum tar_state state;
	char meta_kind;  /* 'x', 'L', 'K', or 'g' (ignored) */
	uint32_t filled; /* of block or meta */
	uint32_t meta_size;
	uint64_t left; /* of the contents */
	uint32_t padding;
	bool has_path, has_target, has_size, has_mtime; /* from meta, for the next entry */
	uint64_t meta_content_size;
	int64_t meta_mtime;
	struct tar_entry entry;
	uint8_t block[TAR_BLOCK];
	char meta[TAR_META_MOST + 1];
};

/* Parse the next bytes. 0 or negative errno: -EINVAL for what is not tar, -EOPNOTSUPP for a kind
 * that is refused, or the sink's. `entry.path` then names the culprit as far as it is known. */
int tar_feed(struct tar_reader *t, const uint8_t *bytes, size_t count, const struct tar_sink *sink,
	void *context);
/* No more bytes: 0, or -EINVAL when the archive is cut off. */
int tar_close(const struct tar_reader *t);

/* Write the header blocks of an entry (pax in front where ustar is too narrow) into out, which has
 * TAR_HEAD_MOST bytes. Returns how many. path without leading slash. */
uint32_t tar_head(uint8_t *out, const char *path, const char *target, const struct stat *st);

#endif
