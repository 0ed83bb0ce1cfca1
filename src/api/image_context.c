/* SPDX-License-Identifier: Apache-2.0 - contexts of builds: pieces by their digest. */
#include "api/builds.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * A client packs a folder, cuts the archive into pieces of 1 MiB and sends those that are not here
 * yet. A piece is kept for a day after it was last asked for.
 */
#define FOLDER      "context"
#define KEPT_S      (24 * 3600)
#define PIECES_MOST 4096u /* 4 GiB of all keys together */

static bool is_digest(const char *text)
{
	return strlen(text) == HASH_HEX_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

int context_file(struct api_server *server, const char *digest, char *path, struct error *err)
{
	if (!is_digest(digest))
		return error_set(err, -EINVAL, "is no SHA-256");
	return text_format(path, PATH_MAX, "%s/" FOLDER "/%s", server->home, digest)
		       ? error_set(err, -ENAMETOOLONG, "home is too long")
		       : 0;
}

/* Remove what is old; how many stay. */
static size_t sweep(struct api_server *server)
{
	time_t before = time(NULL) - KEPT_S;
	char folder[PATH_MAX];
	struct dirent *e;
	struct stat st;
	size_t kept = 0;

	if (path_join(folder, sizeof(folder), server->home, FOLDER, NULL))
		return 0;
	cleanup_dir DIR *dir = opendir(folder);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (st.st_mtime < before)
			unlinkat(dirfd(dir), e->d_name, 0);
		else
			kept++;
	}
	return kept;
}

void context_sweep(struct api_server *server)
{
	sweep(server);
}

void context_missing(struct request *q)
{
	const json_t *digests = json_object_get(q->json, "digests");
	json_t *missing = json_array(), *item;
	char path[PATH_MAX];
	size_t i;

	sweep(q->server);
	json_array_foreach (digests, i, item) {
		if (context_file(q->server, json_string_value(item), path, NULL)) {
			json_decref(missing);
			answer_error(q, API_INVALID_REQUEST,
				json_pack("{s[{ss ss}]}", "issues", "path", "digests", "message",
					"must be SHA-256 digests in lower case hexadecimal"),
				"digests must be SHA-256 digests.");
			return;
		}
		/* those that are here stay for another day */
		if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW))
			json_array_append(missing, item);
	}
	answer_json(q, 200, json_pack("{so}", "missing", missing));
}

void context_put(struct request *q)
{
	char path[PATH_MAX], folder[PATH_MAX], hex[HASH_HEX_SIZE];
	struct error err = {0};
	int r;

	hash_bytes(buffer_length(&q->body) ? buffer_bytes(&q->body) : (const void *)"",
		buffer_length(&q->body), hex);
	if (strcmp(hex, q->params[0]) != 0) {
		answer_error(q, API_INVALID_REQUEST, NULL,
			"These bytes do not have the SHA-256 of their address.");
		return;
	}
	if (sweep(q->server) >= PIECES_MOST) {
		answer_error(q, API_QUOTA_EXCEEDED, NULL,
			"There are too many pieces of contexts; they go after a day.");
		return;
	}
	r = path_join(folder, sizeof(folder), q->server->home, FOLDER, &err);
	r = r ? r : path_make(folder, 0700, &err);
	r = r ? r : context_file(q->server, hex, path, &err);
	r = r ? r
	      : path_write_whole(path, buffer_bytes(&q->body), buffer_length(&q->body), 0600, &err);
	if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200,
			json_pack("{ss sI}", "sha256", hex, "size",
				(json_int_t)buffer_length(&q->body)));
}
