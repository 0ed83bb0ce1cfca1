/* SPDX-License-Identifier: Apache-2.0 - the byte channel to the guest's agent: frames in and out.
 */
#include "monitor/egress.h"
#include "monitor/monitor.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUEST_IN     (1u << 20) /* bytes read ahead on a stream socket */
#define GUEST_FRAMES 64         /* frames handled before other handles get their turn */
/* Bytes that wait for the guest. What clients and the world send is held back long before; answers
 * to the guest's own messages are not, and only a guest that does not read them comes here. */
#define GUEST_OUT    (4 * MONITOR_INPUT)

static void ready(uv_poll_t *poll, int status, int events);
static void more(uv_idle_t *idle);

static void fault(struct guest *g, bool breach, const char *text)
{
	if (g->gone)
		return;
	g->gone = true;
	g->breach = breach;
	snprintf(g->fault, sizeof(g->fault), "%s", text);
	uv_poll_stop(&g->poll);
	guest_read_soon(g); /* whoever noticed it: the sandbox ends */
}

static void watch(struct guest *g)
{
	int events = UV_READABLE;

	if (g->gone)
		return;
	if (!g->vsock && buffer_length(&g->out))
		events |= UV_WRITABLE;
	if (!g->vsock && buffer_length(&g->in) >= GUEST_IN)
		events &= ~UV_READABLE;
	if (events != g->events && uv_poll_start(&g->poll, events, ready) == 0)
		g->events = events;
}

/* bytes taken by the channel now */
static size_t push(struct guest *g, const uint8_t *bytes, size_t count)
{
	ssize_t n;

	if (g->vsock)
		return vsock_write(g->vsock, bytes, count);
	do {
		n = send(g->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	/* its end is found by reading, after what it still said */
	g->deaf = n < 0 && errno != EAGAIN;
	return n < 0 ? 0 : (size_t)n;
}

static void flush(struct guest *g)
{
	while (!g->gone && !g->deaf && buffer_length(&g->out)) {
		size_t n = push(g, buffer_bytes(&g->out), buffer_length(&g->out));

		if (n == 0)
			break;
		buffer_consume(&g->out, n);
	}
	if (g->deaf)
		buffer_clear(&g->out);
}

void guest_send(struct guest *g, const uint8_t *frame, size_t size)
{
	size_t n = 0;

	if (g->gone)
		return;
	flush(g);
	while (n < size && buffer_length(&g->out) == 0 && !g->deaf) {
		size_t k = push(g, frame + n, size - n);

		if (k == 0)
			break;
		n += k;
	}
	if (n < size && !g->deaf && buffer_length(&g->out) + size > GUEST_OUT)
		fault(g, true, "the guest asks and asks, and takes no answer");
	else if (n < size && !g->deaf && buffer_add(&g->out, frame + n, size - n))
		fault(g, false, "out of memory");
	watch(g);
}

bool guest_congested(const struct guest *g)
{
	return buffer_length(&g->out) > MONITOR_INPUT;
}

static size_t available(const struct guest *g)
{
	return g->vsock ? vsock_available(g->vsock) : buffer_length(&g->in);
}

static void copy_out(const struct guest *g, void *out, size_t count)
{
	if (g->vsock)
		vsock_copy(g->vsock, 0, out, count);
	else
		memcpy(out, buffer_bytes(&g->in), count);
}

static void consume(struct guest *g, size_t count)
{
	if (g->vsock)
		vsock_consume(g->vsock, count);
	else
		buffer_consume(&g->in, count);
}

/* take one frame into g->frame; its size, 0 when there is none yet, -EPROTO */
static long take(struct guest *g, struct wire_frame *f)
{
	size_t have = available(g), need;
	long n;

	if (have < WIRE_HEADER)
		return 0;
	copy_out(g, g->frame, WIRE_HEADER);
	n = wire_frame_get(g->frame, WIRE_HEADER, f, &need);
	if (n < 0)
		return n;
	if (have < need)
		return 0;
	copy_out(g, g->frame, need);
	consume(g, need);
	/* the copy is what is judged, not what was peeked at */
	n = wire_frame_get(g->frame, need, f, NULL);
	return n == (long)need ? n : -EPROTO;
}

/* The end of the channel is the end of the sandbox, whoever noticed it. */
static void end_if_gone(struct guest *g)
{
	if (!g->gone || !g->monitor)
		return;
	if (g->breach)
		monitor_stop(g->monitor, SANDBOX_STOPPED_GUEST_FAULT, "%s", g->fault);
	else
		monitor_channel_lost(g->monitor);
}

/* One frame: 1, 0 when there is none whole, negative when the guest broke the protocol. */
static int take_frame(struct guest *g)
{
	const char *why = "a frame that cannot be";
	struct wire_frame f;
	long n = take(g, &f);

	if (n > 0)
		n = stream_from_guest(g->monitor, &f, g->frame, &why);
	else if (n == 0)
		return 0;
	if (n < 0)
		fault(g, true, why);
	return n < 0 ? -EPROTO : 1;
}

/* Frames of one turn. What is left then is taken in the next turn of the loop: the channel itself
 * reports only what is new. */
static void take_frames(struct guest *g)
{
	for (int i = 0; i < GUEST_FRAMES; i++) {
		if (client_congested(g->monitor) || take_frame(g) <= 0)
			return;
	}
	guest_read_soon(g);
}

/* The channel has ended: all that came counts, however slow the clients are (it is bounded by what
 * is read ahead). */
static void take_all_frames(struct guest *g)
{
	while (!g->gone && take_frame(g) > 0)
		;
}

void guest_read(struct guest *g)
{
	if (!g->gone)
		take_frames(g);
	watch(g);
	end_if_gone(g);
}

static void more(uv_idle_t *idle)
{
	uv_idle_stop(idle);
	guest_read(idle->data);
}

void guest_read_soon(struct guest *g)
{
	if (g->monitor)
		uv_idle_start(&g->more, more);
}

/* bytes that were read ahead now; the end of the channel is a fault, once its last frames are
 * taken */
static size_t refill(struct guest *g)
{
	uint8_t *room;
	ssize_t n;

	if (buffer_length(&g->in) >= GUEST_IN)
		return 0;
	room = buffer_reserve(&g->in, 65536);
	if (!room) {
		fault(g, false, "out of memory");
		return 0;
	}
	n = recv(g->fd, room, 65536, MSG_DONTWAIT);
	if (n > 0) {
		buffer_commit(&g->in, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		take_all_frames(g);
		fault(g, false, "the guest closed its channel");
	}
	return n > 0 ? (size_t)n : 0;
}

/* as refill(), and what waits to be sent moves on */
static void pump(struct guest *g)
{
	if (vsock_pump(g->vsock) == 0)
		return;
	take_all_frames(g);
	fault(g, vsock_was_breach(g->vsock),
		vsock_fault(g->vsock) ? vsock_fault(g->vsock) : "connection lost");
}

static void ready(uv_poll_t *poll, int status, int events)
{
	struct guest *g = poll->data;

	if (status < 0)
		g->events = 0; /* libuv has stopped it; the reason is found by reading */
	if (g->vsock)
		pump(g);
	else if (status < 0 || events & UV_READABLE)
		refill(g);
	flush(g);
	guest_read(g);
	if (g->gone)
		return;
	process_resume_all(g->monitor);
	client_resume_all(g->monitor);
	egress_resume(g->monitor);
}

void guest_read_last(struct guest *g)
{
	if (g->gone)
		return;
	if (g->vsock)
		pump(g);
	while (!g->gone && !g->vsock && refill(g))
		take_all_frames(g);
	take_all_frames(g);
	if (g->breach)
		end_if_gone(g);
}

int guest_start(struct guest *g, struct monitor *m, struct vsock *vsock, int fd)
{
	int r;

	g->monitor = m;
	g->vsock = vsock;
	g->fd = fd;
	g->frame = malloc(WIRE_FRAME_MAX);
	if (!g->frame)
		return -ENOMEM;
	g->poll.data = g->more.data = g;
	r = uv_idle_init(&m->loop, &g->more);
	if (!r)
		r = uv_poll_init(&m->loop, &g->poll, vsock ? vsock_fd(vsock) : fd);
	if (r)
		return r;
	watch(g);
	return 0;
}

void guest_close(struct guest *g)
{
	if (!g->monitor)
		return;
	g->gone = true;
	uv_close((uv_handle_t *)&g->poll, NULL);
	uv_close((uv_handle_t *)&g->more, NULL);
	vsock_free(g->vsock);
	g->vsock = NULL;
	close_fd(&g->fd);
	buffer_fini(&g->in);
	buffer_fini(&g->out);
	free(g->frame);
	g->frame = NULL;
	g->monitor = NULL;
}
