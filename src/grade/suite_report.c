/* SPDX-License-Identifier: Apache-2.0 - reading the examiner's report, see suite_report.h. */
#include "grade/suite_report.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <openssl/evp.h>
#include <string.h>

#define DETAIL_MAX   8192u
#define MODULES_MAX  64u
#define BASE64_MAX   ((OUTPUT_HEAD + OUTPUT_TAIL) * 2)
#define CANARY_START "__canary_start__"
#define CANARY_END   "__canary_end__"

static void json_drop(json_t **value)
{
	json_decref(*value);
}
#define cleanup_json cleanup(json_drop)

/* --- small readers --- */

/* A string member without NUL in it, or NULL. */
static const char *get_text(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);

	return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static int64_t get_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;

	return number > 0 ? (int64_t)number : 0;
}

/* base64 text into the end of a buffer; false when it is none */
static bool add_base64(struct buffer *out, const char *text, size_t most)
{
	size_t length = text ? strlen(text) : 0, padding = 0;
	uint8_t *room;
	int n;

	if (!length)
		return true;
	if (length % 4 || length > BASE64_MAX || length / 4 * 3 > most + 2)
		return false;
	while (padding < 2 && text[length - 1 - padding] == '=')
		padding++;
	room = buffer_reserve(out, length / 4 * 3);
	n = room ? EVP_DecodeBlock(room, (const unsigned char *)text, (int)length) : -1;
	if (n < 0 || (size_t)n < padding || (size_t)n - padding > most)
		return false;
	buffer_commit(out, (size_t)n - padding);
	return true;
}

static bool take_output(const json_t *event, const char *key, struct output_kept *out)
{
	const json_t *kept = json_object_get(event, key);

	if (!kept)
		return true;
	if (!json_is_object(kept) || !add_base64(&out->head, get_text(kept, "head"), OUTPUT_HEAD) ||
		!add_base64(&out->tail, get_text(kept, "tail"), OUTPUT_TAIL))
		return false;
	out->total_bytes = (uint64_t)get_number(kept, "total");
	out->cut = json_is_true(json_object_get(kept, "cut"));
	return true;
}

/* --- the report of a run --- */

int suite_report_init(struct suite_report *r, struct submission_result *result, const char *nonce)
{
	*r = (struct suite_report){.result = result, .running = SIZE_MAX};
	buffer_init(&r->line, SUITE_LINE_MAX);
	buffer_init(&r->sealed, (result->test_count + 2) * (SUITE_ID_MAX + 64));
	r->seen = calloc(result->test_count + 1, sizeof(*r->seen));
	r->judged = calloc(result->test_count + 1, sizeof(*r->judged));
	return r->seen && r->judged ? text_copy(r->nonce, sizeof(r->nonce), nonce) : -ENOMEM;
}

int suite_report_again(struct suite_report *r, const char *nonce)
{
	if (r->running != SIZE_MAX && !r->seen[r->running]) {
		r->seen[r->running] = true; /* it has its verdict */
		r->reported++;
	}
	r->running = SIZE_MAX;
	r->starved = false;
	r->canaries = 0;
	r->line_too_long = false;
	buffer_clear(&r->line);
	buffer_clear(&r->sealed);
	return text_copy(r->nonce, sizeof(r->nonce), nonce);
}

void suite_report_fini(struct suite_report *r)
{
	buffer_fini(&r->line);
	buffer_fini(&r->sealed);
	free(r->seen);
	free(r->judged);
	r->seen = r->judged = NULL;
}

/* Index of an id, SIZE_MAX when it is not expected. They come in order, as a rule. */
static size_t find_test(struct suite_report *r, const char *id)
{
	size_t count = r->result->test_count;

	for (size_t i = 0; i < count; i++) {
		size_t at = (r->next + i) % count;

		if (strcmp(r->result->tests[at].id, id) == 0)
			return at;
	}
	return SIZE_MAX;
}

static int seal(struct suite_report *r, const char *id, const char *verdict)
{
	int n = buffer_add(&r->sealed, id, strlen(id) + 1);

	return n ? n : buffer_printf(&r->sealed, "%s\n", verdict);
}

static bool take_canary(struct suite_report *r, const char *id, enum verdict verdict)
{
	unsigned bit = strcmp(id, CANARY_START) == 0 ? 1 : strcmp(id, CANARY_END) == 0 ? 2 : 0;

	if (!bit)
		return false;
	if (r->canaries & bit)
		r->strange++;
	r->canaries |= bit;
	if (verdict == VERDICT_PASSED)
		r->canary_passed = true;
	return true;
}

static int fill_test(struct test_result *t, enum verdict verdict, const json_t *event)
{
	const char *detail = get_text(event, "detail");
	struct buffer text = {0};
	int r = 0;

	t->verdict = verdict;
	t->cpu_ms = get_number(event, "cpu_us") / 1000;
	t->wall_ms = get_number(event, "wall_ms");
	t->memory_peak_bytes = (uint64_t)get_number(event, "memory_peak");
	if (detail && *detail) {
		r = text_add_safe(&text, detail, strnlen(detail, DETAIL_MAX), true);
		t->detail = r ? NULL : buffer_steal(&text);
		r = t->detail ? 0 : -ENOMEM;
	}
	buffer_fini(&text);
	return r;
}

static int take_test(struct suite_report *r, const char *id, const json_t *event)
{
	const char *name = get_text(event, "verdict");
	enum verdict verdict;
	struct test_result *t;
	size_t at;
	int n;

	if (!name || verdict_find(name, &verdict) || verdict == VERDICT_INFRA) {
		r->strange++;
		return 0;
	}
	n = seal(r, id, name);
	if (n == -ENOBUFS) { /* more lines than tests there are */
		r->strange++;
		return 0;
	}
	if (n || take_canary(r, id, verdict))
		return n;
	at = find_test(r, id);
	if (at == SIZE_MAX || r->seen[at]) {
		r->strange++;
		return 0;
	}
	r->seen[at] = true;
	r->reported++;
	r->next = at + 1;
	r->running = SIZE_MAX;
	t = &r->result->tests[at];
	if (!take_output(event, "out", &t->out) || !take_output(event, "err", &t->err))
		r->strange++;
	n = fill_test(t, verdict, event);
	if (!n && verdict == VERDICT_PASSED)
		t->points = t->max_points;
	return n;
}

static void take_cheats(struct suite_report *r, const json_t *list)
{
	static const struct {
		const char *name;
		unsigned bit;
	} cheats[] = {
#define C(bit, NAME, text) {#NAME, 1u << bit},
		CHEATS(C)
#undef C
	};
	const json_t *each;
	size_t at;

	json_array_foreach (list, at, each) {
		for (size_t i = 0; i < ARRAY_SIZE(cheats); i++) {
			const char *name = json_string_value(each);

			if (name && strcmp(name, cheats[i].name) == 0)
				r->result->cheats |= cheats[i].bit;
		}
	}
}

static void take_done(struct suite_report *r, const json_t *event)
{
	const char *proof = get_text(event, "proof");
	char right[HASH_HEX_SIZE];

	hash_hmac(r->nonce, strlen(r->nonce), buffer_bytes(&r->sealed), buffer_length(&r->sealed),
		right);
	r->done = true;
	r->proven = proof && strcmp(proof, right) == 0;
	if (!r->proven)
		r->strange++;
	r->guest_cpu_us = (uint64_t)get_number(event, "cpu_us");
	take_cheats(r, json_object_get(event, "cheats"));
}

static int take_event(struct suite_report *r, const json_t *event)
{
	const char *text;

	if (r->done) {
		r->strange++;
	} else if ((text = get_text(event, "start"))) {
		r->running = find_test(r, text);
		r->began |= r->running != SIZE_MAX;
	} else if ((text = get_text(event, "test"))) {
		return take_test(r, text, event);
	} else if (json_object_get(event, "done")) {
		take_done(r, event);
	} else if ((text = get_text(event, "broken"))) {
		text_copy(r->broken, sizeof(r->broken), text);
	} else if ((text = get_text(event, "error"))) {
		text_copy(r->error, sizeof(r->error), text);
	} else {
		r->strange++;
	}
	return 0;
}

static int take_line(struct suite_report *r)
{
	cleanup_json json_t *event = json_loadb((const char *)buffer_bytes(&r->line),
		buffer_length(&r->line), JSON_REJECT_DUPLICATES, NULL);
	bool dropped = r->line_too_long;

	r->line_too_long = false;
	buffer_clear(&r->line);
	if (dropped || !json_is_object(event)) {
		r->strange++;
		return 0;
	}
	return take_event(r, event);
}

int suite_report_take(struct suite_report *r, const void *bytes, size_t count)
{
	const char *p = bytes;
	int n;

	while (count) {
		const char *end = memchr(p, '\n', count);
		size_t part = end ? (size_t)(end - p) : count;

		if (buffer_length(&r->line) + part > SUITE_LINE_MAX)
			r->line_too_long = true;
		n = r->line_too_long ? 0 : buffer_add(&r->line, p, part);
		if (!n && end)
			n = take_line(r);
		if (n)
			return n;
		part += end != NULL;
		p += part;
		count -= part;
	}
	return 0;
}

/* Nothing that was reported counts. */
static void void_all(struct suite_report *r, const char *why)
{
	for (size_t i = 0; i < r->result->test_count; i++) {
		struct test_result *t = &r->result->tests[i];

		if (t->verdict != VERDICT_PASSED)
			continue;
		t->verdict = VERDICT_ERROR;
		t->points = 0;
		free(t->detail);
		t->detail = strdup(why);
	}
}

bool suite_report_end(struct suite_report *r)
{
	if (buffer_length(&r->line))
		r->strange += r->done; /* a last line may be cut when the machine ended */
	if (r->canary_passed) {
		r->result->cheats |= CHEAT_CANARY;
		void_all(r, "a test that must fail passed");
		return false;
	}
	if (r->done && r->canaries != 3)
		r->strange++;
	if (r->strange) {
		r->result->cheats |= CHEAT_FORGED_REPORT;
		void_all(r, "the report of the tests was tampered with");
		return false;
	}
	return r->done && r->proven && r->reported == r->result->test_count;
}

static void over_limit(
	struct test_result *t, enum verdict verdict, int64_t used_ms, int64_t limit_ms)
{
	struct buffer text = {0};

	t->verdict = verdict;
	t->points = 0;
	free(t->detail);
	buffer_printf(&text, "took %" PRId64 " ms of %s; the limit is %" PRId64 " ms", used_ms,
		verdict == VERDICT_CPU_LIMIT ? "CPU time" : "time", limit_ms);
	t->detail = buffer_steal(&text);
	buffer_fini(&text);
}

static bool is_starved(const struct test_result *t, const struct limits *limits, double share)
{
	/* one that slept was not kept from running */
	bool ran = t->verdict == VERDICT_CPU_LIMIT ||
		   (t->verdict == VERDICT_WALL_LIMIT && t->cpu_ms >= t->wall_ms / 5 * 4);

	return ran && share < 0.5 && (double)t->cpu_ms * share * 2 < (double)limits->cpu_ms;
}

static void forget_test(struct suite_report *r, size_t at)
{
	struct test_result *t = &r->result->tests[at];

	t->verdict = VERDICT_NOT_RUN;
	t->points = 0;
	t->cpu_ms = t->wall_ms = 0;
	free(t->detail);
	t->detail = NULL;
	output_kept_fini(&t->out);
	output_kept_fini(&t->err);
	r->seen[at] = false;
	r->reported--;
}

size_t suite_report_forget_starved(
	struct suite_report *r, const struct limits *limits, uint64_t host_cpu_us, double *share)
{
	size_t count = 0;

	*share = 1;
	if (!r->done || !r->proven || r->strange || !host_cpu_us || !r->guest_cpu_us)
		return 0;
	*share = (double)host_cpu_us / (double)r->guest_cpu_us;
	for (size_t i = 0; i < r->result->test_count; i++) {
		if (r->judged[i] || !r->seen[i] ||
			!is_starved(&r->result->tests[i], limits, *share))
			continue;
		forget_test(r, i);
		count++;
	}
	r->starved = count != 0;
	if (count)
		r->done = r->proven = false;
	return count;
}

void suite_report_judge_times(
	struct suite_report *r, const struct limits *limits, uint64_t host_cpu_us)
{
	double share = 1;

	if (host_cpu_us && r->guest_cpu_us > host_cpu_us)
		share = (double)host_cpu_us / (double)r->guest_cpu_us;
	for (size_t i = 0; i < r->result->test_count; i++) {
		struct test_result *t = &r->result->tests[i];

		if (r->judged[i] || !r->seen[i])
			continue;
		r->judged[i] = true;
		t->cpu_ms = (int64_t)((double)t->cpu_ms * share);
		if (t->verdict == VERDICT_CPU_LIMIT && t->cpu_ms < limits->cpu_ms)
			t->cpu_ms = limits->cpu_ms;
		if (t->verdict != VERDICT_PASSED && t->verdict != VERDICT_FAILED)
			continue;
		if (t->cpu_ms > limits->cpu_ms)
			over_limit(t, VERDICT_CPU_LIMIT, t->cpu_ms, limits->cpu_ms);
		else if (t->wall_ms > limits->wall_ms)
			over_limit(t, VERDICT_WALL_LIMIT, t->wall_ms, limits->wall_ms);
	}
}

/* --- the report of a collection --- */

void suite_collection_fini(struct suite_collection *c)
{
	for (size_t i = 0; i < c->module_count; i++)
		free(c->modules[i]);
	for (size_t i = 0; i < c->test_count; i++)
		free(c->tests[i].id);
	free(c->modules);
	free(c->tests);
	*c = (struct suite_collection){0};
}

static int take_plan(struct suite_collection *c, const json_t *event, struct error *err)
{
	const char *framework = get_text(event, "framework");
	const json_t *modules = json_object_get(event, "modules"), *each;
	size_t at, count = json_array_size(modules);

	if (!framework || text_copy(c->framework, sizeof(c->framework), framework) || c->modules)
		return error_set(err, -EPROTO, "the examiner names no framework");
	if (count > MODULES_MAX)
		return error_set(
			err, -EINVAL, "the tests import %zu modules of the student's", count);
	c->modules = calloc(count + 1, sizeof(*c->modules));
	if (!c->modules)
		return error_set(err, -ENOMEM, "out of memory");
	json_array_foreach (modules, at, each) {
		const char *name = json_string_value(each);

		c->modules[at] = strdup(name ? name : "");
		if (!c->modules[at])
			return error_set(err, -ENOMEM, "out of memory");
		c->module_count++;
	}
	return 0;
}

static int take_id(struct suite_collection *c, const char *id, struct error *err)
{
	struct runner_test *grown;

	if (c->test_count == SUITE_TESTS_MAX)
		return error_set(err, -EINVAL, "there are more than %u tests", SUITE_TESTS_MAX);
	if (!*id || strlen(id) > SUITE_ID_MAX)
		return error_set(err, -EINVAL, "a test's id is empty or too long: %.60s", id);
	for (size_t i = 0; i < c->test_count; i++)
		if (strcmp(c->tests[i].id, id) == 0)
			return error_set(err, -EINVAL, "two tests have the id %s", id);
	grown = reallocarray(c->tests, c->test_count + 1, sizeof(*grown));
	if (!grown)
		return error_set(err, -ENOMEM, "out of memory");
	c->tests = grown;
	grown[c->test_count] = (struct runner_test){.id = strdup(id)};
	if (!grown[c->test_count].id)
		return error_set(err, -ENOMEM, "out of memory");
	c->test_count++;
	return 0;
}

static int take_collected(
	struct suite_collection *c, const json_t *event, bool *done, struct error *err)
{
	const char *text;

	if ((text = get_text(event, "error")))
		return error_set(err, -EINVAL, "%s", text);
	if ((text = get_text(event, "broken")))
		return error_set(err, -EIO, "%s", text);
	if (json_object_get(event, "framework"))
		return take_plan(c, event, err);
	if ((text = get_text(event, "id")))
		return take_id(c, text, err);
	*done = (size_t)get_number(event, "done") == c->test_count &&
		json_object_get(event, "done") != NULL;
	return *done ? 0 : error_set(err, -EPROTO, "the examiner's list of tests is not whole");
}

int suite_collection_read(
	const void *bytes, size_t count, struct suite_collection *out, struct error *err)
{
	const char *p = bytes, *end;
	bool done = false;
	int r;

	while (count && (end = memchr(p, '\n', count))) {
		cleanup_json json_t *event =
			json_loadb(p, (size_t)(end - p), JSON_REJECT_DUPLICATES, NULL);

		r = json_is_object(event) && !done
			    ? take_collected(out, event, &done, err)
			    : error_set(err, -EPROTO, "the examiner's list of tests is garbled");
		if (r)
			return r;
		count -= (size_t)(end - p) + 1;
		p = end + 1;
	}
	if (!done || !out->framework[0])
		return error_set(err, -EPROTO, "the examiner's list of tests is not whole");
	if (out->test_count == 0)
		return error_set(
			err, -EINVAL, "there is no test in it; name methods and functions test_…");
	return 0;
}
