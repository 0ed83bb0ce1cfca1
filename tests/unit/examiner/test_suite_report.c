/* SPDX-License-Identifier: Apache-2.0 - the examiner's report: whole, cut, forged and garbled. */
#include "base/hash.h"
#include "grade/suite_report.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NONCE "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const char *const ids[] = {"test_hw.T.test_a", "test_hw.T.test_b", "test_hw.T.test_c"};

struct fixture {
	struct submission_result result;
	struct suite_report report;
	struct buffer sealed; /* what an honest examiner would seal */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	for (size_t i = 0; i < 3; i++) {
		struct test_result *t = submission_result_add(&f->result, ids[i]);

		assert_non_null(t);
		t->max_points = 2;
	}
	assert_int_equal(suite_report_init(&f->report, &f->result, NONCE), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	suite_report_fini(&f->report);
	submission_result_fini(&f->result);
	buffer_fini(&f->sealed);
	free(f);
	return 0;
}

static void take(struct fixture *f, const char *text)
{
	assert_int_equal(suite_report_take(&f->report, text, strlen(text)), 0);
}

/* a line as the examiner writes it, in the proof too */
static void test_line(struct fixture *f, const char *id, const char *verdict, const char *more)
{
	struct buffer line = {0};

	buffer_printf(&line, "{\"start\": \"%s\"}\n", id);
	buffer_printf(&line, "{\"test\": \"%s\", \"verdict\": \"%s\"%s}\n", id, verdict, more);
	take(f, buffer_text(&line));
	buffer_fini(&line);
	buffer_add(&f->sealed, id, strlen(id) + 1);
	buffer_printf(&f->sealed, "%s\n", verdict);
}

static void done(struct fixture *f, const char *more)
{
	struct buffer line = {0};
	char proof[HASH_HEX_SIZE];

	hash_hmac(NONCE, strlen(NONCE), buffer_bytes(&f->sealed), buffer_length(&f->sealed), proof);
	buffer_printf(&line, "{\"done\": 5, \"proof\": \"%s\"%s}\n", proof, more);
	take(f, buffer_text(&line));
	buffer_fini(&line);
}

static void whole(struct fixture *f, const char *a, const char *b, const char *c)
{
	test_line(f, "__canary_start__", "failed", "");
	test_line(f, ids[0], a, "");
	test_line(f, ids[1], b, "");
	test_line(f, ids[2], c, "");
	test_line(f, "__canary_end__", "failed", "");
}

static unsigned passed(struct fixture *f)
{
	unsigned n = 0;

	submission_result_sum(&f->result);
	for (size_t i = 0; i < f->result.test_count; i++)
		n += f->result.tests[i].verdict == VERDICT_PASSED;
	assert_true(f->result.score == n * 2.0);
	return n;
}

static void test_whole(void **state)
{
	struct fixture *f = *state;

	whole(f, "passed", "failed", "passed");
	done(f, ", \"cheats\": [\"SKIP\", \"EXIT\", \"NONSENSE\", 7], \"cpu_us\": 1000");
	assert_true(suite_report_end(&f->report));
	assert_int_equal(passed(f), 2);
	assert_int_equal(f->result.tests[1].verdict, VERDICT_FAILED);
	assert_int_equal(f->result.cheats, CHEAT_SKIP | CHEAT_EXIT);
	assert_int_equal(f->report.guest_cpu_us, 1000);
}

static void test_fields(void **state)
{
	struct fixture *f = *state;
	const struct test_result *t = &f->result.tests[0];

	test_line(f, ids[0], "failed",
		", \"detail\": \"1 != 2\\u001b[31m\\nline\", \"cpu_us\": 12345, \"wall_ms\": 17,"
		" \"memory_peak\": 4096, \"out\": {\"total\": 3, \"head\": \"YWJj\"},"
		" \"err\": {\"total\": 9000, \"head\": \"YQ==\", \"tail\": \"eg==\", \"cut\": "
		"true}");
	assert_int_equal(f->report.strange, 0);
	assert_string_equal(t->detail, "1 != 2\\x1b[31m\nline");
	assert_int_equal(t->cpu_ms, 12);
	assert_int_equal(t->wall_ms, 17);
	assert_int_equal(t->memory_peak_bytes, 4096);
	assert_int_equal(buffer_length(&t->out.head), 3);
	assert_memory_equal(buffer_bytes(&t->out.head), "abc", 3);
	assert_false(t->out.cut);
	assert_int_equal(t->err.total_bytes, 9000);
	assert_memory_equal(buffer_bytes(&t->err.tail), "z", 1);
	assert_true(t->err.cut);
}

static void test_any_pieces(void **state)
{
	struct fixture *f = *state;
	const char *text = "{\"start\": \"test_hw.T.test_b\"}\n"
			   "{\"test\": \"test_hw.T.test_b\", \"verdict\": \"passed\"}\n";

	for (const char *p = text; *p; p++)
		assert_int_equal(suite_report_take(&f->report, p, 1), 0);
	assert_int_equal(f->report.strange, 0);
	assert_int_equal(f->result.tests[1].verdict, VERDICT_PASSED);
}

/* The machine ended in the middle: what was reported stays. */
static void test_cut(void **state)
{
	struct fixture *f = *state;

	test_line(f, "__canary_start__", "failed", "");
	test_line(f, ids[0], "passed", "");
	take(f, "{\"start\": \"test_hw.T.test_b\"}\n{\"test\": \"test_hw.T.te");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 1);
	assert_int_equal(f->report.running, 1);
	assert_true(f->report.began);
	assert_int_equal(f->result.tests[2].verdict, VERDICT_NOT_RUN);
	assert_int_equal(f->result.cheats, 0);
}

static void test_began_only_by_a_test(void **state)
{
	struct fixture *f = *state;

	test_line(f, "__canary_start__", "failed", "");
	assert_false(f->report.began);
}

static void test_canary_passed(void **state)
{
	struct fixture *f = *state;

	test_line(f, "__canary_start__", "failed", "");
	for (size_t i = 0; i < 3; i++)
		test_line(f, ids[i], "passed", "");
	test_line(f, "__canary_end__", "passed", "");
	done(f, "");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 0);
	assert_true(f->result.cheats & CHEAT_CANARY);
}

static void test_canary_missing(void **state)
{
	struct fixture *f = *state;

	test_line(f, "__canary_start__", "failed", "");
	for (size_t i = 0; i < 3; i++)
		test_line(f, ids[i], "passed", "");
	done(f, "");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 0);
}

static void test_wrong_proof(void **state)
{
	struct fixture *f = *state;

	whole(f, "passed", "passed", "passed");
	buffer_add_text(&f->sealed, "more");
	done(f, "");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 0);
	assert_true(f->result.cheats & CHEAT_FORGED_REPORT);
}

/* A line lost on the way: the proof is over more than what came. */
static void test_lost_line(void **state)
{
	struct fixture *f = *state;

	whole(f, "passed", "passed", "passed");
	buffer_add(&f->sealed, "x\0failed\n", 9);
	done(f, "");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 0);
}

static void test_strange_lines(void **state)
{
	static const char *const lines[] = {
		"{\"test\": \"test_hw.T.test_a\", \"verdict\": \"passed\"}\n", /* once more */
		"{\"test\": \"test_hw.T.unknown\", \"verdict\": \"passed\"}\n",
		"{\"test\": \"test_hw.T.test_b\", \"verdict\": \"perfect\"}\n",
		"{\"test\": \"test_hw.T.test_b\", \"verdict\": \"infra\"}\n",
		"{\"test\": \"test_hw.T.test_b\", \"verdict\": 1}\n",
		"{\"test\": \"test_hw.T.test_b\", \"verdict\": \"passed\", \"verdict\": "
		"\"passed\"}\n",
		"{\"test\": \"test_hw.T.test_b\", \"verdict\": \"passed\","
		" \"out\": {\"head\": \"!!!!\"}}\n",
		"{\"test\": \"test_hw.T.test_b\", \"verdict\": \"passed\", \"out\": 7}\n",
		"{\"test\": \"test_hw.T.test_b\\u0000\", \"verdict\": \"passed\"}\n",
		"{\"what\": 1}\n",
		"[]\n",
		"\n",
		"\xff\xfe\n",
		"{\n",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct fixture *f;

		setup(state);
		f = *state;
		test_line(f, "__canary_start__", "failed", "");
		test_line(f, ids[0], "passed", "");
		assert_int_equal(f->report.strange, 0);
		take(f, lines[i]);
		if (!f->report.strange)
			fail_msg("taken for good: %s", lines[i]);
		assert_false(suite_report_end(&f->report));
		assert_int_equal(passed(f), 0);
		teardown(state);
	}
	setup(state);
}

static void test_nothing_after_the_end(void **state)
{
	struct fixture *f = *state;

	whole(f, "passed", "failed", "failed");
	done(f, "");
	take(f, "{\"test\": \"test_hw.T.test_b\", \"verdict\": \"passed\"}\n");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 0);
}

/* A line without end costs no more than the limit. */
static void test_endless_line(void **state)
{
	struct fixture *f = *state;
	char piece[4096];

	memset(piece, 'x', sizeof(piece));
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(suite_report_take(&f->report, piece, sizeof(piece)), 0);
	assert_true(buffer_length(&f->report.line) <= SUITE_LINE_MAX);
	assert_true(f->report.line.capacity <= 2 * SUITE_LINE_MAX);
	take(f, "\n");
	assert_int_equal(f->report.strange, 1);
	test_line(f, ids[0], "passed", "");
	assert_false(suite_report_end(&f->report));
	assert_int_equal(passed(f), 0);
}

/* The examiner was ended by what a test did; another one reports the rest. */
static void test_again(void **state)
{
	struct fixture *f = *state;

	test_line(f, "__canary_start__", "failed", "");
	test_line(f, ids[0], "passed", "");
	take(f, "{\"start\": \"test_hw.T.test_b\"}\n{\"cut");
	assert_false(suite_report_end(&f->report));
	f->result.tests[1].verdict = VERDICT_WALL_LIMIT;
	assert_int_equal(suite_report_again(&f->report, NONCE), 0);
	buffer_clear(&f->sealed);
	test_line(f, "__canary_start__", "failed", "");
	test_line(f, ids[2], "passed", "");
	test_line(f, "__canary_end__", "failed", "");
	done(f, "");
	assert_true(suite_report_end(&f->report));
	assert_int_equal(passed(f), 2);
	assert_int_equal(f->result.tests[1].verdict, VERDICT_WALL_LIMIT);
}

/* ... and has no say about the test that ended the first. */
static void test_again_for_the_same_test(void **state)
{
	struct fixture *f = *state;

	take(f, "{\"start\": \"test_hw.T.test_b\"}\n");
	assert_int_equal(suite_report_again(&f->report, NONCE), 0);
	test_line(f, ids[1], "passed", "");
	assert_int_equal(f->report.strange, 1);
	assert_int_equal(f->result.tests[1].verdict, VERDICT_NOT_RUN);
}

static void test_broken(void **state)
{
	struct fixture *f = *state;

	take(f, "{\"broken\": \"launcher: no fork\"}\n{\"error\": \"test_hw.py:3: x\"}\n");
	assert_string_equal(f->report.broken, "launcher: no fork");
	assert_string_equal(f->report.error, "test_hw.py:3: x");
}

static void test_times(void **state)
{
	struct fixture *f = *state;
	const struct limits limits = {.cpu_ms = 1000, .wall_ms = 3000};
	struct test_result *t = f->result.tests;

	test_line(f, ids[0], "passed", ", \"cpu_us\": 1900000, \"wall_ms\": 2000");
	test_line(f, ids[1], "passed", ", \"cpu_us\": 2100000, \"wall_ms\": 2000");
	test_line(f, ids[2], "cpu_limit", ", \"cpu_us\": 1500000");
	f->report.guest_cpu_us = 6000000;
	suite_report_judge_times(&f->report, &limits, 3000000);
	assert_int_equal(t[0].verdict, VERDICT_PASSED);
	assert_int_equal(t[0].cpu_ms, 950);
	assert_int_equal(t[1].verdict, VERDICT_CPU_LIMIT);
	assert_int_equal(t[1].cpu_ms, 1050);
	assert_string_equal(t[1].detail, "took 1050 ms of CPU time; the limit is 1000 ms");
	/* ended too soon by the guest's clock: at the limit, so that it is measured again */
	assert_int_equal(t[2].cpu_ms, 1000);
	assert_int_equal(passed(f), 1);
}

/* On a host whose CPUs are with others, tests that took 100 ms had cpu_limit. */
static void test_times_of_a_busy_host(void **state)
{
	struct fixture *f = *state;
	const struct limits limits = {.cpu_ms = 1000, .wall_ms = 4000};
	struct test_result *t = f->result.tests;
	double share;

	test_line(f, ids[0], "passed", ", \"cpu_us\": 500000, \"wall_ms\": 600");
	test_line(f, ids[1], "cpu_limit", ", \"cpu_us\": 1200000, \"detail\": \"over\"");
	test_line(f, ids[2], "wall_limit", ", \"cpu_us\": 20000, \"wall_ms\": 4800");
	f->report.guest_cpu_us = 2000000;
	f->report.done = f->report.proven = true;
	/* half of it was given: then it is the program */
	assert_int_equal(suite_report_forget_starved(&f->report, &limits, 1000000, &share), 0);
	assert_int_equal(suite_report_forget_starved(&f->report, &limits, 0, &share), 0);
	assert_int_equal(suite_report_forget_starved(&f->report, &limits, 400000, &share), 1);
	assert_true(share > 0.19 && share < 0.21);
	assert_true(f->report.starved && !f->report.done);
	assert_int_equal(f->report.reported, 2);
	assert_int_equal(t[1].verdict, VERDICT_NOT_RUN);
	assert_null(t[1].detail);
	/* one that slept did not wait for the CPU */
	assert_int_equal(t[2].verdict, VERDICT_WALL_LIMIT);
	suite_report_judge_times(&f->report, &limits, 400000);
	/* the next launch has a verdict for it, and only for it */
	assert_int_equal(suite_report_again(&f->report, NONCE), 0);
	assert_false(f->report.starved);
	test_line(f, ids[1], "passed", ", \"cpu_us\": 1500000, \"wall_ms\": 1600");
	f->report.guest_cpu_us = 1600000;
	suite_report_judge_times(&f->report, &limits, 320000);
	assert_int_equal(t[1].verdict, VERDICT_PASSED);
	assert_int_equal(t[1].cpu_ms, 300);
	assert_int_equal(f->report.reported, 3);
}

static void test_times_without_the_hosts_measure(void **state)
{
	struct fixture *f = *state;
	const struct limits limits = {.cpu_ms = 1000, .wall_ms = 3000};
	struct test_result *t = f->result.tests;

	test_line(f, ids[0], "passed", ", \"cpu_us\": 999000, \"wall_ms\": 3001");
	test_line(f, ids[1], "error", ", \"cpu_us\": 1900000, \"wall_ms\": 2000");
	suite_report_judge_times(&f->report, &limits, 0);
	assert_int_equal(t[0].verdict, VERDICT_WALL_LIMIT);
	assert_int_equal(t[0].cpu_ms, 999);
	assert_int_equal(t[1].verdict, VERDICT_ERROR);
}

/* --- collections --- */

static int collect(const char *text, struct suite_collection *c, struct error *err)
{
	*c = (struct suite_collection){0};
	return suite_collection_read(text, strlen(text), c, err);
}

static void test_collection(void **state)
{
	struct suite_collection c;
	struct error err = {0};

	assert_int_equal(collect("{\"framework\": \"pytest\", \"modules\": [\"hw\", \"b\"]}\n"
				 "{\"id\": \"t.py::a\"}\n{\"id\": \"t.py::b[é]\"}\n{\"done\": 2}\n",
				 &c, &err),
		0);
	assert_string_equal(c.framework, "pytest");
	assert_int_equal(c.module_count, 2);
	assert_string_equal(c.modules[1], "b");
	assert_int_equal(c.test_count, 2);
	assert_string_equal(c.tests[1].id, "t.py::b[é]");
	suite_collection_fini(&c);
}

static void test_bad_collections(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *message;
	} rows[] = {
		{"", -EPROTO, "not whole"},
		{"{\"framework\": \"unittest\", \"modules\": []}\n{\"done\": 0}\n", -EINVAL,
			"no test"},
		{"{\"framework\": \"unittest\", \"modules\": []}\n{\"id\": \"a\"}\n", -EPROTO,
			"not whole"},
		{"{\"framework\": \"unittest\", \"modules\": []}\n{\"id\": \"a\"}\n{\"id\": "
		 "\"a\"}\n",
			-EINVAL, "two tests have the id a"},
		{"{\"framework\": \"unittest\", \"modules\": []}\n{\"id\": \"a\"}\n{\"done\": 2}\n",
			-EPROTO, "not whole"},
		{"{\"framework\": \"unittest\", \"modules\": []}\n{\"id\": \"\"}\n", -EINVAL,
			"empty"},
		{"{\"id\": \"a\"}\n{\"done\": 1}\n", -EPROTO, "not whole"},
		{"{\"error\": \"test_hw.py:3: hw.f is used\"}\n", -EINVAL,
			"test_hw.py:3: hw.f is used"},
		{"{\"broken\": \"no python\"}\n", -EIO, "no python"},
		{"nonsense\n", -EPROTO, "garbled"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct suite_collection c;
		struct error err = {0};

		assert_int_equal(collect(rows[i].text, &c, &err), rows[i].code);
		if (!strstr(err.message, rows[i].message))
			fail_msg("%s: not in: %s", rows[i].message, err.message);
		suite_collection_fini(&c);
	}
}

int main(void)
{
#define WITH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_whole),
		WITH(test_fields),
		WITH(test_any_pieces),
		WITH(test_cut),
		WITH(test_began_only_by_a_test),
		WITH(test_canary_passed),
		WITH(test_canary_missing),
		WITH(test_wrong_proof),
		WITH(test_lost_line),
		WITH(test_nothing_after_the_end),
		WITH(test_endless_line),
		WITH(test_broken),
		WITH(test_again),
		WITH(test_again_for_the_same_test),
		WITH(test_times),
		WITH(test_times_of_a_busy_host),
		WITH(test_times_without_the_hosts_measure),
		cmocka_unit_test_teardown(test_strange_lines, teardown),
		cmocka_unit_test(test_collection),
		cmocka_unit_test(test_bad_collections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
