/* SPDX-License-Identifier: Apache-2.0 - the host's side of an agent under test. */
#ifndef TEST_AGENT_CLIENT_H
#define TEST_AGENT_CLIENT_H

#include "base/buffer.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The agent runs in a child process on one end of a socket pair, as it would on its vsock
 * connection, with nothing mounted and no cgroups. Every wait has a limit; a test that meets it
 * fails.
 */
struct client {
	int fd;
	pid_t pid;
	uint32_t next_id;
	size_t in_start, in_end;
	uint8_t in[2 * WIRE_FRAME_MAX];
	uint8_t out[WIRE_FRAME_MAX];
	char dir[64]; /* a fresh directory for the test, removed at the end */
};

void client_start(struct client *c);
/* Close the connection; the agent must end by itself with this status. */
void client_stop(struct client *c, int status);
/* The agent must close the connection now, for a breach of the protocol. */
void client_expect_breach(struct client *c);

/* Send what wire_put_… has put into c->out. */
void client_send(struct client *c, int size);
void client_send_raw(struct client *c, const void *bytes, size_t count);
void client_data(struct client *c, uint32_t id, const void *bytes, size_t count);
void client_end(struct client *c, uint32_t id);
void client_credit(struct client *c, uint32_t id, unsigned channel, uint32_t bytes);
void client_kill(struct client *c, uint32_t id, uint32_t reason);
uint32_t client_id(struct client *c);

/* The next frame; valid until the next call. */
void client_frame(struct client *c, struct wire_frame *frame);
/* A PING on a stream of its own, and its PONG as the next frame but those of `except`. Bytes of
 * DATA of that stream are counted. */
size_t client_ping(struct client *c, uint32_t except);

/* How a stream has ended. */
struct outcome {
	uint16_t type;
	int error;
	char message[WIRE_REASON_MAX + 1];
	struct wire_exit exit;
	struct buffer bytes[WIRE_CHANNELS];
	struct buffer entries; /* "type path>target\n" each */
	uint32_t entry_count, entry_mode;
};
void outcome_fini(struct outcome *o);
/* Read until the stream's final message, giving credit. */
void client_finish(struct client *c, uint32_t id, struct outcome *o);

/* Whole operations as the user who runs the tests. */
struct exec_options {
	const char *const *argv;
	const char *const *env;
	const char *cwd;
	uint32_t flags;
	uint64_t cpu_us, wall_us, output_bytes, file_bytes;
	uint32_t cols, rows;
};
uint32_t client_exec(struct client *c, const struct exec_options *o);
uint32_t client_shell(struct client *c, const char *script, struct exec_options o);
void client_write(
	struct client *c, const char *path, const void *bytes, size_t count, struct outcome *o);
void client_tar(struct client *c, const char *path, const void *bytes, size_t count, uint64_t limit,
	struct outcome *o);

/* dir/name, in a static buffer that holds the last four. */
const char *client_path(const struct client *c, const char *name);

#define assert_done(o) assert_string_equal((o)->type == WIRE_DONE ? "" : (o)->message, "")

#endif
