/* SPDX-License-Identifier: Apache-2.0 - a recipe or a Dockerfile of the disk, as over HTTP. */
#include "image/build.h"

#include "base/buffer.h"
#include "base/path.h"
#include "base/text.h"
#include "base/yaml.h"

#include <errno.h>

/* Every scalar of a recipe is a text. */
static json_t *to_json(const struct yaml_node *node)
{
	json_t *out;

	if (node->kind == YAML_SCALAR)
		return json_string(node->text);
	out = node->kind == YAML_LIST ? json_array() : json_object();
	for (size_t i = 0; i < node->count; i++) {
		json_t *item = to_json(node->items[i]);

		if (node->kind == YAML_LIST)
			json_array_append_new(out, item);
		else
			json_object_set_new(out, node->keys[i]->text, item);
	}
	return out;
}

static int read_recipe(const char *path, const struct buffer *text, json_t **out, struct error *err)
{
	struct yaml_tree *tree;
	int r = yaml_tree_parse(path, buffer_bytes(text), buffer_length(text), &tree, err);

	if (r)
		return r;
	if (!tree->root || tree->root->kind != YAML_MAP)
		r = error_set(err, -EINVAL,
			"%s: must be a map of base, apt, pip, npm, commands, "
			"files, env, workdir",
			path);
	else
		*out = to_json(tree->root);
	yaml_tree_free(tree);
	return r;
}

int image_source_file(const char *path, json_t **body, struct error *err)
{
	bool recipe =
		text_ends(path, ".yaml") || text_ends(path, ".yml") || text_ends(path, ".json");
	struct buffer text = {0};
	json_t *source = NULL;
	int r = path_read(path, recipe ? 4u << 20 : IMAGE_DOCKERFILE_MOST, &text, err);

	if (!r && recipe)
		r = read_recipe(path, &text, &source, err);
	else if (!r && !(source = json_stringn(
				 buffer_length(&text) ? (const char *)buffer_bytes(&text) : "",
				 buffer_length(&text))))
		r = error_set(err, -EINVAL, "%s: is no text", path);
	buffer_fini(&text);
	if (r)
		return r;
	*body = json_pack("{so}", recipe ? "recipe" : "dockerfile", source);
	return *body ? 0 : error_sys(err, -ENOMEM, "%s", path);
}
