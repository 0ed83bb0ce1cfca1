/* SPDX-License-Identifier: Apache-2.0 - a grading run: checks, queue, workers; see run.h. */
#include "grade/run_internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/eventfd.h>

#define RECORD_FORMAT "2" /* results of another format are not taken over */
#define IDS_SHOWN     5

/* --- what is asked for, against what there is --- */

static int check_engine(struct run *run, struct error *err)
{
	const struct assignment *a = run->spec.assignment;
	int want = assignment_isolation_rank(a->require_isolation), have;

	run->engine = engine_find(run->spec.engine, run->spec.home, err);
	if (!run->engine && err->code == -EINVAL)
		return err->code;
	/* That it cannot run is the host's fault and not the command line's, whatever it lacks. */
	if (!run->engine || run->engine->probe(run->spec.home, err)) {
		err->code = -ENODEV;
		return err->code;
	}
	have = assignment_isolation_rank(run->engine->isolation);
	if (have < want)
		return error_set(err, -EPERM,
			"engine %s isolates by %s and the assignment wants %s "
			"(require_isolation); choose another engine, or lower it in "
			"assignment.yaml",
			run->engine->name, run->engine->isolation, a->require_isolation);
	return 0;
}

static int check_runner(struct run *run, struct error *err)
{
	const struct assignment *a = run->spec.assignment;

	run->runner = runner_find(a->runner);
	if (!run->runner)
		return error_set(err, -EINVAL, "there is no runner %s", a->runner);
	if (run->runner->trust < a->min_trust)
		return error_set(err, -EPERM,
			"runner %s gives %s verdicts and the assignment wants %s (min_trust)",
			a->runner, trust_name(run->runner->trust), trust_name(a->min_trust));
	return 0;
}

static int check_image(struct run *run, struct error *err)
{
	int r = image_resolve(run->spec.home, run->spec.assignment->image, &run->image, err);

	if (r)
		return r;
	return text_format(run->image_reference, sizeof(run->image_reference), "%s@%s",
		run->image->name, run->image->version);
}

/* A pattern that names no test is a mistake in it, or in the tests. */
static int check_points(const struct run *run, struct error *err)
{
	const struct assignment *a = run->spec.assignment;
	char list[300] = "";

	for (size_t i = 0; i < run->plan.test_count && i < IDS_SHOWN; i++)
		text_format(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
			run->plan.tests[i].id);
	if (run->plan.test_count > IDS_SHOWN)
		text_format(list + strlen(list), sizeof(list) - strlen(list), " and %zu more",
			run->plan.test_count - IDS_SHOWN);
	for (size_t i = 0; i < a->point_count; i++) {
		const struct points_rule *rule = &a->points[i];
		bool used = false;

		for (size_t k = 0; k < run->plan.test_count && !used; k++)
			used = strcmp(rule->pattern, run->plan.tests[k].id) == 0 ||
			       fnmatch(rule->pattern, run->plan.tests[k].id, 0) == 0;
		if (!used)
			return error_set(err, -EINVAL,
				"%s/assignment.yaml:%u:%u: points: \"%s\" matches no test; there "
				"are %s",
				a->tests_path, rule->line, rule->column, rule->pattern, list);
	}
	return 0;
}

static int make_sandbox(void *context, struct sandbox **out, struct error *err)
{
	struct run *run = context;

	return run_make_sandbox(run, run->cpus[0], out, err);
}

static int find_tests(struct run *run, struct error *err)
{
	int r = run->runner->prepare(&run->plan, make_sandbox, run, err);

	if (!r && run->plan.test_count == 0)
		r = error_set(err, -ENOENT, "%s: holds no tests", run->spec.assignment->tests_path);
	return r ? r : check_points(run, err);
}

/* --- the queue --- */

static bool has_submission(void *context, const char *student)
{
	const struct intake *intake = context;

	return intake_find(intake, student) != NULL;
}

static int put_rejected(struct run *run, const struct submission *s, struct error *err)
{
	const struct record_subject subject = {s->student, s->digest, run->image_reference,
		run->image->digest, run->spec.assignment};
	struct submission_result result = {.status = SUBMISSION_REJECTED};
	struct store_record record = {.student = s->student,
		.digest = s->digest,
		.status = submission_status_name(SUBMISSION_REJECTED)};
	cleanup_free char *body = NULL;
	int r = submission_result_note(&result, "%s", s->reject);

	if (!r)
		r = record_write(&subject, &result, &body, err);
	record.body = body;
	if (!r)
		r = store_record_put(run->spec.store, run->id, &record, err);
	submission_result_fini(&result);
	return r;
}

static int fill_queue(struct run *run, struct error *err)
{
	const struct intake *intake = run->intake;
	int r = store_jobs_keep(run->spec.store, run->id, has_submission, run->intake, err);

	for (size_t i = 0; i < intake->count && !r; i++) {
		const struct submission *s = &intake->submissions[i];
		bool asked = !run->spec.only || strcmp(run->spec.only, s->student) == 0;
		bool kept = false;

		if (s->reject)
			r = put_rejected(run, s, err);
		else if (asked && run->spec.only && run->spec.fresh)
			r = store_job_renew(run->spec.store, run->id, s->student, s->digest, err);
		else
			r = store_job_put(
				run->spec.store, run->id, s->student, s->digest, &kept, err);
		run->total += asked;
		run->kept += asked && kept;
		run->done += asked && (kept || s->reject);
	}
	run->before = run->done;
	return r;
}

static int publish_kept(void *context, const struct store_record *record)
{
	struct run *run = context;
	char *body = strdup(record->body);

	if (!body)
		return -ENOMEM;
	run_publish(run, body);
	return 0;
}

static int open_run(struct run *run, struct error *err)
{
	const struct assignment *a = run->spec.assignment;
	const struct store_key key = {
		a->name, a->digest, run->image->digest, run->engine->name, RECORD_FORMAT};
	bool resumed, fresh = run->spec.fresh && !run->spec.only; /* the others keep theirs */
	int r = store_run_open(run->spec.store, &key, fresh, &run->id, &resumed, err);

	if (!r)
		r = store_run_started(run->spec.store, run->id, run->started, err);
	if (!r)
		r = fill_queue(run, err);
	if (!r)
		r = store_records_each(run->spec.store, run->id, publish_kept, run, err);
	return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
}

static int open_work(struct run *run, struct error *err)
{
	int r = path_remove_tree(AT_FDCWD, run->spec.work, err);

	if (r)
		return r;
	if (mkdir(run->spec.work, 0700))
		return error_sys(err, errno, "%s", run->spec.work);
	run->work_fd = open(run->spec.work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return run->work_fd < 0 ? error_sys(err, errno, "%s", run->spec.work) : 0;
}

/* --only of a name that is none */
static int nobody(const struct run *run, struct error *err)
{
	const struct intake *in = run->intake;
	cleanup_free const char **names = calloc(in->count + 1, sizeof(*names));
	const char *near;

	if (!names)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->count; i++)
		names[i] = in->submissions[i].student;
	near = text_nearest(run->spec.only, names);
	return error_set(err, -ENOENT, "there is no submission of %s%s%s%s", run->spec.only,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* The submissions, once the tests have said what a single file is called. */
static int open_intake(struct run *run, struct error *err)
{
	const struct assignment *a = run->spec.assignment;
	struct intake_wants wants = {.files = (const char *const *)a->files,
		.modules = (const char *const *)run->plan.modules};
	char module[256];
	const char *single = run->plan.single_file;
	int r;

	if (!single && a->modules[0] && !a->modules[1] && !strchr(a->modules[0], '.') &&
		text_format(module, sizeof(module), "%s.py", a->modules[0]) == 0)
		single = module;
	wants.single = single;
	r = intake_open(run->spec.submissions, &wants, &run->intake, err);
	if (!r && run->spec.only && !intake_find(run->intake, run->spec.only))
		r = nobody(run, err);
	return r;
}

/* A library that the image lacks looks like a module of the students'. */
static void note_module(const struct run *run, char *notice)
{
	const char *name =
		intake_module_of_nobody(run->intake, (const char *const *)run->plan.modules);
	size_t used = strlen(notice);

	if (name)
		text_format(notice + used, RUN_NOTICE_SIZE - used,
			"%sthe tests import %s, which no submission holds; if it is a library, "
			"image %s lacks it",
			used ? "; " : "", name, run->image_reference);
}

/* Only what the user can mend before anything costs time; then the tests, then the queue. */
static int set_up(struct run *run, char *notice, struct error *err)
{
	int r;

	run->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	run->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (run->stop_fd < 0 || run->event_fd < 0)
		return error_sys(err, errno, "cannot make an event");
	r = check_runner(run, err);
	r = r ? r : check_engine(run, err);
	r = r ? r : check_image(run, err);
	r = r ? r : run_shape(run, notice, err);
	r = r ? r : open_work(run, err);
	r = r ? r : find_tests(run, err);
	r = r ? r : open_intake(run, err);
	r = r ? r : run_shape(run, notice, err); /* now for these tests and submissions */
	if (!r)
		note_module(run, notice);
	return r ? r : open_run(run, err);
}

int run_new(const struct run_spec *spec, struct run **out, char *notice, struct error *err)
{
	struct run *run = calloc(1, sizeof(*run));
	int r;

	notice[0] = 0;
	if (!run)
		return error_set(err, -ENOMEM, "out of memory");
	run->spec = *spec;
	run->plan.assignment = spec->assignment;
	run->work_fd = run->stop_fd = run->event_fd = -1;
	run->last = &run->first;
	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->changed, NULL);
	r = set_up(run, notice, err);
	if (r) {
		run_free(run);
		return r;
	}
	*out = run;
	return 0;
}

/* --- workers --- */

int run_start(struct run *run, struct error *err)
{
	size_t left = run->total - run->before;
	unsigned wanted = run->jobs < left ? run->jobs : (unsigned)left;
	int r;

	run->workers = calloc(wanted ? wanted : 1, sizeof(*run->workers));
	if (!run->workers)
		return error_set(err, -ENOMEM, "out of memory");
	run->worker_count = wanted;
	for (unsigned i = 0; i < wanted; i++) {
		struct run_worker *w = &run->workers[i];

		w->run = run;
		w->index = i;
		pthread_mutex_lock(&run->lock);
		run->live++;
		pthread_mutex_unlock(&run->lock);
		r = pthread_create(&w->thread, NULL, run_worker_main, w);
		if (r) {
			pthread_mutex_lock(&run->lock);
			run->live--;
			pthread_mutex_unlock(&run->lock);
			run_stop(run);
			return error_sys(err, r, "cannot start a worker");
		}
		w->started = true;
	}
	run_signal(run);
	return 0;
}

int run_event_fd(const struct run *run)
{
	return run->event_fd;
}

char *run_next(struct run *run)
{
	struct run_item *item;
	uint64_t count;
	ssize_t ignored;
	char *body;

	pthread_mutex_lock(&run->lock);
	item = run->first;
	if (item) {
		run->first = item->next;
		if (!run->first)
			run->last = &run->first;
	} else {
		ignored = read(run->event_fd, &count, sizeof(count));
		(void)ignored;
	}
	pthread_mutex_unlock(&run->lock);
	if (!item)
		return NULL;
	body = item->body;
	free(item);
	return body;
}

bool run_is_over(struct run *run)
{
	bool over;

	pthread_mutex_lock(&run->lock);
	over = run->live == 0 && !run->first;
	pthread_mutex_unlock(&run->lock);
	return over;
}

int run_finish(struct run *run, struct error *err)
{
	for (unsigned i = 0; i < run->worker_count; i++) {
		if (run->workers[i].started)
			pthread_join(run->workers[i].thread, NULL);
		run->workers[i].started = false;
	}
	if (run->fatal.code && err)
		*err = run->fatal;
	return run->fatal.code;
}

void run_free(struct run *run)
{
	if (!run)
		return;
	if (run->workers) {
		run_stop(run);
		run_finish(run, NULL);
	}
	free(run->workers);
	if (run->runner && run->plan.tests)
		run->runner->finish(&run->plan);
	while (run->first) {
		struct run_item *item = run->first;

		run->first = item->next;
		free(item->body);
		free(item);
	}
	free(run->plan.single_file);
	intake_free(run->intake);
	image_free(run->image);
	if (run->work_fd >= 0)
		path_remove_tree(AT_FDCWD, run->spec.work, NULL);
	close_fd(&run->work_fd);
	close_fd(&run->stop_fd);
	close_fd(&run->event_fd);
	pthread_cond_destroy(&run->changed);
	pthread_mutex_destroy(&run->lock);
	free(run);
}

void run_status(struct run *run, struct run_status *out)
{
	pthread_mutex_lock(&run->lock);
	*out = (struct run_status){.total = run->total,
		.kept = run->kept,
		.before = run->before,
		.waiting = run->total - run->done,
		.running = run->active,
		.again = run->again,
		.jobs = run->jobs};
	pthread_mutex_unlock(&run->lock);
}

const struct intake *run_intake(const struct run *run)
{
	return run->intake;
}

int64_t run_id(const struct run *run)
{
	return run->id;
}

size_t run_test_count(const struct run *run)
{
	return run->plan.test_count;
}
