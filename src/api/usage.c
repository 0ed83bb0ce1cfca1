/* SPDX-License-Identifier: Apache-2.0 - what was charged, as JSON and as CSV; /v1/usage. */
#include "api/internal.h"

#include "base/csv.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define RESOURCES_MOST 1000
#define PAGE           100
/* A charge is made at most so long after the time that it says: a transaction may wait. */
#define SETTLING_MS    60000

static json_t *micros(int64_t value)
{
	return json_sprintf("%lld", (long long)value);
}

/* "0.291667" */
static void write_dollars(char *out, size_t size, int64_t value)
{
	text_format(out, size, "%lld.%06lld", (long long)(value / 1000000),
		(long long)(value % 1000000));
}

int api_time_parse(const char *text, int64_t *ms)
{
	struct tm tm = {0};
	const char *end = strptime(text, "%Y-%m-%d", &tm);
	int64_t fraction = 0, unit = 100;

	if (end && *end == 'T') {
		end = strptime(end, "T%H:%M:%S", &tm);
		if (end && *end == '.') {
			for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
				fraction += unit * (*end - '0');
		}
		if (!end || *end++ != 'Z')
			return -EINVAL;
	}
	if (!end || *end || tm.tm_year < 70 || tm.tm_year > 8099)
		return -EINVAL;
	*ms = 1000 * (int64_t)timegm(&tm) + fraction;
	return 0;
}

/* --- rows --- */

static int add_row(void *context, const struct store_usage *u)
{
	return json_array_append_new(context,
		       json_pack("{ss ss sI so sI sI sI sI}", "key", u->key, "name", u->name,
			       "sandboxes", (json_int_t)u->sandboxes, "chargedMicros",
			       micros(u->micros), "cpuMs", (json_int_t)(u->cpu_us / 1000),
			       "billedCpuMs", (json_int_t)(u->billed_cpu_us / 1000), "runningMs",
			       (json_int_t)(u->running_us / 1000), "memoryMibSeconds",
			       (json_int_t)(u->memory_mib_ms / 1000)))
		       ? -ENOMEM
		       : 0;
}

json_t *api_usage(struct store *store, const struct store_usage_filter *filter, struct error *err)
{
	json_t *rows = json_array();
	int r = rows ? store_usage_each(store, filter, add_row, rows, err) : -ENOMEM;

	if (!r)
		return rows;
	if (r == -ENOMEM)
		error_set(err, r, "out of memory");
	json_decref(rows);
	return NULL;
}

static const char *const group_names[] = {[STORE_BY_SANDBOX] = "sandbox",
	[STORE_BY_DAY] = "day",
	[STORE_BY_KEY] = "key",
	[STORE_BY_LABEL] = "label"};

int api_usage_group(const char *name, enum store_usage_group *out)
{
	for (unsigned i = 0; i < sizeof(group_names) / sizeof(group_names[0]); i++) {
		if (strcmp(group_names[i], name) == 0) {
			*out = (enum store_usage_group)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int add_number(struct csv *csv, json_int_t value)
{
	char text[32];

	text_format(text, sizeof(text), "%lld", (long long)value);
	return csv_add(csv, text);
}

static int add_anybody(struct csv *csv, const char *text)
{
	return csv_add_text(csv, text, strlen(text));
}

int api_usage_csv(const json_t *rows, enum store_usage_group group, struct buffer *out)
{
	static const char *const columns[] = {"name", "sandboxes", "charged_micros",
		"charged_dollars", "cpu_ms", "billed_cpu_ms", "running_ms", "memory_mib_seconds"};
	static const char *const numbers[] = {
		"cpuMs", "billedCpuMs", "runningMs", "memoryMibSeconds"};
	struct csv csv = {.out = out};
	const json_t *row;
	char dollars[32];
	uint64_t charged;
	size_t i;
	int r = csv_add(&csv, group_names[group]);

	for (i = 0; i < sizeof(columns) / sizeof(columns[0]) && !r; i++)
		r = csv_add(&csv, columns[i]);
	r = r ? r : csv_end_row(&csv);
	json_array_foreach (rows, i, row) {
		charged = 0;
		text_u64(request_text(row, "chargedMicros", "0"), &charged);
		write_dollars(dollars, sizeof(dollars), (int64_t)charged);
		/* labels and names are anybody's words */
		r = r ? r : add_anybody(&csv, request_text(row, "key", ""));
		r = r ? r : add_anybody(&csv, request_text(row, "name", ""));
		r = r ? r : add_number(&csv, request_integer(row, "sandboxes", 0));
		r = r ? r : add_number(&csv, (json_int_t)charged);
		r = r ? r : csv_add(&csv, dollars);
		for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]) && !r; k++)
			r = add_number(&csv, request_integer(row, numbers[k], 0));
		r = r ? r : csv_end_row(&csv);
	}
	return r;
}

/* --- the time that is asked for --- */

static bool answer_time(struct request *q, const char *field)
{
	answer_error(q, API_INVALID_REQUEST,
		json_pack("{s[{ss ss}]}", "issues", "path", field, "message",
			"is not a time in UTC, as 2026-11-29T00:00:00Z"),
		"%s is not a time in UTC, as 2026-11-29T00:00:00Z.", field);
	return false;
}

/* false: answered */
static bool take_range(struct request *q, const char *standard, int64_t *since, int64_t *before)
{
	static const struct {
		const char *name;
		int64_t days;
	} ranges[] = {{"24h", 1}, {"7d", 7}, {"30d", 30}, {"90d", 90}};
	const char *range = request_text(q->query, "range", standard);
	const char *from = request_text(q->query, "since", NULL);
	const char *to = request_text(q->query, "until", NULL);

	*before = api_now_ms() + 1;
	*since = 0; /* "all" */
	if (to && api_time_parse(to, before))
		return answer_time(q, "until");
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (strcmp(ranges[i].name, range) == 0)
			*since = *before - ranges[i].days * STORE_DAY_MS;
	}
	return !from || api_time_parse(from, since) == 0 || answer_time(q, "since");
}

static const char *payer(const struct request *q)
{
	return q->key.account ? NULL : q->key.id;
}

/* --- GET /v1/usage --- */

static bool wants_csv(const struct request *q)
{
	const char *accept = MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Accept");

	return strcmp(request_text(q->query, "format", "json"), "csv") == 0 ||
	       (accept && text_starts(accept, "text/csv"));
}

static void answer_csv(struct request *q, const json_t *rows, enum store_usage_group group)
{
	struct buffer out = {0};
	int r = api_usage_csv(rows, group, &out);
	size_t size = buffer_length(&out);
	char *text = r ? NULL : buffer_steal(&out);

	buffer_fini(&out);
	if (text)
		q->response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (!q->response) {
		free(text);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	MHD_add_response_header(
		q->response, "Content-Type", "text/csv; charset=utf-8; header=present");
	q->status = 200;
}

/* There is no credit: what was used is the operator's, and what is there is what was used. */
static void answer_usage(
	struct request *q, const struct store_usage_filter *filter, json_t *rows, bool grouped)
{
	int64_t charged = 0, held = 0;
	struct error err = {0};
	json_t *answer;

	if (store_charge_sum(q->server->store, payer(q), &charged, &held, &err)) {
		json_decref(rows);
		answer_failure(q, &err);
		return;
	}
	answer = json_pack("{so so so ss ss ss sn so so so ss}", "credited", micros(charged + held),
		"spent", micros(charged), "held", micros(held), "expired", "0", "available", "0",
		"takenBack", "0", "trial", "since", api_time(filter->since_ms), "until",
		api_time(filter->before_ms), grouped ? "groups" : "resources", rows, "groupBy",
		group_names[filter->group]);
	if (answer && grouped)
		json_object_set_new(answer, "resources", json_array());
	else if (answer)
		json_object_set_new(answer, "resourcesTruncated",
			json_boolean(json_array_size(rows) == RESOURCES_MOST));
	answer_json(q, 200, answer);
}

void usage_get(struct request *q)
{
	const char *group = request_text(q->query, "groupBy", NULL);
	struct store_usage_filter filter = {
		.payer = payer(q), .label = request_text(q->query, "label", NULL)};
	const bool csv = wants_csv(q);
	struct error err = {0};
	json_t *rows;

	api_usage_group(group ? group : "sandbox", &filter.group);
	if (!take_range(q, "30d", &filter.since_ms, &filter.before_ms))
		return;
	if (!group && !csv)
		filter.most = RESOURCES_MOST;
	rows = api_usage(q->server->store, &filter, &err);
	if (!rows) {
		answer_failure(q, &err);
	} else if (csv) {
		answer_csv(q, rows, filter.group);
		json_decref(rows);
	} else {
		answer_usage(q, &filter, rows, group != NULL);
	}
}

/* --- GET /v1/usage/export: charges, page by page --- */

struct page {
	json_t *data;
	struct csv csv;
	struct buffer text;
	int64_t last;
	uint32_t left;
	bool more;
};

static json_t *charge_json(const struct store_charge *c)
{
	json_t *labels = json_loads(c->labels, 0, NULL);

	return json_pack("{ss ss ss so sI ss so sI sI sI si si so so so sb}", "kind", "sandbox",
		"id", c->sandbox, "name", c->name, "labels", labels ? labels : json_object(),
		"lease", (json_int_t)c->lease, "keyId", c->payer, "chargedMicros",
		micros(c->micros), "cpuMs", (json_int_t)(c->cpu_us / 1000), "billedCpuMs",
		(json_int_t)(c->billed_cpu_us / 1000), "runningMs",
		(json_int_t)(c->running_us / 1000), "vcpu", (int)c->terms.vcpu, "memoryMiB",
		(int)c->terms.memory_mib, "cpuVcpuHourMicros",
		micros((int64_t)c->terms.prices.cpu_micros), "memoryGibHourMicros",
		micros((int64_t)c->terms.prices.memory_micros), "settledAt",
		api_time(c->settled_ms), "final", c->final);
}

static int add_charge_csv(struct csv *csv, const struct store_charge *c, const json_t *row)
{
	char dollars[32];
	int r = csv_add(csv, request_text(row, "settledAt", ""));

	write_dollars(dollars, sizeof(dollars), c->micros);
	r = r ? r : csv_add(csv, c->sandbox);
	r = r ? r : add_anybody(csv, c->name);
	r = r ? r : add_anybody(csv, c->labels);
	r = r ? r : csv_add(csv, c->payer);
	r = r ? r : add_number(csv, c->lease);
	r = r ? r : add_number(csv, c->micros);
	r = r ? r : csv_add(csv, dollars);
	r = r ? r : add_number(csv, (json_int_t)(c->cpu_us / 1000));
	r = r ? r : add_number(csv, (json_int_t)(c->billed_cpu_us / 1000));
	r = r ? r : add_number(csv, (json_int_t)(c->running_us / 1000));
	r = r ? r : add_number(csv, c->terms.vcpu);
	r = r ? r : add_number(csv, c->terms.memory_mib);
	r = r ? r : csv_add(csv, c->final ? "true" : "false");
	return r ? r : csv_end_row(csv);
}

static int add_charge(void *context, const struct store_charge *c)
{
	struct page *page = context;
	json_t *row;

	if (!page->left) {
		page->more = true;
		return 0;
	}
	page->left--;
	page->last = c->seq;
	row = charge_json(c);
	if (!row || json_array_append_new(page->data, row))
		return -ENOMEM;
	return add_charge_csv(&page->csv, c, row);
}

static int add_header(struct csv *csv)
{
	static const char *const columns[] = {"settled_at", "sandbox", "name", "labels", "key",
		"lease", "charged_micros", "charged_dollars", "cpu_ms", "billed_cpu_ms",
		"running_ms", "vcpu", "memory_mib", "final"};
	int r = 0;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]) && !r; i++)
		r = csv_add(csv, columns[i]);
	return r ? r : csv_end_row(csv);
}

void usage_export(struct request *q)
{
	struct page page = {
		.data = json_array(), .left = (uint32_t)request_integer(q->query, "limit", PAGE)};
	int64_t since, before, final = api_now_ms() - SETTLING_MS;
	uint64_t after = 0;
	struct error err = {0};
	char cursor[24];
	int r;

	page.csv.out = &page.text;
	if (text_u64(request_text(q->query, "cursor", "0"), &after) || after > INT64_MAX) {
		answer_error(q, API_INVALID_REQUEST, NULL,
			"A cursor is what a page gave as nextCursor.");
	} else if (take_range(q, "all", &since, &before)) {
		r = after ? 0 : add_header(&page.csv);
		if (!r)
			r = store_charge_each(q->server->store, payer(q), since, before,
				(int64_t)after, page.left + 1, add_charge, &page, &err);
		text_format(cursor, sizeof(cursor), "%lld", (long long)page.last);
		if (r)
			answer_failure(q, &err);
		else
			answer_json(q, 200,
				json_pack("{sO so so so}", "data", page.data, "csv",
					json_string(buffer_text(&page.text)), "nextCursor",
					page.more ? json_string(cursor) : json_null(),
					"finalThrough", api_time(before < final ? before : final)));
	}
	buffer_fini(&page.text);
	json_decref(page.data);
}
