/* SPDX-License-Identifier: Apache-2.0 - a run over sandboxes that fail on demand: blame,
 * repetition, resume. */
#include "grade/record.h"
#include "grade/run.h"

#include "base/cleanup.h"
#include "folder.h"
#include "mock_sandbox.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

static char folder[PATH_MAX], home[PATH_MAX], tests[PATH_MAX], submissions[PATH_MAX],
	work[PATH_MAX], database[PATH_MAX];

static int set_up(void **state)
{
	char latest[PATH_MAX];

	folder_new(folder, sizeof(folder));
	path_join(home, sizeof(home), folder, "home", NULL);
	path_join(tests, sizeof(tests), folder, "tests", NULL);
	path_join(submissions, sizeof(submissions), folder, "subs", NULL);
	path_join(work, sizeof(work), folder, "work", NULL);
	path_join(database, sizeof(database), folder, "run.db", NULL);
	folder_put(home, "images/default/1/rootfs.erofs", "x");
	folder_put(home, "images/default/1/manifest.json",
		"{\"name\":\"default\",\"version\":1,\"description\":\"d\",\"recipe_digest\":"
		"\"0123456789ab\","
		"\"sha256\":\"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\","
		"\"size_bytes\":1,\"created\":\"2026-01-01T00:00:00Z\",\"suite\":\"trixie\","
		"\"env\":{\"PATH\":\"/bin\"},\"packages\":{\"gcc\":\"1\"}}");
	path_join(latest, sizeof(latest), home, "images/default/latest", NULL);
	assert_int_equal(symlink("1", latest), 0);
	folder_put(tests, "1.in", "one\n");
	folder_put(tests, "1.out", "one\n");
	folder_put(tests, "2.in", "two\n");
	folder_put(tests, "2.out", "two\n");
	folder_put(tests, "assignment.yaml",
		"files: [hw.py]\nrequire_isolation: none\nlimits: {cpu: 1s, memory: 16M, disk: "
		"1M}\n"
		"stdio: {run: [python3, hw.py]}\n");
	mock_counts = (struct mock_counts){0};
	mock_refuse = mock_exit_at = 0;
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(mock_counts.open, 0);
	folder_remove(folder);
	return 0;
}

static void submit(const char *student, const char *program)
{
	char name[100];

	text_format(name, sizeof(name), "%s/hw.py", student);
	folder_put(submissions, name, program);
}

struct outcome {
	char text[4000]; /* "student status score/max marks;" in the order of students */
	char notes[4000];
	int code;
	char message[480];
	struct run_status status;
	uint64_t records;
};

static int add_outcome(void *context, const struct store_record *record)
{
	struct outcome *o = context;
	struct record_summary s;
	struct error err = {0};

	assert_int_equal(record_read(record->body, &s, &err), 0);
	text_format(o->text + strlen(o->text), sizeof(o->text) - strlen(o->text), "%s %s %g/%g %s;",
		s.student, submission_status_name(s.status), s.score, s.max_score, s.marks);
	text_format(
		o->notes + strlen(o->notes), sizeof(o->notes) - strlen(o->notes), "%s|", s.note);
	record_summary_fini(&s);
	return 0;
}

static void drain(struct run *run, unsigned stop_after)
{
	unsigned seen = 0;

	while (!run_is_over(run)) {
		struct pollfd fd = {.fd = run_event_fd(run), .events = POLLIN};
		char *body;

		assert_true(poll(&fd, 1, 60000) > 0);
		while ((body = run_next(run))) {
			free(body);
			if (++seen == stop_after)
				run_stop(run);
		}
	}
}

/* run to the end, or until some records are there */
static void grade(unsigned jobs, unsigned stop_after, struct outcome *o)
{
	struct run_spec spec = {.home = home, .engine = "fake", .work = work, .jobs = jobs};
	struct assignment *a = NULL;
	struct store *store = NULL;
	struct run *run = NULL;
	struct error err = {0};
	char notice[RUN_NOTICE_SIZE];

	*o = (struct outcome){0};
	if (assignment_load(tests, &a, &err) || store_open(database, &store, &err))
		fail_msg("%s", err.message);
	spec.assignment = a;
	spec.submissions = submissions;
	spec.store = store;
	o->code = run_new(&spec, &run, notice, &err);
	if (!o->code) {
		assert_int_equal(run_start(run, &err), 0);
		drain(run, stop_after);
		o->code = run_finish(run, &err);
		run_status(run, &o->status);
		assert_int_equal(store_records_each(store, run_id(run), add_outcome, o, &err), 0);
	}
	text_copy(o->message, sizeof(o->message), err.message);
	if (o->code)
		print_message("%s\n", o->message);
	assert_int_equal(store_verify(store, &o->records, NULL), 0);
	run_free(run);
	store_close(store);
	assignment_free(a);
	assert_int_equal(access(work, F_OK), -1); /* no copy stays */
}

static void test_verdicts(void **state)
{
	char gone[PATH_MAX];
	struct outcome o;

	submit("a", "echo");
	submit("b", "print one\n");
	submit("c", "echo exit 1");
	submit("d", "signal 11");
	submit("e", "exit 0");
	submit("f", "echo cpu 1300");
	submit("g", "disk echo");
	folder_put(submissions, "h/x.txt", "");
	grade(2, 0, &o);
	assert_int_equal(o.code, 0);
	assert_string_equal(o.text,
		"a graded 2/2 ..;b graded 1/2 .F;c graded 0/2 EE;d graded 0/2 EE;e graded 0/2 XX;"
		"f graded 0/2 CC;g graded 1/2 D.;h rejected 0/0 ;");
	assert_int_equal(o.records, 8);
	/* the same again: nothing is run, nothing is recorded */
	mock_counts.execs = 0;
	grade(2, 0, &o);
	assert_int_equal(mock_counts.execs, 0);
	assert_int_equal(o.records, 8);
	assert_int_equal(o.status.kept, 7);
	/* one changes, one is mended, one goes */
	submit("b", "echo");
	submit("h", "echo");
	path_join(gone, sizeof(gone), submissions, "d", NULL);
	folder_remove(gone);
	grade(2, 0, &o);
	assert_int_equal(mock_counts.execs, 4);
	assert_non_null(strstr(o.text, "b graded 2/2 ..;c graded 0/2 EE;e"));
	assert_non_null(strstr(o.text, "h graded 2/2 ..;"));
	assert_int_equal(o.records, 10);
}

/* Whose fault: a machine that ends under a program twice is the program's doing, everything else
 * is ours, is tried again, and never costs a point. */
static void test_blame(void **state)
{
	struct outcome o;

	submit("a", "die");
	grade(1, 0, &o);
	assert_string_equal(o.text, "a graded 0/2 X-;");
	assert_non_null(strstr(o.notes, "ended_early in 1 test; not_run in 1 test"));
	assert_int_equal(mock_counts.machines, 2);

	mock_counts = (struct mock_counts){0};
	submit("a", "echo die-once");
	grade(1, 0, &o);
	assert_string_equal(o.text, "a graded 2/2 ..;");
	assert_int_equal(mock_counts.machines, 2);

	mock_counts = (struct mock_counts){0};
	submit("a", "echo lost-once");
	grade(1, 0, &o);
	assert_string_equal(o.text, "a graded 2/2 ..;");

	mock_counts = (struct mock_counts){0};
	submit("a", "echo lost");
	grade(1, 0, &o);
	assert_string_equal(o.text, "a infra 0/0 ??;");
	assert_non_null(strstr(o.notes, "not graded: "));
	assert_int_equal(mock_counts.machines, 3);
	assert_int_equal(o.code, 0);

	/* left to us once, it is graded by the next run */
	mock_counts = (struct mock_counts){0};
	submit("b", "echo");
	grade(1, 0, &o);
	assert_int_equal(mock_counts.machines, 4);
	assert_string_equal(o.text, "a infra 0/0 ??;b graded 2/2 ..;");
}

static void test_no_machines(void **state)
{
	struct outcome o;
	char name[8];

	for (int i = 0; i < 20; i++) {
		text_format(name, sizeof(name), "s%02d", i);
		submit(name, "echo");
	}
	mock_refuse = 2;
	grade(1, 0, &o);
	assert_int_equal(o.code, 0);
	assert_null(strstr(o.text, "infra"));
	for (int i = 0; i < 20; i++) {
		text_format(name, sizeof(name), "s%02d", i);
		submit(name, "echo print x");
	}
	mock_refuse = UINT_MAX;
	grade(1, 0, &o);
	assert_int_equal(o.code, -EIO);
	assert_string_equal(
		o.message, "machines do not work here: no machine could be started: refused");
	mock_refuse = 0;
	grade(2, 0, &o);
	assert_null(strstr(o.text, "infra"));
}

/* Times near a limit are measured again when nothing else runs. */
static void test_near(void **state)
{
	struct outcome o;
	char name[8];

	for (int i = 0; i < 6; i++) {
		text_format(name, sizeof(name), "s%d", i);
		submit(name, i % 3 ? "slow echo cpu 100" : "slow echo cpu 950");
	}
	grade(4, 0, &o);
	assert_true(o.status.again >= 1 && o.status.again <= 2);
	assert_int_equal(mock_counts.execs, 12 + 2 * o.status.again);
	assert_int_equal(o.records, 6);
	assert_null(strstr(o.text, "C"));
	/* one worker has measured all of them alone */
	mock_counts = (struct mock_counts){0};
	for (int i = 0; i < 6; i++) {
		text_format(name, sizeof(name), "s%d", i);
		submit(name, "echo cpu 1050");
	}
	grade(1, 0, &o);
	assert_int_equal(o.status.again, 0);
	assert_int_equal(mock_counts.execs, 12);
	assert_non_null(strstr(o.text, "s5 graded 0/2 CC;"));
}

/* no run was ever there */
static void forget(void)
{
	static const char *const files[] = {"", "-wal", "-shm"};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		text_format(path, sizeof(path), "%s%s", database, files[i]);
		folder_remove(path);
	}
	mock_counts = (struct mock_counts){0};
}

static void fill_class(void)
{
	static const char *const programs[] = {"slow echo", "slow print one\n", "slow exit 3",
		"slow echo cpu 980", "die", "slow signal 9"};
	char name[8];

	for (int i = 0; i < 24; i++) {
		text_format(name, sizeof(name), "s%02d", i);
		submit(name, programs[i % 6]);
	}
	folder_put(submissions, "x/none", "");
}

static void test_jobs_equal(void **state)
{
	struct outcome one, eight;

	fill_class();
	grade(1, 0, &one);
	assert_int_equal(mock_counts.most_at_once, 1);
	forget();
	grade(8, 0, &eight);
	assert_true(mock_counts.most_at_once > 1);
	assert_string_equal(one.text, eight.text);
	assert_int_equal(one.records, 25);
	assert_int_equal(eight.records, 25);
}

static void test_stopped(void **state)
{
	struct outcome whole, part;

	fill_class();
	grade(2, 0, &whole);
	forget();
	for (unsigned rounds = 0;; rounds++) {
		grade(2, 4 + 2 * rounds, &part);
		assert_int_equal(part.code, 0);
		if (part.status.waiting == 0)
			break;
		assert_true(rounds < 30);
	}
	assert_string_equal(part.text, whole.text);
	assert_int_equal(part.records, 25);
}

/* Killed in the middle of any exec, the next run ends with the same, each recorded once (T29). */
static void test_killed(void **state)
{
	struct outcome whole, o;
	unsigned kills = 0;
	int status;

	fill_class();
	grade(2, 0, &whole);
	forget();
	for (unsigned at = 1; at < 60; at += 7) {
		pid_t pid = fork();

		if (pid == 0) {
			mock_exit_at = at;
			grade(2, 0, &o);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_true(WEXITSTATUS(status) == 9 || WEXITSTATUS(status) == 0);
		kills += WEXITSTATUS(status) == 9;
	}
	assert_true(kills > 1);
	grade(2, 0, &o);
	assert_string_equal(o.text, whole.text);
	assert_int_equal(o.records, 25);
}

static void expect_refusal(const char *yaml, int code, const char *message)
{
	struct outcome o;

	folder_put(tests, "assignment.yaml", yaml);
	grade(1, 0, &o);
	assert_int_equal(o.code, code);
	if (!strstr(o.message, message))
		fail_msg("%s", o.message);
	assert_int_equal(mock_counts.machines, 0);
}

static void test_refusals(void **state)
{
	submit("a", "echo");
	expect_refusal("files: [hw.py]\n", -EPERM,
		"engine fake isolates by none and the assignment wants kernel");
	expect_refusal("require_isolation: none\nimage: other\n", -ENOENT, "other");
	expect_refusal("require_isolation: none\npoints: {'3*': 2}\n", -EINVAL,
		"assignment.yaml:2:10: points: \"3*\" matches no test; there are 1, 2");
	expect_refusal(
		"require_isolation: none\nlimits: {memory: 64G}\n", -ERANGE, "at most 65536 MiB");
}

int main(void)
{
	const struct CMUnitTest list[] = {
		cmocka_unit_test_setup_teardown(test_verdicts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blame, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_machines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_near, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_jobs_equal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
	};

	return cmocka_run_group_tests(list, NULL, NULL);
}
