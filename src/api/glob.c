/* SPDX-License-Identifier: Apache-2.0 - patterns of file names, without a recursion to explode. */
#include "api/glob.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MOST 64

/* split at slashes, in place; -1 when there are too many parts */
static int split(char *text, char **parts)
{
	int n = 0;

	for (char *p = text; p;) {
		char *slash = strchr(p, '/');

		if (n == PARTS_MOST)
			return -1;
		if (slash)
			*slash++ = 0;
		if (*p)
			parts[n++] = p;
		p = slash;
	}
	return n;
}

/* one name against one part, a letter at a time; a star that failed is tried one letter further */
static bool name_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		size_t n = pattern[0] == '[' ? strcspn(pattern, "]") : 0;
		bool same = pattern[0] == '?' || (pattern[0] && pattern[0] == name[0]);

		if (*pattern == '*') {
			star = ++pattern;
			from = name;
			continue;
		}
		if (n && pattern[n]) {
			char set[64], letter[2] = {name[0], 0};

			same = n + 1 < sizeof(set);
			if (same) {
				memcpy(set, pattern, n + 1);
				set[n + 1] = 0;
				same = fnmatch(set, letter, 0) == 0;
			}
		} else {
			n = 0;
		}
		if (same) {
			pattern += n + 1;
			name++;
		} else if (star) {
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* the same walk over the parts, with the double star as the star */
static bool parts_match(char **pattern, int patterns, char **path, int names)
{
	int p = 0, n = 0, star = -1, from = 0;

	while (n < names) {
		if (p < patterns && strcmp(pattern[p], "**") == 0) {
			star = ++p;
			from = n;
		} else if (p < patterns && name_matches(pattern[p], path[n])) {
			p++;
			n++;
		} else if (star >= 0) {
			p = star;
			n = ++from;
		} else {
			return false;
		}
	}
	while (p < patterns && strcmp(pattern[p], "**") == 0)
		p++;
	return p == patterns;
}

bool glob_matches(const char *pattern, const char *path)
{
	char *parts[PARTS_MOST], *names[PARTS_MOST];
	char *own_pattern = strdup(pattern), *own_path = strdup(path);
	bool matches = false;
	int p, n;

	if (own_pattern && own_path) {
		p = split(own_pattern, parts);
		n = split(own_path, names);
		matches = p > 0 && n > 0 && parts_match(parts, p, names, n);
	}
	free(own_pattern);
	free(own_path);
	return matches;
}
