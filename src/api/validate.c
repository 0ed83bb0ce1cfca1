/* SPDX-License-Identifier: Apache-2.0 - what requests may say: checked against the table, every
 * wrong field named at once. */
#include "api/internal.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ISSUES_MOST 50
#define PATH_MOST   200

static void complain(json_t *issues, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void complain(json_t *issues, const char *path, const char *format, ...)
{
	struct buffer safe = {0};
	char message[300];
	va_list ap;

	if (json_array_size(issues) >= ISSUES_MOST)
		return;
	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	if (text_add_safe(&safe, path, strlen(path), false) == 0 && buffer_text(&safe))
		json_array_append_new(issues,
			json_pack("{ss ss}", "path", buffer_text(&safe), "message", message));
	buffer_fini(&safe);
}

/* "a" + "b" -> "a.b" */
static const char *below(char *out, const char *path, const char *name)
{
	snprintf(out, PATH_MOST, "%s%s%.80s", path, path[0] ? "." : "", name);
	return out;
}

/* is text one of "a|b|c"? */
static bool is_among(const char *values, const char *text)
{
	size_t n = strchr(text, '|') ? 0 : strlen(text);

	for (const char *p = values; n && *p; p += strcspn(p, "|"), p += *p == '|') {
		if (strncmp(p, text, n) == 0 && (p[n] == '|' || !p[n]))
			return true;
	}
	return false;
}

static void check_text(const struct field *f, const json_t *value, const char *path, json_t *issues)
{
	const char *text = json_string_value(value);
	size_t n = json_string_length(value);

	if (!text)
		complain(issues, path, "must be a string");
	else if (strlen(text) != n)
		complain(issues, path, "must not hold a zero byte");
	else if (f->values && !is_among(f->values, text))
		complain(issues, path, "must be one of %s", f->values);
	else if (!f->values && (n < (size_t)f->least || n > (size_t)f->most))
		complain(issues, path, "must have %lld to %lld bytes", (long long)f->least,
			(long long)f->most);
}

static void check_texts(
	const struct field *f, const json_t *value, const char *path, json_t *issues)
{
	const struct field one = {.values = f->values, .least = 0, .most = 131072};
	char item[PATH_MOST + 32];
	const json_t *text;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) < (size_t)f->least ||
		json_array_size(value) > (size_t)f->most) {
		complain(issues, path, "must be a list of %lld to %lld strings",
			(long long)f->least, (long long)f->most);
		return;
	}
	json_array_foreach (value, i, text) {
		snprintf(item, sizeof(item), "%s[%zu]", path, i);
		check_text(&one, text, item, issues);
	}
}

static void check_map(const struct field *f, const json_t *value, const char *path, json_t *issues)
{
	const struct field one = {.least = 0, .most = 32768};
	char item[PATH_MOST];
	const char *name;
	json_t *text;

	if (!json_is_object(value)) {
		complain(issues, path, "must be an object of strings");
		return;
	}
	if (json_object_size(value) > (size_t)f->most)
		complain(issues, path, "must have at most %lld entries", (long long)f->most);
	json_object_foreach ((json_t *)(uintptr_t)value, name, text) {
		if (!name[0] || strlen(name) > 256)
			complain(issues, below(item, path, name), "names have 1 to 256 bytes");
		else if (!(f->null && json_is_null(text)))
			check_text(&one, text, below(item, path, name), issues);
	}
}

static void check(const struct field *f, const json_t *value, const char *path, json_t *issues)
{
	if (json_is_null(value) && f->null)
		return;
	switch (f->kind) {
	case FIELD_TEXT:
		check_text(f, value, path, issues);
		break;
	case FIELD_INTEGER:
		if (!json_is_integer(value) || json_integer_value(value) < f->least ||
			json_integer_value(value) > f->most)
			complain(issues, path, "must be an integer from %lld to %lld",
				(long long)f->least, (long long)f->most);
		break;
	case FIELD_BOOLEAN:
		if (!json_is_boolean(value))
			complain(issues, path, "must be true or false");
		break;
	case FIELD_TEXTS:
		check_texts(f, value, path, issues);
		break;
	case FIELD_MAP:
		check_map(f, value, path, issues);
		break;
	case FIELD_ANY:
		break;
	case FIELD_OBJECT:
		validate_object(f->fields, value, path, issues);
		break;
	}
}

static const struct field *find(const struct field *fields, const char *name)
{
	for (const struct field *f = fields; f && f->name; f++) {
		if (strcmp(f->name, name) == 0)
			return f;
	}
	return NULL;
}

static void complain_unknown(
	const struct field *fields, const char *name, const char *path, json_t *issues)
{
	const char *names[64], *nearest;
	size_t n = 0;

	for (const struct field *f = fields; f && f->name && n < 63; f++)
		names[n++] = f->name;
	names[n] = NULL;
	nearest = text_nearest(name, names);
	if (nearest)
		complain(issues, path, "is not a known field; did you mean %s?", nearest);
	else
		complain(issues, path, "is not a known field");
}

void validate_object(
	const struct field *fields, const json_t *value, const char *path, json_t *issues)
{
	char item[PATH_MOST];
	const char *name;
	json_t *given;

	if (!json_is_object(value)) {
		complain(issues, path, "must be an object");
		return;
	}
	json_object_foreach ((json_t *)(uintptr_t)value, name, given) {
		const struct field *f = find(fields, name);

		if (f)
			check(f, given, below(item, path, name), issues);
		else
			complain_unknown(fields, name, below(item, path, name), issues);
	}
	for (const struct field *f = fields; f && f->name; f++) {
		if (f->required && !json_object_get(value, f->name))
			complain(issues, below(item, path, f->name), "is missing");
	}
}

/* the value of a query's text: what the field says, or the text itself, which check() refuses */
static json_t *typed(const struct field *f, const json_t *texts)
{
	const char *text = json_string_value(json_array_get(texts, 0));
	char *end;
	long long n;

	if (f->kind == FIELD_TEXTS)
		return json_incref((json_t *)(uintptr_t)texts);
	if (f->kind == FIELD_BOOLEAN && is_among("true|1", text))
		return json_true();
	if (f->kind == FIELD_BOOLEAN && is_among("false|0", text))
		return json_false();
	if (f->kind == FIELD_INTEGER && *text) {
		errno = 0;
		n = strtoll(text, &end, 10);
		if (!errno && !*end && strspn(text, "-0123456789") == strlen(text))
			return json_integer(n);
	}
	return json_string(text);
}

void validate_query(const struct field *fields, const json_t *given, json_t *out, json_t *issues)
{
	char item[PATH_MOST];
	const char *name;
	json_t *texts;

	json_object_foreach ((json_t *)(uintptr_t)given, name, texts) {
		const struct field *f = find(fields, name);
		json_t *value;

		below(item, "", name);
		if (!f) {
			complain_unknown(fields, name, item, issues);
			continue;
		}
		if (!json_array_size(texts)) {
			complain(issues, item, "is not UTF-8");
			continue;
		}
		if (f->kind != FIELD_TEXTS && json_array_size(texts) > 1) {
			complain(issues, item, "may be given once only");
			continue;
		}
		value = typed(f, texts);
		check(f, value, item, issues);
		json_object_set_new(out, name, value);
	}
	for (const struct field *f = fields; f && f->name; f++) {
		if (f->required && !json_object_get(given, f->name))
			complain(issues, f->name, "is missing");
	}
}
