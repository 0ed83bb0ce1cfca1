/* SPDX-License-Identifier: Apache-2.0 - reading stdio cases, see cases.h. */
#include "grade/cases.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "intake/tree.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int natural(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t n, m;

			a += strspn(a, "0");
			b += strspn(b, "0");
			n = strspn(a, "0123456789");
			m = strspn(b, "0123456789");
			if (n != m)
				return n < m ? -1 : 1;
			if (memcmp(a, b, n))
				return memcmp(a, b, n);
			a += n;
			b += n;
		} else if (*a != *b) {
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return (*a != 0) - (*b != 0);
}

int cases_natural_order(const char *a, const char *b)
{
	int order = natural(a, b);

	return order ? order : strcmp(a, b); /* 1 and 01 */
}

static int by_id(const void *a, const void *b)
{
	const struct test_case *x = a, *y = b;

	return cases_natural_order(x->id, y->id);
}

void cases_fini(struct cases *cases)
{
	for (size_t i = 0; i < cases->count; i++) {
		free(cases->list[i].id);
		buffer_fini(&cases->list[i].input);
		buffer_fini(&cases->list[i].expected);
	}
	free(cases->list);
	*cases = (struct cases){0};
}

struct loading {
	int fd;            /* the folder of cases */
	const char *shown; /* its path for messages */
	const struct tree *tree;
	uint64_t left; /* bytes that may still be read */
	struct error *err;
};

static int read_one(struct loading *l, const char *path, struct buffer *out)
{
	cleanup_close int fd = tree_open(l->fd, path, l->err);
	int r;

	if (fd < 0)
		return error_prefix(l->err, "%s", l->shown);
	r = path_read_fd(fd, l->left, out);
	if (r == -EFBIG)
		return error_set(l->err, r, "%s/%s: the cases are larger than %llu MiB together",
			l->shown, path, (unsigned long long)(CASES_BYTES_MAX >> 20));
	if (r)
		return error_sys(l->err, r, "%s/%s", l->shown, path);
	l->left -= buffer_length(out);
	return 0;
}

/* the file with `suffix` instead of the last `cut` characters; NULL when there is none */
static const char *partner(
	const struct loading *l, const char *path, size_t cut, const char *suffix)
{
	cleanup_free char *name = NULL;
	const struct tree_file *f;

	if (asprintf(&name, "%.*s%s", (int)(strlen(path) - cut), path, suffix) < 0) {
		name = NULL;
		return NULL;
	}
	f = tree_find(l->tree, name);
	return f ? f->path : NULL;
}

static int load_case(struct loading *l, const char *path, struct cases *out)
{
	const char *answer = partner(l, path, 3, ".out"), *other = partner(l, path, 3, ".ans");
	struct test_case *c = &out->list[out->count];
	int r;

	if (!answer && !other)
		return error_set(l->err, -ENOENT,
			"%s/%s: has no answer; put %.*s.out or %.*s.ans beside it", l->shown, path,
			(int)strlen(path) - 3, path, (int)strlen(path) - 3, path);
	if (answer && other)
		return error_set(l->err, -EEXIST, "%s/%s: has two answers, %s and %s; remove one",
			l->shown, path, answer, other);
	*c = (struct test_case){.id = strndup(path, strlen(path) - 3)};
	if (!c->id)
		return error_set(l->err, -ENOMEM, "out of memory");
	out->count++;
	r = read_one(l, path, &c->input);
	return r ? r : read_one(l, answer ? answer : other, &c->expected);
}

static int load_all(struct loading *l, struct cases *out)
{
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; i < l->tree->count; i++)
		count += text_ends(l->tree->files[i].path, ".in");
	if (count == 0)
		return error_set(l->err, -ENOENT, "%s: holds no cases; put 01.in and 01.out in it",
			l->shown);
	if (count > CASES_MAX)
		return error_set(
			l->err, -E2BIG, "%s: holds more than %u cases", l->shown, CASES_MAX);
	out->list = calloc(count, sizeof(*out->list));
	if (!out->list)
		return error_set(l->err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < l->tree->count && !r; i++) {
		const char *path = l->tree->files[i].path;

		if (text_ends(path, ".in"))
			r = load_case(l, path, out);
		else if ((text_ends(path, ".out") || text_ends(path, ".ans")) &&
			 !partner(l, path, 4, ".in"))
			r = error_set(l->err, -ENOENT,
				"%s/%s: has no input; put %.*s.in beside it (it may be empty)",
				l->shown, path, (int)strlen(path) - 4, path);
	}
	if (!r)
		qsort(out->list, out->count, sizeof(*out->list), by_id);
	return r;
}

int cases_load(
	int tests_fd, const char *shown, const char *folder, struct cases *out, struct error *err)
{
	static const struct tree_rules rules = {.limits = {100000, UINT64_C(1) << 30, 32}};
	bool whole = strcmp(folder, ".") == 0;
	struct tree tree = {0};
	cleanup_free char *name = NULL;
	struct loading l = {.tree = &tree, .left = CASES_BYTES_MAX, .err = err};
	cleanup_close int fd = path_open_beneath(tests_fd, folder, O_RDONLY | O_DIRECTORY, 0);
	int r;

	*out = (struct cases){0};
	if (asprintf(&name, "%s%s%s", shown, whole ? "" : "/", whole ? "" : folder) < 0) {
		name = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (fd < 0)
		return error_sys(err, fd, "%s: the folder of cases cannot be opened", name);
	l.fd = fd;
	l.shown = name;
	r = tree_read(fd, &rules, &tree, err);
	if (r)
		return error_prefix(err, "%s", name);
	r = load_all(&l, out);
	tree_fini(&tree);
	if (r)
		cases_fini(out);
	return r;
}
