/* SPDX-License-Identifier: Apache-2.0 - names that programs of the guest look up. */
#include "egress_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define TTL_S 60

static void answer(struct agent *a, const struct query *q, enum dns_code code, uint32_t address)
{
	uint8_t bytes[2 + DNS_MESSAGE_MOST], ip[4];
	size_t n;
	struct connection *c = q->connection;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {0};
	struct iovec iov = {bytes + 2, 0};
	struct msghdr m = {.msg_name = (void *)(uintptr_t)&q->peer,
		.msg_namelen = sizeof(q->peer),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	struct in_pktinfo from = {.ipi_spec_dst = q->local};

	for (int i = 0; i < 4; i++)
		ip[i] = (uint8_t)(address >> (24 - 8 * i));
	n = dns_answer(&q->question, code, address ? ip : NULL, TTL_S, bytes + 2);
	if (c) {
		if (c->generation != q->generation || c->state != HEAD)
			return;
		c->asking = false;
		c->readable = true;
		bytes[0] = (uint8_t)(n >> 8);
		bytes[1] = (uint8_t)n;
		if (connection_push(c, bytes, n + 2))
			connection_drop(a, c, ECONNRESET);
		return;
	}
	iov.iov_len = n;
	h->cmsg_level = IPPROTO_IP;
	h->cmsg_type = IP_PKTINFO;
	h->cmsg_len = CMSG_LEN(sizeof(from));
	memcpy(CMSG_DATA(h), &from, sizeof(from));
	if (sendmsg(egress.dns_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* as a lost packet */
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && strcmp(name + n - k, end) == 0;
}

/* What is known without the host; false: it must be asked. */
static bool answer_here(struct agent *a, const struct query *q)
{
	const char *name = q->question.name;
	bool wants_address = q->question.type == DNS_A;

	if (strcmp(name, "localhost") == 0 || ends_with(name, ".localhost") ||
		strcmp(name, "sandbox") == 0)
		answer(a, q, DNS_OK, wants_address ? INADDR_LOOPBACK : 0);
	else if (ends_with(name, ".arpa") || strchr(name, '?') || !name[0])
		answer(a, q, DNS_NO_NAME, 0);
	else if (!wants_address)
		answer(a, q, DNS_OK, 0); /* it may exist, and has no such record */
	else
		return false;
	return true;
}

static struct query *free_query(void)
{
	for (size_t i = 0; i < EGRESS_QUERIES; i++)
		if (!egress.queries[i].id)
			return &egress.queries[i];
	return NULL;
}

void query_begin(struct agent *a, const struct query *from, const uint8_t *bytes, size_t count)
{
	struct query q = *from, *place = free_query();
	struct wire_net_resolve m;
	int r = dns_parse(bytes, count, &q.question);

	if (r == -EPROTO) {
		if (q.connection)
			connection_drop(a, q.connection, 0);
		return;
	}
	if (r)
		return answer(a, &q, DNS_MALFORMED, 0);
	if (answer_here(a, &q))
		return;
	if (!place)
		return answer(a, &q, DNS_FAILED, 0);
	*place = q;
	place->id = egress_fresh_id();
	m = (struct wire_net_resolve){.name = wire_str(place->question.name)};
	stream_commit(a, wire_put_net_resolve(stream_frame(a), LINK_RESERVE / 2, place->id, 0, &m));
}

int query_end(struct agent *a, uint32_t id, uint32_t error)
{
	for (size_t i = 0; i < EGRESS_QUERIES; i++) {
		struct query *q = &egress.queries[i], copy = *q;

		if (q->id != id)
			continue;
		q->id = 0;
		if (!error)
			answer(a, &copy, DNS_OK, egress_name_address(copy.question.name));
		else /* what is denied is not there, so that nobody waits or asks again */
			answer(a, &copy, error == EAGAIN || error == EIO ? DNS_FAILED : DNS_NO_NAME,
				0);
		return 0;
	}
	return -EPROTO;
}

bool query_datagram(struct agent *a, int fd)
{
	uint8_t bytes[DNS_MESSAGE_MOST];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control;
	struct query q = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr m = {.msg_name = &q.peer,
		.msg_namelen = sizeof(q.peer),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct in_pktinfo info;
	struct cmsghdr *h;
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR;
	/* the only one that was asked for */
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO) {
		memcpy(&info, CMSG_DATA(h), sizeof(info));
		q.local = info.ipi_addr;
	}
	query_begin(a, &q, bytes, (size_t)n);
	return true;
}
