/* SPDX-License-Identifier: Apache-2.0 - fuzzes frames and messages: what decodes must encode to the
 * very same bytes. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* Look at every byte that a decoded field points to. */
static void visit_u32(const uint32_t *v)
{
	(void)v;
}

static void visit_u64(const uint64_t *v)
{
	(void)v;
}

static void visit_i64(const int64_t *v)
{
	(void)v;
}

static void visit_blob(const struct wire_blob *b)
{
	unsigned sum = 0;

	for (uint32_t i = 0; i < b->count; i++)
		sum += b->bytes[i];
	__asm__ volatile("" : : "r"(sum));
}

static void visit_str(const struct wire_str *s)
{
	check(strlen(s->text) == s->count);
}

static void visit_strs(const struct wire_strs *s)
{
	uint32_t at = 0, n = 0;
	size_t bytes = 0;
	const char *text;

	while ((text = wire_strs_next(s, &at))) {
		bytes += strlen(text) + 5;
		n++;
	}
	check(n == s->count && bytes == s->size);
}

#define F(type, field) visit_##type(&m.field);
#define M(NAME, name, number, direction)                                                           \
	static void again_##name(const struct wire_frame *f, const uint8_t *whole)                 \
	{                                                                                          \
		static uint8_t out[WIRE_FRAME_MAX];                                                \
		struct wire_##name m;                                                              \
		size_t size = WIRE_HEADER + (size_t)f->length;                                     \
                                                                                                   \
		if (wire_get_##name(f->payload, f->length, &m))                                    \
			return;                                                                    \
		WIRE_FIELDS_##name(F);                                                             \
		check(wire_put_##name(out, sizeof(out), f->stream, f->channel, &m) == (int)size);  \
		check(memcmp(out, whole, size) == 0);                                              \
		check(wire_put_##name(out, size - 1, f->stream, f->channel, &m) < 0);              \
	}
WIRE_MESSAGES(M)
#undef M
#undef F

static void one_frame(const struct wire_frame *f, const uint8_t *whole)
{
	check(wire_type_name(f->type) && wire_type_direction(f->type));
	check(f->payload == whole + WIRE_HEADER);
	switch (f->type) {
#define M(NAME, name, number, direction)                                                           \
	case number: {                                                                             \
		struct wire_##name m;                                                              \
		int r = wire_get_##name(f->payload, f->length, &m);                                \
                                                                                                   \
		check(number == WIRE_DATA || wire_check(f) == r);                                  \
		again_##name(f, whole);                                                            \
		break;                                                                             \
	}
		WIRE_MESSAGES(M)
#undef M
	default:
		abort(); /* wire_frame_get() let an unknown type through */
	}
}

/* The bytes as a stream of frames. */
static void stream(const uint8_t *bytes, size_t count)
{
	struct wire_frame f;
	size_t need;

	for (;;) {
		long used = wire_frame_get(bytes, count, &f, &need);

		if (used <= 0) {
			check(used < 0 || need > count);
			return;
		}
		check((size_t)used == WIRE_HEADER + f.length && (size_t)used <= count);
		one_frame(&f, bytes);
		bytes += used;
		count -= (size_t)used;
	}
}

/* The bytes as the payload of a message of a type that the first one chooses. */
static void payload(uint8_t choice, const uint8_t *bytes, size_t count)
{
	static const uint16_t types[] = {
#define M(NAME, name, number, direction) number,
		WIRE_MESSAGES(M)
#undef M
	};
	uint8_t *frame;

	if (count > WIRE_PAYLOAD_MAX)
		return;
	frame = malloc(WIRE_HEADER + count); /* exact, so that one byte beyond is noticed */
	check(frame != NULL);
	wire_header_put(frame, (uint32_t)count,
		(enum wire_type)types[choice % (sizeof(types) / sizeof(types[0]))],
		(uint16_t)(choice % WIRE_CHANNELS), choice * 0x01010101u);
	if (count)
		memcpy(frame + WIRE_HEADER, bytes, count);
	stream(frame, WIRE_HEADER + count);
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	if (count && bytes[0] == 0xff)
		stream(bytes + 1, count - 1);
	else if (count)
		payload(bytes[0], bytes + 1, count - 1);
	return 0;
}
