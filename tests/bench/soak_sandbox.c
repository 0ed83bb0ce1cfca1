/* SPDX-License-Identifier: Apache-2.0 - many sandboxes one after the other in one process; prints
 * how its memory grew. tests/vm/test_leftovers.py looks for what else stays. */
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 20 /* the first ones fill caches of libraries */

static long resident_kib(void)
{
	char line[256];
	long kib = -1;
	cleanup_file FILE *status = fopen("/proc/self/status", "re");

	while (status && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
			break;
	}
	return kib;
}

static int one(const struct sandbox_spec *spec, struct error *err)
{
	static const char *const argv[] = {"/bin/echo", "here", NULL};
	struct exec_spec exec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	struct sandbox *s;
	int r = sandbox_create(spec, &s, err);

	if (r)
		return r;
	exec.argv = argv;
	exec.wall_ms = 20000;
	r = sandbox_exec(s, &exec, &result, err);
	if (!r && (buffer_length(&result.out) != 5 ||
			  memcmp(buffer_bytes(&result.out), "here\n", 5) != 0))
		r = error_set(err, -5, "the command said something else");
	exec_result_fini(&result);
	if (!r)
		r = sandbox_stop(s, NULL, err);
	sandbox_free(s);
	return r;
}

int main(int argc, char **argv)
{
	char home[512], image[PATH_MAX];
	struct sandbox_spec spec = {.engine = "uml", .cpu = -1, .image = image};
	struct error err = {0};
	uint32_t count = 0;
	long before = 0;
	int r;

	if (argc != 2 || text_u32(argv[1], &count)) {
		fprintf(stderr, "usage: soak_sandbox COUNT\n");
		return 2;
	}
	r = path_home(home, sizeof(home), &err);
	if (!r)
		r = text_format(
			image, sizeof(image), "%s/images/default/latest/rootfs.erofs", home);
	for (uint32_t i = 0; i < count && !r; i++) {
		if (i == WARM_UP)
			before = resident_kib();
		r = one(&spec, &err);
		if (r)
			fprintf(stderr, "sandbox %u: %s\n", i, error_message(&err));
	}
	printf("{\"count\": %u, \"resident_kib\": %ld, \"growth_kib\": %ld}\n", count,
		resident_kib(), resident_kib() - before);
	return r ? 1 : 0;
}
