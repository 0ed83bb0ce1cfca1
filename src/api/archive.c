/* SPDX-License-Identifier: Apache-2.0 - .../files/archive: folders as tar, packed and unpacked. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/*
 * The guest packs and unpacks; here the stream is only compressed or decompressed (libarchive's
 * "raw" format: a filter, and one entry without a name). A bomb is bounded by the sandbox's disk.
 */

/* --- out --- */

#define EXCLUDES_MOST 256

struct packing {
	struct sandbox *sandbox;
	char *path;
	json_t *query;
	const char *exclude[EXCLUDES_MOST + 1]; /* of the query */
	uint32_t as;
	bool gzip;
	const struct store_sandbox *record; /* until the answer has begun */
	int result;
	struct error err; /* of a result that is one */
};

static void packing_free(void *context)
{
	struct packing *p = context;

	sandbox_free(p->sandbox);
	free(p->path);
	json_decref(p->query);
	free(p);
}

static int write_plain(void *context, const void *bytes, size_t count)
{
	return path_write_fd(*(int *)context, bytes, count);
}

/* The compressor's way out. It is never told of a failure: the library forgets to free the filter
 * of an archive that has failed, which cost a quarter of a MiB each time. */
struct outlet {
	struct archive *archive;
	int fd;
	bool over; /* nobody takes it: what still comes is dropped */
};

static la_ssize_t let_out(struct archive *a, void *context, const void *bytes, size_t count)
{
	struct outlet *o = context;

	if (!o->over && path_write_fd(o->fd, bytes, count))
		o->over = true;
	return (la_ssize_t)count;
}

static int write_packed(void *context, const void *bytes, size_t count)
{
	struct outlet *o = context;

	if (archive_write_data(o->archive, bytes, count) != (la_ssize_t)count)
		o->over = true;
	return o->over ? -EPIPE : 0;
}

static struct archive *compressor(struct outlet *out)
{
	struct archive *a = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	bool fine = a && entry && archive_write_set_format_raw(a) == ARCHIVE_OK &&
		    archive_write_add_filter_gzip(a) == ARCHIVE_OK &&
		    archive_write_set_options(a, "gzip:compression-level=1") == ARCHIVE_OK &&
		    archive_write_set_bytes_in_last_block(a, 1) == ARCHIVE_OK &&
		    archive_write_open(a, out, NULL, let_out, NULL) == ARCHIVE_OK;

	if (fine) {
		archive_entry_set_filetype(entry, AE_IFREG);
		fine = archive_write_header(a, entry) == ARCHIVE_OK;
	}
	archive_entry_free(entry);
	if (!fine) {
		archive_write_free(a);
		return NULL;
	}
	return a;
}

static int produce_packed(struct packing *p, int fd)
{
	struct outlet out = {.fd = fd};
	int r;

	out.archive = compressor(&out);
	if (!out.archive)
		return error_set(&p->err, -ENOMEM, "out of memory");
	r = sandbox_get_tar(p->sandbox, p->path, p->exclude, p->as, write_packed, &out, &p->err);
	out.over |= r != 0; /* no end that looks like one */
	if ((archive_write_close(out.archive) != ARCHIVE_OK || out.over) && !r)
		r = error_set(&p->err, -EIO, "%s: cannot be packed", p->path);
	archive_write_free(out.archive);
	return r;
}

static bool produce(void *context, int fd)
{
	struct packing *p = context;

	p->result = p->gzip ? produce_packed(p, fd)
			    : sandbox_get_tar(p->sandbox, p->path, p->exclude, p->as, write_plain,
				      &fd, &p->err);
	if (p->result) /* the answer may have begun: then nobody else is told why it breaks off */
		log_debug("archive: %s", error_message(&p->err));
	return p->result == 0;
}

static void packing_failed(void *context, struct request *q)
{
	struct packing *p = context;

	life_failure(q, p->record, p->result, &p->err, true);
}

/* is it a folder that this user may look into? */
static bool check_folder(
	struct request *q, const struct store_sandbox *record, const struct packing *p)
{
	struct sandbox_entry e = {0};
	struct error err = {0};
	int r = sandbox_stat(p->sandbox, p->path, p->as, &e, &err);

	if (!r && e.type != WIRE_FILE_DIRECTORY)
		r = error_set(&err, -ENOTDIR, "%s: is not a directory", p->path);
	if (r)
		life_failure(q, record, r, &err, true);
	free(e.path);
	free(e.target);
	return !r;
}

static bool is_root(const struct request *q)
{
	return strcmp(request_text(q->query, "user", "sandbox"), "root") == 0;
}

/* "a/b": relative, and within the folder */
static bool is_relative(const char *path)
{
	if (*path == '/')
		return false;
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n > NAME_MAX || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += n;
		path += *path == '/';
	}
	return true;
}

/* false: answered */
static bool take_excludes(struct request *q, struct packing *p)
{
	const json_t *list, *text;
	size_t i, size = 0;

	p->query = json_incref(q->query);
	list = json_object_get(q->query, "exclude");
	json_array_foreach (list, i, text) {
		if (i == EXCLUDES_MOST)
			break;
		p->exclude[i] = json_string_value(text);
		size += json_string_length(text) + 1;
		if (is_relative(p->exclude[i]) && size <= WIRE_EXCLUDE_MOST)
			continue;
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "exclude", "message",
				"must be paths below the folder, of 8192 bytes in all"),
			"exclude must be paths below the folder, of 8192 bytes in all.");
		return false;
	}
	return true;
}

void archive_get(struct request *q)
{
	const char *path = request_text(q->query, "path", "");
	struct packing *p = calloc(1, sizeof(*p));
	struct stream_source source = {.produce = produce,
		.failed = packing_failed,
		.done = packing_free,
		.context = p,
		.type = "application/x-tar",
		.size = -1};
	struct store_sandbox record = {0};
	struct sandbox_user user;
	json_t *spec;

	if (!p || !(p->path = strdup(path))) {
		free(p);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	p->gzip = request_boolean(q->query, "gzip", false);
	if (p->gzip)
		source.type = "application/gzip";
	if (path[0] != '/')
		answer_error(q, API_INVALID_REQUEST, NULL, "path must be an absolute path.");
	else if (take_excludes(q, p))
		p->sandbox = life_attach(q, &record);
	p->record = &record;
	if (p->sandbox) {
		spec = json_loads(record.spec, 0, NULL);
		sandbox_user(spec, is_root(q), &user);
		json_decref(spec);
		p->as = user.uid;
	}
	if (p->sandbox && check_folder(q, &record, p))
		stream_answer(q, &source);
	else
		packing_free(p);
	store_sandbox_fini(&record);
}

/* --- in --- */

struct unpacking {
	struct archive *archive;
	uint64_t left; /* bytes that may still come out */
	bool broken, too_large;
};

static int next(void *context, const void **bytes, size_t *count)
{
	struct unpacking *u = context;
	la_int64_t offset;
	int r;

	do {
		r = archive_read_data_block(u->archive, bytes, count, &offset);
	} while (r == ARCHIVE_OK && *count == 0);
	if (r == ARCHIVE_EOF)
		return 0;
	u->broken = r != ARCHIVE_OK;
	u->too_large = !u->broken && *count > u->left;
	if (u->broken || u->too_large)
		return u->broken ? -EBADMSG : -EFBIG;
	u->left -= *count;
	return 1;
}

static struct archive *decompressor(const struct unpack *unpack)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;

	if (a && archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
		archive_read_support_format_raw(a) == ARCHIVE_OK &&
		(unpack->bytes ? archive_read_open_memory(a, unpack->bytes, unpack->count)
			       : archive_read_open_fd(a, unpack->fd, 65536)) == ARCHIVE_OK &&
		archive_read_next_header(a, &entry) == ARCHIVE_OK)
		return a;
	archive_read_free(a);
	return NULL;
}

static int put(struct sandbox *s, const struct unpack *unpack, struct unpacking *u,
	const struct sandbox_user *user, struct error *err)
{
	int r;

	u->archive = decompressor(unpack);
	if (!u->archive)
		return error_set(err, -EBADMSG, "this is neither tar nor gzip");
	r = sandbox_put_tar_from(s, unpack->path, next, u, user->uid, user->gid, err);
	archive_read_free(u->archive);
	if (u->broken)
		return error_set(err, -EBADMSG, "the archive is damaged");
	if (u->too_large)
		return error_set(err, -EFBIG, "the archive is larger than the sandbox's disk");
	/* what the guest's own reader does not take */
	return r == -EPROTO || r == -EILSEQ ? -EBADMSG : r;
}

void archive_unpack(struct request *q, const struct unpack *unpack)
{
	struct unpacking u = {0};
	struct store_sandbox record;
	struct sandbox_user user;
	struct error err = {0};
	struct sandbox *s;
	json_t *spec;
	int r;

	s = life_attach(q, &record);
	if (!s)
		return;
	spec = json_loads(record.spec, 0, NULL);
	sandbox_user(spec, unpack->root, &user);
	u.left = (uint64_t)record.disk_mib << 20;
	r = put(s, unpack, &u, &user, &err);
	if (r)
		life_failure(q, &record, r, &err, true);
	else
		answer_json(q, 200, json_pack("{ss sb}", "path", unpack->path, "unpacked", 1));
	json_decref(spec);
	sandbox_free(s);
	store_sandbox_fini(&record);
}

void archive_put(struct request *q)
{
	const struct unpack unpack = {.path = request_text(q->query, "path", ""),
		.root = is_root(q),
		.bytes = buffer_bytes(&q->body),
		.count = buffer_length(&q->body),
		.fd = -1};

	if (unpack.path[0] != '/')
		answer_error(q, API_INVALID_REQUEST, NULL, "path must be an absolute path.");
	else if (!unpack.count)
		answer_error(q, API_INVALID_REQUEST, NULL, "The archive is empty.");
	else
		archive_unpack(q, &unpack);
}
