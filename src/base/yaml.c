/* SPDX-License-Identifier: Apache-2.0 - YAML as a tree, from libyaml's events; see yaml.h. */
#include "base/yaml.h"

#include "base/buffer.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct builder {
	yaml_parser_t parser;
	yaml_event_t event; /* the one looked at; deleted by next() and at the end */
	bool has_event;
	struct yaml_tree *tree;
	struct error *err;
	const char *bytes; /* what is parsed */
	size_t count;
};

static void node_free(struct yaml_node *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->count; i++) {
		node_free(n->items[i]);
		if (n->keys)
			node_free(n->keys[i]);
	}
	free(n->items);
	free(n->keys);
	free(n->text);
	free(n);
}

void yaml_tree_free(struct yaml_tree *tree)
{
	if (!tree)
		return;
	node_free(tree->root);
	free(tree->name);
	free(tree);
}

/* "file:line:column: message"; what comes from the file is made harmless in it */
static int error_at(const struct yaml_tree *tree, unsigned line, unsigned column, struct error *err,
	int code, const char *format, va_list ap)
{
	char message[400];

	vsnprintf(message, sizeof(message), format, ap);
	return error_set(err, code, "%s:%u:%u: %s", tree->name, line, column, message);
}

int yaml_error(const struct yaml_node *at, struct error *err, int code, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	code = error_at(at->tree, at->line, at->column, err, code, format, ap);
	va_end(ap);
	return code;
}

/* an error at the event in hand */
static int __attribute__((format(printf, 3, 4)))
refuse(struct builder *b, int code, const char *format, ...)
{
	const yaml_mark_t *m = &b->event.start_mark;
	va_list ap;

	va_start(ap, format);
	code = error_at(
		b->tree, (unsigned)m->line + 1, (unsigned)m->column + 1, b->err, code, format, ap);
	va_end(ap);
	return code;
}

/* What the parser says about tabs does not name them. */
static bool is_indented_with_tab(const struct builder *b, size_t line)
{
	const char *at = b->bytes, *end = at + b->count;

	while (line-- && at) {
		at = memchr(at, '\n', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	while (at && at < end && *at == ' ')
		at++;
	return at && at < end && *at == '\t';
}

static int next(struct builder *b)
{
	const yaml_parser_t *p = &b->parser;

	if (b->has_event)
		yaml_event_delete(&b->event);
	b->has_event = false;
	memset(&b->event, 0, sizeof(b->event));
	if (yaml_parser_parse(&b->parser, &b->event)) {
		b->has_event = true;
		return 0;
	}
	if (p->error == YAML_MEMORY_ERROR)
		return error_set(b->err, -ENOMEM, "%s: out of memory", b->tree->name);
	if (p->error == YAML_READER_ERROR)
		return error_set(b->err, -EINVAL, "%s: byte %zu: %s; the file must be UTF-8",
			b->tree->name, p->problem_offset,
			p->problem ? p->problem : "cannot be read");
	if (is_indented_with_tab(b, p->problem_mark.line))
		return error_set(b->err, -EINVAL,
			"%s:%zu:%zu: a tab; YAML is indented with spaces only", b->tree->name,
			p->problem_mark.line + 1, p->problem_mark.column + 1);
	if (p->problem && strstr(p->problem, "cannot start any token"))
		return error_set(b->err, -EINVAL,
			"%s:%zu:%zu: a character that begins nothing; quote texts that begin with "
			"@, ` or %%",
			b->tree->name, p->problem_mark.line + 1, p->problem_mark.column + 1);
	return error_set(b->err, -EINVAL, "%s:%zu:%zu: %s%s%s", b->tree->name,
		p->problem_mark.line + 1, p->problem_mark.column + 1,
		p->problem ? p->problem : "is not YAML", p->context ? " " : "",
		p->context ? p->context : "");
}

static struct yaml_node *node_new(struct builder *b, enum yaml_kind kind)
{
	struct yaml_node *n = calloc(1, sizeof(*n));

	if (!n) {
		error_set(b->err, -ENOMEM, "%s: out of memory", b->tree->name);
		return NULL;
	}
	n->kind = kind;
	n->line = (unsigned)b->event.start_mark.line + 1;
	n->column = (unsigned)b->event.start_mark.column + 1;
	n->tree = b->tree;
	return n;
}

/* anchors and tags are in the same place of three kinds of events */
static int refuse_extras(struct builder *b, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		return refuse(b, -EINVAL, "anchors (&name) are not allowed; write the value out");
	if (tag)
		return refuse(b, -EINVAL, "tags (!name) are not allowed; remove the tag");
	return 0;
}

static int take_scalar(struct builder *b, struct yaml_node **out)
{
	const char *value = (const char *)b->event.data.scalar.value;
	size_t length = b->event.data.scalar.length;
	struct yaml_node *n;
	int r = refuse_extras(b, b->event.data.scalar.anchor, b->event.data.scalar.tag);

	if (r)
		return r;
	if (memchr(value, 0, length))
		return refuse(b, -EINVAL, "text must not hold a zero byte");
	n = node_new(b, YAML_SCALAR);
	if (!n)
		return -ENOMEM;
	n->plain = b->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	n->text = strndup(value, length);
	*out = n;
	return n->text ? 0 : error_set(b->err, -ENOMEM, "%s: out of memory", b->tree->name);
}

/* room for one more item (and key) */
static int grow(struct builder *b, struct yaml_node *n)
{
	size_t capacity = n->count ? n->count * 2 : 4;
	void *items, *keys;

	if (n->count & (n->count - 1) || (n->count && n->count < 4))
		return 0;
	items = reallocarray(n->items, capacity, sizeof(*n->items));
	if (items)
		n->items = items;
	keys = n->kind == YAML_MAP ? reallocarray(n->keys, capacity, sizeof(*n->keys)) : NULL;
	if (keys)
		n->keys = keys;
	if (!items || (n->kind == YAML_MAP && !keys))
		return error_set(b->err, -ENOMEM, "%s: out of memory", b->tree->name);
	return 0;
}

static int take_node(struct builder *b, unsigned depth, struct yaml_node **out);

static int take_list(struct builder *b, unsigned depth, struct yaml_node *n)
{
	int r;

	while (!(r = next(b)) && b->event.type != YAML_SEQUENCE_END_EVENT) {
		r = grow(b, n);
		if (r)
			return r;
		n->items[n->count] = NULL;
		r = take_node(b, depth + 1, &n->items[n->count]);
		n->count++;
		if (r)
			return r;
	}
	return r;
}

static int by_key(const void *a, const void *b)
{
	const struct yaml_node *const *x = a, *const *y = b;

	return strcmp((*x)->text, (*y)->text);
}

/* Sorting finds repeated keys of a large map without comparing all with all. */
static int refuse_repeats(struct builder *b, const struct yaml_node *n)
{
	struct yaml_node **sorted;
	int r = 0;

	if (n->count < 2)
		return 0;
	sorted = reallocarray(NULL, n->count, sizeof(*sorted));
	if (!sorted)
		return error_set(b->err, -ENOMEM, "%s: out of memory", b->tree->name);
	memcpy(sorted, n->keys, n->count * sizeof(*sorted));
	qsort(sorted, n->count, sizeof(*sorted), by_key);
	for (size_t i = 1; i < n->count && !r; i++) {
		const struct yaml_node *first = sorted[i - 1], *again = sorted[i];
		char word[80];

		if (strcmp(first->text, again->text))
			continue;
		if (first->line > again->line ||
			(first->line == again->line && first->column > again->column)) {
			first = sorted[i];
			again = sorted[i - 1];
		}
		r = yaml_error(again, b->err, -EINVAL,
			"key %s is given twice, first in line %u; remove one",
			yaml_describe(again, word, sizeof(word)), first->line);
	}
	free(sorted);
	return r;
}

static int take_map(struct builder *b, unsigned depth, struct yaml_node *n)
{
	int r;

	while (!(r = next(b)) && b->event.type != YAML_MAPPING_END_EVENT) {
		r = grow(b, n);
		if (r)
			return r;
		if (b->event.type != YAML_SCALAR_EVENT)
			return refuse(b, -EINVAL, "a key must be text");
		if (++b->tree->nodes > YAML_NODES_MAX)
			return refuse(b, -E2BIG, "more than %u values", YAML_NODES_MAX);
		n->keys[n->count] = n->items[n->count] = NULL;
		n->count++;
		r = take_scalar(b, &n->keys[n->count - 1]);
		if (!r)
			r = next(b);
		if (!r)
			r = take_node(b, depth + 1, &n->items[n->count - 1]);
		if (r)
			return r;
	}
	return r ? r : refuse_repeats(b, n);
}

static int take_node(struct builder *b, unsigned depth, struct yaml_node **out)
{
	int r;

	if (depth > YAML_DEPTH_MAX)
		return refuse(b, -E2BIG, "nested deeper than %u levels", YAML_DEPTH_MAX);
	if (++b->tree->nodes > YAML_NODES_MAX)
		return refuse(b, -E2BIG, "more than %u values", YAML_NODES_MAX);
	if (b->event.type == YAML_SCALAR_EVENT)
		return take_scalar(b, out);
	if (b->event.type == YAML_SEQUENCE_START_EVENT) {
		r = refuse_extras(
			b, b->event.data.sequence_start.anchor, b->event.data.sequence_start.tag);
		if (r)
			return r;
		*out = node_new(b, YAML_LIST);
		return *out ? take_list(b, depth, *out) : -ENOMEM;
	}
	if (b->event.type == YAML_MAPPING_START_EVENT) {
		r = refuse_extras(
			b, b->event.data.mapping_start.anchor, b->event.data.mapping_start.tag);
		if (r)
			return r;
		*out = node_new(b, YAML_MAP);
		return *out ? take_map(b, depth, *out) : -ENOMEM;
	}
	if (b->event.type == YAML_ALIAS_EVENT)
		return refuse(b, -EINVAL, "aliases (*name) are not allowed; write the value out");
	return refuse(b, -EINVAL, "is not YAML");
}

static int take_document(struct builder *b)
{
	int r = next(b); /* stream start */

	if (!r)
		r = next(b);
	if (r || b->event.type == YAML_STREAM_END_EVENT)
		return r;
	r = next(b); /* after document start */
	if (!r)
		r = take_node(b, 1, &b->tree->root);
	if (!r)
		r = next(b); /* document end */
	if (!r)
		r = next(b);
	if (!r && b->event.type != YAML_STREAM_END_EVENT)
		r = refuse(b, -EINVAL, "a second document; the file must hold one");
	return r;
}

int yaml_tree_parse(const char *name, const void *bytes, size_t count, struct yaml_tree **out,
	struct error *err)
{
	struct builder b = {.err = err, .bytes = count ? bytes : "", .count = count};
	int r;

	if (count > YAML_BYTES_MAX)
		return error_set(err, -EFBIG, "%s: is larger than %u bytes", name, YAML_BYTES_MAX);
	b.tree = calloc(1, sizeof(*b.tree));
	if (!b.tree || !(b.tree->name = strdup(name)) || !yaml_parser_initialize(&b.parser)) {
		yaml_tree_free(b.tree);
		return error_set(err, -ENOMEM, "%s: out of memory", name);
	}
	yaml_parser_set_input_string(&b.parser, (const unsigned char *)b.bytes, count);
	yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
	r = take_document(&b);
	if (b.has_event)
		yaml_event_delete(&b.event);
	yaml_parser_delete(&b.parser);
	if (r) {
		yaml_tree_free(b.tree);
		return r;
	}
	*out = b.tree;
	return 0;
}

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	if (!map || map->kind != YAML_MAP)
		return NULL;
	for (size_t i = 0; i < map->count; i++) {
		if (strcmp(map->keys[i]->text, key) == 0)
			return map->items[i];
	}
	return NULL;
}

bool yaml_is_null(const struct yaml_node *n)
{
	return n->kind == YAML_SCALAR && n->plain &&
	       (!*n->text || strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0);
}

const char *yaml_describe(const struct yaml_node *n, char *out, size_t size)
{
	struct buffer safe = {0};
	size_t length;

	if (n->kind == YAML_LIST || n->kind == YAML_MAP || yaml_is_null(n)) {
		text_copy(out, size,
			n->kind == YAML_LIST  ? "a list"
			: n->kind == YAML_MAP ? "a map"
					      : "empty");
		return out;
	}
	length = strlen(n->text);
	if (length > 40) { /* cut between characters, not within one */
		length = 40;
		while (length > 36 && ((uint8_t)n->text[length] & 0xc0) == 0x80)
			length--;
	}
	text_add_safe(&safe, n->text, length, false);
	text_format(out, size, "\"%s%s\"", buffer_text(&safe) ? buffer_text(&safe) : "",
		n->text[length] ? "…" : "");
	buffer_fini(&safe);
	return out;
}

int yaml_text(const struct yaml_node *node, const char *what, const char **out, struct error *err)
{
	char was[96];

	if (node->kind != YAML_SCALAR || yaml_is_null(node) || !*node->text)
		return yaml_error(node, err, -EINVAL, "%s: %s; it must be text", what,
			yaml_describe(node, was, sizeof(was)));
	*out = node->text;
	return 0;
}

int yaml_bool(const struct yaml_node *node, const char *what, bool *out, struct error *err)
{
	char was[96];

	if (node->kind == YAML_SCALAR && node->plain && strcmp(node->text, "true") == 0)
		*out = true;
	else if (node->kind == YAML_SCALAR && node->plain && strcmp(node->text, "false") == 0)
		*out = false;
	else
		return yaml_error(node, err, -EINVAL, "%s: %s; write true or false", what,
			yaml_describe(node, was, sizeof(was)));
	return 0;
}

int yaml_number(const struct yaml_node *node, const char *what, double least, double most,
	double *out, struct error *err)
{
	char was[96], *end = NULL;
	double v = 0;

	if (node->kind == YAML_SCALAR && node->plain && *node->text &&
		strspn(node->text, "0123456789+-.eE") == strlen(node->text))
		v = strtod(node->text, &end);
	if (!end || *end || end == node->text)
		return yaml_error(node, err, -EINVAL, "%s: %s is not a number", what,
			yaml_describe(node, was, sizeof(was)));
	if (!isfinite(v) || v < least || v > most)
		return yaml_error(node, err, -ERANGE, "%s: %s must be from %.15g to %.15g", what,
			yaml_describe(node, was, sizeof(was)), least, most);
	*out = v;
	return 0;
}

int yaml_u64(const struct yaml_node *node, const char *what, uint64_t least, uint64_t most,
	uint64_t *out, struct error *err)
{
	char was[96];
	uint64_t v = 0;
	int r = node->kind == YAML_SCALAR && node->plain ? text_u64(node->text, &v) : -EINVAL;

	if (r == -EINVAL)
		return yaml_error(node, err, r, "%s: %s is not a whole number", what,
			yaml_describe(node, was, sizeof(was)));
	if (r || v < least || v > most)
		return yaml_error(node, err, -ERANGE, "%s: %s must be from %llu to %llu", what,
			yaml_describe(node, was, sizeof(was)), (unsigned long long)least,
			(unsigned long long)most);
	*out = v;
	return 0;
}
