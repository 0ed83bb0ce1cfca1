/* SPDX-License-Identifier: Apache-2.0 - where the helpers are: the build tree's or the installed.
 */
#include "sandbox/sandbox.h"

#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Set by meson: SEALMARK_LIBEXEC_DIR, SEALMARK_BUILD_ROOT, SEALMARK_SOURCE_ROOT. */
static const struct {
	const char *name, *root, *path;
} in_tree[] = {
	{"sealmark-monitor", SEALMARK_BUILD_ROOT, "src/monitor/sealmark-monitor"},
	{"agent.cpio", SEALMARK_BUILD_ROOT, "agent/agent.cpio"},
	{"setup", SEALMARK_SOURCE_ROOT, "guest/setup.sh"},
	{"examiner", SEALMARK_SOURCE_ROOT, "examiner"},
	{"web", SEALMARK_SOURCE_ROOT, "web/dist"},
};

static int present(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? 0 : -ENOENT;
}

/* the directory of the running program, without a final slash */
static int program_directory(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);
	char *slash;

	if (n <= 0)
		return -ENOENT;
	out[n] = 0;
	slash = strrchr(out, '/');
	if (!slash)
		return -ENOENT;
	*slash = 0;
	return 0;
}

static int find_in_tree(const char *name, char *out, size_t size)
{
	for (size_t i = 0; i < sizeof(in_tree) / sizeof(in_tree[0]); i++) {
		if (strcmp(in_tree[i].name, name))
			continue;
		if (text_format(out, size, "%s/%s", in_tree[i].root, in_tree[i].path))
			return -ENAMETOOLONG;
		return present(out);
	}
	return -ENOENT;
}

int sandbox_helper_path(const char *name, char *out, size_t size, struct error *err)
{
	const char *chosen = getenv("SEALMARK_LIBEXEC");
	char directory[PATH_MAX];
	bool known = program_directory(directory, sizeof(directory)) == 0;

	if (chosen && chosen[0]) {
		if (text_format(out, size, "%s/%s", chosen, name) || present(out))
			return error_set(err, -ENOENT,
				"%s/%s: not found; SEALMARK_LIBEXEC must name the folder of "
				"Sealmark's helper programs",
				chosen, name);
		return 0;
	}
	if (known && text_starts(directory, SEALMARK_BUILD_ROOT "/"))
		return find_in_tree(name, out, size)
			       ? error_set(err, -ENOENT, "%s: not built; run make", name)
			       : 0;
	if (known && text_format(out, size, "%s/../libexec/sealmark/%s", directory, name) == 0 &&
		present(out) == 0)
		return 0;
	if (text_format(out, size, "%s/%s", SEALMARK_LIBEXEC_DIR, name) == 0 && present(out) == 0)
		return 0;
	return error_set(err, -ENOENT,
		"the helper %s is not installed; run make install, or set SEALMARK_LIBEXEC", name);
}
