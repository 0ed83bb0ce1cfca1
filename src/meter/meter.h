/* SPDX-License-Identifier: Apache-2.0 - what a sandbox costs: pure arithmetic in whole numbers. */
#ifndef SEALMARK_METER_METER_H
#define SEALMARK_METER_METER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Money is integer microdollars (1,000,000 are one dollar). Two things cost: CPU time, measured on
 * the host and not below a floor, and memory for as long as the machine runs (not while it is
 * paused).
 *
 *	cost = CPU time billed * price of a vCPU-hour + memory * time running * price of a GiB-hour
 *
 * is counted exactly, in parts of a microdollar (METER_PARTS of them: one part is what a
 * microsecond of a MiB costs at a price of one microdollar for a GiB-hour). A charge is the cost to
 * the nearest microdollar; what the rounding left, up or down, is carried into the next charge of
 * the same payer, so that the sum of a payer's charges is the sum of the costs to the nearest
 * microdollar, however many and small they are. A hold is rounded up, and a charge is never more
 * than the cost rounded up, so a charge never exceeds the hold of the same time.
 *
 * Nothing here overflows: products are of 128 bits, and results end at METER_MOST.
 */
#define METER_PARTS (INT64_C(3600000000) * 1024)
#define METER_MOST  (INT64_C(1) << 62)

/* of an hour of a vCPU, of an hour of a GiB; at most METER_PRICE_MOST */
struct meter_prices {
	uint64_t cpu_micros, memory_micros;
};
#define METER_PRICE_MOST UINT64_C(1000000000000)
#define METER_PRICES_DEFAULT                                                                       \
	{                                                                                          \
		25000, 7500                                                                        \
	}

struct meter_terms {
	struct meter_prices prices;
	uint32_t vcpu, memory_mib;
	uint32_t floor_millis; /* thousandths of a vCPU that are billed at least */
	bool reserved;         /* every vCPU is billed, busy or not */
};

struct meter_use {
	uint64_t cpu_us;     /* measured on the host */
	uint64_t running_us; /* by the clock, without what it was paused */
};

/* CPU time that is billed: what was measured, not below the floor, not above every vCPU busy. */
uint64_t meter_cpu_us(const struct meter_terms *terms, const struct meter_use *use);

/* The charge for what came after `before` up to `now` (both from the beginning); *carry is what
 * rounding has left so far, in parts, and is brought up to date. */
int64_t meter_charge(const struct meter_terms *terms, const struct meter_use *before,
	const struct meter_use *now, int64_t *carry);

/* The most that so much time can cost: every vCPU busy. */
int64_t meter_hold(const struct meter_terms *terms, uint64_t running_us);

/* For how long so much money lasts, every vCPU busy; UINT64_MAX: for ever. */
uint64_t meter_lasts_us(const struct meter_terms *terms, int64_t micros);

#endif
