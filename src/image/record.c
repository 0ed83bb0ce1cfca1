/* SPDX-License-Identifier: Apache-2.0 - the records of builds: state, log, what dead ones left. */
#include "image/build.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define RECORD_MOST (1u << 20)
#define LINE_MOST   4096u

struct image_build {
	char home[PATH_MAX], folder[PATH_MAX];
	char id[ID_SIZE];
	pthread_mutex_t lock; /* of what follows */
	json_t *about;
	int lock_fd, log_fd;
	uint64_t lines, log_bytes;
};

static const char *const state_names[] = {"queued", "building", "ready", "failed"};
static_assert(ARRAY_SIZE(state_names) == IMAGE_BUILD_FAILED + 1, "a name for each state");

const char *image_build_state_name(enum image_build_state state)
{
	return state_names[state];
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_id(const char *text)
{
	return id_is_like(text) && text[8] == '-';
}

static int builds_folder(const char *home, char *out, struct error *err)
{
	char own[PATH_MAX];
	int r = 0;

	if (!home) {
		r = path_home(own, sizeof(own), err);
		home = own;
	}
	return r ? r : path_join(out, PATH_MAX, home, "builds", err);
}

static int build_folder(const char *home, const char *id, char *out, struct error *err)
{
	char builds[PATH_MAX];
	int r = builds_folder(home, builds, err);

	if (!r && !is_id(id))
		return error_set(err, -ENOENT, "build %.60s: there is none", id);
	return r ? r : path_join(out, PATH_MAX, builds, id, err);
}

/* --- one record --- */

static int write_record(struct image_build *b, struct error *err)
{
	cleanup_free char *text = json_dumps(b->about, JSON_INDENT(1) | JSON_ENSURE_ASCII);
	char path[PATH_MAX];
	int r = path_join(path, sizeof(path), b->folder, "record.json", err);

	if (r)
		return r;
	return text ? path_write_whole(path, text, strlen(text), 0600, err)
		    : error_sys(err, -ENOMEM, "%s", path);
}

static int open_files(struct image_build *b, struct error *err)
{
	cleanup_close int dir = open(b->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0) {
		b->lock_fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		b->log_fd = openat(
			dir, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (dir < 0 || b->lock_fd < 0 || b->log_fd < 0 || flock(b->lock_fd, LOCK_EX | LOCK_NB))
		return error_sys(err, errno, "%s", b->folder);
	return 0;
}

int image_build_new(const char *home, json_t *about, struct image_build **out, struct error *err)
{
	struct image_build *b = calloc(1, sizeof(*b));
	char builds[PATH_MAX];
	int r;

	*out = NULL;
	if (!b)
		return error_sys(err, -ENOMEM, "build");
	b->lock_fd = b->log_fd = -1;
	pthread_mutex_init(&b->lock, NULL);
	id_uuid(b->id);
	b->about = json_incref(about);
	r = home ? text_copy(b->home, sizeof(b->home), home)
		 : path_home(b->home, sizeof(b->home), err);
	r = r ? r : builds_folder(b->home, builds, err);
	r = r ? r : path_make(builds, 0700, err);
	r = r ? r : build_folder(b->home, b->id, b->folder, err);
	if (!r && mkdir(b->folder, 0700))
		r = error_sys(err, errno, "%s", b->folder);
	r = r ? r : open_files(b, err);
	if (!r && (json_object_set_new(about, "id", json_string(b->id)) ||
			  json_object_set_new(about, "createdMs", json_integer(now_ms()))))
		r = error_sys(err, -ENOMEM, "build");
	r = r ? r : image_build_set(b, IMAGE_BUILD_QUEUED, NULL, err);
	if (r) {
		image_build_free(b);
		return r;
	}
	*out = b;
	return 0;
}

void image_build_free(struct image_build *b)
{
	if (!b)
		return;
	close_fd(&b->lock_fd);
	close_fd(&b->log_fd);
	json_decref(b->about);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

const char *image_build_id(const struct image_build *b)
{
	return b->id;
}

const char *image_build_home(const struct image_build *b)
{
	return b->home;
}

json_t *image_build_about(struct image_build *b)
{
	json_t *copy;

	pthread_mutex_lock(&b->lock);
	copy = json_deep_copy(b->about);
	pthread_mutex_unlock(&b->lock);
	return copy;
}

int image_build_set(
	struct image_build *b, enum image_build_state state, json_t *more, struct error *err)
{
	static const char *const stamps[] = {NULL, "startedMs", "endedMs", "endedMs"};
	int r = 0;

	pthread_mutex_lock(&b->lock);
	if (json_object_set_new(b->about, "state", json_string(state_names[state])) ||
		(stamps[state] &&
			json_object_set_new(b->about, stamps[state], json_integer(now_ms()))) ||
		(more && json_object_update(b->about, more)))
		r = error_sys(err, -ENOMEM, "build");
	r = r ? r : write_record(b, err);
	pthread_mutex_unlock(&b->lock);
	json_decref(more);
	return r;
}

int image_build_fail(struct image_build *b, const char *why, struct error *err)
{
	return image_build_set(b, IMAGE_BUILD_FAILED, json_pack("{ss}", "error", why), err);
}

/* --- the log --- */

static void add_line(struct image_build *b, const char *stream, const char *text)
{
	char at[CLOCK_STAMP_SIZE];
	cleanup_free char *line = NULL;
	json_t *json;

	clock_stamp(at);
	json = json_pack("{sI ss ss ss}", "seq", (json_int_t)++b->lines, "at", at, "stream", stream,
		"text", text);
	line = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(json);
	if (!line)
		return;
	b->log_bytes += strlen(line) + 1;
	/* a log that cannot be written does not end a build */
	if (path_write_fd(b->log_fd, line, strlen(line)) == 0)
		(void)path_write_fd(b->log_fd, "\n", 1);
}

void image_build_say(struct image_build *b, const struct image_machine *machine, const char *stream,
	const char *text)
{
	struct buffer safe = {0};
	const char *line;

	text_add_safe(&safe, text, strnlen(text, LINE_MOST), false);
	line = buffer_text(&safe);
	pthread_mutex_lock(&b->lock);
	if (line && b->log_bytes < IMAGE_LOG_MOST) {
		add_line(b, stream, line);
		if (b->log_bytes >= IMAGE_LOG_MOST)
			add_line(b, "system", "the log is full; what follows is not kept");
	}
	pthread_mutex_unlock(&b->lock);
	if (line && machine && machine->on_line)
		machine->on_line(machine->context, stream, line);
	buffer_fini(&safe);
}

int image_build_log(const char *home, const char *id, char *out, struct error *err)
{
	char folder[PATH_MAX];
	int r = build_folder(home, id, folder, err);

	return r ? r : path_join(out, PATH_MAX, folder, "log", err);
}

/* --- all records --- */

int image_build_read(const char *home, const char *id, json_t **out, struct error *err)
{
	char folder[PATH_MAX], path[PATH_MAX];
	struct buffer text = {0};
	json_error_t where;
	int r = build_folder(home, id, folder, err);

	*out = NULL;
	r = r ? r : path_join(path, sizeof(path), folder, "record.json", err);
	r = r ? r : path_read(path, RECORD_MOST, &text, err);
	if (!r) {
		*out = json_loadb((const char *)buffer_bytes(&text), buffer_length(&text),
			JSON_REJECT_DUPLICATES, &where);
		if (!json_is_object(*out) || !json_is_string(json_object_get(*out, "state")) ||
			!json_is_string(json_object_get(*out, "name")) ||
			!json_is_string(json_object_get(*out, "id"))) {
			json_decref(*out);
			*out = NULL;
			r = error_set(err, -EBADMSG, "%s: is damaged", path);
		}
	}
	buffer_fini(&text);
	return r;
}

static int64_t created(const json_t *about)
{
	return json_integer_value(json_object_get(about, "createdMs"));
}

static int by_age(const void *a, const void *b)
{
	int64_t x = created(*(json_t *const *)a), y = created(*(json_t *const *)b);

	return x < y ? -1 : x > y;
}

int image_builds(const char *home, json_t **out_list, struct error *err)
{
	char folder[PATH_MAX];
	json_t **all = NULL, **more, *list = json_array();
	struct dirent *e;
	size_t count = 0;
	int r = builds_folder(home, folder, err);

	*out_list = NULL;
	cleanup_dir DIR *dir = r ? NULL : opendir(folder);
	while (dir && !r && (e = readdir(dir))) {
		json_t *about;

		/* one that is just being made or forgotten has no record */
		if (!is_id(e->d_name) || image_build_read(home, e->d_name, &about, NULL))
			continue;
		more = reallocarray(all, count + 1, sizeof(*all));
		if (!more) {
			json_decref(about);
			r = error_sys(err, -ENOMEM, "%s", folder);
			break;
		}
		all = more;
		all[count++] = about;
	}
	if (count)
		qsort(all, count, sizeof(*all), by_age);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, all[i]);
	free(all);
	if (!r && !list)
		r = error_sys(err, -ENOMEM, "%s", folder);
	if (r)
		json_decref(list);
	else
		*out_list = list;
	return r;
}

/* The lock of a build: held by its process, so that having it means that nobody works on it. */
static int take_lock(const char *folder)
{
	char path[PATH_MAX];
	int fd;

	if (path_join(path, sizeof(path), folder, "lock", NULL))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB))
		close_fd(&fd);
	return fd;
}

static bool is_over(const json_t *about)
{
	const char *state = json_string_value(json_object_get(about, "state"));

	return strcmp(state, "ready") == 0 || strcmp(state, "failed") == 0;
}

int image_build_forget(const char *home, const char *id, struct error *err)
{
	char folder[PATH_MAX], builds[PATH_MAX];
	int r = build_folder(home, id, folder, err);

	r = r ? r : builds_folder(home, builds, err);
	if (r)
		return r;
	cleanup_close int lock = take_lock(folder);
	if (lock < 0 && access(folder, F_OK) == 0)
		return error_set(err, -EBUSY, "build %s: is at work", id);
	cleanup_close int dir = open(builds, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? error_sys(err, errno, "%s", builds) : path_remove_tree(dir, id, err);
}

/* The version may be there already, when the process died before it said so. */
static int settle_left(
	const char *home, const char *id, json_t *about, const char *folder, struct error *err)
{
	struct image_build b = {.about = about, .lock = PTHREAD_MUTEX_INITIALIZER};
	enum image_build_state state = IMAGE_BUILD_FAILED;
	struct image **images;
	json_t *more = NULL;
	size_t count;
	int r = image_list(home, &images, &count, err);

	if (r)
		return r;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(images[i]->id, id) != 0)
			continue;
		state = IMAGE_BUILD_READY;
		more = json_pack("{ss}", "version", images[i]->version);
	}
	image_list_free(images, count);
	if (state == IMAGE_BUILD_FAILED)
		more = json_pack("{ss}", "error",
			"Its host or server stopped while it was built; build it again.");
	text_copy(b.folder, sizeof(b.folder), folder);
	return image_build_set(&b, state, more, err);
}

/* A folder without a record, of a process that died as it made it. */
static void sweep_empty(const char *home)
{
	char builds[PATH_MAX], folder[PATH_MAX];
	struct dirent *e;
	struct stat st;

	if (builds_folder(home, builds, NULL))
		return;
	cleanup_dir DIR *dir = opendir(builds);
	while (dir && (e = readdir(dir))) {
		json_t *about;

		if (!is_id(e->d_name))
			continue;
		if (image_build_read(home, e->d_name, &about, NULL) == 0) {
			json_decref(about);
			continue;
		}
		if (path_join(folder, sizeof(folder), builds, e->d_name, NULL) == 0 &&
			stat(folder, &st) == 0 && st.st_mtime < time(NULL) - 60)
			path_remove_tree(dirfd(dir), e->d_name, NULL);
	}
}

int image_builds_sweep(const char *home, int64_t before_ms, struct error *err)
{
	json_t *list, *about;
	size_t i;
	int r = image_builds(home, &list, err);

	json_array_foreach (list, i, about) {
		const char *id = json_string_value(json_object_get(about, "id"));
		const char *state = json_string_value(json_object_get(about, "state"));
		char folder[PATH_MAX];

		if (r || build_folder(home, id, folder, NULL))
			continue;
		cleanup_close int lock = take_lock(folder);
		if (lock < 0)
			continue;
		image_stage_remove(home, id);
		if (!is_over(about))
			r = settle_left(home, id, about, folder, err);
		else if (strcmp(state, "failed") == 0 && created(about) < before_ms)
			image_build_forget(home, id, NULL);
	}
	json_decref(list);
	sweep_empty(home);
	return r;
}

int image_built_bytes(const char *home, uint64_t *out, struct error *err)
{
	struct image **images;
	size_t count;
	int r = image_list(home, &images, &count, err);

	*out = 0;
	if (r)
		return r;
	for (size_t i = 0; i < count; i++)
		*out += images[i]->id[0] ? images[i]->size_bytes : 0;
	image_list_free(images, count);
	return 0;
}
