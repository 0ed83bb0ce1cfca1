/* SPDX-License-Identifier: Apache-2.0 - sealmark grade: a folder of submissions becomes a
 * gradebook. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/folders.h"
#include "grade/assignment.h"
#include "grade/progress.h"
#include "grade/run.h"
#include "gradebook/gradebook.h"
#include "gradebook/table.h"
#include "intake/intake.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

/*
 * Theory of operation
 *
 * The workers are threads of the run; this thread takes in what they commit, draws, writes the
 * outputs now and then and watches for signals. Everything is in OUT: the outputs, and
 * OUT/.sealmark with the store, a lock (one grade at a time) and copies of submissions in work. So
 * a run that was ended, in whatever way, goes on when the same command is given again.
 */
#define WRITE_EVERY_MS      5000 /* outputs while the run goes on */
#define WRITE_SHARE         20   /* but at most 1/20 of the time is spent on them */
#define LITTER_SHOWN        4    /* names of what was passed over */
#define INTERRUPTED(signal) (128 + (signal))

struct grade_options {
	const char *out, *engine, *only, *script;
	uint32_t jobs;
	bool json, fresh, quiet, no_color;
};

struct grade {
	const struct grade_options *options;
	struct assignment *assignment;
	struct store *store;
	struct run *run;
	struct gradebook gradebook;
	struct progress progress;
	char home[PATH_MAX], out[PATH_MAX], work[PATH_MAX];
	int lock_fd;
	int cancel_fd;
	int signal; /* that ended it, or 0 */
	int64_t next_write_ms;
};

/* What the user can mend is a usage error; all else is ours. */
static int status_of(int r)
{
	static const int ours[] = {ENOMEM, EIO, ENOSPC, EMFILE, ENFILE, ENODEV, ETIMEDOUT, EBUSY};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		if (r == -ours[i])
			return CLI_OURS;
	}
	return CLI_USAGE;
}

/* --- the folder of results --- */

/* Results among the submissions would be taken for one the next time. */
static int choose_out(
	struct grade *g, const char *tests, const char *submissions, struct error *err)
{
	char path[PATH_MAX];
	int r;

	if (g->options->out)
		r = text_copy(path, sizeof(path), g->options->out);
	else
		r = text_format(path, sizeof(path), "sealmark-results/%s", g->assignment->name);
	if (!r)
		r = folders_absolute(path, g->out, sizeof(g->out), err);
	if (r)
		return status_of(r);
	for (int i = 0; i < 2; i++) {
		const char *folder = i ? submissions : tests;

		if (folders_is_inside(g->out, folder))
			return cli_usage(err,
				"the results would be written to %s, which is in %s; choose "
				"another "
				"folder with -o",
				g->out, folder);
	}
	return 0;
}

/* A killed run's lock is free once the last process it was starting has begun; wait that long. */
static int take_lock(int fd)
{
	const struct timespec step = {.tv_nsec = 20000000};

	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (i == 50)
			return -EWOULDBLOCK;
		nanosleep(&step, NULL);
	}
	return 0;
}

/* What keeps the results from being written. */
static int refuse_out(const struct grade *g, int r, struct error *err)
{
	if (r == -ENOTDIR || r == -EEXIST)
		error_set(
			err, r, "%s: is, or is in, a file; choose another folder with -o", g->out);
	else
		error_set(err, r,
			"%s: the results cannot be written there (%s); choose another folder with "
			"-o",
			g->out, strerror(-r));
	return status_of(r);
}

static int open_out(struct grade *g, struct error *err)
{
	char hidden[PATH_MAX], path[PATH_MAX];
	int r = path_join(hidden, sizeof(hidden), g->out, ".sealmark", err);

	r = r ? r : path_make(hidden, 0755, err);
	if (r)
		return refuse_out(g, r, err);
	r = path_join(g->work, sizeof(g->work), hidden, "work", err);
	r = r ? r : path_join(path, sizeof(path), hidden, "lock", err);
	if (r)
		return status_of(r);
	g->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (g->lock_fd < 0) {
		r = -errno;
		return refuse_out(g, r, err);
	}
	if (take_lock(g->lock_fd))
		return cli_usage(err,
			"another sealmark grade is at work on %s; wait for it, or choose another "
			"folder with -o",
			g->out);
	gradebook_sweep(g->out);
	r = path_join(path, sizeof(path), hidden, "run.db", err);
	r = r ? r : store_open(path, &g->store, err);
	return r ? CLI_OURS : 0;
}

/* --- before the run --- */

static int open_run(struct grade *g, const char *submissions, struct error *err)
{
	const char *script =
		g->options->script ? g->options->script : getenv("SEALMARK_FAKE_SCRIPT");
	const struct run_spec spec = {.home = g->home,
		.engine = g->options->engine,
		.script = script,
		.assignment = g->assignment,
		.submissions = submissions,
		.store = g->store,
		.work = g->work,
		.jobs = g->options->jobs,
		.only = g->options->only,
		.fresh = g->options->fresh};
	char notice[RUN_NOTICE_SIZE];
	int r = run_new(&spec, &g->run, notice, err);

	if (r)
		return status_of(r);
	if (*notice)
		log_warning("%s", notice);
	return 0;
}

static bool is_asked_for(const struct grade *g, const char *student)
{
	return !g->options->only || strcmp(g->options->only, student) == 0;
}

/* A row for each student from the start: a book that lacked some would be taken for the whole. */
static int expect_all(struct grade *g, struct error *err)
{
	const struct intake *in = run_intake(g->run);
	const char *note = "not graded yet: run the same command again";
	int r = 0;

	for (size_t i = 0; i < in->count && !r; i++) {
		const char *student = in->submissions[i].student;

		r = gradebook_expect(&g->gradebook, student,
			is_asked_for(g, student) ? note
						 : "not graded yet: run the command without --only",
			err);
	}
	return r ? CLI_OURS : 0;
}

static int prepare(struct grade *g, const char *tests, const char *submissions, struct error *err)
{
	int r = path_home(g->home, sizeof(g->home), err);

	if (!r && folders_check_apart(tests, submissions, err))
		return CLI_USAGE;
	r = r ? r : assignment_load(tests, &g->assignment, err);
	r = r ? r : intake_check(submissions, err);
	if (r)
		return status_of(r);
	r = choose_out(g, tests, submissions, err);
	r = r ? r : open_out(g, err);
	if (r)
		return r;
	g->cancel_fd = cli_cancel_fd();
	if (g->cancel_fd < 0)
		return cli_ours(err, "cannot watch for signals: %s", strerror(-g->cancel_fd));
	r = open_run(g, submissions, err);
	return r ? r : expect_all(g, err);
}

static bool is_talkative(const struct grade *g)
{
	return !g->options->quiet && !g->options->json;
}

/* ".git (its name begins with a dot), __MACOSX (left by macOS) and 3 more" */
static void list_litter(const struct intake_litter *l, size_t shown, size_t count)
{
	char name[700];

	for (size_t i = 0; i < shown; i++)
		fprintf(stderr, "%s%s (%s)", i ? ", " : "",
			tree_show(l[i].path, name, sizeof(name)), l[i].why);
	if (count > shown)
		fprintf(stderr, " and %zu more", count - shown);
}

static void say_passed_over(const struct intake *in)
{
	size_t entries = 0, below;

	while (entries < in->litter_kept && in->litter[entries].is_entry)
		entries++;
	below = in->litter_count - entries;
	if (entries) {
		fputs("passed over, rename what is to be graded: ", stderr);
		list_litter(in->litter, entries < LITTER_SHOWN ? entries : LITTER_SHOWN, entries);
		fputc('\n', stderr);
	}
	if (below && entries < in->litter_kept) {
		fputs("passed over in submissions: ", stderr);
		list_litter(in->litter + entries, 1, below);
		fputs(below > 1 ? "; run.json names them\n" : "\n", stderr);
	}
}

static void introduce(const struct grade *g)
{
	struct run_status s;

	run_status(g->run, &s);
	if (!is_talkative(g))
		return;
	say_passed_over(run_intake(g->run));
	fprintf(stderr, "%s: %zu submission%s, %zu test%s, runner %s (%s), %u at once\n",
		g->assignment->name, s.total, s.total == 1 ? "" : "s", run_test_count(g->run),
		run_test_count(g->run) == 1 ? "" : "s", g->assignment->runner,
		g->assignment->runner_why, s.jobs);
	if (s.kept && s.waiting)
		fprintf(stderr, "%zu are graded from before; %zu to do\n", s.kept, s.waiting);
	else if (s.kept)
		fprintf(stderr,
			"all are graded from before and nothing changed; --fresh grades anew\n");
}

/* --- while it runs --- */

static int take_records(struct grade *g, struct error *err)
{
	char *body;

	while ((body = run_next(g->run))) {
		const struct record_summary *row;
		int r = gradebook_put(&g->gradebook, body, &row, err);

		if (!r && g->options->json && is_asked_for(g, row->student))
			puts(body);
		free(body);
		if (r)
			return r;
	}
	if (g->options->json)
		fflush(stdout);
	return 0;
}

static void show_progress(struct grade *g)
{
	const struct run_counts counts = gradebook_counts(&g->gradebook);
	struct run_status status;

	if (!is_talkative(g))
		return;
	run_status(g->run, &status);
	if (status.total > status.before)
		progress_show(&g->progress, &status, &counts);
}

static int write_outputs(struct grade *g, struct error *err)
{
	int64_t start = clock_ms(), spent;
	int r = gradebook_write(&g->gradebook, g->run, g->store, g->out, err);

	spent = clock_ms() - start;
	g->next_write_ms = clock_ms() + (spent * WRITE_SHARE > WRITE_EVERY_MS ? spent * WRITE_SHARE
									      : WRITE_EVERY_MS);
	return r;
}

/* The first signal ends the run in good order, the second at once. */
static void take_signal(struct grade *g)
{
	int signal = cli_cancel_signal(g->cancel_fd);

	if (!signal)
		return;
	if (g->signal)
		_exit(INTERRUPTED(signal));
	g->signal = signal;
	run_stop(g->run);
	progress_clear(&g->progress);
	if (is_talkative(g))
		fputs("stopping; once more stops at once\n", stderr);
}

static int wait_ms(const struct grade *g)
{
	int write = clock_poll_ms(g->next_write_ms), draw = progress_every_ms(&g->progress);

	return is_talkative(g) && draw >= 0 && draw < write ? draw : write;
}

static int watch(struct grade *g, struct error *err)
{
	struct pollfd fds[2] = {{.fd = run_event_fd(g->run), .events = POLLIN},
		{.fd = g->cancel_fd, .events = POLLIN}};
	int r = 0;

	while (!r && !run_is_over(g->run)) {
		if (poll(fds, 2, wait_ms(g)) < 0 && errno != EINTR)
			return error_sys(err, errno, "cannot wait");
		take_signal(g);
		r = take_records(g, err);
		show_progress(g);
		if (!r && clock_ms() >= g->next_write_ms)
			r = write_outputs(g, err);
	}
	return r ? r : take_records(g, err);
}

/* --- after it --- */

/* What this command was to grade: all, or the row of the one that was named. */
static struct gradebook asked_for(const struct grade *g)
{
	const struct record_summary *one =
		g->options->only ? gradebook_find(&g->gradebook, g->options->only) : NULL;

	return one ? (struct gradebook){.rows = (struct record_summary *)one, .count = 1}
		   : g->gradebook;
}

/* The tests that nobody has passed: a teacher looks at the test first, then at the class. */
static void put_doubts(const struct grade *g, const struct gradebook *rows)
{
	size_t tests[5], count = gradebook_unpassed(rows, tests, ARRAY_SIZE(tests));

	if (!count)
		return;
	printf("nobody passed test%s", count == 1 ? "" : "s");
	for (size_t i = 0; i < count && i < ARRAY_SIZE(tests); i++)
		printf("%s %zu", i ? "," : "", tests[i] + 1);
	if (count > ARRAY_SIZE(tests))
		printf(" and %zu more", count - ARRAY_SIZE(tests));
	printf("; what was answered: sealmark show %s\n", g->out);
}

static void print_table(const struct grade *g)
{
	bool color = isatty(STDOUT_FILENO) && !g->options->no_color && !getenv("NO_COLOR");
	const struct gradebook rows = asked_for(g);
	const struct run_counts counts = gradebook_counts(&rows);
	struct buffer table = {0};

	if (table_write(&rows, progress_columns(stdout), color, &table) == 0)
		fwrite(buffer_bytes(&table), 1, buffer_length(&table), stdout);
	buffer_fini(&table);
	printf("%zu graded, %zu rejected, %zu not graded by a failure of ours", counts.graded,
		counts.rejected, counts.infra);
	if (counts.pending)
		printf(", %zu to do", counts.pending);
	printf("; results are in %s\n", g->out);
	put_doubts(g, &rows);
}

static void print_summary(const struct grade *g)
{
	const struct gradebook rows = asked_for(g);
	const struct run_counts counts = gradebook_counts(&rows);
	char *text;
	json_t *j;

	j = json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s}}", "summary", "submissions",
		(json_int_t)rows.count, "graded", (json_int_t)counts.graded, "rejected",
		(json_int_t)counts.rejected, "infra", (json_int_t)counts.infra, "waiting",
		(json_int_t)counts.pending, "passed_over",
		(json_int_t)run_intake(g->run)->litter_count, "complete", counts.pending == 0,
		"results", text_is_utf8(g->out, strlen(g->out)) ? g->out : "");
	text = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	if (text)
		puts(text);
	free(text);
	json_decref(j);
}

static int conclude(struct grade *g, int r, struct error *err)
{
	struct error late = {0};
	struct gradebook rows;
	struct run_counts counts;
	struct run_status status;
	int ended;

	if (r)
		run_stop(g->run);
	ended = run_finish(g->run, r ? NULL : err);
	r = r ? r : ended;
	progress_clear(&g->progress);
	if (write_outputs(g, &late) && !r) {
		*err = late;
		r = late.code;
	}
	if (g->options->json)
		print_summary(g);
	else if (!g->options->quiet)
		print_table(g);
	fflush(stdout);
	if (r && is_talkative(g))
		fputs("what is done is kept; the same command goes on from there\n", stderr);
	if (r)
		return CLI_OURS;
	run_status(g->run, &status);
	if (g->signal) {
		if (is_talkative(g))
			fprintf(stderr,
				"stopped with %zu of %zu done; the same command goes on from "
				"there\n",
				status.total - status.waiting, status.total);
		return INTERRUPTED(g->signal);
	}
	rows = asked_for(g);
	counts = gradebook_counts(&rows);
	return counts.rejected || counts.infra || counts.pending ? CLI_ATTENTION : CLI_OK;
}

static void grade_fini(struct grade *g)
{
	run_free(g->run);
	store_close(g->store);
	gradebook_fini(&g->gradebook);
	assignment_free(g->assignment);
	close_fd(&g->lock_fd);
	close_fd(&g->cancel_fd);
}

static int grade(const void *options, const char *const *operands, size_t count, struct error *err)
{
	struct grade g = {.options = options, .lock_fd = -1, .cancel_fd = -1};
	int status = prepare(&g, operands[0], operands[1], err);

	if (!status) {
		introduce(&g);
		progress_init(&g.progress, stderr, cli_utf8());
		g.next_write_ms = clock_ms(); /* at once: the book of before may lack students */
		status = run_start(g.run, err) ? CLI_OURS : 0;
	}
	if (!status)
		status = conclude(&g, watch(&g, err), err);
	grade_fini(&g);
	return status;
}

static const struct grade_options defaults = {.engine = "auto"};

#define FIELD(name) offsetof(struct grade_options, name)
static const struct cli_option options[] = {
	CLI_OPTION("out", 'o', "DIR",
		"folder of the results (default: sealmark-results/ASSIGNMENT)", "--out results/hw3",
		cli_text, FIELD(out)),
	CLI_OPTION("jobs", 'j', "N", "submissions at once (default: one for each CPU)", "--jobs 4",
		cli_u32, FIELD(jobs), .least = 1, .most = 1024),
	CLI_OPTION("json", 0, NULL,
		"print the record of each submission as it is done, as a line of JSON", "--json",
		cli_flag, FIELD(json)),
	CLI_OPTION(
		"quiet", 'q', NULL, "print nothing but errors", "--quiet", cli_flag, FIELD(quiet)),
	CLI_OPTION("no-color", 0, NULL, "no colors on a terminal", "--no-color", cli_flag,
		FIELD(no_color)),
	CLI_OPTION("only", 0, "STUDENT", "grade the submission of this student only",
		"--only smith", cli_text, FIELD(only)),
	CLI_OPTION("fresh", 0, NULL, "grade all again, also what is done and has not changed",
		"--fresh", cli_flag, FIELD(fresh)),
	CLI_OPTION("engine", 0, "NAME", "kind of machine (default: auto, the strongest present)",
		"--engine uml", cli_text, FIELD(engine)),
	CLI_OPTION("script", 0, "FILE", "script of the engine fake", "--script slow", cli_text,
		FIELD(script), .hidden = true),
	CLI_OPTIONS_END,
};

const struct cli_command cli_grade = {
	.name = "grade",
	.summary = "Grade a folder of submissions",
	.operands = "TESTS SUBMISSIONS",
	.text = "TESTS is a folder with cases (01.in and 01.out) or Python tests (test_hw.py), "
		"and\n"
		"assignment.yaml where something is to be said about them: see\n"
		"sealmark-assignment(5). Each folder or file in SUBMISSIONS is one student's. Each "
		"is\n"
		"run in a virtual machine of its own, without network and with limits.\n"
		"\n"
		"DIR gets gradebook.csv, results.jsonl and run.json. A run that was ended, by "
		"Ctrl-C\n"
		"or otherwise, goes on when the same command is given again; what is done and has\n"
		"not changed is kept.\n"
		"\n"
		"The exit status is 0 when all are graded, 1 when some need attention (rejected, "
		"or\n"
		"not graded by a failure of ours), 2 for wrong usage, 3 for a failure of Sealmark.",
	.examples = "sealmark grade tests/hw3 submissions/hw3\n"
		    "sealmark grade --jobs 4 --out results/hw3 tests/hw3 submissions/hw3\n"
		    "sealmark grade --json tests/hw3 submissions/hw3 | jq .score\n",
	.options = options,
	.defaults = &defaults,
	.size = sizeof(struct grade_options),
	.least = 2,
	.most = 2,
	.run = grade,
};
