/* SPDX-License-Identifier: Apache-2.0 - connections of the guest's programs, carried to the host.
 */
#include "egress.h"
#include "agent.h"

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
#define TTL_S       60
#define ACCEPT_MOST 16 /* of one listener in a turn */
#define UDP_MOST    16

/*
 *	HEAD ──OPEN──> OPENING ──OPENED──> OPEN ──both ended──> (NET_CLOSE) ──> free
 *	                                    │ the host has closed, bytes are left: DRAINING
 *	                                    └ the program has closed: CLOSING, until the host
 *answers
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
	bool is_socks, greeted, is_tunnel;
	bool asking;     /* DNS: one question is under way */
	bool ended;      /* NET_END was sent */
	bool host_ended; /* and received */
	uint32_t credit; /* bytes the host will take */
	uint32_t window; /* bytes it may send */
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

static struct {
	bool on;
	int listeners[SERVICES];
	bool ready[SERVICES];
	uint32_t next_id, turn;
	bool more;
	struct connection connections[EGRESS_CONNECTIONS];
	struct query queries[EGRESS_QUERIES];
} egress;

/* --- frames --- */

static void say(struct agent *a, int frame_size)
{
	stream_commit(a, frame_size);
}

static void say_close(struct agent *a, const struct connection *c, int error)
{
	struct wire_net_close m = {.error = (uint32_t)error, .why = wire_str("")};

	say(a, wire_put_net_close(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &m));
}

static void say_credit(struct agent *a, struct connection *c, uint32_t bytes)
{
	struct wire_net_credit m;

	c->consumed += bytes;
	if (c->state != OPEN || c->consumed < WIRE_NET_STEP || c->host_ended)
		return;
	m = (struct wire_net_credit){.bytes = c->consumed};
	c->window += c->consumed;
	c->consumed = 0;
	say(a, wire_put_net_credit(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &m));
}

static uint32_t fresh_id(void)
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
static void drop(struct agent *a, struct connection *c, int error)
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

static void open_to(struct agent *a, struct connection *c, const struct proxy_target *target)
{
	struct wire_net_open m = {.host = wire_str(target->host), .port = target->port};

	c->id = fresh_id();
	c->state = OPENING;
	say(a, wire_put_net_open(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &m));
}

/* --- to the program --- */

/* What is left after the socket has taken its part; -errno when it is broken */
static ssize_t push(struct connection *c, const uint8_t *bytes, size_t count)
{
	size_t sent = 0;

	while (sent < count && c->writable) {
		ssize_t n = send(c->fd, bytes + sent, count - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0)
			c->writable = false;
		else
			sent += (size_t)n;
	}
	return (ssize_t)(count - sent);
}

/* All that the host will say was said. */
static void finish_if_empty(struct agent *a, struct connection *c)
{
	if (c->ring)
		return;
	if (c->state == DRAINING)
		drop(a, c, 0);
	else if (c->host_ended)
		shutdown(c->fd, SHUT_WR);
}

static void flush_ring(struct agent *a, struct connection *c)
{
	uint32_t before = c->ring;

	while (c->ring && c->writable) {
		uint32_t piece = WIRE_NET_WINDOW - c->ring_at;
		ssize_t left;

		piece = piece < c->ring ? piece : c->ring;
		left = push(c, c->memory->ring + c->ring_at, piece);
		if (left < 0)
			return drop(a, c, ECONNRESET);
		piece -= (uint32_t)left;
		c->ring_at = (c->ring_at + piece) % WIRE_NET_WINDOW;
		c->ring -= piece;
	}
	say_credit(a, c, before - c->ring);
	if (before)
		finish_if_empty(a, c);
}

static void to_program(struct agent *a, struct connection *c, const uint8_t *bytes, uint32_t count)
{
	ssize_t left = (ssize_t)count;

	if (!c->ring)
		left = push(c, bytes, count);
	if (left < 0)
		return drop(a, c, ECONNRESET);
	bytes += count - (size_t)left;
	for (ssize_t i = 0; i < left;) {
		uint32_t at = (c->ring_at + c->ring) % WIRE_NET_WINDOW;
		uint32_t piece = WIRE_NET_WINDOW - at;

		piece = piece < (uint32_t)(left - i) ? piece : (uint32_t)(left - i);
		memcpy(c->memory->ring + at, bytes + i, piece);
		c->ring += piece;
		i += piece;
	}
	say_credit(a, c, count - (uint32_t)left);
}

static void say_http(struct connection *c, int status, const char *reason, const char *why)
{
	char text[600];
	int n = snprintf(text, sizeof(text),
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nConnection: close\r\n"
		"Content-Length: %zu\r\n\r\n%.200s\n",
		status, reason, strnlen(why, 200) + 1, why);

	push(c, (const uint8_t *)text, (size_t)n);
}

static void say_socks(struct connection *c, uint8_t code)
{
	const uint8_t bytes[] = {5, code, 0, 1, 0, 0, 0, 0, 0, 0};

	push(c, bytes, sizeof(bytes));
}

/* Why there is no connection, in the words of who asked. */
static void say_failure(struct connection *c, int error, const char *why)
{
	if (c->kind != PROXY)
		return;
	if (c->is_socks)
		say_socks(c, error == EACCES         ? 2
			     : error == ENETUNREACH  ? 3
			     : error == ECONNREFUSED ? 5
			     : error == ETIMEDOUT    ? 6
						     : 4);
	else if (error == EACCES)
		say_http(c, 403, "Forbidden", why);
	else if (error == ETIMEDOUT)
		say_http(c, 504, "Gateway Timeout", why);
	else if (error == EAGAIN || error == EMFILE)
		say_http(c, 503, "Service Unavailable", why);
	else
		say_http(c, 502, "Bad Gateway", why);
}

/* --- from the program --- */

/* 0 when bytes came, -EAGAIN, -EPIPE at the end */
static int fill_in(struct connection *c)
{
	ssize_t n;

	if (c->in == sizeof(c->memory->in))
		return -E2BIG;
	do {
		n = recv(c->fd, c->memory->in + c->in, sizeof(c->memory->in) - c->in, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		c->readable = false;
		return -EAGAIN;
	}
	if (n <= 0)
		return -EPIPE;
	c->in += (uint32_t)n;
	return 0;
}

static void take_in(struct connection *c, size_t count)
{
	memmove(c->memory->in, c->memory->in + count, c->in - count);
	c->in -= (uint32_t)count;
}

/* What came behind the head belongs to the target. */
static void rest_is_pending(struct connection *c)
{
	memcpy(c->memory->pending + c->pending, c->memory->in, c->in);
	c->pending += c->in;
	c->in = 0;
}

static void read_socks(struct agent *a, struct connection *c)
{
	struct proxy_target target;
	bool usable = false;
	long n;

	if (!c->greeted) {
		n = proxy_socks_hello(c->memory->in, c->in, &usable);
		if (n <= 0)
			return n ? drop(a, c, 0) : (void)0;
		push(c, (const uint8_t *)(usable ? "\5\0" : "\5\377"), 2);
		if (!usable)
			return drop(a, c, 0);
		c->greeted = true;
		take_in(c, (size_t)n);
	}
	n = proxy_socks_request(c->memory->in, c->in, &target);
	if (n < 0) {
		say_socks(c, n == -EOPNOTSUPP ? 7 : 1);
		return drop(a, c, 0);
	}
	if (!n)
		return;
	take_in(c, (size_t)n);
	rest_is_pending(c);
	open_to(a, c, &target);
}

static void read_http(struct agent *a, struct connection *c)
{
	struct proxy_target target;
	size_t head;
	long n =
		proxy_http(c->memory->in, c->in, &target, &c->is_tunnel, c->memory->pending, &head);

	if (n < 0) {
		say_http(c, n == -E2BIG ? 431 : 400, "Bad Request",
			"this proxy takes CONNECT HOST:PORT and http:// addresses");
		return drop(a, c, 0);
	}
	if (!n)
		return;
	c->pending = (uint32_t)head;
	take_in(c, (size_t)n);
	rest_is_pending(c);
	open_to(a, c, &target);
}

static void begin_query(
	struct agent *a, const struct query *from, const uint8_t *bytes, size_t count);

static void read_dns(struct agent *a, struct connection *c)
{
	struct query from = {.connection = c, .generation = c->generation};
	size_t size;

	while (c->state == HEAD && !c->asking && c->in >= 2) {
		size = (size_t)(c->memory->in[0] << 8 | c->memory->in[1]);
		if (size > DNS_MESSAGE_MOST)
			return drop(a, c, 0);
		if (c->in < 2 + size)
			return;
		c->asking = true;
		begin_query(a, &from, c->memory->in + 2, size);
		if (c->state == HEAD)
			take_in(c, 2 + size);
	}
}

static void read_head(struct agent *a, struct connection *c)
{
	int r = fill_in(c);

	if (r == -EAGAIN && c->kind == DNS)
		return read_dns(a, c); /* the next question may be here already */
	if (r == -EAGAIN)
		return;
	if (r)
		return drop(a, c, 0);
	if (c->kind == DNS)
		return read_dns(a, c);
	c->is_socks = c->greeted || c->memory->in[0] == 5;
	if (c->is_socks)
		read_socks(a, c);
	else
		read_http(a, c);
}

/* Where a frame of data of at most `most` bytes goes, or NULL. */
static uint8_t *data_begin(struct agent *a, struct connection *c, size_t *most)
{
	uint8_t *out;

	*most = *most < c->credit ? *most : c->credit;
	*most = *most < WIRE_NET_PIECE ? *most : WIRE_NET_PIECE;
	if (!*most)
		return NULL;
	out = link_claim(&a->link, WIRE_HEADER + 4 + *most, LINK_RESERVE);
	return out ? out + WIRE_HEADER + 4 : NULL;
}

static void data_end(struct agent *a, struct connection *c, size_t count)
{
	uint8_t *frame = a->link.out + a->link.out_end;

	wire_header_put(frame, (uint32_t)count + 4, WIRE_NET_DATA, 0, c->id);
	for (unsigned i = 0; i < 4; i++)
		frame[WIRE_HEADER + i] = (uint8_t)(count >> (8 * i));
	link_commit(&a->link, WIRE_HEADER + 4 + count);
	c->credit -= (uint32_t)count;
}

static void send_pending(struct agent *a, struct connection *c)
{
	while (c->pending_at < c->pending) {
		size_t n = c->pending - c->pending_at;
		uint8_t *out = data_begin(a, c, &n);

		if (!out)
			return;
		memcpy(out, c->memory->pending + c->pending_at, n);
		data_end(a, c, n);
		c->pending_at += (uint32_t)n;
	}
}

static void send_more(struct agent *a, struct connection *c)
{
	size_t most = WIRE_NET_PIECE;
	struct wire_net_end end = {0};
	uint8_t *out;
	ssize_t n;

	send_pending(a, c);
	if (c->pending_at < c->pending || c->ended || !c->readable)
		return;
	out = data_begin(a, c, &most);
	if (!out)
		return;
	do {
		n = recv(c->fd, out, most, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		data_end(a, c, (size_t)n);
	} else if (n < 0 && errno == EAGAIN) {
		c->readable = false;
	} else if (n < 0) {
		drop(a, c, ECONNRESET);
	} else {
		c->ended = true;
		say(a, wire_put_net_end(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &end));
	}
}

/* --- DNS --- */

static void answer(struct agent *a, const struct query *q, enum dns_code code, uint32_t address)
{
	uint8_t bytes[2 + DNS_MESSAGE_MOST], ip[4];
	size_t n;
	struct connection *c = q->connection;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {0};
	struct iovec iov = {bytes + 2, 0};
	struct msghdr m = {.msg_name = (void *)(uintptr_t)&q->peer,
		.msg_namelen = sizeof(q->peer),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	struct in_pktinfo from = {.ipi_spec_dst = q->local};

	for (int i = 0; i < 4; i++)
		ip[i] = (uint8_t)(address >> (24 - 8 * i));
	n = dns_answer(&q->question, code, address ? ip : NULL, TTL_S, bytes + 2);
	if (c) {
		if (c->generation != q->generation || c->state != HEAD)
			return;
		c->asking = false;
		c->readable = true;
		bytes[0] = (uint8_t)(n >> 8);
		bytes[1] = (uint8_t)n;
		if (push(c, bytes, n + 2))
			drop(a, c, ECONNRESET);
		return;
	}
	iov.iov_len = n;
	h->cmsg_level = IPPROTO_IP;
	h->cmsg_type = IP_PKTINFO;
	h->cmsg_len = CMSG_LEN(sizeof(from));
	memcpy(CMSG_DATA(h), &from, sizeof(from));
	for (size_t i = 0; i < SERVICES; i++)
		if (services[i].type == SOCK_DGRAM && egress.listeners[i] >= 0 &&
			sendmsg(egress.listeners[i], &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			return; /* as a lost packet */
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && strcmp(name + n - k, end) == 0;
}

/* What is known without the host; false: it must be asked. */
static bool answer_here(struct agent *a, const struct query *q)
{
	const char *name = q->question.name;
	bool wants_address = q->question.type == DNS_A;

	if (strcmp(name, "localhost") == 0 || ends_with(name, ".localhost") ||
		strcmp(name, "sandbox") == 0)
		answer(a, q, DNS_OK, wants_address ? INADDR_LOOPBACK : 0);
	else if (ends_with(name, ".arpa") || strchr(name, '?') || !name[0])
		answer(a, q, DNS_NO_NAME, 0);
	else if (!wants_address)
		answer(a, q, DNS_OK, 0); /* it may exist, and has no such record */
	else
		return false;
	return true;
}

static struct query *free_query(void)
{
	for (size_t i = 0; i < EGRESS_QUERIES; i++)
		if (!egress.queries[i].id)
			return &egress.queries[i];
	return NULL;
}

static void begin_query(
	struct agent *a, const struct query *from, const uint8_t *bytes, size_t count)
{
	struct query q = *from, *place = free_query();
	struct wire_net_resolve m;
	int r = dns_parse(bytes, count, &q.question);

	if (r == -EPROTO) {
		if (q.connection)
			drop(a, q.connection, 0);
		return;
	}
	if (r)
		return answer(a, &q, DNS_MALFORMED, 0);
	if (answer_here(a, &q))
		return;
	if (!place)
		return answer(a, &q, DNS_FAILED, 0);
	*place = q;
	place->id = fresh_id();
	m = (struct wire_net_resolve){.name = wire_str(place->question.name)};
	say(a, wire_put_net_resolve(stream_frame(a), LINK_RESERVE / 2, place->id, 0, &m));
}

static int end_query(struct agent *a, uint32_t id, uint32_t error)
{
	for (size_t i = 0; i < EGRESS_QUERIES; i++) {
		struct query *q = &egress.queries[i], copy = *q;

		if (q->id != id)
			continue;
		q->id = 0;
		if (!error)
			answer(a, &copy, DNS_OK, egress_name_address(copy.question.name));
		else /* what is denied is not there, so that nobody waits or asks again */
			answer(a, &copy, error == EAGAIN || error == EIO ? DNS_FAILED : DNS_NO_NAME,
				0);
		return 0;
	}
	return -EPROTO;
}

static bool take_datagram(struct agent *a, int fd)
{
	uint8_t bytes[DNS_MESSAGE_MOST];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control;
	struct query q = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr m = {.msg_name = &q.peer,
		.msg_namelen = sizeof(q.peer),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct in_pktinfo info;
	struct cmsghdr *h;
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR;
	/* the only one that was asked for */
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO) {
		memcpy(&info, CMSG_DATA(h), sizeof(info));
		q.local = info.ipi_addr;
	}
	begin_query(a, &q, bytes, (size_t)n);
	return true;
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
		return drop(a, c, ECONNREFUSED);
	address = ntohl(to.sin_addr.s_addr);
	name = egress_address_name(address);
	if (address >> 24 == 127 || (!name && egress_is_stand_in(address)))
		return drop(a, c, ECONNREFUSED); /* nobody is there */
	if (name)
		snprintf(target.host, sizeof(target.host), "%s", name);
	else
		inet_ntop(AF_INET, &to.sin_addr, target.host, sizeof(target.host));
	target.port = ntohs(to.sin_port);
	open_to(a, c, &target);
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
			egress.ready[i] = take_datagram(a, egress.listeners[i]);
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
		say_failure(c, (int)m.error, m.why.text);
	say_close(a, c, 0);
	/* the id is the host's again; what it said before is still to be delivered */
	c->id = 0;
	if (c->state == OPENING)
		m.error = c->kind == PROXY ? 0 : ECONNREFUSED;
	c->state = DRAINING;
	if (m.error || !c->ring)
		drop(a, c, (int)m.error);
	return 0;
}

static int take_opened(struct connection *c)
{
	if (c->state != OPENING)
		return c->state == CLOSING ? 0 : -EPROTO;
	c->state = OPEN;
	if (c->kind == PROXY && c->is_socks)
		say_socks(c, 0);
	else if (c->kind == PROXY && c->is_tunnel)
		push(c, (const uint8_t *)"HTTP/1.1 200 Connection established\r\n\r\n", 39);
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
	to_program(a, c, m.bytes.bytes, m.bytes.count);
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
			finish_if_empty(a, c);
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
			       : end_query(a, f->stream, resolved.error);
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
			flush_ring(a, c);
		if (c->state == HEAD)
			read_head(a, c);
		else if (c->state == OPEN && has_room(a))
			send_more(a, c);
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
