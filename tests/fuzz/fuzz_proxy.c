/* SPDX-License-Identifier: Apache-2.0 - fuzzes what programs ask the agent's proxies for: HTTP and
 * SOCKS5, whole and cut.
 *
 * Build and run: tests/fuzz/run 600 proxy
 */
#include "proxy.h"

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

static void check_target(const struct proxy_target *t)
{
	size_t n = strlen(t->host);

	check(n > 0 && n <= PROXY_HOST_MOST && t->port > 0);
	check(strspn(t->host,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == n);
}

/* The same bytes in a place of just their size, so that nothing behind them is read. */
static long http(const uint8_t *bytes, size_t count, struct proxy_target *t,
	struct proxy_body *body, uint8_t *out, size_t *out_count)
{
	uint8_t *copy = malloc(count ? count : 1);
	long n;

	if (count)
		memcpy(copy, bytes, count);
	n = proxy_http(copy, count, t, body, out, out_count);
	free(copy);
	return n;
}

/* All at once is the same as one after the other, and what is over stays so. */
static void fuzz_body(struct proxy_body body, const uint8_t *bytes, size_t count)
{
	struct proxy_body slow = body;
	long all = proxy_body_take(&body, bytes, count), n = 0, one = 1;

	check(all == -EPROTO || (all >= 0 && (size_t)all <= count));
	while ((size_t)n < count && (one = proxy_body_take(&slow, bytes + n, 1)) == 1)
		n++;
	check((one < 0 ? one : n) == all);
	if (all >= 0 && (size_t)all < count)
		check(proxy_body_take(&body, bytes + all, count - (size_t)all) == 0);
}

static void fuzz_http(const uint8_t *bytes, size_t count)
{
	uint8_t *out = malloc(PROXY_HEAD_MOST + 64), *again = malloc(PROXY_HEAD_MOST + 64);
	struct proxy_target t, u;
	size_t out_count = 0, n2 = 0;
	struct proxy_body body = {0}, body2 = {0};
	long n = http(bytes, count, &t, &body, out, &out_count);
	bool tunnel = body.framing == PROXY_TUNNEL;

	check(n == 0 || n == -EPROTO || n == -E2BIG || (n > 0 && (size_t)n <= count));
	check(n != -E2BIG || count >= PROXY_HEAD_MOST);
	if (n > 0) {
		check_target(&t);
		check(tunnel ? out_count == 0 : out_count > 0 && out_count <= PROXY_HEAD_MOST + 64);
		/* what goes out ends as a head does, and says that the connection ends */
		check(tunnel ||
			(out_count > 23 && memcmp(out + out_count - 23,
						   "\r\nConnection: close\r\n\r\n", 23) == 0));
		/* what follows the head changes nothing, and a byte less is not enough */
		check(http(bytes, (size_t)n, &u, &body2, again, &n2) == n);
		check(memcmp(&body, &body2, sizeof(body)) == 0 && n2 == out_count &&
			memcmp(out, again, n2) == 0);
		check(http(bytes, (size_t)n - 1, &u, &body2, again, &n2) == 0);
		fuzz_body(body, bytes + n, count - (size_t)n);
	}
	free(out);
	free(again);
}

static void fuzz_socks(const uint8_t *bytes, size_t count)
{
	uint8_t *copy = malloc(count ? count : 1);
	struct proxy_target t;
	bool usable;
	long n;

	if (count)
		memcpy(copy, bytes, count);
	n = proxy_socks_hello(copy, count, &usable);
	check(n == 0 || n == -EPROTO || (n > 0 && (size_t)n <= count));
	n = proxy_socks_request(copy, count, &t);
	check(n == 0 || n == -EPROTO || n == -EOPNOTSUPP || (n > 0 && (size_t)n <= count));
	if (n > 0) {
		check_target(&t);
		check(proxy_socks_request(copy, (size_t)n - 1, &t) == 0);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	fuzz_http(bytes, count);
	fuzz_body((struct proxy_body){.framing = PROXY_CHUNKS}, bytes, count);
	fuzz_socks(bytes, count);
	return 0;
}
