/* SPDX-License-Identifier: Apache-2.0 - measures sandboxes through sandbox.h: create, exec,
 * channel, memory. Prints one JSON object; bench.py makes the table. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREATES    30
#define EXECS      200
#define CHANNEL_MB 256

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

static int run_true(struct sandbox *s, uint64_t *own_us, struct error *err)
{
	static const char *const argv[] = {"/bin/true", NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	int r;

	spec.argv = argv;
	spec.cwd = "/";
	r = sandbox_exec(s, &spec, &result, err);
	if (!r && exec_result_status(&result) != 0)
		r = error_set(err, -EIO, "true did not succeed");
	if (own_us)
		*own_us = result.wall_us;
	exec_result_fini(&result);
	return r;
}

/* from nothing to the first command's result, and the boot's part of it */
static int bench_create(const struct sandbox_spec *spec, struct error *err)
{
	double total[CREATES], boot[CREATES], gone[CREATES];

	for (size_t i = 0; i < CREATES; i++) {
		int64_t from = clock_us();
		struct sandbox *s;
		int r = sandbox_create(spec, &s, err);

		if (!r)
			r = run_true(s, NULL, err);
		if (r)
			return r;
		total[i] = (double)(clock_us() - from) / 1000;
		boot[i] = (double)sandbox_info(s)->boot_us / 1000;
		from = clock_us();
		r = sandbox_stop(s, NULL, err);
		if (r)
			return r;
		gone[i] = (double)(clock_us() - from) / 1000;
		sandbox_free(s);
	}
	printf("\"create_ms\": %.1f, \"boot_ms\": %.1f, \"stop_ms\": %.1f, ",
		median(total, CREATES), median(boot, CREATES), median(gone, CREATES));
	return 0;
}

static int bench_exec(struct sandbox *s, struct error *err)
{
	double round[EXECS], beyond[EXECS];

	for (size_t i = 0; i < EXECS; i++) {
		int64_t from = clock_us();
		uint64_t own;
		int r = run_true(s, &own, err);

		if (r)
			return r;
		round[i] = (double)(clock_us() - from) / 1000;
		beyond[i] = round[i] - (double)own / 1000;
	}
	printf("\"exec_ms\": %.2f, \"exec_beyond_ms\": %.2f, ", median(round, EXECS),
		median(beyond, EXECS));
	return 0;
}

/* the channel alone: the agent takes the bytes into a file of the writable layer */
static int bench_channel(struct sandbox *s, struct error *err)
{
	size_t count = (size_t)CHANNEL_MB << 20;
	cleanup_free uint8_t *bytes = malloc(count);
	struct buffer back = {0};
	double in[3], out[3];
	int r = 0;

	if (!bytes)
		return -ENOMEM;
	memset(bytes, 'x', count);
	for (size_t i = 0; i < 3 && !r; i++) {
		int64_t from = clock_us();

		r = sandbox_write(s, "/tmp/bench", bytes, count, 0644, 0, err);
		in[i] = (double)count / (double)(clock_us() - from);
		from = clock_us();
		if (!r)
			r = sandbox_read(s, "/tmp/bench", count, 0, &back, err);
		out[i] = (double)count / (double)(clock_us() - from);
		if (!r && (buffer_length(&back) != count ||
				  memcmp(buffer_bytes(&back), bytes, count) != 0))
			r = error_set(err, -EIO, "the bytes came back changed");
		buffer_clear(&back);
		if (!r)
			r = sandbox_remove(s, "/tmp/bench", false, 0, err);
	}
	buffer_fini(&back);
	if (!r)
		printf("\"channel_in_mb_s\": %.0f, \"channel_out_mb_s\": %.0f, ", median(in, 3),
			median(out, 3));
	return r;
}

/* proportional set size of every process of ours, in MiB */
static double processes_mib(void)
{
	cleanup_dir DIR *dir = opendir("/proc");
	struct dirent *e;
	double kib = 0;

	while (dir && (e = readdir(dir))) {
		char path[64], line[256], name[64] = "";
		unsigned long pss;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/comm", e->d_name);
		cleanup_file FILE *comm = fopen(path, "re");
		if (!comm || !fgets(name, sizeof(name), comm))
			continue;
		if (!text_starts(name, "sealmark-monit") && !text_starts(name, "linux"))
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/smaps_rollup", e->d_name);
		cleanup_file FILE *maps = fopen(path, "re");
		while (maps && fgets(line, sizeof(line), maps)) {
			if (sscanf(line, "Pss: %lu kB", &pss) == 1)
				kib += (double)pss;
		}
	}
	return kib / 1024;
}

static int bench_memory(const struct sandbox_spec *spec, struct error *err)
{
	enum { MANY = 4 };
	struct sandbox *s[MANY] = {0};
	double before = processes_mib();
	int r = 0;

	for (size_t i = 0; i < MANY && !r; i++)
		r = sandbox_create(spec, &s[i], err);
	if (!r)
		printf("\"idle_mib\": %.1f", (processes_mib() - before) / MANY);
	for (size_t i = 0; i < MANY; i++)
		sandbox_free(s[i]);
	return r;
}

int main(int argc, char **argv)
{
	char home[512], image[PATH_MAX];
	struct sandbox_spec spec = {.engine = "uml", .cpu = -1, .image = image};
	struct error err = {0};
	struct sandbox *s = NULL;
	int r = path_home(home, sizeof(home), &err);

	if (!r)
		r = text_format(
			image, sizeof(image), "%s/images/default/latest/rootfs.erofs", home);
	printf("{");
	if (!r)
		r = bench_create(&spec, &err);
	if (!r)
		r = bench_memory(&spec, &err);
	printf(", ");
	spec.memory_mib = 1024;
	spec.disk_mib = 512;
	if (!r)
		r = sandbox_create(&spec, &s, &err);
	if (!r)
		r = bench_exec(s, &err);
	if (!r)
		r = bench_channel(s, &err);
	sandbox_free(s);
	printf("\"channel_file_mib\": %d}\n", CHANNEL_MB);
	if (r)
		fprintf(stderr, "bench_sandbox: %s\n", error_message(&err));
	return r ? 1 : 0;
}
