/* SPDX-License-Identifier: Apache-2.0 - versions of images: made, tagged, deleted. */
#include "image/image.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * A version comes to its place by one rename of a folder that is whole and on the disk; a tag by
 * one rename of a link. One process at a time changes the folder (images/.lock). A version that is
 * deleted leaves an empty folder in one exchange, so that its number never comes again.
 */
#define STAGE ".build-"

struct change {
	char images[PATH_MAX];
	int lock; /* -1: not held */
};

static void change_end(struct change *c)
{
	close_fd(&c->lock);
}
#define cleanup_change cleanup(change_end)

static int change_begin(struct change *c, const char *home, struct error *err)
{
	char path[PATH_MAX];
	int r = image_folder(home, c->images, sizeof(c->images), err);

	if (!r)
		r = path_make(c->images, 0755, err);
	if (!r)
		r = path_join(path, sizeof(path), c->images, ".lock", err);
	if (r)
		return r;
	c->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock < 0)
		return error_sys(err, errno, "%s", path);
	while (flock(c->lock, LOCK_EX)) {
		if (errno != EINTR)
			return error_sys(err, errno, "%s", path);
	}
	return 0;
}

static int check_names(const char *name, const char *version, const char *tag, struct error *err)
{
	if (!image_is_name(name) || (version && !image_is_name(version)))
		return error_set(err, -EINVAL, "no name of an image");
	if (tag && !image_is_tag(tag))
		return error_set(err, -EINVAL,
			"tag \"%.80s\": must be of lower case letters, digits, dots, dashes, and "
			"begin with a letter",
			tag);
	return 0;
}

/* --- tags --- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void image_tags_free(char **tags)
{
	for (char **t = tags; t && *t; t++)
		free(*t);
	free(tags);
}

static bool points_at(int dir, const char *tag, const char *version)
{
	char target[IMAGE_VERSION_MAX + 2];
	ssize_t n = readlinkat(dir, tag, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = 0;
	return strcmp(target, version) == 0;
}

int image_tags(
	const char *home, const char *name, const char *version, char ***out, struct error *err)
{
	char images[PATH_MAX], folder[PATH_MAX];
	char **tags = calloc(1, sizeof(*tags)), **more;
	struct dirent *e;
	size_t count = 0;
	int r = image_folder(home, images, sizeof(images), err);

	*out = NULL;
	if (!tags)
		return error_sys(err, -ENOMEM, "%s", name);
	if (!r)
		r = path_join(folder, sizeof(folder), images, name, err);
	cleanup_dir DIR *dir = r ? NULL : opendir(folder);
	while (dir && (e = readdir(dir))) {
		if (!image_is_tag(e->d_name) || !points_at(dirfd(dir), e->d_name, version))
			continue;
		more = reallocarray(tags, count + 2, sizeof(*tags));
		if (more)
			tags = more;
		if (!more || !(tags[count] = strdup(e->d_name))) {
			image_tags_free(tags);
			return error_sys(err, -ENOMEM, "%s", name);
		}
		tags[++count] = NULL;
	}
	if (r) {
		image_tags_free(tags);
		return r;
	}
	if (count)
		qsort(tags, count, sizeof(*tags), by_text);
	*out = tags;
	return 0;
}

/* the lock is held */
static int set_tag(const struct change *c, const char *name, const char *version, const char *tag,
	struct error *err)
{
	char link[PATH_MAX], made[PATH_MAX];

	if (text_format(link, sizeof(link), "%s/%s/%s", c->images, name, tag) ||
		text_format(made, sizeof(made), "%s/%s/.tag", c->images, name))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", c->images);
	unlink(made);
	if (symlink(version, made) || rename(made, link))
		return error_sys(err, errno, "%s", link);
	return 0;
}

static int sync_folder(const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? error_sys(err, errno, "%s", path) : 0;
}

/* The folder of a name, as is or of one of its versions that must be there. */
static int find_folder(
	const struct change *c, const char *name, const char *version, char *out, struct error *err)
{
	char manifest[PATH_MAX];

	if (text_format(manifest, sizeof(manifest), "%s/%s/%s/manifest.json", c->images, name,
		    version) ||
		text_format(out, PATH_MAX, "%s/%s", c->images, name))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", c->images);
	if (access(manifest, F_OK))
		return error_set(err, -ENOENT, "image %s@%s: is not there", name, version);
	return 0;
}

int image_tag(
	const char *home, const char *name, const char *version, const char *tag, struct error *err)
{
	cleanup_change struct change c = {.lock = -1};
	char folder[PATH_MAX];
	int r = check_names(name, version, tag, err);

	r = r ? r : change_begin(&c, home, err);
	r = r ? r : find_folder(&c, name, version, folder, err);
	r = r ? r : set_tag(&c, name, version, tag, err);
	return r ? r : sync_folder(folder, err);
}

int image_untag(
	const char *home, const char *name, const char *version, const char *tag, struct error *err)
{
	cleanup_change struct change c = {.lock = -1};
	char folder[PATH_MAX];
	int r = check_names(name, version, tag, err);

	r = r ? r : change_begin(&c, home, err);
	r = r ? r : find_folder(&c, name, version, folder, err);
	if (r)
		return r;
	cleanup_close int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_sys(err, errno, "%s", folder);
	if (!points_at(dir, tag, version))
		return error_set(
			err, -ENOENT, "image %s@%s: does not have the tag %s", name, version, tag);
	if (unlinkat(dir, tag, 0) || fsync(dir))
		return error_sys(err, errno, "%s/%s", folder, tag);
	return 0;
}

/* --- deletion --- */

static void drop_tags(const char *home, const char *name, const char *version, int dir)
{
	char **tags;

	if (image_tags(home, name, version, &tags, NULL))
		return;
	for (char **t = tags; *t; t++)
		unlinkat(dir, *t, 0);
	image_tags_free(tags);
}

int image_delete(const char *home, const char *name, const char *version, struct error *err)
{
	cleanup_change struct change c = {.lock = -1};
	char folder[PATH_MAX];
	const char *grave = ".deleted";
	int r = check_names(name, version, NULL, err);

	r = r ? r : change_begin(&c, home, err);
	r = r ? r : find_folder(&c, name, version, folder, err);
	if (r)
		return r;
	cleanup_close int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_sys(err, errno, "%s", folder);
	path_remove_tree(dir, grave, NULL); /* what a killed deletion left */
	drop_tags(home, name, version, dir);
	if (mkdirat(dir, grave, 0755) || renameat2(dir, grave, dir, version, RENAME_EXCHANGE) ||
		fsync(dir))
		return error_sys(err, errno, "%s/%s", folder, version);
	return path_remove_tree(dir, grave, err);
}

/* --- new versions --- */

int image_stage(const char *home, const char *build, char *out, struct error *err)
{
	cleanup_change struct change c = {.lock = -1};
	int r = change_begin(&c, home, err);

	if (!r && text_format(out, PATH_MAX, "%s/" STAGE "%s", c.images, build))
		r = error_set(err, -ENAMETOOLONG, "%s: path is too long", c.images);
	if (!r && (mkdir(out, 0755) || chmod(out, 0755)))
		r = error_sys(err, errno, "%s", out);
	return r;
}

void image_stage_remove(const char *home, const char *build)
{
	char images[PATH_MAX], name[ID_SIZE + 16];

	if (image_folder(home, images, sizeof(images), NULL) ||
		text_format(name, sizeof(name), STAGE "%s", build))
		return;
	cleanup_close int dir = open(images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		path_remove_tree(dir, name, NULL);
}

/* One more than the highest number of a folder, whether it was deleted or not. */
static int next_version(const char *folder, uint32_t *out, struct error *err)
{
	cleanup_dir DIR *dir = opendir(folder);
	struct dirent *e;
	uint32_t n;

	*out = 1;
	if (!dir)
		return error_sys(err, errno, "%s", folder);
	while ((e = readdir(dir))) {
		if (text_u32(e->d_name, &n) == 0 && n >= *out && n < UINT32_MAX)
			*out = n + 1;
	}
	return 0;
}

static int write_manifest(const char *stage, const json_t *manifest, struct error *err)
{
	cleanup_free char *text = json_dumps(manifest, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	char path[PATH_MAX];
	int r = path_join(path, sizeof(path), stage, "manifest.json", err);

	if (r)
		return r;
	if (!text)
		return error_sys(err, -ENOMEM, "%s", path);
	r = path_write_whole(path, text, strlen(text), 0644, err);
	if (!r && chmod(path, 0644))
		r = error_sys(err, errno, "%s", path);
	return r;
}

int image_install(const char *home, const char *build, json_t *manifest, const char *const *tags,
	char *version, struct error *err)
{
	const char *name = json_string_value(json_object_get(manifest, "name"));
	cleanup_change struct change c = {.lock = -1};
	char folder[PATH_MAX], stage[PATH_MAX], target[PATH_MAX];
	uint32_t number = 0;
	int r = check_names(name, NULL, NULL, err);

	r = r ? r : change_begin(&c, home, err);
	if (!r && (text_format(folder, sizeof(folder), "%s/%s", c.images, name) ||
			  text_format(stage, sizeof(stage), "%s/" STAGE "%s", c.images, build)))
		r = error_set(err, -ENAMETOOLONG, "%s: path is too long", c.images);
	if (!r && mkdir(folder, 0755) == 0)
		chmod(folder, 0755);
	r = r ? r : next_version(folder, &number, err);
	if (r)
		return r;
	json_object_set_new(manifest, "version", json_integer(number));
	text_format(version, IMAGE_VERSION_MAX + 1, "%u", number);
	r = write_manifest(stage, manifest, err);
	if (!r && text_format(target, sizeof(target), "%s/%s", folder, version))
		r = error_set(err, -ENAMETOOLONG, "%s: path is too long", c.images);
	if (!r && rename(stage, target))
		r = error_sys(err, errno, "%s", target);
	for (const char *const *t = tags; !r && *t; t++)
		r = set_tag(&c, name, version, *t, err);
	r = r ? r : sync_folder(folder, err);
	return r ? r : sync_folder(c.images, err);
}
