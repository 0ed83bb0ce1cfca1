/* SPDX-License-Identifier: Apache-2.0 - reading a folder of submissions, see intake.h. */
#include "intake/intake_internal.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define NAMES_SHOWN 10

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int __attribute__((format(printf, 2, 3)))
reject(struct submission *s, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&s->reject, format, ap);
	va_end(ap);
	if (n < 0)
		s->reject = NULL;
	return n < 0 ? -ENOMEM : 0;
}

/* True for errors that say something about the host and not about this submission. */
static bool is_hosts_fault(int code)
{
	return code == -ENOMEM || code == -EMFILE || code == -ENFILE || code == -EIO ||
	       code == -ENOBUFS;
}

static bool is_wanted(const char *const *wanted, const char *path)
{
	for (; *wanted; wanted++) {
		if (strcmp(*wanted, path) == 0)
			return true;
	}
	return false;
}

/* Length of the one folder (with its slash) in which all files are, past `from` bytes; 0 if none */
static size_t only_folder(const struct tree *t, size_t from)
{
	const char *first = t->files[0].path + from, *slash = strchr(first, '/');
	size_t n = slash ? (size_t)(slash - first) + 1 : 0;

	for (size_t i = 1; i < t->count && n; i++) {
		if (strncmp(t->files[i].path + from, first, n))
			return 0;
	}
	return n;
}

/* "hw.py", "hw/__init__.py", "hw.cpython-313-x86_64-linux-gnu.so" are of the module hw. */
static bool is_of_module(const char *path, const char *module)
{
	for (; *module; module++, path++) {
		if (*path != (*module == '.' ? '/' : *module))
			return false;
	}
	return *path == '/' || (*path == '.' && !strchr(path, '/') &&
				       (text_ends(path, ".py") || text_ends(path, ".pyc") ||
					       text_ends(path, ".so")));
}

static bool holds_module(const struct tree *t, const char *module, size_t from)
{
	for (size_t i = 0; i < t->count; i++) {
		if (is_of_module(t->files[i].path + from, module))
			return true;
	}
	return false;
}

static bool holds_any_module(const struct tree *t, const char *const *modules, size_t from)
{
	for (; *modules; modules++) {
		if (holds_module(t, *modules, from))
			return true;
	}
	return false;
}

static bool holds_wanted(const struct tree *t, const struct intake_wants *wants, size_t from)
{
	for (size_t i = 0; i < t->count; i++) {
		if (is_wanted(wants->files, t->files[i].path + from))
			return true;
	}
	return holds_any_module(t, wants->modules, from);
}

/* See through folders around everything. */
static int unwrap(struct submission *s, const struct intake_wants *wants)
{
	struct tree *t = &s->tree;
	size_t from = 0, more;

	while (t->count && !holds_wanted(t, wants, from) && (more = only_folder(t, from)))
		from += more;
	s->inside = t->count ? strndup(t->files[0].path, from ? from - 1 : 0) : strdup("");
	if (!s->inside)
		return -ENOMEM;
	for (size_t i = 0; i < t->count && from; i++) {
		char *path = t->files[i].path;

		memmove(path, path + from, strlen(path + from) + 1);
	}
	return 0;
}

/* "hw.py is missing; found HW.py, notes.txt; did you mean …" */
static int reject_missing(struct submission *s, const char *missing)
{
	struct buffer b = {0};
	const char *near = NULL, *elsewhere = NULL;
	const char *names[2] = {NULL, NULL};
	char shown[700];
	int r;

	for (size_t i = 0; i < s->tree.count; i++) {
		const char *path = s->tree.files[i].path;

		names[0] = path;
		if (!elsewhere && strcmp(base_name(path), base_name(missing)) == 0)
			elsewhere = path;
		if (!near && (strcasecmp(path, missing) == 0 || text_nearest(missing, names)))
			near = path;
	}
	r = buffer_printf(&b, "%s is missing; found ", tree_show(missing, shown, sizeof(shown)));
	for (size_t i = 0; i < s->tree.count && i < NAMES_SHOWN && !r; i++)
		r = buffer_printf(&b, "%s%s", i ? ", " : "",
			tree_show(s->tree.files[i].path, shown, sizeof(shown)));
	if (!r && s->tree.count > NAMES_SHOWN)
		r = buffer_printf(&b, " and %zu more", s->tree.count - NAMES_SHOWN);
	if (!r && elsewhere)
		r = buffer_printf(&b, "; %s is not in the right folder",
			tree_show(elsewhere, shown, sizeof(shown)));
	else if (!r && near)
		r = buffer_printf(&b, "; %s has nearly the right name",
			tree_show(near, shown, sizeof(shown)));
	if (!r && !(s->reject = buffer_steal(&b)))
		r = -ENOMEM;
	buffer_fini(&b);
	return r;
}

/* all that is wanted is there, or the submission is rejected */
static int check_wanted(struct submission *s, const struct intake_wants *wants)
{
	char first[300];

	for (const char *const *w = wants->files; *w; w++) {
		if (!tree_find(&s->tree, *w))
			return reject_missing(s, *w);
	}
	if (!wants->modules[0] || holds_any_module(&s->tree, wants->modules, 0))
		return 0;
	if (text_format(first, sizeof(first), "%s.py", wants->modules[0]))
		return reject(s, "holds none of the modules that the tests import");
	for (char *dot = first; dot + 3 < first + strlen(first); dot++)
		*dot = *dot == '.' ? '/' : *dot;
	return reject_missing(s, first);
}

static int reject_archive(struct submission *s, const char *name)
{
	char shown[700], stem[700];
	cleanup_free char *without = strndup(name, names_stem(name));

	if (!without)
		return -ENOMEM;
	return reject(s, "%s: archives are not supported yet; unpack it into a folder %s",
		tree_show(name, shown, sizeof(shown)), tree_show(without, stem, sizeof(stem)));
}

/* What is passed over in one submission. */
struct passing {
	struct intake *in;
	const struct submission *s;
	char first[700]; /* the first of it, or "" */
	const char *why;
};

static int pass_over(void *context, const char *path, const char *why)
{
	struct passing *p = context;

	if (!*p->first) {
		tree_show(path, p->first, sizeof(p->first));
		p->why = why;
	}
	return litter_add(p->in, p->s->entry, path, why);
}

static int check_folder(struct intake *in, struct submission *s, const struct intake_wants *wants,
	struct error *err)
{
	struct passing passing = {.in = in, .s = s};
	const struct tree_rules rules = {
		.limits = {INTAKE_FILES_MAX, INTAKE_BYTES_MAX, INTAKE_DEPTH_MAX},
		.strict = true,
		.wanted = wants->files,
		.passed_over = pass_over,
		.context = &passing};
	struct error why = {0};
	cleanup_close int fd = stage_source(in, s, &why);
	int r = fd < 0 ? fd : tree_read(fd, &rules, &s->tree, &why);

	if (is_hosts_fault(r))
		return error_set(err, r, "%s: %s", s->student, why.message);
	if (r)
		return reject(s, "%s", why.message);
	if (s->tree.count == 0 && passing.why)
		return reject(s, "the folder is empty but for %s, which is passed over: %s",
			passing.first, passing.why);
	if (s->tree.count == 0)
		return reject(s, "the folder is empty");
	free(s->inside);
	r = unwrap(s, wants);
	if (!r && s->tree.count == 1 && names_archive(s->tree.files[0].path) &&
		(wants->files[0] || wants->modules[0]) && !holds_wanted(&s->tree, wants, 0))
		return reject_archive(s, s->tree.files[0].path);
	return r ? r : check_wanted(s, wants);
}

/* the name a single file gets: the wanted one when its suffix fits, else its own */
static const char *file_target(const struct submission *s, const struct intake_wants *wants)
{
	const char *const *files = wants->files;
	const char *target = files[0] ? (files[1] ? NULL : files[0]) : wants->single;
	const char *name = target ? base_name(target) : NULL;

	if (name && strcmp(name + names_stem(name), s->entry + names_stem(s->entry)) == 0)
		return target;
	return s->entry;
}

static int check_file(struct submission *s, const struct stat *st, const struct intake_wants *wants)
{
	const char *target = file_target(s, wants);
	struct tree_file *f;

	if (names_archive(s->entry) && !is_wanted(wants->files, target))
		return reject_archive(s, s->entry);
	f = s->tree.files = calloc(1, sizeof(*f));
	if (!f || !(f->path = strdup(target)))
		return -ENOMEM;
	s->tree.count = 1;
	s->tree.bytes = f->size_bytes = (uint64_t)st->st_size;
	f->mode = st->st_mode & 0111 ? 0755 : 0644;
	if (f->size_bytes > INTAKE_BYTES_MAX)
		return reject(s, "the file is larger than %u MiB", INTAKE_BYTES_MAX >> 20);
	return check_wanted(s, wants);
}

static int digest_submission(struct intake *in, struct submission *s, struct error *err)
{
	struct error why = {0};
	cleanup_close int fd = stage_source(in, s, &why);
	int r = fd < 0 ? fd
		       : tree_digest(fd, &s->tree, s->is_file ? s->entry : NULL, s->digest, &why);

	if (is_hosts_fault(r))
		return error_set(err, r, "%s: %s", s->student, why.message);
	return r ? reject(s, "%s", why.message) : 0;
}

static int check_submission(struct intake *in, struct submission *s,
	const struct intake_wants *wants, struct error *err)
{
	struct stat st;
	int r;

	if (fstatat(in->dir_fd, s->entry, &st, AT_SYMLINK_NOFOLLOW))
		r = reject(s, "cannot be read: %s", strerror(errno));
	else if (S_ISLNK(st.st_mode))
		r = reject(s, "is a symbolic link; only files and folders are taken");
	else if (S_ISDIR(st.st_mode))
		r = check_folder(in, s, wants, err);
	else if (S_ISREG(st.st_mode))
		r = check_file(s, &st, wants);
	else
		r = reject(s, "is a device, pipe or socket; only files and folders are taken");
	if (!r && !s->reject)
		r = digest_submission(in, s, err);
	if (!r && s->reject) /* a rejection is known again by its reason */
		hash_bytes(s->reject, strlen(s->reject), s->digest);
	if (r || s->reject)
		return r;
	s->paths = calloc(s->tree.count + 1, sizeof(*s->paths));
	if (!s->paths)
		return -ENOMEM;
	for (size_t i = 0; i < s->tree.count; i++)
		s->paths[i] = s->tree.files[i].path;
	return 0;
}

static int list_entries(struct intake *in, const char *path, struct error *err)
{
	int fd = path_open_beneath(in->dir_fd, ".", O_RDONLY | O_DIRECTORY, 0);
	cleanup_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t capacity = 0;
	struct dirent *e;
	struct stat st;

	if (!dir) {
		close_fd(&fd);
		return error_sys(err, fd < 0 ? fd : -ENOMEM, "%s", path);
	}
	while ((errno = 0, e = readdir(dir))) {
		const char *why = tree_litter(e->d_name);
		struct submission *s;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (why && litter_add(in, NULL, e->d_name, why))
			return error_set(err, -ENOMEM, "out of memory");
		if (why)
			continue;
		if (in->count == INTAKE_STUDENTS_MAX)
			return error_set(
				err, -E2BIG, "%s: more than %u entries", path, INTAKE_STUDENTS_MAX);
		if (in->count == capacity) {
			capacity = capacity ? capacity * 2 : 64;
			s = reallocarray(in->submissions, capacity, sizeof(*s));
			if (!s)
				return error_set(err, -ENOMEM, "out of memory");
			in->submissions = s;
		}
		s = &in->submissions[in->count];
		*s = (struct submission){.entry = strdup(e->d_name), .inside = strdup("")};
		in->count++;
		if (!s->entry || !s->inside)
			return error_set(err, -ENOMEM, "out of memory");
		s->is_file = fstatat(in->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			     !S_ISDIR(st.st_mode);
	}
	return errno ? error_sys(err, errno, "%s", path) : 0;
}

static int open_folder(const char *path, struct error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOTDIR)
		return error_set(err, -ENOTDIR,
			"%s: is not a folder; give the folder that holds the submissions", path);
	return fd < 0 ? error_sys(err, errno, "%s", path) : fd;
}

int intake_check(const char *path, struct error *err)
{
	cleanup_close int fd = open_folder(path, err);

	return fd < 0 ? fd : 0;
}

static int no_submissions(const struct intake *in, const char *path, struct error *err)
{
	char shown[700];

	if (in->litter_kept)
		return error_set(err, -ENOENT,
			"%s: holds no submissions; %s is passed over: %s; put a folder or a file "
			"of each student in it",
			path, tree_show(in->litter[0].path, shown, sizeof(shown)),
			in->litter[0].why);
	return error_set(err, -ENOENT,
		"%s: holds no submissions; put a folder or a file of each student in it", path);
}

int intake_open(
	const char *path, const struct intake_wants *wanted, struct intake **out, struct error *err)
{
	static const char *const none[] = {NULL};
	const struct intake_wants wants = {.files = wanted->files ? wanted->files : none,
		.modules = wanted->modules ? wanted->modules : none,
		.single = wanted->single};
	struct intake *in = calloc(1, sizeof(*in));
	int r;

	if (!in)
		return error_set(err, -ENOMEM, "out of memory");
	in->dir_fd = open_folder(path, err);
	r = in->dir_fd < 0 ? in->dir_fd : 0;
	if (!r)
		r = list_entries(in, path, err);
	if (!r && in->count == 0)
		r = no_submissions(in, path, err);
	if (!r)
		r = names_assign(in->submissions, in->count, err);
	for (size_t i = 0; !r && i < in->count; i++) {
		r = check_submission(in, &in->submissions[i], &wants, err);
		if (r && err && !err->code)
			error_set(err, r, "out of memory");
	}
	if (r) {
		intake_free(in);
		return r;
	}
	litter_sort(in);
	*out = in;
	return 0;
}

void intake_free(struct intake *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->count; i++) {
		struct submission *s = &in->submissions[i];

		tree_fini(&s->tree);
		free(s->entry);
		free(s->student);
		free(s->reject);
		free(s->inside);
		free(s->paths);
	}
	free(in->submissions);
	litter_fini(in);
	close_fd(&in->dir_fd);
	free(in);
}

const struct submission *intake_find(const struct intake *in, const char *student)
{
	size_t low = 0, high = in->count;

	while (low < high) { /* they are sorted */
		size_t middle = low + (high - low) / 2;
		int order = strcmp(in->submissions[middle].student, student);

		if (order == 0)
			return &in->submissions[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const char *intake_module_of_nobody(const struct intake *in, const char *const *modules)
{
	for (; modules && *modules; modules++) {
		bool found = false;

		for (size_t i = 0; i < in->count && !found; i++)
			found = holds_module(&in->submissions[i].tree, *modules, 0);
		if (!found)
			return *modules;
	}
	return NULL;
}
