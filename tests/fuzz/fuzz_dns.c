/* SPDX-License-Identifier: Apache-2.0 - fuzzes the agent's DNS: what is a question has an answer
 * that repeats it.
 *
 * Build and run: tests/fuzz/run 600 dns
 */
#include "dns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static const uint8_t address[4] = {198, 18, 0, 1};
	uint8_t *copy = malloc(count ? count : 1), *out = malloc(DNS_MESSAGE_MOST);
	struct dns_question q;
	size_t n;
	int r;

	if (count)
		memcpy(copy, bytes, count);
	r = dns_parse(copy, count, &q);
	check(r == 0 || r == -EPROTO || r == -EBADMSG);
	if (r != -EPROTO) {
		check(count >= 12 && strlen(q.name) <= DNS_NAME_MOST);
		check(r ? q.count == 0 : q.count >= 5 && 12 + q.count <= count);
		n = dns_answer(&q, r ? DNS_MALFORMED : DNS_OK, r ? NULL : address, 60, out);
		check(n == 12 + q.count + (r ? 0 : 16));
		check(memcmp(out, bytes, 2) == 0 && out[2] & 0x80);
		check(r || memcmp(out + 12, bytes + 12, q.count) == 0);
	}
	for (const char *c = q.name; r == 0 && *c; c++)
		check(strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.?", *c) != NULL);
	free(copy);
	free(out);
	return 0;
}
