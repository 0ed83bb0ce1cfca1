/* SPDX-License-Identifier: Apache-2.0 - holds, limits and charges in the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/path.h"
#include "base/text.h"
#include "store/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define S   UINT64_C(1000000)
#define NOW INT64_C(1800000000000)

static const struct store_quota plenty = {.sandboxes = 100000, .memory_mib = 1u << 30};

/* 1 vCPU, 2 GiB: 334 microdollars are held for 30 s */
static const struct store_terms submission = {
	.meter = {METER_PRICES_DEFAULT, .vcpu = 1, .memory_mib = 2048, .floor_millis = 50},
	.cap_micros = STORE_NO_CAP,
	.lease_ms = 30000};

struct fixture {
	char directory[64], path[96];
	struct store *store;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct store_api_key key = {
		.id = "k", .name = "n", .access = "full", .daily_limit_micros = STORE_NO_LIMIT};

	text_copy(f->directory, sizeof(f->directory), "/tmp/sealmark-money-XXXXXX");
	if (!mkdtemp(f->directory))
		return -1;
	text_format(f->path, sizeof(f->path), "%s/sealmark.db", f->directory);
	*state = f;
	return store_open(f->path, &f->store, NULL) ||
	       store_key_add(f->store, &key, "hash", NULL, NULL);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->store);
	path_remove_tree(AT_FDCWD, f->directory, NULL);
	free(f);
	return 0;
}

static int add(struct store *store, const char *id, const struct store_terms *terms, int64_t now)
{
	char labels[] = "{\"course\": \"cs1\", \"n\": \"=1+1\"}", spec[] = "{}", taken[ID_SIZE];
	struct store_sandbox record = {.vcpu = terms->meter.vcpu,
		.memory_mib = terms->meter.memory_mib,
		.created_ms = now,
		.expires_ms = now + terms->lease_ms,
		.labels = labels,
		.spec = spec,
		.terms = terms};

	text_copy(record.id, sizeof(record.id), id);
	text_copy(record.owner, sizeof(record.owner), "k");
	return store_sandbox_add(store, &record, &plenty, NULL, taken, NULL);
}

static void runs(struct fixture *f, const char *id, const struct store_terms *terms, int64_t now)
{
	assert_int_equal(add(f->store, id, terms, now), 0);
	assert_int_equal(store_money_begin(f->store, id, 7 * S, 9 * S, NULL), 0);
	assert_int_equal(
		store_sandbox_ready(f->store, id, "uml", now, now + terms->lease_ms, NULL), 0);
}

/* used since it was ready */
static void seen(struct fixture *f, const char *id, uint64_t cpu_us, uint64_t run_us, int64_t now)
{
	assert_int_equal(
		store_money_seen(f->store, id, 7 * S + cpu_us, 9 * S + run_us, now, NULL), 0);
}

static int ends(struct fixture *f, const char *id, const char *reason, int64_t now)
{
	return store_sandbox_stopped(f->store, id, reason, "", now, NULL);
}

static struct store_sandbox record_of(struct fixture *f, const char *id)
{
	struct store_sandbox record;

	assert_int_equal(store_sandbox_get(f->store, NULL, id, &record, NULL), 0);
	return record;
}

static struct store_money money_of(struct fixture *f, const char *id)
{
	struct store_sandbox record = record_of(f, id);
	struct store_money money = record.money;

	store_sandbox_fini(&record);
	return money;
}

static void reason_is(struct fixture *f, const char *id, const char *reason)
{
	struct store_sandbox record = record_of(f, id);

	assert_string_equal(record.stop_reason, reason);
	store_sandbox_fini(&record);
}

static struct store_spending spent(struct fixture *f, int64_t more, int64_t now)
{
	struct store_spending out;

	assert_int_equal(store_spending(f->store, "k", more, now, &out, NULL), 0);
	return out;
}

static void limit(struct fixture *f, int64_t micros)
{
	assert_int_equal(store_key_limit(f->store, "k", micros, NULL, NULL), 0);
}

static int64_t number(struct fixture *f, const char *sql)
{
	sqlite3_stmt *s = NULL;
	sqlite3 *db = NULL;
	int64_t value;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	value = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(db);
	return value;
}

/* --- one sandbox --- */

static void a_lease_is_held_and_settled_once(void **state)
{
	struct fixture *f = *state;

	runs(f, "a", &submission, NOW);
	assert_int_equal(money_of(f, "a").held_micros, 334);
	assert_int_equal(spent(f, 0, NOW).held_micros, 334);
	seen(f, "a", 10 * S, 30 * S, NOW + 30000);
	assert_int_equal(ends(f, "a", "requested", NOW + 30000), 0);
	assert_int_equal(ends(f, "a", "host_lost", NOW + 31000), -ESTALE);
	assert_int_equal(money_of(f, "a").charged_micros, 194);
	assert_int_equal(money_of(f, "a").held_micros, 0);
	assert_int_equal(spent(f, 0, NOW + 40000).held_micros, 0);
	assert_int_equal(spent(f, 0, NOW + 40000).charged_micros, 194);
	assert_int_equal(number(f, "SELECT count(*) FROM charge"), 1);
	reason_is(f, "a", "requested");
	/* measures that come late change nothing */
	seen(f, "a", 20 * S, 60 * S, NOW + 50000);
	assert_int_equal(money_of(f, "a").charged_micros, 194);
}

static void what_was_never_ready_costs_nothing(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add(f->store, "a", &submission, NOW), 0);
	seen(f, "a", 10 * S, 30 * S, NOW + 1000);
	assert_int_equal(ends(f, "a", "startup_failed", NOW + 2000), 0);
	assert_int_equal(money_of(f, "a").charged_micros, 0);
	assert_int_equal(spent(f, 0, NOW + 3000).held_micros, 0);
	assert_int_equal(number(f, "SELECT count(*) FROM charge"), 0);
}

static void a_charge_never_exceeds_its_hold(void **state)
{
	struct fixture *f = *state;

	runs(f, "a", &submission, NOW);
	seen(f, "a", 40 * S, 40 * S, NOW + 40000); /* its lease ended late */
	assert_int_equal(ends(f, "a", "lease_expired", NOW + 40000), 0);
	assert_int_equal(money_of(f, "a").charged_micros, 334);
	reason_is(f, "a", "lease_expired");
}

static void measures_never_go_back(void **state)
{
	struct fixture *f = *state;

	runs(f, "a", &submission, NOW);
	seen(f, "a", 10 * S, 30 * S, NOW + 30000);
	seen(f, "a", 5 * S, 12 * S, NOW + 31000);
	assert_int_equal(ends(f, "a", "requested", NOW + 32000), 0);
	assert_int_equal(money_of(f, "a").charged_micros, 194);
}

static void it_counts_while_it_runs(void **state)
{
	struct fixture *f = *state;
	struct store_money money;

	runs(f, "a", &submission, NOW);
	money = money_of(f, "a");
	/* floor and memory: 30 s * (0.05 * 25000 + 2 * 7500) / 3600 s */
	assert_int_equal(store_money_charged(&money, true, NOW + 30000), 135);
	assert_int_equal(store_money_charged(&money, false, NOW + 30000), 0);
	assert_int_equal(store_money_charged(&money, true, NOW + 300000), 334);
	seen(f, "a", 10 * S, 15 * S, NOW + 15000);
	money = money_of(f, "a");
	assert_int_equal(store_money_charged(&money, true, NOW + 30000), 194);
}

static void extended_leases_add_up(void **state)
{
	struct fixture *f = *state;

	runs(f, "a", &submission, NOW);
	for (int64_t i = 1; i <= 30; i++) {
		seen(f, "a", (uint64_t)i * S / 3, (uint64_t)i * S, NOW + 1000 * i);
		assert_int_equal(store_money_renew(f->store, "a", NOW + 1000 * i + 30000,
					 STORE_NO_CAP, NOW + 1000 * i, NULL),
			0);
		assert_int_equal(money_of(f, "a").held_micros, 334);
	}
	assert_int_equal(ends(f, "a", "requested", NOW + 31000), 0);
	assert_int_equal(money_of(f, "a").charged_micros, 194);
	assert_int_equal(number(f, "SELECT sum(micros) FROM charge"), 194);
	assert_int_equal(number(f, "SELECT count(*) FROM charge"), 31);
	assert_int_equal(
		store_money_renew(f->store, "a", NOW + 99000, STORE_NO_CAP, NOW, NULL), -ESTALE);
}

static void a_pause_releases_the_hold(void **state)
{
	struct fixture *f = *state;

	limit(f, 400);
	runs(f, "a", &submission, NOW);
	seen(f, "a", 1 * S, 6 * S, NOW + 6000); /* 32 */
	assert_int_equal(
		store_money_renew(f->store, "a", NOW + 6000, STORE_NO_CAP, NOW + 6000, NULL), 0);
	assert_int_equal(money_of(f, "a").held_micros, 0);
	assert_int_equal(money_of(f, "a").charged_micros, 32);
	assert_int_equal(add(f->store, "b", &submission, NOW + 7000), 0);
	/* it woke by itself and ran: that is charged, and the next lease finds no room */
	seen(f, "a", 1 * S, 7 * S, NOW + 8000);
	assert_int_equal(
		store_money_renew(f->store, "a", NOW + 38000, STORE_NO_CAP, NOW + 8000, NULL),
		STORE_OVER_LIMIT);
	limit(f, STORE_NO_LIMIT);
	assert_int_equal(
		store_money_renew(f->store, "a", NOW + 38000, STORE_NO_CAP, NOW + 8000, NULL), 0);
	assert_int_equal(money_of(f, "a").charged_micros, 36);
	assert_int_equal(money_of(f, "a").held_micros, 334);
}

static void a_cap_bounds_the_hold(void **state)
{
	struct store_terms capped = submission;
	struct fixture *f = *state;

	capped.cap_micros = 200;
	runs(f, "a", &capped, NOW);
	assert_int_equal(money_of(f, "a").held_micros, 200);
	assert_true(money_of(f, "a").bounded);
	seen(f, "a", 30 * S, 30 * S, NOW + 30000);
	assert_int_equal(store_money_renew(f->store, "a", NOW + 60000, 250, NOW + 30000, NULL), 0);
	assert_int_equal(money_of(f, "a").charged_micros, 200);
	assert_int_equal(money_of(f, "a").held_micros, 50);
	assert_int_equal(ends(f, "a", "lease_expired", NOW + 40000), 0);
	reason_is(f, "a", "lifetime_cap");
}

static void reasons_of_money_win_over_a_request_only(void **state)
{
	struct fixture *f = *state;

	runs(f, "a", &submission, NOW);
	runs(f, "b", &submission, NOW);
	assert_int_equal(store_money_stop_for(f->store, "a", "spending_limit", NULL), 0);
	assert_int_equal(store_money_stop_for(f->store, "a", "lifetime_cap", NULL), 0);
	assert_int_equal(store_money_stop_for(f->store, "b", "spending_limit", NULL), 0);
	assert_int_equal(ends(f, "a", "requested", NOW), 0);
	assert_int_equal(ends(f, "b", "host_lost", NOW), 0);
	reason_is(f, "a", "spending_limit");
	reason_is(f, "b", "host_lost");
}

static void charges_stand(void **state)
{
	struct fixture *f = *state;
	sqlite3 *db = NULL;

	runs(f, "a", &submission, NOW);
	seen(f, "a", 10 * S, 30 * S, NOW);
	assert_int_equal(ends(f, "a", "requested", NOW), 0);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_not_equal(
		sqlite3_exec(db, "UPDATE charge SET micros = 0", NULL, NULL, NULL), SQLITE_OK);
	assert_int_not_equal(sqlite3_exec(db, "DELETE FROM charge", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(number(f, "SELECT sum(micros) FROM charge"), 194);
}

/* --- a class --- */

static void a_class_costs_29_cents_to_the_microdollar(void **state)
{
	struct fixture *f = *state;
	int64_t charged, held;
	char id[ID_SIZE];

	for (int i = 0; i < 1500; i++) {
		text_format(id, sizeof(id), "s%d", i);
		runs(f, id, &submission, NOW);
		seen(f, id, 10 * S, 30 * S, NOW + 30000);
		assert_int_equal(ends(f, id, "requested", NOW + 30000), 0);
	}
	assert_int_equal(store_charge_sum(f->store, "k", &charged, &held, NULL), 0);
	assert_int_equal(charged, 291667); /* 0.291666... $ */
	assert_int_equal(held, 0);
}

/* --- limits --- */

static void the_limit_counts_charges_and_holds_of_24_hours(void **state)
{
	struct fixture *f = *state;

	limit(f, 334 + 194);
	runs(f, "a", &submission, NOW);
	assert_int_equal(add(f->store, "b", &submission, NOW), STORE_OVER_LIMIT);
	seen(f, "a", 10 * S, 30 * S, NOW + 30000);
	assert_int_equal(ends(f, "a", "requested", NOW + 30000), 0);
	runs(f, "c", &submission, NOW + 30000); /* exactly at the limit */
	assert_int_equal(add(f->store, "d", &submission, NOW + 31000), STORE_OVER_LIMIT);
	assert_int_equal(spent(f, 194, NOW + 31000).resets_ms, NOW + 30000 + STORE_DAY_MS);
	assert_int_equal(spent(f, 1000, NOW + 31000).resets_ms, 0); /* never by itself */
	/* nothing of a refused create is left */
	assert_int_equal(number(f, "SELECT count(*) FROM sandbox"), 2);
	assert_int_equal(number(f, "SELECT count(*) FROM hold"), 2);
	seen(f, "c", 0, 0, NOW + 31000);
	assert_int_equal(ends(f, "c", "requested", NOW + 31000), 0);
	assert_int_equal(add(f->store, "d", &submission, NOW + 30000 + STORE_DAY_MS), 0);
}

static void an_extension_over_the_limit_changes_nothing(void **state)
{
	struct fixture *f = *state;

	limit(f, 400);
	runs(f, "a", &submission, NOW);
	seen(f, "a", 1 * S, 1 * S, NOW + 1000);
	assert_int_equal(
		store_money_renew(f->store, "a", NOW + 61000, STORE_NO_CAP, NOW + 1000, NULL),
		STORE_OVER_LIMIT);
	assert_int_equal(money_of(f, "a").held_micros, 334);
	assert_int_equal(money_of(f, "a").charged_micros, 0);
	assert_int_equal(number(f, "SELECT count(*) FROM charge"), 0);
	assert_int_equal(
		store_money_renew(f->store, "a", NOW + 31000, STORE_NO_CAP, NOW + 1000, NULL), 0);
}

static int count_over(void *context, const char *sandbox, const char *reason)
{
	struct buffer *out = context;

	return buffer_printf(out, "%s:%s ", sandbox, reason);
}

static void over_is(struct fixture *f, int64_t now, const char *expected)
{
	struct buffer out = {0};

	assert_int_equal(store_money_each_over(f->store, now, count_over, &out, NULL), 0);
	assert_string_equal(buffer_text(&out), expected);
	buffer_fini(&out);
}

static void who_is_over_is_told(void **state)
{
	struct fixture *f = *state;

	runs(f, "a", &submission, NOW);
	runs(f, "b", &submission, NOW);
	seen(f, "a", 10 * S, 10 * S, NOW + 10000); /* 111 */
	seen(f, "b", 0, 10 * S, NOW + 10000);      /* 45 */
	over_is(f, NOW + 10000, "");
	limit(f, 157);
	over_is(f, NOW + 10000, "");
	limit(f, 150);
	over_is(f, NOW + 10000, "a:spending_limit b:spending_limit ");
	assert_int_equal(ends(f, "a", "requested", NOW + 10000), 0);
	over_is(f, NOW + 10000, "b:spending_limit ");
	over_is(f, NOW + 10001 + STORE_DAY_MS, "");
	assert_int_equal(store_key_revoke(f->store, "k", NOW, NULL, NULL), 0);
	over_is(f, NOW + 10000, "b:authority_revoked ");
}

/* --- many at once --- */

struct crowd {
	struct store *store;
	const char *prefix;
	int added;
};

static void *create_many(void *context)
{
	struct crowd *crowd = context;
	char id[ID_SIZE];
	int r;

	for (int i = 0; i < 20; i++) {
		text_format(id, sizeof(id), "%s%d", crowd->prefix, i);
		r = add(crowd->store, id, &submission, NOW);
		if (r && r != STORE_OVER_LIMIT)
			return "failed";
		crowd->added += r == 0;
	}
	return NULL;
}

/* 8 threads on one connection, and 4 processes, ask for 240; there is money for 50. */
static void a_crowd_cannot_overshoot(void **state)
{
	struct fixture *f = *state;
	struct crowd crowds[8], own = {0};
	pthread_t threads[8];
	char prefixes[12][8];
	int added = 0, status;
	pid_t children[4];
	void *failed;

	limit(f, 50 * 334 + 333);
	for (int i = 0; i < 12; i++)
		text_format(prefixes[i], sizeof(prefixes[i]), "c%d-", i);
	for (int i = 0; i < 4; i++) {
		children[i] = fork();
		if (children[i] == 0) { /* a connection of its own: SQLite's may not be shared */
			own.prefix = prefixes[8 + i];
			status = store_open(f->path, &own.store, NULL) || create_many(&own);
			_exit(status ? 255 : own.added);
		}
	}
	for (int i = 0; i < 8; i++) {
		crowds[i] = (struct crowd){.store = f->store, .prefix = prefixes[i]};
		assert_int_equal(pthread_create(&threads[i], NULL, create_many, &crowds[i]), 0);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
		added += crowds[i].added;
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 255);
		added += WEXITSTATUS(status);
	}
	assert_int_equal(added, 50);
	assert_int_equal(number(f, "SELECT sum(held_micros) FROM hold"), 50 * 334);
	assert_int_equal(number(f, "SELECT count(*) FROM sandbox"), 50);
}

/* --- whatever happens --- */

#define BOXES 24

struct box {
	char id[ID_SIZE];
	bool lives;
	uint64_t cpu_us, running_us;
};

static int64_t held_by_all(struct fixture *f)
{
	return number(f, "SELECT coalesce(sum(held_micros), 0) FROM hold WHERE open = 1");
}

/* The limit is never promised twice, holds are gone with their sandboxes, and the charges are the
 * exact costs of what was used, to the nearest microdollar. */
static void random_lives_add_up(void **state)
{
	const int64_t most = 5000;
	struct fixture *f = *state;
	struct box boxes[BOXES] = {0};
	int64_t now = NOW, carry = 0, expected = 0, spent_now;
	struct meter_use before = {0};
	int made = 0, refused = 0, r;

	srandom(20261129);
	limit(f, most);
	for (int step = 0; step < 700; step++) {
		struct box *box = &boxes[random() % BOXES];

		now += random() % 1000;
		if (!box->lives) {
			text_format(box->id, sizeof(box->id), "r%d", made);
			r = add(f->store, box->id, &submission, now);
			assert_true(r == 0 || r == STORE_OVER_LIMIT);
			refused += r != 0;
			if (r)
				continue;
			made++;
			*box = (struct box){.lives = true};
			text_format(box->id, sizeof(box->id), "r%d", made - 1);
			assert_int_equal(
				store_money_begin(f->store, box->id, 7 * S, 9 * S, NULL), 0);
			assert_int_equal(store_sandbox_ready(
						 f->store, box->id, "uml", now, now + 30000, NULL),
				0);
		} else if (random() % 2) {
			box->running_us += (uint64_t)random() % 300000;
			box->cpu_us += (uint64_t)random() % 300000;
			seen(f, box->id, box->cpu_us, box->running_us, now);
		} else if (random() % 2) {
			r = store_money_renew(
				f->store, box->id, now + 30000, STORE_NO_CAP, now, NULL);
			assert_true(r == 0 || r == STORE_OVER_LIMIT);
		} else {
			const struct meter_use used = {box->cpu_us, box->running_us};

			assert_int_equal(ends(f, box->id, "requested", now), 0);
			expected += meter_charge(&submission.meter, &before, &used, &carry);
			box->lives = false;
		}
		spent_now = number(f, "SELECT coalesce(sum(micros), 0) FROM charge");
		assert_true(spent_now + held_by_all(f) <= most);
	}
	for (int i = 0; i < BOXES; i++) {
		const struct meter_use used = {boxes[i].cpu_us, boxes[i].running_us};

		if (!boxes[i].lives)
			continue;
		assert_int_equal(ends(f, boxes[i].id, "requested", now), 0);
		expected += meter_charge(&submission.meter, &before, &used, &carry);
	}
	assert_true(made > 30 && refused > 30);
	assert_int_equal(held_by_all(f), 0);
	assert_int_equal(number(f, "SELECT sum(micros) FROM charge"), expected);
	assert_int_equal(number(f, "SELECT sum(charged_micros) FROM hold"), expected);
}

/* --- what was used --- */

static int write_usage(void *context, const struct store_usage *u)
{
	return buffer_printf(context, "%s(%s) %lld %lld %llu %llu %llu; ", u->key, u->name,
		(long long)u->sandboxes, (long long)u->micros, (unsigned long long)u->billed_cpu_us,
		(unsigned long long)u->running_us, (unsigned long long)u->memory_mib_ms);
}

static void usage_is(struct fixture *f, struct store_usage_filter filter, const char *expected)
{
	struct buffer out = {0};

	assert_int_equal(store_usage_each(f->store, &filter, write_usage, &out, NULL), 0);
	assert_string_equal(buffer_text(&out), expected);
	buffer_fini(&out);
}

static void usage_is_summed(void **state)
{
	struct store_usage_filter all = {.before_ms = INT64_MAX};
	struct fixture *f = *state;

	/* NOW is 2027-01-15 08:00 */
	runs(f, "a", &submission, NOW);
	runs(f, "b", &submission, NOW);
	seen(f, "a", 10 * S, 30 * S, NOW + 30000);
	assert_int_equal(ends(f, "a", "requested", NOW + 30000), 0);
	seen(f, "b", 10 * S, 30 * S, NOW + 30000);
	assert_int_equal(ends(f, "b", "requested", NOW + 30000 + STORE_DAY_MS), 0);
	usage_is(f, all,
		"b() 1 195 10000000 30000000 61440000; a() 1 194 10000000 30000000 61440000; ");
	all.group = STORE_BY_DAY;
	usage_is(f, all,
		"2027-01-15() 1 194 10000000 30000000 61440000; "
		"2027-01-16() 1 195 10000000 30000000 61440000; ");
	all.group = STORE_BY_KEY;
	usage_is(f, all, "k(n) 2 389 20000000 60000000 122880000; ");
	all.group = STORE_BY_LABEL;
	usage_is(f, all,
		"course:cs1() 2 389 20000000 60000000 122880000; "
		"n:=1+1() 2 389 20000000 60000000 122880000; ");
	all.label = "course";
	all.since_ms = NOW + STORE_DAY_MS;
	usage_is(f, all, "course:cs1() 1 195 10000000 30000000 61440000; ");
	all.payer = "else";
	usage_is(f, all, "");
}

/* 24 hours of 10,000 charges are summed from an index, without a look at the table or at others'
 * rows. */
static void ten_thousand_charges_are_summed_from_an_index(void **state)
{
	struct fixture *f = *state;
	sqlite3_stmt *s = NULL;
	bool covered = false;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db,
			"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
			" WHERE i < 10000) INSERT INTO charge (sandbox, lease, payer, micros,"
			" cpu_us, billed_cpu_us, running_us, vcpu, memory_mib, cpu_price,"
			" memory_price, settled_ms) SELECT 's' || i, 1, iif(i % 2, 'k', 'else'),"
			" i, 0, 0, 0, 1, 128, 0, 0, 1800000000000 + i * 10000 FROM n",
			NULL, NULL, NULL),
		SQLITE_OK);
	/* odd ones of the last 8,640: 1361 + 1363 + ... + 9999 */
	assert_int_equal(spent(f, 0, NOW + INT64_C(100000000)).charged_micros, 24537600);
	assert_int_equal(sqlite3_prepare_v2(db,
				 "EXPLAIN QUERY PLAN SELECT coalesce(sum(micros), 0) FROM charge"
				 " WHERE payer = 'k' AND settled_ms > 5",
				 -1, &s, NULL),
		SQLITE_OK);
	while (sqlite3_step(s) == SQLITE_ROW)
		covered = covered || strstr((const char *)sqlite3_column_text(s, 3),
					     "SEARCH charge USING COVERING INDEX charge_payer");
	assert_true(covered);
	sqlite3_finalize(s);
	sqlite3_close(db);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_lease_is_held_and_settled_once),
		TEST(what_was_never_ready_costs_nothing),
		TEST(a_charge_never_exceeds_its_hold),
		TEST(measures_never_go_back),
		TEST(it_counts_while_it_runs),
		TEST(extended_leases_add_up),
		TEST(a_pause_releases_the_hold),
		TEST(a_cap_bounds_the_hold),
		TEST(reasons_of_money_win_over_a_request_only),
		TEST(charges_stand),
		TEST(a_class_costs_29_cents_to_the_microdollar),
		TEST(the_limit_counts_charges_and_holds_of_24_hours),
		TEST(an_extension_over_the_limit_changes_nothing),
		TEST(who_is_over_is_told),
		TEST(a_crowd_cannot_overshoot),
		TEST(random_lives_add_up),
		TEST(usage_is_summed),
		TEST(ten_thousand_charges_are_summed_from_an_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
