/* SPDX-License-Identifier: Apache-2.0 - DNS: a question parsed, an answer made (RFC 1035). */
#include "dns.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define HEADER       12u
#define FLAG_ANSWER  0x8000u
#define OPCODE       0x7800u
#define FLAG_DESIRED 0x0100u
#define FLAG_CAN     0x0080u
#define CLASS_IN     1u

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static char lower(uint8_t c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* The name at `at`; where it ends, or 0. A question's name is never compressed. A byte that no
 * name of a host has is kept as '?', so that it is known nowhere. */
static size_t take_name(const uint8_t *bytes, size_t count, size_t at, char *out)
{
	size_t n = 0;

	for (;;) {
		size_t label;

		if (at >= count)
			return 0;
		label = bytes[at++];
		if (!label)
			break;
		if (label > 63 || label > count - at || n + (n > 0) + label > DNS_NAME_MOST)
			return 0;
		if (n)
			out[n++] = '.';
		for (size_t i = 0; i < label; i++, n++) {
			char c = lower(bytes[at + i]);

			out[n] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
						 c == '_'
					 ? c
					 : '?';
		}
		at += label;
	}
	out[n] = 0;
	return at;
}

int dns_parse(const uint8_t *bytes, size_t count, struct dns_question *out)
{
	size_t end;

	memset(out, 0, sizeof(*out));
	if (count < HEADER)
		return -EPROTO;
	out->id = get16(bytes);
	out->flags = get16(bytes + 2);
	if (out->flags & FLAG_ANSWER)
		return -EPROTO;
	if (out->flags & OPCODE || get16(bytes + 4) != 1)
		return -EBADMSG;
	end = take_name(bytes, count, HEADER, out->name);
	if (!end || count - end < 4 || end + 4 - HEADER > sizeof(out->bytes) ||
		get16(bytes + end + 2) != CLASS_IN)
		return -EBADMSG;
	out->type = get16(bytes + end);
	out->count = end + 4 - HEADER;
	memcpy(out->bytes, bytes + HEADER, out->count);
	return 0;
}

size_t dns_answer(const struct dns_question *q, enum dns_code code, const uint8_t *address,
	uint32_t ttl_s, uint8_t *out)
{
	static const uint8_t record[] = {0xc0, HEADER, 0, DNS_A, 0, CLASS_IN};
	size_t n = HEADER + q->count;

	memset(out, 0, HEADER);
	put16(out, q->id);
	put16(out + 2, FLAG_ANSWER | (q->flags & FLAG_DESIRED) | FLAG_CAN | (uint32_t)code);
	put16(out + 4, q->count ? 1 : 0);
	memcpy(out + HEADER, q->bytes, q->count);
	if (!address)
		return n;
	put16(out + 6, 1);
	memcpy(out + n, record, sizeof(record));
	put16(out + n + 6, ttl_s >> 16);
	put16(out + n + 8, ttl_s & 0xffff);
	put16(out + n + 10, 4);
	memcpy(out + n + 12, address, 4);
	return n + 16;
}
