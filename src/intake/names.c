/* SPDX-License-Identifier: Apache-2.0 - students' names from the names of what they handed in. */
#include "intake/intake_internal.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

const char *names_archive(const char *name)
{
	/* longer ones first: .tar.gz before .gz */
	static const char *const suffixes[] = {".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst",
		".tar.lz", ".tgz", ".tbz2", ".txz", ".tar", ".zip", ".7z", ".rar", ".gz", ".bz2",
		".xz", ".zst"};
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t k = strlen(suffixes[i]);

		if (n > k && strcasecmp(name + n - k, suffixes[i]) == 0)
			return suffixes[i];
	}
	return NULL;
}

size_t names_stem(const char *name)
{
	const char *archive = names_archive(name), *dot = strrchr(name, '.');

	if (archive)
		return strlen(name) - strlen(archive);
	return dot && dot != name ? (size_t)(dot - name) : strlen(name);
}

struct key {
	struct submission *s;
	const char *text;
	size_t length;
};

static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	size_t n = x->length < y->length ? x->length : y->length;
	int c = memcmp(x->text, y->text, n);

	return c ? c : (x->length > y->length) - (x->length < y->length);
}

static int by_student(const void *a, const void *b)
{
	const struct submission *x = a, *y = b;

	return strcmp(x->student, y->student);
}

/* the name as text that can stand in a table and in a file, one line */
static char *safe_name(const char *bytes, size_t count)
{
	struct buffer b = {0};

	if (text_add_safe(&b, bytes, count, false)) {
		buffer_fini(&b);
		return NULL;
	}
	return buffer_steal(&b);
}

/* Files whose stem is also somebody else's keep their whole name. */
static void widen_equal_stems(struct key *keys, size_t count)
{
	qsort(keys, count, sizeof(*keys), by_key);
	for (size_t i = 0, j; i < count; i = j) {
		for (j = i + 1; j < count && by_key(&keys[i], &keys[j]) == 0; j++)
			;
		for (size_t k = i; j - i > 1 && k < j; k++)
			keys[k].length = strlen(keys[k].s->entry);
	}
}

/* What still looks the same (bytes that cannot be shown) is told apart by a digest of the name. */
static int part_equal_names(struct submission *list, size_t count)
{
	char digest[HASH_HEX_SIZE];

	for (size_t i = 0, j; i < count; i = j) {
		for (j = i + 1; j < count && strcmp(list[i].student, list[j].student) == 0; j++)
			;
		for (size_t k = i; j - i > 1 && k < j; k++) {
			char *longer;

			hash_bytes(list[k].entry, strlen(list[k].entry), digest);
			if (asprintf(&longer, "%s#%.16s", list[k].student, digest) < 0)
				return -ENOMEM;
			free(list[k].student);
			list[k].student = longer;
		}
	}
	return 0;
}

int names_assign(struct submission *list, size_t count, struct error *err)
{
	cleanup_free struct key *keys = calloc(count ? count : 1, sizeof(*keys));

	if (!keys)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct submission *s = &list[i];

		keys[i] = (struct key){
			s, s->entry, s->is_file ? names_stem(s->entry) : strlen(s->entry)};
	}
	widen_equal_stems(keys, count);
	for (size_t i = 0; i < count; i++) {
		keys[i].s->student = safe_name(keys[i].text, keys[i].length);
		if (!keys[i].s->student)
			return error_set(err, -ENOMEM, "out of memory");
	}
	if (count)
		qsort(list, count, sizeof(*list), by_student);
	if (part_equal_names(list, count))
		return error_set(err, -ENOMEM, "out of memory");
	if (count)
		qsort(list, count, sizeof(*list), by_student);
	return 0;
}
