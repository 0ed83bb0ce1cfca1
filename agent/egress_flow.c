/* SPDX-License-Identifier: Apache-2.0 - bytes between a program of the guest and the host. */
#include "egress_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* --- to the program --- */

/* What is left after the socket has taken its part; -errno when it is broken */
ssize_t connection_push(struct connection *c, const uint8_t *bytes, size_t count)
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
void connection_finish(struct agent *a, struct connection *c)
{
	if (c->ring)
		return;
	if (c->state == DRAINING)
		connection_drop(a, c, 0);
	else if (c->host_ended)
		shutdown(c->fd, SHUT_WR);
}

void connection_flush(struct agent *a, struct connection *c)
{
	uint32_t before = c->ring;

	while (c->ring && c->writable) {
		uint32_t piece = WIRE_NET_WINDOW - c->ring_at;
		ssize_t left;

		piece = piece < c->ring ? piece : c->ring;
		left = connection_push(c, c->memory->ring + c->ring_at, piece);
		if (left < 0)
			return connection_drop(a, c, ECONNRESET);
		piece -= (uint32_t)left;
		c->ring_at = (c->ring_at + piece) % WIRE_NET_WINDOW;
		c->ring -= piece;
	}
	connection_credit(a, c, before - c->ring);
	if (before)
		connection_finish(a, c);
}

void connection_deliver(struct agent *a, struct connection *c, const uint8_t *bytes, uint32_t count)
{
	ssize_t left = (ssize_t)count;

	if (!c->ring)
		left = connection_push(c, bytes, count);
	if (left < 0)
		return connection_drop(a, c, ECONNRESET);
	bytes += count - (size_t)left;
	for (ssize_t i = 0; i < left;) {
		uint32_t at = (c->ring_at + c->ring) % WIRE_NET_WINDOW;
		uint32_t piece = WIRE_NET_WINDOW - at;

		piece = piece < (uint32_t)(left - i) ? piece : (uint32_t)(left - i);
		memcpy(c->memory->ring + at, bytes + i, piece);
		c->ring += piece;
		i += piece;
	}
	connection_credit(a, c, count - (uint32_t)left);
}

static void say_http(struct connection *c, int status, const char *reason, const char *why)
{
	char text[600];
	int n = snprintf(text, sizeof(text),
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nConnection: close\r\n"
		"Content-Length: %zu\r\n\r\n%.200s\n",
		status, reason, strnlen(why, 200) + 1, why);

	connection_push(c, (const uint8_t *)text, (size_t)n);
}

void connection_say_socks(struct connection *c, uint8_t code)
{
	const uint8_t bytes[] = {5, code, 0, 1, 0, 0, 0, 0, 0, 0};

	connection_push(c, bytes, sizeof(bytes));
}

/* Why there is no connection, in the words of who asked. */
void connection_refuse(struct connection *c, int error, const char *why)
{
	if (c->kind != PROXY)
		return;
	if (c->is_socks)
		connection_say_socks(c, error == EACCES         ? 2
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

/*
 * How many of the bytes that a program has sent go to the target: none of a request that follows
 * the one whose target this is, which may be for another. Programs that use their connection once
 * more, since that target left it open, are told to take a new one: by its end. -EPROTO.
 */
static ssize_t own_bytes(struct connection *c, const uint8_t *bytes, size_t count)
{
	ssize_t own = proxy_body_take(&c->body, bytes, count);

	/* some end their request by an empty line more */
	for (size_t i = own < 0 ? count : (size_t)own; i < count; i++)
		if (bytes[i] != '\r' && bytes[i] != '\n')
			return -EPROTO;
	return own;
}

/* What came behind the head belongs to the target. */
static int rest_is_pending(struct connection *c)
{
	ssize_t own = own_bytes(c, c->memory->in, c->in);

	if (own < 0)
		return (int)own;
	memcpy(c->memory->pending + c->pending, c->memory->in, (size_t)own);
	c->pending += (uint32_t)own;
	c->in = 0;
	return 0;
}

static void read_socks(struct agent *a, struct connection *c)
{
	struct proxy_target target;
	bool usable = false;
	long n;

	if (!c->greeted) {
		n = proxy_socks_hello(c->memory->in, c->in, &usable);
		if (n <= 0)
			return n ? connection_drop(a, c, 0) : (void)0;
		connection_push(c, (const uint8_t *)(usable ? "\5\0" : "\5\377"), 2);
		if (!usable)
			return connection_drop(a, c, 0);
		c->greeted = true;
		take_in(c, (size_t)n);
	}
	n = proxy_socks_request(c->memory->in, c->in, &target);
	if (n < 0) {
		connection_say_socks(c, n == -EOPNOTSUPP ? 7 : 1);
		return connection_drop(a, c, 0);
	}
	if (!n)
		return;
	take_in(c, (size_t)n);
	rest_is_pending(c); /* all of it: a tunnel */
	connection_open(a, c, &target);
}

static void read_http(struct agent *a, struct connection *c)
{
	struct proxy_target target;
	size_t head;
	long n = proxy_http(c->memory->in, c->in, &target, &c->body, c->memory->pending, &head);

	if (n < 0) {
		say_http(c, n == -E2BIG ? 431 : 400, "Bad Request",
			"this proxy takes CONNECT HOST:PORT and http:// addresses");
		return connection_drop(a, c, 0);
	}
	if (!n)
		return;
	c->pending = (uint32_t)head;
	take_in(c, (size_t)n);
	if (rest_is_pending(c)) {
		say_http(c, 400, "Bad Request", "this proxy takes one request at a time");
		return connection_drop(a, c, 0);
	}
	connection_open(a, c, &target);
}

static void read_dns(struct agent *a, struct connection *c)
{
	struct query from = {.connection = c, .generation = c->generation};
	size_t size;

	while (c->state == HEAD && !c->asking && c->in >= 2) {
		size = (size_t)(c->memory->in[0] << 8 | c->memory->in[1]);
		if (size > DNS_MESSAGE_MOST)
			return connection_drop(a, c, 0);
		if (c->in < 2 + size)
			return;
		c->asking = true;
		query_begin(a, &from, c->memory->in + 2, size);
		if (c->state == HEAD)
			take_in(c, 2 + size);
	}
}

void connection_read_head(struct agent *a, struct connection *c)
{
	int r = fill_in(c);

	if (r == -EAGAIN && c->kind == DNS)
		return read_dns(a, c); /* the next question may be here already */
	if (r == -EAGAIN)
		return;
	if (r)
		return connection_drop(a, c, 0);
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

void connection_send(struct agent *a, struct connection *c)
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
		n = own_bytes(c, out, (size_t)n);
		if (n > 0)
			data_end(a, c, (size_t)n);
		else if (n < 0)
			connection_drop(a, c, 0);
	} else if (n < 0 && errno == EAGAIN) {
		c->readable = false;
	} else if (n < 0) {
		connection_drop(a, c, ECONNRESET);
	} else {
		c->ended = true;
		stream_commit(
			a, wire_put_net_end(stream_frame(a), LINK_RESERVE / 2, c->id, 0, &end));
	}
}
