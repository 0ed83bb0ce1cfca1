/* SPDX-License-Identifier: Apache-2.0 - what image.c and manifest.c share. */
#ifndef SEALMARK_IMAGE_INTERNAL_H
#define SEALMARK_IMAGE_INTERNAL_H

#include "image/image.h"

/* Fill in from the text of a manifest; name and version must be those of the folder. */
int image_manifest_parse(
	const char *text, size_t count, struct image *image, const char *path, struct error *err);

/* <home>/images, home NULL: path_home(). */
int image_folder(const char *home, char *out, size_t size, struct error *err);

#endif
