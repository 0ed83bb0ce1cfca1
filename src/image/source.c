/* SPDX-License-Identifier: Apache-2.0 - sources of images: checked, planned, digested. */
#include "image/build.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define VALUE_MOST 32768u

/* env of the request, beside the source's own */
static int add_env(struct image_plan *plan, const json_t *env, json_t *issues)
{
	const char *name;
	json_t *value;
	char path[300];
	int r = 0;

	json_object_foreach ((json_t *)(uintptr_t)env, name, value) {
		const char *text = json_string_value(value);

		text_format(path, sizeof(path), "env.%.200s", name);
		if (!image_is_variable(name) || !text || strlen(text) > VALUE_MOST)
			image_issue(issues, path,
				"must be a string of at most %u bytes, its name letters, digits "
				"and _",
				VALUE_MOST);
		else if (!r)
			r = image_plan_variable(plan, name, text, false);
	}
	return r;
}

static int parse_dockerfile(struct image_plan *plan, const struct image_source *source,
	json_t *issues, struct error *err)
{
	const struct image_dockerfile file = {.text = json_string_value(source->dockerfile),
		.count = json_string_length(source->dockerfile),
		.arguments = source->arguments,
		.no_start = source->no_start};
	int r = 0;

	if (source->files)
		r = image_files_parse(plan, source->files, "files", NULL, issues);
	if (!r && !json_array_size(issues))
		r = image_dockerfile_parse(plan, &file, err);
	if (r == -EINVAL)
		image_issue(issues, "dockerfile", "%s", error_message(err));
	return r;
}

static int parse(struct image_plan *plan, const struct image_source *source, json_t *issues,
	struct error *err)
{
	int r = 0;

	if (!source->recipe == !source->dockerfile) {
		image_issue(issues, "", "give either recipe or dockerfile");
		return -EINVAL;
	}
	if (source->recipe && source->files)
		image_issue(issues, "files", "goes with dockerfile; a recipe has files of its own");
	if (source->env)
		r = add_env(plan, source->env, issues);
	if (!r)
		r = source->recipe ? image_recipe_parse(plan, source->recipe, issues)
				   : parse_dockerfile(plan, source, issues, err);
	if (json_array_size(issues))
		return -EINVAL;
	return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
}

int image_source_plan(const char *home, const struct image_source *source, struct image_plan **out,
	struct image **base, json_t *issues, struct error *err)
{
	const char *cwd = "/workspace";
	struct image *found = NULL;
	struct image_plan *plan = NULL;
	struct error own = {0};
	int r = -EAGAIN;

	err = err ? err : &own;
	/* What is relative is so to the base's folder, and only the source says what its base is:
	 * a base with another folder means to read it again. */
	while (r == -EAGAIN) {
		image_plan_free(plan);
		plan = image_plan_new(cwd);
		r = plan ? parse(plan, source, issues, err) : -ENOMEM;
		if (r)
			break;
		if (!found)
			r = image_resolve(home, plan->base, &found, err);
		if (r == -ENOENT) /* and not what there is instead, which may be another's */
			error_set(err, r, "image %s, the base, is not here (sealmark image ls)",
				plan->base);
		if (r == -EINVAL)
			image_issue(issues, source->recipe ? "recipe.base" : "dockerfile", "%s",
				error_message(err));
		if (!r && strcmp(cwd, found->cwd) != 0) {
			cwd = found->cwd;
			r = -EAGAIN;
		}
	}
	if (r) {
		image_plan_free(plan);
		image_free(found);
		return r;
	}
	*out = plan;
	*base = found;
	return 0;
}

static void add_json(struct hash *h, const json_t *value)
{
	cleanup_free char *text =
		value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;

	hash_add_field(h, text ? text : "", text ? strlen(text) : 0);
}

void image_source_digest(const struct image_source *source, const struct image *base,
	const char *context, char *out_hex)
{
	struct hash *h = hash_new();

	out_hex[0] = 0;
	if (!h)
		return;
	hash_add_field(h, "build 1", 7);
	hash_add_field(h, base->digest, strlen(base->digest));
	add_json(h, source->recipe);
	add_json(h, source->dockerfile);
	add_json(h, source->files);
	add_json(h, source->arguments);
	add_json(h, source->env);
	hash_add_field(h, context ? context : "", context ? strlen(context) : 0);
	hash_end(h, out_hex);
	hash_free(h);
}

void image_source_name(const char *digest, char *out)
{
	text_format(out, IMAGE_NAME_MAX + 1, "build-%.16s", digest);
}

int image_source_same(const char *home, const char *name, const char *digest, struct image **out,
	struct error *err)
{
	struct image **images;
	size_t count, found;
	int r = image_list(home, &images, &count, err);

	if (r)
		return r;
	found = count;
	for (size_t i = 0; i < count; i++) {
		if (!images[i]->digest[0] || strcmp(images[i]->recipe_digest, digest) != 0)
			continue;
		if (found == count || (strcmp(images[i]->name, name) == 0 &&
					      strcmp(images[found]->name, name) != 0))
			found = i;
	}
	if (found < count) {
		*out = images[found];
		images[found] = images[--count];
	} else {
		r = error_set(err, -ENOENT, "no image was built so");
	}
	image_list_free(images, count);
	return r;
}
