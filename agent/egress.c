/* SPDX-License-Identifier: Apache-2.0 - connections of the guest's programs, carried to the host.
 */
#include "egress_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_HTTP   3128
#define PORT_SOCKS  1080
#define PORT_DNS    53
#define ACCEPT_MOST 16 /* of one listener in a turn */
#define UDP_MOST    16

static const struct service {
	uint32_t address;
	uint16_t port;
	int type;
	enum kind kind;
} services[] = {
	{INADDR_LOOPBACK, PORT_HTTP, SOCK_STREAM, PROXY},
	{INADDR_LOOPBACK, PORT_SOCKS, SOCK_STREAM, PROXY},
	{INADDR_ANY, PORT_DNS, SOCK_DGRAM, DNS},
	{INADDR_ANY, PORT_DNS, SOCK_STREAM, DNS},
	{INADDR_ANY, 22, SOCK_STREAM, DIRECT},
	{INADDR_ANY, 80, SOCK_STREAM, DIRECT},
	{INADDR_ANY, 443, SOCK_STREAM, DIRECT},
};
#define SERVICES     (sizeof(services) / sizeof(services[0]))
/* slots of events: connections first */
#define SERVICE_SLOT EGRESS_CONNECTIONS

_Static_assert(SERVICES == EGRESS_SERVICES, "each has its listener");

struct egress_state egress;

/* --- frames --- */

static void say_close(struct agent *a, const struct connection *c, int error)
{
	struct wire_net_close m = {.error = (uint32_t)error, .why = wire_str("")};

	stream_commit(a, wire_put_net_close(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &m));
}

void connection_credit(struct agent *a, struct connection *c, uint32_t bytes)
{
	struct wire_net_credit m;

	c->consumed += bytes;
	if (c->state != OPEN || c->consumed < WIRE_NET_STEP || c->host_ended)
		return;
	m = (struct wire_net_credit){.bytes = c->consumed};
	c->window += c->consumed;
	c->consumed = 0;
	stream_commit(a, wire_put_net_credit(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &m));
}

uint32_t egress_fresh_id(void)
{
	for (;;) {
		bool taken = ++egress.next_id == 0;

		for (size_t i = 0; i < EGRESS_CONNECTIONS && !taken; i++)
			taken = egress.connections[i].state != FREE &&
				egress.connections[i].id == egress.next_id;
		for (size_t i = 0; i < EGRESS_QUERIES && !taken; i++)
			taken = egress.queries[i].id == egress.next_id;
		if (!taken)
			return egress.next_id;
	}
}

/* --- connections --- */

static void give_memory_back(struct connection *c)
{
	if (c->memory)
		munmap(c->memory, sizeof(*c->memory));
	c->memory = NULL;
}

static void let_go(struct connection *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	give_memory_back(c);
}

static void free_connection(struct connection *c)
{
	let_go(c);
	c->state = FREE;
	c->id = 0;
	c->generation++;
}

/* The program's end is over, for good or by a fault that it is told by a reset. */
void connection_drop(struct agent *a, struct connection *c, int error)
{
	bool told = c->state == OPENING || c->state == OPEN;

	if (error && c->fd >= 0)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
			sizeof(struct linger));
	if (!told) {
		if (c->state != CLOSING)
			free_connection(c);
		return;
	}
	say_close(a, c, error);
	let_go(c);
	c->state = CLOSING;
}

static int watch(struct agent *a, int fd, uint32_t slot, uint32_t generation, uint32_t events)
{
	struct epoll_event e = {.events = events | EPOLLET,
		.data.u64 = (uint64_t)generation << 32 | slot << 16 | EVENT_EGRESS};

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static struct connection *add(struct agent *a, int fd, enum kind kind)
{
	for (uint32_t i = 0; i < EGRESS_CONNECTIONS; i++) {
		struct connection *c = &egress.connections[i];
		uint32_t generation = c->generation;

		if (c->state != FREE)
			continue;
		*c = (struct connection){.state = HEAD,
			.kind = kind,
			.generation = generation,
			.fd = fd,
			.readable = true,
			.writable = true,
			.credit = WIRE_NET_WINDOW,
			.window = WIRE_NET_WINDOW};
		c->memory = mmap(NULL, sizeof(*c->memory), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (c->memory == MAP_FAILED)
			c->memory = NULL;
		if (!c->memory || watch(a, fd, i, generation, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
			free_connection(c);
			return NULL;
		}
		return c;
	}
	return NULL;
}

void connection_open(struct agent *a, struct connection *c, const struct proxy_target *target)
{
	struct wire_net_open m = {.host = wire_str(target->host), .port = target->port};

	c->id = egress_fresh_id();
	c->state = OPENING;
	stream_commit(a, wire_put_net_open(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &m));
}

/* --- listeners --- */

/* A program that knows no proxy: its own end's address is where it wanted to go. */
static void begin_direct(struct agent *a, struct connection *c)
{
	struct sockaddr_in to = {0};
	socklen_t size = sizeof(to);
	struct proxy_target target;
	const char *name;
	uint32_t address;

	if (getsockname(c->fd, (struct sockaddr *)&to, &size))
		return connection_drop(a, c, ECONNREFUSED);
	address = ntohl(to.sin_addr.s_addr);
	name = egress_address_name(address);
	if (address >> 24 == 127 || (!name && egress_is_stand_in(address)))
		return connection_drop(a, c, ECONNREFUSED); /* nobody is there */
	if (name)
		snprintf(target.host, sizeof(target.host), "%s", name);
	else
		inet_ntop(AF_INET, &to.sin_addr, target.host, sizeof(target.host));
	target.port = ntohs(to.sin_port);
	connection_open(a, c, &target);
}

static bool has_free(void)
{
	for (size_t i = 0; i < EGRESS_CONNECTIONS; i++)
		if (egress.connections[i].state == FREE)
			return true;
	return false;
}

static void accept_one(struct agent *a, size_t i)
{
	int fd = accept4(egress.listeners[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection *c;

	if (fd < 0) {
		egress.ready[i] = errno == EINTR || errno == ECONNABORTED;
		return;
	}
	c = add(a, fd, services[i].kind);
	if (!c)
		close(fd);
	else if (c->kind == DIRECT)
		begin_direct(a, c);
}

static bool has_room(struct agent *a)
{
	if (link_room(&a->link) < LINK_RESERVE)
		link_send(&a->link);
	return link_room(&a->link) >= LINK_RESERVE;
}

static void serve(struct agent *a, size_t i)
{
	if (services[i].type == SOCK_DGRAM) {
		for (int n = 0; n < UDP_MOST && egress.ready[i] && has_room(a); n++)
			egress.ready[i] = query_datagram(a, egress.listeners[i]);
		return;
	}
	for (int n = 0; n < ACCEPT_MOST && egress.ready[i] && has_free() && has_room(a); n++)
		accept_one(a, i);
}

static void switch_on(struct agent *a)
{
	for (size_t i = 0; i < SERVICES; i++) {
		int fd = egress_listen(services[i].address, services[i].port, services[i].type);

		egress.ready[i] = false;
		egress.listeners[i] = fd < 0 ? -1 : fd;
		if (services[i].type == SOCK_DGRAM)
			egress.dns_fd = egress.listeners[i];
		if (fd >= 0)
			watch(a, fd, (uint32_t)(SERVICE_SLOT + i), 0, EPOLLIN);
	}
	if (a->is_guest && egress_route(true))
		fputs("sealmark-agent: no route for direct connections\n", stderr);
	if (a->is_guest && egress_resolv_conf())
		fputs("sealmark-agent: /etc/resolv.conf cannot be written\n", stderr);
	egress.on = true;
}

static void switch_off(struct agent *a)
{
	for (size_t i = 0; i < SERVICES; i++) {
		if (egress.listeners[i] >= 0)
			close(egress.listeners[i]);
		egress.listeners[i] = -1;
	}
	egress.dns_fd = -1;
	if (a->is_guest)
		egress_route(false);
	/* the host closes those that are open to it */
	for (size_t i = 0; i < EGRESS_CONNECTIONS; i++)
		if (egress.connections[i].state == HEAD)
			free_connection(&egress.connections[i]);
	egress.on = false;
}

/* --- what the loop calls --- */

static int take_close(struct agent *a, struct connection *c, const struct wire_frame *f)
{
	struct wire_net_close m;

	if (wire_get_net_close(f->payload, f->length, &m))
		return -EPROTO;
	if (c->state == CLOSING) {
		free_connection(c);
		return 0;
	}
	if (c->state == OPENING)
		connection_refuse(c, (int)m.error, m.why.text);
	say_close(a, c, 0);
	/* the id is the host's again; what it said before is still to be delivered */
	c->id = 0;
	if (c->state == OPENING)
		m.error = c->kind == PROXY ? 0 : ECONNREFUSED;
	c->state = DRAINING;
	if (m.error || !c->ring)
		connection_drop(a, c, (int)m.error);
	return 0;
}

static int take_opened(struct connection *c)
{
	if (c->state != OPENING)
		return c->state == CLOSING ? 0 : -EPROTO;
	c->state = OPEN;
	if (c->kind == PROXY && c->is_socks)
		connection_say_socks(c, 0);
	else if (c->kind == PROXY && c->body.framing == PROXY_TUNNEL)
		connection_push(
			c, (const uint8_t *)"HTTP/1.1 200 Connection established\r\n\r\n", 39);
	return 0;
}

static int take_data(struct agent *a, struct connection *c, const struct wire_frame *f)
{
	struct wire_net_data m;

	if (wire_get_net_data(f->payload, f->length, &m))
		return -EPROTO;
	if (c->state == CLOSING)
		return 0;
	if (c->state != OPEN || c->host_ended || m.bytes.count > c->window)
		return -EPROTO;
	c->window -= m.bytes.count;
	connection_deliver(a, c, m.bytes.bytes, m.bytes.count);
	return 0;
}

static int take_credit(struct connection *c, const struct wire_frame *f)
{
	struct wire_net_credit m;

	if (wire_get_net_credit(f->payload, f->length, &m) || m.bytes > WIRE_NET_WINDOW)
		return -EPROTO;
	if (c->state == OPEN && c->credit > WIRE_NET_WINDOW - m.bytes)
		return -EPROTO;
	c->credit += m.bytes;
	return 0;
}

static int take_for(struct agent *a, struct connection *c, const struct wire_frame *f)
{
	switch (f->type) {
	case WIRE_NET_OPENED:
		return take_opened(c);
	case WIRE_NET_DATA:
		return take_data(a, c, f);
	case WIRE_NET_END:
		c->host_ended = true;
		if (c->state == OPEN)
			connection_finish(a, c);
		return 0;
	case WIRE_NET_CREDIT:
		return take_credit(c, f);
	case WIRE_NET_CLOSE:
		return take_close(a, c, f);
	default:
		return -EPROTO;
	}
}

int egress_take(struct agent *a, const struct wire_frame *f)
{
	struct wire_net_resolved resolved;
	struct wire_net_set set;

	if (f->type == WIRE_NET_SET) {
		if (f->stream || wire_get_net_set(f->payload, f->length, &set))
			return -EPROTO;
		if (set.on && !egress.on)
			switch_on(a);
		else if (!set.on && egress.on)
			switch_off(a);
		return 0;
	}
	if (!f->stream)
		return -EPROTO;
	if (f->type == WIRE_NET_RESOLVED)
		return wire_get_net_resolved(f->payload, f->length, &resolved)
			       ? -EPROTO
			       : query_end(a, f->stream, resolved.error);
	for (size_t i = 0; i < EGRESS_CONNECTIONS; i++) {
		struct connection *c = &egress.connections[i];

		if (c->state != FREE && c->id == f->stream)
			return take_for(a, c, f);
	}
	return -EPROTO;
}

void egress_event(uint32_t slot, uint32_t generation, uint32_t events)
{
	struct connection *c;

	if (slot >= SERVICE_SLOT) {
		if (slot - SERVICE_SLOT < SERVICES)
			egress.ready[slot - SERVICE_SLOT] = true;
		return;
	}
	c = &egress.connections[slot];
	if (c->state == FREE || c->generation != generation)
		return;
	c->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	c->writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static bool is_busy(const struct connection *c)
{
	switch (c->state) {
	case HEAD:
		return c->readable && !c->asking;
	case OPEN:
		return (c->credit && (c->pending_at < c->pending || (c->readable && !c->ended))) ||
		       (c->ring && c->writable);
	case DRAINING:
		return c->ring && c->writable;
	case FREE:
	case OPENING:
	case CLOSING:
	default:
		return false;
	}
}

void egress_work(struct agent *a)
{
	for (size_t i = 0; i < SERVICES && egress.on; i++)
		if (egress.listeners[i] >= 0)
			serve(a, i);
	egress.turn++;
	for (size_t n = 0; n < EGRESS_CONNECTIONS; n++) {
		struct connection *c = &egress.connections[(egress.turn + n) % EGRESS_CONNECTIONS];

		if (!is_busy(c))
			continue;
		if (!has_room(a))
			return;
		if (c->ring)
			connection_flush(a, c);
		if (c->state == HEAD)
			connection_read_head(a, c);
		else if (c->state == OPEN && has_room(a))
			connection_send(a, c);
	}
}

bool egress_busy(void)
{
	for (size_t i = 0; i < SERVICES && egress.on; i++)
		if (egress.listeners[i] >= 0 && egress.ready[i] &&
			(services[i].type == SOCK_DGRAM || has_free()))
			return true;
	for (size_t i = 0; i < EGRESS_CONNECTIONS; i++)
		if (is_busy(&egress.connections[i]))
			return true;
	return false;
}

const char *const *egress_variables(void)
{
	/* also ALL_PROXY names the HTTP proxy: libraries that do not know SOCKS fail at its mere
	 * sight */
	static const char *const on[] = {"http_proxy=http://127.0.0.1:3128",
		"https_proxy=http://127.0.0.1:3128", "HTTP_PROXY=http://127.0.0.1:3128",
		"HTTPS_PROXY=http://127.0.0.1:3128", "ALL_PROXY=http://127.0.0.1:3128",
		"all_proxy=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1",
		"NO_PROXY=localhost,127.0.0.1,::1", NULL};
	static const char *const off[] = {NULL};

	return egress.on ? on : off;
}
