/* SPDX-License-Identifier: Apache-2.0 - frames and messages, see wire.h. Shared with the guest. */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

struct writer {
	uint8_t *p;
	size_t left;
	bool full;
};

struct reader {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static void put_bytes(struct writer *w, const void *bytes, size_t count)
{
	if (w->full || count > w->left) {
		w->full = true;
		return;
	}
	if (count)
		memcpy(w->p, bytes, count);
	w->p += count;
	w->left -= count;
}

static void store32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(struct writer *w, const uint32_t *v)
{
	uint8_t b[4];

	store32(b, *v);
	put_bytes(w, b, 4);
}

static void put_u64(struct writer *w, const uint64_t *v)
{
	uint32_t low = (uint32_t)*v, high = (uint32_t)(*v >> 32);

	put_u32(w, &low);
	put_u32(w, &high);
}

static void put_i64(struct writer *w, const int64_t *v)
{
	uint64_t u = (uint64_t)*v;

	put_u64(w, &u);
}

static void put_blob(struct writer *w, const struct wire_blob *b)
{
	put_u32(w, &b->count);
	put_bytes(w, b->bytes, b->count);
}

static void put_str(struct writer *w, const struct wire_str *s)
{
	uint32_t count = s->text ? s->count : 0;

	put_u32(w, &count);
	put_bytes(w, s->text ? s->text : "", count);
	put_bytes(w, "", 1);
}

static void put_strs(struct writer *w, const struct wire_strs *s)
{
	put_u32(w, &s->count);
	if (s->list) {
		for (uint32_t i = 0; i < s->count; i++) {
			struct wire_str one = wire_str(s->list[i]);

			put_str(w, &one);
		}
	} else {
		put_bytes(w, s->bytes, s->size);
	}
}

static const uint8_t *get_bytes(struct reader *r, size_t count)
{
	const uint8_t *p = r->p;

	if (r->bad || count > r->left) {
		r->bad = true;
		return NULL;
	}
	r->p += count;
	r->left -= count;
	return p;
}

static void get_u32(struct reader *r, uint32_t *v)
{
	const uint8_t *p = get_bytes(r, 4);

	*v = p ? load32(p) : 0;
}

static void get_u64(struct reader *r, uint64_t *v)
{
	const uint8_t *p = get_bytes(r, 8);

	*v = p ? load32(p) | (uint64_t)load32(p + 4) << 32 : 0;
}

static void get_i64(struct reader *r, int64_t *v)
{
	uint64_t u;

	get_u64(r, &u);
	*v = (int64_t)u;
}

static void get_blob(struct reader *r, struct wire_blob *b)
{
	get_u32(r, &b->count);
	b->bytes = get_bytes(r, b->count);
	if (r->bad)
		b->count = 0;
}

static void get_str(struct reader *r, struct wire_str *s)
{
	const uint8_t *p;
	uint32_t count;

	*s = (struct wire_str){"", 0};
	get_u32(r, &count);
	p = get_bytes(r, (size_t)count + 1);
	if (!p)
		return;
	if (p[count] != 0 || memchr(p, 0, count)) {
		r->bad = true;
		return;
	}
	s->text = (const char *)p;
	s->count = count;
}

static void get_strs(struct reader *r, struct wire_strs *s)
{
	struct wire_str one;

	*s = (struct wire_strs){0};
	get_u32(r, &s->count);
	if (s->count > WIRE_STRINGS_MAX)
		r->bad = true;
	s->bytes = r->p;
	for (uint32_t i = 0; i < s->count && !r->bad; i++)
		get_str(r, &one);
	if (r->bad)
		*s = (struct wire_strs){0};
	else
		s->size = (uint32_t)(r->p - s->bytes);
}

const char *wire_strs_next(const struct wire_strs *strs, uint32_t *at)
{
	const char *text;

	if (*at >= strs->size)
		return NULL;
	text = (const char *)strs->bytes + *at + 4;
	*at += 4 + load32(strs->bytes + *at) + 1;
	return text;
}

void wire_header_put(
	uint8_t *out, uint32_t length, enum wire_type type, uint16_t channel, uint32_t stream)
{
	store32(out, length);
	out[4] = (uint8_t)((unsigned)type & 0xff);
	out[5] = (uint8_t)((unsigned)type >> 8);
	out[6] = (uint8_t)(channel & 0xff);
	out[7] = (uint8_t)(channel >> 8);
	store32(out + 8, stream);
}

void wire_stream_set(uint8_t *frame, uint32_t stream)
{
	store32(frame + 8, stream);
}

#define F(type, field) put_##type(&w, &m->field);
#define M(NAME, name, number, direction)                                                           \
	int wire_put_##name(uint8_t *out, size_t size, uint32_t stream, uint16_t channel,          \
		const struct wire_##name *m)                                                       \
	{                                                                                          \
		size_t room = size < WIRE_FRAME_MAX ? size : WIRE_FRAME_MAX;                       \
		struct writer w = {out + WIRE_HEADER, room - WIRE_HEADER, false};                  \
                                                                                                   \
		(void)m;                                                                           \
		if (room < WIRE_HEADER)                                                            \
			return -EMSGSIZE;                                                          \
		WIRE_FIELDS_##name(F);                                                             \
		if (w.full)                                                                        \
			return -EMSGSIZE;                                                          \
		wire_header_put(                                                                   \
			out, (uint32_t)(w.p - out - WIRE_HEADER), WIRE_##NAME, channel, stream);   \
		return (int)(w.p - out);                                                           \
	}
WIRE_MESSAGES(M)
#undef M
#undef F

#define F(type, field) get_##type(&r, &m->field);
#define M(NAME, name, number, direction)                                                           \
	int wire_get_##name(const uint8_t *payload, uint32_t length, struct wire_##name *m)        \
	{                                                                                          \
		struct reader r = {payload, length, false};                                        \
                                                                                                   \
		m->unused_ = 0;                                                                    \
		WIRE_FIELDS_##name(F);                                                             \
		return r.bad || r.left ? -EPROTO : 0;                                              \
	}
WIRE_MESSAGES(M)
#undef M
#undef F

long wire_frame_get(const uint8_t *bytes, size_t count, struct wire_frame *frame, size_t *need)
{
	if (need)
		*need = WIRE_HEADER;
	if (count < WIRE_HEADER)
		return 0;
	frame->length = load32(bytes);
	frame->type = (uint16_t)(bytes[4] | bytes[5] << 8);
	frame->channel = (uint16_t)(bytes[6] | bytes[7] << 8);
	frame->stream = load32(bytes + 8);
	frame->payload = bytes + WIRE_HEADER;
	if (frame->length > WIRE_PAYLOAD_MAX || frame->channel >= WIRE_CHANNELS ||
		!wire_type_direction(frame->type))
		return -EPROTO;
	if (need)
		*need = WIRE_HEADER + (size_t)frame->length;
	if (count - WIRE_HEADER < frame->length)
		return 0;
	return (long)(WIRE_HEADER + frame->length);
}

const char *wire_type_name(uint16_t type)
{
	switch (type) {
#define M(NAME, name, number, direction)                                                           \
	case number:                                                                               \
		return #NAME;
		WIRE_MESSAGES(M)
#undef M
	default:
		return NULL;
	}
}

#define WIRE_TO_direction(direction) WIRE_DIRECTION_##direction
enum {
	WIRE_DIRECTION_GUEST = WIRE_TO_GUEST,
	WIRE_DIRECTION_HOST = WIRE_TO_HOST,
	WIRE_DIRECTION_BOTH = WIRE_TO_BOTH,
	WIRE_DIRECTION_MONITOR = WIRE_TO_MONITOR
};

int wire_type_direction(uint16_t type)
{
	switch (type) {
#define M(NAME, name, number, direction)                                                           \
	case number:                                                                               \
		return WIRE_TO_direction(direction);
		WIRE_MESSAGES(M)
#undef M
	default:
		return 0;
	}
}

bool wire_is_final(uint16_t type)
{
	return type == WIRE_EXIT || type == WIRE_DONE || type == WIRE_FAIL ||
	       type == WIRE_STATS_REPLY || type == WIRE_PONG || type == WIRE_MON_USAGE_REPLY ||
	       type == WIRE_MON_NETWORK_REPLY;
}

bool wire_is_network(uint16_t type)
{
	return type >= WIRE_NET_SET && type <= WIRE_NET_CLOSE;
}

bool wire_is_request(uint16_t type)
{
	return type == WIRE_EXEC || (type >= WIRE_FILE_WRITE && type <= WIRE_FILE_CHOWN) ||
	       type == WIRE_TAR_IN || type == WIRE_TAR_OUT || type == WIRE_WATCH ||
	       type == WIRE_STATS || type == WIRE_PING;
}

int wire_check(const struct wire_frame *frame)
{
	if (frame->type == WIRE_DATA)
		return 0;
	switch (frame->type) {
#define M(NAME, name, number, direction)                                                           \
	case number: {                                                                             \
		struct wire_##name m;                                                              \
                                                                                                   \
		return wire_get_##name(frame->payload, frame->length, &m);                         \
	}
		WIRE_MESSAGES(M)
#undef M
	default:
		return -EPROTO;
	}
}

const char *wire_end_name(uint32_t reason)
{
	static const char *const names[WIRE_END_COUNT] = {"exited", "signal", "cpu limit",
		"wall limit", "memory limit", "output limit", "file size limit", "killed"};

	return reason < WIRE_END_COUNT ? names[reason] : "?";
}
