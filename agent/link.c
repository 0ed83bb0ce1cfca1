/* SPDX-License-Identifier: Apache-2.0 - the connection to the host: two buffers and a socket. */
#include "link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void link_init(struct link *l, int fd)
{
	l->fd = fd;
	l->readable = l->writable = true;
	l->closed = false;
	l->in_start = l->in_end = 0;
	l->out_start = l->out_end = 0;
}

bool link_receive(struct link *l)
{
	ssize_t n;
	size_t room;

	if (l->in_start) {
		memmove(l->in, l->in + l->in_start, l->in_end - l->in_start);
		l->in_end -= l->in_start;
		l->in_start = 0;
	}
	room = sizeof(l->in) - l->in_end;
	if (!l->readable || l->closed || !room)
		return false;
	do {
		n = recv(l->fd, l->in + l->in_end, room, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		l->readable = false;
		return false;
	}
	if (n <= 0) {
		l->closed = true;
		return false;
	}
	l->in_end += (size_t)n;
	/* A short count mostly means that the socket is empty. If not, it is reported again: the
	 * watch on it is by level, since a vsock socket also reads short with bytes left. */
	if ((size_t)n < room)
		l->readable = false;
	return true;
}

int link_frame(struct link *l, struct wire_frame *frame)
{
	long used = wire_frame_get(l->in + l->in_start, l->in_end - l->in_start, frame, NULL);

	if (used < 0)
		return -EPROTO;
	l->in_start += (size_t)used;
	return used > 0;
}

void link_send(struct link *l)
{
	while (l->writable && !l->closed && l->out_start < l->out_end) {
		ssize_t n = send(l->fd, l->out + l->out_start, l->out_end - l->out_start,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			l->writable = false;
		else if (n < 0)
			l->closed = true;
		else
			l->out_start += (size_t)n;
	}
	if (l->out_start == l->out_end)
		l->out_start = l->out_end = 0;
}

size_t link_room(const struct link *l)
{
	return sizeof(l->out) - (l->out_end - l->out_start);
}

uint8_t *link_claim(struct link *l, size_t size, size_t reserve)
{
	if (link_room(l) < size + reserve)
		return NULL;
	if (sizeof(l->out) - l->out_end < size) {
		memmove(l->out, l->out + l->out_start, l->out_end - l->out_start);
		l->out_end -= l->out_start;
		l->out_start = 0;
	}
	return l->out + l->out_end;
}

void link_commit(struct link *l, size_t size)
{
	l->out_end += size;
}
