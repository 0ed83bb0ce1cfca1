/* SPDX-License-Identifier: Apache-2.0 - the store of the platform: holds and charges. */
#ifndef SEALMARK_STORE_MONEY_H
#define SEALMARK_STORE_MONEY_H

#include "base/error.h"
#include "base/id.h"
#include "meter/meter.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * A sandbox that can run has one hold: what its lease can cost at most. The hold comes into the
 * store in the transaction that adds the sandbox, after the payer's limit was checked in it, so
 * creates at the same time cannot promise the same money twice. What was measured is written to the
 * hold now and then (store_money_seen) and once more at the end. A charge is made in the
 * transaction that ends the lease: that of store_sandbox_stopped(), which happens once however
 * often it is tried, or of store_money_renew(), which charges the old lease and holds for the new.
 * Charges have the sandbox and the number of its lease as their key, and are never changed.
 *
 * A payer's limit counts the charges of the last 24 hours and the holds that are open.
 */
struct store;

#define STORE_DAY_MS     INT64_C(86400000)
#define STORE_OVER_LIMIT (-EUSERS) /* more than the payer's limit would be promised */
#define STORE_NO_CAP     (-1)

/* What a new sandbox is charged by, and held for. */
struct store_terms {
	struct meter_terms meter;
	int64_t cap_micros; /* of its whole life; STORE_NO_CAP */
	int64_t lease_ms;
};

/* What is known of a sandbox's money; all zero when nothing is charged for it. */
struct store_money {
	struct meter_terms terms;
	int64_t cap_micros;
	bool open;              /* there is a hold */
	bool bounded;           /* the cap ends the lease earlier than the lease itself */
	int64_t held_micros;    /* of this lease */
	int64_t charged_micros; /* settled, of the leases before */
	int64_t until_ms;       /* the end of the lease that is held for; 0: not ready yet */
	struct meter_use settled, seen;
	int64_t seen_ms; /* when that was measured; 0: never */
};

/* Charged so far, with what has run up since the last charge. `running`: it runs at now_ms. */
int64_t store_money_charged(const struct store_money *money, bool running, int64_t now_ms);

/* It is ready: what its machine has used so far is not its payer's, and what an earlier machine of
 * it has used stays used. */
int store_money_begin(struct store *store, const char *sandbox, uint64_t cpu_us,
	uint64_t running_us, struct error *err);
/* Measured by the host, from the start of its machine; never goes back. */
int store_money_seen(struct store *store, const char *sandbox, uint64_t cpu_us, uint64_t running_us,
	int64_t now_ms, struct error *err);
/* Charge for the lease so far and hold for one from now to `until_ms`, with a new cap of its whole
 * life. STORE_OVER_LIMIT: nothing is changed; -ESTALE: it has ended. */
int store_money_renew(struct store *store, const char *sandbox, int64_t until_ms,
	int64_t cap_micros, int64_t now_ms, struct error *err);
/* The cap is what ends its lease, or is not. */
int store_money_bound(struct store *store, const char *sandbox, bool bounded, struct error *err);
/* The reason to be recorded when it is stopped next (a word of ours). */
int store_money_stop_for(
	struct store *store, const char *sandbox, const char *reason, struct error *err);

struct store_spending {
	int64_t limit_micros;   /* STORE_NO_LIMIT */
	int64_t charged_micros; /* in the last 24 hours */
	int64_t held_micros;
	int64_t resets_ms; /* when `more` could be held as well, if nothing else is spent; 0: when
			    * sandboxes end */
};
int store_spending(struct store *store, const char *payer, int64_t more, int64_t now_ms,
	struct store_spending *out, struct error *err);

/* Sandboxes that must not go on: their key is revoked ("authority_revoked"), or it has spent more
 * (charges and what has run up, not holds) than a limit that was set later ("spending_limit"). */
int store_money_each_over(struct store *store, int64_t now_ms,
	int (*each)(void *context, const char *sandbox, const char *reason), void *context,
	struct error *err);

/* --- what was used --- */
enum store_usage_group { STORE_BY_SANDBOX, STORE_BY_DAY, STORE_BY_KEY, STORE_BY_LABEL };

struct store_usage_filter {
	const char *payer;           /* NULL: everybody */
	int64_t since_ms, before_ms; /* settled in [since, before) */
	enum store_usage_group group;
	const char *label; /* STORE_BY_LABEL: only of this name; NULL: every label */
	uint32_t most;     /* rows; 0: all */
};

struct store_usage {
	const char *key;  /* id of the sandbox or key, "2026-11-29", "course:cs101" */
	const char *name; /* of the sandbox or key, or "" */
	int64_t sandboxes, micros;
	uint64_t cpu_us, billed_cpu_us, running_us;
	uint64_t memory_mib_ms; /* memory times time */
};
int store_usage_each(struct store *store, const struct store_usage_filter *filter,
	int (*each)(void *context, const struct store_usage *usage), void *context,
	struct error *err);

/* One charge, as it is in the store. */
struct store_charge {
	int64_t seq;
	char sandbox[ID_SIZE], payer[ID_SIZE];
	const char *name; /* of the sandbox, or "" */
	const char *labels;
	int64_t lease, micros, settled_ms;
	struct meter_terms terms;
	uint64_t cpu_us, billed_cpu_us, running_us;
	bool final; /* its sandbox has ended */
};
/* In the order in which they were made, after `after`. */
int store_charge_each(struct store *store, const char *payer, int64_t since_ms, int64_t before_ms,
	int64_t after, uint32_t limit,
	int (*each)(void *context, const struct store_charge *charge), void *context,
	struct error *err);
/* Of all time. */
int store_charge_sum(
	struct store *store, const char *payer, int64_t *charged, int64_t *held, struct error *err);

#endif
