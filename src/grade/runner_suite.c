/* SPDX-License-Identifier: Apache-2.0 - runner `suite`: unittest and pytest tests, guarded. */
#include "grade/runner.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/path.h"
#include "base/text.h"
#include "grade/classify.h"
#include "grade/suite_report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/*
 * Theory of operation
 *
 * Tests and student code share the machine, and neither the user id nor the report channel
 * (guarded; examiner/README.md). prepare() puts examiner and tests into a machine without student
 * code, lets the examiner collect the ids and compile what it will run, and keeps the folder as one
 * archive. run() unpacks that archive and the submission into a fresh machine and starts one
 * privileged exec, the launcher; the report comes on its fd 3, one line a test.
 *
 * Blame: what the examiner calls broken, and an end before the first test, are ours. Once a test
 * ran, an end without a whole report is the student's doing: what was reported stays, for it came
 * by a channel that student code does not have; the test that ran is ended_early, the rest not_run.
 */
#define ROOT          "/run/sealmark"
#define WORKSPACE     "/workspace"
#define CGROUPS       "/sys/fs/cgroup"
#define STUDENT_UID   1000u
#define EXAMINER_UID  1001u
#define PROCESSES     64u /* launcher, examiner, and what tests start themselves */
#define SLACK_MS      60000
#define EACH_SLACK_MS 7000 /* until the examiner has given up on a test in every way */
#define COLLECT_MS    120000
#define ARCHIVE_MOST  (256u << 20)
#define TESTS_MOST    (UINT64_C(64) << 20)
#define OUTPUT_MOST   (16u << 20)
#define TAIL_SIZE     600u
#define EXIT_BROKEN   70u
#define EXIT_TIME     (256u - 24u) /* the examiner was ended by SIGXCPU */
#define LAUNCHES      4u           /* at most, for one submission */
#define STRETCH_MOST  16 /* times as long by a clock that runs while others have the CPU */

static const char *const launch[] = {"python3", "-I", "-B", "-X", "utf8", "-c",
	"import sys; sys.path.append('" ROOT "/examiner'); import launch; launch.start()", NULL};

/* What prepare() learned. */
struct suite {
	struct buffer archive; /* examiner and tests, as one tar */
	struct suite_collection collection;
};

/* One exec of the launcher. */
struct launch {
	struct suite_report *report; /* NULL: keep the bytes in `collected` */
	struct buffer collected;
	struct buffer tail; /* end of stderr: why it failed */
};

/* --- the configuration --- */

static int add_plain(const struct assignment *a, struct buffer *out)
{
	struct buffer plain = {0};
	int r = buffer_printf(&plain,
		"candidate_uid=%u\ncandidate_gid=%u\nexaminer_uid=%u\nexaminer_gid=%u\n"
		"workspace=%s\ntests=%s\ncgroup=%s\nmemory_bytes=%" PRIu64 "\nprocesses=%u\n"
		"file_bytes=%" PRIu64 "\nprivate_mounts=1\n",
		STUDENT_UID, STUDENT_UID, EXAMINER_UID, EXAMINER_UID, WORKSPACE, ROOT "/tests",
		CGROUPS, a->limits.memory_bytes, a->limits.processes, a->limits.file_bytes);

	if (!r)
		r = buffer_printf(out, "%08zu", buffer_length(&plain));
	if (!r)
		r = buffer_add(out, buffer_bytes(&plain), buffer_length(&plain));
	buffer_fini(&plain);
	return r;
}

/* Add {"modules": [...]} of a list that ends with NULL; returns a new reference. */
static json_t *make_list(char *const *names, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(names[i]));
	return list;
}

static int add_json(struct buffer *out, json_t *config)
{
	char *text = config ? json_dumps(config, JSON_COMPACT) : NULL;
	int r = text ? buffer_add_text(out, text) : -ENOMEM;

	free(text);
	json_decref(config);
	return r;
}

static size_t count_names(char *const *names)
{
	size_t n = 0;

	while (names && names[n])
		n++;
	return n;
}

/* Modules named by the assignment, and those of its wanted files: "hw.py" is module hw. */
static json_t *wanted_modules(const struct assignment *a)
{
	json_t *list = make_list(a->modules, count_names(a->modules));

	if (json_array_size(list))
		return list;
	for (size_t i = 0; i < count_names(a->files); i++) {
		const char *name = a->files[i];
		size_t stem = strcspn(name, "./");

		if (stem && strcmp(name + stem, ".py") == 0)
			json_array_append_new(list, json_stringn(name, stem));
	}
	return list;
}

static int collect_config(const struct assignment *a, struct buffer *out)
{
	int r = add_plain(a, out);

	return r ? r
		 : add_json(out,
			   json_pack("{s:s, s:s, s:s, s:s, s:o}", "mode", "collect", "tests",
				   ROOT "/tests", "workspace", WORKSPACE, "framework",
				   a->framework ? a->framework : "", "modules", wanted_modules(a)));
}

/* Ids of tests that are reported already. */
static json_t *reported_ids(const struct suite_report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->result->test_count; i++) {
		if (report->seen[i])
			json_array_append_new(list, json_string(report->result->tests[i].id));
	}
	return list;
}

static int run_config(const struct runner_plan *plan, const struct suite_report *report,
	double stretch, struct buffer *out)
{
	const struct assignment *a = plan->assignment;
	const struct suite *suite = plan->state;
	const struct limits kill = runner_kill(plan);
	/* by the guest's clock, which also runs while other workers have the CPU */
	const int64_t sharing = plan->sharing ? plan->sharing : 1;
	const int64_t cpu_kill_ms = (int64_t)((double)(kill.cpu_ms * sharing) * stretch);
	const int64_t wall_kill_ms = (int64_t)((double)kill.wall_ms * stretch);
	int r = add_plain(a, out);

	return r ? r
		 : add_json(out,
			   json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I}",
				   "mode", "run", "nonce", report->nonce, "tests", ROOT "/tests",
				   "workspace", WORKSPACE, "framework", suite->collection.framework,
				   "modules",
				   make_list(suite->collection.modules,
					   suite->collection.module_count),
				   "skip", reported_ids(report), "cpu_ms",
				   (json_int_t)a->limits.cpu_ms, "cpu_kill_ms",
				   (json_int_t)cpu_kill_ms, "wall_ms",
				   (json_int_t)a->limits.wall_ms, "wall_kill_ms",
				   (json_int_t)wall_kill_ms, "output_bytes",
				   (json_int_t)a->limits.output_bytes));
}

/* --- the launcher --- */

static int on_output(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	struct launch *l = context;

	if (channel == WIRE_REPORT && l->report)
		return suite_report_take(l->report, bytes, count);
	if (channel == WIRE_REPORT)
		return buffer_add(&l->collected, bytes, count);
	if (channel != WIRE_STDERR)
		return 0;
	if (count > TAIL_SIZE) {
		bytes = (const uint8_t *)bytes + count - TAIL_SIZE;
		count = TAIL_SIZE;
	}
	if (buffer_length(&l->tail) + count > TAIL_SIZE)
		buffer_consume(&l->tail, buffer_length(&l->tail) + count - TAIL_SIZE);
	return buffer_add(&l->tail, bytes, count);
}

static int start_launcher(struct sandbox *s, const struct assignment *a,
	const struct buffer *config, int64_t wall_ms, int cancel_fd, struct launch *l,
	struct exec_result *run, struct error *err)
{
	struct exec_spec spec = EXEC_SPEC_INIT;

	spec.argv = launch;
	spec.cwd = "/";
	spec.uid = spec.gid = 0;
	spec.flags = WIRE_EXEC_PRIVILEGED;
	spec.wall_ms = wall_ms;
	spec.output_bytes = OUTPUT_MOST;
	spec.processes = a->limits.processes + PROCESSES;
	spec.stdin_bytes = buffer_bytes(config);
	spec.stdin_count = buffer_length(config);
	spec.on_output = on_output;
	spec.context = l;
	spec.report = true;
	spec.cancel_fd = cancel_fd;
	return sandbox_exec(s, &spec, run, err);
}

/* What the launcher said last, for a message. */
static void add_tail(const struct launch *l, struct error *err)
{
	struct buffer text = {0};

	if (buffer_length(&l->tail) &&
		!text_add_safe(&text, buffer_bytes(&l->tail), buffer_length(&l->tail), false) &&
		buffer_text(&text)) {
		cleanup_free char *before = strdup(error_message(err));

		error_set(err, err->code, "%.120s: %s", before ? before : "", buffer_text(&text));
	}
	buffer_fini(&text);
}

/* --- prepare --- */

/* The examiner's folder, closed to students before anything is in it. */
static int make_root(struct sandbox *s, struct error *err)
{
	int r = sandbox_mkdir(s, ROOT, 0700, 0, err);

	return r ? r : sandbox_chown(s, ROOT, EXAMINER_UID, EXAMINER_UID, err);
}

static int put_folders(struct sandbox *s, const struct assignment *a, struct error *err)
{
	char path[WIRE_PATH_MAX];
	cleanup_close int fd = -1;
	int r = sandbox_helper_path("examiner", path, sizeof(path), err);

	if (r)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	r = make_root(s, err);
	if (!r)
		r = sandbox_put_tree(
			s, ROOT "/examiner", fd, EXAMINER_UID, EXAMINER_UID, TESTS_MOST, err);
	if (!r)
		r = sandbox_put_tree(
			s, ROOT "/tests", a->tests_fd, EXAMINER_UID, EXAMINER_UID, TESTS_MOST, err);
	return r;
}

static int keep_bytes(void *context, const void *bytes, size_t count)
{
	return buffer_add(context, bytes, count);
}

/* Why a collection gave no list. */
static int collect_failed(
	const struct exec_result *run, const struct launch *l, int r, struct error *err)
{
	if (r == -EPROTO && run->reason == WIRE_END_WALL_LIMIT)
		return error_set(
			err, -EINVAL, "loading the tests took more than %d s", COLLECT_MS / 1000);
	if (r == -EPROTO && (run->flags & WIRE_EXIT_OOM))
		return error_set(err, -EINVAL, "loading the tests takes more memory than there is");
	if (r == -EPROTO)
		add_tail(l, err);
	return r;
}

static int collect(
	struct sandbox *s, const struct assignment *a, struct suite *suite, struct error *err)
{
	struct exec_result run = {0};
	struct launch l = {0};
	struct buffer config = {0};
	int r = collect_config(a, &config);

	buffer_init(&l.collected, OUTPUT_MOST);
	if (r)
		error_set(err, r, "out of memory");
	if (!r)
		r = start_launcher(s, a, &config, COLLECT_MS, -1, &l, &run, err);
	if (!r) {
		r = suite_collection_read(buffer_bytes(&l.collected), buffer_length(&l.collected),
			&suite->collection, err);
		if (r)
			r = collect_failed(&run, &l, r, err);
	}
	if (!r)
		r = sandbox_get_tar(s, ROOT, NULL, 0, keep_bytes, &suite->archive, err);
	buffer_fini(&l.collected);
	buffer_fini(&l.tail);
	buffer_fini(&config);
	exec_result_fini(&run);
	return r;
}

static void suite_finish(struct runner_plan *plan)
{
	struct suite *suite = plan->state;

	for (size_t i = 0; i < plan->test_count; i++)
		free(plan->tests[i].id);
	free(plan->tests);
	plan->tests = NULL;
	plan->test_count = 0;
	plan->modules = NULL;
	plan->state = NULL;
	if (!suite)
		return;
	suite_collection_fini(&suite->collection);
	buffer_fini(&suite->archive);
	free(suite);
}

static int suite_prepare(struct runner_plan *plan,
	int (*make_sandbox)(void *context, struct sandbox **out, struct error *err), void *context,
	struct error *err)
{
	const struct assignment *a = plan->assignment;
	struct suite *suite = calloc(1, sizeof(*suite));
	struct sandbox *s = NULL;
	int r;

	if (!suite)
		return error_set(err, -ENOMEM, "out of memory");
	buffer_init(&suite->archive, ARCHIVE_MOST);
	plan->state = suite;
	r = make_sandbox(context, &s, err);
	if (!r)
		r = put_folders(s, a, err);
	if (!r) {
		r = collect(s, a, suite, err);
		if (r)
			error_prefix(err, "%s", a->tests_path);
	}
	sandbox_free(s);
	plan->tests = steal_ptr(&suite->collection.tests);
	plan->test_count = suite->collection.test_count;
	suite->collection.test_count = 0;
	for (size_t i = 0; i < plan->test_count; i++)
		plan->tests[i].points = assignment_points(a, plan->tests[i].id);
	if (!r)
		plan->modules = suite->collection.modules;
	/* a file on its own can only be the one module that the tests import */
	if (!r && suite->collection.module_count == 1 &&
		asprintf(&plan->single_file, "%s.py", suite->collection.modules[0]) < 0) {
		plan->single_file = NULL;
		r = error_set(err, -ENOMEM, "out of memory");
	}
	if (r)
		suite_finish(plan);
	return r;
}

/* --- run --- */

static int put_submission(const struct suite *suite, const struct runner_submission *submission,
	struct sandbox *s, struct error *err)
{
	int r = make_root(s, err);

	if (!r)
		r = sandbox_put_tar(s, ROOT, buffer_bytes(&suite->archive),
			buffer_length(&suite->archive), EXAMINER_UID, EXAMINER_UID, err);
	if (!r)
		r = sandbox_put_tree(s, WORKSPACE, submission->dir_fd, STUDENT_UID, STUDENT_UID,
			UINT64_MAX, err);
	return r;
}

/* The report ended in the middle of a test: that test's verdict. */
static int end_running(struct suite_report *report, enum verdict verdict, const char *why)
{
	struct test_result *t;

	if (report->running == SIZE_MAX)
		return 0;
	t = &report->result->tests[report->running];
	t->verdict = verdict;
	free(t->detail);
	t->detail = strdup(why);
	return t->detail ? 0 : -ENOMEM;
}

/* The machine is gone: whose doing is it? */
static int machine_gone(struct suite_report *report, struct sandbox *s)
{
	const struct sandbox_end *end = sandbox_end(s);

	if (!end || !report->began ||
		(end->reason != SANDBOX_STOPPED_GUEST_ENDED &&
			end->reason != SANDBOX_STOPPED_GUEST_FAULT))
		return -ENODEV;
	report->result->student_ran = true;
	report->result->cheats |= CHEAT_KILLED;
	suite_report_end(report);
	return end_running(report, VERDICT_ENDED_EARLY, "the machine ended while it ran") ? -ENOMEM
											  : -ENODEV;
}

/* The launcher ended. 0: the result counts. */
static int judge_end(struct suite_report *report, const struct exec_result *run,
	const struct launch *l, struct error *err)
{
	bool whole = suite_report_end(report);

	if (report->broken[0])
		return error_set(err, -EIO, "the examiner failed: %s", report->broken);
	if (report->error[0])
		return error_set(
			err, -EIO, "the tests could not be loaded again: %s", report->error);
	if (whole || report->done)
		return 0;
	if (!report->began) {
		error_set(err, -EIO, "the examiner ended before the first test (%s, status %u)",
			wire_end_name(run->reason), run->status);
		add_tail(l, err);
		return err ? err->code : -EIO;
	}
	if (run->reason == WIRE_END_WALL_LIMIT)
		return end_running(report, VERDICT_WALL_LIMIT, "the tests did not end in time");
	if (run->reason == WIRE_END_EXITED && run->status == EXIT_TIME)
		return end_running(report, VERDICT_WALL_LIMIT,
			"what the test did with the answer did not end in time");
	if (run->flags & WIRE_EXIT_OOM)
		return end_running(report, VERDICT_MEMORY_LIMIT,
			"the tests were killed for their use of memory while it ran");
	if (run->reason == WIRE_END_EXITED && run->status == EXIT_BROKEN) {
		error_set(err, -EIO, "the examiner failed");
		add_tail(l, err);
		return err ? err->code : -EIO;
	}
	return end_running(report, VERDICT_ENDED_EARLY, "the tests were ended while it ran");
}

static int64_t whole_wall_ms(const struct runner_plan *plan, double stretch)
{
	int64_t each = (int64_t)((double)runner_kill(plan).wall_ms * stretch), all;

	if (__builtin_mul_overflow(each + EACH_SLACK_MS, (int64_t)plan->test_count, &all) ||
		all > INT64_MAX - SLACK_MS)
		return INT64_MAX / 2000;
	return all + SLACK_MS;
}

/*
 * Another launch for tests that ended for the time that others had the CPU. *stretch: how much
 * longer that one's times are by the guest's clock, and were in this one.
 */
static int judge_times(const struct runner_plan *plan, struct suite_report *report,
	const struct exec_result *run, bool last, double *stretch, struct error *err)
{
	const struct limits *limits = &plan->assignment->limits;
	const uint64_t host_cpu_us = run->cpu_from_host ? run->cpu_us : 0;
	const bool stretched = *stretch > 1;
	double share, given;
	size_t starved = suite_report_forget_starved(report, limits, host_cpu_us, &share);

	if (starved && last)
		return error_set(err, -EBUSY,
			"the host is too busy: of each second that tests ran they got %d ms of CPU "
			"time",
			(int)(share * 1000));
	for (size_t i = 0; i < report->result->test_count; i++) {
		struct test_result *t = &report->result->tests[i];

		if (stretched && report->seen[i] && !report->judged[i])
			t->wall_ms = (int64_t)((double)t->wall_ms / *stretch);
	}
	suite_report_judge_times(report, limits, host_cpu_us);
	/* the limits allow for the other workers on this CPU already */
	given = share * (plan->sharing ? plan->sharing : 1);
	if (starved)
		*stretch = given * STRETCH_MOST > 1 ? 1 / given : STRETCH_MOST;
	return 0;
}

static int launch_once(const struct runner_plan *plan, struct sandbox *s, int cancel_fd, bool last,
	struct suite_report *report, double *stretch, struct error *err)
{
	struct exec_result run = {0};
	struct launch l = {.report = report};
	struct buffer config = {0};
	int r = run_config(plan, report, *stretch, &config);

	if (r)
		error_set(err, r, "out of memory");
	if (!r)
		r = start_launcher(s, plan->assignment, &config, whole_wall_ms(plan, *stretch),
			cancel_fd, &l, &run, err);
	if (r == -ENODEV)
		r = machine_gone(report, s);
	else if (!r)
		r = judge_end(report, &run, &l, err);
	if (!r)
		r = judge_times(plan, report, &run, last, stretch, err);
	if (!r && run.reason == WIRE_END_WALL_LIMIT)
		report->running = SIZE_MAX; /* no time is left for another try */
	buffer_fini(&l.tail);
	buffer_fini(&config);
	exec_result_fini(&run);
	return r;
}

static void make_nonce(char *out)
{
	uint8_t secret[32];

	id_random(secret, sizeof(secret));
	id_hex(out, secret, sizeof(secret));
}

/* An answer can bring the examiner itself to its end; then another one runs the tests after it. */
static int run_tests(const struct runner_plan *plan, struct sandbox *s, int cancel_fd,
	struct suite_report *report, struct error *err)
{
	char nonce[SUITE_NONCE_SIZE];
	double stretch = 1;
	int r = launch_once(plan, s, cancel_fd, false, report, &stretch, err);

	for (unsigned i = 1; i < LAUNCHES && !r; i++) {
		if (report->done || report->strange ||
			(report->running == SIZE_MAX && !report->starved))
			break;
		make_nonce(nonce);
		r = suite_report_again(report, nonce);
		if (r)
			error_set(err, r, "out of memory");
		else if (report->reported < report->result->test_count)
			r = launch_once(
				plan, s, cancel_fd, i + 1 == LAUNCHES, report, &stretch, err);
	}
	return r;
}

static int suite_run(const struct runner_plan *plan, const struct runner_submission *submission,
	struct sandbox *sandbox, int cancel_fd, struct submission_result *result, struct error *err)
{
	char nonce[SUITE_NONCE_SIZE];
	struct suite_report report;
	int r = runner_add_tests(plan, result);

	make_nonce(nonce);
	if (!r)
		r = suite_report_init(&report, result, nonce);
	if (r)
		return error_set(err, r, "out of memory");
	r = put_submission(plan->state, submission, sandbox, err);
	if (!r)
		r = run_tests(plan, sandbox, cancel_fd, &report, err);
	if (!r)
		submission_result_sum(result);
	suite_report_fini(&report);
	return r;
}

const struct runner runner_suite = {
	.name = "suite",
	.trust = TRUST_GUARDED,
	.prepare = suite_prepare,
	.run = suite_run,
	.finish = suite_finish,
};
