/* SPDX-License-Identifier: Apache-2.0 - records of a watch, as the API tells them. */
#ifndef SEALMARK_API_WATCHES_H
#define SEALMARK_API_WATCHES_H

#include "api/command.h"

#define WATCH_RECORD 8192 /* bytes of the longest record that is taken */

/*
 * Records (see WATCH in wire.h) become items: events, which have a `type`, and notices, which have
 * a `k`: "overflow", "limit", "end" with its reason, and "lost" with how many bytes are not kept
 * any more. The guest's bytes may be anything: what is no record is passed over. After a gap, and
 * at a cursor that was not given out here, the rest of a record may come first: it is none either,
 * as records do not begin with a slash.
 */
struct watch_items {
	json_t *list;          /* the caller's array */
	uint64_t cursor, told; /* of the next byte; behind the last item */
	char record[WATCH_RECORD];
	size_t count;
	bool skip; /* up to the end of what is no whole record */
	json_t *old_path;
};
/* For output_spec.on_piece. */
int watch_items_piece(
	void *items, enum wire_channel channel, uint64_t offset, const void *bytes, size_t count);
void watch_items_fini(struct watch_items *items);

/* Write lines to fd until the watch ends, the sandbox is paused, or the time is over. */
struct watch_follow {
	struct api_server *server;
	struct sandbox *sandbox;
	const struct store_sandbox *record;
	const char *request_id, *id;
	uint64_t cursor;
};
bool watch_follow(const struct watch_follow *follow, int fd);

#endif
