/* SPDX-License-Identifier: Apache-2.0 - sealmark show: the results of a graded class, test by test
 * or of one student. */
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "grade/record.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Everything is read from results.jsonl, a record on each line; nothing is run. What a student's
 * program has said stands in there and goes to a terminal: remote_put() makes it harmless.
 */
#define RECORD_MOST  (64u << 20) /* of one line */
#define LINES_SHOWN  20          /* of what a test said, and of each of its streams */
#define ANSWERS_MOST 3           /* different answers shown for a test, with --test all */
#define ANSWER_MOST  200         /* bytes of one answer in the table of tests */

struct show_options {
	const char *test;
	bool json;
};

/* --- reading --- */

static int bad_line(const char *path, size_t line, const char *why, struct error *err)
{
	return cli_usage(
		err, "%s: line %zu: %s; grade once more to have it written anew", path, line, why);
}

static int read_lines(FILE *file, const char *path, json_t *records, struct error *err)
{
	cleanup_free char *text = NULL;
	size_t room = 0, line = 0;
	ssize_t n;

	while ((n = getline(&text, &room, file)) > 0) {
		json_error_t why;
		json_t *record;

		line++;
		if ((size_t)n > RECORD_MOST)
			return bad_line(path, line, "is too long", err);
		record = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, &why);
		if (!json_is_object(record) || !*json_text(record, "student") ||
			!json_is_array(json_object_get(record, "tests"))) {
			json_decref(record);
			return bad_line(path, line, "is no record of a submission", err);
		}
		json_array_append_new(records, record);
	}
	return ferror(file) ? cli_ours(err, "%s: cannot be read", path) : CLI_OK;
}

/* All records of the folder that grade has written. */
static int read_records(const char *folder, json_t *records, struct error *err)
{
	char path[PATH_MAX];
	FILE *file;
	int status;

	if (path_join(path, sizeof(path), folder, "results.jsonl", err))
		return CLI_USAGE;
	file = fopen(path, "re");
	if (!file && (errno == ENOENT || errno == ENOTDIR))
		return cli_usage(err,
			"%s holds no results.jsonl: RESULTS is the folder that `sealmark grade` "
			"has "
			"named at its end (-o)",
			folder);
	if (!file)
		return cli_usage(err, "%s: %s", path, strerror(errno));
	status = read_lines(file, path, records, err);
	fclose(file);
	return status;
}

/* --- one student --- */

static const json_t *find_student(const json_t *records, const char *student)
{
	const json_t *record;
	size_t i;

	json_array_foreach (records, i, record) {
		if (strcmp(json_text(record, "student"), student) == 0)
			return record;
	}
	return NULL;
}

static int no_student(const json_t *records, const char *student, struct error *err)
{
	size_t count = json_array_size(records);
	cleanup_free const char **names = calloc(count + 1, sizeof(*names));
	const char *nearest = NULL;

	for (size_t i = 0; names && i < count; i++)
		names[i] = json_text(json_array_get(records, i), "student");
	if (names)
		nearest = text_nearest(student, names);
	if (nearest)
		return cli_usage(err, "there is no result of \"%.200s\"; did you mean \"%.200s\"?",
			student, nearest);
	return cli_usage(err, "there is no result of \"%.200s\" among %zu", student, count);
}

/* Text in lines, each behind `margin`, the first LINES_SHOWN of them. */
static void put_lines(const char *text, const char *margin)
{
	size_t lines = 0;

	while (*text && lines < LINES_SHOWN) {
		size_t n = strcspn(text, "\n");
		cleanup_free char *line = strndup(text, n);

		fputs(margin, stdout);
		if (line)
			remote_put(stdout, line);
		putchar('\n');
		text += n + (text[n] == '\n');
		lines++;
	}
	if (*text)
		printf("%s(there is more in results.jsonl)\n", margin);
}

/* A stream of a test's, when there is something in it. */
static void put_stream(const json_t *test, const char *name)
{
	const json_t *stream = json_object_get(test, name);
	const char *head = json_text(stream, "head");

	if (!*head)
		return;
	printf("       %s:\n", name);
	if (strcmp(json_text(stream, "encoding"), "utf-8") == 0)
		put_lines(head, "         | ");
	else
		puts("         (bytes that are no text)");
}

static void put_points(const json_t *of, const char *score, const char *most)
{
	char a[RECORD_SCORE_SIZE], b[RECORD_SCORE_SIZE];

	printf("%s/%s", record_score(json_number_value(json_object_get(of, score)), a),
		record_score(json_number_value(json_object_get(of, most)), b));
}

static void put_test(const json_t *test, size_t number)
{
	const char *verdict = json_text(test, "verdict"), *detail = json_text(test, "detail");
	bool passed = strcmp(verdict, "passed") == 0;

	printf("%4zu.  ", number);
	remote_put(stdout, json_text(test, "id"));
	printf("  %s  ", verdict);
	put_points(test, "points", "max_points");
	putchar('\n');
	if (passed)
		return;
	put_lines(detail, "       ");
	put_stream(test, "stdout");
	put_stream(test, "stderr");
}

static void put_student(const json_t *record)
{
	const char *note = json_text(record, "note");
	const json_t *test;
	size_t i;

	remote_put(stdout, json_text(record, "student"));
	printf(": %s", json_text(record, "status"));
	if (json_is_number(json_object_get(record, "score"))) {
		putchar(' ');
		put_points(record, "score", "max_score");
	}
	if (*note) {
		fputs("; ", stdout);
		remote_put(stdout, note);
	}
	putchar('\n');
	json_array_foreach (json_object_get(record, "tests"), i, test)
		put_test(test, i + 1);
}

/* --- all students, test by test --- */

static void count_up(json_t *counts, const char *name)
{
	json_object_set_new(
		counts, name, json_integer(json_integer_value(json_object_get(counts, name)) + 1));
}

/* The entry of a test in `tests`, made if it is new. */
static json_t *entry_of(json_t *tests, json_t *by_id, const char *id)
{
	json_t *entry = json_object_get(by_id, id);

	if (!entry) {
		entry = json_pack("{ss si si s{} s{}}", "id", id, "passed", 0, "graded", 0,
			"verdicts", "answers");
		json_array_append_new(tests, entry);
		json_object_set(by_id, id, entry);
	}
	return entry;
}

static void add_test(json_t *entry, const json_t *test)
{
	const char *verdict = json_text(test, "verdict");
	cleanup_free char *first = NULL;
	const char *detail = json_text(test, "detail");

	count_up(entry, "graded");
	count_up(json_object_get(entry, "verdicts"), verdict);
	if (strcmp(verdict, "passed") == 0) {
		count_up(entry, "passed");
		return;
	}
	first = strndup(detail, strcspn(detail, "\n"));
	count_up(json_object_get(entry, "answers"), first && *first ? first : verdict);
}

static bool is_graded(const json_t *record)
{
	return strcmp(json_text(record, "status"), "graded") == 0;
}

/* An array with an object for each test, in their order; of submissions that were graded. */
static json_t *count_tests(const json_t *records)
{
	json_t *tests = json_array(), *by_id = json_object();
	const json_t *record, *test;
	size_t i, k;

	json_array_foreach (records, i, record) {
		if (!is_graded(record))
			continue;
		json_array_foreach (json_object_get(record, "tests"), k, test)
			add_test(entry_of(tests, by_id, json_text(test, "id")), test);
	}
	json_decref(by_id);
	return tests;
}

/* The most frequent answer that is not in `seen`; NULL: no more. */
static const char *next_answer(const json_t *answers, const json_t *seen, json_int_t *count)
{
	const char *answer, *best = NULL;
	const json_t *value;

	*count = 0;
	json_object_foreach ((json_t *)(uintptr_t)answers, answer, value) {
		if (json_integer_value(value) > *count && !json_object_get(seen, answer)) {
			*count = json_integer_value(value);
			best = answer;
		}
	}
	return best;
}

static void put_answers(const json_t *answers, size_t most, const char *margin)
{
	json_t *seen = json_object();
	json_int_t count;
	const char *answer;

	while (json_object_size(seen) < most && (answer = next_answer(answers, seen, &count))) {
		cleanup_free char *cut = strndup(answer, ANSWER_MOST);

		printf("%s%lld x ", margin, (long long)count);
		remote_put(stdout, cut ? cut : answer);
		putchar('\n');
		json_object_set_new(seen, answer, json_true());
	}
	if (json_object_size(seen) < json_object_size(answers))
		printf("%sand %zu other answers\n", margin,
			json_object_size(answers) - json_object_size(seen));
	json_decref(seen);
}

static bool is_passed_by_none(const json_t *test)
{
	return !json_integer_value(json_object_get(test, "passed")) &&
	       json_object_size(json_object_get(test, "answers"));
}

static void put_tests(const json_t *records, const json_t *tests)
{
	const json_t *record, *test;
	size_t graded = 0, i;

	json_array_foreach (records, i, record)
		graded += is_graded(record);
	printf("%zu submissions, %zu of them graded, with %zu tests\n", json_array_size(records),
		graded, json_array_size(tests));
	json_array_foreach (tests, i, test) {
		printf("%4zu.  ", i + 1);
		remote_put(stdout, json_text(test, "id"));
		printf("  passed by %lld of %lld%s\n", (long long)json_number(test, "passed"),
			(long long)json_number(test, "graded"),
			is_passed_by_none(test) ? ": is the test right?" : "");
		put_answers(json_object_get(test, "answers"), ANSWERS_MOST, "       ");
	}
}

/* --- one test, student by student: those who did not pass it --- */

/* By its number, or by its name; NULL: there is none. */
static const json_t *find_test(const json_t *tests, const char *wanted)
{
	const json_t *test;
	uint32_t number;
	size_t i;

	json_array_foreach (tests, i, test) {
		if (strcmp(json_text(test, "id"), wanted) == 0)
			return test;
	}
	if (text_u32(wanted, &number) == 0 && number >= 1)
		return json_array_get(tests, number - 1);
	return NULL;
}

static int put_test_of_all(
	const json_t *records, const json_t *tests, const char *wanted, struct error *err)
{
	const json_t *found = find_test(tests, wanted), *record, *test;
	size_t passed = 0, i, k;

	if (!found)
		return cli_usage(err,
			"--test %.200s: there is no such test; a number from 1 to %zu, or a name "
			"as in the list without --test",
			wanted, json_array_size(tests));
	json_array_foreach (records, i, record) {
		json_array_foreach (json_object_get(record, "tests"), k, test) {
			if (strcmp(json_text(test, "id"), json_text(found, "id")) != 0)
				continue;
			if (strcmp(json_text(test, "verdict"), "passed") == 0) {
				passed++;
				continue;
			}
			remote_put(stdout, json_text(record, "student"));
			printf(": %s\n", json_text(test, "verdict"));
			put_lines(json_text(test, "detail"), "    ");
		}
	}
	printf("%zu passed\n", passed);
	return CLI_OK;
}

/* --- the command --- */

static int show(
	const struct show_options *o, const json_t *records, const char *student, struct error *err)
{
	const json_t *record = student ? find_student(records, student) : NULL;
	json_t *tests;
	int status = CLI_OK;

	if (student && !record)
		return no_student(records, student, err);
	if (record && o->json)
		return remote_print_json(json_deep_copy(record), err);
	if (record) {
		put_student(record);
		return CLI_OK;
	}
	tests = count_tests(records);
	if (o->json)
		status = remote_print_json(json_incref(tests), err);
	else if (o->test)
		status = put_test_of_all(records, tests, o->test, err);
	else
		put_tests(records, tests);
	json_decref(tests);
	return status;
}

static int run(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct show_options *o = options;
	json_t *records;
	int status;

	if (o->test && (count > 1 || o->json))
		return cli_usage(err, "--test is of all students, and no JSON: leave out %s",
			count > 1 ? "STUDENT" : "--json");
	records = json_array();
	status = read_records(operands[0], records, err);
	if (!status)
		status = show(o, records, count > 1 ? operands[1] : NULL, err);
	json_decref(records);
	return status;
}

static const struct cli_option options[] = {
	CLI_OPTION("test", 't', "TEST",
		"what those who did not pass this test did in it: its number or name", "--test 3",
		cli_text, offsetof(struct show_options, test)),
	CLI_OPTION("json", 0, NULL, "print JSON: the student's record, or the sums of each test",
		"--json", cli_flag, offsetof(struct show_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_show = {
	.name = "show",
	.summary = "Say what each test made of a graded class, or of one student",
	.operands = "RESULTS [STUDENT]",
	.text = "RESULTS is the folder that `sealmark grade` has written its results to. Without\n"
		"STUDENT, each test with how many passed it and what went wrong most often: a "
		"test\n"
		"that nobody passed may be wrong itself. With STUDENT, what every test said of\n"
		"this submission. Nothing is run for it.",
	.examples = "sealmark show hw3/results\n"
		    "sealmark show hw3/results ada\n"
		    "sealmark show hw3/results --test 3\n",
	.options = options,
	.size = sizeof(struct show_options),
	.least = 1,
	.most = 2,
	.run = run,
};
