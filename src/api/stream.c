/* SPDX-License-Identifier: Apache-2.0 - answers that are streams: a thread, a pipe, the reader's
 * pace. */
#include "api/internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#define BLOCK 65536

struct stream {
	struct stream_source source;
	pthread_t thread;
	int read_fd, write_fd;
	int client_fd; /* the connection's, not ours */
	struct api_server *server;
	struct MHD_Connection *connection;
	struct standing standing;
	atomic_bool whole; /* set before the pipe is closed */
};

static void *produce(void *context)
{
	struct stream *s = context;

	s->whole = s->source.produce(s->source.context, s->write_fd);
	close_fd(&s->write_fd);
	return NULL;
}

/* The next bytes for the client. Whoever went away is noticed here, also while nothing comes. */
static ssize_t pass_on(void *context, uint64_t at, char *out, size_t most)
{
	struct stream *s = context;
	struct pollfd p[] = {{s->read_fd, POLLIN, 0}, {s->client_fd, POLLRDHUP, 0}};
	ssize_t n;

	while (poll(p, 2, -1) < 0) {
		if (errno != EINTR)
			return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	if (!(p[0].revents & POLLIN) && p[1].revents)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	api_active(s->server, s->connection); /* it was the command that was silent */
	n = read(s->read_fd, out, most);
	if (n > 0 && !standing_holds(s->server, &s->standing, false))
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n > 0)
		return n;
	/* the thread has set it before it closed the pipe */
	return n == 0 && s->whole ? MHD_CONTENT_READER_END_OF_STREAM
				  : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Waits for the first byte; false when it has failed without one. */
static bool has_begun(struct stream *s)
{
	struct pollfd p[] = {{s->read_fd, POLLIN, 0}, {s->client_fd, POLLRDHUP, 0}};

	while (poll(p, 2, -1) < 0) {
		if (errno != EINTR)
			return true;
	}
	/* who went away is noticed by the reader */
	return (p[0].revents & POLLIN) || !p[0].revents || s->whole;
}

static void end(void *context)
{
	struct stream *s = context;

	close_fd(&s->read_fd);
	pthread_join(s->thread, NULL);
	s->source.done(s->source.context);
	free(s);
}

static struct stream *stream_new(struct request *q, const struct stream_source *source)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct stream *s = calloc(1, sizeof(*s));
	int pair[2];

	if (!s || !info || pipe2(pair, O_CLOEXEC)) {
		free(s);
		return NULL;
	}
	s->source = *source;
	s->server = q->server;
	s->connection = q->connection;
	s->client_fd = info->connect_fd;
	standing_take(q, &s->standing);
	s->read_fd = pair[0];
	s->write_fd = pair[1];
	if (pthread_create(&s->thread, NULL, produce, s)) {
		close(pair[0]);
		close(pair[1]);
		free(s);
		return NULL;
	}
	return s;
}

struct MHD_Response *stream_answer(struct request *q, const struct stream_source *source)
{
	struct stream *s = stream_new(q, source);

	if (!s) {
		source->done(source->context);
		answer_error(q, API_BUSY, NULL, "Too many streams at once.");
		return NULL;
	}
	if (source->failed && !has_begun(s)) {
		/* the thread has nothing more to do with the context */
		pthread_join(s->thread, NULL);
		close_fd(&s->read_fd);
		source->failed(source->context, q);
		source->done(source->context);
		free(s);
		return NULL;
	}
	q->response = MHD_create_response_from_callback(
		source->size >= 0 ? (uint64_t)source->size : MHD_SIZE_UNKNOWN, BLOCK, pass_on, s,
		end);
	if (!q->response) {
		end(s);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return NULL;
	}
	q->status = 200;
	MHD_add_response_header(q->response, "Content-Type", source->type);
	return q->response;
}
