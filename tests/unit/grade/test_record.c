/* SPDX-License-Identifier: Apache-2.0 - records: numbers, hostile text, output as text or base64.
 */
#include "grade/record.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct assignment assignment = {.name = "hw", .digest = "d"};

static json_t *write_and_load(struct submission_result *r)
{
	const struct record_subject subject = {"anna", "s", "default@1", "i", &assignment};
	struct error err = {0};
	char *body = NULL;
	json_t *j;

	submission_result_sum(r);
	assert_int_equal(record_write(&subject, r, &body, &err), 0);
	assert_null(strchr(body, '\n'));
	j = json_loads(body, JSON_ALLOW_NUL, NULL);
	assert_non_null(j);
	free(body);
	return j;
}

static json_t *stdout_of(json_t *record)
{
	return json_object_get(json_array_get(json_object_get(record, "tests"), 0), "stdout");
}

static const char *text_of(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void test_scores(void **state)
{
	static const struct {
		double score;
		const char *text;
	} rows[] = {{0, "0"}, {-0.0, "0"}, {10, "10"}, {100, "100"}, {7.5, "7.5"},
		{1.0 / 3, "0.3333"}, {2.0 / 3, "0.6667"}, {0.1 + 0.2, "0.3"}, {0.00004, "0"},
		{1e6, "1000000"}};
	char out[RECORD_SCORE_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(record_score(rows[i].score, out), rows[i].text);
}

static void test_hostile_text(void **state)
{
	struct submission_result r = {0};
	struct test_result *t = submission_result_add(&r, "a\nb\xff");
	json_t *j;

	t->detail = strdup("\x1b[31mred\nline \xe2\x80\xae");
	submission_result_note(&r, "%s", "<script>\x07");
	submission_result_note(&r, "second");
	j = write_and_load(&r);
	t = NULL;
	assert_string_equal(text_of(j, "note"), "<script>\\x07; second");
	assert_string_equal(text_of(json_array_get(json_object_get(j, "tests"), 0), "id"),
		"a\\x0ab\xef\xbf\xbd");
	assert_string_equal(text_of(json_array_get(json_object_get(j, "tests"), 0), "detail"),
		"\\x1b[31mred\nline \\u{202e}");
	json_decref(j);
	submission_result_fini(&r);
}

static void add_output(struct submission_result *r, const void *bytes, size_t count)
{
	struct test_result *t = submission_result_add(r, "1");

	/* in uneven pieces, as it comes */
	for (size_t at = 0; at < count;) {
		size_t n = count - at < 1000 ? count - at : 1000;

		output_kept_add(&t->out, (const char *)bytes + at, n);
		at += n;
	}
}

static void test_output_text(void **state)
{
	static char text[20000];
	struct submission_result r = {0};
	json_t *j, *out;

	/* é across the border between head and tail stays one character */
	memset(text, 'a', sizeof(text));
	memcpy(text + OUTPUT_HEAD - 1, "\xc3\xa9", 2);
	add_output(&r, text, OUTPUT_HEAD + 100);
	j = write_and_load(&r);
	out = stdout_of(j);
	assert_string_equal(text_of(out, "encoding"), "utf-8");
	assert_int_equal(json_string_length(json_object_get(out, "head")), OUTPUT_HEAD - 1);
	assert_int_equal(json_string_length(json_object_get(out, "tail")), 101);
	assert_memory_equal(text_of(out, "tail"), "\xc3\xa9", 2);
	assert_false(json_is_true(json_object_get(out, "truncated")));
	json_decref(j);
	submission_result_fini(&r);

	/* where something is missing, halves of characters go */
	memset(text, 'a', sizeof(text));
	memcpy(text + OUTPUT_HEAD - 2, "\xe6\x9d\x8e", 3);
	memcpy(text + sizeof(text) - OUTPUT_TAIL - 1, "\xe6\x9d\x8e", 3);
	add_output(&r, text, sizeof(text));
	j = write_and_load(&r);
	out = stdout_of(j);
	assert_string_equal(text_of(out, "encoding"), "utf-8");
	assert_int_equal(json_string_length(json_object_get(out, "head")), OUTPUT_HEAD - 2);
	assert_int_equal(json_string_length(json_object_get(out, "tail")), OUTPUT_TAIL - 2);
	assert_true(json_is_true(json_object_get(out, "truncated")));
	assert_int_equal(json_integer_value(json_object_get(out, "total_bytes")), sizeof(text));
	json_decref(j);
	submission_result_fini(&r);
}

static void test_output_bytes(void **state)
{
	struct submission_result r = {0};
	json_t *j, *out;

	add_output(&r, "\xff\0x", 3);
	j = write_and_load(&r);
	out = stdout_of(j);
	assert_string_equal(text_of(out, "encoding"), "base64");
	assert_string_equal(text_of(out, "head"), "/wB4");
	json_decref(j);
	submission_result_fini(&r);
	add_output(&r, "a\0b", 3); /* zero is UTF-8 */
	j = write_and_load(&r);
	out = stdout_of(j);
	assert_string_equal(text_of(out, "encoding"), "utf-8");
	assert_memory_equal(text_of(out, "head"), "a\0b", 3);
	json_decref(j);
	submission_result_fini(&r);
}

static void test_round_trip(void **state)
{
	const struct record_subject subject = {"李, \"Jr.\"", "s", "default@1", "i", &assignment};
	struct submission_result r = {.trust = TRUST_SEALED, .isolation = "uml x"};
	struct record_summary s;
	struct error err = {0};
	char *body;

	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		struct test_result *t = submission_result_add(&r, "t");

		t->verdict = (enum verdict)v;
		t->points = t->max_points = 1.5; /* only what passed may keep it */
	}
	submission_result_sum(&r);
	assert_int_equal(record_write(&subject, &r, &body, &err), 0);
	assert_int_equal(record_read(body, &s, &err), 0);
	assert_string_equal(s.student, subject.student);
	assert_true(s.has_score);
	assert_true(s.score > 1.49 && s.score < 1.51);
	assert_int_equal((int)s.max_score, 19);
	assert_string_equal(s.marks, ".FECWMODPXs-?");
	assert_string_equal(s.trust, "sealed");
	record_summary_fini(&s);
	free(body);
	r.status = SUBMISSION_INFRA;
	assert_int_equal(record_write(&subject, &r, &body, &err), 0);
	assert_int_equal(record_read(body, &s, &err), 0);
	assert_false(s.has_score);
	assert_int_equal(s.status, SUBMISSION_INFRA);
	record_summary_fini(&s);
	free(body);
	submission_result_fini(&r);
	assert_true(record_read("{}", &s, &err) < 0);
	assert_true(record_read("not", &s, &err) < 0);
	assert_true(record_read("{\"status\":\"graded\",\"tests\":[1]}", &s, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scores),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_output_text),
		cmocka_unit_test(test_output_bytes),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
