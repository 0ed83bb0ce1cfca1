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

static json_t *limit_row(
	const char *limit, const char *label, const char *unit, uint64_t most, uint64_t used)
{
	return json_pack("{ss ss ss sI sI}", "limit", limit, "label", label, "unit", unit, "max",
		(json_int_t)most, "used", (json_int_t)used);
}

/* Nothing is metered yet: there is no money to limit, and null says so. */
void account_limits(struct request *q)
{
	const struct store_quota *most = &q->server->quota;
	struct store_quota used;
	struct error err = {0};

	if (store_sandbox_totals(q->server->store, &used, &err)) {
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200,
		json_pack("{ss s{sn ss sn} sn sn s[oo]}", "access", q->key.access, "daily",
			"limitMicros", "usedMicros", "0", "remainingMicros", "trial", "credit",
			"account",
			limit_row("sandbox.count", "Sandboxes at once", "count", most->sandboxes,
				used.sandboxes),
			limit_row("sandbox.memory_mib", "Memory of all sandboxes", "mib",
				most->memory_mib, used.memory_mib)));
}

void account_usage(struct request *q)
{
	answer_json(q, 200,
		json_pack("{ss ss ss ss ss sn s[]}", "credited", "0", "spent", "0", "held", "0",
			"expired", "0", "available", "0", "trial", "resources"));
}
