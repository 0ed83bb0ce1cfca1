/* SPDX-License-Identifier: Apache-2.0 - folders with files for tests, gone at the end. */
#ifndef SEALMARK_TESTS_UNIT_GRADE_FOLDER_H
#define SEALMARK_TESTS_UNIT_GRADE_FOLDER_H

#include "base/path.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* path of a new folder below TMPDIR */
static inline void folder_new(char *out, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	if (text_format(out, size, "%s/sealmark-test.XXXXXX", tmp && *tmp ? tmp : "/tmp") ||
		!mkdtemp(out))
		abort();
}

static inline void folder_remove(const char *path)
{
	path_remove_tree(AT_FDCWD, path, NULL);
}

/* write folder/name with parents */
static inline void folder_put_bytes(
	const char *folder, const char *name, const void *bytes, size_t count)
{
	char path[PATH_MAX], parent[PATH_MAX];

	if (path_join(path, sizeof(path), folder, name, NULL) ||
		text_copy(parent, sizeof(parent), path))
		abort();
	*strrchr(parent, '/') = 0;
	if (path_make(parent, 0755, NULL) || path_write_whole(path, bytes, count, 0644, NULL))
		abort();
}

static inline void folder_put(const char *folder, const char *name, const char *text)
{
	folder_put_bytes(folder, name, text, strlen(text));
}

#endif
