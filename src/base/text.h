/* SPDX-License-Identifier: Apache-2.0 - text: bounded copies, numbers with units, safe printing. */
#ifndef SEALMARK_BASE_TEXT_H
#define SEALMARK_BASE_TEXT_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy with termination; -ENAMETOOLONG when it did not fit (out is then cut). */
int text_copy(char *out, size_t size, const char *text);

/* snprintf that answers -ENAMETOOLONG when the result was cut, else 0. */
int text_format(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

bool text_starts(const char *text, const char *prefix);
bool text_ends(const char *text, const char *suffix);

/* Decimal digits only, whole string; -EINVAL or -ERANGE. */
int text_u64(const char *text, uint64_t *out);
int text_u32(const char *text, uint32_t *out);

/* "512", "64k", "256M", "2G" (also KiB, MiB, GiB) in bytes; a bare number counts `unit` bytes. */
int text_bytes(const char *text, uint64_t unit, uint64_t *out_bytes);

/* "250ms", "10s", "2m", "1h"; a bare number counts seconds, fractions allowed ("1.5s"). */
int text_duration_ms(const char *text, int64_t *out_ms);

/* True for well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
bool text_is_utf8(const void *bytes, size_t count);

/*
 * Append `bytes` as UTF-8 that is harmless on a terminal and in a log: invalid sequences become
 * U+FFFD; C0, C1 and DEL become \xNN (newline and tab stay when keep_lines), bidirectional and
 * other invisible format characters become \u{NNNN}. 0 or the buffer's error.
 */
int text_add_safe(struct buffer *out, const void *bytes, size_t count, bool keep_lines);

/* The name among `names` (NULL-terminated) closest to `word` (at most 2 edits), or NULL. */
const char *text_nearest(const char *word, const char *const *names);

/* Append the bytes of base64 with its padding; -EINVAL, -ENOMEM. */
int text_unbase64(const char *text, struct buffer *out);

#endif
