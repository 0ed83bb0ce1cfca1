/* SPDX-License-Identifier: Apache-2.0 - the connection to the host: two buffers and a socket. */
#ifndef SEALMARK_AGENT_LINK_H
#define SEALMARK_AGENT_LINK_H

#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_IN_SIZE  (WIRE_FRAME_MAX + (64u << 10))
#define LINK_OUT_SIZE (384u << 10)
/* Kept free of DATA, so that a piece of work can always answer: more than the largest frame of
 * control (an ENTRY with two paths), twice. */
#define LINK_RESERVE  (24u << 10)
/* Largest DATA this side makes. */
#define LINK_PIECE    (128u << 10)

/* Neither buffer is touched beyond what is used, so most of it costs no memory. */
struct link {
	int fd;
	bool readable; /* there may be bytes to receive */
	bool writable; /* the socket may take bytes */
	bool closed;
	uint32_t watched; /* events that the epoll set reports */
	size_t in_start, in_end;
	size_t out_start, out_end;
	uint8_t in[LINK_IN_SIZE];
	uint8_t out[LINK_OUT_SIZE];
};

void link_init(struct link *l, int fd);
/* Receive once; false when nothing came. Sets closed at the end of the connection. */
bool link_receive(struct link *l);
/* The next whole frame; 1, 0 when there is none yet, -EPROTO. Valid until link_receive(). */
int link_frame(struct link *l, struct wire_frame *frame);
/* Send as much as the socket takes. */
void link_send(struct link *l);

/* Space for `size` bytes that leaves `reserve` free, or NULL. Then say how many were used. */
uint8_t *link_claim(struct link *l, size_t size, size_t reserve);
void link_commit(struct link *l, size_t size);
size_t link_room(const struct link *l);

#endif
