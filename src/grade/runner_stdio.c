/* SPDX-License-Identifier: Apache-2.0 - the runner stdio: input in, output out, compared here. */
#include "grade/runner.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "grade/cases.h"
#include "grade/classify.h"
#include "grade/compare.h"
#include "grade/language.h"

#include <errno.h>
#include <string.h>

/*
 * Theory of operation
 *
 * The machine sees the submission's files and the inputs, one at a time; answers and comparison
 * stay on the host (sealed). Compile once, then one exec for each case in the same machine, which
 * is not put back in between: what a program leaves on disk is its own business, except that a disk
 * found full is emptied again, so that one case never costs the next ones.
 */
#define WORKSPACE    "/workspace"
#define STUDENT_UID  1000u
#define LIST_MOST    10000u /* entries of one listing of a folder to be emptied ... */
#define LIST_ROUNDS  16u    /* ... and how many: a machine holds fewer files than both allow */
#define COMPILE_HEAD 1500u  /* bytes of the compiler's words in a detail */

struct job {
	const struct runner_plan *plan;
	const struct runner_submission *submission;
	struct sandbox *sandbox;
	int cancel_fd;
	struct program program;
	struct submission_result *result;
	struct error *err;
	bool ran; /* a program of the student's ran in this machine */
};

/* --- prepare and finish --- */

static void stdio_finish(struct runner_plan *plan)
{
	struct cases *cases = plan->state;

	for (size_t i = 0; i < plan->test_count; i++)
		free(plan->tests[i].id);
	free(plan->tests);
	plan->tests = NULL;
	plan->test_count = 0;
	if (cases)
		cases_fini(cases);
	free(cases);
	plan->state = NULL;
}

static int stdio_prepare(struct runner_plan *plan,
	int (*make_sandbox)(void *context, struct sandbox **out, struct error *err), void *context,
	struct error *err)
{
	const struct assignment *a = plan->assignment;
	struct cases *cases = calloc(1, sizeof(*cases));
	int r;

	if (!cases)
		return error_set(err, -ENOMEM, "out of memory");
	plan->state = cases;
	r = cases_load(a->tests_fd, a->tests_path, a->cases, cases, err);
	if (!r && !(plan->tests = calloc(cases->count, sizeof(*plan->tests))))
		r = error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !r && i < cases->count; i++) {
		plan->tests[i].id = strdup(cases->list[i].id);
		plan->tests[i].points = assignment_points(a, cases->list[i].id);
		plan->test_count++;
		if (!plan->tests[i].id)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	if (r)
		stdio_finish(plan);
	return r;
}

/* --- one exec --- */

static struct exec_spec make_spec(const struct job *job, char **argv, const struct limits *l)
{
	struct exec_spec spec = EXEC_SPEC_INIT;

	spec.argv = (const char *const *)argv;
	spec.cwd = WORKSPACE;
	spec.uid = spec.gid = STUDENT_UID;
	spec.flags = WIRE_EXEC_OUTPUT_KILL;
	spec.cpu_ms = l->cpu_ms;
	spec.wall_ms = l->wall_ms;
	spec.memory_bytes = l->memory_bytes;
	spec.output_bytes = l->output_bytes;
	spec.file_bytes = l->file_bytes;
	spec.processes = l->processes;
	spec.cancel_fd = job->cancel_fd;
	return spec;
}

/* An error that a program can bring about by what it does to its files. */
static bool is_of_files(int r)
{
	static const int codes[] = {ENOENT, EACCES, EPERM, ENOEXEC, ENOTDIR, EISDIR, ELOOP, EEXIST,
		ENOTEMPTY, ENOSPC, EDQUOT, EMLINK, ENAMETOOLONG, ETXTBSY};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (r == -codes[i])
			return true;
	}
	return false;
}

/*
 * True when it is the student's doing that the guest could not start the program: it should have
 * been the submission itself (or what was compiled from it), or a program of the student's ran in
 * the machine before, and may have closed the folder. What the image lacks is not.
 */
static bool is_start_failure(const struct job *job, int r)
{
	return (is_of_files(r) || r == -ENOMEM) && (job->ran || strchr(job->program.run[0], '/'));
}

/* The machine is gone: say whether the program in it may have done that. */
static int machine_gone(struct job *job, struct test_result *t)
{
	const struct sandbox_end *end = sandbox_end(job->sandbox);
	struct buffer detail = {0};

	if (end && (end->reason == SANDBOX_STOPPED_GUEST_ENDED ||
			   end->reason == SANDBOX_STOPPED_GUEST_FAULT)) {
		job->result->student_ran = true;
		t->verdict = VERDICT_ENDED_EARLY;
		buffer_add_text(&detail, "the machine ended while it ran: ");
		text_add_safe(&detail, end->detail, strlen(end->detail), false);
		free(t->detail);
		t->detail = buffer_steal(&detail);
	}
	return -ENODEV;
}

static void take_usage(struct test_result *t, const struct exec_result *run)
{
	t->cpu_ms = classify_cpu_ms(run);
	t->wall_ms = (int64_t)(run->wall_us / 1000);
	t->memory_peak_bytes = run->memory_peak_bytes;
	output_kept_add(&t->out, buffer_bytes(&run->out), buffer_length(&run->out));
	output_kept_add(&t->err, buffer_bytes(&run->err), buffer_length(&run->err));
	/* more may have been produced than was carried */
	if (run->stdout_bytes > t->out.total_bytes)
		t->out.total_bytes = run->stdout_bytes;
	if (run->stderr_bytes > t->err.total_bytes)
		t->err.total_bytes = run->stderr_bytes;
	t->out.cut |= (run->flags & WIRE_EXIT_STDOUT_CUT) != 0;
	t->err.cut |= (run->flags & WIRE_EXIT_STDERR_CUT) != 0;
}

/* --- compiling --- */

/* the compiler's words, stderr first */
static void add_compiler_output(struct buffer *detail, const struct exec_result *run)
{
	const struct buffer *from = buffer_length(&run->err) ? &run->err : &run->out;
	size_t n = buffer_length(from);

	buffer_add_text(detail, "\n");
	text_add_safe(detail, buffer_bytes(from), n < COMPILE_HEAD ? n : COMPILE_HEAD, true);
	if (n > COMPILE_HEAD)
		buffer_add_text(detail, "…");
}

/* every test has the verdict of the compilation */
static int give_all(struct job *job, enum verdict verdict, const char *detail)
{
	for (size_t i = 0; i < job->result->test_count; i++) {
		struct test_result *t = &job->result->tests[i];

		t->verdict = verdict;
		t->points = 0;
		free(t->detail);
		t->detail = strdup(detail);
		if (!t->detail)
			return error_set(job->err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int refuse_program(
	struct job *job, enum verdict verdict, struct buffer *detail, const struct exec_result *run)
{
	struct buffer whole = {0};
	int r = -ENOMEM;

	buffer_add_text(&whole, "does not compile");
	if (verdict != VERDICT_ERROR) /* more than what the compiler says itself */
		buffer_printf(&whole, ": %s", buffer_text(detail) ? buffer_text(detail) : "?");
	add_compiler_output(&whole, run);
	if (buffer_text(&whole))
		r = give_all(job, verdict, buffer_text(&whole));
	buffer_fini(&whole);
	return r ? r : submission_result_note(job->result, "does not compile");
}

/* run; -EBUSY when the host had so little time that the result means nothing */
static int exec_fairly(struct job *job, const struct exec_spec *spec, const struct limits *limits,
	struct exec_result *run, struct error *err)
{
	int r = sandbox_exec(job->sandbox, spec, run, err);

	if (!r && classify_was_starved(run, limits))
		r = error_set(err, -EBUSY,
			"the host is too busy: a program that never waited got %llu ms of CPU time "
			"in %llu ms",
			(unsigned long long)(run->cpu_us / 1000),
			(unsigned long long)(run->wall_us / 1000));
	return r;
}

/* 0 and *ready when the program can be run */
static int compile(struct job *job, bool *ready)
{
	const struct limits *limits = &job->plan->assignment->compile_limits;
	const struct limits kill = classify_kill_limits(limits, job->plan->sharing);
	struct exec_spec spec = make_spec(job, job->program.compile, &kill);
	struct exec_result run = {0};
	struct buffer detail = {0};
	enum verdict verdict;
	int r;

	*ready = true;
	if (!job->program.compile)
		return 0;
	r = exec_fairly(job, &spec, limits, &run, job->err);
	if (r == -ENODEV) {
		r = machine_gone(job, &job->result->tests[0]);
	} else if (!r) {
		/* compilers take no notice of how near a limit they are: only its kill counts */
		verdict = classify_run(&run, &kill,
			run.reason == WIRE_END_EXITED && run.status == 0, false, &detail);
		*ready = verdict == VERDICT_PASSED;
		if (!*ready)
			r = refuse_program(job, verdict, &detail, &run);
	}
	buffer_fini(&detail);
	exec_result_fini(&run);
	return r;
}

/* --- the workspace --- */

static int fill_workspace(struct job *job)
{
	return sandbox_put_tree(job->sandbox, WORKSPACE, job->submission->dir_fd, STUDENT_UID,
		STUDENT_UID, UINT64_MAX, job->err);
}

/* Remove what is in a folder that everybody may write to. */
static void empty_folder(struct sandbox *s, const char *path)
{
	char below[WIRE_PATH_MAX];
	size_t count = LIST_MOST;

	/* a program can make more files than one listing holds */
	for (unsigned round = 0; round < LIST_ROUNDS && count == LIST_MOST; round++) {
		struct sandbox_entry *entries = NULL;

		if (sandbox_list(s, path, 1, LIST_MOST, 0, &entries, &count, NULL))
			return;
		for (size_t i = 0; i < count; i++) {
			if (!text_format(below, sizeof(below), "%s/%s", path, entries[i].path))
				sandbox_remove(s, below, true, 0, NULL);
		}
		sandbox_entries_free(entries, count);
	}
}

/*
 * After a case that filled the disk: room again, and the submission as it was. A workspace that
 * cannot be made anew by what the program did to it shows itself in the next case.
 */
static int renew_workspace(struct job *job)
{
	static const char *const folders[] = {WORKSPACE, "/tmp", "/var/tmp", "/dev/shm"};
	bool ready;
	int r;

	sandbox_chmod(job->sandbox, WORKSPACE, 0755, 0, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		empty_folder(job->sandbox, folders[i]);
	r = fill_workspace(job);
	if (is_of_files(r) && r != -ENOENT) /* a copy of ours that is gone is ours */
		return 0;
	return r ? r : compile(job, &ready);
}

/* --- running the cases --- */

static void judge(struct job *job, const struct test_case *c, const struct exec_result *run,
	struct test_result *t)
{
	const struct assignment *a = job->plan->assignment;
	struct buffer difference = {0}, detail = {0};
	bool right =
		compare_output(&a->compare, buffer_bytes(&c->expected), buffer_length(&c->expected),
			buffer_bytes(&run->out), buffer_length(&run->out), &difference);

	take_usage(t, run);
	hash_bytes(buffer_bytes(&run->out), buffer_length(&run->out), t->answer_digest);
	t->verdict =
		classify_run(run, &a->limits, right, buffer_length(&c->expected) != 0, &detail);
	if (t->verdict == VERDICT_PASSED)
		t->points = t->max_points;
	if (t->verdict == VERDICT_FAILED)
		t->detail = buffer_steal(&difference);
	else if (buffer_length(&detail))
		t->detail = buffer_steal(&detail);
	buffer_fini(&difference);
	buffer_fini(&detail);
}

static int start_failed(struct test_result *t, int r, const char *message)
{
	t->verdict = r == -ENOMEM ? VERDICT_MEMORY_LIMIT : VERDICT_ERROR;
	if (asprintf(&t->detail, "cannot be started: %s", message) < 0) {
		t->detail = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int run_case(struct job *job, const struct test_case *c, struct test_result *t)
{
	const struct limits kill = runner_kill(job->plan);
	struct exec_spec spec = make_spec(job, job->program.run, &kill);
	struct exec_result run = {0};
	struct error why = {0};
	int r;

	/* an empty input is an input that ends at once, not /dev/null */
	spec.stdin_bytes = buffer_length(&c->input) ? buffer_bytes(&c->input) : (const void *)"";
	spec.stdin_count = buffer_length(&c->input);
	r = exec_fairly(job, &spec, &job->plan->assignment->limits, &run, &why);
	job->ran |= r == 0;
	if (!r)
		judge(job, c, &run, t);
	else if (r == -ENODEV)
		r = machine_gone(job, t);
	else if (is_start_failure(job, r))
		r = start_failed(t, r, why.message);
	if (r)
		error_set(job->err, r, "case %s: %s", c->id, why.message);
	else if (run.flags & WIRE_EXIT_DISK_FULL)
		r = renew_workspace(job);
	exec_result_fini(&run);
	return r;
}

static int run_cases(struct job *job)
{
	const struct cases *cases = job->plan->state;
	bool ready;
	int r = fill_workspace(job);

	if (!r)
		r = compile(job, &ready);
	if (r || !ready)
		return r;
	for (size_t i = 0; i < cases->count && !r; i++)
		r = run_case(job, &cases->list[i], &job->result->tests[i]);
	return r;
}

static int stdio_run(const struct runner_plan *plan, const struct runner_submission *submission,
	struct sandbox *sandbox, int cancel_fd, struct submission_result *result, struct error *err)
{
	struct job job = {.plan = plan,
		.submission = submission,
		.sandbox = sandbox,
		.cancel_fd = cancel_fd,
		.result = result,
		.err = err};
	struct error why = {0};
	int r = runner_add_tests(plan, result);

	if (r)
		return error_set(err, r, "out of memory");
	r = program_find(
		plan->assignment, submission->dir_fd, submission->files, &job.program, &why);
	if (r == -EINVAL) {
		result->status = SUBMISSION_REJECTED;
		return submission_result_note(result, "%s", why.message);
	}
	if (r)
		return error_set(err, r, "%s", why.message);
	r = run_cases(&job);
	program_fini(&job.program);
	if (!r)
		submission_result_sum(result);
	return r;
}

const struct runner runner_stdio = {
	.name = "stdio",
	.trust = TRUST_SEALED,
	.prepare = stdio_prepare,
	.run = stdio_run,
	.finish = stdio_finish,
};
