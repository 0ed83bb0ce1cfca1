/* SPDX-License-Identifier: Apache-2.0 - run.json: what was run, with what, on what. */
#include "grade/run_internal.h"

#include "base/buffer.h"
#include "base/path.h"
#include "base/text.h"
#include "grade/compare.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* the processor's name as /proc/cpuinfo has it, or "" */
static void cpu_model(char *out, size_t size)
{
	struct buffer b = {0};
	const char *at;

	out[0] = 0;
	if (path_read("/proc/cpuinfo", 1 << 20, &b, NULL) == 0 && buffer_text(&b) &&
		(at = strstr(buffer_text(&b), "model name"))) {
		at += strcspn(at, ":\n");
		at += strspn(at, ": \t");
		text_format(out, size, "%.*s", (int)strcspn(at, "\n"), at);
	}
	buffer_fini(&b);
}

static json_t *host_json(const struct run *run)
{
	struct utsname u;
	char model[128];
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	cpu_model(model, sizeof(model));
	uname(&u);
	return json_pack("{s:s, s:s, s:s, s:i, s:I}", "kernel", u.release, "machine", u.machine,
		"cpu", text_is_utf8(model, strlen(model)) ? model : "", "cpus", (int)run->cpu_count,
		"memory_bytes", (json_int_t)pages * page);
}

static json_t *verdicts_json(const struct run_counts *counts)
{
	json_t *j = json_object();

	for (unsigned v = 0; j && v < VERDICT_COUNT; v++)
		json_object_set_new(
			j, verdict_name((enum verdict)v), json_integer(counts->verdicts[v]));
	return j;
}

/* text of the teacher's, which may hold any bytes */
static json_t *safe_text(const char *text)
{
	struct buffer b = {0};
	json_t *j = NULL;

	if (text_add_safe(&b, text, strlen(text), false) == 0 && buffer_text(&b))
		j = json_string(buffer_text(&b));
	buffer_fini(&b);
	return j;
}

/* what was not taken for a submission or a part of one */
static json_t *passed_over_json(const struct intake *in)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < in->litter_kept; i++) {
		if (json_array_append_new(
			    list, json_pack("{s:o, s:s}", "path", safe_text(in->litter[i].path),
					  "why", in->litter[i].why))) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:I, s:o}", "total", (json_int_t)in->litter_count, "paths", list);
}

int run_describe(struct run *run, const struct run_counts *counts, char **out, struct error *err)
{
	const struct assignment *a = run->spec.assignment;
	char now[CLOCK_STAMP_SIZE];
	struct run_status status;
	json_t *j, *rest;

	clock_stamp(now);
	run_status(run, &status);
	j = json_pack("{s:s, s:{s:o, s:s, s:o, s:s, s:i, s:s}, s:s, s:s, s:s, s:{s:s, s:s}}",
		"sealmark", SEALMARK_VERSION, "assignment", "name", safe_text(a->name), "runner",
		a->runner, "runner_why", safe_text(a->runner_why), "tests_digest", a->digest,
		"tests", (int)run->plan.test_count, "compare",
		strcmp(a->runner, "stdio") ? "" : compare_name(a->compare.rule), "trust",
		trust_name(run->runner->trust), "engine", run->engine->name, "require_isolation",
		a->require_isolation, "image", "name", run->image_reference, "digest",
		run->image->digest);
	rest = json_pack("{s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I}, s:o, s:o, s:i, s:o, s:s, s:s, "
			 "s:b}",
		"limits", record_limits(&a->limits), "compile_limits",
		record_limits(&a->compile_limits), "submissions", "total",
		(json_int_t)run->intake->count, "graded", (json_int_t)counts->graded, "rejected",
		(json_int_t)counts->rejected, "infra", (json_int_t)counts->infra, "waiting",
		(json_int_t)counts->pending, "passed_over", passed_over_json(run->intake),
		"verdicts", verdicts_json(counts), "jobs", (int)status.jobs, "host", host_json(run),
		"started", run->started, "written", now, "complete", counts->pending == 0);
	*out = NULL;
	if (j && rest && json_object_update(j, rest) == 0)
		*out = json_dumps(j, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	json_decref(j);
	json_decref(rest);
	return *out ? 0 : error_set(err, -ENOMEM, "out of memory");
}
