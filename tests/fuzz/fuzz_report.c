/* SPDX-License-Identifier: Apache-2.0 - fuzzes the examiner's report: what does not know the nonce
 * never ends a report that counts, and only expected tests have a verdict. */
#include "grade/suite_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONCE "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define TESTS 3

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const char *const ids[TESTS] = {"t.T.test_a", "t.T.test_b", "t.T.test_c"};

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void init(struct suite_report *report, struct submission_result *result)
{
	*result = (struct submission_result){0};
	for (size_t i = 0; i < TESTS; i++) {
		struct test_result *t = submission_result_add(result, ids[i]);

		check(t != NULL);
		t->max_points = 2;
	}
	check(suite_report_init(report, result, NONCE) == 0);
}

static bool read_report(const uint8_t *bytes, size_t count, size_t piece, bool again)
{
	const struct limits limits = {.cpu_ms = 1000, .wall_ms = 2000};
	struct submission_result result;
	struct suite_report report;
	bool whole, over;

	init(&report, &result);
	for (size_t at = 0; at < count; at += piece) {
		check(suite_report_take(
			      &report, bytes + at, count - at < piece ? count - at : piece) == 0);
		if (again && at <= count / 2 && at + piece > count / 2)
			check(suite_report_again(&report, NONCE) == 0);
	}
	whole = suite_report_end(&report);
	over = report.done; /* one that is cut off keeps what was reported until then */
	suite_report_judge_times(&report, &limits, 1000);
	submission_result_sum(&result);
	check(!whole && !report.proven);
	check(result.test_count == TESTS && result.max_score == 2 * TESTS);
	check(result.score >= 0 && result.score <= result.max_score);
	for (size_t i = 0; i < TESTS; i++) {
		check(strcmp(result.tests[i].id, ids[i]) == 0);
		check(!over || result.tests[i].verdict != VERDICT_PASSED);
		check(result.tests[i].verdict == VERDICT_PASSED || result.tests[i].points == 0);
	}
	suite_report_fini(&report);
	submission_result_fini(&result);
	return whole;
}

static void read_collection(const uint8_t *bytes, size_t count)
{
	struct suite_collection collection = {0};
	struct error err = {0};
	int r = suite_collection_read(bytes, count, &collection, &err);

	check(r == 0 || r == -EINVAL || r == -EPROTO || r == -EFBIG || r == -E2BIG);
	check(r == 0 || err.message[0]);
	check(collection.test_count <= SUITE_TESTS_MAX);
	suite_collection_fini(&collection); /* what was read before a fault is the caller's too */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	if (!count)
		return 0;
	check(read_report(bytes, count, count, false) == read_report(bytes, count, 1, false));
	read_report(bytes, count, count, true);
	read_collection(bytes, count);
	return 0;
}
