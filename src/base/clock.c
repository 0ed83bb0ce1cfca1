/* SPDX-License-Identifier: Apache-2.0 - time, see clock.h. */
#include "base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

int64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_ms(void)
{
	return clock_us() / 1000;
}

int64_t clock_deadline_ms(int64_t ms)
{
	int64_t deadline;

	if (ms < 0 || __builtin_add_overflow(clock_ms(), ms, &deadline))
		return CLOCK_NEVER;
	return deadline;
}

int clock_poll_ms(int64_t deadline_ms)
{
	int64_t now = clock_ms(), left;

	if (deadline_ms == CLOCK_NEVER)
		return -1;
	if (deadline_ms <= now)
		return 0;
	left = deadline_ms - now;
	return left > INT_MAX ? INT_MAX : (int)left;
}

void clock_stamp(char *out)
{
	struct timespec t;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	snprintf(out, CLOCK_STAMP_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		(unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		(unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
		(unsigned)tm.tm_sec % 100, (unsigned)(t.tv_nsec / 1000000) % 1000);
}
