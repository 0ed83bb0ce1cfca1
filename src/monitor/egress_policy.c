/* SPDX-License-Identifier: Apache-2.0 - rules of egress, see egress_policy.h. */
#include "monitor/egress_policy.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* --- addresses --- */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const struct egress_address *a)
{
	return memcmp(a->bytes, mapped, sizeof(mapped)) == 0;
}

bool egress_address_parse(const char *text, struct egress_address *out)
{
	memcpy(out->bytes, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, out->bytes + 12) == 1 ||
	       inet_pton(AF_INET6, text, out->bytes) == 1;
}

void egress_address_from(const struct sockaddr *sa, struct egress_address *out)
{
	if (sa->sa_family == AF_INET) {
		memcpy(out->bytes, mapped, sizeof(mapped));
		memcpy(out->bytes + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr,
			4);
	} else {
		memcpy(out->bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	}
}

void egress_address_text(const struct egress_address *address, char *out, size_t size)
{
	bool v4 = is_v4(address);

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? 12 : 0), out,
		    (socklen_t)size) &&
		size)
		out[0] = 0;
}

static bool within(const uint8_t *address, const uint8_t *range, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(address, range, whole) == 0 &&
	       (!rest || ((address[whole] ^ range[whole]) >> (8 - rest)) == 0);
}

struct range4 {
	uint8_t address[4];
	unsigned bits;
};

/* What the registry of special addresses has as not globally reachable; and two that clouds answer
 * on to every machine. The ranges of documentation are nobody's and harmless. */
static const struct range4 not_public4[] = {
	{{0, 0, 0, 0}, 8},
	{{10, 0, 0, 0}, 8},
	{{100, 64, 0, 0}, 10}, /* shared by carriers; metadata of one cloud */
	{{127, 0, 0, 0}, 8},
	{{168, 63, 129, 16}, 32}, /* metadata of one cloud, by a public address */
	{{169, 254, 0, 0}, 16},   /* link-local; metadata of most clouds */
	{{172, 16, 0, 0}, 12},
	{{192, 0, 0, 0}, 24},
	{{192, 88, 99, 0}, 24}, /* relays of 6to4 */
	{{192, 168, 0, 0}, 16},
	{{198, 18, 0, 0}, 15}, /* benchmarks; the agent's addresses for names */
	{{224, 0, 0, 0}, 4},
	{{240, 0, 0, 0}, 4},
};

static bool is_public4(const uint8_t *address)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_public4); i++) {
		if (within(address, not_public4[i].address, not_public4[i].bits))
			return false;
	}
	return true;
}

/* The IPv4 address that a translator (NAT64) or a tunnel (6to4) makes of an IPv6 one. */
static bool embedded4(const struct egress_address *a, struct egress_address *out)
{
	static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}, six_to_four[2] = {0x20, 0x02};
	const uint8_t *b = a->bytes, *v4;

	if (within(b, nat64, 96))
		v4 = b + 12;
	else if (within(b, six_to_four, 16))
		v4 = b + 2;
	else
		return false;
	memcpy(out->bytes, mapped, sizeof(mapped));
	memcpy(out->bytes + 12, v4, 4);
	return true;
}

bool egress_is_public(const struct egress_address *a)
{
	static const uint8_t protocols[3] = {0x20, 0x01};
	const uint8_t *b = a->bytes;
	struct egress_address inner;

	if (is_v4(a))
		return is_public4(b + 12);
	if (embedded4(a, &inner))
		return is_public4(inner.bytes + 12);
	/* global unicast is 2000::/3; all else is local, reserved or embeds an IPv4 address. Below
	 * 2001::/23 are protocols (Teredo, benchmarks, ORCHID), and nobody's hosts. */
	return (b[0] & 0xe0) == 0x20 && !within(b, protocols, 23);
}

int egress_own_addresses(const struct ifaddrs *list, struct egress_address *out, size_t most)
{
	struct egress_address a;
	size_t n = 0;

	for (; list; list = list->ifa_next) {
		if (!list->ifa_addr || (list->ifa_addr->sa_family != AF_INET &&
					       list->ifa_addr->sa_family != AF_INET6))
			continue;
		egress_address_from(list->ifa_addr, &a);
		if (!egress_is_public(&a))
			continue;
		if (n == most)
			return -1;
		out[n++] = a;
	}
	return (int)n;
}

/* --- names --- */

static bool is_number(const char *label)
{
	size_t n;

	if (label[0] == '0' && label[1] == 'x')
		return label[2 + strspn(label + 2, "0123456789abcdef")] == 0;
	n = strspn(label, "0123456789");
	return label[n] == 0;
}

bool egress_name_normal(const char *text, char *out)
{
	size_t n = strlen(text), label = 0;
	const char *last;

	if (n && text[n - 1] == '.')
		n--;
	if (n == 0 || n > EGRESS_NAME_MOST)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 'A' && c <= 'Z')
			c = (unsigned char)(c + 32);
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' &&
			c != '.')
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > 63 || (c == '.' && (i == 0 || text[i - 1] == '.')))
			return false;
		out[i] = (char)c;
	}
	out[n] = 0;
	last = strrchr(out, '.');
	return !is_number(last ? last + 1 : out);
}

/* --- rules --- */

static const char not_a_rule[] =
	"is not a name, *.NAME, an address or a range, as example.org, *.example.org:443, "
	"192.0.2.1 or 192.0.2.0/24";

/* ":443" at the end: the port, cut off; [v6] loses its brackets. false: wrong */
static bool take_port(char *text, uint16_t *port)
{
	char *close = text[0] == '[' ? strchr(text, ']') : NULL;
	char *colon = strchr(close ? close : text, ':');
	uint32_t n;

	if (text[0] == '[') {
		if (!close || (close[1] && close[1] != ':'))
			return false;
		*close = 0;
		memmove(text, text + 1, strlen(text + 1) + 1);
	} else if (colon && strchr(colon + 1, ':')) {
		return true; /* IPv6 without port */
	}
	if (!colon)
		return true;
	*colon = 0;
	if (text_u32(colon + 1, &n) || n < 1 || n > 65535)
		return false;
	*port = (uint16_t)n;
	return true;
}

static bool take_range(char *text, struct egress_rule *out)
{
	char *slash = strchr(text, '/');
	uint32_t bits, most;

	if (slash)
		*slash = 0;
	if (!egress_address_parse(text, &out->address)) {
		if (slash)
			*slash = '/'; /* whatever it is, it is so with all that was written */
		return false;
	}
	/* also ::ffff:192.0.2.1 is that IPv4 address */
	most = is_v4(&out->address) && !strchr(text, ':') ? 32 : 128;
	bits = most;
	if (slash && (text_u32(slash + 1, &bits) || bits > most))
		return false;
	out->bits = bits + 128 - most;
	out->kind = EGRESS_RANGE;
	return true;
}

int egress_rule_parse(const char *given, struct egress_rule *out, const char **why)
{
	char text[EGRESS_NAME_MOST + 64];

	*out = (struct egress_rule){0};
	*why = not_a_rule;
	for (const char *p = given; *p; p++) {
		if ((unsigned char)*p >= 0x80) {
			*why = "has letters outside ASCII: write such names as xn--...";
			return -EINVAL;
		}
	}
	if (text_copy(text, sizeof(text), given) || strstr(text, "://"))
		return -EINVAL;
	if (!take_port(text, &out->port)) {
		*why = "has no port from 1 to 65535 after its colon";
		return -EINVAL;
	}
	if (strcmp(text, "*") == 0) {
		out->kind = EGRESS_ANY;
		return 0;
	}
	if (take_range(text, out))
		return 0;
	out->kind = text_starts(text, "*.") ? EGRESS_BELOW : EGRESS_NAME;
	return egress_name_normal(text + (out->kind == EGRESS_BELOW ? 2 : 0), out->name) ? 0
											 : -EINVAL;
}

static bool matches_port(const struct egress_rule *r, uint16_t port)
{
	return !r->port || !port || r->port == port;
}

static bool matches_name(const struct egress_rule *r, const char *name)
{
	size_t n, k;

	switch (r->kind) {
	case EGRESS_ANY:
		return true;
	case EGRESS_NAME:
		return strcmp(r->name, name) == 0;
	case EGRESS_BELOW:
		n = strlen(name);
		k = strlen(r->name);
		return n > k + 1 && name[n - k - 1] == '.' && strcmp(name + n - k, r->name) == 0;
	case EGRESS_RANGE:
	default:
		return false;
	}
}

static bool matches_address(const struct egress_rule *r, const struct egress_address *a)
{
	return r->kind == EGRESS_ANY ||
	       (r->kind == EGRESS_RANGE && within(a->bytes, r->address.bytes, r->bits));
}

/* --- policies --- */

static int read_rules(const json_t *root, const char *key, struct egress_rule **out, size_t *count,
	struct error *err)
{
	const json_t *list = json_object_get(root, key), *entry;
	size_t i, n = json_array_size(list);
	const char *why;

	if (list && !json_is_array(list) && !json_is_null(list))
		return error_set(err, -EINVAL, "%s: must be a list", key);
	if (n > EGRESS_RULES_MOST)
		return error_set(
			err, -EINVAL, "%s: has more than %u rules", key, EGRESS_RULES_MOST);
	*out = calloc(n + 1, sizeof(**out));
	if (!*out)
		return error_set(err, -ENOMEM, "out of memory");
	json_array_foreach ((json_t *)(uintptr_t)list, i, entry) {
		if (!json_is_string(entry))
			return error_set(err, -EINVAL, "%s[%zu]: must be a string", key, i);
		if (egress_rule_parse(json_string_value(entry), &(*out)[i], &why))
			return error_set(err, -EINVAL, "%s[%zu]: \"%.80s\" %s", key, i,
				json_string_value(entry), why);
	}
	*count = n;
	return 0;
}

static int check_ranges(const struct egress_policy *p, struct error *err)
{
	for (size_t i = 0; i < p->also_count; i++) {
		if (p->also[i].kind != EGRESS_RANGE || p->also[i].port)
			return error_set(err, -EINVAL,
				"alsoAllow[%zu]: must be an address or a range, without a port", i);
	}
	return 0;
}

static int read_policy(const json_t *root, struct egress_policy *p, struct error *err)
{
	static const char *const known[] = {"internet", "allow", "deny", "alsoAllow"};
	const json_t *internet = json_object_get(root, "internet");
	const char *key;
	json_t *value;
	int r;

	json_object_foreach ((json_t *)(uintptr_t)root, key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(known) && strcmp(known[i], key))
			i++;
		if (i == ARRAY_SIZE(known))
			return error_set(err, -EINVAL, "%.60s: unknown field", key);
	}
	if (!json_is_boolean(internet))
		return error_set(err, -EINVAL, "internet: must be true or false");
	p->internet = json_is_true(internet);
	r = read_rules(root, "allow", &p->allow, &p->allow_count, err);
	if (!r)
		r = read_rules(root, "deny", &p->deny, &p->deny_count, err);
	if (!r)
		r = read_rules(root, "alsoAllow", &p->also, &p->also_count, err);
	return r ? r : check_ranges(p, err);
}

int egress_policy_new(const char *json, struct egress_policy **out, struct error *err)
{
	struct egress_policy *p = calloc(1, sizeof(*p));
	json_error_t where;
	json_t *root;
	int r;

	*out = NULL;
	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	root = strlen(json) <= EGRESS_POLICY_MOST ? json_loads(json, JSON_REJECT_DUPLICATES, &where)
						  : NULL;
	if (json_is_object(root))
		r = read_policy(root, p, err);
	else
		r = error_set(err, -EINVAL, "is not a JSON object of at most %u bytes",
			EGRESS_POLICY_MOST);
	json_decref(root);
	if (r) {
		egress_policy_free(p);
		return r;
	}
	*out = p;
	return 0;
}

void egress_policy_free(struct egress_policy *p)
{
	if (!p)
		return;
	free(p->allow);
	free(p->deny);
	free(p->also);
	free(p);
}

/* --- verdicts --- */

enum egress_verdict egress_check_name(
	const struct egress_policy *p, const char *name, uint16_t port)
{
	if (!p || !p->internet)
		return EGRESS_OFF;
	for (size_t i = 0; i < p->deny_count; i++) {
		const struct egress_rule *r = &p->deny[i];

		/* a rule for one port says nothing about looking up */
		if (matches_name(r, name) && (port ? matches_port(r, port) : !r->port))
			return EGRESS_DENIED;
	}
	for (size_t i = 0; i < p->allow_count; i++) {
		if (matches_name(&p->allow[i], name) && matches_port(&p->allow[i], port))
			return EGRESS_ALLOWED;
	}
	return p->allow_count ? EGRESS_NOT_LISTED : EGRESS_ALLOWED;
}

static bool is_own(
	const struct egress_address *a, const struct egress_address *own, size_t own_count)
{
	for (size_t i = 0; i < own_count; i++) {
		if (memcmp(a->bytes, own[i].bytes, sizeof(a->bytes)) == 0)
			return true;
	}
	return false;
}

static bool is_reachable(const struct egress_policy *p, const struct egress_address *a,
	const struct egress_address *own, size_t own_count)
{
	struct egress_address inner;

	for (size_t i = 0; i < p->also_count; i++) {
		if (matches_address(&p->also[i], a))
			return true;
	}
	if (is_own(a, own, own_count) || (embedded4(a, &inner) && is_own(&inner, own, own_count)))
		return false;
	return egress_is_public(a);
}

/* By whichever of its addresses: a translator leads to the IPv4 address that is in it. */
static bool is_denied(const struct egress_policy *p, const struct egress_address *a, uint16_t port)
{
	struct egress_address inner;
	bool embeds = embedded4(a, &inner);

	for (size_t i = 0; i < p->deny_count; i++) {
		const struct egress_rule *r = &p->deny[i];

		if (matches_port(r, port) &&
			(matches_address(r, a) || (embeds && matches_address(r, &inner))))
			return true;
	}
	return false;
}

enum egress_verdict egress_check_address(const struct egress_policy *p, const char *name,
	const struct egress_address *a, uint16_t port, const struct egress_address *own,
	size_t own_count)
{
	enum egress_verdict verdict = EGRESS_ALLOWED;
	bool listed = false;

	if (!p || !p->internet)
		return EGRESS_OFF;
	if (name)
		verdict = egress_check_name(p, name, port);
	if (verdict != EGRESS_ALLOWED)
		return verdict;
	if (is_denied(p, a, port))
		return EGRESS_DENIED;
	for (size_t i = 0; i < p->allow_count && !name; i++)
		listed |= matches_address(&p->allow[i], a) && matches_port(&p->allow[i], port);
	if (!name && p->allow_count && !listed)
		return EGRESS_NOT_LISTED;
	return is_reachable(p, a, own, own_count) ? EGRESS_ALLOWED : EGRESS_NOT_PUBLIC;
}

const char *egress_verdict_text(enum egress_verdict verdict)
{
	switch (verdict) {
	case EGRESS_ALLOWED:
		return "allowed";
	case EGRESS_OFF:
		return "this sandbox has no internet";
	case EGRESS_DENIED:
		return "a rule of this sandbox denies it";
	case EGRESS_NOT_LISTED:
		return "no rule of this sandbox allows it";
	case EGRESS_NOT_PUBLIC:
	default:
		return "not an address of the public internet";
	}
}
