/* SPDX-License-Identifier: Apache-2.0 - what lasts longer than a request ends with its key or
 * session. */
#include "api/people.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>

/*
 * A key is checked when a request comes. A stream or a terminal then goes on for hours: it is
 * checked again, each second in which something passes, and with each message of a client.
 */
#define LOOK_MS 1000

void standing_take(const struct request *q, struct standing *out)
{
	*out = (struct standing){.person = q->person, .looked_ms = clock_ms()};
	text_copy(out->key, sizeof(out->key), q->key.id);
	text_copy(out->session, sizeof(out->session), q->session);
}

bool standing_holds(struct api_server *server, struct standing *s, bool used)
{
	const int64_t now = clock_ms();
	struct store_api_key key = {0};
	int r;

	if (!used && now - s->looked_ms < LOOK_MS)
		return true;
	if (s->person)
		r = session_stands(server, s->session, used);
	else
		r = store_key_get(server->store, s->key, &key, NULL);
	if (r == -ENOENT || (!r && key.revoked_ms))
		return false;
	/* a store that cannot be read now says nothing: it is asked again with what comes next */
	if (!r)
		s->looked_ms = now;
	return true;
}
