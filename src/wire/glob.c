/* SPDX-License-Identifier: Apache-2.0 - patterns of file names, without a recursion to explode. */
#include "wire/glob.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

/* what is between two slashes */
struct part {
	const char *text;
	size_t count;
};

/* The next part from *at on, which is moved behind it; false at the end. */
static bool next(const char **at, struct part *out)
{
	*at += strspn(*at, "/");
	*out = (struct part){*at, strcspn(*at, "/")};
	*at += out->count;
	return out->count > 0;
}

static bool is_any(const struct part *p)
{
	return p->count == 2 && p->text[0] == '*' && p->text[1] == '*';
}

/* "[a-z]" at the front of a pattern: its length, or 0 */
static size_t set_length(const char *pattern, size_t left)
{
	const char *end = left && pattern[0] == '[' ? memchr(pattern, ']', left) : NULL;

	return end ? (size_t)(end - pattern) + 1 : 0;
}

static bool is_in_set(const char *text, size_t count, char letter)
{
	char set[64], name[2] = {letter, 0};

	if (count >= sizeof(set))
		return false;
	memcpy(set, text, count);
	set[count] = 0;
	return fnmatch(set, name, 0) == 0;
}

/* one name against one part, a letter at a time; a star that failed is tried one letter further */
static bool name_matches(const struct part *pattern, const struct part *name)
{
	size_t p = 0, n = 0, star = 0, from = 0;
	bool starred = false;

	while (n < name->count) {
		size_t left = pattern->count - p, set = set_length(pattern->text + p, left);
		char c = left ? pattern->text[p] : 0;
		bool same;

		if (c == '*') {
			starred = true;
			star = ++p;
			from = n;
			continue;
		}
		if (set)
			same = is_in_set(pattern->text + p, set, name->text[n]);
		else
			same = left && (c == '?' || c == name->text[n]);
		if (same) {
			p += set ? set : 1;
			n++;
		} else if (starred) {
			p = star;
			n = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern->count && pattern->text[p] == '*')
		p++;
	return p == pattern->count;
}

/* the same walk over the parts, with the double star as the star */
bool glob_matches(const char *pattern, const char *path)
{
	const char *p = pattern, *n = path, *star = NULL, *from = NULL;
	struct part want, name;

	if (!next(&p, &want) || !next(&n, &name))
		return false;
	p = pattern;
	n = path;
	for (;;) {
		const char *p_after = p, *n_after = n;
		bool more = next(&p_after, &want);

		if (!next(&n_after, &name))
			break;
		if (more && is_any(&want)) {
			star = p = p_after;
			from = n;
		} else if (more && name_matches(&want, &name)) {
			p = p_after;
			n = n_after;
		} else if (star) {
			next(&from, &name);
			p = star;
			n = from;
		} else {
			return false;
		}
	}
	while (next(&p, &want)) {
		if (!is_any(&want))
			return false;
	}
	return true;
}
