/* SPDX-License-Identifier: Apache-2.0 - loading an assignment: its file, its tests, its defaults.
 */
#include "grade/assignment_internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "intake/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "assignment.yaml"

static void free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

void assignment_free(struct assignment *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->point_count; i++)
		free(a->points[i].pattern);
	free(a->points);
	free_words(a->files);
	free_words(a->compile);
	free_words(a->run);
	free_words(a->modules);
	free(a->name);
	free(a->tests_path);
	free(a->runner);
	free(a->runner_why);
	free(a->image);
	free(a->require_isolation);
	free(a->cases);
	free(a->framework);
	free(a->digest);
	close_fd(&a->tests_fd);
	free(a);
}

double assignment_points(const struct assignment *a, const char *test_id)
{
	double points = a->default_points;

	for (size_t i = 0; i < a->point_count; i++) {
		const char *pattern = a->points[i].pattern;

		if (strcmp(pattern, test_id) == 0 || fnmatch(pattern, test_id, 0) == 0)
			points = a->points[i].points;
	}
	return points;
}

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}

static int set_default(char **field, const char *text, struct error *err)
{
	if (*field)
		return 0;
	*field = strdup(text);
	return *field ? 0 : no_memory(err);
}

bool assignment_path_is_below(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		if (n == 1 && path[0] == '.' && path[1])
			return false;
		path += n;
		if (*path == '/' && !*++path)
			return false;
	}
	return true;
}

/* --- the runner, by what the folder holds --- */

static bool is_case(const char *name)
{
	return text_ends(name, ".in");
}

static bool is_python_test(const char *name)
{
	return text_ends(name, ".py") &&
	       (text_starts(name, "test_") || text_ends(name, "_test.py"));
}

/* files whose base name is of a kind, and the first of them */
static size_t count_files(const struct tree *tests, bool (*kind)(const char *), const char **first)
{
	size_t n = 0;

	for (size_t i = 0; i < tests->count; i++) {
		const char *path = tests->files[i].path, *slash = strrchr(path, '/');

		if (kind(slash ? slash + 1 : path) && n++ == 0)
			*first = path;
	}
	return n;
}

static int say_why(struct assignment *a, const char *runner, size_t count, const char *first,
	struct error *err)
{
	char shown[700];

	tree_show(first, shown, sizeof(shown));
	if (count == 1 ? asprintf(&a->runner_why, "the tests are %s", shown) < 0
		       : asprintf(&a->runner_why, "the tests are %s and %zu more like it", shown,
				 count - 1) < 0) {
		a->runner_why = NULL;
		return no_memory(err);
	}
	return set_default(&a->runner, runner, err);
}

static int choose_runner(
	struct assignment *a, const char *tests_path, const struct tree *tests, struct error *err)
{
	const char *first_case = NULL, *first_test = NULL;
	size_t cases = count_files(tests, is_case, &first_case);
	size_t python = count_files(tests, is_python_test, &first_test);
	char one[700], two[700];

	if (a->runner && strcmp(a->runner, "suite") == 0 && !python)
		return error_set(err, -ENOENT,
			"%s: holds no Python tests, and " FILE_NAME
			" says `runner: suite`; put test_hw.py in it",
			tests_path);
	if (a->runner)
		return set_default(&a->runner_why, FILE_NAME " says so", err);
	if (cases && python)
		return error_set(err, -EINVAL,
			"%s: holds cases (%s) and Python tests (%s); say which to run in "
			"%s/" FILE_NAME ": `runner: stdio` or `runner: suite`",
			tests_path, tree_show(first_case, one, sizeof(one)),
			tree_show(first_test, two, sizeof(two)), tests_path);
	if (cases)
		return say_why(a, "stdio", cases, first_case, err);
	if (python)
		return say_why(a, "suite", python, first_test, err);
	return error_set(err, -ENOENT,
		"%s: holds no tests; put cases (01.in and 01.out) or Python tests (test_hw.py) in "
		"it",
		tests_path);
}

/* --- the file --- */

static int read_file(
	struct assignment *a, const char *tests_path, const struct tree *tests, struct error *err)
{
	char name[PATH_MAX];
	struct buffer text = {0};
	struct yaml_tree *tree = NULL;
	int r;

	if (tree_find(tests, "assignment.yml"))
		return error_set(
			err, -EINVAL, "%s/assignment.yml: must be called " FILE_NAME, tests_path);
	if (!tree_find(tests, FILE_NAME))
		return 0;
	r = path_join(name, sizeof(name), tests_path, FILE_NAME, err);
	if (r)
		return r;
	cleanup_close int fd = tree_open(a->tests_fd, FILE_NAME, err);
	if (fd < 0)
		return fd;
	r = path_read_fd(fd, YAML_BYTES_MAX, &text);
	if (r)
		r = error_sys(err, r, "%s", name);
	else
		r = yaml_tree_parse(name, buffer_bytes(&text), buffer_length(&text), &tree, err);
	buffer_fini(&text);
	if (r)
		return r;
	r = assignment_read_keys(tree, a, err);
	if (!r && a->compile && !a->run)
		r = yaml_error(yaml_get(yaml_get(tree->root, "stdio"), "compile"), err, -EINVAL,
			"stdio.compile: needs stdio.run beside it, which runs what it makes");
	if (!r && tree->root && a->runner) {
		bool stdio = strcmp(a->runner, "stdio") == 0;
		const struct yaml_node *other = yaml_get(tree->root, stdio ? "suite" : "stdio");

		if (other)
			r = yaml_error(other, err, -EINVAL,
				"%s: is of no use with `runner: %s`; remove one",
				stdio ? "suite" : "stdio", a->runner);
	} else if (!r && tree->root) {
		bool stdio = yaml_get(tree->root, "stdio"), suite = yaml_get(tree->root, "suite");

		/* settings of one runner only say which one is meant */
		if (stdio != suite)
			r = set_default(&a->runner, stdio ? "stdio" : "suite", err);
	}
	yaml_tree_free(tree);
	return r;
}

/* --- what is not said --- */

static void fill_limits(struct limits *l, const struct limits *standard)
{
	l->cpu_ms = l->cpu_ms ? l->cpu_ms : standard->cpu_ms;
	l->wall_ms = l->wall_ms ? l->wall_ms : 3 * l->cpu_ms + 5000;
	l->memory_bytes = l->memory_bytes ? l->memory_bytes : standard->memory_bytes;
	l->processes = l->processes ? l->processes : standard->processes;
	l->output_bytes = l->output_bytes ? l->output_bytes : standard->output_bytes;
	l->disk_bytes = l->disk_bytes ? l->disk_bytes : standard->disk_bytes;
	l->file_bytes = l->file_bytes ? l->file_bytes : l->disk_bytes;
}

static int check_limits(
	const struct limits *l, const char *name, const char *tests_path, struct error *err)
{
	if (l->file_bytes > l->disk_bytes)
		return error_set(err, -EINVAL,
			"%s/" FILE_NAME
			": %s.file is larger than %s.disk; make disk at least as large",
			tests_path, name, name);
	return 0;
}

/* The folder's name, but of hw3/tests that of hw3: the results of each assignment whose tests are
 * called so would else go to one place and replace those of the one before. */
static int name_by_folder(struct assignment *a, struct error *err)
{
	const char *base = strrchr(a->tests_path, '/') + 1, *end = base + strlen(base);
	cleanup_free char *name = NULL;

	if (strcmp(base, "tests") == 0) {
		const char *parent = base - 1;

		while (parent > a->tests_path && parent[-1] != '/')
			parent--;
		if (base - 1 > parent && *parent != '.') {
			end = base - 1;
			base = parent;
		}
	}
	name = strndup(base, (size_t)(end - base));
	if (!name)
		return no_memory(err);
	return set_default(&a->name, *name && *name != '.' ? name : "assignment", err);
}

static int fill_defaults(struct assignment *a, struct error *err)
{
	static const struct limits run = {.cpu_ms = 10000,
		.memory_bytes = UINT64_C(256) << 20,
		.processes = 64,
		.output_bytes = 1 << 20,
		.disk_bytes = 64 << 20};
	struct limits compile = {.cpu_ms = 60000,
		.memory_bytes = UINT64_C(512) << 20,
		.processes = 256,
		.output_bytes = 1 << 20};
	int r = name_by_folder(a, err);

	fill_limits(&a->limits, &run);
	compile.disk_bytes = a->limits.disk_bytes;
	fill_limits(&a->compile_limits, &compile);
	r = r ? r : set_default(&a->image, "default", err);
	r = r ? r : set_default(&a->require_isolation, "kernel", err);
	r = r ? r : set_default(&a->cases, ".", err);
	if (!r && !a->files && !(a->files = calloc(1, sizeof(*a->files))))
		r = no_memory(err);
	if (!r && !a->modules && !(a->modules = calloc(1, sizeof(*a->modules))))
		r = no_memory(err);
	return r;
}

static int load(struct assignment *a, const char *tests_path, struct error *err)
{
	static const struct tree_rules rules = {.limits = {100000, UINT64_C(1) << 30, 32}};
	struct tree tests = {0};
	int r;

	a->tests_path = realpath(tests_path, NULL);
	if (!a->tests_path)
		return error_sys(err, errno, "%s", tests_path);
	a->tests_fd = open(a->tests_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->tests_fd < 0 && errno == ENOTDIR)
		return error_set(err, -ENOTDIR,
			"%s: is not a folder; give the folder that holds the tests", tests_path);
	if (a->tests_fd < 0)
		return error_sys(err, errno, "%s", tests_path);
	r = tree_read(a->tests_fd, &rules, &tests, err);
	if (r)
		return error_prefix(err, "%s", tests_path);
	r = read_file(a, tests_path, &tests, err);
	if (!r)
		r = choose_runner(a, tests_path, &tests, err);
	if (!r)
		r = fill_defaults(a, err);
	if (!r)
		r = check_limits(&a->limits, "limits", tests_path, err);
	if (!r)
		r = check_limits(&a->compile_limits, "stdio.compile_limits", tests_path, err);
	if (!r && !(a->digest = malloc(HASH_HEX_SIZE)))
		r = no_memory(err);
	if (!r) {
		r = tree_digest(a->tests_fd, &tests, NULL, a->digest, err);
		if (r)
			error_prefix(err, "%s", tests_path);
	}
	tree_fini(&tests);
	return r;
}

int assignment_load(const char *tests_path, struct assignment **out, struct error *err)
{
	struct assignment *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return no_memory(err);
	a->tests_fd = -1;
	a->default_points = 1;
	a->min_trust = TRUST_OPEN;
	a->compare = (struct compare){COMPARE_LINES, 1e-9, 1e-9, false};
	r = load(a, tests_path, err);
	if (r) {
		assignment_free(a);
		return r;
	}
	*out = a;
	return 0;
}
