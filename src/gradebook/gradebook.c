/* SPDX-License-Identifier: Apache-2.0 - the gradebook and the files made of it, see gradebook.h. */
#include "gradebook/gradebook.h"

#include "base/cleanup.h"
#include "base/csv.h"
#include "base/path.h"
#include "gradebook/whole_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void gradebook_fini(struct gradebook *gb)
{
	for (size_t i = 0; i < gb->count; i++)
		record_summary_fini(&gb->rows[i]);
	free(gb->rows);
	*gb = (struct gradebook){0};
}

/* where the student stands, or would */
static size_t find(const struct gradebook *gb, const char *student)
{
	size_t low = 0, high = gb->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(gb->rows[middle].student, student) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct record_summary *gradebook_find(const struct gradebook *gb, const char *student)
{
	size_t at = find(gb, student);

	return at < gb->count && strcmp(gb->rows[at].student, student) == 0 ? &gb->rows[at] : NULL;
}

/* takes what s owns, also when it fails */
static int put(struct gradebook *gb, struct record_summary *s, const struct record_summary **row,
	struct error *err)
{
	size_t at = find(gb, s->student);

	if (at < gb->count && strcmp(gb->rows[at].student, s->student) == 0) {
		record_summary_fini(&gb->rows[at]);
	} else {
		if (gb->count == gb->capacity) {
			size_t capacity = gb->capacity ? gb->capacity * 2 : 64;
			void *grown = reallocarray(gb->rows, capacity, sizeof(*gb->rows));

			if (!grown) {
				record_summary_fini(s);
				return error_set(err, -ENOMEM, "out of memory");
			}
			gb->rows = grown;
			gb->capacity = capacity;
		}
		memmove(&gb->rows[at + 1], &gb->rows[at], (gb->count - at) * sizeof(*gb->rows));
		gb->count++;
	}
	gb->rows[at] = *s;
	if (row)
		*row = &gb->rows[at];
	return 0;
}

int gradebook_put(struct gradebook *gb, const char *body, const struct record_summary **row,
	struct error *err)
{
	struct record_summary s;
	int r = record_read(body, &s, err);

	return r ? r : put(gb, &s, row, err);
}

int gradebook_expect(struct gradebook *gb, const char *student, const char *note, struct error *err)
{
	struct record_summary s;

	if (gradebook_find(gb, student))
		return 0;
	if (record_pending(student, note, &s))
		return error_set(err, -ENOMEM, "out of memory");
	return put(gb, &s, NULL, err);
}

enum outcome { NOT_TRIED, TRIED, PASSED };

static enum outcome outcome_of(char mark)
{
	if (mark == record_mark(VERDICT_PASSED))
		return PASSED;
	return mark == record_mark(VERDICT_SKIPPED) || mark == record_mark(VERDICT_NOT_RUN)
		       ? NOT_TRIED
		       : TRIED;
}

size_t gradebook_unpassed(const struct gradebook *gb, size_t *tests, size_t most)
{
	const size_t students_least = 3;
	size_t count = 0, longest = 0, graded = 0;
	cleanup_free enum outcome *best = NULL;

	for (size_t i = 0; i < gb->count; i++) {
		size_t n = strlen(gb->rows[i].marks);

		graded += gb->rows[i].status == SUBMISSION_GRADED;
		longest = n > longest ? n : longest;
	}
	if (graded < students_least || !(best = calloc(longest + 1, sizeof(*best))))
		return 0;
	for (size_t i = 0; i < gb->count; i++) {
		const struct record_summary *s = &gb->rows[i];

		for (size_t t = 0; s->status == SUBMISSION_GRADED && s->marks[t]; t++) {
			enum outcome outcome = outcome_of(s->marks[t]);

			best[t] = outcome > best[t] ? outcome : best[t];
		}
	}
	for (size_t t = 0; t < longest; t++) {
		if (best[t] == TRIED && count++ < most)
			tests[count - 1] = t;
	}
	return count;
}

struct run_counts gradebook_counts(const struct gradebook *gb)
{
	struct run_counts c = {0};

	for (size_t i = 0; i < gb->count; i++) {
		const struct record_summary *s = &gb->rows[i];

		c.graded += s->status == SUBMISSION_GRADED;
		c.rejected += s->status == SUBMISSION_REJECTED;
		c.infra += s->status == SUBMISSION_INFRA;
		c.pending += s->status == SUBMISSION_PENDING;
		for (unsigned v = 0; v < VERDICT_COUNT; v++)
			c.verdicts[v] += s->verdicts[v];
	}
	return c;
}

static int add_row(struct csv *csv, const struct record_summary *s)
{
	char score[RECORD_SCORE_SIZE], most[RECORD_SCORE_SIZE];
	int r = csv_add_text(csv, s->student, strlen(s->student));

	r = r ? r : csv_add(csv, submission_status_name(s->status));
	r = r ? r : csv_add(csv, s->has_score ? record_score(s->score, score) : "");
	r = r ? r : csv_add(csv, s->has_score ? record_score(s->max_score, most) : "");
	r = r ? r : csv_add(csv, s->trust);
	r = r ? r : csv_add_text(csv, s->isolation, strlen(s->isolation));
	r = r ? r : csv_add_text(csv, s->note, strlen(s->note));
	return r ? r : csv_end_row(csv);
}

int gradebook_csv(const struct gradebook *gb, struct buffer *out)
{
	static const char *const header[] = {
		"student", "status", "score", "max_score", "trust", "isolation", "note"};
	struct csv csv = {.out = out};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(header) && !r; i++)
		r = csv_add(&csv, header[i]);
	r = r ? r : csv_end_row(&csv);
	for (size_t i = 0; i < gb->count && !r; i++)
		r = add_row(&csv, &gb->rows[i]);
	return r;
}

/* --- files --- */

struct writing {
	struct whole_file *file;
	struct error *err;
};

static int add_record(void *context, const struct store_record *record)
{
	struct writing *w = context;
	cleanup_free char *end = NULL;
	int n, r = whole_file_add(w->file, record->body, strlen(record->body) - 1, w->err);

	/* the record is an object: what only the store knows of it comes last */
	n = asprintf(&end,
		",\"attempt\":%u,\"recorded\":\"%s\",\"previous\":\"%s\",\"hash\":\"%s\"}\n",
		record->attempt, record->time, record->previous, record->hash);
	if (n < 0) {
		end = NULL;
		return error_set(w->err, -ENOMEM, "out of memory");
	}
	return r ? r : whole_file_add(w->file, end, (size_t)n, w->err);
}

/* Streamed from the store: outputs of a large class do not fit in memory at once. */
static int write_results(struct run *run, struct store *store, const char *path, struct error *err)
{
	struct whole_file file;
	struct writing w = {&file, err};
	int r = whole_file_open(&file, path, err);

	if (r)
		return r;
	r = store_records_each(store, run_id(run), add_record, &w, err);
	if (!r)
		return whole_file_close(&file, err);
	whole_file_abandon(&file);
	return r;
}

static int write_csv(const struct gradebook *gb, const char *path, struct error *err)
{
	struct buffer text = {0};
	int r = gradebook_csv(gb, &text);

	r = r ? error_set(err, r, "out of memory")
	      : path_write_whole(path, buffer_bytes(&text), buffer_length(&text), 0644, err);
	buffer_fini(&text);
	return r;
}

static int write_run(
	const struct gradebook *gb, struct run *run, const char *path, struct error *err)
{
	const struct run_counts counts = gradebook_counts(gb);
	cleanup_free char *text = NULL, *line = NULL;
	int n, r = run_describe(run, &counts, &text, err);

	if (r)
		return r;
	n = asprintf(&line, "%s\n", text);
	if (n < 0) {
		line = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	return path_write_whole(path, line, (size_t)n, 0644, err);
}

static const char *const files[] = {"results.jsonl", "gradebook.csv", "run.json"};

void gradebook_sweep(const char *folder)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		whole_file_sweep(folder, files[i]);
}

int gradebook_write(const struct gradebook *gb, struct run *run, struct store *store,
	const char *folder, struct error *err)
{
	char path[PATH_MAX];
	int r = path_join(path, sizeof(path), folder, files[0], err);

	r = r ? r : write_results(run, store, path, err);
	r = r ? r : path_join(path, sizeof(path), folder, files[1], err);
	r = r ? r : write_csv(gb, path, err);
	r = r ? r : path_join(path, sizeof(path), folder, files[2], err);
	return r ? r : write_run(gb, run, path, err);
}
