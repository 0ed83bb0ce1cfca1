/* SPDX-License-Identifier: Apache-2.0 - time: absolute monotonic deadlines and UTC stamps. */
#ifndef SEALMARK_BASE_CLOCK_H
#define SEALMARK_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define CLOCK_NEVER      INT64_MAX /* a deadline that never comes */
#define CLOCK_STAMP_SIZE 32

/* CLOCK_MONOTONIC in microseconds and milliseconds. */
int64_t clock_us(void);
int64_t clock_ms(void);

/* The deadline `ms` from now in clock_ms() time; CLOCK_NEVER for ms < 0. */
int64_t clock_deadline_ms(int64_t ms);

/* Milliseconds left until `deadline_ms` for poll(2): 0 when past, -1 for CLOCK_NEVER. */
int clock_poll_ms(int64_t deadline_ms);

/* Wall clock as "2026-11-29T17:48:06.123Z"; out has CLOCK_STAMP_SIZE bytes. */
void clock_stamp(char *out);

#endif
