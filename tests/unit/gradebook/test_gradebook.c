/* SPDX-License-Identifier: Apache-2.0 - the gradebook, the table, and files that appear whole. */
#include "gradebook/gradebook.h"
#include "gradebook/table.h"
#include "gradebook/whole_file.h"

#include "base/cleanup.h"
#include "folder.h"

#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct assignment assignment = {.name = "hw", .digest = "d"};

static void put(struct gradebook *gb, const char *student, enum submission_status status,
	enum verdict verdict, const char *note)
{
	const struct record_subject subject = {student, "s", "default@1", "i", &assignment};
	struct submission_result r = {
		.status = status, .trust = TRUST_SEALED, .isolation = "uml x"};
	struct test_result *t;
	struct error err = {0};
	char *body = NULL;

	if (status == SUBMISSION_GRADED) {
		t = submission_result_add(&r, "1");
		t->verdict = verdict;
		t->points = t->max_points = 2.5;
	}
	if (*note)
		submission_result_note(&r, "%s", note);
	submission_result_sum(&r);
	assert_int_equal(record_write(&subject, &r, &body, &err), 0);
	assert_int_equal(gradebook_put(gb, body, NULL, &err), 0);
	free(body);
	submission_result_fini(&r);
}

static void test_csv(void **state)
{
	struct gradebook gb = {0};
	struct buffer out = {0};
	struct run_counts counts;

	put(&gb, "b", SUBMISSION_INFRA, VERDICT_INFRA, "not graded: no machine");
	put(&gb, "=HYPERLINK(\"x\")", SUBMISSION_GRADED, VERDICT_PASSED, "");
	put(&gb, "Smith, \"Jr.\"", SUBMISSION_REJECTED, VERDICT_PASSED, "=1+1");
	put(&gb, "a", SUBMISSION_GRADED, VERDICT_FAILED, "");
	put(&gb, "a", SUBMISSION_GRADED, VERDICT_PASSED, "again"); /* the newer one counts */
	assert_int_equal(gradebook_csv(&gb, &out), 0);
	assert_string_equal(buffer_text(&out),
		"student,status,score,max_score,trust,isolation,note\r\n"
		"\"'=HYPERLINK(\"\"x\"\")\",graded,2.5,2.5,sealed,uml x,\r\n"
		"\"Smith, \"\"Jr.\"\"\",rejected,,,,uml x,'=1+1\r\n"
		"a,graded,2.5,2.5,sealed,uml x,again\r\n"
		"b,infra,,,,uml x,not graded: no machine\r\n");
	counts = gradebook_counts(&gb);
	assert_int_equal(counts.graded, 2);
	assert_int_equal(counts.rejected, 1);
	assert_int_equal(counts.infra, 1);
	assert_int_equal(counts.verdicts[VERDICT_PASSED], 2);
	buffer_fini(&out);
	gradebook_fini(&gb);
}

static void test_unpassed(void **state)
{
	struct gradebook gb = {0};
	size_t tests[1] = {9};

	put(&gb, "a", SUBMISSION_GRADED, VERDICT_FAILED, "");
	put(&gb, "b", SUBMISSION_GRADED, VERDICT_ERROR, "");
	assert_int_equal(gradebook_unpassed(&gb, tests, 1), 0); /* two are too few to tell */
	put(&gb, "c", SUBMISSION_GRADED, VERDICT_SKIPPED, "");
	assert_int_equal(gradebook_unpassed(&gb, tests, 0), 1);
	assert_int_equal(tests[0], 9);
	assert_int_equal(gradebook_unpassed(&gb, tests, 1), 1);
	assert_int_equal(tests[0], 0);
	put(&gb, "d", SUBMISSION_GRADED, VERDICT_PASSED, "");
	assert_int_equal(gradebook_unpassed(&gb, tests, 1), 0);
	gradebook_fini(&gb);
	for (const char *name = "abc"; *name; name++)
		put(&gb, (char[]){*name, 0}, SUBMISSION_GRADED, VERDICT_SKIPPED, "");
	assert_int_equal(gradebook_unpassed(&gb, tests, 1), 0); /* nobody has tried */
	gradebook_fini(&gb);
}

/* A book that was written too early lacked the students who were not graded yet. */
static void test_pending(void **state)
{
	struct gradebook gb = {0};
	struct buffer out = {0};
	struct error err = {0};

	put(&gb, "b", SUBMISSION_GRADED, VERDICT_PASSED, "");
	assert_int_equal(gradebook_expect(&gb, "c", "not yet", &err), 0);
	assert_int_equal(gradebook_expect(&gb, "b", "not yet", &err), 0);
	assert_int_equal(gradebook_expect(&gb, "a", "not yet", &err), 0);
	put(&gb, "a", SUBMISSION_GRADED, VERDICT_FAILED, "");
	assert_int_equal(gradebook_csv(&gb, &out), 0);
	assert_string_equal(buffer_text(&out),
		"student,status,score,max_score,trust,isolation,note\r\n"
		"a,graded,0,2.5,sealed,uml x,\r\n"
		"b,graded,2.5,2.5,sealed,uml x,\r\n"
		"c,pending,,,,,not yet\r\n");
	assert_int_equal(gradebook_counts(&gb).pending, 1);
	buffer_clear(&out);
	assert_int_equal(table_write(&gb, 0, false, &out), 0);
	assert_non_null(strstr(buffer_text(&out), "c        pending                  not yet\n"));
	assert_string_equal(gradebook_find(&gb, "b")->student, "b");
	assert_null(gradebook_find(&gb, "d"));
	buffer_fini(&out);
	gradebook_fini(&gb);
}

static void test_table(void **state)
{
	struct gradebook gb = {0};
	struct buffer out = {0};

	put(&gb, "anna", SUBMISSION_GRADED, VERDICT_PASSED, "");
	put(&gb, "\xe6\x9d\x8e", SUBMISSION_GRADED, VERDICT_FAILED, "");
	put(&gb, "zoe", SUBMISSION_REJECTED, VERDICT_FAILED, "hw.py is missing; found a, b, c, d");
	assert_int_equal(table_write(&gb, 0, false, &out), 0);
	assert_string_equal(buffer_text(&out),
		"STUDENT  STATUS    SCORE    TESTS  NOTE\n"
		"anna     graded    2.5/2.5  .\n"
		"zoe      rejected                  hw.py is missing; found a, b, c, d\n"
		"\xe6\x9d\x8e       graded    0/2.5    F\n"
		". passed  F failed\n");
	buffer_clear(&out);
	/* no line is wider than the terminal, whatever is in it */
	for (unsigned columns = 30; columns < 90; columns++) {
		char *line, *next;

		assert_int_equal(table_write(&gb, columns, false, &out), 0);
		for (line = buffer_text(&out); (next = strchr(line, '\n')); line = next + 1) {
			*next = 0;
			if (columns >= 50)
				assert_true(table_text_width(line) <= columns);
		}
		buffer_clear(&out);
	}
	assert_int_equal(table_write(&gb, 80, true, &out), 0);
	assert_non_null(strstr(buffer_text(&out), "\033[32m2.5/2.5"));
	assert_non_null(strstr(buffer_text(&out), "\033[31m0/2.5"));
	buffer_fini(&out);
	gradebook_fini(&gb);
}

static void test_width(void **state)
{
	assert_int_equal(table_text_width("abc"), 3);
	assert_int_equal(table_text_width("\xe6\x9d\x8e"), 2);
	assert_int_equal(table_text_width("e\xcc\x81"), 1);
	assert_int_equal(table_text_width("\xff"), 1);
	assert_int_equal(table_text_fit("\xe6\x9d\x8e\xe6\x9d\x8e", 3), 3);
	assert_int_equal(table_text_fit("abc", 9), 3);
}

static bool has_temporary(const char *folder)
{
	cleanup_dir DIR *dir = opendir(folder);
	struct dirent *e;

	while ((e = readdir(dir))) {
		if (strstr(e->d_name, ".tmp"))
			return true;
	}
	return false;
}

static void test_whole_file(void **state)
{
	char folder[PATH_MAX], path[PATH_MAX];
	struct whole_file f;
	struct error err = {0};
	struct buffer b = {0};
	static char big[300000];

	folder_new(folder, sizeof(folder));
	path_join(path, sizeof(path), folder, "out", NULL);
	folder_put(folder, "out", "old");
	memset(big, 'x', sizeof(big));
	assert_int_equal(whole_file_open(&f, path, &err), 0);
	assert_int_equal(whole_file_add(&f, big, sizeof(big), &err), 0);
	assert_int_equal(path_read(path, 100, &b, &err), 0);
	assert_string_equal(buffer_text(&b), "old"); /* as long as it is not closed */
	whole_file_abandon(&f);
	assert_false(has_temporary(folder));
	assert_int_equal(whole_file_open(&f, path, &err), 0);
	assert_int_equal(whole_file_add(&f, big, sizeof(big), &err), 0);
	assert_int_equal(whole_file_add(&f, "end", 3, &err), 0);
	assert_int_equal(whole_file_close(&f, &err), 0);
	assert_false(has_temporary(folder));
	buffer_clear(&b);
	assert_int_equal(path_read(path, 400000, &b, &err), 0);
	assert_int_equal(buffer_length(&b), sizeof(big) + 3);
	buffer_fini(&b);
	/* what a killed process leaves, and what only looks like it */
	folder_put(folder, "out.0123456789abcdef.tmp", "");
	whole_file_sweep(folder, "other");
	assert_true(has_temporary(folder));
	whole_file_sweep(folder, "out");
	assert_false(has_temporary(folder));
	folder_put(folder, "out.0123.tmp", "");
	whole_file_sweep(folder, "out");
	assert_true(has_temporary(folder));
	path_join(path, sizeof(path), folder, "none/out", NULL);
	assert_int_equal(whole_file_open(&f, path, &err), -ENOENT);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_unpassed),
		cmocka_unit_test(test_pending),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_whole_file),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
