/* SPDX-License-Identifier: Apache-2.0 - patterns of file names. */
#ifndef SEALMARK_WIRE_GLOB_H
#define SEALMARK_WIRE_GLOB_H

#include <stdbool.h>

/* Does the relative path match the whole pattern? `*` and `?` stay within a name; a double star
 * that stands alone between slashes is any number of folders, also none; [a-z] and [!a-z] are one
 * of these letters. Bounded: a pattern costs at most its length times the path's. */
bool glob_matches(const char *pattern, const char *path);

#endif
