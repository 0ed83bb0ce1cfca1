/* SPDX-License-Identifier: Apache-2.0 - logs of builds: a page, or line by line as they come. */
#include "api/builds.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define LINES_MOST 5000
#define LOOK_MS    1000 /* a build of another process does not wake us */
#define BLOCK      65536

/* One line of the file as it goes out; NULL: not asked for, or damaged. */
static json_t *take_line(const char *text, size_t count, int64_t after, int64_t *seq)
{
	json_t *json = json_loadb(text, count, 0, NULL);

	*seq = json_integer_value(json_object_get(json, "seq"));
	if (json && *seq > after && json_object_set_new(json, "type", json_string("line")) == 0)
		return json;
	json_decref(json);
	return NULL;
}

static bool is_over(const json_t *json)
{
	const char *state = json_string_value(json_object_get(json, "state"));

	return !state || (strcmp(state, "queued") != 0 && strcmp(state, "building") != 0);
}

static void answer_page(struct request *q, const json_t *json, const char *path, int64_t after)
{
	struct buffer text = {0};
	json_t *lines = json_array(), *line;
	bool done = is_over(json);
	const char *at, *nl;
	int64_t seq;

	/* an image that was installed has no log */
	path_read(path, 2 * (size_t)IMAGE_LOG_MOST, &text, NULL);
	at = buffer_text(&text);
	for (; at && (nl = strchr(at, '\n')); at = nl + 1) {
		line = take_line(at, (size_t)(nl - at), after, &seq);
		if (!line)
			continue;
		if (json_array_size(lines) == LINES_MOST) {
			json_decref(line);
			done = false;
			break;
		}
		json_array_append_new(lines, line);
		after = seq;
	}
	buffer_fini(&text);
	answer_json(q, 200,
		json_pack("{so sI sb}", "lines", lines, "nextAfter", (json_int_t)after, "done",
			done));
}

/* --- following --- */

struct follow {
	struct api_server *server;
	struct request who; /* its key and server alone */
	char id[ID_SIZE], path[PATH_MAX];
	int64_t after;
	int log_fd; /* -1: not there (yet) */
	struct buffer text;
};

static void follow_free(void *context)
{
	struct follow *f = context;

	close_fd(&f->log_fd);
	buffer_fini(&f->text);
	free(f);
}

static bool put(int fd, json_t *json)
{
	cleanup_free char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	return text && path_write_fd(fd, text, strlen(text)) == 0 &&
	       path_write_fd(fd, "\n", 1) == 0;
}

/* what the log has more by now */
static bool pass_lines(struct follow *f, int fd)
{
	uint8_t *room;
	ssize_t n;

	if (f->log_fd < 0)
		f->log_fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	for (;;) {
		const char *at = (const char *)buffer_bytes(&f->text);
		size_t have = buffer_length(&f->text);
		const char *nl = have ? memchr(at, '\n', have) : NULL;
		json_t *line;
		int64_t seq;

		if (nl) {
			line = take_line(at, (size_t)(nl - at), f->after, &seq);
			if (line && !put(fd, line))
				return false;
			if (line)
				f->after = seq;
			buffer_consume(&f->text, (size_t)(nl - at) + 1);
			continue;
		}
		room = f->log_fd < 0 ? NULL : buffer_reserve(&f->text, BLOCK);
		n = room ? read(f->log_fd, room, BLOCK) : 0;
		if (n <= 0)
			return true;
		buffer_commit(&f->text, (size_t)n);
	}
}

static bool has_left(int fd)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

static bool is_stopping(struct api_server *server)
{
	bool stopping;

	pthread_mutex_lock(&server->lock);
	stopping = server->stopping;
	pthread_mutex_unlock(&server->lock);
	return stopping;
}

static bool produce(void *context, int fd)
{
	struct follow *f = context;

	for (;;) {
		uint64_t seen = builds_changes(f->server);
		json_t *about, *json = image_by_id(&f->who, f->id, &about);
		bool over = !json || is_over(json);

		json_decref(about);
		/* the state was read before the log, so nothing of a build that is over is left out
		 */
		if (!pass_lines(f, fd)) {
			json_decref(json);
			return false;
		}
		if (!json) {
			json_decref(f->who.answer);
			return put(fd, json_pack("{ss so}", "type", "error", "error",
					       answer_error_object(API_IMAGE_NOT_FOUND, f->who.id,
						       NULL, "The image was deleted.")));
		}
		if (over)
			return put(fd, json_pack("{ss so}", "type", "done", "image", json));
		json_decref(json);
		if (is_stopping(f->server))
			return put(fd, json_pack("{ss sI}", "type", "continue", "after",
					       (json_int_t)f->after));
		if (has_left(fd))
			return false;
		builds_wait(f->server, seen, LOOK_MS);
	}
}

void images_logs(struct request *q)
{
	int64_t after = request_integer(q->query, "after", 0);
	json_t *about, *json = image_by_id(q, q->params[0], &about);
	struct stream_source source = {.produce = produce,
		.done = follow_free,
		.type = "application/x-ndjson",
		.size = -1};
	struct follow *f;

	if (!json)
		return;
	f = calloc(1, sizeof(*f));
	if (!f || image_build_log(q->server->home, q->params[0], f->path, NULL)) {
		free(f);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	} else if (!request_boolean(q->query, "follow", false)) {
		answer_page(q, json, f->path, after);
		free(f);
	} else {
		f->server = q->server;
		f->who.server = q->server;
		f->who.key = q->key;
		text_copy(f->who.id, sizeof(f->who.id), q->id);
		text_copy(f->id, sizeof(f->id), q->params[0]);
		f->after = after;
		f->log_fd = -1;
		source.context = f;
		stream_answer(q, &source);
	}
	json_decref(json);
	json_decref(about);
}
