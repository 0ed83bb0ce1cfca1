/* SPDX-License-Identifier: Apache-2.0 - connections from the guest to the world. */
#ifndef SEALMARK_MONITOR_EGRESS_H
#define SEALMARK_MONITOR_EGRESS_H

#include "base/error.h"
#include "monitor/egress_policy.h"
#include "wire/wire.h"

#include <sys/types.h>

/*
 * Theory of operation
 *
 *	program ── http, socks, dns ──> agent ── NET_ frames ──> monitor proper ── bytes ──> world
 *	                                                           │      ^
 *	                                            name and port  v      │ connected descriptor
 *	                                                         connector
 *
 * The guest has no card. Its agent takes connections on the guest's loopback and asks the monitor,
 * in NET_ frames, to connect to a name or an address. What the agent understood of its programs'
 * protocols stays in the guest: it is hostile anyway.
 *
 * The monitor proper makes no connection. Its list of system calls has no socket and no connect,
 * with internet or without. It passes what is asked to the connector, a process that the keeper
 * forks for it, which holds the policy, looks names up, checks every address, connects to the very
 * address that it has checked, and passes the descriptor back. So a name that points elsewhere a
 * moment later changes nothing, and who takes over the monitor still reaches only what the
 * connector lets it. The connector reads nothing of the guest but the strictly checked name and
 * port, and never a byte of a connection; it reads answers of name servers, through the C library.
 *
 * The monitor (egress.c) carries bytes, with credit for each direction, holds the policy too, and
 * resets at once what a new policy denies.
 *
 * Without a policy in its configuration (grading, `sandbox run`) a sandbox has no connector, and a
 * NET_ frame of its guest is a breach of the protocol, which ends it.
 */
struct monitor;
struct egress;

/* --- between monitor and connector, over a SOCK_SEQPACKET pair; one packet each --- */
enum egress_ask_kind { EGRESS_ASK_OPEN = 1, EGRESS_ASK_RESOLVE, EGRESS_ASK_POLICY };

struct egress_ask {
	uint64_t id;
	uint32_t kind;
	uint16_t port;
	char host[EGRESS_NAME_MOST + 1]; /* in normal form, or an address */
					 /* EGRESS_ASK_POLICY: its JSON follows */
};

/* With the descriptor of the connection, if there is one. */
struct egress_reply {
	uint64_t id;
	uint32_t kind;
	int32_t error;   /* positive errno; 0: done */
	int32_t refused; /* enum egress_verdict, when that was the reason */
	struct egress_address address;
	char why[120];
};

/* egress_connector.c: become uid:gid, take rights away, serve on fd until it closes; never
 * returns. Everything else that the process has open is closed. */
_Noreturn void egress_connector_run(int fd, const char *policy, uid_t uid, gid_t gid);

/* --- egress.c, in the monitor proper --- */
/* fd: the socket to the connector. */
int egress_start(struct monitor *m, int fd, const char *policy, struct error *err);
/* The guest is ready: it is told to listen, if it may. */
void egress_guest_ready(struct monitor *m);
/* A NET_ frame of the guest: 0 or -EPROTO with the reason. */
int egress_from_guest(struct monitor *m, const struct wire_frame *f, const char **why);
/* There is room towards the guest again. */
void egress_resume(struct monitor *m);
/* A new policy (text of JSON), at once; "" only asks. Fills in the reply, or the error. */
int egress_set(struct monitor *m, const char *policy, struct wire_mon_network_reply *out,
	struct error *err);
void egress_close(struct monitor *m);

#endif
