/* SPDX-License-Identifier: Apache-2.0 - what a sandbox may connect to: rules, and what is never
 * reachable. */
#ifndef SEALMARK_MONITOR_EGRESS_POLICY_H
#define SEALMARK_MONITOR_EGRESS_POLICY_H

#include "base/error.h"

#include <ifaddrs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A policy is a JSON object:
 *
 *	{"internet": true, "allow": ["*.example.org", "192.0.2.0/24:443"], "deny":
 *["x.example.org"], "alsoAllow": ["10.1.2.0/24"]}
 *
 * A rule is a name, *.NAME (any name below it), an address, a range ADDRESS/BITS, or * for all,
 *each with an optional :PORT. `deny` wins over `allow`. With rules in `allow`, only what one of
 *them names is allowed: a name by a rule for names, an address that was not looked up by a rule for
 * addresses. Never allowed, whatever the rules say, are addresses that are not of the public
 * internet (private, loopback, link-local, shared, benchmarks, multicast, reserved, what embeds
 * such in IPv6), the metadata services of clouds, and this host's own; but for ranges in
 * `alsoAllow`, which is the operator's.
 */
#define EGRESS_POLICY_MOST 32768u /* bytes of its JSON */
#define EGRESS_RULES_MOST  512u
#define EGRESS_NAME_MOST   253u

struct egress_address {
	uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
};

enum egress_rule_kind { EGRESS_ANY, EGRESS_NAME, EGRESS_BELOW, EGRESS_RANGE };

struct egress_rule {
	enum egress_rule_kind kind;
	char name[EGRESS_NAME_MOST + 1]; /* lower case, without final dot */
	struct egress_address address;
	unsigned bits; /* of 128 */
	uint16_t port; /* 0: any */
};

enum egress_verdict {
	EGRESS_ALLOWED = 0,
	EGRESS_OFF,        /* no internet */
	EGRESS_DENIED,     /* a rule of `deny` */
	EGRESS_NOT_LISTED, /* no rule of `allow` */
	EGRESS_NOT_PUBLIC  /* an address that is never reachable */
};

struct egress_policy {
	bool internet;
	struct egress_rule *allow, *deny, *also;
	size_t allow_count, deny_count, also_count;
};

/* 0, or -EINVAL with the reason in *why ("is not a name, ..."). */
int egress_rule_parse(const char *text, struct egress_rule *out, const char **why);
/* Errors name the entry: "allow[3]: ...". */
int egress_policy_new(const char *json, struct egress_policy **out, struct error *err);
void egress_policy_free(struct egress_policy *policy);

/* An address in text ("192.0.2.1", "2001:db8::1"); false when it is none. */
bool egress_address_parse(const char *text, struct egress_address *out);
void egress_address_from(const struct sockaddr *address, struct egress_address *out);
void egress_address_text(const struct egress_address *address, char *out, size_t size);
/* Lower case without final dot into out[EGRESS_NAME_MOST + 1]; false for what is no name of a host,
 * and for numbers that some take for an address. */
bool egress_name_normal(const char *text, char *out);

/* May the name be looked up? port 0: for whatever port. */
enum egress_verdict egress_check_name(
	const struct egress_policy *policy, const char *name, uint16_t port);
/* May the address be connected to, as one of `name` (NULL: it was asked for by itself)? `own` are
 * further addresses that are never reachable. */
enum egress_verdict egress_check_address(const struct egress_policy *policy, const char *name,
	const struct egress_address *address, uint16_t port, const struct egress_address *own,
	size_t own_count);
/* Is it an address of the public internet? */
bool egress_is_public(const struct egress_address *address);
/* Of a host's interfaces those that would be, as a host's own are never reachable; their number, or
 * -1 when they are more than `most`. */
int egress_own_addresses(const struct ifaddrs *list, struct egress_address *out, size_t most);
/* "denied by a rule" and the like. */
const char *egress_verdict_text(enum egress_verdict verdict);

#endif
