/* SPDX-License-Identifier: Apache-2.0 - header blocks of the tar format. */
#include "tar.h"

#include <stdio.h>
#include <string.h>

/* See tar_read.c for the fields. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], kind, link[100];
	char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is one block");

#define OCTAL_SIZE_MOST 077777777777ull

/* size - 1 octal digits and a NUL; what does not fit is left at its largest (pax has the truth) */
static void put_octal(char *field, size_t size, uint64_t value)
{
	uint64_t most = (1ull << (3 * (size - 1))) - 1;
	char text[24];

	if (value > most)
		value = most;
	snprintf(text, sizeof(text), "%0*llo", (int)(size - 1), (unsigned long long)value);
	memcpy(field, text, size);
}

static void put_text(char *field, size_t size, const char *text)
{
	size_t n = strnlen(text, size);

	memcpy(field, text, n);
}

static void put_header(uint8_t *out, const char *name, const char *target, char kind,
	const struct stat *st, uint64_t size)
{
	struct header h;
	uint32_t sum = 0;

	memset(&h, 0, sizeof(h));
	put_text(h.name, sizeof(h.name), name);
	put_octal(h.mode, sizeof(h.mode), st->st_mode & 07777);
	put_octal(h.uid, sizeof(h.uid), st->st_uid);
	put_octal(h.gid, sizeof(h.gid), st->st_gid);
	put_octal(h.size, sizeof(h.size), size);
	put_octal(h.mtime, sizeof(h.mtime), st->st_mtime > 0 ? (uint64_t)st->st_mtime : 0);
	h.kind = kind;
	put_text(h.link, sizeof(h.link), target);
	memcpy(h.magic, "ustar", 6);
	memcpy(h.version, "00", 2);
	memset(h.checksum, ' ', sizeof(h.checksum));
	memcpy(out, &h, sizeof(h));
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += out[i];
	snprintf((char *)out + offsetof(struct header, checksum), 8, "%06o", sum);
}

/* One record "length key=value\n" whose length counts itself. */
static uint32_t put_record(char *out, const char *key, const char *value)
{
	size_t body = strlen(key) + strlen(value) + 3, total = body + 1, digits = 1;

	for (size_t limit = 10; total >= limit; limit *= 10)
		total = body + ++digits;
	return (uint32_t)snprintf(out, WIRE_PATH_MAX + 64, "%zu %s=%s\n", total, key, value);
}

static char kind_of(const struct stat *st)
{
	return S_ISDIR(st->st_mode) ? '5' : S_ISLNK(st->st_mode) ? '2' : '0';
}

uint32_t tar_head(uint8_t *out, const char *path, const char *target, const struct stat *st)
{
	char name[WIRE_PATH_MAX + 1], size_text[32];
	uint64_t size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
	uint32_t n = 0, at = TAR_BLOCK;

	/* by custom, the name of a directory ends with a slash */
	snprintf(name, sizeof(name), "%s%s", path, S_ISDIR(st->st_mode) ? "/" : "");
	if (strlen(name) > 100)
		n += put_record((char *)out + at + n, "path", name);
	if (strlen(target) > 100)
		n += put_record((char *)out + at + n, "linkpath", target);
	if (size > OCTAL_SIZE_MOST) {
		snprintf(size_text, sizeof(size_text), "%llu", (unsigned long long)size);
		n += put_record((char *)out + at + n, "size", size_text);
	}
	if (n) {
		put_header(out, "pax", "", 'x', st, n);
		while (n & (TAR_BLOCK - 1))
			out[at + n++] = 0;
		at += n;
	} else {
		at = 0;
	}
	put_header(out + at, name, target, kind_of(st), st, size);
	return at + TAR_BLOCK;
}
