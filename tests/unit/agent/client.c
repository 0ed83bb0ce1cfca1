/* SPDX-License-Identifier: Apache-2.0 - the host's side of an agent under test. */
#include "client.h"
#include "agent.h"
#include "base/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000

static struct agent agent;

/* An init begins with nothing ignored. A test may not: nohup leaves SIGHUP ignored, a background
 * job SIGINT and SIGQUIT, and GNU make signals 32 and 33, which the C library refuses to touch.
 * Handlers (of sanitizers) stay. */
static void ignore_nothing(void)
{
	static const unsigned long usual[4]; /* as the kernel's struct sigaction: SIG_DFL */
	unsigned long now[4];

	for (int number = 1; number <= 64; number++) {
		if (syscall(SYS_rt_sigaction, number, NULL, now, 8) == 0 &&
			now[0] == (unsigned long)(uintptr_t)SIG_IGN)
			syscall(SYS_rt_sigaction, number, usual, NULL, 8);
	}
}

void client_start(struct client *c)
{
	int ends[2];

	memset(c, 0, sizeof(*c));
	snprintf(c->dir, sizeof(c->dir), "/tmp/sealmark-agent-XXXXXX");
	assert_non_null(mkdtemp(c->dir));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		close(ends[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ignore_nothing();
		agent_init(&agent);
		_exit(agent_serve(&agent, ends[1]) ? 1 : 0);
	}
	close(ends[1]);
	c->fd = ends[0];
	c->next_id = 1;
	struct wire_frame hello;

	client_frame(c, &hello);
	assert_int_equal(hello.type, WIRE_HELLO);
}

static void reap(struct client *c, int status)
{
	int got;

	assert_int_equal(waitpid(c->pid, &got, 0), c->pid);
	assert_true(WIFEXITED(got));
	assert_int_equal(WEXITSTATUS(got), status);
	c->pid = 0;
	assert_int_equal(path_remove_tree(AT_FDCWD, c->dir, NULL), 0);
}

void client_stop(struct client *c, int status)
{
	close(c->fd);
	reap(c, status);
}

void client_expect_breach(struct client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	uint8_t byte[4096];
	ssize_t n;

	do {
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		n = recv(c->fd, byte, sizeof(byte), 0);
	} while (n > 0);
	client_stop(c, 1);
}

void client_send_raw(struct client *c, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	while (count) {
		struct pollfd wait = {.fd = c->fd, .events = POLLOUT};
		ssize_t n = send(c->fd, p, count, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
			continue;
		}
		if (n < 0) /* a breach was noticed; the test sees the end */
			return;
		p += n;
		count -= (size_t)n;
	}
}

void client_send(struct client *c, int size)
{
	assert_true(size > 0);
	client_send_raw(c, c->out, (size_t)size);
}

void client_data(struct client *c, uint32_t id, const void *bytes, size_t count)
{
	assert_true(count <= WIRE_PAYLOAD_MAX);
	wire_header_put(c->out, (uint32_t)count, WIRE_DATA, WIRE_STDIN, id);
	if (count)
		memcpy(c->out + WIRE_HEADER, bytes, count);
	client_send(c, (int)(WIRE_HEADER + count));
}

void client_end(struct client *c, uint32_t id)
{
	struct wire_end m = {0};

	client_send(c, wire_put_end(c->out, sizeof(c->out), id, WIRE_STDIN, &m));
}

void client_credit(struct client *c, uint32_t id, unsigned channel, uint32_t bytes)
{
	struct wire_credit m = {.bytes = bytes};

	client_send(c, wire_put_credit(c->out, sizeof(c->out), id, (uint16_t)(channel & 3u), &m));
}

void client_kill(struct client *c, uint32_t id, uint32_t reason)
{
	struct wire_kill m = {.reason = reason};

	client_send(c, wire_put_kill(c->out, sizeof(c->out), id, 0, &m));
}

uint32_t client_id(struct client *c)
{
	return ++c->next_id;
}

void client_frame(struct client *c, struct wire_frame *frame)
{
	for (;;) {
		struct pollfd wait = {.fd = c->fd, .events = POLLIN};
		long used =
			wire_frame_get(c->in + c->in_start, c->in_end - c->in_start, frame, NULL);
		ssize_t n;

		assert_true(used >= 0);
		if (used > 0) {
			c->in_start += (size_t)used;
			assert_int_equal(wire_check(frame), 0);
			assert_true(wire_type_direction(frame->type) & WIRE_TO_HOST);
			return;
		}
		memmove(c->in, c->in + c->in_start, c->in_end - c->in_start);
		c->in_end -= c->in_start;
		c->in_start = 0;
		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		n = recv(c->fd, c->in + c->in_end, sizeof(c->in) - c->in_end, 0);
		assert_true(n > 0);
		c->in_end += (size_t)n;
	}
}

size_t client_ping(struct client *c, uint32_t except)
{
	struct wire_ping m = {.token = 0x1234567890abcdefu + c->next_id};
	uint32_t id = client_id(c);
	struct wire_frame f;
	size_t count = 0;

	client_send(c, wire_put_ping(c->out, sizeof(c->out), id, 0, &m));
	for (;;) {
		struct wire_pong pong;

		client_frame(c, &f);
		if (f.stream == except) {
			count += f.type == WIRE_DATA ? f.length : 0;
			continue;
		}
		assert_int_equal(f.type, WIRE_PONG);
		assert_int_equal(f.stream, id);
		assert_int_equal(wire_get_pong(f.payload, f.length, &pong), 0);
		assert_true(pong.token == m.token);
		return count;
	}
}

void outcome_fini(struct outcome *o)
{
	for (unsigned i = 0; i < WIRE_CHANNELS; i++)
		buffer_fini(&o->bytes[i]);
	buffer_fini(&o->entries);
}

static void note_entry(const struct wire_frame *f, struct outcome *o)
{
	static const char *const types[] = {"?", "file", "dir", "link", "other"};
	char line[2 * WIRE_PATH_MAX + 64];
	struct wire_entry m;

	assert_int_equal(wire_get_entry(f->payload, f->length, &m), 0);
	assert_true(m.type <= WIRE_FILE_OTHER);
	snprintf(line, sizeof(line), "%s %s>%s\n", types[m.type], m.path.text, m.target.text);
	assert_int_equal(buffer_add(&o->entries, line, strlen(line)), 0);
	o->entry_count++;
	o->entry_mode = m.mode;
}

static void note_final(const struct wire_frame *f, struct outcome *o)
{
	struct wire_fail fail;

	o->type = f->type;
	if (f->type == WIRE_FAIL) {
		assert_int_equal(wire_get_fail(f->payload, f->length, &fail), 0);
		o->error = (int)fail.error;
		snprintf(o->message, sizeof(o->message), "%s", fail.message.text);
		assert_true(fail.message.count <= WIRE_REASON_MAX);
	} else if (f->type == WIRE_EXIT) {
		assert_int_equal(wire_get_exit(f->payload, f->length, &o->exit), 0);
	}
	for (unsigned i = 0; i < WIRE_CHANNELS; i++)
		buffer_add(&o->bytes[i], "", 1); /* so that text can be compared */
	buffer_add(&o->entries, "", 1);
}

void client_finish(struct client *c, uint32_t id, struct outcome *o)
{
	struct wire_frame f;

	memset(o, 0, sizeof(*o));
	for (;;) {
		client_frame(c, &f);
		if (f.stream != id)
			continue;
		if (f.type == WIRE_DATA) {
			assert_int_equal(buffer_add(&o->bytes[f.channel], f.payload, f.length), 0);
			client_credit(c, id, f.channel, f.length);
		} else if (f.type == WIRE_ENTRY) {
			note_entry(&f, o);
		} else if (wire_is_final(f.type)) {
			note_final(&f, o);
			return;
		}
	}
}

static struct wire_strs strings(const char *const *list)
{
	struct wire_strs s = {.list = list};

	while (list && list[s.count])
		s.count++;
	return s;
}

uint32_t client_exec(struct client *c, const struct exec_options *o)
{
	static const char *const plain[] = {"PATH=/usr/bin:/bin", NULL};
	struct wire_exec m = {.flags = o->flags,
		.uid = geteuid(),
		.gid = getegid(),
		.cpu_us = o->cpu_us,
		.wall_us = o->wall_us,
		.output_bytes = o->output_bytes,
		.file_bytes = o->file_bytes,
		.cols = o->cols,
		.rows = o->rows,
		.cwd = wire_str(o->cwd ? o->cwd : c->dir),
		.argv = strings(o->argv),
		.env = strings(o->env ? o->env : plain)};
	uint32_t id = client_id(c);

	client_send(c, wire_put_exec(c->out, sizeof(c->out), id, 0, &m));
	return id;
}

uint32_t client_shell(struct client *c, const char *script, struct exec_options o)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	o.argv = argv;
	return client_exec(c, &o);
}

/* Send bytes within the window; stops at a final message, which stays to be read. */
static void send_all(struct client *c, uint32_t id, const uint8_t *bytes, size_t count)
{
	uint32_t window = WIRE_WINDOW;

	while (count) {
		size_t n = count < 100000 ? count : 100000;
		struct wire_credit credit;
		struct wire_frame f;

		if (n <= window) {
			client_data(c, id, bytes, n);
			window -= (uint32_t)n;
			bytes += n;
			count -= n;
			continue;
		}
		client_frame(c, &f);
		if (f.type != WIRE_CREDIT) {
			c->in_start -= WIRE_HEADER + f.length;
			return;
		}
		assert_int_equal(wire_get_credit(f.payload, f.length, &credit), 0);
		assert_true(credit.bytes >= WIRE_CREDIT_STEP);
		window += credit.bytes;
	}
	client_end(c, id);
}

void client_write(
	struct client *c, const char *path, const void *bytes, size_t count, struct outcome *o)
{
	struct wire_file_write m = {.path = wire_str(path),
		.mode = 0640,
		.uid = geteuid(),
		.gid = getegid(),
		.flags = WIRE_PARENTS};
	uint32_t id = client_id(c);

	client_send(c, wire_put_file_write(c->out, sizeof(c->out), id, 0, &m));
	send_all(c, id, bytes, count);
	client_finish(c, id, o);
}

void client_tar(struct client *c, const char *path, const void *bytes, size_t count, uint64_t limit,
	struct outcome *o)
{
	struct wire_tar_in m = {.path = wire_str(path),
		.uid = geteuid(),
		.gid = getegid(),
		.flags = WIRE_PARENTS,
		.limit_bytes = limit};
	uint32_t id = client_id(c);

	client_send(c, wire_put_tar_in(c->out, sizeof(c->out), id, 0, &m));
	send_all(c, id, bytes, count);
	client_finish(c, id, o);
}

const char *client_path(const struct client *c, const char *name)
{
	static char paths[4][WIRE_PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, WIRE_PATH_MAX, "%s/%s", c->dir, name);
	return path;
}
