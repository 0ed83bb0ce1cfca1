/* SPDX-License-Identifier: Apache-2.0 - changes with an Idempotency-Key: done once, answered again.
 */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define KEY_MOST    128
#define BUSY_MS     60000 /* how long a second call waits for the first */
#define ANSWER_MOST (8u << 20)
#define KEPT_MOST   (INT64_C(256) << 20) /* of one key: the newest of its answers */
#define TRIM_STEP   (16u << 20)          /* bytes of new answers before it is seen to */

static bool is_key(const char *key)
{
	size_t n = strlen(key);

	for (const char *p = key; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("_.:-", *p))
			return false;
	}
	return n && n <= KEY_MOST && isalnum((unsigned char)key[0]);
}

/* what a request asks for: two with the same hash are the same */
static int hash_request(const struct request *q, char *out)
{
	struct hash *h = hash_new();
	char *query = json_dumps(q->query, JSON_COMPACT | JSON_SORT_KEYS);

	if (h && query) {
		hash_add_field(h, q->method, strlen(q->method));
		hash_add_field(h, q->path, strlen(q->path));
		hash_add_field(h, query, strlen(query));
		hash_add_field(h, buffer_bytes(&q->body), buffer_length(&q->body));
		hash_end(h, out);
	}
	free(query);
	hash_free(h);
	return h && query ? 0 : -ENOMEM;
}

static void answer_again(struct request *q, const struct store_replay *replay)
{
	q->replayed = true;
	answer_json(q, replay->status, json_loads(replay->body, JSON_DECODE_ANY, NULL));
}

/* until something has changed, or the deadline */
static bool wait_for_first(struct api_server *server, int64_t deadline_ms)
{
	struct timespec t = {deadline_ms / 1000, deadline_ms % 1000 * 1000000};
	uint64_t before;
	int r = 0;

	pthread_mutex_lock(&server->lock);
	before = server->changes;
	while (!r && server->changes == before)
		r = pthread_cond_timedwait(&server->changed, &server->lock, &t);
	pthread_mutex_unlock(&server->lock);
	return !r;
}

/* false: it failed, or there is an answer */
static bool begin(struct request *q, const char *key, const char *hash, int64_t deadline_ms)
{
	struct store_replay replay;
	struct error err = {0};

	for (;;) {
		if (store_replay_begin(q->server->store, q->key.id, key, hash, q->server->epoch,
			    api_now_ms(), &replay, &err)) {
			answer_failure(q, &err);
			return false;
		}
		switch (replay.state) {
		case STORE_REPLAY_NEW:
			return true;
		case STORE_REPLAY_LEFT:
			text_copy(q->left, sizeof(q->left), replay.resource);
			return true;
		case STORE_REPLAY_ANSWERED:
			answer_again(q, &replay);
			store_replay_fini(&replay);
			return false;
		case STORE_REPLAY_OTHER:
			answer_error(q, API_KEY_REUSED, NULL,
				"This Idempotency-Key was used for another request.");
			return false;
		case STORE_REPLAY_BUSY:
			if (wait_for_first(q->server, deadline_ms))
				continue;
			answer_error(q, API_BUSY, NULL,
				"The first request with this key is still being worked on.");
			return false;
		}
	}
}

bool replay_begin(struct request *q)
{
	const char *key =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Idempotency-Key");
	char hash[HASH_HEX_SIZE];

	if (!key || strcmp(q->method, "GET") == 0 || q->route->flags & ROUTE_NO_REPLAY ||
		request_boolean(q->json, "stream", false))
		return true;
	if (!is_key(key)) {
		answer_error(q, API_INVALID_REQUEST, NULL,
			"Idempotency-Key must be 1 to %d letters, digits, '_', '.', ':' or '-'.",
			KEY_MOST);
		return false;
	}
	if (hash_request(q, hash)) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return false;
	}
	if (!begin(q, key, hash, clock_deadline_ms(BUSY_MS)))
		return false;
	q->replay = key;
	return true;
}

static void trim(struct request *q, size_t bytes)
{
	static _Atomic size_t since;
	struct error err = {0};

	if (atomic_fetch_add(&since, bytes) + bytes < TRIM_STEP)
		return;
	atomic_store(&since, 0);
	if (store_replay_trim(q->server->store, KEPT_MOST, &err))
		log_error("answers to be given again: %s", error_message(&err));
}

void replay_end(struct request *q)
{
	char *body = NULL;
	struct error err = {0};

	if (!q->replay)
		return;
	/* what was refused has changed nothing, and may be tried again with the same key */
	if (q->status < 300 && q->answer)
		body = json_dumps(q->answer, JSON_COMPACT);
	if (body && strlen(body) <= ANSWER_MOST)
		store_replay_answer(q->server->store, q->key.id, q->replay, q->status, body, &err);
	else
		store_replay_drop(q->server->store, q->key.id, q->replay, &err);
	trim(q, body ? strlen(body) : 0);
	free(body);
	q->replay = NULL;
	api_changed(q->server);
}
