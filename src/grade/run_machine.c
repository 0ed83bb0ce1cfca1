/* SPDX-License-Identifier: Apache-2.0 - the machines of a run: their shape, and how many at once.
 */
#include "grade/run_internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "grade/classify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB               (UINT64_C(1) << 20)
#define HOST_OVERHEAD_MIB 32u    /* a machine's monitor and the engine's own memory */
#define SPARE_DISK_MIB    16u    /* for what compilers and interpreters leave */
#define FILES_MOST        10000u /* that a program may make, beside what was handed in */
#define LEASE_SLACK_MS    120000
#define LEASE_MOST_MS     (24 * INT64_C(3600000))
#define START_TIMEOUT_MS  60000 /* many machines may start at once */
#define JOBS_PER_CPU      16u

static uint64_t to_mib(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB;
}

/* the most bytes and the most files that one submission has */
static void largest_submission(const struct intake *intake, uint64_t *bytes, uint32_t *files)
{
	*bytes = 0;
	*files = 0;
	for (size_t i = 0; intake && i < intake->count; i++) {
		const struct tree *t = &intake->submissions[i].tree;

		if (t->bytes > *bytes)
			*bytes = t->bytes;
		if (t->count > *files)
			*files = (uint32_t)t->count;
	}
}

/* MemAvailable in MiB; 0 when the kernel does not say */
static uint64_t available_mib(void)
{
	struct buffer b = {0};
	const char *at;
	uint64_t kib = 0;

	if (path_read("/proc/meminfo", 65536, &b, NULL) == 0 && buffer_text(&b) &&
		(at = strstr(buffer_text(&b), "MemAvailable:")) &&
		sscanf(at, "MemAvailable: %" SCNu64, &kib) != 1)
		kib = 0;
	buffer_fini(&b);
	return kib / 1024;
}

static int find_cpus(struct run *run, struct error *err)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return error_sys(err, errno, "cannot tell which CPUs may be used");
	for (unsigned i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set))
			run->cpus[run->cpu_count++] = (int)i;
	}
	return 0;
}

/* Never promise more memory than there is: fewer workers, or none at all. */
static int fit_memory(struct run *run, char *notice, struct error *err)
{
	uint64_t have = available_mib(), each = run->memory_mib + HOST_OVERHEAD_MIB;

	if (!have || have >= each * run->jobs)
		return 0;
	if (have < each)
		return error_set(err, -ENOMEM,
			"a machine for this assignment takes %" PRIu64 " MiB and %" PRIu64
			" MiB are free; lower limits.memory or limits.disk in "
			"assignment.yaml, or free memory",
			each, have);
	text_format(notice, RUN_NOTICE_SIZE,
		"%u at once instead of %u: each takes %" PRIu64 " MiB and %" PRIu64 " MiB are free",
		(unsigned)(have / each), run->jobs, each, have);
	run->jobs = (unsigned)(have / each);
	return 0;
}

static void find_lease(struct run *run)
{
	const struct assignment *a = run->spec.assignment;
	const struct limits each = classify_kill_limits(&a->limits, run->plan.sharing);
	const struct limits compile = classify_kill_limits(&a->compile_limits, run->plan.sharing);
	int64_t tests = (int64_t)run->plan.test_count;

	/* after each test that fills the disk a program is compiled again; a lease that ran out
	 * would be taken for a failure of ours */
	if (__builtin_mul_overflow(each.wall_ms + compile.wall_ms, tests + 1, &run->lease_ms) ||
		run->lease_ms > LEASE_MOST_MS - LEASE_SLACK_MS)
		run->lease_ms = LEASE_MOST_MS - LEASE_SLACK_MS;
	run->lease_ms += LEASE_SLACK_MS;
}

int run_shape(struct run *run, char *notice, struct error *err)
{
	const struct assignment *a = run->spec.assignment;
	uint64_t memory = a->limits.memory_bytes;
	uint64_t largest, disk;
	uint32_t files;
	int r = run->cpu_count ? 0 : find_cpus(run, err);

	if (r)
		return r;
	largest_submission(run->intake, &largest, &files);
	disk = to_mib(a->limits.disk_bytes) + to_mib(largest) + SPARE_DISK_MIB;
	run->files_most = FILES_MOST + files;
	if (strcmp(a->runner, "stdio") == 0 && a->compile_limits.memory_bytes > memory)
		memory = a->compile_limits.memory_bytes;
	memory = to_mib(memory) + disk + RUN_MACHINE_MIB;
	if (memory > 65536)
		return error_set(err, -ERANGE,
			"limits.memory and limits.disk make a machine of %" PRIu64
			" MiB; at most 65536 MiB are possible",
			memory);
	run->memory_mib = (uint32_t)memory;
	run->disk_mib = (uint32_t)disk;
	run->jobs = run->spec.jobs ? run->spec.jobs : run->cpu_count;
	if (run->jobs > RUN_JOBS_MAX || run->jobs > run->cpu_count * JOBS_PER_CPU)
		return error_set(err, -EINVAL,
			"%u at once is too much for %u CPUs; at most %u are allowed", run->jobs,
			run->cpu_count, run->cpu_count * JOBS_PER_CPU);
	r = fit_memory(run, notice, err);
	if (r)
		return r;
	run->plan.sharing = (run->jobs + run->cpu_count - 1) / run->cpu_count;
	find_lease(run);
	return 0;
}

int run_make_sandbox(struct run *run, int cpu, struct sandbox **out, struct error *err)
{
	const struct sandbox_spec spec = {
		.home = run->spec.home,
		.engine = run->engine->name,
		.image = run->image->rootfs,
		.script = run->spec.script,
		.memory_mib = run->memory_mib,
		.disk_mib = run->disk_mib,
		.files_most = run->files_most,
		.lease_ms = run->lease_ms,
		.start_timeout_ms = START_TIMEOUT_MS,
		.cpu = cpu,
		.require_isolation = run->spec.assignment->require_isolation,
	};

	return sandbox_create(&spec, out, err);
}
