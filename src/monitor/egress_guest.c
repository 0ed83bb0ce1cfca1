/* SPDX-License-Identifier: Apache-2.0 - what the guest says of its connections: checked, and done.
 */
#include "monitor/egress_internal.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define OPENS_PER_S      100
#define RESOLVES_PER_S   100
#define CONNECTIONS_MOST 192 /* at once; the rest of the ids is for lookups */

static bool take_token(struct bucket *b, double per_s, double burst)
{
	int64_t now = clock_ms();

	b->tokens += (double)(now - b->filled_ms) * per_s / 1000;
	b->filled_ms = now;
	if (b->tokens > burst)
		b->tokens = burst;
	if (b->tokens < 1)
		return false;
	b->tokens -= 1;
	return true;
}

/* a place for a new id; -EPROTO when it cannot be */
static int add(
	struct monitor *m, uint32_t id, bool is_lookup, struct connection **out, const char **why)
{
	struct egress *e = m->egress;
	struct connection *c;

	*why = "a connection's id that is in use, or 0, or one too many";
	if (id == 0 || connection_place(e, id))
		return -EPROTO;
	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		if (e->connections[i])
			continue;
		c = calloc(1, sizeof(*c));
		if (!c)
			return -EPROTO; /* out of memory: the sandbox ends */
		*c = (struct connection){.monitor = m,
			.id = id,
			.serial = ++e->serial,
			.is_lookup = is_lookup,
			.fd = -1,
			.credit = WIRE_NET_WINDOW,
			.window = WIRE_NET_WINDOW};
		e->connections[i] = c;
		*out = c;
		return 0;
	}
	return -EPROTO;
}

static bool is_target(const char *text, char *out)
{
	struct egress_address address;

	if (egress_address_parse(text, &address)) {
		egress_address_text(&address, out, EGRESS_NAME_MOST + 1);
		return true;
	}
	return egress_name_normal(text, out);
}

static int take_open(struct monitor *m, const struct wire_frame *f, const char **why)
{
	struct egress *e = m->egress;
	struct egress_ask packet = {.kind = EGRESS_ASK_OPEN};
	struct wire_net_open open;
	struct connection *c;

	if (wire_get_net_open(f->payload, f->length, &open) || add(m, f->stream, false, &c, why))
		return -EPROTO;
	if (open.port < 1 || open.port > 65535 || !is_target(open.host.text, c->host)) {
		connection_end(c, EINVAL, "not a name or an address with a port");
	} else if (egress_count_open(e) > CONNECTIONS_MOST) {
		e->counts.refused++;
		connection_end(c, EMFILE, "too many connections at once");
	} else if (!take_token(&e->opens, OPENS_PER_S, OPENS_BURST)) {
		e->counts.refused++;
		connection_end(c, EAGAIN, "too many connections in a short time");
	} else {
		packet.id = c->serial;
		c->port = packet.port = (uint16_t)open.port;
		text_copy(packet.host, sizeof(packet.host), c->host);
		if (!egress_ask(e, &packet, sizeof(packet)))
			connection_end(c, EAGAIN, "too many connections in a short time");
	}
	return 0;
}

static int take_resolve(struct monitor *m, const struct wire_frame *f, const char **why)
{
	struct egress *e = m->egress;
	struct egress_ask packet = {.kind = EGRESS_ASK_RESOLVE};
	struct wire_net_resolve resolve;
	struct connection *c;
	int error = 0;

	if (wire_get_net_resolve(f->payload, f->length, &resolve) ||
		add(m, f->stream, true, &c, why))
		return -EPROTO;
	e->counts.names++;
	packet.id = c->serial;
	if (!egress_name_normal(resolve.name.text, packet.host))
		error = EINVAL;
	else if (!take_token(&e->resolves, RESOLVES_PER_S, RESOLVES_BURST) ||
		 !egress_ask(e, &packet, sizeof(packet)))
		error = EAGAIN;
	if (error) {
		egress_say_resolved(m, f->stream, error);
		connection_discard(connection_place(e, f->stream));
	}
	return 0;
}

static int take_data(struct connection *c, const struct wire_frame *f, const char **why)
{
	struct wire_net_data data;
	size_t sent = 0;
	int r = 0;

	if (c->state == CLOSED)
		return 0; /* it was under way */
	*why = "bytes of a connection without credit or after their end";
	if (wire_get_net_data(f->payload, f->length, &data) || c->guest_ended ||
		!data.bytes.count || data.bytes.count > c->window || c->state != OPEN)
		return -EPROTO;
	c->window -= data.bytes.count;
	if (buffer_length(&c->out) == 0)
		r = connection_push(c, data.bytes.bytes, data.bytes.count, &sent);
	if (!r && sent < data.bytes.count &&
		buffer_add(&c->out, data.bytes.bytes + sent, data.bytes.count - sent))
		r = ENOMEM;
	if (r) {
		connection_end(c, r, strerror(r));
		return 0;
	}
	connection_credit(c, sent);
	connection_watch(c);
	return 0;
}

static int take_end(struct connection *c, const char **why)
{
	if (c->state == CLOSED)
		return 0;
	*why = "the end of a connection's bytes twice, or before it was opened";
	if (c->guest_ended || c->state != OPEN)
		return -EPROTO;
	c->guest_ended = true;
	if (buffer_length(&c->out) == 0)
		shutdown(c->fd, SHUT_WR);
	if (!connection_is_over(c))
		connection_watch(c);
	return 0;
}

static int take_credit(struct connection *c, const struct wire_frame *f, const char **why)
{
	struct wire_net_credit credit;

	if (c->state == CLOSED)
		return 0;
	*why = "credit of a connection that cannot be";
	if (wire_get_net_credit(f->payload, f->length, &credit) || credit.bytes > WIRE_NET_WINDOW ||
		c->credit > WIRE_NET_WINDOW - credit.bytes)
		return -EPROTO;
	c->credit += credit.bytes;
	connection_watch(c);
	return 0;
}

static void take_close(struct connection **place, const struct wire_frame *f)
{
	struct connection *c = *place;

	c->answered = true;
	if (c->state == CLOSED)
		connection_discard(place);
	else
		connection_end(c, ECONNRESET, "");
}

int egress_from_guest(struct monitor *m, const struct wire_frame *f, const char **why)
{
	struct egress *e = m->egress;
	struct connection **place;

	*why = "a message about the network, which this sandbox does not have";
	if (!e || !e->was_on)
		return -EPROTO;
	if (f->type == WIRE_NET_OPEN)
		return take_open(m, f, why);
	if (f->type == WIRE_NET_RESOLVE)
		return take_resolve(m, f, why);
	*why = "a message about a connection that is not there";
	place = connection_place(e, f->stream);
	if (!place || (*place)->is_lookup)
		return -EPROTO;
	switch (f->type) {
	case WIRE_NET_DATA:
		return take_data(*place, f, why);
	case WIRE_NET_END:
		return take_end(*place, why);
	case WIRE_NET_CREDIT:
		return take_credit(*place, f, why);
	case WIRE_NET_CLOSE:
		take_close(place, f);
		return 0;
	default:
		return -EPROTO;
	}
}
