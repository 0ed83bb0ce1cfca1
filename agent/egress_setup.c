/* SPDX-License-Identifier: Apache-2.0 - what the guest's kernel and files must have for egress. */
#include "egress.h"
#include "fs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 64

int egress_listen(uint32_t address, uint16_t port, int type)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(address)}};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (type == SOCK_DGRAM) /* answers come from where the question went */
		setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &(int){1}, sizeof(int));
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
		(type == SOCK_DGRAM || listen(fd, BACKLOG) == 0))
		return fd;
	r = -errno;
	close(fd);
	return r;
}

/* From linux/netlink.h and linux/rtnetlink.h, which musl's headers do not have. */
struct route_request {
	uint32_t size;
	uint16_t kind, flags;
	uint32_t sequence, port;
	uint8_t family, to_bits, from_bits, service, table, protocol, scope, type;
	uint32_t route_flags;
	uint16_t device_size, device_kind;
	uint32_t device;
};
struct route_answer {
	uint32_t size;
	uint16_t kind, flags;
	uint32_t sequence, port;
	int32_t error;
	uint8_t request[sizeof(struct route_request)];
};
struct netlink_address {
	sa_family_t family;
	uint16_t pad;
	uint32_t pid, groups;
};
#define NEW_ROUTE    24
#define REMOVE_ROUTE 25
#define ASK          0x001 /* NLM_F_REQUEST */
#define ACKNOWLEDGE  0x004
#define REPLACE      0x100
#define CREATE       0x400
#define TABLE_LOCAL  255
#define BY_BOOT      3
#define SCOPE_HOST   254
#define TYPE_LOCAL   2
#define DEVICE       4 /* RTA_OIF */
#define LOOPBACK     1 /* its index */

/* local 0.0.0.0/0 dev lo: every address is ours */
int egress_route(bool add)
{
	struct route_request m = {.size = sizeof(m),
		.kind = add ? NEW_ROUTE : REMOVE_ROUTE,
		.flags = ASK | ACKNOWLEDGE | (add ? CREATE | REPLACE : 0),
		.family = AF_INET,
		.table = TABLE_LOCAL,
		.protocol = BY_BOOT,
		.scope = SCOPE_HOST,
		.type = TYPE_LOCAL,
		.device_size = 8,
		.device_kind = DEVICE,
		.device = LOOPBACK};
	struct netlink_address kernel = {.family = AF_NETLINK};
	struct route_answer answer = {0};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0)
		return -errno;
	/* the kernel answers within the call */
	if (sendto(fd, &m, sizeof(m), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 ||
		recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) < 20)
		r = -EIO;
	else
		r = answer.error;
	close(fd);
	return r;
}

/* A new file in the place of the old one, whatever that was: a link, perhaps. */
int egress_resolv_conf(void)
{
	static const char text[] = "nameserver 127.0.0.1\noptions timeout:10 attempts:2\n";
	static const char name[] = ".resolv.conf.sealmark";
	int dir = fs_open(AT_FDCWD, "/etc", O_PATH | O_DIRECTORY, 0, FS_NO_SYMLINKS), fd, r = 0;

	if (dir < 0)
		return dir;
	unlinkat(dir, name, 0);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1 ||
		renameat(dir, name, dir, "resolv.conf"))
		r = errno ? -errno : -EIO;
	if (fd >= 0)
		close(fd);
	close(dir);
	return r;
}
