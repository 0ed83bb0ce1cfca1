/* SPDX-License-Identifier: Apache-2.0 - reading the tar format, byte by byte of a stream. */
#include "tar.h"

#include <errno.h>
#include <string.h>

/* The header block: offset and size of each field. */
#define NAME_AT       0
#define NAME_SIZE     100
#define MODE_AT       100
#define SIZE_AT       124
#define MTIME_AT      136
#define NUMBER_SIZE   12
#define CHECKSUM_AT   148
#define CHECKSUM_SIZE 8
#define KIND_AT       156
#define LINK_AT       157
#define MAGIC_AT      257
#define PREFIX_AT     345
#define PREFIX_SIZE   155

#define SIZE_MOST (1ull << 60)

/* Octal digits between spaces and an end, or base 256 when the first bit is set (GNU). */
static int parse_number(const uint8_t *field, size_t size, uint64_t *out)
{
	uint64_t value = 0;
	size_t i = 0;

	if (field[0] & 0x80) {
		if (field[0] != 0x80)
			return -EINVAL; /* negative, or beyond reason */
		for (i = 1; i < size; i++) {
			if (value > SIZE_MOST >> 8)
				return -EINVAL;
			value = value << 8 | field[i];
		}
		*out = value;
		return 0;
	}
	while (i < size && field[i] == ' ')
		i++;
	for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	while (i < size && (field[i] == ' ' || !field[i]))
		i++;
	*out = value;
	return i == size ? 0 : -EINVAL;
}

static bool checksum_is_right(const uint8_t *block)
{
	uint32_t plain = 0;
	int32_t with_sign = 0; /* some old writers summed signed bytes */
	uint64_t said;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool blank = i >= CHECKSUM_AT && i < CHECKSUM_AT + CHECKSUM_SIZE;
		uint8_t b = blank ? ' ' : block[i];

		plain += b;
		with_sign += (int8_t)b;
	}
	return parse_number(block + CHECKSUM_AT, CHECKSUM_SIZE, &said) == 0 &&
	       (said == plain || (int64_t)said == with_sign);
}

static bool is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* A field of `size` bytes, ended by NUL if shorter, behind what out already holds. */
static void add_field(char *out, const uint8_t *field, size_t size)
{
	size_t at = strlen(out), n = strnlen((const char *)field, size);

	memcpy(out + at, field, n);
	out[at + n] = 0;
}

static void take_names(struct tar_reader *t)
{
	struct tar_entry *e = &t->entry;
	bool posix = memcmp(t->block + MAGIC_AT, "ustar\0", 6) == 0;

	if (!t->has_path) {
		e->path[0] = 0;
		if (posix && t->block[PREFIX_AT]) {
			add_field(e->path, t->block + PREFIX_AT, PREFIX_SIZE);
			add_field(e->path, (const uint8_t *)"/", 1);
		}
		add_field(e->path, t->block + NAME_AT, NAME_SIZE);
	}
	if (!t->has_target) {
		e->target[0] = 0;
		add_field(e->target, t->block + LINK_AT, NAME_SIZE);
	}
}

static int take_kind(struct tar_entry *e, char kind)
{
	size_t length = strlen(e->path);

	switch (kind) {
	case 0:
	case '0':
	case '7': /* contiguous: a file */
		/* before ustar, a directory was a file whose name ends so */
		e->kind = length && e->path[length - 1] == '/' ? TAR_DIRECTORY : TAR_FILE;
		return 0;
	case '1':
		e->kind = TAR_HARDLINK;
		return 0;
	case '2':
		e->kind = TAR_SYMLINK;
		return 0;
	case '5':
		e->kind = TAR_DIRECTORY;
		return 0;
	default: /* devices, fifos, sparse files, volumes */
		return -EOPNOTSUPP;
	}
}

static int take_meta_header(struct tar_reader *t, char kind, uint64_t size)
{
	if (size > TAR_META_MOST)
		return -ENAMETOOLONG;
	t->meta_kind = kind;
	t->meta_size = (uint32_t)size;
	t->filled = 0;
	t->padding = (uint32_t)(-size & (TAR_BLOCK - 1));
	t->state = TAR_META;
	return 0;
}

static int take_header(struct tar_reader *t, const struct tar_sink *sink, void *context)
{
	struct tar_entry *e = &t->entry;
	uint64_t size, mode, mtime = 0;
	char kind;
	int r;

	if (is_zero(t->block)) {
		t->state = TAR_MARKER;
		return 0;
	}
	if (!checksum_is_right(t->block) || parse_number(t->block + SIZE_AT, NUMBER_SIZE, &size))
		return -EINVAL;
	kind = (char)t->block[KIND_AT];
	if (kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K')
		return take_meta_header(t, kind, size);
	take_names(t);
	if (parse_number(t->block + MODE_AT, CHECKSUM_SIZE, &mode))
		return -EINVAL;
	/* a date before 1970 is no reason to refuse a file */
	if (parse_number(t->block + MTIME_AT, NUMBER_SIZE, &mtime))
		mtime = 0;
	if (t->has_size)
		size = t->meta_content_size;
	r = take_kind(e, kind);
	if (r)
		return r;
	e->mode = (uint32_t)mode & 07777;
	e->mtime = t->has_mtime ? t->meta_mtime : (int64_t)mtime;
	e->size = e->kind == TAR_FILE ? size : 0;
	/* some writers give links the size of what they point to; no contents follow */
	t->left = e->kind == TAR_FILE || e->kind == TAR_DIRECTORY ? size : 0;
	if (e->kind == TAR_DIRECTORY && t->left)
		return -EINVAL;
	t->padding = (uint32_t)(-t->left & (TAR_BLOCK - 1));
	t->has_path = t->has_target = t->has_size = t->has_mtime = false;
	t->state = TAR_CONTENT;
	r = sink->entry(context, e);
	return r ? r : t->left ? 0 : sink->entry_end(context);
}

static int take_path(char *out, const char *text, size_t length)
{
	if (length >= WIRE_PATH_MAX)
		return -ENAMETOOLONG;
	if (memchr(text, 0, length))
		return -EINVAL;
	memcpy(out, text, length);
	out[length] = 0;
	return 0;
}

static int take_decimal(const char *text, size_t length, uint64_t *out, size_t *used)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
		if (value > SIZE_MOST / 10)
			return -EINVAL;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*out = value;
	*used = i;
	return i ? 0 : -EINVAL;
}

static bool key_is(const char *key, size_t length, const char *name)
{
	return length == strlen(name) && !memcmp(key, name, length);
}

static int take_pair(
	struct tar_reader *t, const char *key, size_t key_length, const char *value, size_t length)
{
	uint64_t number;
	size_t used;
	int r = 0;

	if (key_is(key, key_length, "path")) {
		r = take_path(t->entry.path, value, length);
		t->has_path = true;
	} else if (key_is(key, key_length, "linkpath")) {
		r = take_path(t->entry.target, value, length);
		t->has_target = true;
	} else if (key_is(key, key_length, "size")) {
		r = take_decimal(value, length, &t->meta_content_size, &used);
		t->has_size = true;
		if (!r && used != length)
			r = -EINVAL;
	} else if (key_is(key, key_length, "mtime")) {
		/* whole seconds; a negative or odd one is left out */
		t->has_mtime = take_decimal(value, length, &number, &used) == 0;
		t->meta_mtime = t->has_mtime ? (int64_t)number : 0;
	} else if (key_length > 11 && !memcmp(key, "GNU.sparse.", 11)) {
		r = -EOPNOTSUPP;
	}
	return r;
}

/* Records "length key=value\n", where length counts the whole record. */
static int take_pax(struct tar_reader *t)
{
	const char *p = t->meta;
	size_t left = t->meta_size;

	while (left) {
		uint64_t record;
		size_t used;
		const char *key, *equals;
		int r;

		if (take_decimal(p, left, &record, &used) || record > left || record < used + 4 ||
			p[used] != ' ' || p[record - 1] != '\n')
			return -EINVAL;
		key = p + used + 1;
		equals = memchr(key, '=', (size_t)record - used - 2);
		if (!equals || equals == key)
			return -EINVAL;
		r = take_pair(t, key, (size_t)(equals - key), equals + 1,
			(size_t)(p + record - 1 - (equals + 1)));
		if (r)
			return r;
		p += record;
		left -= (size_t)record;
	}
	return 0;
}

static int take_meta(struct tar_reader *t)
{
	size_t length = strnlen(t->meta, t->meta_size);

	t->state = TAR_PADDING;
	switch (t->meta_kind) {
	case 'x':
		return take_pax(t);
	case 'L':
		t->has_path = true;
		return take_path(t->entry.path, t->meta, length);
	case 'K':
		t->has_target = true;
		return take_path(t->entry.target, t->meta, length);
	default: /* 'g' is about the whole archive; what it can say is of no use here */
		return 0;
	}
}

/* Fill `size` bytes of `to` from the input; returns how many bytes were used. */
static size_t fill(uint8_t *to, uint32_t *filled, uint32_t size, const uint8_t *bytes, size_t count)
{
	size_t n = size - *filled;

	if (n > count)
		n = count;
	memcpy(to + *filled, bytes, n);
	*filled += (uint32_t)n;
	return n;
}

static void next_header(struct tar_reader *t)
{
	t->state = TAR_HEADER;
	t->filled = 0;
}

/* Use some bytes (0 when the state only moved on); negative errno on failure. */
static long step(struct tar_reader *t, const uint8_t *bytes, size_t count,
	const struct tar_sink *sink, void *context)
{
	size_t n;
	int r = 0;

	switch (t->state) {
	case TAR_HEADER:
		n = fill(t->block, &t->filled, TAR_BLOCK, bytes, count);
		if (t->filled == TAR_BLOCK)
			r = take_header(t, sink, context);
		return r ? r : (long)n;
	case TAR_META:
		n = fill((uint8_t *)t->meta, &t->filled, t->meta_size, bytes, count);
		if (t->filled == t->meta_size)
			r = take_meta(t);
		return r ? r : (long)n;
	case TAR_CONTENT:
		if (!t->left) {
			t->state = TAR_PADDING;
			return 0;
		}
		n = count < t->left ? count : (size_t)t->left;
		r = sink->content(context, bytes, n);
		t->left -= n;
		if (!r && !t->left)
			r = sink->entry_end(context);
		return r ? r : (long)n;
	case TAR_PADDING:
		n = count < t->padding ? count : t->padding;
		t->padding -= (uint32_t)n;
		if (!t->padding)
			next_header(t);
		return (long)n;
	case TAR_MARKER: /* what follows the end is padding of the writer's */
	default:
		return (long)count;
	}
}

int tar_feed(struct tar_reader *t, const uint8_t *bytes, size_t count, const struct tar_sink *sink,
	void *context)
{
	while (count) {
		long n = step(t, bytes, count, sink, context);

		if (n < 0)
			return (int)n;
		bytes += n;
		count -= (size_t)n;
	}
	return 0;
}

int tar_close(const struct tar_reader *t)
{
	return t->state == TAR_MARKER ? 0 : -EINVAL;
}
