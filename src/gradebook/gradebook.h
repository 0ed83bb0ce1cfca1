/* SPDX-License-Identifier: Apache-2.0 - scores out: gradebook.csv, results.jsonl, run.json. */
#ifndef SEALMARK_GRADEBOOK_GRADEBOOK_H
#define SEALMARK_GRADEBOOK_GRADEBOOK_H

#include "base/buffer.h"
#include "base/error.h"
#include "grade/record.h"
#include "grade/run.h"

#include <stddef.h>

/* The summaries of a run's records so far, one for each student, sorted by name; students who have
 * none yet are there as pending, so that no book ever lacks one. */
struct gradebook {
	struct record_summary *rows;
	size_t count, capacity;
};

void gradebook_fini(struct gradebook *gb);
/* Take in a record; one of the same student is replaced. *row: where it stands now (may be NULL).
 */
int gradebook_put(struct gradebook *gb, const char *body, const struct record_summary **row,
	struct error *err);
/* Make sure that a student has a row: a pending one, until there is a record. */
int gradebook_expect(
	struct gradebook *gb, const char *student, const char *note, struct error *err);
/* NULL when there is none. */
const struct record_summary *gradebook_find(const struct gradebook *gb, const char *student);
struct run_counts gradebook_counts(const struct gradebook *gb);

/* Tests, counted from 0, that nobody of three or more has passed, though one of them has tried:
 * maybe the test is wrong. The first `most` of them into `tests`; returns how many there are. */
size_t gradebook_unpassed(const struct gradebook *gb, size_t *tests, size_t most);

/*
 * The CSV: header student,status,score,max_score,trust,isolation,note; the score is empty where
 * nothing was graded. `student` and `note` are guarded against spreadsheets, see csv.h.
 */
int gradebook_csv(const struct gradebook *gb, struct buffer *out);

/* Remove what a run that was killed while it wrote them has left in `folder`. */
void gradebook_sweep(const char *folder);

/* Write the three files into `folder`, each whole or not at all. */
int gradebook_write(const struct gradebook *gb, struct run *run, struct store *store,
	const char *folder, struct error *err);

#endif
