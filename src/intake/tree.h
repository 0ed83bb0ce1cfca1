/* SPDX-License-Identifier: Apache-2.0 - the regular files below a folder, found without following
 * anything and within limits. */
#ifndef SEALMARK_INTAKE_TREE_H
#define SEALMARK_INTAKE_TREE_H

#include "base/error.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_file {
	char *path; /* relative, any bytes but zero */
	uint64_t size_bytes;
	uint32_t mode; /* 0644 or 0755 */
};

struct tree {
	struct tree_file *files; /* sorted by path, bytewise */
	size_t count;
	uint64_t bytes;
};

struct tree_limits {
	size_t files;
	uint64_t bytes;
	unsigned depth;
};

/* What is looked for, and what is not. */
struct tree_rules {
	struct tree_limits limits;
	/* refuse links, devices, pipes and sockets with -ELOOP or -EINVAL and their path; otherwise
	 * they are left out */
	bool strict;
	/* paths (NULL-terminated, or NULL) that are taken even when their name would be skipped */
	const char *const *wanted;
	/* told of each path that is passed over, and why, unless NULL; an error ends the walk */
	int (*passed_over)(void *context, const char *path, const char *why);
	void *context;
};

/* Why a name is passed over: what operating systems and tools leave in folders, such as __MACOSX,
 * __pycache__ and Thumbs.db, and every name that begins with a dot; NULL for all others. */
const char *tree_litter(const char *name);

/* Read what is below dir_fd. -E2BIG, -EFBIG, -ELOOP, -EINVAL: the folder breaks a rule, with a
 * message that begins with the path; other errors are the host's. */
int tree_read(int dir_fd, const struct tree_rules *rules, struct tree *out, struct error *err);
void tree_fini(struct tree *tree);
const struct tree_file *tree_find(const struct tree *tree, const char *path);

/* Open a file found; refused (-ESTALE) when it is no longer a regular file. */
int tree_open(int dir_fd, const char *path, struct error *err);

/* SHA-256 over each path, mode and contents. only_name: what the tree's one file is called in
 * dir_fd when that is not its path; else NULL. */
int tree_digest(int dir_fd, const struct tree *tree, const char *only_name, char *out_hex,
	struct error *err);

/* Bytes as text for a message: harmless, cut; returns out. */
const char *tree_show(const char *path, char *out, size_t size);

#endif
