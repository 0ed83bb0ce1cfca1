/* SPDX-License-Identifier: Apache-2.0 - a growing byte buffer, see buffer.h. */
#include "base/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *b, size_t limit_bytes)
{
	*b = (struct buffer){.limit = limit_bytes};
}

void buffer_fini(struct buffer *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (struct buffer){.limit = b->limit};
}

/* make room for count bytes after end, one spare byte for a terminator kept */
static int make_room(struct buffer *b, size_t count)
{
	size_t used = buffer_length(b), want, capacity;
	uint8_t *data;

	if (count > SIZE_MAX / 4 || used > SIZE_MAX / 4)
		return -ENOMEM;
	if (b->limit && used + count > b->limit)
		return -ENOBUFS;
	want = used + count + 1;
	if (b->capacity - b->end > count && b->data)
		return 0;
	if (b->data && b->capacity >= want && b->start >= b->capacity / 2) {
		memmove(b->data, b->data + b->start, used);
		b->start = 0;
		b->end = used;
		return 0;
	}
	capacity = b->capacity ? b->capacity : 256;
	while (capacity < want)
		capacity *= 2;
	data = malloc(capacity);
	if (!data)
		return -ENOMEM;
	if (used)
		memcpy(data, b->data + b->start, used);
	free(b->data);
	b->data = data;
	b->start = 0;
	b->end = used;
	b->capacity = capacity;
	return 0;
}

uint8_t *buffer_reserve(struct buffer *b, size_t count)
{
	if (make_room(b, count))
		return NULL;
	return b->data + b->end;
}

void buffer_commit(struct buffer *b, size_t count)
{
	b->end += count;
}

int buffer_add(struct buffer *b, const void *bytes, size_t count)
{
	int r;

	if (count == 0)
		return 0;
	r = make_room(b, count);
	if (r)
		return r;
	memcpy(b->data + b->end, bytes, count);
	b->end += count;
	return 0;
}

int buffer_add_text(struct buffer *b, const char *text)
{
	return buffer_add(b, text, strlen(text));
}

int buffer_printf(struct buffer *b, const char *format, ...)
{
	va_list ap;
	int n, r;

	va_start(ap, format);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	r = make_room(b, (size_t)n);
	if (r)
		return r;
	va_start(ap, format);
	vsnprintf((char *)b->data + b->end, (size_t)n + 1, format, ap);
	va_end(ap);
	b->end += (size_t)n;
	return 0;
}

void buffer_consume(struct buffer *b, size_t count)
{
	size_t used = buffer_length(b);

	if (count >= used)
		b->start = b->end = 0;
	else
		b->start += count;
}

void buffer_clear(struct buffer *b)
{
	b->start = b->end = 0;
}

char *buffer_text(struct buffer *b)
{
	if (make_room(b, 0))
		return NULL;
	b->data[b->end] = 0;
	return (char *)b->data + b->start;
}

char *buffer_steal(struct buffer *b)
{
	char *text = buffer_text(b);

	if (!text)
		return NULL;
	memmove(b->data, text, buffer_length(b) + 1);
	text = (char *)b->data;
	*b = (struct buffer){.limit = b->limit};
	return text;
}
