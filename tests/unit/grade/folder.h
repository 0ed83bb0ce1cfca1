/* SPDX-License-Identifier: Apache-2.0 - folders with files for tests, gone at the end. */
#ifndef SEALMARK_TESTS_UNIT_GRADE_FOLDER_H
#define SEALMARK_TESTS_UNIT_GRADE_FOLDER_H

#include "base/path.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	int fd;

	if (path_join(path, sizeof(path), folder, name, NULL) ||
		text_copy(parent, sizeof(parent), path))
		abort();
	*strrchr(parent, '/') = 0;
	fd = path_make(parent, 0755, NULL)
		     ? -1
		     : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || path_write_fd(fd, bytes, count) || close(fd))
		abort();
}

static inline void folder_put(const char *folder, const char *name, const char *text)
{
	folder_put_bytes(folder, name, text, strlen(text));
}

#endif
