/* SPDX-License-Identifier: Apache-2.0 - the host's end of a scripted guest, see host.h. */
#include "host.h"

#include "base/path.h"
#include "base/text.h"
#include "engine/engine.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define SILENCE_MS  60

void host_start(struct host *h, const char *script)
{
	struct engine_config config = {0};
	struct engine_plan *plan = calloc(1, sizeof(*plan));
	struct error err = {0};
	int pair[2];

	*h = (struct host){0};
	assert_non_null(plan);
	if (script) {
		int fd;

		text_copy(h->script, sizeof(h->script), "/tmp/sealmark-script-XXXXXX");
		fd = mkstemp(h->script);
		assert_true(fd >= 0);
		assert_int_equal(path_write_fd(fd, script, strlen(script)), 0);
		close(fd);
		config.script = h->script;
	}
	if (engine_fake.plan(&config, NULL, plan, &err))
		fail_msg("%s", err.message);
	assert_int_equal(plan->channel, ENGINE_STREAM);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	h->pid = fork();
	if (h->pid == 0) {
		close(pair[0]);
		_exit(plan->run(&config, pair[1]));
	}
	close(pair[1]);
	h->fd = pair[0];
	free(plan);
}

int host_end(struct host *h)
{
	int st;

	close(h->fd);
	assert_int_equal(waitpid(h->pid, &st, 0), h->pid);
	buffer_fini(&h->in);
	if (h->script[0])
		unlink(h->script);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

int host_next(struct host *h)
{
	struct pollfd p = {.fd = h->fd, .events = POLLIN};

	buffer_consume(&h->in, h->taken);
	h->taken = 0;
	for (;;) {
		uint8_t *room;
		ssize_t n;
		long used = wire_frame_get(
			buffer_bytes(&h->in), buffer_length(&h->in), &h->frame, NULL);

		if (used < 0)
			return -EPROTO;
		if (used > 0) {
			h->taken = (size_t)used;
			assert_int_equal(wire_check(&h->frame), 0);
			return 1;
		}
		if (poll(&p, 1, PATIENCE_MS) != 1)
			fail_msg("the guest says nothing");
		room = buffer_reserve(&h->in, 65536);
		assert_non_null(room);
		n = read(h->fd, room, 65536);
		if (n <= 0)
			return buffer_length(&h->in) ? -EPROTO : 0;
		buffer_commit(&h->in, (size_t)n);
	}
}

bool host_is_silent(struct host *h)
{
	struct pollfd p = {.fd = h->fd, .events = POLLIN};

	return buffer_length(&h->in) == h->taken && poll(&p, 1, SILENCE_MS) == 0;
}

void host_expect(struct host *h, enum wire_type type, uint32_t stream)
{
	assert_int_equal(host_next(h), 1);
	assert_string_equal(wire_type_name(h->frame.type), wire_type_name((uint16_t)type));
	assert_int_equal(h->frame.stream, stream);
}

void host_send(struct host *h, const uint8_t *frame, int size)
{
	assert_true(size > 0);
	assert_int_equal(send(h->fd, frame, (size_t)size, MSG_NOSIGNAL), size);
}

void host_data(struct host *h, uint32_t stream, const void *bytes, size_t count)
{
	uint8_t header[WIRE_HEADER];

	wire_header_put(header, (uint32_t)count, WIRE_DATA, WIRE_STDIN, stream);
	host_send(h, header, sizeof(header));
	if (count)
		host_send(h, bytes, (int)count);
}

void host_end_input(struct host *h, uint32_t stream)
{
	uint8_t header[WIRE_HEADER];

	wire_header_put(header, 0, WIRE_END, WIRE_STDIN, stream);
	host_send(h, header, sizeof(header));
}

void host_credit(struct host *h, uint32_t stream, enum wire_channel channel, uint32_t bytes)
{
	uint8_t frame[32];

	host_send(h, frame,
		wire_put_credit(frame, sizeof(frame), stream, (uint16_t)channel,
			&(struct wire_credit){.bytes = bytes}));
}

void host_exec(struct host *h, uint32_t stream, const char *command, const struct wire_exec *m)
{
	struct wire_exec e = m ? *m : (struct wire_exec){0};
	const char *argv[16];
	char text[256], *rest = text, *word;
	uint8_t frame[1024];
	uint32_t count = 0;

	assert_int_equal(text_copy(text, sizeof(text), command), 0);
	while ((word = strsep(&rest, " ")) && count < 16)
		argv[count++] = word;
	e.cwd = wire_str("/workspace");
	e.argv = (struct wire_strs){.list = argv, .count = count};
	host_send(h, frame, wire_put_exec(frame, sizeof(frame), stream, 0, &e));
}

static void take_data(struct host *h, struct buffer *out)
{
	uint32_t count = h->frame.length, stream = h->frame.stream;
	enum wire_channel channel = h->frame.channel;

	if (out)
		assert_int_equal(buffer_add(&out[channel], h->frame.payload, count), 0);
	host_credit(h, stream, channel, count);
}

void host_finish(struct host *h, uint32_t stream, struct buffer *out, struct wire_exit *exit)
{
	for (;;) {
		assert_int_equal(host_next(h), 1);
		assert_int_equal(h->frame.stream, stream);
		if (h->frame.type == WIRE_DATA)
			take_data(h, out);
		else if (h->frame.type == WIRE_EXIT)
			break;
		else
			assert_true(h->frame.type == WIRE_STARTED || h->frame.type == WIRE_CREDIT);
	}
	assert_int_equal(wire_get_exit(h->frame.payload, h->frame.length, exit), 0);
}

int host_done(struct host *h, uint32_t stream, struct buffer *out)
{
	struct wire_fail f;

	for (;;) {
		assert_int_equal(host_next(h), 1);
		assert_int_equal(h->frame.stream, stream);
		if (h->frame.type == WIRE_DATA)
			take_data(h, out);
		else if (h->frame.type == WIRE_DONE)
			return 0;
		else if (h->frame.type == WIRE_FAIL)
			break;
	}
	assert_int_equal(wire_get_fail(h->frame.payload, h->frame.length, &f), 0);
	return (int)f.error;
}
