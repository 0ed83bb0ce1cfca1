/* SPDX-License-Identifier: Apache-2.0 - images by reference, the list of them, their digests. */
#include "image/image.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "image/image_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST_LIMIT (8u << 20)

static void image_free_fn(struct image **image)
{
	image_free(*image);
}
#define cleanup_image cleanup(image_free_fn)

void image_free(struct image *image)
{
	if (!image)
		return;
	free(image->description);
	free(image->created);
	free(image->suite);
	free(image->user);
	free(image->cwd);
	for (size_t i = 0; i < image->env_count; i++)
		free(image->env[i]);
	free(image->env);
	for (size_t i = 0; i < image->package_count; i++) {
		free(image->packages[i].name);
		free(image->packages[i].version);
	}
	free(image->packages);
	free(image);
}

/* Lower case letters, digits, dot and dash, a letter or digit first: never a path. */
static bool is_word(const char *text, size_t most)
{
	size_t n = strlen(text);

	if (!n || n > most || text[0] == '.' || text[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (!islower(c) && !isdigit(c) && c != '.' && c != '-' && c != '_')
			return false;
	}
	return true;
}

bool image_is_name(const char *text)
{
	return is_word(text, IMAGE_NAME_MAX);
}

bool image_is_tag(const char *text)
{
	return is_word(text, IMAGE_TAG_MAX) && isalpha((unsigned char)text[0]);
}

int image_folder(const char *home, char *out, size_t size, struct error *err)
{
	char own[PATH_MAX];
	int r;

	if (!home) {
		r = path_home(own, sizeof(own), err);
		if (r)
			return r;
		home = own;
	}
	return path_join(out, size, home, "images", err);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* The words among the entries of a directory, sorted; a missing directory has none. */
static int list_words(
	const char *path, size_t most, char ***out, size_t *out_count, struct error *err)
{
	cleanup_dir DIR *dir = opendir(path);
	size_t count = 0, room = 0;
	char **names = NULL;
	struct dirent *e;

	*out = NULL;
	*out_count = 0;
	if (!dir)
		return errno == ENOENT ? 0 : error_sys(err, errno, "%s", path);
	while ((e = readdir(dir))) {
		if (!is_word(e->d_name, most))
			continue;
		if (count == room) {
			char **more;

			room = room ? 2 * room : 16;
			more = reallocarray(names, room, sizeof(names[0]));
			if (!more)
				goto no_memory;
			names = more;
		}
		names[count] = strdup(e->d_name);
		if (!names[count])
			goto no_memory;
		count++;
	}
	if (count)
		qsort(names, count, sizeof(names[0]), compare_names);
	*out = names;
	*out_count = count;
	return 0;

no_memory:
	names_free(names, count);
	return error_sys(err, -ENOMEM, "%s", path);
}

/* -ENOENT with what there is instead. */
static int no_image(const char *images, const char *reference, struct error *err)
{
	char **names = NULL;
	size_t count = 0;
	struct buffer list = {0};

	list_words(images, IMAGE_NAME_MAX, &names, &count, NULL);
	if (!count) {
		names_free(names, count);
		return error_set(err, -ENOENT,
			"image %s: there is no image in %s yet; build one with: sealmark setup",
			reference, images);
	}
	for (size_t i = 0; i < count && buffer_length(&list) < 200; i++)
		buffer_printf(&list, "%s%s", i ? ", " : "", names[i]);
	names_free(names, count);
	error_set(err, -ENOENT, "image %s: is not in %s; there is: %s (sealmark image ls)",
		reference, images, buffer_text(&list));
	buffer_fini(&list);
	return -ENOENT;
}

/* Read images/<name>/<version>; image->name and ->version are set. */
static int load(const char *images, struct image *image, struct error *err)
{
	char manifest[PATH_MAX];
	struct buffer text = {0};
	struct stat st;
	int r;

	if (text_format(image->rootfs, sizeof(image->rootfs), "%s/%s/%s/rootfs.erofs", images,
		    image->name, image->version) ||
		text_format(manifest, sizeof(manifest), "%s/%s/%s/manifest.json", images,
			image->name, image->version))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", images);
	r = path_read(manifest, MANIFEST_LIMIT, &text, err);
	if (!r)
		r = image_manifest_parse((const char *)buffer_bytes(&text), buffer_length(&text),
			image, manifest, err);
	buffer_fini(&text);
	if (r)
		return r;
	if (lstat(image->rootfs, &st))
		return error_sys(err, errno, "%s", image->rootfs);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != image->size_bytes)
		return error_set(err, -EBADMSG,
			"%s: is not the file of %llu bytes its manifest tells of (build it again: "
			"sealmark setup --force --image %s)",
			image->rootfs, (unsigned long long)image->size_bytes, image->name);
	return 0;
}

/* The version the link of a tag names. */
static int follow(const char *images, struct image *image, const char *tag, struct error *err)
{
	char path[PATH_MAX], target[IMAGE_VERSION_MAX + 2];
	ssize_t n;

	if (text_format(path, sizeof(path), "%s/%s/%s", images, image->name, tag))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", images);
	n = readlink(path, target, sizeof(target));
	if (n < 0)
		return error_sys(err, errno == EINVAL ? ENOENT : errno, "%s", path);
	if ((size_t)n > IMAGE_VERSION_MAX)
		return error_set(err, -EBADMSG, "%s: must be a link to a version beside it", path);
	target[n] = 0;
	if (!is_word(target, IMAGE_VERSION_MAX))
		return error_set(err, -EBADMSG, "%s: must be a link to a version beside it", path);
	return text_copy(image->version, sizeof(image->version), target);
}

/* Divide "name", "name:tag" or "name@version"; `tag` is "" with a version. */
static int divide(const char *reference, struct image *image, char *tag, struct error *err)
{
	size_t n = strcspn(reference, "@:");
	char mark = reference[n];
	const char *rest = mark ? reference + n + 1 : "latest";
	bool version = mark == '@' && strcmp(rest, "latest") != 0;

	tag[0] = 0;
	if (text_format(image->name, sizeof(image->name), "%.*s", (int)n, reference) ||
		text_copy(version ? image->version : tag,
			version ? sizeof(image->version) : IMAGE_TAG_MAX + 1, rest))
		return error_set(err, -EINVAL, "image %.100s...: the name is too long", reference);
	if (!is_word(image->name, IMAGE_NAME_MAX) ||
		(version ? !is_word(image->version, IMAGE_VERSION_MAX) : !image_is_tag(tag)))
		return error_set(err, -EINVAL,
			"image \"%s\": must be NAME, NAME:TAG or NAME@VERSION, of lower case "
			"letters, digits, dots, dashes",
			reference);
	return 0;
}

int image_resolve(const char *home, const char *reference, struct image **out, struct error *err)
{
	cleanup_image struct image *image = calloc(1, sizeof(*image));
	char images[PATH_MAX], folder[PATH_MAX], tag[IMAGE_TAG_MAX + 1];
	struct stat st;
	int r;

	if (!image)
		return error_sys(err, -ENOMEM, "image %s", reference);
	r = divide(reference, image, tag, err);
	if (!r)
		r = image_folder(home, images, sizeof(images), err);
	if (r)
		return r;
	if (tag[0]) {
		r = path_join(folder, sizeof(folder), images, image->name, err);
		if (r)
			return r;
		if (stat(folder, &st))
			return no_image(images, reference, err);
		r = follow(images, image, tag, err);
		if (r == -ENOENT)
			return no_image(images, reference, err);
		if (r)
			return r;
	}
	if (text_format(folder, sizeof(folder), "%s/%s/%s/manifest.json", images, image->name,
		    image->version))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", images);
	if (stat(folder, &st))
		return no_image(images, reference, err);
	r = load(images, image, err);
	if (r)
		return r;
	*out = steal_ptr(&image);
	return 0;
}

/* A version that was deleted is an empty folder; a tag is a link. */
static bool is_gone(const char *folder, const char *version)
{
	char path[PATH_MAX];
	struct stat st;

	if (text_format(path, sizeof(path), "%s/%s", folder, version) || lstat(path, &st) ||
		!S_ISDIR(st.st_mode))
		return true;
	cleanup_dir DIR *dir = opendir(path);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			return false;
	}
	return dir != NULL;
}

/* Newest version first: numbers by value, before anything else by name. */
static int compare_versions(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return strverscmp(y, x);
}

static int list_versions(const char *images, const char *name, struct image ***list, size_t *count,
	struct error *err)
{
	char folder[PATH_MAX];
	char **versions;
	size_t n;
	int r = path_join(folder, sizeof(folder), images, name, err);

	if (!r)
		r = list_words(folder, IMAGE_VERSION_MAX, &versions, &n, err);
	if (r == -ENOTDIR && err)
		*err = (struct error){0}; /* a file among the images is no image */
	if (r)
		return r == -ENOTDIR ? 0 : r;
	if (n)
		qsort(versions, n, sizeof(versions[0]), compare_versions);
	for (size_t i = 0; i < n; i++) {
		cleanup_image struct image *image = calloc(1, sizeof(*image));
		struct error why = {0};
		struct image **more;

		if (is_gone(folder, versions[i]))
			continue;
		more = reallocarray(*list, *count + 1, sizeof(**list));
		if (more)
			*list = more;
		if (!image || !more) {
			r = error_sys(err, -ENOMEM, "%s", folder);
			break;
		}
		text_copy(image->name, sizeof(image->name), name);
		text_copy(image->version, sizeof(image->version), versions[i]);
		if (load(images, image, &why)) {
			image->digest[0] = 0;
			free(image->description);
			image->description = strdup(error_message(&why));
		}
		(*list)[(*count)++] = steal_ptr(&image);
	}
	names_free(versions, n);
	return r;
}

int image_list(const char *home, struct image ***out, size_t *count, struct error *err)
{
	char images[PATH_MAX];
	char **names;
	size_t n;
	int r = image_folder(home, images, sizeof(images), err);

	*out = NULL;
	*count = 0;
	if (!r)
		r = list_words(images, IMAGE_NAME_MAX, &names, &n, err);
	if (r)
		return r;
	for (size_t i = 0; i < n && !r; i++)
		r = list_versions(images, names[i], out, count, err);
	names_free(names, n);
	if (r) {
		image_list_free(*out, *count);
		*out = NULL;
		*count = 0;
	}
	return r;
}

void image_list_free(struct image **images, size_t count)
{
	for (size_t i = 0; i < count; i++)
		image_free(images[i]);
	free(images);
}

int image_verify(const struct image *image, struct error *err)
{
	cleanup_close int fd = open(image->rootfs, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char digest[HASH_HEX_SIZE];
	int r;

	if (fd < 0)
		return error_sys(err, errno, "%s", image->rootfs);
	r = hash_fd(fd, digest);
	if (r)
		return error_sys(err, r, "%s", image->rootfs);
	if (strcmp(digest, image->digest) != 0)
		return error_set(err, -EBADMSG,
			"%s: is not what was built: digest %s, its manifest says %s (build it "
			"again: "
			"sealmark setup --force --image %s)",
			image->rootfs, digest, image->digest, image->name);
	return 0;
}
