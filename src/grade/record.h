/* SPDX-License-Identifier: Apache-2.0 - the record of one submission's grade, as JSON. */
#ifndef SEALMARK_GRADE_RECORD_H
#define SEALMARK_GRADE_RECORD_H

#include "base/error.h"
#include "grade/assignment.h"
#include "grade/verdict.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a record says beside the result. */
struct record_subject {
	const char *student;
	const char *submission_digest;
	const char *image; /* "default@2026.11" */
	const char *image_digest;
	const struct assignment *assignment;
};

/*
 * One JSON object on one line; the caller frees it. Everything of a student's is UTF-8 without
 * control characters but for line breaks and tabs in details; output that is not UTF-8 is base64.
 * Scores have at most four decimals and are null where nothing was graded.
 */
int record_write(const struct record_subject *subject, const struct submission_result *result,
	char **out, struct error *err);

/* Limits as an object; NULL on ENOMEM. */
json_t *record_limits(const struct limits *limits);

/* What tables need of a record. Fields own their text. */
struct record_summary {
	char *student, *note;
	char *trust, *isolation; /* "" when nothing was graded */
	enum submission_status status;
	bool has_score;
	double score, max_score;
	unsigned verdicts[VERDICT_COUNT];
	char *marks; /* a letter for each test, see record_mark() */
};
int record_read(const char *body, struct record_summary *out, struct error *err);
/* That of a submission without a record yet. */
int record_pending(const char *student, const char *note, struct record_summary *out);
void record_summary_fini(struct record_summary *s);

/* '.' passed, 'F' failed, 'E' error, 'C' cpu_limit, 'W' wall_limit, 'M' memory_limit, … */
char record_mark(enum verdict v);

/* "12", "7.5", "0.3333": at most four decimals, none for nothing; out has RECORD_SCORE_SIZE bytes.
 */
#define RECORD_SCORE_SIZE 40
const char *record_score(double score, char *out);

#endif
