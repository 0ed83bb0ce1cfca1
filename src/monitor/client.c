/* SPDX-License-Identifier: Apache-2.0 - control connections: who asks for execs and files. */
#include "monitor/monitor.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT_IN (WIRE_FRAME_MAX + 65536)

static void ready(uv_poll_t *poll, int status, int events);

static bool is_open(const struct client *c)
{
	return c->fd >= 0 && !uv_is_closing((const uv_handle_t *)&c->poll);
}

static bool is_congested(const struct client *c)
{
	return buffer_length(&c->out) > MONITOR_BACKLOG;
}

/* is there room for what its frames lead to? */
static bool may_ask(const struct client *c)
{
	return !guest_congested(&c->monitor->guest) && !is_congested(c);
}

static void watch(struct client *c)
{
	int events = UV_DISCONNECT; /* its death is noticed also while it is held back */

	if (!is_open(c))
		return;
	if (buffer_length(&c->out))
		events |= UV_WRITABLE;
	if (may_ask(c))
		events |= UV_READABLE;
	if (events != c->events && uv_poll_start(&c->poll, events, ready) == 0)
		c->events = events;
}

bool client_congested(const struct monitor *m)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		if (is_open(&m->clients[i]) && is_congested(&m->clients[i]))
			return true;
	}
	return false;
}

bool client_drained(const struct monitor *m)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		if (is_open(&m->clients[i]) && buffer_length(&m->clients[i].out))
			return false;
	}
	return true;
}

/* the place is free again once libuv has let go of the handle */
static void closed(uv_handle_t *handle)
{
	struct client *c = handle->data;

	close_fd(&c->fd);
}

void client_close(struct client *c)
{
	if (!is_open(c))
		return;
	uv_close((uv_handle_t *)&c->poll, closed);
	buffer_fini(&c->in);
	buffer_fini(&c->out);
	stream_client_gone(c);
	guest_read_soon(&c->monitor->guest); /* perhaps it was held back for this client */
}

static void gone(struct client *c)
{
	struct monitor *m = c->monitor;
	bool owner = c->owner;

	client_close(c);
	if (owner && !m->config->detached && m->state < MONITOR_STOPPING)
		monitor_stop(m, SANDBOX_STOPPED_OWNER, "its creator went away");
	if (m->state == MONITOR_STOPPED)
		monitor_close_when_drained(m);
}

void client_send(struct client *c, const uint8_t *bytes, size_t size)
{
	size_t n = 0;

	if (!is_open(c))
		return;
	while (buffer_length(&c->out) == 0 && n < size) {
		ssize_t k = send(c->fd, bytes + n, size - n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			break; /* a dead peer is noticed by its poll */
		n += (size_t)k;
	}
	/* out of memory: its poll finds the end, so that nobody up the stack loses a client */
	if (n < size && buffer_add(&c->out, bytes + n, size - n))
		shutdown(c->fd, SHUT_RDWR);
	watch(c);
}

void client_broadcast(struct monitor *m, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		client_send(&m->clients[i], bytes, size);
}

/* false when the connection is over */
static bool fill(struct client *c)
{
	uint8_t *room;
	ssize_t n;

	if (buffer_length(&c->in) >= CLIENT_IN)
		return true;
	room = buffer_reserve(&c->in, CLIENT_IN);
	if (!room)
		return false;
	n = recv(c->fd, room, CLIENT_IN - buffer_length(&c->in), MSG_DONTWAIT);
	if (n > 0)
		buffer_commit(&c->in, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* handle whole frames; false when the client broke the protocol */
static bool frames(struct client *c)
{
	struct wire_frame f;
	const char *why = "a frame that cannot be";

	while (is_open(c) && may_ask(c)) {
		uint8_t *bytes = buffer_bytes(&c->in);
		long n = wire_frame_get(bytes, buffer_length(&c->in), &f, NULL);

		if (n == 0)
			return true;
		if (n > 0 && stream_from_client(c, &f, bytes, &why) < 0)
			n = -EPROTO;
		if (n < 0) {
			log_error("client: %s", why);
			return false;
		}
		buffer_consume(&c->in, (size_t)n);
	}
	return true;
}

/* frames that waited for room towards the guest */
void client_resume_all(struct monitor *m)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct client *c = &m->clients[i];

		if (!is_open(c))
			continue;
		if (frames(c))
			watch(c);
		else
			gone(c);
	}
}

static void ready(uv_poll_t *poll, int status, int events)
{
	struct client *c = poll->data;
	struct monitor *m = c->monitor;
	bool alive = status == 0;

	if (alive && events & UV_WRITABLE) {
		ssize_t n = send(c->fd, buffer_bytes(&c->out), buffer_length(&c->out),
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			buffer_consume(&c->out, (size_t)n);
		else if (n < 0 && errno != EAGAIN && errno != EINTR)
			alive = false;
	}
	if (alive && events & UV_READABLE)
		alive = fill(c);
	else if (events & UV_DISCONNECT && !(c->events & UV_READABLE))
		alive = false;
	if (!alive || !frames(c))
		return gone(c);
	watch(c);
	/* frames of the guest that waited for this client */
	if (events & UV_WRITABLE && !is_congested(c))
		guest_read_soon(&m->guest);
	if (m->state == MONITOR_STOPPED)
		monitor_close_when_drained(m);
}

void client_init(struct monitor *m)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		m->clients[i].fd = -1;
}

struct client *client_add(struct monitor *m, int fd, bool owner)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct client *c = &m->clients[i];

		if (c->fd >= 0)
			continue;
		*c = (struct client){.monitor = m, .fd = fd, .owner = owner};
		c->poll.data = c;
		if (uv_poll_init(&m->loop, &c->poll, fd)) {
			c->fd = -1;
			return NULL;
		}
		watch(c);
		return c;
	}
	return NULL;
}
