/* SPDX-License-Identifier: Apache-2.0 - fuzzes the YAML reader: any tree it gives keeps its
 * promises. */
#include "base/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* Every reader on every node: an answer within the bounds asked for, or a message. */
static void read_all(const struct yaml_node *node)
{
	struct error err = {0};
	char out[80];
	const char *text;
	double number;
	uint64_t u;
	bool b;

	check(yaml_describe(node, out, sizeof(out)) != NULL && memchr(out, 0, sizeof(out)));
	if (yaml_text(node, "what", &text, &err) == 0)
		check(node->kind == YAML_SCALAR && text[0]);
	else
		check(err.code < 0 && err.message[0]);
	err = (struct error){0};
	if (yaml_number(node, "what", -5, 1e6, &number, &err) == 0)
		check(isfinite(number) && number >= -5 && number <= 1e6);
	else
		check(err.code < 0 && err.message[0]);
	if (yaml_u64(node, "what", 3, 1u << 30, &u, &err) == 0)
		check(u >= 3 && u <= 1u << 30);
	if (yaml_bool(node, "what", &b, &err) == 0)
		check(node->kind == YAML_SCALAR);
	check(yaml_error(node, &err, -22, "x") == -22 &&
		memchr(err.message, 0, sizeof(err.message)));
}

static size_t walk(const struct yaml_node *node, const struct yaml_tree *tree, unsigned depth)
{
	size_t nodes = 1;

	check(node->tree == tree && node->line >= 1 && node->column >= 1 &&
		depth <= YAML_DEPTH_MAX);
	read_all(node);
	if (node->kind == YAML_SCALAR) {
		check(node->text != NULL && node->count == 0);
		return nodes;
	}
	for (size_t i = 0; i < node->count; i++) {
		if (node->kind == YAML_MAP) {
			const struct yaml_node *key = node->keys[i];

			check(key->kind == YAML_SCALAR);
			/* keys are unique, so this finds this very item */
			check(yaml_get(node, key->text) == node->items[i]);
			nodes += walk(key, tree, depth + 1);
		}
		nodes += walk(node->items[i], tree, depth + 1);
	}
	return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct yaml_tree *tree = NULL;
	struct error err = {0};
	int r = yaml_tree_parse("fuzz.yaml", bytes, count, &tree, &err);

	if (r) {
		check(r < 0 && err.code == r && !tree);
		check(strncmp(err.message, "fuzz.yaml", 9) == 0);
		return 0;
	}
	check(tree != NULL && tree->nodes <= YAML_NODES_MAX);
	if (tree->root)
		check(walk(tree->root, tree, 1) <= tree->nodes);
	yaml_tree_free(tree);
	return 0;
}
