/* SPDX-License-Identifier: Apache-2.0 - folders that commands are given: where they are. */
#ifndef SEALMARK_CLI_FOLDERS_H
#define SEALMARK_CLI_FOLDERS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* The absolute path of a folder that may not be there yet. */
int folders_absolute(const char *path, char *out, size_t size, struct error *err);

/* True when `path` (absolute, without links) is `folder` or below it. */
bool folders_is_inside(const char *path, const char *folder);

/* CLI_USAGE when one lies in the other: it would be taken for a part of it, submissions for tests
 * or tests for a student's. 0 also when one is not there, which is said elsewhere. */
int folders_check_apart(const char *tests, const char *submissions, struct error *err);

#endif
