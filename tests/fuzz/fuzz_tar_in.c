/* SPDX-License-Identifier: Apache-2.0 - fuzzes the agent's tar reader: whatever comes, its sink is
 * told a consistent story, and the same one however the bytes are cut.
 *
 * Build and run: tests/fuzz/run 600 tar_in
 */
#include "fs.h"
#include "tar.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define INPUT_MOST (64u << 10)

struct story {
	uint64_t hash;
	bool in_entry;
	uint64_t left;
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void tell(struct story *s, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < count; i++)
		s->hash = (s->hash ^ p[i]) * 0x100000001b3u;
}

/* A path in normal form has only names in it. */
static void check_normal(const char *path)
{
	char out[WIRE_PATH_MAX];
	const char *p = out;

	if (fs_normal_path(path, out, sizeof(out)))
		return;
	check(strlen(out) <= strlen(path) && out[0] != '/');
	while (*p) {
		size_t length = strcspn(p, "/");

		check(length > 0 && length < 256);
		check(!(length == 1 && p[0] == '.'));
		check(!(length == 2 && p[0] == '.' && p[1] == '.'));
		p += length;
		check(*p != '/' || p[1]);
		p += *p == '/';
	}
}

static int on_entry(void *context, const struct tar_entry *e)
{
	struct story *s = context;

	check(!s->in_entry);
	check(memchr(e->path, 0, sizeof(e->path)) && memchr(e->target, 0, sizeof(e->target)));
	check(e->kind == TAR_FILE || !e->size);
	check(e->mode <= 07777);
	check_normal(e->path);
	check_normal(e->target);
	s->in_entry = true;
	s->left = e->size;
	tell(s, e->path, strlen(e->path) + 1);
	tell(s, e->target, strlen(e->target) + 1);
	tell(s, &e->size, sizeof(e->size));
	tell(s, &e->mode, sizeof(e->mode));
	tell(s, &e->mtime, sizeof(e->mtime));
	return 0;
}

static int on_content(void *context, const uint8_t *bytes, size_t count)
{
	struct story *s = context;

	check(s->in_entry && count && count <= s->left);
	s->left -= count;
	tell(s, bytes, count);
	return 0;
}

static int on_entry_end(void *context)
{
	struct story *s = context;

	check(s->in_entry && !s->left);
	s->in_entry = false;
	tell(s, "", 1);
	return 0;
}

static const struct tar_sink sink = {on_entry, on_content, on_entry_end};

static uint64_t read_in_pieces(const uint8_t *bytes, size_t count, size_t piece)
{
	static struct tar_reader reader;
	struct story s = {0};
	int r = 0;

	memset(&reader, 0, sizeof(reader));
	for (size_t at = 0; at < count && !r; at += piece)
		r = tar_feed(
			&reader, bytes + at, count - at < piece ? count - at : piece, &sink, &s);
	if (!r)
		r = tar_close(&reader);
	check(r || !s.in_entry);
	tell(&s, &r, sizeof(r));
	return s.hash;
}

/* A fuzzer does not guess checksums: every block that claims to be a header is given its own. */
static void set_checksums(uint8_t *bytes, size_t count)
{
	for (size_t at = 0; at + TAR_BLOCK <= count; at += TAR_BLOCK) {
		uint8_t *block = bytes + at;
		unsigned sum = 0;

		if (memcmp(block + 257, "ustar", 5) != 0)
			continue;
		memset(block + 148, ' ', 8);
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += block[i];
		snprintf((char *)block + 148, 8, "%06o", sum);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static uint8_t copy[INPUT_MOST];
	uint64_t whole;

	if (count > sizeof(copy))
		return 0;
	memcpy(copy, bytes, count);
	set_checksums(copy, count);
	whole = read_in_pieces(copy, count, count ? count : 1);
	check(whole == read_in_pieces(copy, count, 1));
	check(whole == read_in_pieces(copy, count, 300));
	return 0;
}
