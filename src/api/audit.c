/* SPDX-License-Identifier: Apache-2.0 - the audit log: who did what, over HTTP. */
#include "api/people.h"

#include "base/log.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

struct store_audit audit_of(
	struct request *q, const char *action, const char *target, const char *detail)
{
	if (!q->who[0]) {
		if (q->person)
			text_copy(q->who, sizeof(q->who), "owner");
		else if (q->key.id[0])
			text_format(q->who, sizeof(q->who), "key:%s", q->key.id);
	}
	return (struct store_audit){.time_ms = api_now_ms(),
		.who = q->who[0] ? q->who : "stranger",
		.action = action,
		.target = target,
		.detail = detail,
		.address = q->address,
		.request = q->id};
}

char *audit_name(const char *name)
{
	json_t *detail = json_pack("{ss*}", "name", name);
	char *text = json_dumps(detail, JSON_COMPACT);

	json_decref(detail);
	return text;
}

void audit_done(struct request *q, const char *action, const char *target, const char *name)
{
	char *text = audit_name(name);
	const struct store_audit audit = audit_of(q, action, target, text);
	struct error err = {0};

	if (store_audit_add(q->server->store, &audit, &err))
		log_error("%s %s is not in the audit log: %s", action, target, error_message(&err));
	free(text);
}

static int add_entry(void *context, const struct store_audit *audit)
{
	json_t *detail = json_loads(audit->detail, 0, NULL);

	return json_array_append_new(context,
		json_pack("{sI so ss ss ss so ss ss}", "seq", (json_int_t)audit->seq, "time",
			api_time(audit->time_ms), "who", audit->who, "action", audit->action,
			"target", audit->target, "detail", detail ? detail : json_object(),
			"address", audit->address, "requestId", audit->request));
}

void audit_list(struct request *q)
{
	const int64_t limit = request_integer(q->query, "limit", 50);
	const json_t *last;
	json_t *list = json_array();
	struct error err = {0};
	char cursor[24] = "";
	uint64_t before = 0;

	if (text_u64(request_text(q->query, "cursor", "0"), &before) || before > INT64_MAX) {
		json_decref(list);
		answer_error(q, API_INVALID_REQUEST, NULL, "cursor is none of this list.");
		return;
	}
	if (store_audit_each(q->server->store, request_text(q->query, "action", NULL),
		    (int64_t)before, (uint32_t)limit, add_entry, list, &err)) {
		json_decref(list);
		answer_failure(q, &err);
		return;
	}
	last = json_array_get(list, json_array_size(list) - 1);
	if (json_array_size(list) == (size_t)limit && request_integer(last, "seq", 0) > 1)
		snprintf(
			cursor, sizeof(cursor), "%lld", (long long)request_integer(last, "seq", 0));
	answer_json(q, 200,
		json_pack("{so so}", "data", list, "nextCursor",
			cursor[0] ? json_string(cursor) : json_null()));
}
