/* SPDX-License-Identifier: Apache-2.0 - charges and holds, exact in 128 bits. */
#include "meter/meter.h"

typedef unsigned __int128 u128;
typedef __int128 i128;

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* a * b, or UINT64_MAX where that is more */
static uint64_t product(uint64_t a, uint64_t b)
{
	u128 p = (u128)a * b;

	return p > UINT64_MAX ? UINT64_MAX : (uint64_t)p;
}

uint64_t meter_cpu_us(const struct meter_terms *terms, const struct meter_use *use)
{
	uint64_t most = product(use->running_us, terms->vcpu);
	uint64_t floor = (uint64_t)((u128)use->running_us * terms->floor_millis / 1000);

	if (terms->reserved)
		return most;
	return less(use->cpu_us > floor ? use->cpu_us : floor, most);
}

/* The exact cost in parts: below 2^64 * 2^10 * 2^40 + 2^64 * 2^32 * 2^40 < 2^127. */
static u128 cost(const struct meter_terms *terms, uint64_t cpu_us, uint64_t running_us)
{
	return (u128)cpu_us * 1024 * less(terms->prices.cpu_micros, METER_PRICE_MOST) +
	       (u128)running_us * terms->memory_mib *
		       less(terms->prices.memory_micros, METER_PRICE_MOST);
}

static int64_t bounded(u128 micros)
{
	return micros > (u128)METER_MOST ? METER_MOST : (int64_t)micros;
}

int64_t meter_charge(const struct meter_terms *terms, const struct meter_use *before,
	const struct meter_use *now, int64_t *carry)
{
	uint64_t cpu_before = meter_cpu_us(terms, before), cpu = meter_cpu_us(terms, now);
	uint64_t running =
		now->running_us > before->running_us ? now->running_us - before->running_us : 0;
	i128 parts = (i128)cost(terms, cpu > cpu_before ? cpu - cpu_before : 0, running) + *carry;
	int64_t charge;

	/* the carry is less than half a microdollar either way */
	charge = bounded((u128)(parts + METER_PARTS / 2) / (u128)METER_PARTS);
	*carry = charge == METER_MOST ? 0 : (int64_t)(parts - (i128)charge * METER_PARTS);
	return charge;
}

int64_t meter_hold(const struct meter_terms *terms, uint64_t running_us)
{
	u128 parts = cost(terms, product(running_us, terms->vcpu), running_us);

	return bounded((parts + (u128)METER_PARTS - 1) / (u128)METER_PARTS);
}

uint64_t meter_lasts_us(const struct meter_terms *terms, int64_t micros)
{
	u128 each = cost(terms, terms->vcpu, 1), lasts;

	if (!each)
		return UINT64_MAX;
	if (micros <= 0)
		return 0;
	lasts = (u128)micros * (u128)METER_PARTS / each;
	return lasts > UINT64_MAX ? UINT64_MAX : (uint64_t)lasts;
}
