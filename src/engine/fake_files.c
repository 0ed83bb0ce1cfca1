/* SPDX-License-Identifier: Apache-2.0 - the files of engine fake: a sorted list in memory. */
#include "engine/fake_internal.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILES_MOST 65536u
#define BYTES_MOST (256ull << 20)
#define TAR_BLOCK  512u

/* ustar; numbers are octal text */
struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type,
		target[100], magic[6], version[2], user[32], group[32], major[8], minor[8],
		prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header is one block");

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* First index whose path is not before `path`. */
static size_t position(const struct fake_files *files, const char *path)
{
	size_t low = 0, high = files->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(files->list[middle]->path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct fake_file *fake_files_find(struct fake_files *files, const char *path)
{
	size_t i = position(files, path);

	return i < files->count && strcmp(files->list[i]->path, path) == 0 ? files->list[i] : NULL;
}

static void file_free(struct fake_file *file)
{
	if (!file)
		return;
	buffer_fini(&file->bytes);
	free(file->path);
	free(file);
}

static int insert(struct fake_files *files, struct fake_file *file)
{
	size_t i = position(files, file->path);

	if (files->count >= FILES_MOST)
		return -ENOSPC;
	if (files->count == files->room) {
		size_t room = files->room ? files->room * 2 : 64;
		struct fake_file **list = realloc(files->list, room * sizeof(*list));

		if (!list)
			return -ENOMEM;
		files->list = list;
		files->room = room;
	}
	memmove(files->list + i + 1, files->list + i, (files->count - i) * sizeof(*files->list));
	files->list[i] = file;
	files->count++;
	return 0;
}

static void take_out(struct fake_files *files, size_t i)
{
	files->count--;
	memmove(files->list + i, files->list + i + 1, (files->count - i) * sizeof(*files->list));
}

/* Absolute, no empty, "." or ".." parts, no slash at the end (but "/" itself). */
static bool is_clean(const char *path)
{
	const char *p = path;

	if (*p != '/' || strlen(path) >= WIRE_PATH_MAX)
		return false;
	while (*p) {
		size_t n = strcspn(++p, "/");

		if (n == 0)
			return p == path + 1 && !*p;
		if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
	}
	return true;
}

static int check_parent(struct fake_files *files, const char *path, bool make)
{
	char parent[WIRE_PATH_MAX];
	struct fake_file *file;
	char *slash;

	if (strcmp(path, "/") == 0)
		return 0;
	text_copy(parent, sizeof(parent), path);
	slash = strrchr(parent, '/');
	slash[slash == parent] = 0;
	file = fake_files_find(files, parent);
	if (file)
		return file->type == WIRE_FILE_DIRECTORY ? 0 : -ENOTDIR;
	return make ? fake_files_put(files, parent, WIRE_FILE_DIRECTORY, 0755, true, NULL)
		    : -ENOENT;
}

int fake_files_put(struct fake_files *files, const char *path, enum wire_file_type type,
	uint32_t mode, bool parents, struct fake_file **out)
{
	struct fake_file *file;
	int r;

	if (!is_clean(path))
		return -EINVAL;
	r = check_parent(files, path, parents);
	if (r)
		return r;
	file = fake_files_find(files, path);
	if (file && (file->type == WIRE_FILE_DIRECTORY) != (type == WIRE_FILE_DIRECTORY))
		return file->type == WIRE_FILE_DIRECTORY ? -EISDIR : -ENOTDIR;
	if (!file) {
		file = calloc(1, sizeof(*file));
		if (!file)
			return -ENOMEM;
		file->path = strdup(path);
		r = file->path ? insert(files, file) : -ENOMEM;
		if (r) {
			file_free(file);
			return r;
		}
	} else if (type == WIRE_FILE_DIRECTORY && !parents) {
		return -EEXIST;
	}
	files->bytes -= buffer_length(&file->bytes);
	buffer_clear(&file->bytes);
	file->type = type;
	file->mode = mode & 07777;
	file->mtime_ns = now_ns();
	if (out)
		*out = file;
	return 0;
}

int fake_files_add(
	struct fake_files *files, struct fake_file *file, const void *bytes, size_t count)
{
	int r;

	if (files->bytes + count > BYTES_MOST)
		return -ENOSPC;
	r = buffer_add(&file->bytes, bytes, count);
	if (!r)
		files->bytes += count;
	return r;
}

const char *fake_files_below(const char *path, const char *directory, uint32_t depth)
{
	size_t n = strcmp(directory, "/") == 0 ? 0 : strlen(directory);
	const char *rest = path + n + 1;

	if (strncmp(path, directory, n) != 0 || path[n] != '/' || !*rest)
		return NULL;
	for (const char *p = rest; (p = strchr(p, '/')); p++)
		if (--depth == 0)
			return NULL;
	return rest;
}

int fake_files_remove(struct fake_files *files, const char *path, bool recursive)
{
	struct fake_file *file = fake_files_find(files, path);

	if (!file)
		return recursive ? 0 : -ENOENT;
	if (strcmp(path, "/") == 0)
		return -EBUSY;
	for (size_t i = files->count; i-- > 0;) {
		if (!fake_files_below(files->list[i]->path, path, UINT32_MAX))
			continue;
		if (!recursive)
			return -ENOTEMPTY;
		files->bytes -= buffer_length(&files->list[i]->bytes);
		file_free(files->list[i]);
		take_out(files, i);
	}
	files->bytes -= buffer_length(&file->bytes);
	take_out(files, position(files, path));
	file_free(file);
	return 0;
}

int fake_files_rename(struct fake_files *files, const char *from, const char *to)
{
	struct fake_file *file = fake_files_find(files, from);
	char *path;
	int r;

	if (!file)
		return -ENOENT;
	if (!is_clean(to))
		return -EINVAL;
	r = check_parent(files, to, false);
	if (r)
		return r;
	for (size_t i = 0; i < files->count; i++)
		if (fake_files_below(files->list[i]->path, from, UINT32_MAX))
			return -EXDEV; /* whole trees: nobody asks for it */
	if (strcmp(from, to) == 0)
		return 0;
	if (fake_files_find(files, to)) {
		r = fake_files_remove(files, to, false);
		if (r)
			return r;
	}
	path = strdup(to);
	if (!path)
		return -ENOMEM;
	take_out(files, position(files, from));
	free(file->path);
	file->path = path;
	return insert(files, file);
}

int fake_files_init(struct fake_files *files)
{
	static const char *const folders[] = {"/", "/tmp", "/workspace"};
	int r = 0;

	*files = (struct fake_files){0};
	for (unsigned i = 0; !r && i < sizeof(folders) / sizeof(folders[0]); i++)
		r = fake_files_put(files, folders[i], WIRE_FILE_DIRECTORY, 0755, true, NULL);
	return r;
}

void fake_files_fini(struct fake_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		file_free(files->list[i]);
	free(files->list);
	*files = (struct fake_files){0};
}

static uint64_t octal(const char *text, size_t size)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size && text[i] >= '0' && text[i] <= '7'; i++)
		value = value * 8 + (uint64_t)(text[i] - '0');
	return value;
}

/* "path" of a pax record ("27 path=a/b\n…"); false when there is none. */
static bool pax_path(const uint8_t *bytes, size_t count, char *out, size_t size)
{
	size_t at = 0;

	while (at < count) {
		const uint8_t *record = bytes + at;
		size_t length = 0, digits = 0;

		while (at + digits < count && record[digits] >= '0' && record[digits] <= '9' &&
			length < count)
			length = length * 10 + (size_t)(record[digits++] - '0');
		if (length < digits + 2 || length > count - at)
			return false;
		if (length > digits + 7 && memcmp(record + digits, " path=", 6) == 0) {
			size_t n = length - digits - 7;

			if (n >= size)
				return false;
			memcpy(out, record + digits + 6, n);
			out[n] = 0;
			return true;
		}
		at += length;
	}
	return false;
}

static void tar_name(const struct tar_header *h, char *out, size_t size)
{
	if (h->prefix[0])
		text_format(out, size, "%.155s/%.100s", h->prefix, h->name);
	else
		text_format(out, size, "%.100s", h->name);
}

static int unpack_one(struct fake_files *files, const char *directory, const char *name, char type,
	const struct tar_header *h, const uint8_t *bytes, size_t count, uint32_t uid, uint32_t gid)
{
	enum wire_file_type kind = type == '5'   ? WIRE_FILE_DIRECTORY
				   : type == '2' ? WIRE_FILE_SYMLINK
						 : WIRE_FILE_REGULAR;
	char path[WIRE_PATH_MAX];
	struct fake_file *file;
	size_t n;
	int r;

	while (name[0] == '.' && name[1] == '/')
		name += 2;
	if (!*name || strcmp(name, ".") == 0)
		return 0;
	if (type != '0' && type != 0 && type != '5' && type != '2')
		return -EPERM; /* hard links and devices */
	r = text_format(path, sizeof(path), "%s/%s", strcmp(directory, "/") ? directory : "", name);
	if (r)
		return r;
	n = strlen(path);
	if (n > 1 && path[n - 1] == '/')
		path[n - 1] = 0;
	r = fake_files_put(
		files, path, kind, (uint32_t)octal(h->mode, sizeof(h->mode)), true, &file);
	if (r)
		return r;
	file->uid = uid;
	file->gid = gid;
	if (kind == WIRE_FILE_SYMLINK)
		return fake_files_add(
			files, file, h->target, strnlen(h->target, sizeof(h->target)));
	return kind == WIRE_FILE_REGULAR ? fake_files_add(files, file, bytes, count) : 0;
}

int fake_files_unpack(struct fake_files *files, const char *directory, const struct buffer *archive,
	uint32_t uid, uint32_t gid)
{
	const uint8_t *p = buffer_bytes(archive);
	size_t left = buffer_length(archive);
	char name[WIRE_PATH_MAX];
	bool named = false;
	int r;

	r = fake_files_find(files, directory)
		    ? 0
		    : fake_files_put(files, directory, WIRE_FILE_DIRECTORY, 0755, true, NULL);
	while (!r && left >= TAR_BLOCK) {
		struct tar_header h;
		uint64_t size, padded;

		memcpy(&h, p, sizeof(h));
		if (h.name[0] == 0)
			return 0; /* the end */
		size = octal(h.size, sizeof(h.size));
		padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
		p += TAR_BLOCK;
		left -= TAR_BLOCK;
		if (padded > left)
			return -EBADMSG;
		if (h.type == 'x') {
			named = pax_path(p, (size_t)size, name, sizeof(name));
		} else if (h.type != 'g') {
			if (!named)
				tar_name(&h, name, sizeof(name));
			named = false;
			r = unpack_one(
				files, directory, name, h.type, &h, p, (size_t)size, uid, gid);
		}
		p += padded;
		left -= (size_t)padded;
	}
	return r ? r : left ? -EBADMSG : 0;
}

static void set_octal(char *out, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		out[i] = (char)('0' + (value & 7));
}

static int pack_one(const struct fake_file *file, const char *name, struct buffer *archive)
{
	static const char zeros[TAR_BLOCK];
	struct tar_header h = {.magic = "ustar", .version = {'0', '0'}};
	size_t count = buffer_length(&file->bytes), n = strlen(name);
	bool regular = file->type == WIRE_FILE_REGULAR;
	uint32_t sum = 0;
	int r;

	if (n >= sizeof(h.name) || (!regular && count >= sizeof(h.target)))
		return -ENAMETOOLONG;
	memcpy(h.name, name, n);
	set_octal(h.mode, sizeof(h.mode), file->mode);
	set_octal(h.uid, sizeof(h.uid), file->uid);
	set_octal(h.gid, sizeof(h.gid), file->gid);
	set_octal(h.size, sizeof(h.size), regular ? count : 0);
	set_octal(h.mtime, sizeof(h.mtime), (uint64_t)(file->mtime_ns / 1000000000));
	h.type = regular ? '0' : file->type == WIRE_FILE_DIRECTORY ? '5' : '2';
	if (file->type == WIRE_FILE_SYMLINK && count)
		memcpy(h.target, buffer_bytes(&file->bytes), count);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const uint8_t *)&h)[i];
	set_octal(h.checksum, 7, sum);
	h.checksum[6] = 0;
	r = buffer_add(archive, &h, sizeof(h));
	if (!r && regular && count)
		r = buffer_add(archive, buffer_bytes(&file->bytes), count);
	if (!r && regular && count % TAR_BLOCK)
		r = buffer_add(archive, zeros, TAR_BLOCK - count % TAR_BLOCK);
	return r;
}

int fake_files_pack(struct fake_files *files, const char *path, struct buffer *archive)
{
	static const char end[2 * TAR_BLOCK];
	struct fake_file *top = fake_files_find(files, path);
	int r = 0;

	if (!top)
		return -ENOENT;
	if (top->type != WIRE_FILE_DIRECTORY)
		r = pack_one(top, strrchr(path, '/') + 1, archive);
	for (size_t i = 0; !r && i < files->count; i++) {
		const char *name = fake_files_below(files->list[i]->path, path, UINT32_MAX);

		if (name)
			r = pack_one(files->list[i], name, archive);
	}
	return r ? r : buffer_add(archive, end, sizeof(end));
}
