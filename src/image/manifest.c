/* SPDX-License-Identifier: Apache-2.0 - the manifest of an image: manifest.json into struct image.
 */
#include "image/image_internal.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

static void decref(json_t **j)
{
	json_decref(*j);
}
#define cleanup_json cleanup(decref)

/* Most of an image's env entries and packages; a Debian with everything has some 60,000. */
#define ENV_MOST     256u
#define PACKAGE_MOST 100000u

static int wrong(const char *path, const char *field, const char *right, struct error *err)
{
	return error_set(err, -EBADMSG,
		"%s: %s: must be %s (build it again: sealmark setup --force)", path, field, right);
}

static int take_text(json_t *root, const char *field, const char *fallback, char **out,
	const char *path, struct error *err)
{
	json_t *value = json_object_get(root, field);
	const char *text = json_string_value(value);

	if (!value)
		text = fallback;
	if (!text)
		return wrong(path, field, "a text", err);
	*out = strdup(text);
	return *out ? 0 : error_sys(err, -ENOMEM, "%s", path);
}

static bool is_digest(const char *text, size_t least)
{
	size_t n = strlen(text);

	return n >= least && n <= 64 && strspn(text, "0123456789abcdef") == n;
}

static int take_digest(json_t *root, const char *field, size_t least, char *out, const char *path,
	struct error *err)
{
	const char *text = json_string_value(json_object_get(root, field));

	if (!text || !is_digest(text, least))
		return wrong(path, field, "a digest in lower case hexadecimal", err);
	text_copy(out, 65, text);
	return 0;
}

static int take_id(
	json_t *root, const char *field, uint32_t *out, const char *path, struct error *err)
{
	json_t *value = json_object_get(root, field);
	json_int_t id = value ? json_integer_value(value) : 1000;

	if ((value && !json_is_integer(value)) || id < 0 || id > UINT32_MAX - 1)
		return wrong(path, field, "a user or group id", err);
	*out = (uint32_t)id;
	return 0;
}

/* An id of ours, or nothing. */
static int take_word(
	json_t *root, const char *field, char *out, const char *path, struct error *err)
{
	const char *text = json_string_value(json_object_get(root, field));

	out[0] = 0;
	if (text && !id_is_like(text))
		return wrong(path, field, "a UUID", err);
	return text ? text_copy(out, ID_SIZE, text) : 0;
}

static int take_env(json_t *root, struct image *image, const char *path, struct error *err)
{
	json_t *env = json_object_get(root, "env"), *value;
	const char *name;

	if (env && !json_is_object(env))
		return wrong(path, "env", "an object of texts", err);
	if (json_object_size(env) > ENV_MOST)
		return wrong(path, "env", "an object of at most 256 texts", err);
	image->env = calloc(json_object_size(env) + 1, sizeof(image->env[0]));
	if (!image->env)
		return error_sys(err, -ENOMEM, "%s", path);
	json_object_foreach (env, name, value) {
		const char *text = json_string_value(value);

		if (!text || !*name || strchr(name, '='))
			return wrong(path, "env", "an object of texts", err);
		if (asprintf(&image->env[image->env_count], "%s=%s", name, text) < 0) {
			image->env[image->env_count] = NULL;
			return error_sys(err, -ENOMEM, "%s", path);
		}
		image->env_count++;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(
		((const struct image_package *)a)->name, ((const struct image_package *)b)->name);
}

static int take_packages(json_t *root, struct image *image, const char *path, struct error *err)
{
	json_t *packages = json_object_get(root, "packages"), *value;
	const char *name;

	if (!json_is_object(packages) || json_object_size(packages) > PACKAGE_MOST)
		return wrong(path, "packages", "an object of names and versions", err);
	image->packages = calloc(json_object_size(packages) + 1, sizeof(image->packages[0]));
	if (!image->packages)
		return error_sys(err, -ENOMEM, "%s", path);
	json_object_foreach (packages, name, value) {
		struct image_package *p = &image->packages[image->package_count];

		if (!json_is_string(value))
			return wrong(path, "packages", "an object of names and versions", err);
		image->package_count++;
		p->name = strdup(name);
		p->version = strdup(json_string_value(value));
		if (!p->name || !p->version)
			return error_sys(err, -ENOMEM, "%s", path);
	}
	if (image->package_count)
		qsort(image->packages, image->package_count, sizeof(image->packages[0]), by_name);
	return 0;
}

/* A version is a number in today's manifests and may be a text in other people's. */
static bool is_version(json_t *value, const char *expected)
{
	char number[32];

	if (json_is_string(value))
		return strcmp(json_string_value(value), expected) == 0;
	if (!json_is_integer(value))
		return false;
	return text_format(number, sizeof(number), "%lld", (long long)json_integer_value(value)) ==
		       0 &&
	       strcmp(number, expected) == 0;
}

int image_manifest_parse(
	const char *text, size_t count, struct image *image, const char *path, struct error *err)
{
	json_error_t where;
	cleanup_json json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &where);
	json_t *size;
	const char *name;
	int r;

	if (!root)
		return error_set(
			err, -EBADMSG, "%s:%d:%d: %s", path, where.line, where.column, where.text);
	if (!json_is_object(root))
		return error_set(err, -EBADMSG, "%s: must be a JSON object", path);
	name = json_string_value(json_object_get(root, "name"));
	if (!name || strcmp(name, image->name) != 0)
		return wrong(path, "name", "the name of its folder", err);
	if (!is_version(json_object_get(root, "version"), image->version))
		return wrong(path, "version", "the name of its folder", err);
	size = json_object_get(root, "size_bytes");
	if (!json_is_integer(size) || json_integer_value(size) <= 0)
		return wrong(path, "size_bytes", "a positive number", err);
	image->size_bytes = (uint64_t)json_integer_value(size);

	(void)((r = take_digest(root, "sha256", 64, image->digest, path, err)) ||
		(r = take_digest(root, "recipe_digest", 8, image->recipe_digest, path, err)) ||
		(r = take_word(root, "id", image->id, path, err)) ||
		(r = take_word(root, "owner", image->owner, path, err)) ||
		(r = take_text(root, "description", "", &image->description, path, err)) ||
		(r = take_text(root, "created", "", &image->created, path, err)) ||
		(r = take_text(root, "suite", "", &image->suite, path, err)) ||
		(r = take_text(root, "user", "runtime", &image->user, path, err)) ||
		(r = take_text(root, "cwd", "/workspace", &image->cwd, path, err)) ||
		(r = take_id(root, "uid", &image->uid, path, err)) ||
		(r = take_id(root, "gid", &image->gid, path, err)) ||
		(r = take_env(root, image, path, err)) ||
		(r = take_packages(root, image, path, err)));
	return r;
}
