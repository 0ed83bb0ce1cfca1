/* SPDX-License-Identifier: Apache-2.0 - reading a folder that somebody else filled; see tree.h. */
#include "intake/tree.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* entries looked at, with those skipped and folders, may be this many times the files allowed */
#define ENTRIES_PER_FILE 4

struct walk {
	const struct tree_rules *rules;
	struct tree *tree;
	size_t capacity, entries;
	struct error *err;
};

const char *tree_show(const char *path, char *out, size_t size)
{
	struct buffer safe = {0};
	size_t n = strlen(path);

	text_add_safe(&safe, path, n < 200 ? n : 200, false);
	if (n > 200)
		buffer_add_text(&safe, "…");
	text_copy(out, size, buffer_text(&safe) ? buffer_text(&safe) : "?");
	buffer_fini(&safe);
	return out;
}

const char *tree_litter(const char *name)
{
	static const char *const names[][2] = {{"__MACOSX", "left by macOS"},
		{".DS_Store", "left by macOS"}, {"__pycache__", "left by Python"},
		{"Thumbs.db", "left by Windows"}, {"desktop.ini", "left by Windows"}};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcasecmp(name, names[i][0]) == 0)
			return names[i][1];
	}
	if (text_starts(name, "._"))
		return "left by macOS";
	return name[0] == '.' ? "its name begins with a dot" : NULL;
}

/* path is wanted itself or a folder on the way to something wanted */
static bool leads_to_wanted(const struct tree_rules *rules, const char *path)
{
	size_t n = strlen(path);

	for (const char *const *w = rules->wanted; w && *w; w++) {
		if (strncmp(*w, path, n) == 0 && ((*w)[n] == 0 || (*w)[n] == '/'))
			return true;
	}
	return false;
}

static int __attribute__((format(printf, 4, 5)))
refuse(struct walk *w, const char *path, int code, const char *format, ...)
{
	char shown[700], message[300];
	va_list ap;

	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	return error_set(w->err, code, "%s: %s", tree_show(path, shown, sizeof(shown)), message);
}

static int add_file(struct walk *w, const char *path, const struct stat *st)
{
	struct tree *t = w->tree;
	struct tree_file *grown;

	if (t->count >= w->rules->limits.files)
		return refuse(w, path, -E2BIG, "more than %zu files", w->rules->limits.files);
	if (st->st_size < 0 || (uint64_t)st->st_size > w->rules->limits.bytes - t->bytes)
		return refuse(w, path, -EFBIG, "the files are larger than %llu MiB together",
			(unsigned long long)(w->rules->limits.bytes >> 20));
	if (t->count == w->capacity) {
		w->capacity = w->capacity ? w->capacity * 2 : 16;
		grown = reallocarray(t->files, w->capacity, sizeof(*grown));
		if (!grown)
			return refuse(w, path, -ENOMEM, "out of memory");
		t->files = grown;
	}
	t->files[t->count] = (struct tree_file){.path = strdup(path),
		.size_bytes = (uint64_t)st->st_size,
		.mode = st->st_mode & 0111 ? 0755 : 0644};
	if (!t->files[t->count].path)
		return refuse(w, path, -ENOMEM, "out of memory");
	t->count++;
	t->bytes += (uint64_t)st->st_size;
	return 0;
}

static int walk_folder(struct walk *w, int fd, const char *path, unsigned depth);

static int walk_subfolder(
	struct walk *w, int dir_fd, const char *name, const char *path, unsigned depth)
{
	int fd;

	if (depth >= w->rules->limits.depth)
		return refuse(w, path, -E2BIG, "folders are nested deeper than %u",
			w->rules->limits.depth);
	fd = path_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return refuse(w, path, fd, "cannot be opened: %s", strerror(-fd));
	return walk_folder(w, fd, path, depth + 1);
}

static int walk_entry(
	struct walk *w, int dir_fd, const char *name, const char *path, unsigned depth)
{
	const char *why = tree_litter(name);
	struct stat st;

	if (++w->entries / ENTRIES_PER_FILE > w->rules->limits.files)
		return refuse(w, path, -E2BIG, "more than %zu entries",
			w->rules->limits.files * ENTRIES_PER_FILE);
	if (why && !leads_to_wanted(w->rules, path))
		return w->rules->passed_over ? w->rules->passed_over(w->rules->context, path, why)
					     : 0;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return refuse(w, path, -errno, "cannot be read: %s", strerror(errno));
	if (S_ISREG(st.st_mode))
		return add_file(w, path, &st);
	if (S_ISDIR(st.st_mode))
		return walk_subfolder(w, dir_fd, name, path, depth);
	if (!w->rules->strict)
		return 0;
	if (S_ISLNK(st.st_mode))
		return refuse(
			w, path, -ELOOP, "is a symbolic link; only files and folders are taken");
	return refuse(w, path, -EINVAL, "is %s; only files and folders are taken",
		S_ISFIFO(st.st_mode)   ? "a named pipe"
		: S_ISSOCK(st.st_mode) ? "a socket"
				       : "a device");
}

/* takes fd */
static int walk_folder(struct walk *w, int fd, const char *path, unsigned depth)
{
	cleanup_dir DIR *dir = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!dir) {
		close(fd);
		return refuse(w, path, -ENOMEM, "out of memory");
	}
	while (!r && (errno = 0, e = readdir(dir))) {
		cleanup_free char *below = NULL;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", e->d_name) < 0) {
			below = NULL;
			return refuse(w, path, -ENOMEM, "out of memory");
		}
		if (strlen(below) >= 4000)
			return refuse(w, below, -ENAMETOOLONG, "the path is too long");
		r = walk_entry(w, dirfd(dir), e->d_name, below, depth);
	}
	if (!r && errno)
		r = refuse(w, path, -errno, "cannot be read: %s", strerror(errno));
	return r;
}

static int by_path(const void *a, const void *b)
{
	const struct tree_file *x = a, *y = b;

	return strcmp(x->path, y->path);
}

int tree_read(int dir_fd, const struct tree_rules *rules, struct tree *out, struct error *err)
{
	struct walk w = {.rules = rules, .tree = out, .err = err};
	int r, fd = path_open_beneath(dir_fd, ".", O_RDONLY | O_DIRECTORY, 0);

	*out = (struct tree){0};
	if (fd < 0)
		return error_sys(err, fd, "the folder cannot be opened");
	r = walk_folder(&w, fd, "", 0);
	if (r) {
		tree_fini(out);
		return r;
	}
	if (out->count)
		qsort(out->files, out->count, sizeof(*out->files), by_path);
	return 0;
}

void tree_fini(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++)
		free(tree->files[i].path);
	free(tree->files);
	*tree = (struct tree){0};
}

const struct tree_file *tree_find(const struct tree *tree, const char *path)
{
	struct tree_file key = {.path = (char *)path};

	return tree->count ? bsearch(&key, tree->files, tree->count, sizeof(key), by_path) : NULL;
}

int tree_open(int dir_fd, const char *path, struct error *err)
{
	char shown[700];
	struct stat st;
	/* O_NONBLOCK: should it have become a pipe in between, the open must not wait */
	cleanup_close int fd = path_open_beneath(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return error_sys(err, fd, "%s", tree_show(path, shown, sizeof(shown)));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return error_set(err, -ESTALE, "%s: is no longer a file",
			tree_show(path, shown, sizeof(shown)));
	return steal_fd(&fd);
}

int tree_digest(int dir_fd, const struct tree *tree, const char *only_name, char *out_hex,
	struct error *err)
{
	struct hash *h = hash_new();
	char one[HASH_HEX_SIZE], shown[700];
	int r = h ? 0 : error_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; !r && i < tree->count; i++) {
		const struct tree_file *f = &tree->files[i];
		cleanup_close int fd = tree_open(dir_fd, only_name ? only_name : f->path, err);

		if (fd < 0) {
			r = fd;
			break;
		}
		r = hash_fd(fd, one);
		if (r) {
			error_sys(err, r, "%s", tree_show(f->path, shown, sizeof(shown)));
			break;
		}
		hash_add_field(h, f->path, strlen(f->path));
		hash_add_field(h, f->mode & 0100 ? "x" : "-", 1);
		hash_add_field(h, one, sizeof(one) - 1);
	}
	if (!r)
		hash_end(h, out_hex);
	hash_free(h);
	return r;
}
