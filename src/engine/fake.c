/* SPDX-License-Identifier: Apache-2.0 - engine fake: a scripted guest in a process of ours, for
 * tests. */
#include "engine/engine.h"
#include "engine/fake_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The language
 *
 * One line each, blanks between words, '#' begins a comment. A text is one word, or in double
 * quotes with \n \r \t \0 \\ \" \xHH. An empty script is a machine where everything succeeds: every
 * exec exits with 0 and says nothing, and files are kept in memory.
 *
 *	boot ok			(default) say HELLO
 *	boot hang		never say anything
 *	boot die		end at once
 *	boot garbage		say 4096 bytes of 0xff instead of HELLO
 *	boot mute		say HELLO, take everything, answer nothing
 *	boot delay MS		wait before any of these
 *	boot version N		say HELLO of another protocol version
 *	slow MS			wait before each exec begins
 *
 *	exec PATTERN STEP…	what an exec does whose argv, joined by blanks, matches the
 *fnmatch(3) pattern; the first that matches counts. Steps follow each other: stdout TEXT, stderr
 *TEXT, report TEXT	say it flood BYTES		so many bytes of 'x' on standard output echo
 *copy standard input to standard output until its end delay MS cpu MS, memory BYTES	what is told
 *as used hang		until its wall_us limit, KILL or SIGNAL exit N, signal N	the end; at
 *the end of the line stands `exit 0` end ENDING		cpu_limit, wall_limit, memory_limit,
 *output_limit, file_limit, killed
 *
 *	die at MESSAGE [N]	the machine ends when the N-th (1st) such message comes, as
 *				`die at FILE_WRITE 2`
 *	garbage at MESSAGE [N]	send 4096 bytes of 0xff
 *	half at MESSAGE [N]	send half a frame and end
 *	mute at MESSAGE [N]	from then on take everything, answer nothing
 *	send at MESSAGE TEXT [N]	send these bytes, whatever they are, and go on
 *
 * Limits of an exec on output and wall time are kept as the agent keeps them; credit is kept both
 * ways, and a host that sends without credit ends the machine with status 3 and a line on its
 * console.
 */
#define IN_MOST       (4u << 20)
#define OUT_MOST      (1u << 20) /* more is not begun before the host has read */
#define GARBAGE       4096
#define STATUS_DIED   9
#define STATUS_BREACH 3
#define STATUS_OURS   1

uint8_t *fake_frame(struct fake_guest *g, size_t count, size_t *size)
{
	uint8_t *out = buffer_reserve(&g->out, WIRE_HEADER + count);

	*size = WIRE_HEADER + count;
	if (!out) {
		fprintf(stderr, "fake: no memory\n");
		exit(STATUS_OURS);
	}
	return out;
}

void fake_commit(struct fake_guest *g, int frame_size)
{
	if (frame_size > 0 && !g->mute)
		buffer_commit(&g->out, (size_t)frame_size);
}

static void say_garbage(struct fake_guest *g)
{
	size_t size;
	uint8_t *out = fake_frame(g, GARBAGE, &size);

	memset(out, 0xff, GARBAGE);
	fake_commit(g, GARBAGE);
}

static void say_bytes(struct fake_guest *g, const void *bytes, size_t count)
{
	size_t size;

	memcpy(fake_frame(g, count, &size), bytes, count);
	fake_commit(g, (int)count);
}

static void say_hello(struct fake_guest *g)
{
	struct wire_hello m = {
		.version = g->script.version,
		.kernel = wire_str("fake"),
		.memory_bytes = 512u << 20,
		.uptime_us = 1000,
	};
	size_t size;
	uint8_t *out = fake_frame(g, 256, &size);

	fake_commit(g, wire_put_hello(out, size, 0, 0, &m));
}

/* 0; -EAGAIN when the host reads nothing now; else the connection is gone. */
static int flush(struct fake_guest *g)
{
	while (buffer_length(&g->out)) {
		ssize_t n = write(g->fd, buffer_bytes(&g->out), buffer_length(&g->out));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buffer_consume(&g->out, (size_t)n);
	}
	return 0;
}

/* As much of what was said as the host takes, waiting for it. */
static void flush_all(struct fake_guest *g)
{
	struct pollfd p = {.fd = g->fd, .events = POLLOUT};

	while (flush(g) == -EAGAIN && poll(&p, 1, -1) >= 0)
		;
}

static bool boot(struct fake_guest *g)
{
	if (g->script.boot_delay_ms)
		poll(NULL, 0, (int)g->script.boot_delay_ms);
	switch (g->script.boot) {
	case FAKE_BOOT_OK:
		say_hello(g);
		return true;
	case FAKE_BOOT_MUTE:
		say_hello(g);
		flush_all(g);
		g->mute = true;
		return true;
	case FAKE_BOOT_GARBAGE:
		say_garbage(g);
		return true;
	case FAKE_BOOT_HANG:
		g->mute = true;
		return true;
	case FAKE_BOOT_DIE:
		return false;
	}
	return false;
}

/* What the script has in mind for the arrival of this message; false: die now. */
static bool make_trouble(struct fake_guest *g, uint16_t type)
{
	static const uint8_t half[] = {16, 0, 0, 0, WIRE_PONG, 0, 0, 0, 1, 0, 0, 0, 42};

	for (size_t i = 0; i < g->script.trouble_count; i++) {
		struct fake_trouble *t = &g->script.troubles[i];

		if (t->type != type || ++t->seen != t->which)
			continue;
		switch (t->kind) {
		case FAKE_DIE:
			return false;
		case FAKE_GARBAGE:
			say_garbage(g);
			break;
		case FAKE_HALF:
			say_bytes(g, half, sizeof(half));
			flush_all(g);
			return false;
		case FAKE_SEND:
			say_bytes(g, t->text, t->count);
			break;
		case FAKE_MUTE:
			flush_all(g);
			g->mute = true;
			break;
		}
	}
	return true;
}

/* 0, 1: SHUTDOWN, -EPROTO, -ECANCELED: the script says die */
static int handle(struct fake_guest *g, const struct wire_frame *f)
{
	if (!(wire_type_direction(f->type) & WIRE_TO_GUEST) || wire_check(f))
		return -EPROTO;
	if (!make_trouble(g, f->type))
		return -ECANCELED;
	if (f->type == WIRE_SHUTDOWN)
		return !g->mute;
	if (g->mute)
		return 0;
	return wire_is_request(f->type) ? fake_request(g, f) : fake_stream_frame(g, f);
}

static int handle_all(struct fake_guest *g)
{
	struct wire_frame f;
	long used;
	int r = 0;

	while (!r) {
		used = wire_frame_get(buffer_bytes(&g->in), buffer_length(&g->in), &f, NULL);
		if (used <= 0)
			return (int)used;
		r = handle(g, &f);
		buffer_consume(&g->in, (size_t)used);
	}
	return r;
}

/* 0 or negative: -EPIPE at the end of the connection. */
static int take(struct fake_guest *g)
{
	uint8_t *room = buffer_reserve(&g->in, 65536);
	ssize_t n = room ? read(g->fd, room, 65536) : -1;

	if (n > 0)
		buffer_commit(&g->in, (size_t)n);
	if (n == 0)
		return -EPIPE;
	return n > 0 || errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int64_t pump_all(struct fake_guest *g)
{
	int64_t due = CLOCK_NEVER;

	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct fake_stream *s = &g->streams[i];

		if (s->used && !g->mute && buffer_length(&g->out) < OUT_MOST)
			fake_stream_pump(g, s);
		if (s->used && !g->mute && fake_stream_due_ms(s) < due)
			due = fake_stream_due_ms(s);
	}
	return due;
}

static int serve(struct fake_guest *g)
{
	for (;;) {
		struct pollfd p = {.fd = g->fd, .events = POLLIN};
		int64_t due = pump_all(g);
		int r = flush(g);

		if (r && r != -EAGAIN)
			return 0; /* the host has gone: so does the machine */
		if (r)
			p.events |= POLLOUT;
		if (poll(&p, 1, clock_poll_ms(due)) < 0 && errno != EINTR)
			return STATUS_OURS;
		if (!(p.revents & (POLLIN | POLLHUP | POLLERR)))
			continue;
		if (take(g))
			return 0;
		r = handle_all(g);
		if (r == 1) {
			flush_all(g);
			return 0;
		}
		if (r == -ECANCELED)
			return STATUS_DIED;
		if (r) {
			fprintf(stderr, "fake: the host broke the protocol\n");
			return STATUS_BREACH;
		}
	}
}

static int fake_run(const struct engine_config *config, int channel_fd)
{
	struct fake_guest *g = calloc(1, sizeof(*g));
	struct error err = {0};
	int status = STATUS_OURS;

	if (!g)
		return status;
	g->fd = channel_fd;
	buffer_init(&g->in, IN_MOST);
	if (fcntl(channel_fd, F_SETFL, O_NONBLOCK) == 0 && fake_files_init(&g->files) == 0 &&
		fake_script_read(config->script, &g->script, &err) == 0)
		status = boot(g) ? serve(g) : STATUS_DIED;
	if (err.code)
		fprintf(stderr, "fake: %s\n", err.message);
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++)
		if (g->streams[i].used)
			fake_stream_free(&g->streams[i]);
	fake_script_fini(&g->script);
	fake_files_fini(&g->files);
	buffer_fini(&g->in);
	buffer_fini(&g->out);
	free(g);
	return status;
}

static int fake_probe(const char *home, struct error *err)
{
	(void)home;
	(void)err;
	return 0;
}

static int fake_plan(const struct engine_config *config, const char *socket_in_root,
	struct engine_plan *out, struct error *err)
{
	struct fake_script script;
	int r = fake_script_read(config->script, &script, err); /* now, where it can be told */

	(void)socket_in_root;
	if (r)
		return r;
	fake_script_fini(&script);
	*out = (struct engine_plan){
		.channel = ENGINE_STREAM,
		.is_code_of_ours = true,
		.run = fake_run,
	};
	return 0;
}

static int fake_pause(pid_t init, struct error *err)
{
	return engine_pause(init, false, err);
}

const struct engine engine_fake = {
	.name = "fake",
	.isolation = "none",
	.strength = 0,
	.probe = fake_probe,
	.plan = fake_plan,
	.pause = fake_pause,
	.resume = engine_resume,
};
