/* SPDX-License-Identifier: Apache-2.0 - uploads: pieces gathered in a file here, then written to
 * the guest at once. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE        API_BYTES_MOST
#define UPLOADS_MOST 64 /* under way to one sandbox */

/* <home>/uploads/<id>: the id is made here, so that no name of a client's is in the path */
static int upload_path(struct api_server *server, const char *id, char *out, struct error *err)
{
	int r = text_format(out, PATH_MAX, "%s/uploads", server->home);

	if (!r)
		r = path_make(out, 0700, err);
	if (!r)
		r = text_format(out, PATH_MAX, "%s/uploads/%s", server->home, id);
	return r == -ENAMETOOLONG ? error_set(err, r, "home is too long") : r;
}

void upload_remove(struct api_server *server, const char *id)
{
	char path[PATH_MAX];

	if (upload_path(server, id, path, NULL) == 0)
		unlink(path);
}

/* What waits for a sandbox takes no more of the host's disk than the sandbox's own has. */
struct waiting {
	char ids[UPLOADS_MOST][ID_SIZE];
	size_t count;
	int64_t bytes; /* of all but one */
};

static int count_waiting(struct api_server *server, const char *sandbox, const char *but,
	struct waiting *out, struct error *err)
{
	char path[PATH_MAX];
	struct stat st;
	int r = store_upload_list(server->store, sandbox, out->ids, UPLOADS_MOST, &out->count, err);

	out->bytes = 0;
	for (size_t i = 0; !r && i < out->count && i < UPLOADS_MOST; i++) {
		if (strcmp(out->ids[i], but) != 0 &&
			upload_path(server, out->ids[i], path, NULL) == 0 && stat(path, &st) == 0)
			out->bytes += st.st_size;
	}
	return r;
}

void uploads_forget(struct api_server *server, const char *sandbox)
{
	struct waiting w;

	do {
		if (count_waiting(server, sandbox, "", &w, NULL))
			return;
		for (size_t i = 0; i < w.count && i < UPLOADS_MOST; i++) {
			if (store_upload_end(server->store, w.ids[i], NULL))
				return;
			upload_remove(server, w.ids[i]);
		}
	} while (w.count > UPLOADS_MOST);
}

static int make_file(struct api_server *server, const char *id, struct error *err)
{
	char path[PATH_MAX];
	int r = upload_path(server, id, path, err), fd;

	if (r)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	close(fd);
	return 0;
}

static int open_file(struct api_server *server, const char *id, struct error *err)
{
	char path[PATH_MAX];
	int r = upload_path(server, id, path, err), fd;

	if (r)
		return r;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_sys(err, errno, "%s", path) : fd;
}

/* What is larger than the sandbox's disk can never be written. */
static bool check_size(struct request *q, const struct store_sandbox *record, int64_t size)
{
	if (size <= (int64_t)record->disk_mib << 20)
		return true;
	answer_error(q, API_TOO_LARGE, NULL, "The sandbox's disk has %u MiB.", record->disk_mib);
	return false;
}

/* Is there room for an upload, `size` of whose bytes there will be? */
static bool check_room(
	struct request *q, const struct store_sandbox *record, const char *id, int64_t size)
{
	struct error err = {0};
	struct waiting w;

	if (record->state >= STORE_SANDBOX_STOPPING)
		answer_stopped(q, record);
	else if (!check_size(q, record, size))
		;
	else if (count_waiting(q->server, record->id, id, &w, &err))
		answer_failure(q, &err);
	else if (w.count >= UPLOADS_MOST && !id[0])
		answer_error(q, API_QUOTA_EXCEEDED, json_pack("{ss}", "limit", "uploads"),
			"%u uploads to this sandbox are under way; commit or abort some.",
			UPLOADS_MOST);
	else if (w.bytes + size > (int64_t)record->disk_mib << 20)
		answer_error(q, API_QUOTA_EXCEEDED, json_pack("{ss}", "limit", "uploads"),
			"All uploads to a sandbox together may have its disk's %u MiB.",
			record->disk_mib);
	return !q->status;
}

/* true: fine; a mode is three or four octal digits */
static bool take_mode(struct request *q, uint32_t *mode)
{
	const char *text = request_text(q->json, "mode", "644");
	size_t n = strlen(text);

	*mode = (uint32_t)strtoul(text, NULL, 8) & 07777;
	if (n >= 3 && n <= 4 && strspn(text, "01234567") == n)
		return true;
	answer_error(
		q, API_INVALID_REQUEST, NULL, "mode must be three or four octal digits, as 755.");
	return false;
}

static void create(struct request *q, bool archive)
{
	struct store_upload upload = {.archive = archive,
		.created_ms = api_now_ms(),
		.path = (char *)(uintptr_t)request_text(q->json, "path", ""),
		.size = request_integer(q->json, "size", -1),
		.root = strcmp(request_text(q->json, "user", "sandbox"), "root") == 0};
	const char *digest = request_text(q->json, "sha256", "");
	struct store_sandbox record;
	struct error err = {0};
	char mode[8];
	int r;

	if (upload.path[0] != '/') {
		answer_error(q, API_INVALID_REQUEST, NULL, "path must be an absolute path.");
		return;
	}
	if (!archive && (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64)) {
		answer_error(q, API_INVALID_REQUEST, NULL, "sha256 must be 64 digits of base 16.");
		return;
	}
	if ((!archive && !take_mode(q, &upload.mode)) || !life_find(q, &record))
		return;
	id_uuid(upload.id);
	text_copy(upload.sandbox, sizeof(upload.sandbox), record.id);
	text_copy(upload.sha256, sizeof(upload.sha256), digest);
	if (check_room(q, &record, "", 0) && check_size(q, &record, upload.size)) {
		r = make_file(q->server, upload.id, &err);
		if (!r)
			r = store_upload_add(q->server->store, &upload, &err);
		if (r)
			upload_remove(q->server, upload.id);
		text_format(mode, sizeof(mode), "%03o", upload.mode);
		if (r)
			answer_failure(q, &err);
		else
			answer_json(q, 201,
				json_pack("{ss si ss*}", "uploadId", upload.id, "chunkBytes", PIECE,
					"mode", archive ? NULL : mode));
	}
	store_sandbox_fini(&record);
}

void uploads_create(struct request *q)
{
	create(q, false);
}

void uploads_archive(struct request *q)
{
	create(q, true);
}

/* The upload of the second parameter, of the kind that the route is for. */
static bool find(struct request *q, struct store_sandbox *record, struct store_upload *upload)
{
	bool archive = strstr(q->route->path, "/archive/") != NULL;
	struct error err = {0};
	int r;

	if (!life_find(q, record))
		return false;
	r = store_upload_get(q->server->store, record->id, q->params[1], upload, &err);
	if (!r && upload->archive == archive)
		return true;
	if (!r || r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no upload %s.", q->params[1]);
	else
		answer_failure(q, &err);
	store_upload_fini(upload);
	store_sandbox_fini(record);
	return false;
}

void uploads_put(struct request *q)
{
	int64_t offset = request_integer(q->query, "offset", 0);
	int64_t count = (int64_t)buffer_length(&q->body);
	struct store_sandbox record;
	struct store_upload upload;
	struct error err = {0};

	if (!find(q, &record, &upload))
		return;
	if (upload.size >= 0 && offset + count > upload.size) {
		answer_error(q, API_INVALID_REQUEST, NULL, "The piece is beyond the file's size.");
	} else if (check_room(q, &record, upload.id, offset + count)) {
		cleanup_close int fd = open_file(q->server, upload.id, &err);

		if (fd < 0 || (count && pwrite(fd, buffer_bytes(&q->body), (size_t)count, offset) !=
						count)) {
			if (fd >= 0)
				error_sys(&err, errno, "a piece of an upload");
			answer_failure(q, &err);
		} else {
			answer_json(q, 200,
				json_pack("{sI sI}", "offset", (json_int_t)offset, "size",
					(json_int_t)count));
		}
	}
	store_upload_fini(&upload);
	store_sandbox_fini(&record);
}

/* It is then still there, to be mended or given up. */
static void answer_not_whole(struct request *q, const char *digest, int64_t size)
{
	answer_error(q, API_INVALID_REQUEST,
		json_pack("{ss sI}", "sha256", digest, "size", (json_int_t)size),
		"What was sent is not what was announced.");
}

/* Its digest is that of the very bytes that are written, whatever comes to the file meanwhile. */
static void write_file(struct request *q, const struct store_upload *upload, int fd)
{
	char digest[HASH_HEX_SIZE] = "";
	struct store_sandbox record;
	struct sandbox *s = life_attach(q, &record);
	struct sandbox_user user;
	struct error err = {0};
	json_t *spec;
	int r;

	if (!s)
		return;
	spec = json_loads(record.spec, 0, NULL);
	sandbox_user(spec, upload->root, &user);
	json_decref(spec);
	r = lseek(fd, 0, SEEK_SET) < 0 ? error_sys(&err, errno, "an upload")
				       : sandbox_write_checked(s, upload->path, fd, upload->mode,
						 user.uid, upload->sha256, digest, &err);
	if (r == -EBADMSG && digest[0])
		answer_not_whole(q, digest, upload->size);
	else if (r)
		life_failure(q, &record, r, &err, true);
	else
		answer_json(q, 200,
			json_pack(
				"{ss sI}", "path", upload->path, "size", (json_int_t)upload->size));
	sandbox_free(s);
	store_sandbox_fini(&record);
}

/* Are all its bytes there? false: answered */
static bool is_whole(struct request *q, const struct store_upload *upload, int fd)
{
	char digest[HASH_HEX_SIZE] = "";
	struct stat st = {0};

	if (upload->archive)
		return true;
	if (fstat(fd, &st) == 0 && st.st_size == upload->size)
		return true;
	hash_fd(fd, digest);
	answer_not_whole(q, digest, st.st_size);
	return false;
}

void uploads_commit(struct request *q)
{
	struct store_sandbox record;
	struct store_upload upload;
	struct error err = {0};

	if (!find(q, &record, &upload))
		return;
	cleanup_close int fd = open_file(q->server, upload.id, &err);
	if (fd < 0) {
		answer_failure(q, &err);
	} else if (is_whole(q, &upload, fd)) {
		const struct unpack unpack = {.path = upload.path, .root = upload.root, .fd = fd};

		if (upload.archive)
			archive_unpack(q, &unpack);
		else
			write_file(q, &upload, fd);
		if (q->status < 300 && store_upload_end(q->server->store, upload.id, NULL) == 0)
			upload_remove(q->server, upload.id);
	}
	store_upload_fini(&upload);
	store_sandbox_fini(&record);
}

void uploads_abort(struct request *q)
{
	struct store_sandbox record;
	struct store_upload upload;
	struct error err = {0};
	int r;

	if (!find(q, &record, &upload))
		return;
	r = store_upload_end(q->server->store, upload.id, &err);
	if (r && r != -ENOENT) {
		answer_failure(q, &err);
	} else {
		upload_remove(q->server, upload.id);
		answer_json(q, 200, json_pack("{ss sb}", "uploadId", upload.id, "aborted", 1));
	}
	store_upload_fini(&upload);
	store_sandbox_fini(&record);
}
