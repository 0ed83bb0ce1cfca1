/* SPDX-License-Identifier: Apache-2.0 - writing and reading records, see record.h. */
#include "grade/record.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <openssl/evp.h>
#include <string.h>

/* ASCII, so that a record shown on a terminal never turns the direction of a line or hides text */
#define DUMP (JSON_COMPACT | JSON_REAL_PRECISION(15) | JSON_ENSURE_ASCII)

char record_mark(enum verdict v)
{
	static const char marks[] = ".FECWMODPXs-?";

	_Static_assert(sizeof(marks) == VERDICT_COUNT + 1, "a mark for each verdict");
	return v < VERDICT_COUNT ? marks[v] : '?';
}

const char *record_score(double score, char *out)
{
	char *end;

	text_format(out, RECORD_SCORE_SIZE, "%.4f", score);
	end = out + strlen(out);
	while (strchr(out, '.') && (end[-1] == '0' || end[-1] == '.')) {
		bool point = *--end == '.';

		*end = 0;
		if (point)
			break;
	}
	return strcmp(out, "-0") == 0 ? "0" : out;
}

/* a number as record_score() shows it */
static json_t *score_json(double score)
{
	double v = round(score * 10000) / 10000;

	if (v == floor(v) && fabs(v) < 1e15)
		return json_integer((json_int_t)v);
	return json_real(v);
}

/* text that may hold anything, as UTF-8 that is harmless */
static json_t *safe_json(const char *text, bool keep_lines)
{
	struct buffer b = {0};
	json_t *j = NULL;

	if (!text)
		return json_null();
	if (text_add_safe(&b, text, strlen(text), keep_lines) == 0 && buffer_text(&b))
		j = json_stringn(buffer_text(&b), buffer_length(&b));
	buffer_fini(&b);
	return j;
}

/* --- output kept --- */

struct piece {
	const uint8_t *bytes;
	size_t count;
};

/* bytes at the end that begin a character which is not whole there */
static size_t open_end(struct piece p)
{
	for (size_t back = 1; back <= 3 && back <= p.count; back++) {
		uint8_t c = p.bytes[p.count - back];
		size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return length > back ? back : 0;
	}
	return 0;
}

/* bytes at the start that end a character which began before it */
static size_t open_start(struct piece p)
{
	size_t n = 0;

	while (n < 3 && n < p.count && (p.bytes[n] & 0xc0) == 0x80)
		n++;
	return n;
}

static json_t *base64_json(struct piece p)
{
	cleanup_free char *text = malloc(4 * ((p.count + 2) / 3) + 1);

	if (!text)
		return NULL;
	text[0] = 0;
	if (p.count)
		EVP_EncodeBlock((unsigned char *)text, p.bytes, (int)p.count);
	return json_string(text);
}

/*
 * Head and tail as text when they are UTF-8. Characters cut in two where something was dropped lose
 * their rest; where nothing was, head and tail are one text, split at a character.
 */
static json_t *output_json(const struct output_kept *o)
{
	struct piece head = {buffer_bytes(&o->head), buffer_length(&o->head)};
	struct piece tail = {buffer_bytes(&o->tail), buffer_length(&o->tail)};
	struct piece h = head, t = tail;
	uint8_t joined[OUTPUT_TAIL + 4];
	size_t moved = open_end(h);
	bool text;

	h.count -= moved;
	if (o->cut) {
		size_t drop = open_start(t);

		t.bytes += drop;
		t.count -= drop;
	} else if (moved) {
		memcpy(joined, h.bytes + h.count, moved);
		if (t.count)
			memcpy(joined + moved, t.bytes, t.count);
		t = (struct piece){joined, moved + t.count};
	}
	text = text_is_utf8(h.bytes, h.count) && text_is_utf8(t.bytes, t.count);
	return json_pack("{s:s, s:o, s:o, s:I, s:b}", "encoding", text ? "utf-8" : "base64", "head",
		text ? json_stringn(h.count ? (const char *)h.bytes : "", h.count)
		     : base64_json(head),
		"tail",
		text ? json_stringn(t.count ? (const char *)t.bytes : "", t.count)
		     : base64_json(tail),
		"total_bytes", (json_int_t)o->total_bytes, "truncated", o->cut);
}

/* --- writing --- */

json_t *record_limits(const struct limits *l)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "cpu_ms", (json_int_t)l->cpu_ms,
		"wall_ms", (json_int_t)l->wall_ms, "memory_bytes", (json_int_t)l->memory_bytes,
		"processes", (json_int_t)l->processes, "output_bytes", (json_int_t)l->output_bytes,
		"disk_bytes", (json_int_t)l->disk_bytes, "file_bytes", (json_int_t)l->file_bytes);
}

static json_t *test_json(const struct test_result *t)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:s?}", "id",
		safe_json(t->id, false), "verdict", verdict_name(t->verdict), "points",
		score_json(t->points), "max_points", score_json(t->max_points), "cpu_ms",
		(json_int_t)t->cpu_ms, "wall_ms", (json_int_t)t->wall_ms, "memory_peak_bytes",
		(json_int_t)t->memory_peak_bytes, "detail", safe_json(t->detail, true), "stdout",
		output_json(&t->out), "stderr", output_json(&t->err), "answer_digest",
		*t->answer_digest ? t->answer_digest : NULL);
}

static json_t *tests_json(const struct submission_result *r)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < r->test_count; i++) {
		if (json_array_append_new(list, test_json(&r->tests[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *cheats_json(unsigned cheats)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {
#define C(bit, NAME, text) {1u << bit, #NAME},
		CHEATS(C)
#undef C
	};
	json_t *list = json_array();

	for (size_t i = 0; list && i < ARRAY_SIZE(names); i++) {
		char name[32];

		if (!(cheats & names[i].bit))
			continue;
		text_copy(name, sizeof(name), names[i].name);
		for (char *p = name; *p; p++)
			*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
		json_array_append_new(list, json_string(name));
	}
	return list;
}

int record_write(const struct record_subject *subject, const struct submission_result *r,
	char **out, struct error *err)
{
	bool graded = r->status == SUBMISSION_GRADED;
	json_t *j = json_pack("{s:o, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "student",
		safe_json(subject->student, false), "status", submission_status_name(r->status),
		"score", graded ? score_json(r->score) : json_null(), "max_score",
		graded ? score_json(r->max_score) : json_null(), "trust",
		graded ? trust_name(r->trust) : "", "isolation", safe_json(r->isolation, false),
		"note", safe_json(r->note ? r->note : "", false), "engine",
		safe_json(r->engine, false), "kernel", safe_json(r->kernel, false));
	json_t *rest = json_pack(
		"{s:o, s:s, s:s, s:s, s:s, s:{s:I, s:I, s:I, s:i}, s:s?, s:o, s:o, s:o}",
		"assignment", safe_json(subject->assignment->name, false), "image", subject->image,
		"image_digest", subject->image_digest, "tests_digest", subject->assignment->digest,
		"submission_digest", subject->submission_digest, "usage", "cpu_us",
		(json_int_t)r->machine_cpu_us, "memory_peak_bytes",
		(json_int_t)r->machine_memory_peak_bytes, "wall_ms", (json_int_t)r->wall_ms,
		"machines", (int)r->machines, "started", *r->started ? r->started : NULL, "limits",
		record_limits(&subject->assignment->limits), "cheats", cheats_json(r->cheats),
		"tests", tests_json(r));

	*out = NULL;
	if (j && rest && json_object_update(j, rest) == 0)
		*out = json_dumps(j, DUMP);
	json_decref(j);
	json_decref(rest);
	return *out ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* --- reading --- */

static char *copy_string(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return strdup(text ? text : "");
}

static int read_tests(const json_t *tests, struct record_summary *s)
{
	size_t count = json_array_size(tests);

	s->marks = calloc(count + 1, 1);
	if (!s->marks)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(tests, i), "verdict"));
		enum verdict v;

		if (!name || verdict_find(name, &v))
			return -EINVAL;
		s->verdicts[v]++;
		s->marks[i] = record_mark(v);
	}
	return 0;
}

int record_read(const char *body, struct record_summary *s, struct error *err)
{
	json_error_t e;
	json_t *j = json_loads(body, JSON_ALLOW_NUL, &e);
	const char *status = json_string_value(json_object_get(j, "status"));
	const json_t *score = json_object_get(j, "score");
	int r = -EINVAL;

	*s = (struct record_summary){0};
	for (unsigned i = 0; status && i < SUBMISSION_STATUSES; i++) {
		if (strcmp(submission_status_name((enum submission_status)i), status) == 0) {
			s->status = (enum submission_status)i;
			r = read_tests(json_object_get(j, "tests"), s);
		}
	}
	s->student = copy_string(j, "student");
	s->note = copy_string(j, "note");
	s->trust = copy_string(j, "trust");
	s->isolation = copy_string(j, "isolation");
	s->has_score = json_is_number(score);
	s->score = json_number_value(score);
	s->max_score = json_number_value(json_object_get(j, "max_score"));
	json_decref(j);
	if (!s->student || !s->note || !s->trust || !s->isolation)
		r = -ENOMEM;
	if (r) {
		record_summary_fini(s);
		return error_set(err, r, r == -ENOMEM ? "out of memory" : "the record is damaged");
	}
	return 0;
}

int record_pending(const char *student, const char *note, struct record_summary *s)
{
	*s = (struct record_summary){.status = SUBMISSION_PENDING,
		.student = strdup(student),
		.note = strdup(note),
		.trust = strdup(""),
		.isolation = strdup(""),
		.marks = strdup("")};
	if (s->student && s->note && s->trust && s->isolation && s->marks)
		return 0;
	record_summary_fini(s);
	return -ENOMEM;
}

void record_summary_fini(struct record_summary *s)
{
	free(s->student);
	free(s->note);
	free(s->trust);
	free(s->isolation);
	free(s->marks);
	*s = (struct record_summary){0};
}
