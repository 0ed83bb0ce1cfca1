/* SPDX-License-Identifier: Apache-2.0 - who a key is, what it may, what was used. */
#include "api/internal.h"

void account_me(struct request *q)
{
	answer_json(q, 200,
		json_pack("{ss ss ss s{ss ss ss sb so}}", "kind", "key", "orgName", "sealmark",
			"id", q->key.id, "key", "id", q->key.id, "name", q->key.name, "access",
			q->key.access, "accountWide", q->key.account, "createdAt",
			api_time(q->key.created_ms)));
}

static void add_limit(json_t *rows, const char *limit, const char *label, const char *unit,
	uint64_t most, uint64_t used)
{
	if (most)
		json_array_append_new(
			rows, json_pack("{ss ss ss sI sI}", "limit", limit, "label", label, "unit",
				      unit, "max", (json_int_t)most, "used", (json_int_t)used));
}

/* every ceiling that there is, with what is taken of it now */
static json_t *limit_rows(const struct store_quota *most, const struct store_quota *used)
{
	json_t *rows = json_array();

	add_limit(rows, "sandbox.count", "Sandboxes at once", "count", most->sandboxes,
		used->sandboxes);
	add_limit(rows, "sandbox.memory_mib", "Memory of all sandboxes", "mib", most->memory_mib,
		used->memory_mib);
	add_limit(rows, "sandbox.vcpu", "CPUs of all sandboxes", "count", most->vcpu, used->vcpu);
	add_limit(rows, "key.sandbox.count", "Sandboxes of this key at once", "count",
		most->key_sandboxes, used->key_sandboxes);
	add_limit(rows, "key.sandbox.memory_mib", "Memory of this key's sandboxes", "mib",
		most->key_memory_mib, used->key_memory_mib);
	add_limit(rows, "key.sandbox.vcpu", "CPUs of this key's sandboxes", "count", most->key_vcpu,
		used->key_vcpu);
	return rows;
}

/* Nothing is metered yet: there is no money to limit, and null says so. */
void account_limits(struct request *q)
{
	struct store_quota used;
	struct error err = {0};

	if (store_sandbox_totals(q->server->store, q->key.id, &used, &err)) {
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200,
		json_pack("{ss s{sn ss sn} sn sn so}", "access", q->key.access, "daily",
			"limitMicros", "usedMicros", "0", "remainingMicros", "trial", "credit",
			"account", limit_rows(&q->server->quota, &used)));
}

void account_usage(struct request *q)
{
	answer_json(q, 200,
		json_pack("{ss ss ss ss ss sn s[]}", "credited", "0", "spent", "0", "held", "0",
			"expired", "0", "available", "0", "trial", "resources"));
}
