/* SPDX-License-Identifier: Apache-2.0 - sealmark image versions, tag, untag, logs, rm. */
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "cli/remote_image.h"
#include "image/build.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct version_options {
	struct remote_where where;
};

static int status_of(int r)
{
	return r == -ENOENT || r == -EINVAL ? CLI_USAGE : r ? CLI_OURS : CLI_OK;
}

static json_t *tags_json(const struct image *image)
{
	json_t *out = json_array();
	char **tags;

	if (image_tags(NULL, image->name, image->version, &tags, NULL) == 0) {
		for (char **t = tags; *t; t++)
			json_array_append_new(out, json_string(*t));
		image_tags_free(tags);
	}
	return out;
}

static void print_version(const struct image *image)
{
	char **tags;

	printf("%-8s %6llu MiB  %-20.20s ", image->version,
		(unsigned long long)((image->size_bytes + (1u << 19)) >> 20),
		image->created ? image->created : "damaged");
	if (image_tags(NULL, image->name, image->version, &tags, NULL) == 0) {
		for (char **t = tags; *t; t++)
			printf(" %s", *t);
		image_tags_free(tags);
	}
	putchar('\n');
}

static int versions_here(
	const void *options, const char *const *operands, size_t operand_count, struct error *err)
{
	const struct version_options *o = options;
	json_t *list = json_array();
	struct image **images;
	size_t count, shown = 0;
	int r = image_list(NULL, &images, &count, err);

	for (size_t i = 0; !r && i < count; i++) {
		if (strcmp(images[i]->name, operands[0]) != 0)
			continue;
		shown++;
		if (o->where.remote.json)
			json_array_append_new(list,
				json_pack("{ss ss so sI ss* ss* ss}", "name", images[i]->name,
					"version", images[i]->version, "tags", tags_json(images[i]),
					"size_bytes", (json_int_t)images[i]->size_bytes, "created",
					images[i]->created, "description", images[i]->description,
					"sha256", images[i]->digest));
		else
			print_version(images[i]);
	}
	if (!r)
		image_list_free(images, count);
	if (!r && o->where.remote.json && shown) {
		json_dumpf(list, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	}
	json_decref(list);
	if (!r && !shown)
		return cli_usage(err, "image %.80s: is not here (sealmark image ls)", operands[0]);
	return status_of(r);
}

/* tag and untag: NAME[:TAG|@VERSION] TAG */
static int change_tag(const char *const *operands, bool add, struct error *err)
{
	struct image *image;
	int r = image_resolve(NULL, operands[0], &image, err);

	if (r)
		return status_of(r);
	r = add ? image_tag(NULL, image->name, image->version, operands[1], err)
		: image_untag(NULL, image->name, image->version, operands[1], err);
	if (!r)
		printf("%s:%s %s %s@%s\n", image->name, operands[1], add ? "is" : "is no longer",
			image->name, image->version);
	image_free(image);
	return status_of(r);
}

static int tag_here(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	return change_tag(operands, true, err);
}

static int untag_here(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	return change_tag(operands, false, err);
}

/* the newest build of the name, or the one that made the version, or an id itself */
static int find_build(const char *reference, char *id, struct error *err)
{
	struct image *image = NULL;
	json_t *list, *about;
	size_t i;
	int r;

	id[0] = 0;
	if (strchr(reference, '@') || strchr(reference, ':')) {
		r = image_resolve(NULL, reference, &image, err);
		if (r)
			return r;
	}
	r = image_builds(NULL, &list, err);
	if (r) {
		image_free(image);
		return r;
	}
	json_array_foreach (list, i, about) {
		const char *of = json_string_value(json_object_get(about, "id"));

		if (image ? strcmp(image->id, of) == 0
			  : strcmp(json_string_value(json_object_get(about, "name")), reference) ==
						0 ||
					strcmp(of, reference) == 0)
			snprintf(id, ID_SIZE, "%s", of);
	}
	json_decref(list);
	image_free(image);
	return id[0] ? 0
		     : error_set(err, -ENOENT, "%.80s: no build of it is known here", reference);
}

static int logs_here(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct version_options *o = options;
	struct buffer text = {0};
	char id[ID_SIZE], path[PATH_MAX], *line, *next;
	int r = find_build(operands[0], id, err);

	r = r ? r : image_build_log(NULL, id, path, err);
	r = r ? r : path_read(path, 2 * (size_t)IMAGE_LOG_MOST, &text, err);
	for (line = r ? NULL : buffer_text(&text); line && *line; line = next) {
		json_t *json;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		json = o->where.remote.json ? NULL : json_loads(line, 0, NULL);
		if (json && json_string_value(json_object_get(json, "text")))
			puts(json_string_value(json_object_get(json, "text")));
		else if (o->where.remote.json)
			puts(line);
		json_decref(json);
	}
	buffer_fini(&text);
	return status_of(r);
}

static int rm_here(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct image *image;
		int r = image_resolve(NULL, operands[i], &image, err);

		if (r)
			return status_of(r);
		r = image_delete(NULL, image->name, image->version, err);
		if (!r && image->id[0])
			image_build_forget(NULL, image->id, NULL);
		if (!r)
			printf("%s@%s is gone\n", image->name, image->version);
		image_free(image);
		if (r)
			return status_of(r);
	}
	return CLI_OK;
}

/* --- on a server, when one is in use --- */

static int versions_there(
	struct remote *r, const char *const *operands, bool json, struct error *err)
{
	return remote_image_ls(r, operands[0], json, err);
}

static int tag_there(struct remote *r, const char *const *operands, bool json, struct error *err)
{
	return remote_image_tag(r, operands[0], operands[1], true, err);
}

static int untag_there(struct remote *r, const char *const *operands, bool json, struct error *err)
{
	return remote_image_tag(r, operands[0], operands[1], false, err);
}

static int logs_there(struct remote *r, const char *const *operands, bool json, struct error *err)
{
	return remote_image_logs(r, operands[0], json, err);
}

static int rm_there(struct remote *r, const char *const *operands, bool json, struct error *err)
{
	return remote_image_rm(r, operands, err);
}

enum verb { VERSIONS, TAG, UNTAG, LOGS, RM };

static const struct {
	int (*here)(
		const void *options, const char *const *operands, size_t count, struct error *err);
	int (*there)(struct remote *r, const char *const *operands, bool json, struct error *err);
} verbs[] = {
	[VERSIONS] = {versions_here, versions_there},
	[TAG] = {tag_here, tag_there},
	[UNTAG] = {untag_here, untag_there},
	[LOGS] = {logs_here, logs_there},
	[RM] = {rm_here, rm_there},
};

static int run(enum verb verb, const struct version_options *o, const char *const *operands,
	size_t count, struct error *err)
{
	struct remote *r;
	int status = remote_open_where(&o->where, &r, err);

	if (status)
		return status;
	return r ? verbs[verb].there(r, operands, o->where.remote.json, err)
		 : verbs[verb].here(o, operands, count, err);
}

/* a command's function is not told which command it is */
#define RUN(name, verb)                                                                            \
	static int name(                                                                           \
		const void *options, const char *const *operands, size_t count, struct error *err) \
	{                                                                                          \
		return run(verb, options, operands, count, err);                                   \
	}
RUN(run_versions, VERSIONS)
RUN(run_tag, TAG)
RUN(run_untag, UNTAG)
RUN(run_logs, LOGS)
RUN(run_rm, RM)

static const struct cli_option where_options[] = {
	REMOTE_WHERE_OPTIONS(struct version_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_image_versions = {
	.name = "image versions",
	.summary = "List the versions of an image with their tags",
	.operands = "NAME",
	.examples = "sealmark image versions cs101-grader\n",
	.options = where_options,
	.size = sizeof(struct version_options),
	.least = 1,
	.most = 1,
	.run = run_versions,
};

const struct cli_command cli_image_tag = {
	.name = "image tag",
	.summary = "Point a tag at a version",
	.operands = "NAME[@VERSION] TAG",
	.text = "A sandbox made from NAME:TAG then starts from that version. NAME alone is its\n"
		"tag latest, which every build moves.",
	.examples = "sealmark image tag cs101-grader@3 exam\n",
	.options = where_options,
	.size = sizeof(struct version_options),
	.least = 2,
	.most = 2,
	.run = run_tag,
};

const struct cli_command cli_image_untag = {
	.name = "image untag",
	.summary = "Take a tag away from a version",
	.operands = "NAME[@VERSION] TAG",
	.examples = "sealmark image untag cs101-grader@3 exam\n",
	.options = where_options,
	.size = sizeof(struct version_options),
	.least = 2,
	.most = 2,
	.run = run_untag,
};

const struct cli_command cli_image_logs = {
	.name = "image logs",
	.summary = "Print what a build has said",
	.operands = "NAME[@VERSION]",
	.text = "NAME alone, or the id of a build: the last build, whether it succeeded or not.",
	.examples = "sealmark image logs cs101-grader\nsealmark image logs cs101-grader@2\n",
	.options = where_options,
	.size = sizeof(struct version_options),
	.least = 1,
	.most = 1,
	.run = run_logs,
};

const struct cli_command cli_image_rm = {
	.name = "image rm",
	.summary = "Delete versions of images",
	.operands = "NAME[@VERSION]...",
	.text = "NAME alone is its tag latest. Machines that run from the version go on; its "
		"number\n"
		"is not used again.",
	.examples = "sealmark image rm cs101-grader@1 cs101-grader@2\n",
	.options = where_options,
	.size = sizeof(struct version_options),
	.least = 1,
	.most = 100,
	.run = run_rm,
};
