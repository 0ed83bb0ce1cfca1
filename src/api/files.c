/* SPDX-License-Identifier: Apache-2.0 - .../files: contents, lists, and the small changes. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "wire/glob.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MODE       0644
#define SMALL      (1u << 20) /* a file read whole, with its digest */
#define LIST_LIMIT 1000
#define LIST_MOST  10000
#define GLOB_DEPTH 32
#define WALK_MOST  100000

/* A path of the guest: it never names anything of the host. */
static bool take_path(struct request *q, const json_t *from, const char *name, const char **out)
{
	const char *path = request_text(from, name, "");

	*out = path;
	if (path[0] == '/')
		return true;
	answer_error(q, API_INVALID_REQUEST,
		json_pack("{s[{ss ss}]}", "issues", "path", name, "message",
			"must be an absolute path"),
		"%s must be an absolute path.", name);
	return false;
}

struct files {
	struct sandbox *sandbox;
	struct store_sandbox record;
	json_t *spec;
	struct sandbox_user user;
};

static void files_free(struct files *f)
{
	sandbox_free(f->sandbox);
	store_sandbox_fini(&f->record);
	json_decref(f->spec);
	*f = (struct files){0};
}

/* A connection, and who acts: the sandbox's user, or root when it is asked for. */
static bool files_open(struct request *q, struct files *f)
{
	*f = (struct files){0};
	f->sandbox = life_attach(q, &f->record);
	if (!f->sandbox)
		return false;
	f->spec = json_loads(f->record.spec, 0, NULL);
	sandbox_user(f->spec,
		strcmp(request_text(q->query, "user", request_text(q->json, "user", "sandbox")),
			"root") == 0,
		&f->user);
	return true;
}

static void files_failed(struct request *q, const struct files *f, int r, const struct error *err)
{
	life_failure(q, &f->record, r, err, true);
}

static uint32_t parse_mode(const char *text)
{
	uint32_t mode = 0;

	for (const char *p = text; *p; p++)
		mode = mode * 8 + (uint32_t)(*p - '0');
	return mode & 07777;
}

static bool is_mode(const char *text)
{
	size_t n = strlen(text);

	return n >= 3 && n <= 4 && strspn(text, "01234567") == n;
}

/* the mode asked for, or `otherwise`; false: answered */
static bool take_mode(struct request *q, const json_t *from, uint32_t otherwise, uint32_t *out)
{
	const char *mode = request_text(from, "mode", NULL);

	*out = mode && is_mode(mode) ? parse_mode(mode) : otherwise;
	if (!mode || is_mode(mode))
		return true;
	answer_error(q, API_INVALID_REQUEST,
		json_pack("{s[{ss ss}]}", "issues", "path", "mode", "message",
			"must be three or four octal digits, as 755"),
		"mode must be three or four octal digits, as 755.");
	return false;
}

/* --- entries --- */

static json_t *who(const struct files *f, uint32_t id)
{
	char text[16];

	if (id == 0)
		return json_string("root");
	if (id == request_integer(f->spec, "uid", 1000))
		return json_string(request_text(f->spec, "userName", "runtime"));
	snprintf(text, sizeof(text), "%u", id);
	return json_string(text);
}

static json_t *guest_name(const char *text)
{
	bool exact;

	return api_guest_text(text, strlen(text), &exact);
}

static json_t *entry_json(const struct files *f, const char *path, const struct sandbox_entry *e)
{
	static const char *const types[] = {"other", "file", "directory", "symlink", "other"};
	const char *slash = strrchr(path, '/');
	char mode[8];

	snprintf(mode, sizeof(mode), "%03o", e->mode & 07777);
	return json_pack("{so so ss sI ss so sI si si so so so}", "name",
		guest_name(slash && slash[1] ? slash + 1 : path), "path", guest_name(path), "type",
		types[e->type], "size", (json_int_t)e->size, "mode", mode, "modifiedAt",
		api_time(e->mtime_ns / 1000000 > 0 ? e->mtime_ns / 1000000 : 1), "mtimeMs",
		(json_int_t)(e->mtime_ns / 1000000), "uid", (int)e->uid, "gid", (int)e->gid,
		"owner", who(f, e->uid), "group", who(f, e->gid), "symlinkTarget",
		e->type == WIRE_FILE_SYMLINK ? guest_name(e->target) : json_null());
}

static void entry_fini(struct sandbox_entry *e)
{
	free(e->path);
	free(e->target);
	*e = (struct sandbox_entry){0};
}

void files_stat(struct request *q)
{
	struct sandbox_entry e = {0};
	struct error err = {0};
	const char *path;
	struct files f;
	json_t *json;
	int r;

	if (!take_path(q, q->query, "path", &path) || !files_open(q, &f))
		return;
	r = sandbox_stat(f.sandbox, path, f.user.uid, &e, &err);
	if (r == -ENOENT || r == -ENOTDIR) {
		answer_json(q, 200, json_pack("{sb ss}", "exists", 0, "path", path));
	} else if (r) {
		files_failed(q, &f, r, &err);
	} else {
		json = entry_json(&f, path, &e);
		if (json)
			json_object_set_new(json, "exists", json_true());
		answer_json(q, 200, json);
	}
	entry_fini(&e);
	files_free(&f);
}

/* does any part of a relative path begin with a dot? */
static bool is_hidden(const char *path)
{
	return path[0] == '.' || strstr(path, "/.");
}

static void add_entries(struct request *q, const struct files *f, const char *root,
	const struct sandbox_entry *entries, size_t count, json_t *data)
{
	const char *glob = request_text(q->query, "glob", NULL);
	bool hidden = request_boolean(q->query, "hidden", false);
	size_t limit = (size_t)request_integer(q->query, "limit", LIST_LIMIT);
	size_t n = strlen(root);

	while (n > 1 && root[n - 1] == '/')
		n--;
	for (size_t i = 0; i < count && json_array_size(data) < limit; i++) {
		const char *name = entries[i].path;
		struct buffer path = {0};

		if ((!hidden && is_hidden(name)) || (glob && !glob_matches(glob, name)))
			continue;
		buffer_printf(&path, "%.*s/%s", n > 1 ? (int)n : 0, root, name);
		json_array_append_new(data, entry_json(f, buffer_text(&path), &entries[i]));
		buffer_fini(&path);
	}
}

void files_list(struct request *q)
{
	bool glob = request_text(q->query, "glob", NULL) != NULL;
	struct sandbox_entry *entries;
	struct error err = {0};
	const char *path;
	struct files f;
	size_t count;
	json_t *data;
	int r;

	if (!take_path(q, q->query, "path", &path) || !files_open(q, &f))
		return;
	r = sandbox_list(f.sandbox, path,
		(uint32_t)request_integer(q->query, "depth", glob ? GLOB_DEPTH : 1), WALK_MOST,
		f.user.uid, &entries, &count, &err);
	if (r) {
		files_failed(q, &f, r, &err);
	} else {
		data = json_array();
		add_entries(q, &f, path, entries, count, data);
		sandbox_entries_free(entries, count);
		answer_json(q, 200, json_pack("{so}", "data", data));
	}
	files_free(&f);
}

/* --- contents --- */

struct reading {
	struct files files;
	char *path;
	int result;
	struct error err; /* of a result that is one */
};

static int write_on(void *context, const void *bytes, size_t count)
{
	return path_write_fd(*(int *)context, bytes, count);
}

static bool produce(void *context, int fd)
{
	struct reading *r = context;

	r->result = sandbox_read_to(
		r->files.sandbox, r->path, r->files.user.uid, write_on, &fd, &r->err);
	if (r->result) /* the answer may have begun: then nobody else is told why it breaks off */
		log_debug("file: %s", error_message(&r->err));
	return r->result == 0;
}

static void reading_failed(void *context, struct request *q)
{
	struct reading *r = context;

	files_failed(q, &r->files, r->result, &r->err);
}

static void reading_free(void *context)
{
	struct reading *r = context;

	files_free(&r->files);
	free(r->path);
	free(r);
}

static void add_length(struct MHD_Response *response, uint64_t size)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
	MHD_add_response_header(response, "x-content-length", text);
}

static void answer_whole(struct request *q, struct files *f, const char *path)
{
	struct buffer bytes = {0};
	char digest[HASH_HEX_SIZE];
	struct error err = {0};
	int r = sandbox_read(f->sandbox, path, 2 * SMALL, f->user.uid, &bytes, &err);

	if (r) {
		files_failed(q, f, r, &err);
	} else {
		hash_bytes(buffer_bytes(&bytes), buffer_length(&bytes), digest);
		q->response = MHD_create_response_from_buffer(
			buffer_length(&bytes), buffer_bytes(&bytes), MHD_RESPMEM_MUST_COPY);
		if (!q->response) {
			answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		} else {
			q->status = 200;
			MHD_add_response_header(
				q->response, "Content-Type", "application/octet-stream");
			MHD_add_response_header(q->response, "x-content-sha256", digest);
			add_length(q->response, buffer_length(&bytes));
		}
	}
	buffer_fini(&bytes);
}

/* f is taken over, and empty then */
static void answer_stream(struct request *q, struct files *f, const char *path, uint64_t size)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	struct stream_source source = {.produce = produce,
		.failed = reading_failed,
		.done = reading_free,
		.context = reading,
		.type = "application/octet-stream",
		.size = (int64_t)size};
	struct MHD_Response *response;

	if (!reading || !(reading->path = strdup(path))) {
		free(reading);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	reading->files = *f;
	*f = (struct files){0};
	response = stream_answer(q, &source);
	if (response)
		add_length(response, size);
}

void files_read(struct request *q)
{
	struct sandbox_entry e = {0};
	struct error err = {0};
	const char *path;
	struct files f;
	int r;

	if (!take_path(q, q->query, "path", &path) || !files_open(q, &f))
		return;
	r = sandbox_stat(f.sandbox, path, f.user.uid, &e, &err);
	if (r)
		files_failed(q, &f, r, &err);
	else if (e.type == WIRE_FILE_DIRECTORY)
		answer_error(q, API_IS_A_DIRECTORY, NULL, "%s is a directory.", path);
	else if (e.type == WIRE_FILE_REGULAR && e.size > SMALL)
		answer_stream(q, &f, path, e.size);
	else /* a link's size is not that of what it names */
		answer_whole(q, &f, path);
	entry_fini(&e);
	files_free(&f);
}

void files_write(struct request *q)
{
	struct error err = {0};
	const char *path;
	struct files f;
	uint32_t mode;
	int r;

	if (!take_path(q, q->query, "path", &path) || !take_mode(q, q->query, MODE, &mode) ||
		!files_open(q, &f))
		return;
	r = sandbox_write(f.sandbox, path, buffer_bytes(&q->body), buffer_length(&q->body), mode,
		f.user.uid, &err);
	if (r)
		files_failed(q, &f, r, &err);
	else
		answer_json(q, 200,
			json_pack("{ss sI}", "path", path, "size",
				(json_int_t)buffer_length(&q->body)));
	files_free(&f);
}

/* --- changes --- */

void files_mkdir(struct request *q)
{
	bool parents = request_boolean(q->json, "parents", true);
	struct sandbox_entry e = {0};
	struct error err = {0};
	const char *path;
	struct files f;
	int r;

	if (!take_path(q, q->json, "path", &path) || !files_open(q, &f))
		return;
	/* without parents, what is there already is a conflict */
	r = parents ? -ENOENT : sandbox_stat(f.sandbox, path, f.user.uid, &e, &err);
	if (r == 0)
		r = error_set(&err, -EEXIST, "%s: is there already", path);
	else if (r == -ENOENT)
		r = sandbox_mkdir(f.sandbox, path, 0755, f.user.uid, &err);
	if (r)
		files_failed(q, &f, r, &err);
	else
		answer_json(q, 200, json_pack("{ss sb}", "path", path, "created", 1));
	entry_fini(&e);
	files_free(&f);
}

void files_remove(struct request *q)
{
	struct sandbox_entry e = {0};
	struct error err = {0};
	const char *path;
	struct files f;
	int r;

	if (!take_path(q, q->json, "path", &path) || !files_open(q, &f))
		return;
	r = sandbox_stat(f.sandbox, path, f.user.uid, &e, &err);
	if (r == -ENOENT) {
		answer_json(q, 200, json_pack("{ss sb}", "path", path, "removed", 0));
	} else {
		if (!r)
			r = sandbox_remove(f.sandbox, path,
				request_boolean(q->json, "recursive", false), f.user.uid, &err);
		if (r)
			files_failed(q, &f, r, &err);
		else
			answer_json(q, 200, json_pack("{ss sb}", "path", path, "removed", 1));
	}
	entry_fini(&e);
	files_free(&f);
}

void files_rename(struct request *q)
{
	bool overwrite = request_boolean(q->json, "overwrite", false);
	struct sandbox_entry e = {0};
	struct error err = {0};
	const char *from, *to;
	struct files f;
	int r;

	if (!take_path(q, q->json, "from", &from) || !take_path(q, q->json, "to", &to) ||
		!files_open(q, &f))
		return;
	r = overwrite ? -ENOENT : sandbox_stat(f.sandbox, to, f.user.uid, &e, &err);
	if (r == 0)
		r = error_set(&err, -EEXIST, "%s: is there already", to);
	else if (r == -ENOENT)
		r = sandbox_rename(f.sandbox, from, to, f.user.uid, &err);
	if (r)
		files_failed(q, &f, r, &err);
	else
		answer_json(q, 200, json_pack("{ss ss}", "from", from, "to", to));
	entry_fini(&e);
	files_free(&f);
}

void files_chmod(struct request *q)
{
	struct error err = {0};
	const char *path;
	struct files f;
	uint32_t mode;
	int r;

	if (!take_path(q, q->json, "path", &path) || !take_mode(q, q->json, MODE, &mode) ||
		!files_open(q, &f))
		return;
	r = sandbox_chmod(f.sandbox, path, mode, f.user.uid, &err);
	if (r)
		files_failed(q, &f, r, &err);
	else
		answer_json(q, 200,
			json_pack("{ss ss}", "path", path, "mode",
				request_text(q->json, "mode", "")));
	files_free(&f);
}
