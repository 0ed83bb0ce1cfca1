/* SPDX-License-Identifier: Apache-2.0 - the table of streams, their credit and final messages. */
#include "agent.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct stream *stream_find(struct agent *a, uint32_t id)
{
	for (uint32_t i = 0; i < a->slots_used; i++)
		if (a->streams[i].class && a->streams[i].id == id)
			return &a->streams[i];
	return NULL;
}

/* A request that has been taken and whose operation has not begun. */
static const struct stream_class class_opening = {.name = "opening"};

struct stream *stream_open(struct agent *a, uint32_t id)
{
	/* The lowest free slot: memory of slots that were never needed is never touched. */
	for (uint32_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct stream *s = &a->streams[i];

		if (s->class)
			continue;
		if (i >= a->slots_used)
			a->slots_used = i + 1;
		s->class = &class_opening;
		s->id = id;
		s->generation++;
		for (unsigned c = 0; c < WIRE_CHANNELS; c++)
			s->credit[c] = WIRE_WINDOW;
		s->window = WIRE_WINDOW;
		s->consumed = 0;
		s->ended = s->busy = false;
		s->uid = s->gid = 0;
		return s;
	}
	return NULL;
}

void stream_start(struct stream *s, const struct stream_class *class)
{
	s->class = class;
	s->busy = class->work != NULL;
}

uint8_t *stream_frame(struct agent *a)
{
	uint8_t *out = link_claim(&a->link, LINK_RESERVE / 2, 0);

	if (!out) {
		/* Work is only done while the reserve is free: this is a defect of ours. */
		fputs("sealmark-agent: no room for an answer\n", stderr);
		a->stop = true;
		a->link.out_start = a->link.out_end = 0;
		out = a->link.out;
	}
	return out;
}

void stream_commit(struct agent *a, int frame_size)
{
	if (frame_size > 0)
		link_commit(&a->link, (size_t)frame_size);
}

static void stream_close(struct agent *a, struct stream *s)
{
	const struct stream_class *class = s->class;

	if (class->release)
		class->release(a, s);
	s->class = NULL;
	s->busy = false;
}

void stream_final(struct agent *a, struct stream *s, int frame_size)
{
	stream_commit(a, frame_size);
	stream_close(a, s);
}

void stream_done(struct agent *a, struct stream *s)
{
	struct wire_done m = {0};

	stream_final(a, s, wire_put_done(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &m));
}

void stream_fail(struct agent *a, struct stream *s, int error, const char *format, ...)
{
	char text[WIRE_REASON_MAX + 1];
	struct wire_fail m = {.error = (uint32_t)(error < 0 ? -error : error)};
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n, ": %s", strerror((int)m.error));
	m.message = wire_str(text);
	stream_final(a, s, wire_put_fail(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &m));
}

uint8_t *stream_data_begin(
	struct agent *a, struct stream *s, unsigned channel, size_t most, size_t *count)
{
	uint8_t *out;

	*count = most < LINK_PIECE ? most : LINK_PIECE;
	if (*count > s->credit[channel])
		*count = s->credit[channel];
	if (!*count)
		return NULL;
	out = link_claim(&a->link, WIRE_HEADER + *count, LINK_RESERVE);
	return out ? out + WIRE_HEADER : NULL;
}

void stream_data_end(struct agent *a, struct stream *s, unsigned channel, size_t count)
{
	uint8_t *frame = a->link.out + a->link.out_end;

	wire_header_put(frame, (uint32_t)count, WIRE_DATA, (uint16_t)channel, s->id);
	link_commit(&a->link, WIRE_HEADER + count);
	s->credit[channel] -= (uint32_t)count;
}

void stream_channel_end(struct agent *a, struct stream *s, unsigned channel)
{
	struct wire_end m = {0};

	stream_commit(a, wire_put_end(stream_frame(a), LINK_RESERVE / 2, s->id,
				 (uint16_t)(channel & 3u), &m));
}

void stream_consumed(struct agent *a, struct stream *s, size_t count)
{
	struct wire_credit m;

	s->consumed += (uint32_t)count;
	if (s->consumed < WIRE_CREDIT_STEP || s->ended)
		return;
	m = (struct wire_credit){.bytes = s->consumed};
	s->window += s->consumed;
	s->consumed = 0;
	stream_commit(a, wire_put_credit(stream_frame(a), LINK_RESERVE / 2, s->id, WIRE_STDIN, &m));
}
