/* SPDX-License-Identifier: Apache-2.0 - holds and charges in SQLite. */
#include "store/money_internal.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* --- one sandbox's money --- */

/* the columns of STORE_MONEY_COLUMNS, from `at` */
void store_money_take(sqlite3_stmt *s, int at, struct store_money *out)
{
	*out = (struct store_money){0};
	if (sqlite3_column_type(s, at) == SQLITE_NULL)
		return;
	out->open = sqlite3_column_int(s, at) != 0;
	out->bounded = sqlite3_column_int(s, at + 1) != 0;
	out->held_micros = sqlite3_column_int64(s, at + 2);
	out->charged_micros = sqlite3_column_int64(s, at + 3);
	out->until_ms = sqlite3_column_int64(s, at + 4);
	out->cap_micros = sqlite3_column_int64(s, at + 5);
	out->terms = (struct meter_terms){.prices = {(uint64_t)sqlite3_column_int64(s, at + 6),
						  (uint64_t)sqlite3_column_int64(s, at + 7)},
		.floor_millis = (uint32_t)sqlite3_column_int64(s, at + 8),
		.reserved = sqlite3_column_int(s, at + 9) != 0,
		.vcpu = (uint32_t)sqlite3_column_int64(s, at + 10),
		.memory_mib = (uint32_t)sqlite3_column_int64(s, at + 11)};
	out->settled = (struct meter_use){(uint64_t)sqlite3_column_int64(s, at + 12),
		(uint64_t)sqlite3_column_int64(s, at + 13)};
	out->seen = (struct meter_use){(uint64_t)sqlite3_column_int64(s, at + 14),
		(uint64_t)sqlite3_column_int64(s, at + 15)};
	out->seen_ms = sqlite3_column_int64(s, at + 16);
}

int64_t store_money_charged(const struct store_money *m, bool running, int64_t now_ms)
{
	struct meter_use use = m->seen;
	int64_t carry = 0;

	if (!m->open || !m->until_ms)
		return m->charged_micros;
	if (running && m->seen_ms && now_ms > m->seen_ms)
		use.running_us += 1000 * (uint64_t)(now_ms - m->seen_ms);
	return m->charged_micros +
	       lesser(meter_charge(&m->terms, &m->settled, &use, &carry), m->held_micros);
}

/* The money of one sandbox, whose hold is open, with its lease's number; in a transaction. */
static int get_open(struct store *store, const char *sandbox, struct store_money *out, char *payer,
	int64_t *lease, struct error *err)
{
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT " STORE_MONEY_COLUMNS ", payer, lease"
		" FROM hold JOIN sandbox ON sandbox.id = hold.sandbox"
		" WHERE hold.sandbox = ? AND open = 1",
		"s", sandbox);
	int r = store_row(store, s, err);

	if (!r) {
		store_money_take(s, 0, out);
		text_copy(payer, ID_SIZE,
			(const char *)sqlite3_column_text(s, STORE_MONEY_COLUMN_COUNT));
		*lease = sqlite3_column_int64(s, STORE_MONEY_COLUMN_COUNT + 1);
	}
	store_done(store, s);
	return r;
}

/* --- limits --- */

static int one_number(
	struct store *store, sqlite3_stmt *s, int64_t *out, bool *null, struct error *err)
{
	int r = store_row(store, s, err);

	if (!r) {
		*out = sqlite3_column_int64(s, 0);
		*null = sqlite3_column_type(s, 0) == SQLITE_NULL;
	}
	store_done(store, s);
	return r;
}

static int spending(struct store *store, const char *payer, int64_t now_ms,
	struct store_spending *out, struct error *err)
{
	bool none = true;
	int r;

	*out = (struct store_spending){.limit_micros = STORE_NO_LIMIT};
	r = one_number(store,
		store_prepare(store, err, "SELECT daily_limit_micros FROM api_key WHERE id = ?",
			"s", payer),
		&out->limit_micros, &none, err);
	if (r && r != -ENOENT)
		return r;
	if (r || none) /* not a key, or one without a limit */
		out->limit_micros = STORE_NO_LIMIT;
	r = one_number(store,
		store_prepare(store, err,
			"SELECT coalesce(sum(micros), 0) FROM charge"
			" WHERE payer = ? AND settled_ms > ?",
			"si", payer, now_ms - STORE_DAY_MS),
		&out->charged_micros, &none, err);
	if (!r)
		r = one_number(store,
			store_prepare(store, err,
				"SELECT coalesce(sum(held_micros), 0) FROM hold"
				" WHERE payer = ? AND open = 1",
				"s", payer),
			&out->held_micros, &none, err);
	return r;
}

/* When the oldest charges have left the 24 hours, so that `more` fits. */
static int find_reset(struct store *store, const char *payer, int64_t more, int64_t now_ms,
	struct store_spending *at, struct error *err)
{
	int64_t over = at->charged_micros + at->held_micros + more - at->limit_micros;
	sqlite3_stmt *s;
	int r = 0;

	if (at->limit_micros == STORE_NO_LIMIT || over <= 0 || over > at->charged_micros)
		return 0;
	s = store_prepare(store, err,
		"SELECT settled_ms, micros FROM charge WHERE payer = ? AND settled_ms > ?"
		" ORDER BY settled_ms",
		"si", payer, now_ms - STORE_DAY_MS);
	while (over > 0 && (r = store_row(store, s, err)) == 0) {
		over -= sqlite3_column_int64(s, 1);
		at->resets_ms = sqlite3_column_int64(s, 0) + STORE_DAY_MS;
	}
	store_done(store, s);
	return r;
}

int store_spending(struct store *store, const char *payer, int64_t more, int64_t now_ms,
	struct store_spending *out, struct error *err)
{
	int r;

	pthread_mutex_lock(&store->lock);
	r = spending(store, payer, now_ms, out, err);
	if (!r)
		r = find_reset(store, payer, more, now_ms, out, err);
	pthread_mutex_unlock(&store->lock);
	return r;
}

/* May `more` be held? In the transaction that holds it. */
static int check_limit(
	struct store *store, const char *payer, int64_t more, int64_t now_ms, struct error *err)
{
	struct store_spending now;
	int r = spending(store, payer, now_ms, &now, err);
	int64_t used = now.charged_micros + now.held_micros;

	if (!r && now.limit_micros != STORE_NO_LIMIT &&
		(used > now.limit_micros || more > now.limit_micros - used))
		r = error_set(err, STORE_OVER_LIMIT,
			"%lld microdollars are needed, and %lld of the %lld of a day are spent or "
			"held",
			(long long)more, (long long)used, (long long)now.limit_micros);
	return r;
}

/* --- holds --- */

static int64_t hold_of(const struct meter_terms *terms, int64_t lease_ms, int64_t cap,
	int64_t charged, bool *bounded)
{
	int64_t whole = meter_hold(terms, 1000 * (uint64_t)lease_ms), left;

	*bounded = false;
	if (cap == STORE_NO_CAP)
		return whole;
	left = cap > charged ? cap - charged : 0;
	*bounded = left < whole;
	return *bounded ? left : whole;
}

int store_hold_open(struct store *store, const char *sandbox, const char *payer,
	const struct store_terms *terms, int64_t now_ms, struct error *err)
{
	const struct meter_terms *m = &terms->meter;
	bool bounded;
	int64_t held = hold_of(m, terms->lease_ms, terms->cap_micros, 0, &bounded);
	int r = check_limit(store, payer, held, now_ms, err);

	return r ? r
		 : store_execute(store, err,
			   "INSERT INTO hold (sandbox, payer, bounded, held_micros, cap_micros,"
			   " cpu_price, memory_price, floor_millis, reserved)"
			   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			   "ssiiiiiii", sandbox, payer, (int64_t)bounded, held, terms->cap_micros,
			   (int64_t)m->prices.cpu_micros, (int64_t)m->prices.memory_micros,
			   (int64_t)m->floor_millis, (int64_t)m->reserved);
}

/* What rounding has left of the payer's charges. */
static int get_carry(struct store *store, const char *payer, int64_t *carry, struct error *err)
{
	bool null;
	int r;

	*carry = 0;
	r = one_number(store,
		store_prepare(store, err, "SELECT carry FROM purse WHERE payer = ?", "s", payer),
		carry, &null, err);
	return r == -ENOENT ? 0 : r;
}

/* What a charge may be at most: a lease that ended late is not the payer's fault; one that goes on
 * without a hold of its own (it woke by itself) is charged for all the same. */
static int64_t charge_most(const struct store_money *m, bool ends)
{
	int64_t left = m->cap_micros > m->charged_micros ? m->cap_micros - m->charged_micros : 0;

	return ends ? m->held_micros : m->cap_micros == STORE_NO_CAP ? METER_MOST : left;
}

/* Charge for what has run up in the lease; the hold stays as it is. *micros: how much. */
static int charge_lease(struct store *store, const char *sandbox, const char *payer, int64_t lease,
	const struct store_money *m, bool ends, int64_t now_ms, int64_t *micros, struct error *err)
{
	uint64_t billed = meter_cpu_us(&m->terms, &m->seen) - meter_cpu_us(&m->terms, &m->settled);
	int64_t most = charge_most(m, ends), carry, left;
	int r = get_carry(store, payer, &carry, err);

	if (r)
		return r;
	left = carry;
	*micros = meter_charge(&m->terms, &m->settled, &m->seen, &left);
	if (*micros > most) {
		*micros = most;
		left = carry;
	}
	r = store_execute(store, err,
		"INSERT INTO charge (sandbox, lease, payer, micros, cpu_us, billed_cpu_us,"
		" running_us, vcpu, memory_mib, cpu_price, memory_price, settled_ms)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"sisiiiiiiiii", sandbox, lease, payer, *micros,
		(int64_t)(m->seen.cpu_us - m->settled.cpu_us), (int64_t)billed,
		(int64_t)(m->seen.running_us - m->settled.running_us), (int64_t)m->terms.vcpu,
		(int64_t)m->terms.memory_mib, (int64_t)m->terms.prices.cpu_micros,
		(int64_t)m->terms.prices.memory_micros, now_ms);
	if (!r)
		r = store_execute(store, err,
			"INSERT INTO purse (payer, carry) VALUES (?1, ?2)"
			" ON CONFLICT (payer) DO UPDATE SET carry = ?2",
			"si", payer, left);
	return r;
}

int store_hold_close(struct store *store, const char *sandbox, int64_t now_ms, char *reason,
	size_t size, struct error *err)
{
	char payer[ID_SIZE];
	struct store_money m;
	int64_t lease, micros = 0;
	sqlite3_stmt *s;
	int r = get_open(store, sandbox, &m, payer, &lease, err);

	if (r)
		return r == -ENOENT ? 0 : r; /* nothing is charged for it */
	s = store_prepare(store, err, "SELECT stop_for FROM hold WHERE sandbox = ?", "s", sandbox);
	r = store_row(store, s, err);
	if (!r && sqlite3_column_bytes(s, 0) && strcmp(reason, "requested") == 0)
		text_copy(reason, size, (const char *)sqlite3_column_text(s, 0));
	else if (!r && m.bounded && strcmp(reason, "lease_expired") == 0)
		text_copy(reason, size, "lifetime_cap");
	store_done(store, s);
	/* what was never ready costs nothing */
	if (!r && m.until_ms)
		r = charge_lease(store, sandbox, payer, lease, &m, true, now_ms, &micros, err);
	return r ? r
		 : store_execute(store, err,
			   "UPDATE hold SET open = 0, held_micros = 0,"
			   " charged_micros = charged_micros + ?, settled_cpu_us = cpu_us,"
			   " settled_running_us = running_us WHERE sandbox = ?",
			   "is", micros, sandbox);
}

int store_hold_again(struct store *store, const char *sandbox, int64_t lease_ms, int64_t now_ms,
	struct error *err)
{
	char none[2] = "", payer[ID_SIZE];
	struct store_money m;
	bool bounded;
	int64_t held;
	sqlite3_stmt *s;
	int r = store_hold_close(store, sandbox, now_ms, none, sizeof(none), err);

	if (r)
		return r;
	s = store_prepare(store, err,
		"SELECT " STORE_MONEY_COLUMNS ", payer"
		" FROM hold JOIN sandbox ON sandbox.id = hold.sandbox WHERE hold.sandbox = ?",
		"s", sandbox);
	r = store_row(store, s, err);
	if (!r) {
		store_money_take(s, 0, &m);
		text_copy(payer, ID_SIZE,
			(const char *)sqlite3_column_text(s, STORE_MONEY_COLUMN_COUNT));
	}
	store_done(store, s);
	if (r)
		return r == -ENOENT ? 0 : r; /* nothing is charged for it */
	held = hold_of(&m.terms, lease_ms, m.cap_micros, m.charged_micros, &bounded);
	r = check_limit(store, payer, held, now_ms, err);
	return r ? r
		 : store_execute(store, err,
			   "UPDATE hold SET open = 1, lease = lease + 1, until_ms = 0, seen_ms = 0,"
			   " held_micros = ?, bounded = ?, stop_for = '' WHERE sandbox = ?",
			   "iis", held, (int64_t)bounded, sandbox);
}

int store_money_renew(struct store *store, const char *sandbox, int64_t until_ms,
	int64_t cap_micros, int64_t now_ms, struct error *err)
{
	char payer[ID_SIZE];
	struct store_money m;
	int64_t lease, micros = 0, held = 0;
	bool bounded = false;
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = get_open(store, sandbox, &m, payer, &lease, err);
	if (r == -ENOENT)
		r = error_set(err, -ESTALE, "the sandbox has ended");
	if (!r)
		r = charge_lease(store, sandbox, payer, lease, &m, false, now_ms, &micros, err);
	if (!r)
		held = hold_of(&m.terms, until_ms > now_ms ? until_ms - now_ms : 0, cap_micros,
			m.charged_micros + micros, &bounded);
	if (!r)
		r = store_execute(store, err,
			"UPDATE hold SET lease = lease + 1, charged_micros = charged_micros + ?,"
			" held_micros = 0, settled_cpu_us = cpu_us, settled_running_us = "
			"running_us,"
			" until_ms = ?, cap_micros = ?, bounded = ? WHERE sandbox = ?",
			"iiiis", micros, until_ms, cap_micros, (int64_t)bounded, sandbox);
	if (!r)
		r = check_limit(store, payer, held, now_ms, err);
	if (!r)
		r = store_execute(store, err, "UPDATE hold SET held_micros = ? WHERE sandbox = ?",
			"is", held, sandbox);
	return store_end(store, r, err);
}

int store_money_begin(struct store *store, const char *sandbox, uint64_t cpu_us,
	uint64_t running_us, struct error *err)
{
	int r = store_begin(store, false, err); /* the change of state that follows syncs it */

	if (r)
		return r;
	r = store_execute(store, err,
		/* what an earlier machine of it has used stays used */
		"UPDATE hold SET base_cpu_us = ? - cpu_us, base_running_us = ? - running_us"
		" WHERE sandbox = ? AND open = 1 AND until_ms = 0",
		"iis", (int64_t)cpu_us, (int64_t)running_us, sandbox);
	return store_end(store, r, err);
}

int store_money_seen(struct store *store, const char *sandbox, uint64_t cpu_us, uint64_t running_us,
	int64_t now_ms, struct error *err)
{
	int r = store_begin(store, false, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE hold SET cpu_us = max(cpu_us, ? - base_cpu_us),"
		" running_us = max(running_us, ? - base_running_us), seen_ms = ?"
		" WHERE sandbox = ? AND open = 1",
		"iiis", (int64_t)cpu_us, (int64_t)running_us, now_ms, sandbox);
	return store_end(store, r, err);
}

int store_money_bound(struct store *store, const char *sandbox, bool bounded, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err, "UPDATE hold SET bounded = ? WHERE sandbox = ? AND open = 1",
		"is", (int64_t)bounded, sandbox);
	return store_end(store, r, err);
}

int store_money_stop_for(
	struct store *store, const char *sandbox, const char *reason, struct error *err)
{
	int r = store_begin(store, true, err);

	if (r)
		return r;
	r = store_execute(store, err,
		"UPDATE hold SET stop_for = ? WHERE sandbox = ? AND open = 1 AND stop_for = ''",
		"ss", reason, sandbox);
	return store_end(store, r, err);
}
