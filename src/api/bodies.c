/* SPDX-License-Identifier: Apache-2.0 - what bodies may take of the server's memory. */
#include "api/internal.h"

#include <string.h>

/*
 * A body has a limit, and so has the number of requests of a key that are at work. But a body is
 * gathered before its request has its turn, and a byte of JSON can become dozens in memory: "[],"
 * is a list. So large bodies have a share of what all may take together, and JSON has few values.
 */
#define SMALL     65536
#define ALL_MOST  (UINT64_C(1) << 30)
#define KEY_MOST  (UINT64_C(512) << 20) /* as many as may be at work at once, at their largest */
#define JSON_MOST 65536                 /* values and names of one document */

static bool has_room(const struct request *q)
{
	uint64_t all = q->held, own = q->held;

	for (const struct request *o = q->server->bodies; o; o = o->next_body) {
		all += o->held;
		own += strcmp(o->key.id, q->key.id) == 0 ? o->held : 0;
	}
	return all <= ALL_MOST && own <= KEY_MOST;
}

bool body_grows(struct request *q, uint64_t length, uint64_t most)
{
	bool room;

	if (length <= SMALL || q->held)
		return true;
	q->held = most;
	pthread_mutex_lock(&q->server->lock);
	room = has_room(q);
	if (room) {
		q->next_body = q->server->bodies;
		q->server->bodies = q;
	} else {
		q->held = 0;
	}
	pthread_mutex_unlock(&q->server->lock);
	return room;
}

void body_done(struct request *q)
{
	struct request **at;

	if (!q->held)
		return;
	pthread_mutex_lock(&q->server->lock);
	for (at = &q->server->bodies; *at; at = &(*at)->next_body) {
		if (*at == q) {
			*at = q->next_body;
			break;
		}
	}
	pthread_mutex_unlock(&q->server->lock);
	q->held = 0;
}

bool body_is_modest(const void *bytes, size_t count)
{
	const char *p = bytes, *end = p + count;
	size_t values = 0;
	bool text = false;

	for (; p < end && values <= JSON_MOST; p++) {
		if (text && *p == '\\')
			p++;
		else if (*p == '"')
			text = !text;
		else if (!text)
			values += *p == '[' || *p == '{' || *p == ',' || *p == ':';
	}
	return values <= JSON_MOST;
}
