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
 * yet. A piece is kept for a day after it was last asked for. Each key has pieces of its own: what
 * another has sent is not to be found out, and nobody takes the place of others.
 */
#define FOLDER      "context"
#define KEPT_S      (24 * 3600)
#define PIECES_MOST 1024u /* of one key: 1 GiB */

static bool is_digest(const char *text)
{
	return strlen(text) == HASH_HEX_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

static int key_folder(struct api_server *server, const char *owner, char *path, struct error *err)
{
	return text_format(path, PATH_MAX, "%s/" FOLDER "/%s", server->home, owner)
		       ? error_set(err, -ENAMETOOLONG, "home is too long")
		       : 0;
}

int context_file(struct api_server *server, const char *owner, const char *digest, char *path,
	struct error *err)
{
	if (!is_digest(digest))
		return error_set(err, -EINVAL, "is no SHA-256");
	return text_format(path, PATH_MAX, "%s/" FOLDER "/%s/%s", server->home, owner, digest)
		       ? error_set(err, -ENAMETOOLONG, "home is too long")
		       : 0;
}

/* Remove what is old in a folder; how many stay. */
static size_t sweep_folder(int fd)
{
	time_t before = time(NULL) - KEPT_S;
	cleanup_dir DIR *dir = fdopendir(fd);
	struct dirent *e;
	struct stat st;
	size_t kept = 0;

	if (!dir)
		close(fd);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode) && st.st_mtime < before)
			unlinkat(dirfd(dir), e->d_name, 0);
		else
			kept++;
	}
	return kept;
}

static size_t sweep(struct api_server *server, const char *owner)
{
	char folder[PATH_MAX];
	int fd = -1;

	if (key_folder(server, owner, folder, NULL) == 0)
		fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? 0 : sweep_folder(fd);
}

void context_sweep(struct api_server *server)
{
	char path[PATH_MAX];
	struct dirent *e;
	int fd;

	if (path_join(path, sizeof(path), server->home, FOLDER, NULL))
		return;
	cleanup_dir DIR *dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			sweep_folder(fd);
		else if (errno == ENOTDIR) /* a piece, as they once lay */
			unlinkat(dirfd(dir), e->d_name, 0);
	}
}

void context_missing(struct request *q)
{
	const json_t *digests = json_object_get(q->json, "digests");
	json_t *missing = json_array(), *item;
	char path[PATH_MAX];
	size_t i;

	sweep(q->server, q->key.id);
	json_array_foreach (digests, i, item) {
		if (context_file(q->server, q->key.id, json_string_value(item), path, NULL)) {
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
	if (sweep(q->server, q->key.id) >= PIECES_MOST) {
		answer_error(q, API_QUOTA_EXCEEDED, NULL,
			"There are too many pieces of contexts of this key; they go after a day.");
		return;
	}
	r = key_folder(q->server, q->key.id, folder, &err);
	r = r ? r : path_make(folder, 0700, &err);
	r = r ? r : context_file(q->server, q->key.id, hex, path, &err);
	r = r ? r
	      : path_write_whole(path, buffer_bytes(&q->body), buffer_length(&q->body), 0600, &err);
	if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200,
			json_pack("{ss sI}", "sha256", hex, "size",
				(json_int_t)buffer_length(&q->body)));
}
