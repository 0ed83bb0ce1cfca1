/* SPDX-License-Identifier: Apache-2.0 - the machine's console: its last lines are kept, the rest is
 * dropped, and a flood is read slowly. */
#include "monitor/monitor.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* After this much, one small read each 100 ms: a flooding guest waits on its own console instead of
 * keeping the monitor busy. */
#define CONSOLE_FREE     (1u << 20)
#define CONSOLE_PAUSE_MS 100

static void readable(uv_poll_t *poll, int status, int events);

static void resume(uv_timer_t *timer)
{
	struct console *c = timer->data;

	if (c->fd >= 0)
		uv_poll_start(&c->poll, UV_READABLE, readable);
}

static void keep(struct console *c, const uint8_t *bytes, size_t count)
{
	size_t drop;

	if (count > sizeof(c->tail)) {
		bytes += count - sizeof(c->tail);
		count = sizeof(c->tail);
	}
	drop = c->kept + count > sizeof(c->tail) ? c->kept + count - sizeof(c->tail) : 0;
	memmove(c->tail, c->tail + drop, c->kept - drop);
	c->kept -= drop;
	memcpy(c->tail + c->kept, bytes, count);
	c->kept += count;
}

static void readable(uv_poll_t *poll, int status, int events)
{
	struct console *c = poll->data;
	uint8_t bytes[4096];
	ssize_t n = read(c->fd, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		uv_poll_stop(&c->poll);
		return;
	}
	c->total_bytes += (uint64_t)n;
	keep(c, bytes, (size_t)n);
	if (c->total_bytes > CONSOLE_FREE) {
		uv_poll_stop(&c->poll);
		uv_timer_start(&c->pause, resume, CONSOLE_PAUSE_MS, 0);
	}
}

int console_start(struct console *c, struct monitor *m, int fd)
{
	int r;

	c->fd = fd;
	c->poll.data = c->pause.data = c;
	r = uv_timer_init(&m->loop, &c->pause);
	if (!r)
		r = uv_poll_init(&m->loop, &c->poll, fd);
	return r ? r : uv_poll_start(&c->poll, UV_READABLE, readable);
}

void console_text(const struct console *c, char *out, size_t size)
{
	struct buffer safe = {0};
	size_t n = c->kept < size / 2 ? c->kept : size / 2, count;
	const uint8_t *from;

	out[0] = 0;
	if (n && text_add_safe(&safe, c->tail + c->kept - n, n, true) == 0) {
		count = buffer_length(&safe) < size ? buffer_length(&safe) : size - 1;
		from = buffer_bytes(&safe) + buffer_length(&safe) - count;
		for (; count && (*from & 0xc0) == 0x80; count--) /* not from half a character on */
			from++;
		memcpy(out, from, count);
		out[count] = 0;
	}
	buffer_fini(&safe);
}

void console_close(struct console *c)
{
	if (c->fd < 0)
		return;
	uv_close((uv_handle_t *)&c->poll, NULL);
	uv_close((uv_handle_t *)&c->pause, NULL);
	close(c->fd);
	c->fd = -1;
}
