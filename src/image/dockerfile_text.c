/* SPDX-License-Identifier: Apache-2.0 - words of a Dockerfile: variables, quotes, escapes. */
#include "image/plan.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define EXPANDED_MOST (256u << 10)
#define DEPTH_MOST    8

struct expansion {
	const struct image_plan *plan;
	char escape;
	bool words;
	struct buffer *out;
	struct error *err;
};

static int put(struct expansion *e, const char *bytes, size_t count)
{
	int r;

	if (buffer_length(e->out) + count > EXPANDED_MOST)
		return error_set(e->err, -EINVAL, "is too long once its variables are put in");
	r = buffer_add(e->out, bytes, count);
	return r ? error_set(e->err, r, "out of memory") : 0;
}

static int expand(struct expansion *e, const char *text, size_t count, unsigned depth);

static size_t name_length(const char *text, size_t count)
{
	size_t n = 0;

	while (n < count && (isalnum((unsigned char)text[n]) || text[n] == '_'))
		n++;
	return n && isdigit((unsigned char)text[0]) ? 1 : n;
}

static const char *value_of(const struct expansion *e, const char *name, size_t count)
{
	char text[257];

	if (count >= sizeof(text))
		return NULL;
	memcpy(text, name, count);
	text[count] = 0;
	return image_plan_value(e->plan, text);
}

/* The end of what began with "${", past its "}"; 0: there is none. */
static size_t brace_length(const struct expansion *e, const char *text, size_t count)
{
	unsigned open = 1;

	for (size_t i = 2; i < count; i++) {
		if (text[i] == e->escape)
			i++;
		else if (text[i] == '{' && text[i - 1] == '$')
			open++;
		else if (text[i] == '}' && !--open)
			return i + 1;
	}
	return 0;
}

/* "${NAME}", "${NAME:-word}", "${NAME:+word}": `count` bytes with the braces */
static int expand_brace(struct expansion *e, const char *text, size_t count, unsigned depth)
{
	const char *rest = text + 2, *value;
	size_t left = count - 3, n = name_length(rest, left);
	bool set;

	value = n ? value_of(e, rest, n) : NULL;
	rest += n;
	left -= n;
	if (n && !left)
		return value ? put(e, value, strlen(value)) : 0;
	if (!n || left < 2 || rest[0] != ':' || (rest[1] != '-' && rest[1] != '+'))
		return error_set(e->err, -EINVAL,
			"%.*s: of a variable there is ${NAME}, ${NAME:-word} and ${NAME:+word}",
			(int)(count < 60 ? count : 60), text);
	set = value && *value;
	if (set == (rest[1] == '-'))
		return set ? put(e, value, strlen(value)) : 0;
	return expand(e, rest + 2, left - 2, depth + 1);
}

/* At a '$': how much of text was used is in *used. */
static int expand_dollar(
	struct expansion *e, const char *text, size_t count, unsigned depth, size_t *used)
{
	const char *value;
	size_t n;

	if (count > 1 && text[1] == '{') {
		*used = brace_length(e, text, count);
		if (!*used)
			return error_set(e->err, -EINVAL, "\"${\" without its \"}\"");
		return expand_brace(e, text, *used, depth);
	}
	n = name_length(text + 1, count - 1);
	*used = n + 1;
	if (!n)
		return put(e, "$", 1);
	value = value_of(e, text + 1, n);
	return value ? put(e, value, strlen(value)) : 0;
}

/* What stands between double quotes, or everything where there are no words. */
static int expand(struct expansion *e, const char *text, size_t count, unsigned depth)
{
	int r = 0;

	if (depth > DEPTH_MOST)
		return error_set(e->err, -EINVAL, "too many variables within each other");
	for (size_t i = 0, used = 1; i < count && !r; i += used) {
		used = 1;
		if (text[i] == e->escape && i + 1 < count) {
			/* within quotes it takes only the meanings that there are */
			if (!strchr("\"$", text[i + 1]) && text[i + 1] != e->escape)
				r = put(e, text + i, 1);
			if (!r)
				r = put(e, text + i + 1, 1);
			used = 2;
		} else if (text[i] == '$') {
			r = expand_dollar(e, text + i, count - i, depth, &used);
		} else {
			r = put(e, text + i, 1);
		}
	}
	return r;
}

/* The length of a quoted text from its first quote past its last; 0: it does not end. */
static size_t quoted_length(const struct expansion *e, const char *text)
{
	for (size_t i = 1; text[i]; i++) {
		if (text[i] == e->escape && text[0] == '"' && text[i + 1])
			i++;
		else if (text[i] == text[0])
			return i + 1;
	}
	return 0;
}

static int one_word(struct expansion *e, const char **text)
{
	const char *p = *text;
	size_t used;
	int r = 0;

	while (*p && !isspace((unsigned char)*p) && !r) {
		used = 1;
		if (*p == '\'' || *p == '"') {
			used = quoted_length(e, p);
			if (!used)
				return error_set(e->err, -EINVAL, "a quote that does not end");
			r = *p == '\'' ? put(e, p + 1, used - 2) : expand(e, p + 1, used - 2, 0);
		} else if (*p == e->escape && p[1]) {
			r = put(e, p + 1, 1);
			used = 2;
		} else if (*p == '$') {
			r = expand_dollar(e, p, strlen(p), 0, &used);
		} else {
			r = put(e, p, 1);
		}
		p += used;
	}
	*text = p;
	return r ? r : put(e, "", 1);
}

int image_dockerfile_expand(const struct image_plan *plan, const char *text, char escape,
	bool words, struct buffer *out, struct error *err)
{
	struct expansion e = {plan, escape, words, out, err};
	int r = 0;

	if (!words) {
		r = expand(&e, text, strlen(text), 0);
		return r ? r : put(&e, "", 1);
	}
	for (text += strspn(text, " \t\n"); *text && !r; text += strspn(text, " \t\n"))
		r = one_word(&e, &text);
	return r;
}
