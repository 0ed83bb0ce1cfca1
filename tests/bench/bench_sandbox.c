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

static int run_command(
	struct sandbox *s, const char *const argv[], struct buffer *out, struct error *err)
{
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	int r;

	spec.argv = argv;
	spec.cwd = "/tmp";
	r = sandbox_exec(s, &spec, &result, err);
	if (!r && exec_result_status(&result) != 0)
		r = error_set(err, -EIO, "%s did not succeed", argv[0]);
	if (!r && out)
		buffer_add(out, buffer_bytes(&result.out), buffer_length(&result.out));
	exec_result_fini(&result);
	return r;
}

static int run_true(struct sandbox *s, struct error *err)
{
	static const char *const argv[] = {"/bin/true", NULL};

	return run_command(s, argv, NULL, err);
}

/* The program's own time: what the guest itself needs to start it and to wait for it. */
static const char spawner[] =
	"#include <spawn.h>\n#include <stdio.h>\n#include <sys/wait.h>\n#include <time.h>\n"
	"extern char **environ;\n"
	"int main(void)\n{\n\tchar *argv[] = {\"true\", 0};\n\tstruct timespec a, b;\n"
	"\tfor (int i = 0; i < 200; i++) {\n\t\tpid_t pid;\n"
	"\t\tclock_gettime(CLOCK_MONOTONIC, &a);\n"
	"\t\tif (posix_spawn(&pid, \"/bin/true\", 0, 0, argv, environ))\n\t\t\treturn 1;\n"
	"\t\twaitpid(pid, 0, 0);\n\t\tclock_gettime(CLOCK_MONOTONIC, &b);\n"
	"\t\tprintf(\"%.4f\\n\", (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6);\n"
	"\t}\n\treturn 0;\n}\n";

/* from nothing to the first command's result, and the boot's part of it */
static int bench_create(const struct sandbox_spec *spec, struct error *err)
{
	double total[CREATES], boot[CREATES], gone[CREATES];

	for (size_t i = 0; i < CREATES; i++) {
		int64_t from = clock_us();
		struct sandbox *s;
		int r = sandbox_create(spec, &s, err);

		if (!r)
			r = run_true(s, err);
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

static int own_time(struct sandbox *s, double *out_ms, struct error *err)
{
	static const char *const build[] = {
		"/usr/bin/gcc", "-O2", "-o", "/tmp/spawner", "/tmp/spawner.c", NULL};
	static const char *const spawn[] = {"/tmp/spawner", NULL};
	double values[EXECS];
	struct buffer out = {0};
	size_t count = 0;
	char *line;
	int r;

	r = sandbox_write(s, "/tmp/spawner.c", spawner, strlen(spawner), 0644, 1000, err);
	if (!r)
		r = run_command(s, build, NULL, err);
	if (!r)
		r = run_command(s, spawn, &out, err);
	for (line = buffer_text(&out); !r && line && *line && count < EXECS; count++) {
		values[count] = strtod(line, &line);
		line += *line == '\n';
	}
	buffer_fini(&out);
	if (!r && count != EXECS)
		r = error_set(err, -EIO, "the guest's own times are not whole");
	if (!r)
		*out_ms = median(values, EXECS);
	return r;
}

static int bench_exec(struct sandbox *s, struct error *err)
{
	double round[EXECS], own = 0;
	int r = own_time(s, &own, err);

	for (size_t i = 0; i < EXECS && !r; i++) {
		int64_t from = clock_us();

		r = run_true(s, err);
		round[i] = (double)(clock_us() - from) / 1000;
	}
	if (!r)
		printf("\"exec_ms\": %.2f, \"exec_own_ms\": %.2f, \"exec_beyond_ms\": %.2f, ",
			median(round, EXECS), own, median(round, EXECS) - own);
	return r;
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
