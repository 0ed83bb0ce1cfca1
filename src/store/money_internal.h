/* SPDX-License-Identifier: Apache-2.0 - money within the transactions of sandboxes. */
#ifndef SEALMARK_STORE_MONEY_INTERNAL_H
#define SEALMARK_STORE_MONEY_INTERNAL_H

#include "store/platform.h"
#include "store/sqlite_internal.h"

/* of hold beside sandbox */
#define STORE_MONEY_COLUMNS                                                                        \
	"open, bounded, held_micros, charged_micros, until_ms, cap_micros, cpu_price,"             \
	" memory_price, floor_millis, reserved, vcpu, memory_mib, settled_cpu_us,"                 \
	" settled_running_us, cpu_us, running_us, seen_ms"
#define STORE_MONEY_COLUMN_COUNT 17

void store_money_take(sqlite3_stmt *statement, int column, struct store_money *out);

/* In the transaction that adds a sandbox. STORE_OVER_LIMIT. */
int store_hold_open(struct store *store, const char *sandbox, const char *payer,
	const struct store_terms *terms, int64_t now_ms, struct error *err);
/* In the transaction that records its end. `reason` (size bytes) may become one of money's. */
int store_hold_close(struct store *store, const char *sandbox, int64_t now_ms, char *reason,
	size_t size, struct error *err);

/* In the transaction that starts it anew: its lease so far is charged for, the next held for. */
int store_hold_again(struct store *store, const char *sandbox, int64_t lease_ms, int64_t now_ms,
	struct error *err);

#endif
