/* SPDX-License-Identifier: Apache-2.0 - YAML as a tree that knows line and column of everything. */
#ifndef SEALMARK_BASE_YAML_H
#define SEALMARK_BASE_YAML_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One document of plain YAML: scalars, lists, maps with scalar keys. Anchors, aliases, tags, merge
 * keys, a second document and the same key twice are refused, as is a document beyond the limits:
 * the file is configuration, and whoever wrote it is told line and column. Errors read
 * "hw3/assignment.yaml:7:12: …".
 */
#define YAML_BYTES_MAX (1u << 20)
#define YAML_DEPTH_MAX 32u
#define YAML_NODES_MAX 100000u

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
	enum yaml_kind kind;
	unsigned line, column; /* from 1 */
	bool plain; /* scalar: not quoted and not a block, so it may be a number or null */
	char *text; /* scalar: its text, NUL-terminated, no NUL within, UTF-8 */
	struct yaml_node **keys;  /* map: scalars, one for each item */
	struct yaml_node **items; /* list and map */
	size_t count;
	struct yaml_tree *tree;
};

struct yaml_tree {
	char *name;             /* of the file, for messages */
	struct yaml_node *root; /* NULL for an empty document */
	size_t nodes;
};

/* Parse; name is put before messages. An empty document is a tree with no root. */
int yaml_tree_parse(const char *name, const void *bytes, size_t count, struct yaml_tree **out,
	struct error *err);
void yaml_tree_free(struct yaml_tree *tree);

/* "name:line:column: " and the message; returns `code` made negative. */
int yaml_error(const struct yaml_node *at, struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The value of a key of a map, or NULL. */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* What a node is, for messages: "a list", "a map", "empty", "\"abc\"" (cut, harmless). */
const char *yaml_describe(const struct yaml_node *node, char *out, size_t size);

/* True for a plain scalar that is empty, ~ or null. */
bool yaml_is_null(const struct yaml_node *node);

/* Typed reading; `what` is the key's full name for the message ("limits.cpu"). Text points into the
 * tree and is never empty. */
int yaml_text(const struct yaml_node *node, const char *what, const char **out, struct error *err);
int yaml_bool(const struct yaml_node *node, const char *what, bool *out, struct error *err);
/* A decimal number, finite, within [least, most]. */
int yaml_number(const struct yaml_node *node, const char *what, double least, double most,
	double *out, struct error *err);
int yaml_u64(const struct yaml_node *node, const char *what, uint64_t least, uint64_t most,
	uint64_t *out, struct error *err);

#endif
