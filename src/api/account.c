/* SPDX-License-Identifier: Apache-2.0 - who a key is, what it may, what was used. */
#include "api/internal.h"

void account_me(struct request *q)
{
	answer_json(q, 200,
		json_pack("{ss ss ss s{ss ss ss sb so}}", "kind", q->person ? "person" : "key",
			"orgName", "sealmark", "id", q->key.id, "key", "id", q->key.id, "name",
			q->key.name, "access", q->key.access, "accountWide", q->key.account,
			"createdAt", api_time(q->key.created_ms)));
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
	add_limit(rows, "sandbox.memory_mib", "Memory of all sandboxes and builds", "mib",
		most->memory_mib, used->memory_mib);
	add_limit(rows, "sandbox.vcpu", "CPUs of all sandboxes and builds", "count", most->vcpu,
		used->vcpu);
	add_limit(rows, "sandbox.reserved_vcpu", "CPUs of sandboxes that have their own", "count",
		most->reserved, used->reserved);
	add_limit(rows, "key.sandbox.count", "Sandboxes of this key at once", "count",
		most->key_sandboxes, used->key_sandboxes);
	add_limit(rows, "key.sandbox.memory_mib", "Memory of this key's sandboxes and builds",
		"mib", most->key_memory_mib, used->key_memory_mib);
	add_limit(rows, "key.sandbox.vcpu", "CPUs of this key's sandboxes and builds", "count",
		most->key_vcpu, used->key_vcpu);
	return rows;
}

static json_t *micros(int64_t value)
{
	return json_sprintf("%lld", (long long)value);
}

/* The key's limit of 24 hours: charges and holds count. */
static json_t *daily(const struct store_spending *now)
{
	int64_t used = now->charged_micros + now->held_micros;
	bool limited = now->limit_micros != STORE_NO_LIMIT;

	return json_pack("{so so so so}", "limitMicros",
		limited ? micros(now->limit_micros) : json_null(), "usedMicros", micros(used),
		"heldMicros", micros(now->held_micros), "remainingMicros",
		limited ? micros(now->limit_micros > used ? now->limit_micros - used : 0)
			: json_null());
}

/* There is neither a trial nor credit: who operates the host pays for it. */
void account_limits(struct request *q)
{
	const struct meter_prices *prices = &q->server->options.prices;
	struct store_spending now;
	struct store_quota used;
	struct error err = {0};

	if (store_sandbox_totals(q->server->store, q->key.id, &used, &err) ||
		store_spending(q->server->store, q->key.id, 0, api_now_ms(), &now, &err)) {
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200,
		json_pack("{ss so sn sn so s{so so}}", "access", q->key.access, "daily",
			daily(&now), "trial", "credit", "account",
			limit_rows(&q->server->quota, &used), "prices", "cpuVcpuHourMicros",
			micros((int64_t)prices->cpu_micros), "memoryGibHourMicros",
			micros((int64_t)prices->memory_micros)));
}
