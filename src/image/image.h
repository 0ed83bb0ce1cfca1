/* SPDX-License-Identifier: Apache-2.0 - images: read-only root file systems, named and versioned.
 */
#ifndef SEALMARK_IMAGE_IMAGE_H
#define SEALMARK_IMAGE_IMAGE_H

#include "base/error.h"
#include "base/id.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * $SEALMARK_HOME/images/<name>/<version>/ holds rootfs.erofs and manifest.json and never changes;
 * an empty one was deleted, and its number is not used again. <name>/<tag> is a symbolic link to a
 * version; `latest` is the tag of the last one made. A reference is `name` (its latest), `name:tag`
 * or `name@version`. Used by the control side; the folder belongs to whoever runs Sealmark.
 */
#define IMAGE_NAME_MAX    63u
#define IMAGE_VERSION_MAX 31u
#define IMAGE_TAG_MAX     63u

struct image_package {
	char *name, *version;
};

struct image {
	char name[IMAGE_NAME_MAX + 1];
	char version[IMAGE_VERSION_MAX + 1];
	char rootfs[PATH_MAX];  /* absolute path of rootfs.erofs, without `latest` in it */
	char digest[65];        /* SHA-256 of rootfs.erofs, as the manifest says */
	char recipe_digest[65]; /* of the recipe it was made from */
	char id[ID_SIZE];       /* of the build that made it, "" when setup did */
	char owner[ID_SIZE];    /* the key that asked for the build, or "" */
	uint64_t size_bytes;
	char *description, *created, *suite;
	char *user, *cwd; /* whose programs run in it, and where; "runtime", "/workspace" */
	uint32_t uid, gid;
	char **env; /* NULL-terminated "NAME=value": the environment of a program */
	size_t env_count;
	struct image_package *packages; /* sorted by name */
	size_t package_count;
};

/* Find by reference and read its manifest. -EINVAL: not a reference; -ENOENT: no such image (the
 * message names those there are, or the cure). home NULL: path_home(). Free with image_free(). */
int image_resolve(const char *home, const char *reference, struct image **out, struct error *err);
void image_free(struct image *image);

/* All versions of all images, by name and then newest first. Damaged ones have digest "" and the
 * reason as description. *out: array of *count, free with image_list_free(). */
int image_list(const char *home, struct image ***out, size_t *count, struct error *err);
void image_list_free(struct image **images, size_t count);

/* Read all of rootfs.erofs and compare its digest with the manifest's; -EBADMSG when it differs. */
int image_verify(const struct image *image, struct error *err);

/* Lower case letters, digits, dot, dash, underscore, no dot or dash first. */
bool image_is_name(const char *text);
/* A name with a letter first: never a version. */
bool image_is_tag(const char *text);

/* --- versions.c: changes, each whole or not made. home NULL: path_home(). --- */

/* The tags of a version, NULL-terminated, sorted; free with image_tags_free(). */
int image_tags(
	const char *home, const char *name, const char *version, char ***out, struct error *err);
void image_tags_free(char **tags);
/* Point a tag of the name at this version. */
int image_tag(const char *home, const char *name, const char *version, const char *tag,
	struct error *err);
/* -ENOENT when this version does not have it. */
int image_untag(const char *home, const char *name, const char *version, const char *tag,
	struct error *err);
/* Take away the version and its tags; the machines that run from it go on. */
int image_delete(const char *home, const char *name, const char *version, struct error *err);
/* A new folder for a version in the making, in `out` (PATH_MAX bytes); its name tells the build. */
int image_stage(const char *home, const char *build, char *out, struct error *err);
void image_stage_remove(const char *home, const char *build);
/* The folder of image_stage(), which has its rootfs.erofs, becomes the next version of the
 * manifest's name. `manifest` is complete but for `version`, which is set here. */
struct json_t;
int image_install(const char *home, const char *build, struct json_t *manifest,
	const char *const *tags, char *version, struct error *err);

#endif
