/* SPDX-License-Identifier: Apache-2.0 - assignment.yaml: what it says, and every complaint with its
 * place. */
#include "grade/assignment.h"

#include "folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[PATH_MAX];

static int set_up(void **state)
{
	folder_new(folder, sizeof(folder));
	return 0;
}

static int tear_down(void **state)
{
	folder_remove(folder);
	return 0;
}

static struct assignment *load(void)
{
	struct assignment *a = NULL;
	struct error err = {0};

	if (assignment_load(folder, &a, &err))
		fail_msg("%s", err.message);
	return a;
}

/* what follows the folder's name in the message */
static void expect_error(const char *yaml, const char *message)
{
	struct assignment *a = NULL;
	struct error err = {0};
	const char *rest;

	if (yaml)
		folder_put(folder, "assignment.yaml", yaml);
	if (assignment_load(folder, &a, &err) == 0)
		fail_msg("taken: %s", yaml);
	assert_null(a);
	assert_true(text_starts(err.message, folder));
	rest = err.message + strlen(folder);
	if (strncmp(rest, message, strlen(message)))
		fail_msg("%s\nnot: %s", rest, message);
}

static void test_defaults(void **state)
{
	struct assignment *a;

	folder_put(folder, "01.in", "");
	folder_put(folder, "01.out", "");
	a = load();
	assert_string_equal(a->runner, "stdio");
	assert_non_null(strstr(a->runner_why, "01.in"));
	assert_string_equal(a->name, strrchr(folder, '/') + 1);
	assert_string_equal(a->image, "default");
	assert_string_equal(a->require_isolation, "kernel");
	assert_null(a->files[0]);
	assert_int_equal(a->limits.cpu_ms, 10000);
	assert_int_equal(a->limits.wall_ms, 35000);
	assert_int_equal(a->limits.memory_bytes, 256 << 20);
	assert_int_equal(a->limits.file_bytes, a->limits.disk_bytes);
	assert_int_equal(a->compile_limits.memory_bytes, 512 << 20);
	assert_int_equal(a->compare.rule, COMPARE_LINES);
	assert_true(a->default_points >= 1 && a->default_points <= 1);
	assert_int_equal(strlen(a->digest), 64);
	assignment_free(a);
}

/* hw3/tests and hw4/tests were both called "tests", and the results of one replaced the other's. */
static void test_folder_called_tests(void **state)
{
	struct assignment *a = NULL;
	struct error err = {0};
	char path[PATH_MAX + 8];

	folder_put(folder, "tests/01.in", "");
	folder_put(folder, "tests/01.out", "");
	snprintf(path, sizeof(path), "%s/tests", folder);
	assert_int_equal(assignment_load(path, &a, &err), 0);
	assert_string_equal(a->name, strrchr(folder, '/') + 1);
	assignment_free(a);
}

static void test_all_keys(void **state)
{
	struct assignment *a;

	folder_put(folder, "assignment.yaml",
		"name: hw 3\nimage: py@2\nfiles: [hw.py, src/b.py]\nrunner: stdio\n"
		"min_trust: sealed\nrequire_isolation: hardware\n"
		"points: {default: 0.5, 'a*': 2, a1: 3}\n"
		"limits: {cpu: 1.5s, wall: 2m, memory: 1G, processes: 9, output: 2k, disk: 32M,\n"
		"  file: 1M}\n"
		"stdio:\n  cases: c\n  compile: gcc -o p hw.c\n  run: [./p, \"a b\"]\n"
		"  compare: {float: {absolute: 0.01, nan: true}}\n"
		"  compile_limits: {cpu: 3s}\n");
	folder_put(folder, "c/1.in", "");
	a = load();
	assert_string_equal(a->name, "hw 3");
	assert_string_equal(a->image, "py@2");
	assert_string_equal(a->files[1], "src/b.py");
	assert_null(a->files[2]);
	assert_int_equal(a->min_trust, TRUST_SEALED);
	assert_string_equal(a->require_isolation, "hardware");
	assert_int_equal(a->limits.cpu_ms, 1500);
	assert_int_equal(a->limits.wall_ms, 120000);
	assert_int_equal(a->limits.memory_bytes, 1 << 30);
	assert_int_equal(a->limits.processes, 9);
	assert_int_equal(a->limits.output_bytes, 2048);
	assert_int_equal(a->limits.disk_bytes, 32 << 20);
	assert_int_equal(a->limits.file_bytes, 1 << 20);
	assert_string_equal(a->cases, "c");
	assert_string_equal(a->compile[2], "p");
	assert_string_equal(a->compile[3], "hw.c");
	assert_null(a->compile[4]);
	assert_string_equal(a->run[1], "a b");
	assert_int_equal(a->compare.rule, COMPARE_FLOAT);
	assert_true(a->compare.absolute > 0.009 && a->compare.relative <= 0);
	assert_true(a->compare.nan_equal);
	assert_int_equal(a->compile_limits.cpu_ms, 3000);
	assert_int_equal(a->compile_limits.wall_ms, 14000);
	/* the last rule that matches */
	assert_int_equal((int)(assignment_points(a, "a1") * 10), 30);
	assert_int_equal((int)(assignment_points(a, "a2") * 10), 20);
	assert_int_equal((int)(assignment_points(a, "b") * 10), 5);
	assignment_free(a);
}

static void test_complaints(void **state)
{
	static const struct {
		const char *yaml, *message;
	} rows[] = {
		{"- a\n", "/assignment.yaml:1:1: the file is a list; it must be a map"},
		{"limits:\n  cpu: 10 parsecs\n", "/assignment.yaml:2:8: limits.cpu: \"10 parsecs\" "
						 "is not a duration; write 10s, "
						 "500ms or 2m"},
		{"limits: {cpu: 0s}\n", "/assignment.yaml:1:15: limits.cpu: \"0s\" is out of "
					"range; it must be from 10ms "
					"to 24h"},
		{"limits: {memory: lots}\n", "/assignment.yaml:1:18: limits.memory: \"lots\" is "
					     "not a size; write 256M, 64k or "
					     "2G"},
		{"limits: {memory: 1k}\n", "/assignment.yaml:1:18: limits.memory: \"1k\" is out of "
					   "range; it must be from "
					   "16M to 65536M"},
		{"limits: {processes: 0}\n",
			"/assignment.yaml:1:21: limits.processes: \"0\" must be from 1 to 4096"},
		{"limits: {disk: 1M, file: 2M}\n",
			"/assignment.yaml: limits.file is larger than limits.disk"},
		{"limits: 10s\n", "/assignment.yaml:1:9: limits: \"10s\"; it must be a map"},
		{"limts: {}\n",
			"/assignment.yaml:1:1: no such key \"limts\"; did you mean limits?"},
		{"limits: {cpus: 1s}\n",
			"/assignment.yaml:1:10: no such key \"cpus\"; did you mean cpu?"},
		{"limits.cpu: 1s\n", "/assignment.yaml:1:1: no such key \"limits.cpu\"; there are"},
		{"colour: red\n",
			"/assignment.yaml:1:1: no such key \"colour\"; there are name, image,"},
		{"runner: studio\n", "/assignment.yaml:1:9: runner: \"studio\" is not one of "
				     "stdio, suite; did you mean "
				     "stdio?"},
		{"runner: [stdio]\n", "/assignment.yaml:1:9: runner: a list; it must be text"},
		{"runner:\n", "/assignment.yaml:1:8: runner: empty; it must be text"},
		{"name: ../x\n", "/assignment.yaml:1:7: name: it names a folder"},
		{"name: \"a\\tb\"\n",
			"/assignment.yaml:1:7: name: must not hold control characters"},
		{"files: [/etc/passwd]\n", "/assignment.yaml:1:9: files: \"/etc/passwd\" must be a "
					   "path below the folder"},
		{"files: [a/../../b]\n",
			"/assignment.yaml:1:9: files: \"a/../../b\" must be a path"},
		{"files: [a, a]\n", "/assignment.yaml:1:12: files: a is named twice"},
		{"files: []\n", "/assignment.yaml:1:8: files: must hold from 1 to 256 entries"},
		{"points: -1\n", "/assignment.yaml:1:9: points: \"-1\" must be from 0 to 1000000"},
		{"points: {a: many}\n",
			"/assignment.yaml:1:13: points.\"a\": \"many\" is not a number"},
		{"stdio: {compare: {float: {abs: 1}}}\n",
			"/assignment.yaml:1:27: stdio.compare.float: no such key \"abs\"; there "
			"are"},
		{"stdio: {compare: fuzzy}\n",
			"/assignment.yaml:1:18: stdio.compare: \"fuzzy\" is not"},
		{"stdio: {run: \"./a > b\"}\n", "/assignment.yaml:1:14: stdio.run: \"./a > b\" "
						"goes to no shell; write a list"},
		{"stdio: {compile: make}\n",
			"/assignment.yaml:1:18: stdio.compile: needs stdio.run beside it"},
		{"runner: stdio\nsuite: {modules: [hw]}\n", "/assignment.yaml:2:8: suite: is of no "
							    "use with `runner: stdio`; remove one"},
		{"suite: {modules: [hw.py-x]}\n",
			"/assignment.yaml:1:19: suite.modules: \"hw.py-x\" is not a module's name"},
		{"require_isolation: strong\n",
			"/assignment.yaml:1:20: require_isolation: \"strong\" is not one of none,"},
	};

	folder_put(folder, "1.in", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_error(rows[i].yaml, rows[i].message);
}

static void test_choice(void **state)
{
	struct assignment *a;

	expect_error(NULL, ": holds no tests; put cases");
	folder_put(folder, "test_hw.py", "");
	a = load();
	assert_string_equal(a->runner, "suite");
	assignment_free(a);
	folder_put(folder, "01.in", "");
	expect_error(NULL, ": holds cases (01.in) and Python tests (test_hw.py); say which");
	folder_put(folder, "assignment.yaml", "suite: {framework: pytest}\n");
	a = load();
	assert_string_equal(a->runner, "suite");
	assignment_free(a);
	folder_put(folder, "assignment.yml", "");
	expect_error(NULL, "/assignment.yml: must be called assignment.yaml");
}

static void test_not_a_folder(void **state)
{
	struct assignment *a = NULL;
	struct error err = {0};
	char path[PATH_MAX];

	folder_put(folder, "file", "");
	path_join(path, sizeof(path), folder, "file", NULL);
	assert_int_equal(assignment_load(path, &a, &err), -ENOTDIR);
	assert_non_null(strstr(err.message, "is not a folder; give the folder"));
	path_join(path, sizeof(path), folder, "none", NULL);
	assert_int_equal(assignment_load(path, &a, &err), -ENOENT);
}

/* The digest follows names and contents, and nothing else. */
static void test_digest(void **state)
{
	struct assignment *a, *b;

	folder_put(folder, "1.in", "x");
	folder_put(folder, "1.out", "y");
	a = load();
	folder_put(folder, ".DS_Store", "litter");
	folder_put(folder, "__pycache__/x.pyc", "litter");
	b = load();
	assert_string_equal(a->digest, b->digest);
	assignment_free(b);
	folder_put(folder, "1.out", "z");
	b = load();
	assert_string_not_equal(a->digest, b->digest);
	assignment_free(a);
	assignment_free(b);
}

/* Every key is described, and each description is complete. */
static void test_description(void **state)
{
	struct buffer b = {0};
	size_t lines = 0, tabs = 0;

	assert_int_equal(assignment_describe_keys(&b), 0);
	for (const char *p = buffer_text(&b); *p; p++) {
		lines += *p == '\n';
		tabs += *p == '\t';
	}
	assert_true(lines > 20);
	assert_int_equal(tabs, lines * 3);
	assert_null(strstr(buffer_text(&b), "(null)"));
	buffer_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_folder_called_tests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_all_keys, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_complaints, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_choice, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_a_folder, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_digest, set_up, tear_down),
		cmocka_unit_test(test_description),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
