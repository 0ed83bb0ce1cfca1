/* SPDX-License-Identifier: Apache-2.0 - connections of the guest in the monitor: bytes both ways.
 */
#include "monitor/egress.h"
#include "monitor/monitor.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 *	WAITING ──reply──> OPEN ──both ended, or a fault──> CLOSED ──NET_CLOSE──> free
 *
 * A lookup is WAITING only. In CLOSED the descriptor is gone and NET_CLOSE was sent; the guest's
 * own NET_CLOSE frees the id. While much waits for the guest, no connection is read.
 */
#define TOWARDS_GUEST    (1u << 20) /* bytes that wait for it before connections are held back */
#define OPENS_PER_S      100
#define OPENS_BURST      300
#define RESOLVES_PER_S   100
#define RESOLVES_BURST   300
#define CONNECTIONS_MOST 192 /* at once; the rest of the ids is for lookups */
#define POLICY_FRAME     (sizeof(struct egress_ask) + EGRESS_POLICY_MOST + 1)

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

static void world_ready(uv_poll_t *poll, int status, int events);

/* --- to the guest --- */

static void say_close(struct monitor *m, uint32_t id, int error, const char *why)
{
	uint8_t frame[WIRE_HEADER + 256];
	int n = wire_put_net_close(frame, sizeof(frame), id, 0,
		&(struct wire_net_close){.error = (uint32_t)error, .why = wire_str(why)});

	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
}

static void say_resolved(struct monitor *m, uint32_t id, int error)
{
	uint8_t frame[WIRE_HEADER + 8];
	int n = wire_put_net_resolved(
		frame, sizeof(frame), id, 0, &(struct wire_net_resolved){.error = (uint32_t)error});

	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
}

static void say_plain(struct monitor *m, uint32_t id, enum wire_type type)
{
	uint8_t frame[WIRE_HEADER];

	wire_header_put(frame, 0, type, 0, id);
	guest_send(&m->guest, frame, sizeof(frame));
}

static void say_on(struct monitor *m, bool on)
{
	uint8_t frame[WIRE_HEADER + 8];
	int n = wire_put_net_set(frame, sizeof(frame), 0, 0, &(struct wire_net_set){.on = on});

	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
}

/* --- the table --- */

static struct connection **place_of(struct egress *e, uint32_t id)
{
	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		if (e->connections[i] && e->connections[i]->id == id)
			return &e->connections[i];
	}
	return NULL;
}

static void closed(uv_handle_t *handle)
{
	struct connection *c = handle->data;

	close_fd(&c->fd);
	free(c);
}

static void discard(struct connection **place)
{
	struct connection *c = *place;

	*place = NULL;
	buffer_fini(&c->out);
	if (c->fd >= 0 && !uv_is_closing((uv_handle_t *)&c->poll))
		uv_close((uv_handle_t *)&c->poll, closed);
	else if (c->fd < 0)
		free(c);
}

static uint32_t count_open(const struct egress *e)
{
	uint32_t n = 0;

	for (size_t i = 0; i < WIRE_NET_MOST; i++)
		n += e->connections[i] && !e->connections[i]->is_lookup;
	return n;
}

/* The bytes are over. The guest is told, and its id is free once it has answered. */
static void end(struct connection *c, int error, const char *why)
{
	struct connection **place = place_of(c->monitor->egress, c->id);
	struct connection *rest;

	if (c->state == CLOSED)
		return;
	if (error && c->fd >= 0) /* the other end is told of the fault too */
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
			sizeof(struct linger));
	say_close(c->monitor, c->id, error, why);
	if (c->answered || c->fd < 0) {
		c->state = CLOSED;
		if (c->answered)
			discard(place);
		return;
	}
	/* what holds the id is no longer tied to the descriptor, which closes on its own */
	rest = calloc(1, sizeof(*rest));
	if (!rest) {
		c->state = CLOSED;
		uv_poll_stop(&c->poll);
		return;
	}
	rest->monitor = c->monitor;
	rest->id = c->id;
	rest->state = CLOSED;
	rest->fd = -1;
	discard(place);
	*place = rest;
}

/* --- to the world --- */

static void watch(struct connection *c)
{
	struct monitor *m = c->monitor;
	int events = 0;

	if (c->state != OPEN)
		return;
	if (!c->world_ended && c->credit && buffer_length(&m->guest.out) < TOWARDS_GUEST)
		events |= UV_READABLE;
	if (buffer_length(&c->out))
		events |= UV_WRITABLE;
	if (events == c->events)
		return;
	if (events ? uv_poll_start(&c->poll, events, world_ready) : uv_poll_stop(&c->poll))
		return;
	c->events = events;
}

static void give_credit(struct connection *c, size_t bytes)
{
	uint8_t frame[WIRE_HEADER + 8];
	int n;

	c->consumed += (uint32_t)bytes;
	if (c->consumed < WIRE_NET_STEP || c->guest_ended)
		return;
	n = wire_put_net_credit(
		frame, sizeof(frame), c->id, 0, &(struct wire_net_credit){.bytes = c->consumed});
	c->window += c->consumed;
	c->consumed = 0;
	if (n > 0)
		guest_send(&c->monitor->guest, frame, (size_t)n);
}

/* false: the connection has ended */
static bool is_over(struct connection *c)
{
	if (c->guest_ended && buffer_length(&c->out) == 0 && c->world_ended) {
		end(c, 0, "");
		return true;
	}
	return false;
}

/* as much as the world takes now; a positive errno when it is broken */
static int push(struct connection *c, const uint8_t *bytes, size_t count, size_t *sent)
{
	ssize_t n;

	*sent = 0;
	while (*sent < count) {
		n = send(c->fd, bytes + *sent, count - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return errno;
		*sent += (size_t)n;
	}
	c->monitor->egress->counts.bytes_out += *sent;
	return 0;
}

static int flush(struct connection *c)
{
	size_t sent;
	int r;

	if (buffer_length(&c->out) == 0)
		return 0;
	r = push(c, buffer_bytes(&c->out), buffer_length(&c->out), &sent);
	buffer_consume(&c->out, sent);
	give_credit(c, sent);
	if (!r && c->guest_ended && buffer_length(&c->out) == 0)
		shutdown(c->fd, SHUT_WR);
	return r;
}

/* from the world to the guest; a positive errno when it is broken */
static int pull(struct connection *c)
{
	static uint8_t frame[WIRE_HEADER + 4 + WIRE_NET_PIECE], bytes[WIRE_NET_PIECE];
	struct monitor *m = c->monitor;
	size_t most = c->credit < WIRE_NET_PIECE ? c->credit : WIRE_NET_PIECE;
	ssize_t n;
	int size;

	if (!most || c->world_ended || buffer_length(&m->guest.out) >= TOWARDS_GUEST)
		return 0;
	n = recv(c->fd, bytes, most, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : errno;
	if (n == 0) {
		c->world_ended = true;
		say_plain(m, c->id, WIRE_NET_END);
		return 0;
	}
	c->credit -= (uint32_t)n;
	m->egress->counts.bytes_in += (uint64_t)n;
	size = wire_put_net_data(frame, sizeof(frame), c->id, 0,
		&(struct wire_net_data){.bytes = {bytes, (uint32_t)n}});
	if (size > 0)
		guest_send(&m->guest, frame, (size_t)size);
	return 0;
}

static void world_ready(uv_poll_t *poll, int status, int events)
{
	struct connection *c = poll->data;
	int r = 0;

	if (c->state != OPEN)
		return;
	if (status < 0)
		c->events = 0;
	r = flush(c);
	if (!r)
		r = pull(c);
	if (r)
		return end(c, r, strerror(r));
	if (!is_over(c))
		watch(c);
}

void egress_resume(struct monitor *m)
{
	if (!m->egress)
		return;
	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		if (m->egress->connections[i])
			watch(m->egress->connections[i]);
	}
}

/* --- the connector --- */

static void connector_lost(struct egress *e)
{
	e->lost = true;
	log_error("the connector has ended: no new connections");
	uv_poll_stop(&e->poll);
	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		struct connection *c = e->connections[i];

		if (!c || c->state != WAITING)
			continue;
		if (c->is_lookup) {
			say_resolved(c->monitor, c->id, EIO);
			discard(&e->connections[i]);
		} else {
			end(c, EIO, "the connector has ended");
		}
	}
}

static bool ask(struct egress *e, const void *packet, size_t size)
{
	ssize_t n;

	if (e->lost)
		return false;
	do {
		n = send(e->fd, packet, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

/* recvmsg of a reply and its descriptor; false when there is none (now, or any more) */
static bool receive(struct egress *e, struct egress_reply *reply, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {reply, sizeof(*reply)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *h;
	ssize_t n;

	*fd = -1;
	do {
		n = recvmsg(e->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n != sizeof(*reply)) {
		connector_lost(e);
		return false;
	}
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(h), sizeof(int));
	reply->why[sizeof(reply->why) - 1] = 0;
	return true;
}

static void opened(struct connection *c, int fd, const struct egress_reply *reply)
{
	struct egress_address literal;
	const char *name = egress_address_parse(c->host, &literal) ? NULL : c->host;
	struct egress *e = c->monitor->egress;

	c->address = reply->address;
	/* the policy may have changed while it was made; what the host's own addresses are, only
	 * the connector knows */
	if (egress_check_address(e->policy, name, &c->address, c->port, NULL, 0) !=
		EGRESS_ALLOWED) {
		close(fd);
		e->counts.refused++;
		return end(c, EACCES, "a new policy denies it");
	}
	if (uv_poll_init(&c->monitor->loop, &c->poll, fd)) {
		close(fd);
		return end(c, ENOMEM, "out of memory");
	}
	c->poll.data = c;
	c->fd = fd;
	c->state = OPEN;
	e->counts.connections++;
	say_plain(c->monitor, c->id, WIRE_NET_OPENED);
	watch(c);
}

static void take_reply(struct egress *e, const struct egress_reply *reply, int fd)
{
	struct connection **place = NULL, *c;

	for (size_t i = 0; i < WIRE_NET_MOST && !place; i++) {
		if (e->connections[i] && e->connections[i]->serial == reply->id)
			place = &e->connections[i];
	}
	c = place ? *place : NULL;
	/* the guest may have given it up meanwhile */
	if (!c || c->state != WAITING || (reply->kind == EGRESS_ASK_RESOLVE) != c->is_lookup) {
		close_fd(&fd);
		return;
	}
	e->counts.refused += reply->error == EACCES;
	if (c->is_lookup) {
		close_fd(&fd);
		say_resolved(c->monitor, c->id, reply->error);
		discard(place);
	} else if (fd < 0) {
		end(c, reply->error ? reply->error : EIO, reply->why);
	} else {
		opened(c, fd, reply);
	}
}

static void connector_said(uv_poll_t *poll, int status, int events)
{
	struct monitor *m = poll->data;
	struct egress_reply reply;
	int fd;

	while (!m->egress->lost && receive(m->egress, &reply, &fd))
		take_reply(m->egress, &reply, fd);
}

/* --- frames of the guest --- */

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
	if (id == 0 || place_of(e, id))
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
		end(c, EINVAL, "not a name or an address with a port");
	} else if (count_open(e) > CONNECTIONS_MOST) {
		e->counts.refused++;
		end(c, EMFILE, "too many connections at once");
	} else if (!take_token(&e->opens, OPENS_PER_S, OPENS_BURST)) {
		e->counts.refused++;
		end(c, EAGAIN, "too many connections in a short time");
	} else {
		packet.id = c->serial;
		c->port = packet.port = (uint16_t)open.port;
		text_copy(packet.host, sizeof(packet.host), c->host);
		if (!ask(e, &packet, sizeof(packet)))
			end(c, EAGAIN, "too many connections in a short time");
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
		 !ask(e, &packet, sizeof(packet)))
		error = EAGAIN;
	if (error) {
		say_resolved(m, f->stream, error);
		discard(place_of(e, f->stream));
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
		r = push(c, data.bytes.bytes, data.bytes.count, &sent);
	if (!r && sent < data.bytes.count &&
		buffer_add(&c->out, data.bytes.bytes + sent, data.bytes.count - sent))
		r = ENOMEM;
	if (r) {
		end(c, r, strerror(r));
		return 0;
	}
	give_credit(c, sent);
	watch(c);
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
	if (!is_over(c))
		watch(c);
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
	watch(c);
	return 0;
}

static void take_close(struct connection **place, const struct wire_frame *f)
{
	struct connection *c = *place;

	c->answered = true;
	if (c->state == CLOSED)
		discard(place);
	else
		end(c, ECONNRESET, "");
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
	place = place_of(e, f->stream);
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

/* --- policies --- */

static bool is_on(const struct egress *e)
{
	return e->policy && e->policy->internet;
}

void egress_guest_ready(struct monitor *m)
{
	if (!m->egress || !is_on(m->egress))
		return;
	m->egress->was_on = true;
	say_on(m, true);
}

/* what the policy denies now is reset; what waits is judged when it comes */
static void judge_all(struct monitor *m)
{
	struct egress *e = m->egress;

	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		struct connection *c = e->connections[i];
		struct egress_address literal;

		if (!c || c->state != OPEN)
			continue;
		if (egress_check_address(e->policy,
			    egress_address_parse(c->host, &literal) ? NULL : c->host, &c->address,
			    c->port, NULL, 0) == EGRESS_ALLOWED)
			continue;
		e->counts.refused++;
		end(c, ECONNRESET, "a new policy denies it");
	}
}

static int replace(struct monitor *m, const char *text, struct error *err)
{
	struct egress *e = m->egress;
	struct egress_policy *policy;
	uint8_t *packet;
	size_t n = strlen(text);
	bool was = is_on(e);
	int r = egress_policy_new(text, &policy, err);

	if (r)
		return error_prefix(err, "network");
	packet = calloc(1, POLICY_FRAME);
	if (packet) {
		((struct egress_ask *)(void *)packet)->kind = EGRESS_ASK_POLICY;
		memcpy(packet + sizeof(struct egress_ask), text, n);
	}
	if (!packet || !ask(e, packet, sizeof(struct egress_ask) + n)) {
		free(packet);
		egress_policy_free(policy);
		return error_set(err, -EAGAIN, "the policy cannot be told to the connector now");
	}
	free(packet);
	egress_policy_free(e->policy);
	e->policy = policy;
	judge_all(m);
	if (is_on(e) != was && m->state == MONITOR_RUNNING) {
		e->was_on |= is_on(e);
		say_on(m, is_on(e));
	}
	return 0;
}

int egress_set(struct monitor *m, const char *policy, struct wire_mon_network_reply *out,
	struct error *err)
{
	struct egress *e = m->egress;
	int r = 0;

	if (!e)
		return policy[0] ? error_set(err, -EPERM,
					   "this sandbox was made without a network, for good")
				 : (*out = (struct wire_mon_network_reply){0}, 0);
	if (policy[0])
		r = replace(m, policy, err);
	if (r)
		return r;
	*out = e->counts;
	out->on = is_on(e);
	out->open = count_open(e);
	return 0;
}

/* --- begin and end --- */

int egress_start(struct monitor *m, int fd, const char *policy, struct error *err)
{
	struct egress *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return error_set(err, -ENOMEM, "out of memory");
	m->egress = e;
	e->fd = fd;
	e->opens = (struct bucket){clock_ms(), OPENS_BURST};
	e->resolves = (struct bucket){clock_ms(), RESOLVES_BURST};
	r = egress_policy_new(policy, &e->policy, err);
	if (r)
		return error_prefix(err, "network");
	r = uv_poll_init(&m->loop, &e->poll, fd);
	e->poll.data = m;
	if (!r)
		r = uv_poll_start(&e->poll, UV_READABLE | UV_DISCONNECT, connector_said);
	return r ? error_sys(err, r, "the connector's socket") : 0;
}

void egress_close(struct monitor *m)
{
	struct egress *e = m->egress;

	if (!e)
		return;
	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		if (e->connections[i])
			discard(&e->connections[i]);
	}
	uv_close((uv_handle_t *)&e->poll, NULL);
	/* the structure stays: the handle lies in it, and the process ends soon */
}
