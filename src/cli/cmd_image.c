/* SPDX-License-Identifier: Apache-2.0 - sealmark image ls, show: the images of this host. */
#include "base/cleanup.h"
#include "cli/remote_image.h"
#include "image/image.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct image_options {
	struct remote_where where;
	bool verify;
};

static int put_json(json_t *json, struct error *err)
{
	int r = json ? json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) : -1;

	json_decref(json);
	if (r)
		return cli_ours(err, "out of memory");
	putchar('\n');
	return CLI_OK;
}

static json_t *image_json(const struct image *image)
{
	json_t *json = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s*, s:s*, s:s*, s:i}", "name",
		image->name, "version", image->version, "size_bytes", (json_int_t)image->size_bytes,
		"sha256", image->digest, "recipe_digest", image->recipe_digest, "created",
		image->created, "suite", image->suite, "description", image->description,
		"packages", (int)image->package_count);

	return json;
}

static void write_size(char *out, size_t size, uint64_t bytes)
{
	snprintf(out, size, "%llu MiB", (unsigned long long)((bytes + (1u << 19)) >> 20));
}

static int run_ls(
	const void *options, const char *const *operands, size_t operand_count, struct error *err)
{
	const struct image_options *o = options;
	struct image **images;
	size_t count;
	bool damaged = false;
	struct remote *remote;
	int status = remote_open_where(&o->where, &remote, err), r;

	if (status)
		return status;
	if (remote)
		return remote_image_ls(remote, NULL, o->where.remote.json, err);
	r = image_list(NULL, &images, &count, err);
	if (r)
		return r == -EINVAL ? CLI_USAGE : CLI_OURS;
	if (o->where.remote.json) {
		json_t *list = json_array();

		for (size_t i = 0; i < count; i++)
			json_array_append_new(list, image_json(images[i]));
		status = put_json(list, err);
	} else if (!count) {
		puts("no image yet; build one with: sealmark setup");
	} else {
		printf("%-16s %-8s %9s  %-12s  %s\n", "NAME", "VERSION", "SIZE", "DIGEST",
			"DESCRIPTION");
	}
	for (size_t i = 0; i < count && !o->where.remote.json; i++) {
		char size[32];

		write_size(size, sizeof(size), images[i]->size_bytes);
		printf("%-16s %-8s %9s  %-12.12s  %s\n", images[i]->name, images[i]->version,
			images[i]->digest[0] ? size : "-",
			images[i]->digest[0] ? images[i]->digest : "damaged",
			images[i]->description ? images[i]->description : "");
	}
	for (size_t i = 0; i < count; i++)
		damaged = damaged || !images[i]->digest[0];
	image_list_free(images, count);
	return status ? status : damaged ? CLI_ATTENTION : CLI_OK;
}

static int show_json(const struct image *image, bool verified, struct error *err)
{
	json_t *json = image_json(image), *packages = json_object(), *env = json_array();

	for (size_t i = 0; i < image->package_count; i++)
		json_object_set_new(
			packages, image->packages[i].name, json_string(image->packages[i].version));
	for (size_t i = 0; i < image->env_count; i++)
		json_array_append_new(env, json_string(image->env[i]));
	json_object_set_new(json, "packages", packages);
	json_object_set_new(json, "env", env);
	json_object_set_new(json, "user", json_string(image->user));
	json_object_set_new(json, "uid", json_integer(image->uid));
	json_object_set_new(json, "gid", json_integer(image->gid));
	json_object_set_new(json, "cwd", json_string(image->cwd));
	json_object_set_new(json, "path", json_string(image->rootfs));
	if (verified)
		json_object_set_new(json, "verified", json_true());
	return put_json(json, err);
}

static void show_text(const struct image *image, bool verified)
{
	char size[32];

	write_size(size, sizeof(size), image->size_bytes);
	printf("image     %s@%s\n", image->name, image->version);
	printf("about     %s\n", image->description);
	printf("file      %s (%s)\n", image->rootfs, size);
	printf("sha256    %s%s\n", image->digest, verified ? " (verified)" : "");
	printf("recipe    %s\n", image->recipe_digest);
	printf("created   %s from Debian %s\n", image->created, image->suite);
	printf("programs  run as %s (%u:%u) in %s\n", image->user, image->uid, image->gid,
		image->cwd);
	for (size_t i = 0; i < image->env_count; i++)
		printf("%-9s %s\n", i ? "" : "env", image->env[i]);
	printf("packages  %zu\n", image->package_count);
	for (size_t i = 0; i < image->package_count; i++)
		printf("          %s %s\n", image->packages[i].name, image->packages[i].version);
}

static int run_show(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct image_options *o = options;
	struct image *image;
	struct remote *remote;
	int status = remote_open_where(&o->where, &remote, err), r;

	if (status)
		return status;
	if (remote && !o->verify)
		return remote_image_show(remote, operands[0], o->where.remote.json, err);
	remote_free(remote);
	if (remote)
		return cli_usage(err, "--verify: only for images of this host (--local)");
	r = image_resolve(NULL, operands[0], &image, err);
	if (r == -EINVAL || r == -ENOENT)
		return CLI_USAGE;
	if (r)
		return CLI_OURS;
	if (o->verify && image_verify(image, err))
		status = CLI_OURS;
	else if (o->where.remote.json)
		status = show_json(image, o->verify, err);
	else
		show_text(image, o->verify);
	image_free(image);
	return status;
}

static const struct cli_option ls_options[] = {
	REMOTE_WHERE_OPTIONS(struct image_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_image_ls = {
	.name = "image ls",
	.summary = "List the images that machines can start from",
	.text = "All versions of all images in $SEALMARK_HOME/images, the newest first. The\n"
		"exit status is 1 when one of them is damaged.",
	.examples = "sealmark image ls\nsealmark image ls --json\n",
	.options = ls_options,
	.size = sizeof(struct image_options),
	.run = run_ls,
};

static const struct cli_option show_options[] = {
	REMOTE_WHERE_OPTIONS(struct image_options),
	CLI_OPTION("verify", 0, NULL,
		"read the whole image and compare its digest with the manifest's", "--verify",
		cli_flag, offsetof(struct image_options, verify)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_image_show = {
	.name = "image show",
	.summary = "Show what is in an image: packages, versions, digest",
	.operands = "NAME[@VERSION]",
	.examples = "sealmark image show default\nsealmark image show default@1 --verify\n",
	.options = show_options,
	.size = sizeof(struct image_options),
	.least = 1,
	.most = 1,
	.run = run_show,
};
