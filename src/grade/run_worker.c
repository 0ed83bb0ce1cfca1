/* SPDX-License-Identifier: Apache-2.0 - a worker: take a job, run it in a machine, commit, again.
 */
#include "grade/run_internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "grade/classify.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Theory of operation
 *
 * Blame: a runner that answers 0 has a result. When it fails, the failure is ours and the
 * submission is tried again on a fresh machine, up to RUN_TRIES machines, and then left as `infra`.
 * The one exception is a machine that ended while student code ran in it: if a second machine ends
 * the same way, the student's program did it, and what the runner filled in counts.
 *
 * Times near a limit: a submission with such a time that was not measured alone goes back to the
 * queue as `alone`; the store gives those out one at a time when nothing else runs.
 */

void run_signal(struct run *run)
{
	const uint64_t one = 1;
	ssize_t ignored = write(run->event_fd, &one, sizeof(one));

	(void)ignored; /* full is readable, too */
}

void run_publish(struct run *run, char *body)
{
	struct run_item *item = malloc(sizeof(*item));
	const struct error none = {-ENOMEM, "out of memory"};

	if (!item) {
		free(body);
		run_fail(run, &none);
		return;
	}
	*item = (struct run_item){NULL, body};
	pthread_mutex_lock(&run->lock);
	*run->last = item;
	run->last = &item->next;
	pthread_mutex_unlock(&run->lock);
	run_signal(run);
}

void run_stop(struct run *run)
{
	const uint64_t one = 1;
	ssize_t ignored = write(run->stop_fd, &one, sizeof(one));

	(void)ignored;
	pthread_mutex_lock(&run->lock);
	run->stopped = true;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
}

void run_fail(struct run *run, const struct error *why)
{
	pthread_mutex_lock(&run->lock);
	if (!run->fatal.code)
		run->fatal = *why;
	if (!run->fatal.code)
		run->fatal.code = -EIO;
	pthread_mutex_unlock(&run->lock);
	run_stop(run);
}

bool run_is_stopped(struct run *run)
{
	bool stopped;

	pthread_mutex_lock(&run->lock);
	stopped = run->stopped;
	pthread_mutex_unlock(&run->lock);
	return stopped;
}

/* One submission in work. */
struct task {
	struct run *run;
	struct run_worker *worker;
	const struct store_claim *claim;
	const struct submission *submission;
	struct submission_result result;
	char folder[48]; /* its copy, below work_fd */
	int dir_fd;
	bool alone;      /* nothing else ran when it began */
	uint64_t starts; /* jobs started until then */
};

/* --- the copy --- */

static void unstage(struct task *t)
{
	close_fd(&t->dir_fd);
	path_remove_tree(t->run->work_fd, t->folder, NULL);
}

static int stage(struct task *t, struct error *err)
{
	text_format(t->folder, sizeof(t->folder), "worker-%u", t->worker->index);
	path_remove_tree(t->run->work_fd, t->folder, NULL);
	if (mkdirat(t->run->work_fd, t->folder, 0700))
		return error_sys(err, errno, "cannot make a folder for the submission");
	t->dir_fd = path_open_beneath(t->run->work_fd, t->folder, O_RDONLY | O_DIRECTORY, 0);
	if (t->dir_fd < 0)
		return error_sys(err, t->dir_fd, "%s", t->folder);
	return intake_stage(t->run->intake, t->submission, t->dir_fd, err);
}

/* --- one machine --- */

static void take_info(struct task *t, struct sandbox *s)
{
	const struct sandbox_info *info = sandbox_info(s);

	text_copy(t->result.isolation, sizeof(t->result.isolation), info->isolation);
	text_copy(t->result.engine, sizeof(t->result.engine), info->engine);
	text_copy(t->result.kernel, sizeof(t->result.kernel), info->kernel);
}

/* usage of all machines of the submission */
static void take_usage(struct submission_result *r, const struct sandbox_usage *u)
{
	r->machine_cpu_us += u->cpu_us;
	if (u->memory_peak_bytes > r->machine_memory_peak_bytes)
		r->machine_memory_peak_bytes = u->memory_peak_bytes;
}

/* A result of a try that does not count is emptied but for what was spent. */
static void forget_try(struct submission_result *r)
{
	const struct submission_result kept = {.machine_cpu_us = r->machine_cpu_us,
		.machine_memory_peak_bytes = r->machine_memory_peak_bytes,
		.machines = r->machines};

	submission_result_fini(r);
	*r = kept;
}

static int try_once(struct task *t, struct error *err)
{
	struct run *run = t->run;
	const struct runner_submission submission = {.student = t->submission->student,
		.dir_fd = t->dir_fd,
		.files = (const char *const *)t->submission->paths};
	struct sandbox_usage usage = {0};
	struct sandbox *s = NULL;
	int64_t start = clock_ms();
	int r;

	t->result.machines++;
	clock_stamp(t->result.started);
	r = run_make_sandbox(run, run->cpus[t->worker->index % run->cpu_count], &s, err);
	if (r)
		return error_prefix(err, "no machine could be started");
	take_info(t, s);
	t->result.trust = run->runner->trust;
	r = run->runner->run(&run->plan, &submission, s, run->stop_fd, &t->result, err);
	if (r == -ENODEV) /* what the machine's end says is worth more than the runner's */
		usage = sandbox_end(s)->usage;
	else
		sandbox_stop(s, &usage, NULL);
	sandbox_free(s);
	take_usage(&t->result, &usage);
	t->result.wall_ms = clock_ms() - start;
	return r;
}

/* 0: there is a result; -EINTR: the run is stopped; else why it is left to us */
static int try_machines(struct task *t, struct error *err)
{
	unsigned ended = 0;
	int r = -EIO;

	for (unsigned i = 0; i < RUN_TRIES && r; i++) {
		if (run_is_stopped(t->run))
			return -EINTR;
		if (i)
			forget_try(&t->result);
		r = try_once(t, err);
		if (r == -ENODEV && t->result.student_ran && ++ended == 2)
			return 0;
		if (r && !run_is_stopped(t->run))
			log_info("%s: machine %u: %s", t->submission->student, i + 1,
				error_message(err));
	}
	return r && run_is_stopped(t->run) ? -EINTR : r;
}

/* --- from result to record --- */

static bool was_alone(const struct task *t)
{
	bool alone;

	pthread_mutex_lock(&t->run->lock);
	alone = t->claim->alone || (t->alone && t->run->starts == t->starts);
	pthread_mutex_unlock(&t->run->lock);
	return alone;
}

static bool must_repeat(const struct task *t)
{
	const struct assignment *a = t->run->spec.assignment;

	for (size_t i = 0; i < t->result.test_count && !was_alone(t); i++) {
		if (classify_is_near(&t->result.tests[i], &a->limits, t->run->plan.sharing))
			return true;
	}
	return false;
}

/* "cpu_limit in 2 tests", and what cheats were seen */
static void add_notes(struct submission_result *r)
{
	static const struct {
		unsigned bit;
		const char *text;
	} cheats[] = {
#define C(bit, NAME, text) {1u << bit, text},
		CHEATS(C)
#undef C
	};
	unsigned counts[VERDICT_COUNT] = {0};

	for (size_t i = 0; i < r->test_count; i++)
		counts[r->tests[i].verdict]++;
	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		if (v != VERDICT_PASSED && v != VERDICT_FAILED && counts[v])
			submission_result_note(r, "%s in %u test%s", verdict_name((enum verdict)v),
				counts[v], counts[v] > 1 ? "s" : "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(cheats); i++) {
		if (r->cheats & cheats[i].bit)
			submission_result_note(r, "%s", cheats[i].text);
	}
}

/* Nothing of a failure of ours counts; every test says so. */
static void make_infra(struct task *t, const struct error *why)
{
	forget_try(&t->result);
	t->result.status = SUBMISSION_INFRA;
	for (size_t i = 0; i < t->run->plan.test_count; i++) {
		struct test_result *test =
			submission_result_add(&t->result, t->run->plan.tests[i].id);

		if (test) {
			test->verdict = VERDICT_INFRA;
			test->max_points = t->run->plan.tests[i].points;
		}
	}
	submission_result_note(&t->result, "not graded: %s", why->message);
}

static int commit(struct task *t, struct error *err)
{
	struct run *run = t->run;
	const struct record_subject subject = {t->submission->student, t->submission->digest,
		run->image_reference, run->image->digest, run->spec.assignment};
	struct store_record record = {.student = t->submission->student,
		.digest = t->submission->digest,
		.status = submission_status_name(t->result.status)};
	char *body;
	int r;

	submission_result_sum(&t->result);
	if (t->result.status == SUBMISSION_GRADED)
		add_notes(&t->result);
	r = record_write(&subject, &t->result, &body, err);
	if (r)
		return r;
	record.body = body;
	r = store_job_commit(run->spec.store, run->id, t->claim, &record, err);
	if (r) {
		free(body);
		return r;
	}
	run_publish(run, body);
	return 0;
}

/* Many failures of ours in a row and nothing graded: it is the host, not the submissions. */
static void note_outcome(struct task *t, bool infra, const struct error *why)
{
	struct run *run = t->run;
	struct error fatal = {0};

	pthread_mutex_lock(&run->lock);
	run->any_graded |= !infra;
	run->failed_in_row = infra ? run->failed_in_row + 1 : 0;
	if (!run->any_graded && run->failed_in_row >= 3)
		error_set(&fatal, -EIO, "machines do not work here: %s", why->message);
	pthread_mutex_unlock(&run->lock);
	if (fatal.code)
		run_fail(run, &fatal);
}

static int work(struct task *t, struct error *err)
{
	struct error why = {0};
	int r = stage(t, &why);
	bool staged = r == 0;

	if (!r)
		r = try_machines(t, &why);
	unstage(t);
	if (r == -EINTR)
		return store_job_release(
			t->run->spec.store, t->run->id, t->claim, t->claim->alone, err);
	if (r)
		make_infra(t, &why);
	else if (must_repeat(t)) {
		pthread_mutex_lock(&t->run->lock);
		t->run->again++;
		pthread_mutex_unlock(&t->run->lock);
		return store_job_release(t->run->spec.store, t->run->id, t->claim, true, err);
	}
	if (staged)
		note_outcome(t, r != 0, &why);
	r = commit(t, err);
	if (!r) {
		pthread_mutex_lock(&t->run->lock);
		t->run->done++;
		pthread_mutex_unlock(&t->run->lock);
	}
	return r;
}

/* --- the loop --- */

static void begin(struct task *t)
{
	struct run *run = t->run;

	pthread_mutex_lock(&run->lock);
	t->alone = run->active++ == 0;
	t->starts = ++run->starts;
	pthread_mutex_unlock(&run->lock);
	run_signal(run);
}

static void end(struct task *t)
{
	struct run *run = t->run;

	pthread_mutex_lock(&run->lock);
	run->active--;
	run->ends++;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
	run_signal(run);
}

static int work_claim(struct run_worker *w, const struct store_claim *claim, struct error *err)
{
	struct task t = {.run = w->run,
		.worker = w,
		.claim = claim,
		.submission = intake_find(w->run->intake, claim->student),
		.dir_fd = -1};
	int r;

	if (!t.submission)
		return error_set(err, -EINVAL, "%s: has a job but no submission", claim->student);
	begin(&t);
	r = work(&t, err);
	end(&t);
	submission_result_fini(&t.result);
	return r;
}

static uint64_t count_ends(struct run *run)
{
	uint64_t ends;

	pthread_mutex_lock(&run->lock);
	ends = run->ends;
	pthread_mutex_unlock(&run->lock);
	return ends;
}

/* Until a job ends that had not when `seen` was read. */
static void wait_for_end(struct run *run, uint64_t seen)
{
	pthread_mutex_lock(&run->lock);
	while (!run->stopped && run->ends == seen)
		pthread_cond_wait(&run->changed, &run->lock);
	pthread_mutex_unlock(&run->lock);
}

void *run_worker_main(void *arg)
{
	struct run_worker *w = arg;
	struct run *run = w->run;

	while (!run_is_stopped(run)) {
		uint64_t seen = count_ends(run); /* before the store is asked */
		struct store_claim claim;
		struct error err = {0};
		int r = store_job_claim(run->spec.store, run->id, run->spec.only, &claim, &err);

		if (r == -ENOENT)
			break;
		if (r == -EAGAIN) {
			wait_for_end(run, seen);
			continue;
		}
		if (!r) {
			r = work_claim(w, &claim, &err);
			store_claim_fini(&claim);
		}
		if (r)
			run_fail(run, &err);
	}
	pthread_mutex_lock(&run->lock);
	run->live--;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
	run_signal(run);
	return NULL;
}
