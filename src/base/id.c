/* SPDX-License-Identifier: Apache-2.0 - random identifiers, see id.h. */
#include "base/id.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void id_random(void *out, size_t count)
{
	uint8_t *p = out;

	while (count) {
		ssize_t n = getrandom(p, count, 0);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			abort();
		}
		p += n;
		count -= (size_t)n;
	}
}

void id_hex(char *out, const void *bytes, size_t count)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = bytes;

	for (size_t i = 0; i < count; i++) {
		*out++ = digits[p[i] >> 4];
		*out++ = digits[p[i] & 15];
	}
	*out = 0;
}

void id_uuid(char *out)
{
	uint8_t b[16];
	char hex[33];

	id_random(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	id_hex(hex, b, sizeof(b));
	for (size_t i = 0; i < 32; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			*out++ = '-';
		*out++ = hex[i];
	}
	*out = 0;
}

bool id_is_like(const char *text)
{
	return strlen(text) == ID_SIZE - 1 && strspn(text, "0123456789abcdef-") == ID_SIZE - 1;
}
