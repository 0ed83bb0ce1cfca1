/* SPDX-License-Identifier: Apache-2.0 - folders that commands are given, see folders.h. */
#include "cli/folders.h"

#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int folders_absolute(const char *path, char *out, size_t size, struct error *err)
{
	char part[PATH_MAX], real[PATH_MAX];
	const char *rest = path + strlen(path);

	for (;;) {
		size_t n = (size_t)(rest - path);

		if (n >= sizeof(part))
			return error_set(err, -ENAMETOOLONG, "%s: path is too long", path);
		memcpy(part, path, n);
		part[n] = 0;
		if (realpath(n ? part : (*path == '/' ? "/" : "."), real))
			break;
		if (n == 0 || (errno != ENOENT && errno != ENOTDIR))
			return error_sys(err, errno, "%s", path);
		while (rest > path && rest[-1] == '/')
			rest--;
		while (rest > path && rest[-1] != '/')
			rest--;
	}
	rest += strspn(rest, "/");
	if (!*rest)
		return text_copy(out, size, real);
	return path_join(out, size, real, rest, err);
}

bool folders_is_inside(const char *path, const char *folder)
{
	char real[PATH_MAX];
	size_t n;

	if (!realpath(folder, real))
		return false;
	n = strlen(real);
	return strncmp(path, real, n) == 0 && (path[n] == 0 || path[n] == '/' || n == 1);
}

int folders_check_apart(const char *tests, const char *submissions, struct error *err)
{
	char real_tests[PATH_MAX], real_submissions[PATH_MAX];

	if (!realpath(tests, real_tests) || !realpath(submissions, real_submissions))
		return 0; /* what is wrong with them is said elsewhere */
	if (strcmp(real_tests, real_submissions) == 0)
		return cli_usage(
			err, "%s holds the tests and the submissions; put them apart", tests);
	if (folders_is_inside(real_submissions, tests))
		return cli_usage(err,
			"the submissions (%s) lie in the folder of tests (%s) and would be taken "
			"for tests; put the tests in a folder of their own",
			submissions, tests);
	if (folders_is_inside(real_tests, submissions))
		return cli_usage(err,
			"the tests (%s) lie among the submissions (%s) and would be taken for "
			"one; put them elsewhere",
			tests, submissions);
	return 0;
}
