/* SPDX-License-Identifier: Apache-2.0 - the connector: looks names up, checks, connects. */
#include "monitor/egress.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * A few threads, each of which takes the next packet from the one socket, does what it asks for in
 * straight-line blocking code, and answers. As many lookups and connects are under way at once as
 * there are threads; a guest that asks for more waits for its own. The threads are made when there
 * is internet for the first time.
 */
#define WORKERS       16
#define STACK_BYTES   (256u << 10)
#define ADDRESSES     16    /* of one name that are tried */
#define OWN_ADDRESSES 256   /* of this host, that are not refused anyway */
#define CONNECT_MS    15000 /* for all addresses of a name together */
#define EACH_MS       6000

struct connector {
	int fd;
	pthread_rwlock_t lock;
	struct egress_policy *policy;
	bool working;
};

/* --- answers --- */

static void refuse(struct egress_reply *reply, enum egress_verdict verdict)
{
	reply->error = EACCES;
	reply->refused = (int32_t)verdict;
	text_copy(reply->why, sizeof(reply->why), egress_verdict_text(verdict));
}

static void fail(struct egress_reply *reply, int error, const char *why)
{
	reply->error = error;
	text_copy(reply->why, sizeof(reply->why), why);
}

static void send_reply(struct connector *c, const struct egress_reply *reply, int passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)reply, sizeof(*reply)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *h;

	if (passed >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &passed, sizeof(int));
	}
	while (sendmsg(c->fd, &m, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			_exit(0); /* the monitor is gone */
	}
}

/* --- addresses --- */

static socklen_t to_sockaddr(
	const struct egress_address *a, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	*out = (struct sockaddr_storage){0};
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)a->bytes)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, a->bytes + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, a->bytes, 16);
	return sizeof(*v6);
}

/* What this host has on its interfaces now; -1 when that cannot be known. */
static int own_addresses(struct egress_address *out)
{
	struct ifaddrs *list;
	int n;

	if (getifaddrs(&list))
		return -1;
	n = egress_own_addresses(list, out, OWN_ADDRESSES);
	freeifaddrs(list);
	return n;
}

/* --- looking up --- */

static int lookup_error(int gai)
{
	switch (gai) {
	case EAI_NONAME:
	case EAI_NODATA:
		return ENOENT;
	case EAI_AGAIN:
		return EAGAIN;
	default:
		return EIO;
	}
}

/* The addresses of a name, in the order to try them; a positive errno when there are none. */
static int lookup(const char *name, struct egress_address *out, size_t *count)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found;
	int r;

	*count = 0;
	r = getaddrinfo(name, NULL, &hints, &found);
	if (r)
		return lookup_error(r);
	for (struct addrinfo *a = found; a && *count < ADDRESSES; a = a->ai_next) {
		if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
			egress_address_from(a->ai_addr, &out[(*count)++]);
	}
	freeaddrinfo(found);
	return *count ? 0 : ENOENT;
}

struct target {
	char name[EGRESS_NAME_MOST + 1]; /* in normal form; "": an address was asked for */
	uint16_t port;                   /* 0: only looked up */
	struct egress_address addresses[ADDRESSES];
	size_t count;
};

static enum egress_verdict verdict_of_name(struct connector *c, const struct target *t)
{
	enum egress_verdict v;

	pthread_rwlock_rdlock(&c->lock);
	v = egress_check_name(c->policy, t->name, t->port);
	pthread_rwlock_unlock(&c->lock);
	return v;
}

/* Leave only the addresses that may be connected to; the last refusal when none is left. */
static enum egress_verdict keep_allowed(struct connector *c, struct target *t)
{
	struct egress_address own[OWN_ADDRESSES];
	int own_count = own_addresses(own);
	enum egress_verdict v = EGRESS_NOT_PUBLIC;
	size_t kept = 0;

	if (own_count < 0) {
		t->count = 0;
		return EGRESS_NOT_PUBLIC;
	}
	pthread_rwlock_rdlock(&c->lock);
	for (size_t i = 0; i < t->count; i++) {
		enum egress_verdict one =
			egress_check_address(c->policy, t->name[0] ? t->name : NULL,
				&t->addresses[i], t->port, own, (size_t)own_count);

		if (one == EGRESS_ALLOWED)
			t->addresses[kept++] = t->addresses[i];
		else
			v = one;
	}
	pthread_rwlock_unlock(&c->lock);
	t->count = kept;
	return kept ? EGRESS_ALLOWED : v;
}

/* The addresses that a request may be connected to; false: the reply says why not. */
static bool find(struct connector *c, const struct egress_ask *ask, struct target *t,
	struct egress_reply *reply)
{
	enum egress_verdict v;
	int r;

	t->port = ask->port;
	if (egress_address_parse(ask->host, &t->addresses[0])) {
		t->count = 1;
		t->name[0] = 0;
	} else if (egress_name_normal(ask->host, t->name)) {
		v = verdict_of_name(c, t);
		if (v != EGRESS_ALLOWED) {
			refuse(reply, v);
			return false;
		}
		r = lookup(t->name, t->addresses, &t->count);
		if (r) {
			fail(reply, r,
				r == ENOENT ? "no such name" : "the name cannot be looked up now");
			return false;
		}
	} else {
		fail(reply, EINVAL, "not a name or an address");
		return false;
	}
	v = keep_allowed(c, t);
	if (v != EGRESS_ALLOWED)
		refuse(reply, v);
	return v == EGRESS_ALLOWED;
}

/* --- connecting --- */

/* A connected descriptor, or a negative errno. */
static int connect_one(const struct egress_address *a, uint16_t port, int64_t deadline_ms)
{
	struct sockaddr_storage address;
	socklen_t size = to_sockaddr(a, port, &address), length = sizeof(int);
	cleanup_close int fd =
		socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	struct pollfd p = {fd, POLLOUT, 0};
	int error = 0, n;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
	if (connect(fd, (struct sockaddr *)&address, size) == 0)
		return steal_fd(&fd);
	if (errno != EINPROGRESS)
		return -errno;
	do {
		n = poll(&p, 1, clock_poll_ms(deadline_ms));
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -errno;
	return error ? -error : steal_fd(&fd);
}

static int open_connection(
	struct connector *c, const struct egress_ask *ask, struct egress_reply *reply)
{
	int64_t end = clock_deadline_ms(CONNECT_MS), each;
	struct target t = {0};
	int fd = -EHOSTUNREACH;

	if (!find(c, ask, &t, reply))
		return -1;
	for (size_t i = 0; i < t.count && clock_ms() < end; i++) {
		each = clock_deadline_ms(EACH_MS);
		fd = connect_one(&t.addresses[i], t.port, each < end ? each : end);
		if (fd >= 0) {
			reply->address = t.addresses[i];
			return fd;
		}
	}
	fail(reply, -fd, strerror(-fd));
	return -1;
}

/* --- the work --- */

static void take_policy(struct connector *c, const char *text)
{
	struct egress_policy *policy = NULL;
	struct error err = {0};

	/* one that cannot be read is none: nothing is reachable */
	if (egress_policy_new(text, &policy, &err))
		log_error("network policy: %s", error_message(&err));
	pthread_rwlock_wrlock(&c->lock);
	egress_policy_free(c->policy);
	c->policy = policy;
	pthread_rwlock_unlock(&c->lock);
}

struct packet {
	struct egress_ask ask;
	char policy[EGRESS_POLICY_MOST + 1];
};

static void handle(struct connector *c, struct packet *p, size_t size)
{
	struct egress_reply reply = {.kind = p->ask.kind, .id = p->ask.id};
	struct target t = {0};
	int fd = -1;

	if (size < sizeof(p->ask))
		return;
	p->ask.host[EGRESS_NAME_MOST] = 0;
	switch ((enum egress_ask_kind)p->ask.kind) {
	case EGRESS_ASK_POLICY:
		((char *)p)[size] = 0;
		take_policy(c, p->policy);
		return;
	case EGRESS_ASK_OPEN:
		if (p->ask.port)
			fd = open_connection(c, &p->ask, &reply);
		else
			fail(&reply, EINVAL, "no port");
		break;
	case EGRESS_ASK_RESOLVE:
		p->ask.port = 0;
		find(c, &p->ask, &t, &reply);
		break;
	default:
		return;
	}
	send_reply(c, &reply, fd);
	close_fd(&fd);
}

static void *work(void *context);

static void start_workers(struct connector *c)
{
	pthread_attr_t attributes;
	pthread_t thread;

	c->working = true;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int i = 1; i < WORKERS; i++) {
		if (pthread_create(&thread, &attributes, work, c))
			break; /* the others do it, more slowly */
	}
	pthread_attr_destroy(&attributes);
}

static void *work(void *context)
{
	struct connector *c = context;
	struct packet *p = malloc(sizeof(*p));

	while (p) {
		ssize_t n = recv(c->fd, p, sizeof(*p) - 1, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0); /* the monitor is gone */
		handle(c, p, (size_t)n);
		if (!c->working && c->policy && c->policy->internet)
			start_workers(c); /* this is the only thread */
	}
	_exit(1);
}

_Noreturn void egress_connector_run(int fd, const char *policy, uid_t uid, gid_t gid)
{
	static struct connector connector;
	struct connector *c = &connector;
	struct error err = {0};
	sigset_t none;

	c->fd = fd;
	prctl(PR_SET_NAME, "sealmark-egress");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	close_range(3, (unsigned)fd - 1, 0);
	close_range((unsigned)fd + 1, UINT_MAX, 0);
	mallopt(M_ARENA_MAX, 2);
	setenv("LOCALDOMAIN", "",
		1); /* names are whole: the host's search list has no part in it */
	pthread_rwlock_init(&c->lock, NULL);
	if (jail_egress_drop(uid, gid, &err) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
		jail_egress_seccomp(&err)) {
		log_error("connector: %s", error_message(&err));
		_exit(1);
	}
	take_policy(c, policy);
	if (c->policy && c->policy->internet)
		start_workers(c);
	work(c);
	_exit(0);
}
