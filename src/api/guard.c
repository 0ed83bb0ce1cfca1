/* SPDX-License-Identifier: Apache-2.0 - how often passwords may be tried, by source and in all. */
#include "api/people.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/*
 * A source (a group of addresses, or a browser in which the owner has signed in before) has five
 * attempts, then waits, each time twice as long. All sources that are not known share a budget as
 * well, which makes guessing from many addresses slow. A known browser has no part in that: who
 * guesses cannot keep the owner out of it.
 */
#define SOURCES_MOST 2048
#define FREE         5
#define WAIT_MOST_MS (5 * 60 * 1000)
#define FORGET_MS    (15 * 60 * 1000)
#define BUDGET       20.0 /* attempts of all unknown sources */
#define BUDGET_MS    6000 /* after which there is one more */

struct source {
	char name[HASH_HEX_SIZE];
	unsigned attempts; /* that have not succeeded */
	int64_t next_ms, used_ms;
};

struct guard {
	pthread_mutex_t lock;
	double budget;
	int64_t filled_ms;
	struct source sources[SOURCES_MOST];
};

struct guard *guard_new(void)
{
	struct guard *guard = calloc(1, sizeof(*guard));

	if (!guard)
		return NULL;
	pthread_mutex_init(&guard->lock, NULL);
	guard->budget = BUDGET;
	return guard;
}

void guard_free(struct guard *guard)
{
	if (!guard)
		return;
	pthread_mutex_destroy(&guard->lock);
	free(guard);
}

/* its own, a free one, or the one longest unused */
static struct source *find(struct guard *guard, const char *name)
{
	struct source *oldest = &guard->sources[0];

	for (size_t i = 0; i < SOURCES_MOST; i++) {
		struct source *s = &guard->sources[i];

		if (strcmp(s->name, name) == 0)
			return s;
		if (s->used_ms < oldest->used_ms)
			oldest = s;
		if (!s->name[0]) {
			oldest = s;
			break;
		}
	}
	*oldest = (struct source){0};
	text_copy(oldest->name, sizeof(oldest->name), name);
	return oldest;
}

static int64_t delay(unsigned attempts)
{
	unsigned beyond = attempts < FREE ? 0 : attempts - FREE + 1;
	int64_t ms = beyond ? INT64_C(1000) << (beyond < 20 ? beyond : 20) : 0;

	return ms > WAIT_MOST_MS ? WAIT_MOST_MS : ms;
}

/* 0, or how long until the shared budget has one more */
static int64_t spend(struct guard *guard, int64_t now_ms)
{
	if (guard->filled_ms)
		guard->budget += (double)(now_ms - guard->filled_ms) / BUDGET_MS;
	guard->budget = guard->budget > BUDGET ? BUDGET : guard->budget;
	guard->filled_ms = now_ms;
	if (guard->budget < 1)
		return (int64_t)((1 - guard->budget) * BUDGET_MS) + 1;
	guard->budget -= 1;
	return 0;
}

int64_t guard_enter(struct guard *guard, const char *name, bool known, int64_t now_ms)
{
	struct source *s;
	int64_t wait;

	pthread_mutex_lock(&guard->lock);
	s = find(guard, name);
	if (s->attempts && now_ms - s->used_ms > FORGET_MS)
		s->attempts = 0;
	wait = s->attempts && s->next_ms > now_ms ? s->next_ms - now_ms : 0;
	if (!wait && !known)
		wait = spend(guard, now_ms);
	if (!wait) {
		/* counted before it is known how it ends, or many at once would be free */
		s->attempts++;
		s->next_ms = now_ms + delay(s->attempts);
		s->used_ms = now_ms;
	}
	pthread_mutex_unlock(&guard->lock);
	return wait;
}

void guard_forgive(struct guard *guard, const char *name)
{
	pthread_mutex_lock(&guard->lock);
	find(guard, name)->attempts = 0;
	pthread_mutex_unlock(&guard->lock);
}
