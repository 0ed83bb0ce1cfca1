/* SPDX-License-Identifier: Apache-2.0 - DNS: a question parsed, an answer made. */
#ifndef SEALMARK_AGENT_DNS_H
#define SEALMARK_AGENT_DNS_H

#include <stddef.h>
#include <stdint.h>

#define DNS_NAME_MOST     253u
#define DNS_MESSAGE_MOST  512u
#define DNS_QUESTION_MOST 260u /* name, type and class as they came */

enum dns_type { DNS_A = 1, DNS_PTR = 12, DNS_AAAA = 28 };
enum dns_code {
	DNS_OK = 0,
	DNS_MALFORMED = 1,
	DNS_FAILED = 2,
	DNS_NO_NAME = 3,
	DNS_NOT_HERE = 4,
	DNS_REFUSED = 5
};

struct dns_question {
	uint16_t id, flags, type;
	char name[DNS_NAME_MOST + 1]; /* in lower case, "" is the root */
	uint8_t bytes[DNS_QUESTION_MOST];
	size_t count;
};

/* 0; -EPROTO for what deserves no answer (no question, an answer); -EBADMSG when DNS_MALFORMED is
 * the answer: `id` is known then, and `count` is 0. */
int dns_parse(const uint8_t *bytes, size_t count, struct dns_question *out);

/* An answer with code, and an address (NULL: none) that holds for ttl_s. Bytes in
 * out[DNS_MESSAGE_MOST]. */
size_t dns_answer(const struct dns_question *q, enum dns_code code, const uint8_t *address,
	uint32_t ttl_s, uint8_t *out);

#endif
