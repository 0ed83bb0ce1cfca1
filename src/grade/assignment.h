/* SPDX-License-Identifier: Apache-2.0 - an assignment: what assignment.yaml says, or what the
 * folder of tests shows. See sealmark-assignment(5). */
#ifndef SEALMARK_GRADE_ASSIGNMENT_H
#define SEALMARK_GRADE_ASSIGNMENT_H

#include "base/buffer.h"
#include "base/error.h"
#include "grade/verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum compare_rule { COMPARE_EXACT, COMPARE_LINES, COMPARE_TOKENS, COMPARE_FLOAT };

struct compare {
	enum compare_rule rule;
	double absolute, relative; /* float: equal when within either; defaults 1e-9, 1e-9 */
	bool nan_equal;            /* float: NaN equals NaN */
};

/* Limits of one test (stdio: one run of the program; suite: one test). 0 is not "none": defaults
 * are filled in by assignment_load(). */
struct limits {
	int64_t cpu_ms;        /* default 10 s */
	int64_t wall_ms;       /* default 3 * cpu + 5 s */
	uint64_t memory_bytes; /* default 256 MiB */
	uint32_t processes;    /* default 64 */
	uint64_t output_bytes; /* default 1 MiB, of stdout and stderr each */
	uint64_t disk_bytes;   /* default 64 MiB: the machine's writable layer */
	uint64_t file_bytes;   /* largest file, default disk_bytes */
};

struct points_rule {
	char *pattern; /* test id or fnmatch(3) pattern */
	double points;
	unsigned line, column; /* in assignment.yaml */
};

struct assignment {
	char *name;       /* default: base name of the tests folder */
	char *tests_path; /* absolute path of TESTS */
	int tests_fd;     /* open directory */
	char *runner;     /* "stdio" or "suite" */
	char *runner_why; /* what made it that, for the user */
	char *image;      /* image reference, default "default" */
	char **files; /* wanted files (submission must hold each); NULL-terminated, may be empty */
	struct limits limits;
	struct points_rule *points;
	size_t point_count;
	double default_points;   /* of a test no rule names; 1 */
	enum trust min_trust;    /* default TRUST_OPEN: nothing refused */
	char *require_isolation; /* default "kernel" */

	/* stdio */
	struct compare compare;
	char **compile; /* argv, NULL: by file names */
	char **run;     /* argv, NULL: by file names */
	char *cases;    /* folder of cases below TESTS; "." */
	struct limits compile_limits;

	/* suite */
	char *framework; /* "unittest", "pytest"; NULL: by what the tests import */
	char **modules; /* student modules for which a stand-in is given; NULL-terminated; empty: by
			 * what the tests import and TESTS does not hold and Python does not know */
	char *digest;   /* SHA-256 over all files of TESTS */
};

/* Load TESTS (a directory). Errors name file, line, column and what would be right. */
int assignment_load(const char *tests_path, struct assignment **out, struct error *err);

/* The keys of assignment.yaml as a table, for the manual page and its test: per line the key, what
 * it takes, its default, what it says; separated by tabs. 0 or the buffer's error. */
int assignment_describe_keys(struct buffer *out);

/* How strong an isolation is: none 0, process 1, kernel 2, hardware 3; -EINVAL for other words. */
int assignment_isolation_rank(const char *name);

void assignment_free(struct assignment *a);
/* Points for a test id by the rules: the last rule that matches, else default_points. */
double assignment_points(const struct assignment *a, const char *test_id);

#endif
