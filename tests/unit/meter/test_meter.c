/* SPDX-License-Identifier: Apache-2.0 - charges and holds: a table, and random cases against
 * OpenSSL's big numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "meter/meter.h"

#include <openssl/bn.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000)

static const struct meter_use nothing;

static const struct meter_terms submission = {
	.prices = METER_PRICES_DEFAULT, .vcpu = 1, .memory_mib = 2048, .floor_millis = 50};

struct row {
	const char *what;
	struct meter_terms terms;
	struct meter_use use;
	int64_t charge, hold; /* the hold of the same time */
};

#define TERMS(vcpu_, mib, floor, reserved_)                                                        \
	{                                                                                          \
		METER_PRICES_DEFAULT, vcpu_, mib, floor, reserved_                                 \
	}

static const struct row rows[] = {
	{"nothing", TERMS(1, 2048, 50, false), {0, 0}, 0, 0},
	/* 10 / 3600 * 25000 + 2 * 30 / 3600 * 7500 = 69.44 + 125 */
	{"a submission", TERMS(1, 2048, 50, false), {10 * S, 30 * S}, 194, 334},
	{"an hour of a busy vCPU", TERMS(1, 1024, 50, false), {3600 * S, 3600 * S}, 32500, 32500},
	{"an idle hour has the floor", TERMS(1, 1024, 50, false), {0, 3600 * S}, 8750, 32500},
	{"no floor", TERMS(1, 1024, 0, false), {0, 3600 * S}, 7500, 32500},
	{"the floor is of the machine, not of each vCPU", TERMS(4, 1024, 50, false), {0, 3600 * S},
		8750, 107500},
	{"a floor above its vCPUs", TERMS(1, 1024, 16000, false), {0, 3600 * S}, 32500, 32500},
	{"reserved bills every vCPU", TERMS(4, 1024, 50, true), {1 * S, 3600 * S}, 107500, 107500},
	{"more CPU than there was is noise", TERMS(1, 1024, 50, false), {3601 * S, 3600 * S}, 32500,
		32500},
	{"CPU while nothing ran", TERMS(1, 1024, 50, false), {5 * S, 0}, 0, 0},
	{"rounded down", TERMS(1, 128, 0, false), {0, 1 * S}, 0, 8},
	{"half a microdollar goes up", {{0, 1800}, 1, 1024, 0, false}, {0, 1 * S}, 1, 1},
	{"free", {{0, 0}, 16, 65536, 50, true}, {86400 * S, 86400 * S}, 0, 0},
	{"the most that there is", {{UINT64_MAX, UINT64_MAX}, UINT32_MAX, UINT32_MAX, 50, true},
		{UINT64_MAX, UINT64_MAX}, METER_MOST, METER_MOST},
};

static void the_table_holds(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t carry = 0;
		int64_t charge = meter_charge(&rows[i].terms, &nothing, &rows[i].use, &carry);
		int64_t hold = meter_hold(&rows[i].terms, rows[i].use.running_us);

		if (charge != rows[i].charge || hold != rows[i].hold)
			fail_msg("%s: %lld of %lld", rows[i].what, (long long)charge,
				(long long)hold);
	}
}

/* 1500 * (10 s * 0.025 $/h + 2 GiB * 30 s * 0.0075 $/h) = 0.291666... $ */
static void a_class_costs_29_cents_to_the_microdollar(void **state)
{
	const struct meter_use use = {10 * S, 30 * S};
	int64_t carry = 0, sum = 0, each;

	for (int i = 0; i < 1500; i++) {
		each = meter_charge(&submission, &nothing, &use, &carry);
		assert_true(each == 194 || each == 195);
		sum += each;
	}
	assert_int_equal(sum, 291667); /* 1500 * 194 and 1500 * 195 are 666 and 833 beside it */
}

static void an_hour_in_pieces_costs_an_hour(void **state)
{
	struct meter_use before = {0}, now = {0};
	int64_t carry = 0, sum = 0;

	for (int i = 0; i < 3600; i++) {
		now.running_us += S;
		now.cpu_us += S / 10;
		sum += meter_charge(&submission, &before, &now, &carry);
		before = now;
	}
	assert_int_equal(sum, 2500 + 15000);
	assert_int_equal(carry, 0);
}

static void time_that_goes_back_costs_nothing(void **state)
{
	const struct meter_use before = {5 * S, 9 * S}, now = {4 * S, 8 * S};
	int64_t carry = 7;

	assert_int_equal(meter_charge(&submission, &before, &now, &carry), 0);
	assert_int_equal(carry, 7);
}

static void money_lasts_as_long_as_its_hold(void **state)
{
	for (int64_t micros = 1; micros < 2000; micros += 7) {
		uint64_t us = meter_lasts_us(&submission, micros);

		assert_true(meter_hold(&submission, us) <= micros);
		assert_true(meter_hold(&submission, us + 1) > micros);
	}
	assert_int_equal(meter_lasts_us(&submission, 0), 0);
	assert_int_equal(meter_lasts_us(&submission, -5), 0);
	assert_true(meter_lasts_us(&rows[12].terms, 1) == UINT64_MAX);
	assert_true(meter_lasts_us(&submission, INT64_MAX) > 0);
}

/* --- against big numbers --- */

static BN_CTX *context;

static BIGNUM *number(uint64_t value)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(value >> (56 - 8 * i));
	return BN_bin2bn(bytes, 8, NULL);
}

static BIGNUM *times(uint64_t a, uint64_t b, uint64_t c)
{
	BIGNUM *x = number(a), *y = number(b), *z = number(c);

	assert_true(BN_mul(x, x, y, context) && BN_mul(x, x, z, context));
	BN_free(y);
	BN_free(z);
	return x;
}

/* in parts of 1 / (3600 * 10^6 * 1024): by the words of the manual, written anew */
static BIGNUM *big_cost(const struct meter_terms *t, const struct meter_use *use)
{
	BIGNUM *most = times(use->running_us, t->vcpu, 1), *cpu = number(use->cpu_us);
	BIGNUM *floor = times(use->running_us, t->floor_millis, 1), *memory, *price;

	assert_true(BN_div_word(floor, 1000) != (BN_ULONG)-1);
	if (BN_cmp(cpu, floor) < 0)
		BN_copy(cpu, floor);
	if (t->reserved || BN_cmp(cpu, most) > 0)
		BN_copy(cpu, most);
	price = times(t->prices.cpu_micros, 1024, 1);
	memory = times(use->running_us, t->memory_mib, t->prices.memory_micros);
	assert_true(BN_mul(cpu, cpu, price, context) && BN_add(cpu, cpu, memory));
	BN_free(most);
	BN_free(floor);
	BN_free(price);
	BN_free(memory);
	return cpu;
}

/* small as often as large */
static uint64_t chosen(uint64_t most)
{
	uint64_t value = (uint64_t)random() << 31 | (uint64_t)random();

	return (value >> (unsigned)(random() % 62)) % (most + 1);
}

static void choose(struct meter_terms *t)
{
	*t = (struct meter_terms){{chosen(1000000), chosen(1000000)}, (uint32_t)chosen(15) + 1,
		(uint32_t)chosen(65535) + 1, (uint32_t)chosen(16000), random() % 4 == 0};
}

/* The sum of all charges of a payer is the sum of all costs, to the nearest. */
static void sums_are_exact(void **state)
{
	BIGNUM *exact = number(0), *half = times(3600000000, 512, 1), *sum, *rest = number(0);
	BIGNUM *one = times(3600000000, 1024, 1);
	int64_t carry = 0, total = 0, charge;
	struct meter_terms terms;
	struct meter_use use;

	for (int i = 0; i < 20000; i++) {
		BIGNUM *cost;

		choose(&terms);
		use = (struct meter_use){chosen(86400 * S), chosen(86400 * S)};
		charge = meter_charge(&terms, &nothing, &use, &carry);
		assert_true(charge <= meter_hold(&terms, use.running_us));
		total += charge;
		cost = big_cost(&terms, &use);
		assert_true(BN_add(exact, exact, cost));
		BN_free(cost);
	}
	/* floor((exact + half) / one) */
	assert_true(BN_add(exact, exact, half) && BN_div(exact, rest, exact, one, context));
	sum = number((uint64_t)total);
	assert_int_equal(BN_cmp(exact, sum), 0);
	BN_free(exact);
	BN_free(half);
	BN_free(sum);
	BN_free(rest);
	BN_free(one);
}

/* Wherever leases are cut, the pieces cost what the whole does. */
static void cuts_cost_nothing(void **state)
{
	for (int i = 0; i < 2000; i++) {
		struct meter_use before = {0}, now = {0};
		int64_t carry = 0, whole = 0, sum = 0, total;
		struct meter_terms terms;

		choose(&terms);
		for (int cut = 0; cut < 10; cut++) {
			now.running_us += chosen(3600 * S);
			now.cpu_us += chosen(3600 * S);
			sum += meter_charge(&terms, &before, &now, &carry);
			before = now;
		}
		total = meter_charge(&terms, &nothing, &now, &whole);
		assert_int_equal(sum, total);
		assert_true(carry == whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_holds),
		cmocka_unit_test(a_class_costs_29_cents_to_the_microdollar),
		cmocka_unit_test(an_hour_in_pieces_costs_an_hour),
		cmocka_unit_test(time_that_goes_back_costs_nothing),
		cmocka_unit_test(money_lasts_as_long_as_its_hold),
		cmocka_unit_test(sums_are_exact),
		cmocka_unit_test(cuts_cost_nothing),
	};
	int failed;

	srandom(20261129);
	context = BN_CTX_new();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	BN_CTX_free(context);
	return failed;
}
