/* SPDX-License-Identifier: Apache-2.0 - what the files of egress in the monitor share. */
#ifndef SEALMARK_MONITOR_EGRESS_INTERNAL_H
#define SEALMARK_MONITOR_EGRESS_INTERNAL_H

#include "monitor/egress.h"
#include "monitor/monitor.h"

/* how many connections and lookups may be begun at once, after a time without */
#define OPENS_BURST    300
#define RESOLVES_BURST 300

/*
 *	WAITING ──reply──> OPEN ──both ended, or a fault──> CLOSED ──NET_CLOSE──> free
 *
 * A lookup is WAITING only. In CLOSED the descriptor is gone and NET_CLOSE was sent; the guest's
 * own NET_CLOSE frees the id. While much waits for the guest, no connection is read.
 */
enum connection_state { WAITING, OPEN, CLOSED };

struct connection {
	struct monitor *monitor;
	enum connection_state state;
	uint32_t id;     /* the guest's */
	uint64_t serial; /* towards the connector: what was given up is not taken for another */
	bool is_lookup, answered; /* the guest has sent its NET_CLOSE */
	char host[EGRESS_NAME_MOST + 1];
	uint16_t port;
	struct egress_address address;
	int fd, events;
	uv_poll_t poll;
	struct buffer out;       /* for the world */
	uint32_t credit, window; /* bytes we may send to the guest; bytes it may send */
	uint32_t consumed;
	bool guest_ended, world_ended;
};

/* Tokens come with time. */
struct bucket {
	int64_t filled_ms;
	double tokens;
};

struct egress {
	int fd; /* to the connector */
	bool lost;
	uv_poll_t poll;
	uint64_t serial;
	struct egress_policy *policy;
	bool was_on;
	struct bucket opens, resolves;
	struct connection *connections[WIRE_NET_MOST];
	struct wire_mon_network_reply counts;
};

/* egress.c */
/* The place of the connection of this id, or NULL. */
struct connection **connection_place(struct egress *e, uint32_t id);
/* Its descriptor closes, its id is free. */
void connection_discard(struct connection **place);
/* The bytes are over. The guest is told, and its id is free once it has answered. */
void connection_end(struct connection *c, int error, const char *why);
/* Ended, if both sides have said all. */
bool connection_is_over(struct connection *c);
/* Wait for what can be done now. */
void connection_watch(struct connection *c);
/* As much as the world takes now; a positive errno when it is broken. */
int connection_push(struct connection *c, const uint8_t *bytes, size_t count, size_t *sent);
/* Bytes of the guest were taken: it may send as many again. */
void connection_credit(struct connection *c, size_t bytes);
uint32_t egress_count_open(const struct egress *e);
/* A packet to the connector; false when it takes none now. */
bool egress_ask(struct egress *e, const void *packet, size_t size);
void egress_say_resolved(struct monitor *m, uint32_t id, int error);

#endif
