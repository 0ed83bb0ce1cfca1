/* SPDX-License-Identifier: Apache-2.0 - the share of each key: requests a second, and at once. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEYS_MOST 1024 /* that are at work at once; others share the last place */
#define AT_ONCE   128
#define WAIT_MS   5000
#define PAUSE_MS  20

struct share {
	char key[ID_SIZE];
	double tokens;
	int64_t filled_ms, used_ms;
	unsigned at_once;
};

struct rate {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint32_t per_second;
	struct share shares[KEYS_MOST];
};

struct rate *rate_new(uint32_t per_second)
{
	struct rate *rate = calloc(1, sizeof(*rate));
	pthread_condattr_t monotonic;

	if (!rate)
		return NULL;
	rate->per_second = per_second;
	pthread_mutex_init(&rate->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&rate->freed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return rate;
}

void rate_free(struct rate *rate)
{
	if (!rate)
		return;
	pthread_cond_destroy(&rate->freed);
	pthread_mutex_destroy(&rate->lock);
	free(rate);
}

/* the share of a key: its own, a free one, or the one longest unused */
static struct share *find(struct rate *rate, const char *key, int64_t now)
{
	struct share *oldest = NULL;

	for (size_t i = 0; i < KEYS_MOST; i++) {
		struct share *s = &rate->shares[i];

		if (strcmp(s->key, key) == 0)
			return s;
		if (!s->at_once && (!oldest || s->used_ms < oldest->used_ms))
			oldest = s;
		if (!s->key[0])
			break;
	}
	if (!oldest)
		return &rate->shares[KEYS_MOST - 1];
	*oldest = (struct share){.tokens = 4.0 * rate->per_second, .filled_ms = now};
	text_copy(oldest->key, sizeof(oldest->key), key);
	return oldest;
}

static void fill(const struct rate *rate, struct share *s, int64_t now)
{
	double most = 4.0 * rate->per_second;

	s->tokens += (double)(now - s->filled_ms) * rate->per_second / 1000;
	s->tokens = s->tokens > most ? most : s->tokens;
	s->filled_ms = s->used_ms = now;
}

/* until somebody leaves, or a token may be there */
static void wait_a_little(struct rate *rate, int64_t now)
{
	int64_t until = now + PAUSE_MS;
	struct timespec t = {until / 1000, until % 1000 * 1000000};

	pthread_cond_timedwait(&rate->freed, &rate->lock, &t);
}

bool rate_enter(struct rate *rate, const char *key)
{
	int64_t deadline = clock_deadline_ms(WAIT_MS), now;
	bool entered = false;
	struct share *s;

	pthread_mutex_lock(&rate->lock);
	do {
		now = clock_ms();
		s = find(rate, key, now);
		fill(rate, s, now);
		entered = s->tokens >= 1 && s->at_once < AT_ONCE;
		if (entered) {
			s->tokens -= 1;
			s->at_once++;
		} else {
			wait_a_little(rate, now);
		}
	} while (!entered && now < deadline);
	pthread_mutex_unlock(&rate->lock);
	return entered;
}

void rate_leave(struct rate *rate, const char *key)
{
	struct share *s;

	pthread_mutex_lock(&rate->lock);
	s = find(rate, key, clock_ms());
	if (s->at_once)
		s->at_once--;
	pthread_cond_broadcast(&rate->freed);
	pthread_mutex_unlock(&rate->lock);
}
