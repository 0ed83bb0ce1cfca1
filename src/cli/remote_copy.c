/* SPDX-License-Identifier: Apache-2.0 - files and folders into a sandbox and out of it. */
#include "cli/remote.h"
#include "cli/remote_unpack.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE     (1u << 20) /* what one request takes */
#define DISK_MOST 65536      /* MiB, whatever the server says of a sandbox */

/* Something on its way in: one request when it is small, else an upload in pieces. */
struct sending {
	struct remote *r;
	const char *id, *routes; /* "files/archive/uploads" or "uploads" */
	json_t *begin;           /* body of the request that begins an upload */
	char upload[REMOTE_ID_SIZE];
	uint64_t offset;
	struct buffer piece;
	struct progress progress;
	int status;
	struct error *err;
};

/* POST .../uploads[/ID:verb] */
static int upload_post(struct sending *s, const char *verb, json_t *body, json_t **out)
{
	struct buffer path = {0};
	bool abort = strcmp(verb, ":abort") == 0;
	struct error ignored;
	int status;

	buffer_printf(&path, "/v1/sandboxes/%s/%s", s->id, s->routes);
	if (*verb) {
		buffer_add_text(&path, "/");
		remote_segment(&path, s->upload);
		buffer_add_text(&path, verb);
	}
	status = remote_call(s->r,
		&(struct remote_call){.method = "POST",
			.path = buffer_text(&path),
			.body = body,
			.anyway = abort},
		out, abort ? &ignored : s->err);
	buffer_fini(&path);
	return status;
}

static int begin(struct sending *s)
{
	json_t *answer = NULL;
	int status = upload_post(s, "", json_incref(s->begin), &answer);

	if (!status && text_copy(s->upload, sizeof(s->upload), json_text(answer, "uploadId")))
		s->upload[0] = 0;
	if (!status && !s->upload[0])
		status = cli_ours(s->err, "the server began an upload without an id");
	json_decref(answer);
	return status;
}

static int put_piece(struct sending *s, size_t count)
{
	struct buffer path = {0};
	char offset[32];
	int status = s->upload[0] ? CLI_OK : begin(s);

	if (status)
		return status;
	text_format(offset, sizeof(offset), "%llu", (unsigned long long)s->offset);
	buffer_printf(&path, "/v1/sandboxes/%s/%s/", s->id, s->routes);
	remote_segment(&path, s->upload);
	remote_query(&path, "offset", offset);
	status = remote_call(s->r,
		&(struct remote_call){.method = "PUT",
			.path = buffer_text(&path),
			.bytes = buffer_bytes(&s->piece),
			.count = count},
		NULL, s->err);
	buffer_fini(&path);
	buffer_consume(&s->piece, count);
	s->offset += count;
	progress_add(&s->progress, count);
	return status;
}

/* Take bytes; a piece that is full goes out. */
static int send_bytes(void *context, const void *bytes, size_t count)
{
	struct sending *s = context;

	if (buffer_add(&s->piece, bytes, count))
		s->status = cli_ours(s->err, "out of memory");
	while (!s->status && buffer_length(&s->piece) > PIECE)
		s->status = put_piece(s, PIECE);
	return s->status ? -ECANCELED : 0;
}

/* The rest; `small` is the route for what fits into one request. */
static int finish(struct sending *s, const char *small)
{
	struct remote_call whole = {.method = "PUT",
		.path = small,
		.bytes = buffer_length(&s->piece) ? (void *)buffer_bytes(&s->piece) : "",
		.count = buffer_length(&s->piece)};

	if (!s->status && !s->upload[0]) {
		s->offset = whole.count;
		return remote_call(s->r, &whole, NULL, s->err);
	}
	if (!s->status && buffer_length(&s->piece))
		s->status = put_piece(s, buffer_length(&s->piece));
	if (!s->status)
		s->status = upload_post(s, ":commit", NULL, NULL);
	if (s->status && s->upload[0])
		upload_post(s, ":abort", NULL, NULL);
	return s->status;
}

static void sending_fini(struct sending *s)
{
	progress_end(&s->progress);
	buffer_fini(&s->piece);
	json_decref(s->begin);
}

static int send_folder(struct sending *s, int fd, const char *local, const char *guest)
{
	struct buffer small = {0};
	struct error why = {0};
	int status;

	s->routes = "files/archive/uploads";
	s->begin = json_pack("{ss sb}", "path", guest, "gzip", 1);
	buffer_printf(&small, "/v1/sandboxes/%s/files/archive", s->id);
	remote_query(&small, "path", guest);
	progress_start(&s->progress, "packed and sent", 0, s->progress.quiet);
	if (tree_pack(fd, 0, true, send_bytes, s, &why) && !s->status)
		s->status = cli_usage(s->err, "%.200s: %.250s", local, error_message(&why));
	status = finish(s, buffer_text(&small));
	buffer_fini(&small);
	return status;
}

static int send_contents(struct sending *s, int fd, const char *local)
{
	cleanup_free uint8_t *block = malloc(PIECE);
	ssize_t n = 1;

	if (!block)
		return cli_ours(s->err, "out of memory");
	if (lseek(fd, 0, SEEK_SET))
		return cli_usage(s->err, "%.200s: %s", local, strerror(errno));
	while (!s->status && n) {
		n = read(fd, block, PIECE);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			s->status = cli_usage(s->err, "%.200s: %s", local, strerror(errno));
		else
			send_bytes(s, block, (size_t)n);
	}
	return s->status;
}

static int send_file(
	struct sending *s, int fd, const struct stat *st, const char *local, const char *guest)
{
	char digest[HASH_HEX_SIZE], mode[8];
	struct buffer small = {0};
	int status;

	text_format(mode, sizeof(mode), "%03o", st->st_mode & 0777u);
	if (st->st_size > (off_t)PIECE && hash_fd(fd, digest))
		return cli_usage(s->err, "%.200s: cannot be read", local);
	s->routes = "uploads";
	s->begin = json_pack("{ss sI ss ss}", "path", guest, "size", (json_int_t)st->st_size,
		"sha256", st->st_size > (off_t)PIECE ? digest : "", "mode", mode);
	buffer_printf(&small, "/v1/sandboxes/%s/files/content", s->id);
	remote_query(&small, "path", guest);
	remote_query(&small, "mode", mode);
	progress_start(&s->progress, "sent", (uint64_t)st->st_size, s->progress.quiet);
	send_contents(s, fd, local);
	status = finish(s, buffer_text(&small));
	buffer_fini(&small);
	return status;
}

/* What `guest` is, if anything. */
static int stat_guest(
	struct remote *r, const char *id, const char *guest, json_t **out, struct error *err)
{
	struct buffer path = {0};
	int status;

	buffer_printf(&path, "/v1/sandboxes/%s/files/stat", id);
	remote_query(&path, "path", guest);
	status = remote_call(r,
		&(struct remote_call){.method = "GET", .path = buffer_text(&path), .about = guest},
		out, err);
	buffer_fini(&path);
	return status;
}

/* A file copied to a folder keeps its name there. */
static int target_of_file(struct remote *r, const char *id, const char *local, const char *guest,
	struct buffer *target, struct error *err)
{
	json_t *entry = NULL;
	bool into = text_ends(guest, "/");
	int status = into ? CLI_OK : stat_guest(r, id, guest, &entry, err);

	into = into || strcmp(json_text(entry, "type"), "directory") == 0;
	json_decref(entry);
	buffer_add_text(target, guest);
	if (!status && into)
		buffer_printf(target, "%s%s", text_ends(guest, "/") ? "" : "/", basename(local));
	return status;
}

int remote_copy_in(struct remote *r, const char *id, const char *local, const char *guest,
	bool quiet, struct remote_copied *copied, struct error *err)
{
	cleanup_close int fd = open(local, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct sending s = {.r = r, .id = id, .err = err, .progress.quiet = quiet};
	struct buffer target = {0};
	struct stat st;
	int status;

	if (fd < 0 || fstat(fd, &st))
		return cli_usage(err, "%.200s: %s", local, strerror(errno));
	if (S_ISDIR(st.st_mode)) {
		status = send_folder(&s, fd, local, guest);
	} else if (S_ISREG(st.st_mode)) {
		status = target_of_file(r, id, local, guest, &target, err);
		if (!status)
			status = send_file(&s, fd, &st, local, buffer_text(&target));
	} else {
		status = cli_usage(err, "%.200s: is neither a file nor a folder", local);
	}
	if (copied)
		copied->bytes = s.offset;
	buffer_fini(&target);
	sending_fini(&s);
	return status;
}

/* --- out --- */

struct receiving {
	int fd;
	uint64_t left;
	size_t left_out; /* entries */
	struct progress progress;
	struct error *err;
};

static int take_bytes(void *context, const void *bytes, size_t count)
{
	struct receiving *x = context;
	int r;

	if (count > x->left)
		return error_set(x->err, -EFBIG, "more comes than the sandbox can hold");
	x->left -= count;
	r = path_write_fd(x->fd, bytes, count);
	if (r)
		return error_sys(x->err, r, "writing what comes");
	progress_add(&x->progress, count);
	return 0;
}

static int receive(
	struct remote *r, const char *id, const char *route, const char *guest, struct receiving *x)
{
	struct buffer path = {0};
	int status;

	buffer_printf(&path, "/v1/sandboxes/%s/files/%s", id, route);
	remote_query(&path, "path", guest);
	if (strcmp(route, "archive") == 0)
		remote_query(&path, "gzip", "true");
	status = remote_call(r,
		&(struct remote_call){.method = "GET",
			.path = buffer_text(&path),
			.on_bytes = take_bytes,
			.context = x,
			.about = guest},
		NULL, x->err);
	progress_end(&x->progress);
	buffer_fini(&path);
	return status;
}

/* Beside the target under a passing name, then renamed: never half there. */
static int receive_file(struct remote *r, const char *id, const char *guest, const char *local,
	const json_t *entry, struct receiving *x)
{
	char passing[PATH_MAX], uuid[ID_SIZE];
	mode_t mode = (mode_t)strtoul(json_text(entry, "mode"), NULL, 8) & 0777;
	int status;

	id_uuid(uuid);
	if (text_format(passing, sizeof(passing), "%s.sealmark-%s", local, uuid))
		return cli_usage(x->err, "%.100s...: the path is too long", local);
	x->fd = open(passing, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (x->fd < 0)
		return cli_usage(x->err, "%.200s: %s", local, strerror(errno));
	x->progress.total = (uint64_t)json_number(entry, "size");
	status = receive(r, id, "content", guest, x);
	if (!status &&
		(fchmod(x->fd, mode ? mode : 0644) || fsync(x->fd) || rename(passing, local)))
		status = cli_usage(x->err, "%.200s: %s", local, strerror(errno));
	if (status)
		unlink(passing);
	close_fd(&x->fd);
	return status;
}

static int receive_folder(
	struct remote *r, const char *id, const char *guest, const char *local, struct receiving *x)
{
	const char *tmp = getenv("TMPDIR");
	uint64_t most = x->left;
	int status;

	x->fd = open(tmp && *tmp ? tmp : "/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (x->fd < 0)
		return cli_ours(x->err, "%.200s: cannot make a file: %s",
			tmp && *tmp ? tmp : "/tmp", strerror(errno));
	status = receive(r, id, "archive", guest, x);
	if (!status && unpack_tar(x->fd, local, most, &x->left_out, x->err))
		status = CLI_OURS;
	close_fd(&x->fd);
	if (x->left_out)
		log_warning("%zu links that lead outside, or entries that are no files, were left "
			    "out",
			x->left_out);
	return status ? status : x->left_out ? CLI_ATTENTION : CLI_OK;
}

/* How much may come of a sandbox: what its disk holds. */
static int disk_of(struct remote *r, const char *id, uint64_t *bytes, struct error *err)
{
	json_t *sandbox = NULL;
	char path[REMOTE_ID_SIZE + 32];
	int64_t mib;
	int status;

	text_format(path, sizeof(path), "/v1/sandboxes/%s", id);
	status =
		remote_call(r, &(struct remote_call){.method = "GET", .path = path}, &sandbox, err);
	mib = json_number(sandbox, "diskMiB");
	*bytes = (uint64_t)(mib > 0 && mib < DISK_MOST ? mib : DISK_MOST) << 20;
	/* the image's own files count too, and headers */
	*bytes += UINT64_C(8) << 30;
	json_decref(sandbox);
	return status;
}

int remote_copy_out(struct remote *r, const char *id, const char *guest, const char *local,
	bool quiet, struct remote_copied *copied, struct error *err)
{
	struct receiving x = {.fd = -1, .err = err};
	struct buffer target = {0};
	json_t *entry = NULL;
	struct stat st;
	bool into = stat(local, &st) == 0 && S_ISDIR(st.st_mode);
	uint64_t most;
	int status = disk_of(r, id, &most, err);

	if (!status)
		status = stat_guest(r, id, guest, &entry, err);
	if (status)
		return status;
	x.left = most;
	progress_start(&x.progress, "received", 0, quiet);
	buffer_add_text(&target, local);
	if (!json_is_true(json_object_get(entry, "exists"))) {
		status = cli_usage(err, "%.200s: is not there in the sandbox", guest);
	} else if (strcmp(json_text(entry, "type"), "directory") == 0) {
		status = receive_folder(r, id, guest, local, &x);
	} else {
		if (into)
			buffer_printf(
				&target, "%s%s", text_ends(local, "/") ? "" : "/", basename(guest));
		status = receive_file(r, id, guest, buffer_text(&target), entry, &x);
	}
	if (copied)
		*copied = (struct remote_copied){most - x.left, x.left_out};
	buffer_fini(&target);
	json_decref(entry);
	return status;
}
