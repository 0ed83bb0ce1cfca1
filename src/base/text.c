/* SPDX-License-Identifier: Apache-2.0 - text helpers, see text.h. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int text_copy(char *out, size_t size, const char *text)
{
	size_t n = strlen(text);

	if (size == 0)
		return -ENAMETOOLONG;
	if (n >= size) {
		memcpy(out, text, size - 1);
		out[size - 1] = 0;
		return -ENAMETOOLONG;
	}
	memcpy(out, text, n + 1);
	return 0;
}

int text_format(char *out, size_t size, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(out, size, format, ap);
	va_end(ap);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

bool text_starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool text_ends(const char *text, const char *suffix)
{
	size_t n = strlen(text), k = strlen(suffix);

	return n >= k && memcmp(text + n - k, suffix, k) == 0;
}

/* digits at *p into *out, *p moved past them */
static int digits(const char **p, uint64_t *out)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); (*p)++) {
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(**p - '0'), &v))
			return -ERANGE;
	}
	*out = v;
	return 0;
}

int text_u64(const char *text, uint64_t *out)
{
	uint64_t v;
	int r = digits(&text, &v);

	if (r)
		return r;
	if (*text)
		return -EINVAL;
	*out = v;
	return 0;
}

int text_u32(const char *text, uint32_t *out)
{
	uint64_t v;
	int r = text_u64(text, &v);

	if (r)
		return r;
	if (v > UINT32_MAX)
		return -ERANGE;
	*out = (uint32_t)v;
	return 0;
}

int text_bytes(const char *text, uint64_t unit, uint64_t *out_bytes)
{
	static const struct {
		const char *name;
		int shift;
	} units[] = {{"k", 10}, {"kb", 10}, {"kib", 10}, {"m", 20}, {"mb", 20}, {"mib", 20},
		{"g", 30}, {"gb", 30}, {"gib", 30}, {"b", 0}};
	uint64_t v;
	int r = digits(&text, &v);

	if (r)
		return r;
	while (*text == ' ')
		text++;
	if (!*text)
		return __builtin_mul_overflow(v, unit, out_bytes) ? -ERANGE : 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcasecmp(text, units[i].name) == 0)
			return __builtin_mul_overflow(v, UINT64_C(1) << units[i].shift, out_bytes)
				       ? -ERANGE
				       : 0;
	}
	return -EINVAL;
}

int text_duration_ms(const char *text, int64_t *out_ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}};
	uint64_t whole, part = 0, scale = 1, ms;
	int r = digits(&text, &whole);

	if (r)
		return r;
	if (*text == '.') {
		const char *from = ++text;

		for (; isdigit((unsigned char)*text); text++) {
			if (text - from < 6) {
				part = part * 10 + (uint64_t)(*text - '0');
				scale *= 10;
			}
		}
		if (text == from)
			return -EINVAL;
	}
	while (*text == ' ')
		text++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcasecmp(text, units[i].name))
			continue;
		if (whole > INT64_MAX / 3600000 - 1)
			return -ERANGE;
		ms = whole * units[i].ms + part * units[i].ms / scale;
		*out_ms = (int64_t)ms;
		return 0;
	}
	return -EINVAL;
}

/* length and code point of the well-formed sequence at p, or 0 */
static size_t utf8_one(const uint8_t *p, size_t count, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80                   ? 1
		   : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		   : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
		   : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
						 : 0;
	uint32_t c;

	if (n == 0 || n > count)
		return 0;
	c = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return n;
}

bool text_is_utf8(const void *bytes, size_t count)
{
	const uint8_t *p = bytes;
	uint32_t code;

	while (count) {
		size_t n = utf8_one(p, count, &code);

		if (n == 0)
			return false;
		p += n;
		count -= n;
	}
	return true;
}

/* characters that draw nothing or turn the direction of what follows */
static bool invisible(uint32_t c)
{
	return c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

int text_add_safe(struct buffer *out, const void *bytes, size_t count, bool keep_lines)
{
	const uint8_t *p = bytes;
	int r = 0;

	while (count && !r) {
		uint32_t c = 0;
		size_t n = utf8_one(p, count, &c);

		if (n == 0) {
			r = buffer_add(out, "\xef\xbf\xbd", 3);
			n = 1;
		} else if (keep_lines && (c == '\n' || c == '\t')) {
			r = buffer_add(out, p, 1);
		} else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
			r = buffer_printf(out, "\\x%02x", c);
		} else if (invisible(c)) {
			r = buffer_printf(out, "\\u{%x}", c);
		} else {
			r = buffer_add(out, p, n);
		}
		p += n;
		count -= n;
	}
	return r;
}

/* edits (insert, delete, replace, swap of neighbours) between short words */
static unsigned distance(const char *a, const char *b)
{
	enum { MOST = 40 };
	unsigned row[3][MOST + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > MOST || m > MOST)
		return 99;
	for (unsigned j = 0; j <= m; j++)
		row[0][j] = j;
	for (unsigned i = 1; i <= n; i++) {
		unsigned *cur = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];

		cur[0] = i;
		for (unsigned j = 1; j <= m; j++) {
			unsigned d = up[j - 1] + (a[i - 1] != b[j - 1]);

			d = up[j] + 1 < d ? up[j] + 1 : d;
			d = cur[j - 1] + 1 < d ? cur[j - 1] + 1 : d;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				up2[j - 2] + 1 < d)
				d = up2[j - 2] + 1;
			cur[j] = d;
		}
	}
	return row[n % 3][m];
}

const char *text_nearest(const char *word, const char *const *names)
{
	const char *best = NULL;
	unsigned least = 3;

	for (; *names; names++) {
		unsigned d = distance(word, *names);

		if (d < least && d < strlen(word)) {
			least = d;
			best = *names;
		}
	}
	return best;
}

int text_unbase64(const char *text, struct buffer *out)
{
	size_t count = strlen(text), padding = 0;
	uint8_t *room;
	int n;

	if (count % 4 || count > INT_MAX)
		return -EINVAL;
	while (padding < 2 && padding < count && text[count - 1 - padding] == '=')
		padding++;
	room = buffer_reserve(out, count / 4 * 3 + 1);
	if (!room)
		return -ENOMEM;
	n = count ? EVP_DecodeBlock(room, (const unsigned char *)text, (int)count) : 0;
	if (n < 0 || (size_t)n < padding)
		return -EINVAL;
	buffer_commit(out, (size_t)n - padding);
	return 0;
}
