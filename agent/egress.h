/* SPDX-License-Identifier: Apache-2.0 - the guest's way out: proxies, DNS and direct connections.
 */
#ifndef SEALMARK_AGENT_EGRESS_H
#define SEALMARK_AGENT_EGRESS_H

#include "dns.h"
#include "proxy.h"
#include "wire/wire.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * When the host says so (NET_SET), the agent listens inside the guest:
 *
 *	127.0.0.1:3128, :1080	HTTP proxy (CONNECT, http:// URLs) and SOCKS5, told apart by the
 *				first byte
 *	*:53			DNS over UDP and TCP; /etc/resolv.conf points there
 *	*:22, *:80, *:443	connections of programs that know no proxy
 *
 * A route makes every IPv4 address one of the guest's own, so that a connection to any address and
 * one of these ports comes here, and getsockname(2) tells where it was meant to go; to other ports
 * it is refused at once. DNS answers with addresses of 198.18.0.0/15 that stand for names: where a
 * connection is meant to go is then known by name, so rules by name hold exactly, and the address
 * is found and checked on the host, when the connection is made.
 *
 * What programs say here is understood by the agent and passed on as a name or address and a port;
 * every decision is the host's. Nothing here is a fence: root in the guest may speak to the host
 * itself, and gets no further.
 */
#define EGRESS_CONNECTIONS 192
#define EGRESS_QUERIES     32
#define EGRESS_NAMES       8192

struct agent;

/* A NET_ frame of the host: 0 or -EPROTO. */
int egress_take(struct agent *a, const struct wire_frame *f);
/* An event on descriptor `slot` of the tag. */
void egress_event(uint32_t slot, uint32_t generation, uint32_t events);
/* One piece of work for each connection; is there more that could be done at once? */
void egress_work(struct agent *a);
bool egress_busy(void);
/* Variables for commands, NULL-terminated; empty without internet. */
const char *const *egress_variables(void);

/* egress_setup.c: a listener on TCP or UDP (or negative errno), the route, /etc/resolv.conf. */
int egress_listen(uint32_t address, uint16_t port, int type);
int egress_route(bool add);
int egress_resolv_conf(void);
/* egress_names.c: addresses that stand for names. */
uint32_t egress_name_address(const char *name);
const char *egress_address_name(uint32_t address); /* NULL: stands for none */
bool egress_is_stand_in(uint32_t address);

#endif
