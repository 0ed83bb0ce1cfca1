/* SPDX-License-Identifier: Apache-2.0 - the store: jobs claimed and committed once, killed at any
 * moment, and the chain of records. */
#include "store/sqlite_internal.h"
#include "store/store.h"

#include "folder.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct store_key key = {"hw", "tests", "image", "fake", "1"};
static char folder[PATH_MAX], path[PATH_MAX];
static struct store *store;
static int64_t run;

static void open_store(bool fresh, bool expect_resumed)
{
	struct error err = {0};
	bool resumed;

	if (store_open(path, &store, &err) ||
		store_run_open(store, &key, fresh, &run, &resumed, &err))
		fail_msg("%s", err.message);
	assert_int_equal(resumed, expect_resumed);
}

static int set_up(void **state)
{
	folder_new(folder, sizeof(folder));
	path_join(path, sizeof(path), folder, "run.db", NULL);
	open_store(false, false);
	return 0;
}

static int tear_down(void **state)
{
	store_close(store);
	store = NULL;
	folder_remove(folder);
	return 0;
}

static bool put(const char *student, const char *digest)
{
	struct error err = {0};
	bool kept = false;

	if (store_job_put(store, run, student, digest, &kept, &err))
		fail_msg("%s", err.message);
	return kept;
}

static int claim(struct store_claim *out)
{
	return store_job_claim(store, run, NULL, out, NULL);
}

static int commit(const struct store_claim *c, const char *status, const char *body)
{
	const struct store_record record = {
		.student = c->student, .digest = c->digest, .status = status, .body = body};

	return store_job_commit(store, run, c, &record, NULL);
}

static int append_name(void *context, const struct store_record *record)
{
	struct buffer *b = context;

	return buffer_printf(b, "%s:%s:%s ", record->student, record->status, record->body);
}

static void expect_records(const char *text)
{
	struct buffer b = {0};

	assert_int_equal(store_records_each(store, run, append_name, &b, NULL), 0);
	assert_string_equal(buffer_text(&b), text);
	buffer_fini(&b);
}

static uint64_t verified(void)
{
	struct error err = {0};
	uint64_t count;

	if (store_verify(store, &count, &err))
		fail_msg("%s", err.message);
	return count;
}

/* What is kept of a statement is not taken for another that stands where it stood. */
static void test_statements(void **state)
{
	char sql[80];
	sqlite3_stmt *outer, *inner;

	for (int round = 0; round < 2; round++) {
		for (int64_t n = 0; n < 3; n++) {
			snprintf(sql, sizeof(sql), "SELECT ? + %d", (int)n);
			outer = store_prepare(store, NULL, sql, "i", 10 * n);
			assert_int_equal(store_row(store, outer, NULL), 0);
			assert_int_equal(sqlite3_column_int64(outer, 0), 11 * n);
			/* one that is in use is not given twice */
			inner = store_prepare(store, NULL, sql, "i", 20 * n);
			assert_ptr_not_equal(inner, outer);
			assert_int_equal(store_row(store, inner, NULL), 0);
			assert_int_equal(sqlite3_column_int64(inner, 0), 21 * n);
			assert_int_equal(sqlite3_column_int64(outer, 0), 11 * n);
			store_done(store, inner);
			store_done(store, outer);
		}
	}
	/* nothing of its last use is left */
	outer = store_prepare(store, NULL, sql, "");
	assert_int_equal(store_row(store, outer, NULL), 0);
	assert_int_equal(sqlite3_column_type(outer, 0), SQLITE_NULL);
	store_done(store, outer);
	/* more texts than are kept */
	for (int n = 0; n < 2 * STORE_KEPT_MOST; n++) {
		snprintf(sql, sizeof(sql), "SELECT %d", n);
		outer = store_prepare(store, NULL, sql, "");
		assert_int_equal(store_row(store, outer, NULL), 0);
		assert_int_equal(sqlite3_column_int(outer, 0), n);
		store_done(store, outer);
	}
}

static int64_t synchronous(void)
{
	sqlite3_stmt *s = store_prepare(store, NULL, "PRAGMA synchronous", "");
	int64_t level;

	assert_int_equal(store_row(store, s, NULL), 0);
	level = sqlite3_column_int64(s, 0);
	store_done(store, s);
	return level;
}

/* 2 waits for the disk at each commit, 1 does not */
static void test_durable(void **state)
{
	static const bool durable[] = {true, false, false, true, true, false, true};

	for (size_t i = 0; i < sizeof(durable) / sizeof(durable[0]); i++) {
		assert_int_equal(store_begin(store, durable[i], NULL), 0);
		assert_int_equal(synchronous(), durable[i] ? 2 : 1);
		assert_int_equal(store_end(store, 0, NULL), 0);
	}
}

static void test_jobs(void **state)
{
	struct store_claim a, b, c;

	assert_false(put("bob", "d2"));
	assert_false(put("anna", "d1"));
	assert_int_equal(claim(&a), 0);
	assert_string_equal(a.student, "anna");
	assert_string_equal(a.digest, "d1");
	assert_false(a.alone);
	assert_int_equal(claim(&b), 0);
	assert_string_equal(b.student, "bob");
	assert_int_equal(claim(&c), -EAGAIN); /* what is claimed may come back */
	assert_int_equal(commit(&a, "graded", "{1}"), 0);
	assert_int_equal(commit(&a, "graded", "{2}"), -ESTALE); /* once */
	assert_int_equal(store_job_release(store, run, &b, false, NULL), 0);
	assert_int_equal(commit(&b, "graded", "{3}"), -ESTALE); /* not claimed any more */
	assert_int_equal(claim(&c), 0);
	assert_string_equal(c.student, "bob");
	assert_int_equal(commit(&b, "graded", "{3}"), -ESTALE); /* claimed by another */
	assert_int_equal(commit(&c, "infra", "{4}"), 0);
	expect_records("anna:graded:{1} bob:infra:{4} ");
	store_claim_fini(&a);
	store_claim_fini(&b);
	store_claim_fini(&c);
	assert_int_equal(claim(&a), -ENOENT);
	assert_true(put("anna", "d1"));
	assert_false(put("bob", "d2")); /* what was left to us is tried again */
	assert_false(put("anna", "new"));
	assert_int_equal(verified(), 2);
}

static void test_alone(void **state)
{
	struct store_claim a, b, c;

	put("a", "1");
	put("b", "1");
	put("c", "1");
	assert_int_equal(claim(&a), 0);
	assert_int_equal(store_job_release(store, run, &a, true, NULL), 0);
	store_claim_fini(&a);
	assert_int_equal(claim(&b), 0);
	assert_string_equal(b.student, "b"); /* a waits until nothing else does */
	assert_int_equal(claim(&c), 0);
	assert_int_equal(commit(&b, "graded", "{}"), 0);
	assert_int_equal(claim(&a), -EAGAIN); /* c is still at work */
	assert_int_equal(commit(&c, "graded", "{}"), 0);
	assert_int_equal(claim(&a), 0);
	assert_string_equal(a.student, "a");
	assert_true(a.alone);
	store_claim_fini(&b);
	store_claim_fini(&c);
	/* given back and after a restart it still is one that must run alone */
	store_close(store);
	open_store(false, true);
	assert_int_equal(commit(&a, "graded", "{}"), -ESTALE);
	store_claim_fini(&a);
	assert_int_equal(claim(&a), 0);
	assert_true(a.alone);
	assert_int_equal(commit(&a, "graded", "{}"), 0);
	store_claim_fini(&a);
}

static void test_only(void **state)
{
	struct store_claim c;

	put("a", "1");
	put("b", "1");
	assert_int_equal(store_job_claim(store, run, "b", &c, NULL), 0);
	assert_string_equal(c.student, "b");
	assert_int_equal(commit(&c, "graded", "{}"), 0);
	store_claim_fini(&c);
	assert_int_equal(store_job_claim(store, run, "b", &c, NULL), -ENOENT);
	assert_int_equal(store_job_claim(store, run, "x", &c, NULL), -ENOENT);
}

static void test_rejected(void **state)
{
	struct store_record r = {
		.student = "a", .digest = "d", .status = "rejected", .body = "{1}"};

	assert_int_equal(store_record_put(store, run, &r, NULL), 0);
	assert_int_equal(store_record_put(store, run, &r, NULL), 0);
	assert_int_equal(verified(), 1); /* the same rejection is one record */
	r.digest = "e";
	r.body = "{2}";
	assert_int_equal(store_record_put(store, run, &r, NULL), 0);
	expect_records("a:rejected:{2} ");
	assert_int_equal(verified(), 2);
	assert_false(put("a", "f")); /* mended */
	expect_records("");
}

static bool is_a(void *context, const char *student)
{
	return strcmp(student, "a") == 0;
}

static void test_gone(void **state)
{
	struct store_claim c;

	put("a", "1");
	put("b", "1");
	assert_int_equal(store_jobs_keep(store, run, is_a, NULL, NULL), 0);
	assert_int_equal(claim(&c), 0);
	assert_string_equal(c.student, "a");
	assert_int_equal(commit(&c, "graded", "{}"), 0);
	store_claim_fini(&c);
	assert_int_equal(claim(&c), -ENOENT);
}

static void test_runs(void **state)
{
	static const struct store_key other = {"hw", "tests2", "image", "fake", "1"};
	/* fields that run into each other are not equal keys */
	static const struct store_key shifted = {"hwt", "ests", "image", "fake", "1"};
	int64_t first = run, again;
	bool resumed;

	assert_int_equal(store_run_open(store, &other, false, &again, &resumed, NULL), 0);
	assert_false(resumed);
	assert_int_equal(store_run_open(store, &shifted, false, &again, &resumed, NULL), 0);
	assert_false(resumed);
	assert_int_equal(store_run_open(store, &key, false, &again, &resumed, NULL), 0);
	assert_true(resumed);
	assert_int_equal(again, first);
	assert_int_equal(store_run_open(store, &key, true, &again, &resumed, NULL), 0);
	assert_false(resumed);
	assert_true(again != first);
}

static void tamper(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void test_chain(void **state)
{
	struct error err = {0};
	uint64_t count;

	for (int i = 0; i < 5; i++) {
		char name[8];
		struct store_record r = {.student = name,
			.digest = "d",
			.status = "rejected",
			.body = "{\"score\":1}"};

		text_format(name, sizeof(name), "s%d", i);
		assert_int_equal(store_record_put(store, run, &r, NULL), 0);
	}
	assert_int_equal(verified(), 5);
	tamper("UPDATE record SET body = '{\"score\":9}' WHERE seq = 3");
	assert_int_equal(store_verify(store, &count, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "record 3 (s2) was changed"));
	assert_int_equal(count, 2);
	tamper("UPDATE record SET body = '{\"score\":1}' WHERE seq = 3");
	assert_int_equal(verified(), 5);
	tamper("DELETE FROM record WHERE seq = 2");
	assert_int_equal(store_verify(store, &count, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "record 2 is missing"));
	tamper("UPDATE record SET seq = seq - 1 WHERE seq > 2");
	assert_int_equal(store_verify(store, &count, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "record 2 (s2) does not follow"));
}

static void test_files(void **state)
{
	struct store *s = NULL;
	struct error err = {0};
	char bad[PATH_MAX];

	folder_put(folder, "bad.db", "this is not a database, and long enough to be seen as none");
	path_join(bad, sizeof(bad), folder, "bad.db", NULL);
	assert_true(store_open(bad, &s, &err) < 0);
	assert_null(s);
	tamper("PRAGMA user_version = 99");
	assert_true(store_open(path, &s, &err) < 0);
	assert_non_null(strstr(err.message, "newer Sealmark"));
}

/* --- killed at any moment --- */

enum { STUDENTS = 12 };

/* a process that works off the queue and is killed from outside */
static void work(void)
{
	struct store_claim c;

	for (;;) {
		char body[64];
		int r = claim(&c);

		if (r == -ENOENT)
			_exit(0);
		if (r)
			_exit(1);
		text_format(body, sizeof(body), "{%s}", c.student);
		/* now and then the way back to the queue, as for a time near its limit */
		if (!c.alone && c.student[1] == '3')
			r = store_job_release(store, run, &c, true, NULL);
		else
			r = commit(&c, "graded", body);
		store_claim_fini(&c);
		if (r)
			_exit(2);
	}
}

static void test_killed(void **state)
{
	struct buffer expected = {0};
	unsigned kills = 0, rounds = 0;
	int status;

	for (int i = 0; i < STUDENTS; i++) {
		char name[8];

		text_format(name, sizeof(name), "s%02d", i);
		put(name, "d");
		buffer_printf(&expected, "%s:graded:{%s} ", name, name);
	}
	srand(1);
	do { /* each is killed some microseconds after it began, later each round */
		struct timespec t = {.tv_nsec = (rand() % 1000) * (long)(rounds + 1) * 400};
		pid_t pid;

		store_close(store);
		store = NULL;
		pid = fork();
		if (pid == 0) {
			open_store(false, true);
			work();
		}
		nanosleep(&t, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFSIGNALED(status))
			kills++;
		else
			assert_int_equal(WEXITSTATUS(status), 0);
		open_store(false, true);
		verified();
		rounds++;
	} while (WIFSIGNALED(status) && rounds < 2000);
	assert_true(kills > 3);
	expect_records(buffer_text(&expected));
	assert_int_equal(verified(), STUDENTS); /* nothing twice */
	buffer_fini(&expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_statements, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_durable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_jobs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_only, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rejected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_runs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_chain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
