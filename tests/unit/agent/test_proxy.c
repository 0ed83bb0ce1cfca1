/* SPDX-License-Identifier: Apache-2.0 - what programs ask the agent's proxies and DNS for. */
#include "../base/unit.h"

#include "dns.h"
#include "proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct http {
	struct proxy_target target;
	struct proxy_body body;
	char out[PROXY_HEAD_MOST + 64 + 1];
	size_t count;
};

static long http(const char *text, struct http *h)
{
	long n;

	memset(h, 0, sizeof(*h));
	n = proxy_http((const uint8_t *)text, strlen(text), &h->target, &h->body, (uint8_t *)h->out,
		&h->count);
	h->out[h->count] = 0;
	return n;
}

static void test_tunnels(void **state)
{
	static struct http h;
	const char *head = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
	char more[200];

	snprintf(more, sizeof(more), "%s\x16\x03\x01", head);
	assert_int_equal(http(more, &h), strlen(head));
	assert_int_equal(h.body.framing, PROXY_TUNNEL);
	assert_string_equal(h.target.host, "example.org");
	assert_int_equal(h.target.port, 443);
	assert_int_equal(h.count, 0);
	assert_true(http("CONNECT [2001:db8::1]:8443 HTTP/1.0\r\n\r\n", &h) > 0);
	assert_string_equal(h.target.host, "2001:db8::1");
	assert_int_equal(h.target.port, 8443);
}

static void test_urls(void **state)
{
	static struct http h;

	assert_true(http("GET http://example.org/a?b=c HTTP/1.1\r\nHost: example.org\r\n"
			 "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
			 "Connection: keep-alive,\r\n upgrade\r\nAccept: */*\r\n\r\n",
			    &h) > 0);
	assert_int_equal(h.body.framing, PROXY_LENGTH);
	assert_string_equal(h.target.host, "example.org");
	assert_int_equal(h.target.port, 80);
	assert_string_equal(h.out, "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n"
				   "Connection: close\r\n\r\n");
	assert_true(http("POST HTTP://EXAMPLE.org:8080 HTTP/1.0\r\n\r\n", &h) > 0);
	assert_int_equal(h.target.port, 8080);
	assert_string_equal(h.out, "POST / HTTP/1.0\r\nConnection: close\r\n\r\n");
	assert_true(http("GET http://example.org?q HTTP/1.1\r\n\r\n", &h) > 0);
	assert_string_equal(h.out, "GET /?q HTTP/1.1\r\nConnection: close\r\n\r\n");
}

static void test_what_is_no_request(void **state)
{
	static const char *const wrong[] = {"GET / HTTP/1.1\r\n\r\n",
		"GET https://example.org/ HTTP/1.1\r\n\r\n", "GET http:// HTTP/1.1\r\n\r\n",
		"GET http://user@example.org/ HTTP/1.1\r\n\r\n", "\r\n\r\n",
		"GET http://example.org/ HTTP/2.0\r\n\r\n", "GET http://example.org/\r\n\r\n",
		"GET http://exam ple.org/ HTTP/1.1\r\n\r\n",
		"GET http://example.org:0/ HTTP/1.1\r\n\r\n",
		"GET http://example.org:99999/ HTTP/1.1\r\n\r\n",
		"GET http://example.org:/ HTTP/1.1\r\n\r\n",
		"GET http://example.org/\x01 HTTP/1.1\r\n\r\n",
		"GET http://example.org/ HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
		"CONNECT example.org HTTP/1.1\r\n\r\n", "CONNECT :443 HTTP/1.1\r\n\r\n",
		"CONNECT [::1:443 HTTP/1.1\r\n\r\n", "CONNECT ex\"ample:443 HTTP/1.1\r\n\r\n",
		"CONNECT example.org:443 extra HTTP/1.1\r\n\r\n", " http://a.org/ HTTP/1.1\r\n\r\n",
		"G\tT http://a.org/ HTTP/1.1\r\n\r\n"};
	static struct http h;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (http(wrong[i], &h) != -EPROTO)
			fail_msg("\"%s\" is taken for a request", wrong[i]);
	}
}

static void test_pieces_and_limits(void **state)
{
	const char *head = "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n";
	static struct http h;
	char *part, *large = malloc(PROXY_HEAD_MOST + 100);

	for (size_t n = 0; n < strlen(head); n++) {
		part = strndup(head, n);
		assert_int_equal(http(part, &h), 0);
		free(part);
	}
	memset(large, 'a', PROXY_HEAD_MOST + 99);
	memcpy(large, "GET http://example.org/", 23);
	large[PROXY_HEAD_MOST + 99] = 0;
	assert_int_equal(http(large, &h), -E2BIG);
	/* as large as can be, and longer by what is added */
	memcpy(large + PROXY_HEAD_MOST - 13, " HTTP/1.1\r\n\r\n", 14);
	assert_int_equal(http(large, &h), PROXY_HEAD_MOST);
	free(large);
}

/* How much of `text` is the body, taken at once and byte by byte; -EPROTO. */
static long body_of(const char *head, const char *text)
{
	static struct http h;
	struct proxy_body slow;
	char request[300];
	long all, n = 0, one = 1;

	snprintf(request, sizeof(request), "POST http://a.org/ HTTP/1.1\r\n%s\r\n", head);
	assert_int_equal(http(request, &h), strlen(request));
	slow = h.body;
	all = proxy_body_take(&h.body, (const uint8_t *)text, strlen(text));
	while (text[n] && (one = proxy_body_take(&slow, (const uint8_t *)text + n, 1)) == 1)
		n++;
	assert_int_equal(one < 0 ? one : n, all);
	if (all >= 0)
		assert_int_equal(proxy_body_take(&slow, (const uint8_t *)"", 0), 0);
	return all;
}

static void test_what_belongs_to_a_request(void **state)
{
	static const struct {
		const char *head, *own, *next;
	} cases[] = {
		{"", "", "GET http://b.org/ HTTP/1.1\r\n"},
		{"Content-Length: 0\r\n", "", "x"},
		{"content-length:4 \r\nA: b\r\n", "body", "GET http://b.org/ HTTP/1.1\r\n"},
		{"Content-Length: 9\r\n", "begun", ""},
		{"Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n", "GET "},
		{"TRANSFER-ENCODING: \tChunked\r\n",
			"00a;x=\"y\"\r\n0\r\n\r\n0\r\n\r\n\r\n0F \r\n123456789012345\r\n"
			"0\r\nA: b\r\nC: d\r\n\r\n",
			"\r\n"},
		{"Transfer-Encoding: chunked\r\n", "fffffffff\r\nand on and on", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[300];

		snprintf(text, sizeof(text), "%s%s", cases[i].own, cases[i].next);
		assert_int_equal(body_of(cases[i].head, text), strlen(cases[i].own));
	}
}

static void test_what_are_no_chunks(void **state)
{
	static const char *const wrong[] = {"\r\n", "x\r\n", "4\nbody", "4\r\nbodyx",
		"4\r\nbody\rx", "-1\r\n", "0x4\r\nbody", "4\r body", "0\r\nA: b\n\r\n", "0\r\n\rx",
		"1234567890abcdef0\r\n", ";a\r\n", "4;a\nbody"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (body_of("Transfer-Encoding: chunked\r\n", wrong[i]) != -EPROTO)
			fail_msg("\"%s\" is taken for chunks", wrong[i]);
	}
}

static void test_lengths_that_can_be_read_in_two_ways(void **state)
{
	static const char *const wrong[] = {"Content-Length: 4\r\nContent-Length: 4\r\n",
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
		"Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: identity\r\n",
		"Content-Length: +4\r\n", "Content-Length: 4, 4\r\n", "Content-Length:\r\n",
		"Content-Length: 1234567890123456789\r\n", "Content-Length : 4\r\n",
		"Content-Length: 4\r\n 2\r\n", "Content-Length\r\n", ": 4\r\n"};
	static struct http h;
	char request[300];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(request, sizeof(request), "POST http://a.org/ HTTP/1.1\r\n%s\r\n",
			wrong[i]);
		if (http(request, &h) != -EPROTO)
			fail_msg("\"%s\" is taken", wrong[i]);
	}
}

static long socks(const void *bytes, size_t count, struct proxy_target *target)
{
	/* at its end nothing may be read */
	uint8_t *copy = malloc(count ? count : 1);
	long r;

	memcpy(copy, bytes, count);
	r = proxy_socks_request(copy, count, target);
	free(copy);
	return r;
}

static void test_socks(void **state)
{
	static const uint8_t name[] = "\5\1\0\3\13example.org\1\273rest";
	static const uint8_t v4[] = {5, 1, 0, 1, 192, 0, 2, 1, 0, 80};
	static const uint8_t v6[22] = {5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, [19] = 1, [21] = 80};
	struct proxy_target t;
	bool usable = true;

	assert_int_equal(socks(name, sizeof(name) - 1, &t), 18);
	assert_string_equal(t.host, "example.org");
	assert_int_equal(t.port, 443);
	for (size_t n = 0; n < 18; n++)
		assert_int_equal(socks(name, n, &t), 0);
	assert_int_equal(socks(v4, sizeof(v4), &t), sizeof(v4));
	assert_string_equal(t.host, "192.0.2.1");
	assert_int_equal(socks(v6, sizeof(v6), &t), sizeof(v6));
	assert_string_equal(t.host, "2001:db8::1");
	assert_int_equal(proxy_socks_hello((const uint8_t *)"\5\2\2\0", 4, &usable), 4);
	assert_true(usable);
	assert_int_equal(proxy_socks_hello((const uint8_t *)"\5\1\2", 3, &usable), 3);
	assert_false(usable);
	assert_int_equal(proxy_socks_hello((const uint8_t *)"\5\2\2", 3, &usable), 0);
	assert_int_equal(proxy_socks_hello((const uint8_t *)"\4\1\0", 3, &usable), -EPROTO);
}

static void test_what_is_no_socks(void **state)
{
	static const struct {
		const char *bytes;
		size_t count;
		long result;
	} wrong[] = {
		{"\4\1\0\1\1\2\3\4\0\120", 10, -EPROTO},
		{"\5\1\1\1\1\2\3\4\0\120", 10, -EPROTO},
		{"\5\1\0\2\1\2\3\4\0\120", 10, -EPROTO},
		{"\5\1\0\1\1\2\3\4\0\0", 10, -EPROTO},
		{"\5\2\0\1\1\2\3\4\0\120", 10, -EOPNOTSUPP},
		{"\5\3\0\1\1\2\3\4\0\120", 10, -EOPNOTSUPP},
		{"\5\1\0\3\0\0\120", 7, -EPROTO},
		{"\5\1\0\3\3a\0b\0\120", 10, -EPROTO},
		{"\5\1\0\3\3a b\0\120", 10, -EPROTO},
	};
	struct proxy_target t;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(socks(wrong[i].bytes, wrong[i].count, &t), wrong[i].result);
}

/* --- DNS --- */

static const uint8_t question[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
				  "\7eXample\3ORG\0\0\1\0\1";
#define QUESTION (sizeof(question) - 1)

static void test_question_and_answer(void **state)
{
	const uint8_t address[4] = {198, 18, 0, 1};
	uint8_t out[DNS_MESSAGE_MOST];
	struct dns_question q;
	size_t n;

	assert_int_equal(dns_parse(question, QUESTION, &q), 0);
	assert_string_equal(q.name, "example.org");
	assert_int_equal(q.type, DNS_A);
	n = dns_answer(&q, DNS_OK, address, 60, out);
	assert_int_equal(n, QUESTION + 16);
	assert_memory_equal(out, "\x12\x34\x81\x80\0\1\0\1\0\0\0\0", 12);
	/* the question comes back letter by letter, which some check */
	assert_memory_equal(out + 12, question + 12, QUESTION - 12);
	assert_memory_equal(out + QUESTION, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\306\22\0\1", 16);
	n = dns_answer(&q, DNS_NO_NAME, NULL, 60, out);
	assert_int_equal(n, QUESTION);
	assert_memory_equal(out, "\x12\x34\x81\x83\0\1\0\0\0\0\0\0", 12);
}

static void test_what_is_no_question(void **state)
{
	uint8_t bytes[600];
	struct dns_question q;

	for (size_t n = 0; n < QUESTION; n++) {
		uint8_t *copy = malloc(n ? n : 1);

		memcpy(copy, question, n);
		assert_int_equal(dns_parse(copy, n, &q), n < 12 ? -EPROTO : -EBADMSG);
		free(copy);
	}
	memcpy(bytes, question, QUESTION);
	bytes[2] = 0x80; /* an answer */
	assert_int_equal(dns_parse(bytes, QUESTION, &q), -EPROTO);
	bytes[2] = 0x28; /* an update */
	assert_int_equal(dns_parse(bytes, QUESTION, &q), -EBADMSG);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(dns_answer(&q, DNS_MALFORMED, NULL, 0, bytes), 12);
	memcpy(bytes, question, QUESTION);
	bytes[12] = 0xc0; /* a name that points to itself */
	bytes[13] = 12;
	assert_int_equal(dns_parse(bytes, QUESTION, &q), -EBADMSG);
	bytes[5] = 2; /* two questions */
	assert_int_equal(dns_parse(bytes, QUESTION, &q), -EBADMSG);
	/* a name longer than names can be, of right labels */
	memset(bytes, 0, sizeof(bytes));
	bytes[5] = 1;
	for (size_t at = 12; at < 12 + 64 * 5; at += 64) {
		bytes[at] = 63;
		memset(bytes + at + 1, 'a', 63);
	}
	assert_int_equal(dns_parse(bytes, 12 + 64 * 5 + 5, &q), -EBADMSG);
}

static void test_longest_name_and_odd_bytes(void **state)
{
	uint8_t bytes[600] = {[5] = 1}, out[DNS_MESSAGE_MOST];
	const uint8_t address[4] = {1};
	struct dns_question q, long_one;
	size_t at = 12;

	/* 3 labels of 63 and one of 61: 253 letters with the dots */
	for (int i = 0; i < 4; i++) {
		size_t n = i < 3 ? 63 : 61;

		bytes[at] = (uint8_t)n;
		memset(bytes + at + 1, i ? 'a' : '.', n);
		at += n + 1;
	}
	bytes[at + 2] = 1;
	bytes[at + 4] = 1;
	assert_int_equal(dns_parse(bytes, at + 5, &q), 0);
	assert_int_equal(strlen(q.name), DNS_NAME_MOST);
	/* one letter more: once it was written behind the end of the name */
	bytes[12 + 3 * 64] = 62;
	bytes[at + 2] = 0;
	bytes[at + 3] = 1;
	bytes[at + 4] = 0;
	bytes[at + 5] = 1;
	bytes[at] = 'a';
	bytes[at + 1] = 0;
	assert_int_equal(dns_parse(bytes, at + 6, &long_one), -EBADMSG);
	/* a dot within a label does not become one between labels */
	assert_null(strpbrk(q.name + 1, "\n"));
	assert_int_equal(q.name[0], '?');
	assert_true(dns_answer(&q, DNS_OK, address, 1, out) <= sizeof(out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tunnels),
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_what_is_no_request),
		cmocka_unit_test(test_pieces_and_limits),
		cmocka_unit_test(test_what_belongs_to_a_request),
		cmocka_unit_test(test_what_are_no_chunks),
		cmocka_unit_test(test_lengths_that_can_be_read_in_two_ways),
		cmocka_unit_test(test_socks),
		cmocka_unit_test(test_what_is_no_socks),
		cmocka_unit_test(test_question_and_answer),
		cmocka_unit_test(test_what_is_no_question),
		cmocka_unit_test(test_longest_name_and_odd_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
