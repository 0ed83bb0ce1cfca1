/* SPDX-License-Identifier: Apache-2.0 - a byte buffer that grows up to a limit and is consumed from
 * its front. */
#ifndef SEALMARK_BASE_BUFFER_H
#define SEALMARK_BASE_BUFFER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
	uint8_t *data;   /* start of the allocation */
	size_t start;    /* first unread byte */
	size_t end;      /* one past the last byte */
	size_t capacity; /* bytes allocated */
	size_t limit;    /* most unread bytes it will hold; 0 = none set (SIZE_MAX) */
};

/* All zero is an empty buffer without limit. */
void buffer_init(struct buffer *b, size_t limit_bytes);
void buffer_fini(struct buffer *b);

static inline size_t buffer_length(const struct buffer *b)
{
	return b->end - b->start;
}

/* First unread byte; valid until the next call that adds. */
static inline uint8_t *buffer_bytes(const struct buffer *b)
{
	return b->data ? b->data + b->start : NULL;
}

/* Add; 0, -ENOBUFS over the limit, -ENOMEM. Nothing is added on failure. */
int buffer_add(struct buffer *b, const void *bytes, size_t count);
int buffer_add_text(struct buffer *b, const char *text);
int buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for `count` more bytes: pointer to it or NULL; make it real with buffer_commit(). */
uint8_t *buffer_reserve(struct buffer *b, size_t count);
void buffer_commit(struct buffer *b, size_t count);

/* Drop `count` bytes (at most what is there) from the front. */
void buffer_consume(struct buffer *b, size_t count);
void buffer_clear(struct buffer *b);

/* NUL-terminate (not counted in the length) and return the text; "" when empty, NULL on ENOMEM. */
char *buffer_text(struct buffer *b);

/* Hand the NUL-terminated contents to the caller, who frees them; the buffer is empty after it. */
char *buffer_steal(struct buffer *b);

#endif
