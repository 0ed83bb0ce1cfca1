/* SPDX-License-Identifier: Apache-2.0 - connections of the guest in the monitor: bytes both ways.
 */
#include "monitor/egress_internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOWARDS_GUEST (1u << 20) /* bytes that wait for it before connections are held back */
#define POLICY_FRAME  (sizeof(struct egress_ask) + EGRESS_POLICY_MOST + 1)

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

void egress_say_resolved(struct monitor *m, uint32_t id, int error)
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

struct connection **connection_place(struct egress *e, uint32_t id)
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

void connection_discard(struct connection **place)
{
	struct connection *c = *place;

	*place = NULL;
	buffer_fini(&c->out);
	if (c->fd >= 0 && !uv_is_closing((uv_handle_t *)&c->poll))
		uv_close((uv_handle_t *)&c->poll, closed);
	else if (c->fd < 0)
		free(c);
}

uint32_t egress_count_open(const struct egress *e)
{
	uint32_t n = 0;

	for (size_t i = 0; i < WIRE_NET_MOST; i++)
		n += e->connections[i] && !e->connections[i]->is_lookup;
	return n;
}

/* The bytes are over. The guest is told, and its id is free once it has answered. */
void connection_end(struct connection *c, int error, const char *why)
{
	struct connection **place = connection_place(c->monitor->egress, c->id);
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
			connection_discard(place);
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
	connection_discard(place);
	*place = rest;
}

/* --- to the world --- */

void connection_watch(struct connection *c)
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

void connection_credit(struct connection *c, size_t bytes)
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
bool connection_is_over(struct connection *c)
{
	if (c->guest_ended && buffer_length(&c->out) == 0 && c->world_ended) {
		connection_end(c, 0, "");
		return true;
	}
	return false;
}

/* as much as the world takes now; a positive errno when it is broken */
int connection_push(struct connection *c, const uint8_t *bytes, size_t count, size_t *sent)
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
	r = connection_push(c, buffer_bytes(&c->out), buffer_length(&c->out), &sent);
	buffer_consume(&c->out, sent);
	connection_credit(c, sent);
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
		return connection_end(c, r, strerror(r));
	if (!connection_is_over(c))
		connection_watch(c);
}

void egress_resume(struct monitor *m)
{
	if (!m->egress)
		return;
	for (size_t i = 0; i < WIRE_NET_MOST; i++) {
		if (m->egress->connections[i])
			connection_watch(m->egress->connections[i]);
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
			egress_say_resolved(c->monitor, c->id, EIO);
			connection_discard(&e->connections[i]);
		} else {
			connection_end(c, EIO, "the connector has ended");
		}
	}
}

bool egress_ask(struct egress *e, const void *packet, size_t size)
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
		return connection_end(c, EACCES, "a new policy denies it");
	}
	if (uv_poll_init(&c->monitor->loop, &c->poll, fd)) {
		close(fd);
		return connection_end(c, ENOMEM, "out of memory");
	}
	c->poll.data = c;
	c->fd = fd;
	c->state = OPEN;
	e->counts.connections++;
	say_plain(c->monitor, c->id, WIRE_NET_OPENED);
	connection_watch(c);
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
		egress_say_resolved(c->monitor, c->id, reply->error);
		connection_discard(place);
	} else if (fd < 0) {
		connection_end(c, reply->error ? reply->error : EIO, reply->why);
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
		connection_end(c, ECONNRESET, "a new policy denies it");
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
	if (!packet || !egress_ask(e, packet, sizeof(struct egress_ask) + n)) {
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
	out->open = egress_count_open(e);
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
			connection_discard(&e->connections[i]);
	}
	uv_close((uv_handle_t *)&e->poll, NULL);
	/* the structure stays: the handle lies in it, and the process ends soon */
}
