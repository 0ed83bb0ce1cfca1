/* SPDX-License-Identifier: Apache-2.0 - sealmark image build on a server: the context is sent, the
 * log followed. */
#include "cli/remote_image.h"
#include "cli/remote_stream.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE        (1u << 20)
#define CONTEXT_MOST (UINT64_C(100) << 20) /* compressed */
#define FOLLOWS      5u
#define FOLLOW_MS    1000

/* --- the context: packed, cut into pieces, sent where the server has them not --- */

struct packing {
	int fd;
	uint64_t size;
	struct error *err;
};

static int keep(void *context, const void *bytes, size_t count)
{
	struct packing *p = context;
	int r;

	if (p->size + count > CONTEXT_MOST)
		return error_set(p->err, -EFBIG, "the context is larger than %llu MiB packed",
			(unsigned long long)(CONTEXT_MOST >> 20));
	p->size += count;
	r = path_write_fd(p->fd, bytes, count);
	return r ? error_sys(p->err, r, "packing the context") : 0;
}

/* Piece number i; its length, or negative errno. */
static ssize_t read_piece(int fd, size_t i, uint8_t *out)
{
	size_t done = 0;

	while (done < PIECE) {
		ssize_t n = pread(fd, out + done, PIECE - done, (off_t)(i * PIECE + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static bool has_text(const json_t *list, const char *text)
{
	const json_t *item;
	size_t i;

	json_array_foreach (list, i, item) {
		const char *value = json_string_value(item);

		if (value && strcmp(value, text) == 0)
			return true;
	}
	return false;
}

static int send_pieces(struct remote *r, int fd, const json_t *digests, uint64_t size, bool quiet,
	struct error *err)
{
	cleanup_free uint8_t *piece = malloc(PIECE);
	struct progress progress;
	json_t *answer = NULL;
	const json_t *digest;
	size_t i;
	int status = remote_call(r,
		&(struct remote_call){.method = "POST",
			.path = "/v1/images/context/missing",
			.body = json_pack("{sO}", "digests", digests)},
		&answer, err);

	progress_start(&progress, "context", size, quiet);
	json_array_foreach (digests, i, digest) {
		const char *name = json_string_value(digest);
		struct buffer path = {0};
		ssize_t n;

		if (status || !has_text(json_object_get(answer, "missing"), name))
			continue;
		n = piece ? read_piece(fd, i, piece) : -ENOMEM;
		buffer_printf(&path, "/v1/images/context/%s", name);
		status = n < 0 ? cli_ours(err, "context: %s", strerror((int)-n))
			       : remote_call(r,
					 &(struct remote_call){.method = "PUT",
						 .path = buffer_text(&path),
						 .bytes = piece,
						 .count = (size_t)n},
					 NULL, err);
		buffer_fini(&path);
		progress_add(&progress, n > 0 ? (uint64_t)n : 0);
	}
	progress_end(&progress);
	json_decref(answer);
	return status;
}

/* {"archive": {size, chunks}} */
static int send_context(
	struct remote *r, const struct remote_build *b, json_t **out, struct error *err)
{
	cleanup_free uint8_t *piece = malloc(PIECE);
	cleanup_close int fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	struct packing p = {.fd = fd, .err = err};
	json_t *digests = json_array();
	char hex[HASH_HEX_SIZE];
	int status = CLI_OK;

	if (fd < 0 || !piece)
		status = cli_ours(err, "/tmp: cannot make a file: %s", strerror(errno));
	else if (tree_pack(b->folder_fd, 0, true, keep, &p, err))
		status = CLI_USAGE;
	for (size_t i = 0; !status && i * PIECE < p.size; i++) {
		ssize_t n = read_piece(fd, i, piece);

		if (n < 0)
			status = cli_ours(err, "context: %s", strerror((int)-n));
		hash_bytes(piece, n > 0 ? (size_t)n : 0, hex);
		json_array_append_new(digests, json_string(hex));
	}
	if (!status)
		status = send_pieces(r, fd, digests, p.size, b->quiet, err);
	if (!status)
		*out = json_pack(
			"{s{sI sO}}", "archive", "size", (json_int_t)p.size, "chunks", digests);
	json_decref(digests);
	return status;
}

/* --- the log --- */

struct following {
	bool quiet, again;
	int64_t after;
	json_t *image; /* as the build left it */
	struct error *err;
	int status;
};

static int on_event(void *context, const json_t *event)
{
	struct following *f = context;
	const char *type = json_text(event, "type");

	if (strcmp(type, "line") == 0) {
		f->after = json_number(event, "seq");
		if (!f->quiet) {
			remote_put(stderr, json_text(event, "text"));
			fputc('\n', stderr);
		}
	} else if (strcmp(type, "continue") == 0) {
		f->after = json_number(event, "after");
		f->again = true;
	} else if (strcmp(type, "done") == 0 && json_object_get(event, "image")) {
		json_decref(f->image);
		f->image = json_deep_copy(json_object_get(event, "image"));
	} else if (strcmp(type, "error") == 0) {
		f->status = remote_error(json_object_get(event, "error"),
			json_number(json_object_get(event, "error"), "status"), "build", f->err);
		return -ECANCELED;
	}
	return 0;
}

int remote_image_follow(
	struct remote *r, const char *id, bool quiet, json_t **image, struct error *err)
{
	struct following f = {.quiet = quiet, .err = err};
	unsigned idle = 0;
	int status = CLI_OK;

	while (!status && !f.image && idle < FOLLOWS) {
		struct remote_lines lines = {.on_line = on_event, .context = &f, .err = err};
		struct buffer path = {0};
		int64_t before = f.after;
		char after[32];

		text_format(after, sizeof(after), "%lld", (long long)f.after);
		buffer_add_text(&path, "/v1/images/");
		remote_segment(&path, id);
		buffer_add_text(&path, "/logs");
		remote_query(&path, "after", after);
		remote_query(&path, "follow", "true");
		f.again = false;
		status = remote_call(r,
			&(struct remote_call){.method = "GET",
				.path = buffer_text(&path),
				.on_bytes = remote_lines_feed,
				.context = &lines},
			NULL, err);
		buffer_fini(&path);
		remote_lines_fini(&lines);
		status = f.status ? f.status : status;
		idle = f.again || f.after > before ? 0 : idle + 1;
		if (!status && !f.image && idle && !remote_pause(r, FOLLOW_MS))
			status = remote_interrupted(r);
	}
	if (!status && !f.image)
		status = cli_ours(err, "the log of the build ends before the build does");
	*image = f.image;
	return status;
}

/* --- the build --- */

static json_t *body_of(const struct remote_build *b, json_t *context)
{
	json_t *body = json_copy((json_t *)(uintptr_t)b->source), *limits = json_object();

	json_object_set_new(body, "name", json_string(b->name));
	json_object_set(body, "tags", (json_t *)(uintptr_t)b->tags);
	if (json_object_size(b->arguments))
		json_object_set(body, "buildArgs", (json_t *)(uintptr_t)b->arguments);
	if (context)
		json_object_set(body, "context", context);
	if (b->memory_mib)
		json_object_set_new(limits, "memoryMiB", json_integer(b->memory_mib));
	if (b->timeout_ms)
		json_object_set_new(limits, "timeoutSeconds",
			json_integer((json_int_t)((b->timeout_ms + 999) / 1000)));
	if (json_object_size(limits))
		json_object_set(body, "build", limits);
	if (b->again)
		json_object_set_new(body, "cache", json_false());
	json_decref(limits);
	return body;
}

static bool is_under_way(const json_t *image)
{
	const char *state = json_text(image, "state");

	return strcmp(state, "queued") == 0 || strcmp(state, "building") == 0;
}

/* Ctrl-C ends the build there too. */
static void cancel(struct remote *r, const char *id)
{
	struct buffer path = {0};
	struct error err = {0};

	buffer_add_text(&path, "/v1/images/");
	remote_segment(&path, id);
	buffer_add_text(&path, ":delete");
	if (remote_call(r,
		    &(struct remote_call){
			    .method = "POST", .path = buffer_text(&path), .anyway = true},
		    NULL, &err))
		log_warning("the build %s could not be ended: %s", id, error_message(&err));
	buffer_fini(&path);
}

static int say(const struct remote_build *b, const json_t *image, struct error *err)
{
	if (strcmp(json_text(image, "state"), "ready") != 0) {
		error_set(err, -EREMOTEIO, "image %s: %.300s (sealmark image logs %s)", b->name,
			*json_text(image, "error") ? json_text(image, "error")
						   : json_text(image, "state"),
			b->name);
		return CLI_ATTENTION;
	}
	if (b->json)
		return remote_print_json(json_deep_copy(image), err);
	remote_put(stdout, json_text(image, "name"));
	putchar('@');
	remote_put(stdout, json_text(image, "version"));
	putchar('\n');
	return CLI_OK;
}

int remote_image_build(struct remote *r, const struct remote_build *b, struct error *err)
{
	json_t *context = NULL, *image = NULL, *ended = NULL;
	char id[REMOTE_ID_SIZE] = "";
	int status = b->folder_fd < 0 ? CLI_OK : send_context(r, b, &context, err);

	if (!status)
		status = remote_call(r,
			&(struct remote_call){.method = "POST",
				.path = "/v1/images",
				.body = body_of(b, context),
				.about = "build"},
			&image, err);
	text_copy(id, sizeof(id), json_text(image, "id"));
	if (!status && is_under_way(image)) {
		status = remote_image_follow(r, id, b->quiet, &ended, err);
		if (status >= 128)
			cancel(r, id);
	}
	if (!status)
		status = say(b, ended ? ended : image, err);
	json_decref(ended);
	json_decref(image);
	json_decref(context);
	remote_free(r);
	return status;
}
