/* SPDX-License-Identifier: Apache-2.0 - what the files of the guest's way out share. */
#ifndef SEALMARK_AGENT_EGRESS_INTERNAL_H
#define SEALMARK_AGENT_EGRESS_INTERNAL_H

#include "agent.h"
#include "egress.h"

#include <sys/types.h>

/*
 *	HEAD ──OPEN──> OPENING ──OPENED──> OPEN ──both ended──> (NET_CLOSE) ──> free
 *
 * Of one that is open, the host has closed and bytes are left: DRAINING; the program has closed:
 * CLOSING, until the host answers.
 */
enum state { FREE = 0, HEAD, OPENING, OPEN, DRAINING, CLOSING };
enum kind { PROXY, DIRECT, DNS };

/* Made when a connection begins; pages that are not needed are never touched. */
struct memory {
	uint8_t in[PROXY_HEAD_MOST];
	uint8_t pending[2 * PROXY_HEAD_MOST + 64]; /* goes to the host first */
	uint8_t ring[WIRE_NET_WINDOW];             /* from the host, not taken yet */
};

struct connection {
	enum state state;
	enum kind kind;
	uint32_t id, generation;
	int fd;
	bool readable, writable;
	bool is_socks, greeted;
	struct proxy_body body; /* of what is sent to the host */
	bool asking;            /* DNS: one question is under way */
	bool ended;             /* NET_END was sent */
	bool host_ended;        /* and received */
	uint32_t credit;        /* bytes the host will take */
	uint32_t window;        /* bytes it may send */
	uint32_t consumed;
	uint32_t in, pending_at, pending, ring_at, ring;
	struct memory *memory;
};

struct query {
	uint32_t id; /* 0: free */
	struct dns_question question;
	struct connection *connection; /* NULL: by UDP */
	uint32_t generation;
	struct sockaddr_in peer;
	struct in_addr local;
};

#define EGRESS_SERVICES 7 /* listeners, see egress.c */

struct egress_state {
	bool on;
	int listeners[EGRESS_SERVICES];
	int dns_fd; /* the one of them for UDP, or -1 */
	bool ready[EGRESS_SERVICES];
	uint32_t next_id, turn;
	struct connection connections[EGRESS_CONNECTIONS];
	struct query queries[EGRESS_QUERIES];
};
extern struct egress_state egress;

uint32_t egress_fresh_id(void);

/* egress.c: the table of connections. Bytes were taken: the host may send as many again. */
void connection_credit(struct agent *a, struct connection *c, uint32_t bytes);
/* The program's end is over, for good or by a fault that it is told by a reset. */
void connection_drop(struct agent *a, struct connection *c, int error);
/* Ask the host for a connection. */
void connection_open(struct agent *a, struct connection *c, const struct proxy_target *target);

/* egress_flow.c: bytes between program and host. */
ssize_t connection_push(struct connection *c, const uint8_t *bytes, size_t count);
void connection_flush(struct agent *a, struct connection *c);
void connection_deliver(
	struct agent *a, struct connection *c, const uint8_t *bytes, uint32_t count);
void connection_finish(struct agent *a, struct connection *c);
void connection_say_socks(struct connection *c, uint8_t code);
void connection_refuse(struct connection *c, int error, const char *why);
void connection_read_head(struct agent *a, struct connection *c);
void connection_send(struct agent *a, struct connection *c);

/* egress_query.c: names. */
void query_begin(struct agent *a, const struct query *from, const uint8_t *bytes, size_t count);
int query_end(struct agent *a, uint32_t id, uint32_t error);
/* One question of a socket: could there be more? */
bool query_datagram(struct agent *a, int fd);

#endif
