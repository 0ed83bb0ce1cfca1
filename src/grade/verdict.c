/* SPDX-License-Identifier: Apache-2.0 - names of verdicts, and results as they are filled. */
#include "grade/verdict.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define V(NAME, name, text) #name,
	VERDICTS(V)
#undef V
};
static const char *const texts[] = {
#define V(NAME, name, text) text,
	VERDICTS(V)
#undef V
};
static const char *const statuses[] = {"graded", "rejected", "infra", "pending"};
static const char *const trusts[] = {"open", "guarded", "sealed"};

static_assert(ARRAY_SIZE(names) == VERDICT_COUNT, "a name for each verdict");
static_assert(ARRAY_SIZE(statuses) == SUBMISSION_STATUSES, "a name for each status");
static_assert(ARRAY_SIZE(trusts) == TRUST_SEALED + 1, "a name for each trust level");

const char *verdict_name(enum verdict v)
{
	return v < VERDICT_COUNT ? names[v] : "?";
}

const char *verdict_text(enum verdict v)
{
	return v < VERDICT_COUNT ? texts[v] : "?";
}

int verdict_find(const char *name, enum verdict *out)
{
	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		if (strcmp(names[i], name) == 0) {
			*out = (enum verdict)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *submission_status_name(enum submission_status s)
{
	return s < SUBMISSION_STATUSES ? statuses[s] : "?";
}

const char *trust_name(enum trust t)
{
	return t <= TRUST_SEALED ? trusts[t] : "?";
}

void output_kept_add(struct output_kept *o, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;
	size_t used = buffer_length(&o->head);
	size_t part = OUTPUT_HEAD - used < count ? OUTPUT_HEAD - used : count;

	o->total_bytes += count;
	if (buffer_add(&o->head, p, part))
		o->cut = true;
	p += part;
	count -= part;
	if (count > OUTPUT_TAIL) {
		o->cut = true;
		p += count - OUTPUT_TAIL;
		count = OUTPUT_TAIL;
	}
	used = buffer_length(&o->tail);
	if (used + count > OUTPUT_TAIL) {
		o->cut = true;
		buffer_consume(&o->tail, used + count - OUTPUT_TAIL);
	}
	if (buffer_add(&o->tail, p, count))
		o->cut = true;
}

void output_kept_fini(struct output_kept *o)
{
	buffer_fini(&o->head);
	buffer_fini(&o->tail);
	*o = (struct output_kept){0};
}

void test_result_fini(struct test_result *t)
{
	free(t->id);
	free(t->detail);
	output_kept_fini(&t->out);
	output_kept_fini(&t->err);
	*t = (struct test_result){0};
}

void submission_result_fini(struct submission_result *r)
{
	for (size_t i = 0; i < r->test_count; i++)
		test_result_fini(&r->tests[i]);
	free(r->tests);
	free(r->note);
	*r = (struct submission_result){0};
}

struct test_result *submission_result_add(struct submission_result *r, const char *id)
{
	struct test_result *grown = reallocarray(r->tests, r->test_count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	r->tests = grown;
	grown += r->test_count;
	*grown = (struct test_result){.id = strdup(id), .verdict = VERDICT_NOT_RUN};
	if (!grown->id)
		return NULL;
	r->test_count++;
	return grown;
}

/* to the four decimals that records show, so that a sum does not depend on its order */
static double rounded(double points)
{
	return round(points * 10000) / 10000;
}

void submission_result_sum(struct submission_result *r)
{
	r->score = r->max_score = 0;
	for (size_t i = 0; i < r->test_count; i++) {
		struct test_result *t = &r->tests[i];

		if (t->verdict != VERDICT_PASSED)
			t->points = 0;
		r->score += t->points;
		r->max_score += t->max_points;
	}
	r->score = rounded(r->score);
	r->max_score = rounded(r->max_score);
}

int submission_result_note(struct submission_result *r, const char *format, ...)
{
	struct buffer b = {0};
	cleanup_free char *clause = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&clause, format, ap);
	va_end(ap);
	if (n < 0) {
		clause = NULL;
		return -ENOMEM;
	}
	n = r->note ? buffer_printf(&b, "%s; ", r->note) : 0;
	if (!n)
		n = text_add_safe(&b, clause, strlen(clause), false);
	if (!n) {
		char *note = buffer_steal(&b);

		n = note ? 0 : -ENOMEM;
		if (note) {
			free(r->note);
			r->note = note;
		}
	}
	buffer_fini(&b);
	return n;
}
