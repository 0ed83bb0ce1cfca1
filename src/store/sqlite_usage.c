/* SPDX-License-Identifier: Apache-2.0 - what was charged, read back: sums, rows, who is over. */
#include "store/money_internal.h"

#include "base/buffer.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* the end of the rows is no failure */
static int rows_end(int r, struct error *err)
{
	if (r != -ENOENT)
		return r;
	if (err)
		*err = (struct error){0};
	return 0;
}

/* Sums over all charges take a while. They have a connection of their own, which reads what is
 * committed, so that nobody waits for them. */
static int open_reader(const struct store *store, struct store *out, struct error *err)
{
	int r;

	*out = (struct store){.path = store->path};
	r = sqlite3_open_v2(
		store->path, &out->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_busy_timeout(out->db, 5000);
	if (r == SQLITE_OK)
		return 0;
	r = store_error(out, r, err);
	sqlite3_close_v2(out->db);
	return r;
}

static const char *text_of(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text : "";
}

#define SUMS                                                                                       \
	" count(DISTINCT charge.sandbox), sum(micros), sum(cpu_us), sum(billed_cpu_us),"           \
	" sum(running_us), sum(running_us / 1000 * charge.memory_mib)"
#define IN_RANGE                                                                                   \
	" WHERE (?1 IS NULL OR payer = ?1) AND settled_ms >= ?2 AND settled_ms < ?3"               \
	" AND (?4 IS NULL OR ?4 = ?4)"

/* what comes first is the group's key, then its name */
static const char *const group_sql[] = {
	[STORE_BY_SANDBOX] =
		"SELECT charge.sandbox, coalesce(sandbox.name, '')," SUMS
		" FROM charge LEFT JOIN sandbox ON sandbox.id = charge.sandbox" IN_RANGE
		" GROUP BY charge.sandbox ORDER BY max(charge.seq) DESC LIMIT ?5",
	[STORE_BY_DAY] = "SELECT strftime('%Y-%m-%d', settled_ms / 1000, 'unixepoch'), ''," SUMS
			 " FROM charge" IN_RANGE " GROUP BY 1 ORDER BY 1 LIMIT ?5",
	[STORE_BY_KEY] = "SELECT payer, coalesce(api_key.name, '')," SUMS
			 " FROM charge LEFT JOIN api_key ON api_key.id = payer" IN_RANGE
			 " GROUP BY payer ORDER BY 2, 1 LIMIT ?5",
	[STORE_BY_LABEL] = "SELECT label.name || ':' || label.value, ''," SUMS
			   " FROM charge JOIN label ON label.sandbox = charge.sandbox" IN_RANGE
			   " AND (?4 IS NULL OR label.name = ?4) GROUP BY 1 ORDER BY 1 LIMIT ?5",
};

int store_usage_each(struct store *store, const struct store_usage_filter *f,
	int (*each)(void *context, const struct store_usage *usage), void *context,
	struct error *err)
{
	struct store_usage one;
	struct store reader;
	sqlite3_stmt *s;
	int r = open_reader(store, &reader, err);

	if (r)
		return r;
	s = store_prepare(&reader, err, group_sql[f->group], "siisi", f->payer, f->since_ms,
		f->before_ms, f->label, f->most ? (int64_t)f->most : INT64_C(-1));
	while (!r && (r = store_row(&reader, s, err)) == 0) {
		one = (struct store_usage){.key = text_of(s, 0),
			.name = text_of(s, 1),
			.sandboxes = sqlite3_column_int64(s, 2),
			.micros = sqlite3_column_int64(s, 3),
			.cpu_us = (uint64_t)sqlite3_column_int64(s, 4),
			.billed_cpu_us = (uint64_t)sqlite3_column_int64(s, 5),
			.running_us = (uint64_t)sqlite3_column_int64(s, 6),
			.memory_mib_ms = (uint64_t)sqlite3_column_int64(s, 7)};
		r = each(context, &one);
	}
	store_done(store, s);
	sqlite3_close_v2(reader.db);
	return rows_end(r, err);
}

int store_charge_each(struct store *store, const char *payer, int64_t since_ms, int64_t before_ms,
	int64_t after, uint32_t limit,
	int (*each)(void *context, const struct store_charge *charge), void *context,
	struct error *err)
{
	struct store_charge one;
	struct store reader;
	sqlite3_stmt *s;
	int r = open_reader(store, &reader, err);

	if (r)
		return r;
	s = store_prepare(&reader, err,
		"SELECT charge.seq, charge.sandbox, payer, sandbox.name, sandbox.labels, lease,"
		" micros, settled_ms, cpu_price, memory_price, charge.vcpu, charge.memory_mib,"
		" cpu_us, billed_cpu_us, running_us, coalesce(sandbox.state, 3) = 3"
		" FROM charge LEFT JOIN sandbox ON sandbox.id = charge.sandbox"
		" WHERE charge.seq > ?1 AND (?2 IS NULL OR payer = ?2)"
		" AND settled_ms >= ?3 AND settled_ms < ?4 ORDER BY charge.seq LIMIT ?5",
		"isiii", after, payer, since_ms, before_ms, (int64_t)limit);
	while (!r && (r = store_row(&reader, s, err)) == 0) {
		one = (struct store_charge){.seq = sqlite3_column_int64(s, 0),
			.name = text_of(s, 3),
			.labels = text_of(s, 4),
			.lease = sqlite3_column_int64(s, 5),
			.micros = sqlite3_column_int64(s, 6),
			.settled_ms = sqlite3_column_int64(s, 7),
			.terms = {.prices = {(uint64_t)sqlite3_column_int64(s, 8),
					  (uint64_t)sqlite3_column_int64(s, 9)},
				.vcpu = (uint32_t)sqlite3_column_int64(s, 10),
				.memory_mib = (uint32_t)sqlite3_column_int64(s, 11)},
			.cpu_us = (uint64_t)sqlite3_column_int64(s, 12),
			.billed_cpu_us = (uint64_t)sqlite3_column_int64(s, 13),
			.running_us = (uint64_t)sqlite3_column_int64(s, 14),
			.final = sqlite3_column_int(s, 15) != 0};
		text_copy(one.sandbox, sizeof(one.sandbox), text_of(s, 1));
		text_copy(one.payer, sizeof(one.payer), text_of(s, 2));
		r = each(context, &one);
	}
	store_done(store, s);
	sqlite3_close_v2(reader.db);
	return rows_end(r, err);
}

int store_charge_sum(
	struct store *store, const char *payer, int64_t *charged, int64_t *held, struct error *err)
{
	struct store reader;
	sqlite3_stmt *s;
	int r = open_reader(store, &reader, err);

	if (r)
		return r;
	s = store_prepare(&reader, err,
		"SELECT (SELECT coalesce(sum(micros), 0) FROM charge"
		"  WHERE ?1 IS NULL OR payer = ?1),"
		" (SELECT coalesce(sum(held_micros), 0) FROM hold"
		"  WHERE open = 1 AND (?1 IS NULL OR payer = ?1))",
		"s", payer);
	r = store_row(&reader, s, err);
	if (!r) {
		*charged = sqlite3_column_int64(s, 0);
		*held = sqlite3_column_int64(s, 1);
	}
	store_done(store, s);
	sqlite3_close_v2(reader.db);
	return r;
}

/* --- who is over --- */

struct over {
	char sandbox[ID_SIZE], payer[ID_SIZE];
	bool revoked;
	int64_t limit, live; /* what has run up since its last charge */
};

struct overs {
	struct over *list;
	size_t count;
};

static int add_over(struct overs *overs, sqlite3_stmt *s, int64_t now_ms)
{
	struct over *more = realloc(overs->list, (overs->count + 1) * sizeof(*more)), *one;
	struct store_money money;

	if (!more)
		return -ENOMEM;
	overs->list = more;
	one = &more[overs->count++];
	store_money_take(s, 0, &money);
	*one = (struct over){.revoked = sqlite3_column_int(s, STORE_MONEY_COLUMN_COUNT + 2) != 0,
		.limit = sqlite3_column_type(s, STORE_MONEY_COLUMN_COUNT + 3) == SQLITE_NULL
				 ? STORE_NO_LIMIT
				 : sqlite3_column_int64(s, STORE_MONEY_COLUMN_COUNT + 3),
		.live = store_money_charged(&money, false, now_ms) - money.charged_micros};
	text_copy(one->sandbox, sizeof(one->sandbox), text_of(s, STORE_MONEY_COLUMN_COUNT));
	text_copy(one->payer, sizeof(one->payer), text_of(s, STORE_MONEY_COLUMN_COUNT + 1));
	return 0;
}

static int gather(struct store *store, struct overs *overs, int64_t now_ms, struct error *err)
{
	sqlite3_stmt *s;
	int r = 0;

	pthread_mutex_lock(&store->lock);
	s = store_prepare(store, err,
		"SELECT " STORE_MONEY_COLUMNS ", sandbox.id, payer, revoked_ms > 0,"
		" daily_limit_micros FROM hold JOIN sandbox ON sandbox.id = hold.sandbox"
		" JOIN api_key ON api_key.id = payer"
		" WHERE open = 1 AND (revoked_ms > 0 OR daily_limit_micros IS NOT NULL)"
		" ORDER BY payer",
		"");
	while (!r && (r = store_row(store, s, err)) == 0)
		r = add_over(overs, s, now_ms);
	store_done(store, s);
	pthread_mutex_unlock(&store->lock);
	return rows_end(r, err);
}

int store_money_each_over(struct store *store, int64_t now_ms,
	int (*each)(void *context, const char *sandbox, const char *reason), void *context,
	struct error *err)
{
	struct store_spending now = {0};
	struct overs overs = {0};
	int64_t live = 0;
	size_t next;
	int r = gather(store, &overs, now_ms, err);

	for (size_t i = 0; i < overs.count && !r; i = next) {
		const struct over *first = &overs.list[i];

		live = 0;
		for (next = i;
			next < overs.count && strcmp(overs.list[next].payer, first->payer) == 0;
			next++)
			live += overs.list[next].live;
		if (!first->revoked)
			r = store_spending(store, first->payer, 0, now_ms, &now, err);
		for (size_t k = i; k < next && !r; k++) {
			if (first->revoked)
				r = each(context, overs.list[k].sandbox, "authority_revoked");
			else if (now.charged_micros + live > first->limit)
				r = each(context, overs.list[k].sandbox, "spending_limit");
		}
	}
	free(overs.list);
	return r;
}
