/* SPDX-License-Identifier: Apache-2.0 - what has happened, and what a sandbox used over time. */
#include "api/internal.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

/* --- /v1/events --- */

struct page {
	json_t *list;
	int64_t last;
	uint32_t left;
	bool more;
};

static int add_event(void *context, const struct store_event *event)
{
	struct page *page = context;
	json_t *data;

	if (!page->left) {
		page->more = true;
		return 0;
	}
	page->left--;
	page->last = event->seq;
	data = json_loads(event->data, 0, NULL);
	return json_array_append_new(page->list,
		       json_pack("{so ss so ss ss so}", "id",
			       json_sprintf("%lld", (long long)event->seq), "type", event->type,
			       "createdAt", api_time(event->time_ms), "resourceType", "sandbox",
			       "resourceId", event->sandbox, "data", data ? data : json_object()))
		       ? -ENOMEM
		       : 0;
}

void events_list(struct request *q)
{
	struct page page = {
		.list = json_array(), .left = (uint32_t)request_integer(q->query, "limit", 50)};
	struct store_event_filter filter = {.owner = q->key.account ? NULL : q->key.id,
		.sandbox = request_text(q->query, "resourceId", NULL),
		.type = request_text(q->query, "type", NULL),
		.limit = page.left + 1};
	struct error err = {0};
	char cursor[24];
	uint64_t before = 0;

	if (text_u64(request_text(q->query, "cursor", "0"), &before) || before > INT64_MAX) {
		answer_error(q, API_INVALID_REQUEST, NULL,
			"A cursor is what a list gave as nextCursor.");
		json_decref(page.list);
		return;
	}
	filter.before = (int64_t)before;
	if (store_event_each(q->server->store, &filter, add_event, &page, &err)) {
		answer_failure(q, &err);
		json_decref(page.list);
		return;
	}
	text_format(cursor, sizeof(cursor), "%lld", (long long)page.last);
	answer_json(q, 200,
		json_pack("{so so}", "data", page.list, "nextCursor",
			page.more ? json_string(cursor) : json_null()));
}

/* --- /v1/sandboxes/{id}/metrics --- */

static int64_t range_ms(const char *name)
{
	static const struct {
		const char *name;
		int64_t minutes;
	} ranges[] = {
		{"15m", 15}, {"1h", 60}, {"6h", 360}, {"24h", 1440}, {"7d", 10080}, {"30d", 43200}};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (strcmp(ranges[i].name, name) == 0)
			return 60000 * ranges[i].minutes;
	}
	return 0;
}

/* What was used between two samples. */
static json_t *point(const struct wire_sample *before, const struct wire_sample *now, uint32_t vcpu)
{
	int64_t ms = now->at_ms - before->at_ms;
	uint64_t us = now->cpu_us > before->cpu_us ? now->cpu_us - before->cpu_us : 0;
	double cores = ms > 0 ? (double)us / 1000 / (double)ms : 0;

	return json_pack("{so sf sf sI sI sI}", "at", api_time(now->at_ms), "cpuPercent",
		100 * cores / (double)(vcpu ? vcpu : 1), "cpuCores", cores, "memoryBytes",
		(json_int_t)now->memory_bytes, "networkInBytes",
		(json_int_t)(now->in_bytes > before->in_bytes ? now->in_bytes - before->in_bytes
							      : 0),
		"networkOutBytes",
		(json_int_t)(now->out_bytes > before->out_bytes ? now->out_bytes - before->out_bytes
								: 0));
}

static json_t *points(const struct sandbox_metrics *m, int64_t since_ms, uint32_t vcpu)
{
	json_t *list = json_array();

	for (size_t i = 1; i < m->count; i++) {
		if (m->samples[i].at_ms >= since_ms)
			json_array_append_new(
				list, point(&m->samples[i - 1], &m->samples[i], vcpu));
	}
	return list;
}

void metrics_get(struct request *q)
{
	const char *range = request_text(q->query, "range", "1h");
	int64_t ms = range_ms(range);
	struct sandbox_metrics metrics = {.step_ms = 10000};
	struct store_sandbox record;
	struct sandbox *s = NULL;
	struct error err = {0};
	json_t *list, *latest;
	int r = 0;

	if (!life_find(q, &record))
		return;
	/* its monitor has measured it: what has ended has no samples any more */
	if (record.state == STORE_SANDBOX_RUNNING)
		r = sandbox_attach(q->server->home, record.machine, 5000, &s, &err);
	if (s)
		r = sandbox_metrics(s, ms > 3600000, &metrics, &err);
	sandbox_free(s);
	if (r && r != -ENODEV) {
		life_failure(q, &record, r, &err, false);
	} else {
		list = points(&metrics, api_now_ms() - ms, record.vcpu);
		latest = json_array_get(list, json_array_size(list) - 1);
		answer_json(q, 200,
			json_pack("{ss ss si si sI sI so sO}", "sandboxId", record.id, "range",
				range, "stepSeconds", (int)(metrics.step_ms / 1000), "vcpu",
				(int)record.vcpu, "memoryLimitBytes",
				(json_int_t)record.memory_mib << 20, "diskLimitBytes",
				(json_int_t)record.disk_mib << 20, "points", list, "latest",
				latest ? latest : json_null()));
	}
	free(metrics.samples);
	store_sandbox_fini(&record);
}
