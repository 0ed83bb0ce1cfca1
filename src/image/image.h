/* SPDX-License-Identifier: Apache-2.0 - images: read-only root file systems, named and versioned.
 */
#ifndef SEALMARK_IMAGE_IMAGE_H
#define SEALMARK_IMAGE_IMAGE_H

#include "base/error.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/*
 * $SEALMARK_HOME/images/<name>/<version>/ holds rootfs.erofs and manifest.json and never changes;
 * <name>/latest is a symbolic link to a version. A reference is `name` (its latest) or
 * `name@version`. Used by the control side; the folder belongs to whoever runs Sealmark.
 */
#define IMAGE_NAME_MAX    63u
#define IMAGE_VERSION_MAX 31u

struct image_package {
	char *name, *version;
};

struct image {
	char name[IMAGE_NAME_MAX + 1];
	char version[IMAGE_VERSION_MAX + 1];
	char rootfs[PATH_MAX];  /* absolute path of rootfs.erofs, without `latest` in it */
	char digest[65];        /* SHA-256 of rootfs.erofs, as the manifest says */
	char recipe_digest[65]; /* of the recipe it was made from */
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

#endif
