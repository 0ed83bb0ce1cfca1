/* SPDX-License-Identifier: Apache-2.0 - finds where this process may make cgroups. */
#include "jail/cgroup_internal.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define PROC_FILE_MOST (1u << 20)

static const char *const controllers[CGROUP_ROLES] = {"memory", "pids", "cpuacct", "cpu"};

/* A mounted hierarchy: where, which part of it, and the options with its controllers. */
struct mount {
	char point[384], root[384], options[256];
	bool unified;
};

/* Is `word` one of the words of `list`, which `separator` separates? */
static bool has_word(const char *list, const char *word, char separator)
{
	size_t n = strlen(word);

	while (list && *list) {
		if (strncmp(list, word, n) == 0 &&
			(list[n] == 0 || list[n] == separator || list[n] == '\n'))
			return true;
		list = strchr(list, separator);
		if (list)
			list++;
	}
	return false;
}

/* Paths in mountinfo have blanks and the like as \040. */
static int unescape(char *out, size_t size, const char *text)
{
	size_t n = 0;

	while (*text) {
		char c = *text++;

		if (c == '\\' && text[0] >= '0' && text[0] <= '3' && text[1] >= '0' &&
			text[1] <= '7' && text[2] >= '0' && text[2] <= '7') {
			c = (char)((text[0] - '0') * 64 + (text[1] - '0') * 8 + (text[2] - '0'));
			text += 3;
		}
		if (n + 1 >= size)
			return -ENAMETOOLONG;
		out[n++] = c;
	}
	out[n] = 0;
	return 0;
}

/* "id parent dev root point options… - type source superoptions"; false when it is no cgroup */
static bool parse_mount(char *line, struct mount *out)
{
	enum { ROOT = 3, POINT = 4 };
	char *after = strstr(line, " - "), *fields[POINT + 1], *type, *options;

	if (!after)
		return false;
	*after = 0;
	after += 3;
	for (int i = 0; i <= POINT; i++)
		fields[i] = strsep(&line, " ");
	type = strsep(&after, " ");
	strsep(&after, " ");
	options = strsep(&after, " ");
	if (!fields[POINT] || !type || !options)
		return false;
	out->unified = strcmp(type, "cgroup2") == 0;
	if (!out->unified && strcmp(type, "cgroup") != 0)
		return false;
	return !unescape(out->root, sizeof(out->root), fields[ROOT]) &&
	       !unescape(out->point, sizeof(out->point), fields[POINT]) &&
	       !text_copy(out->options, sizeof(out->options), options);
}

/* The mount of v2, or of the v1 hierarchy with `controller`. */
static bool find_mount(
	const char *mountinfo, bool unified, const char *controller, struct mount *out)
{
	char line[4096];

	while (*mountinfo) {
		size_t n = strcspn(mountinfo, "\n");

		if (n < sizeof(line)) {
			memcpy(line, mountinfo, n);
			line[n] = 0;
			if (parse_mount(line, out) && out->unified == unified &&
				(unified || has_word(out->options, controller, ',')))
				return true;
		}
		mountinfo += n + (mountinfo[n] == '\n');
	}
	return false;
}

/* Our own cgroup's path within the hierarchy ("0::/a" for v2, "4:memory:/a" for v1). */
static bool own_path(
	const char *table, bool unified, const char *controller, char *out, size_t size)
{
	char names[256], path[384];

	while (*table) {
		size_t n = strcspn(table, "\n");
		const char *first = memchr(table, ':', n);
		const char *second =
			first ? memchr(first + 1, ':', n - (size_t)(first + 1 - table)) : NULL;

		if (second) {
			size_t names_n = (size_t)(second - first - 1);
			size_t path_n = n - (size_t)(second + 1 - table);

			if (names_n < sizeof(names) && path_n < sizeof(path)) {
				memcpy(names, first + 1, names_n);
				names[names_n] = 0;
				memcpy(path, second + 1, path_n);
				path[path_n] = 0;
				if (unified ? names_n == 0 : has_word(names, controller, ','))
					return text_copy(out, size, path) == 0;
			}
		}
		table += n + (table[n] == '\n');
	}
	return false;
}

static bool file_has(const char *directory, const char *name, const char *word)
{
	struct buffer text = {0};
	char path[640];
	bool found = false;

	if (!path_join(path, sizeof(path), directory, name, NULL) &&
		!path_read(path, 4096, &text, NULL) && buffer_text(&text))
		found = has_word(buffer_text(&text), word, ' ');
	buffer_fini(&text);
	return found;
}

static int write_to(const char *directory, const char *name, const char *value)
{
	char path[640];

	if (path_join(path, sizeof(path), directory, name, NULL))
		return -ENAMETOOLONG;
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : path_write_fd(fd, value, strlen(value));
}

/* Hand memory and pids control down from `directory`. */
static int hand_down(const char *directory)
{
	int r = 0;

	if (!file_has(directory, "cgroup.subtree_control", "memory") ||
		!file_has(directory, "cgroup.subtree_control", "pids"))
		r = write_to(directory, "cgroup.subtree_control", "+memory +pids");
	if (!r && !file_has(directory, "cgroup.subtree_control", "cpu"))
		write_to(directory, "cgroup.subtree_control", "+cpu"); /* cpu.stat has it anyway */
	return r;
}

static int make_folder(const char *root)
{
	char path[640];

	if (path_join(path, sizeof(path), root, "sealmark", NULL))
		return -ENAMETOOLONG;
	return mkdir(path, 0755) && errno != EEXIST ? -errno : 0;
}

/* May the process make cgroups with both controllers in this cgroup of v2? */
static int try_unified(const char *directory)
{
	char path[640];
	int r;

	if (!file_has(directory, "cgroup.controllers", "memory") ||
		!file_has(directory, "cgroup.controllers", "pids"))
		return -ENOTSUP;
	/* moving a process asks for the right to write here, at the common ancestor */
	if (path_join(path, sizeof(path), directory, "cgroup.procs", NULL) || access(path, W_OK) ||
		access(directory, W_OK))
		return -EACCES;
	r = hand_down(directory);
	if (!r)
		r = make_folder(directory);
	if (!r)
		r = path_join(path, sizeof(path), directory, "sealmark", NULL);
	return r ? r : hand_down(path);
}

/* The directory of `own` (a path in the hierarchy) below the mount. */
static int place_of(const struct mount *m, const char *own, char *out, size_t size)
{
	size_t n = strlen(m->root);

	if (strstr(own, "/..") || strstr(m->root, "/.."))
		return -ENOTSUP; /* outside of our cgroup namespace */
	if (n > 1) {
		if (strncmp(own, m->root, n) != 0 || (own[n] && own[n] != '/'))
			return -ENOTSUP;
		own += n;
	}
	return text_format(out, size, "%s%s", m->point, strcmp(own, "/") == 0 ? "" : own);
}

static int find_unified(const char *mounts, const char *own, struct cgroup_place *out)
{
	char directory[512], path[384];
	struct mount m;
	int r;

	if (!find_mount(mounts, true, NULL, &m))
		return -ENOTSUP;
	if (geteuid() == 0) {
		r = try_unified(m.point);
		return r ? r : text_copy(out->roots[0], sizeof(out->roots[0]), m.point);
	}
	if (!own_path(own, true, NULL, path, sizeof(path)) ||
		place_of(&m, path, directory, sizeof(directory)))
		return -ENOTSUP;
	/* from our own cgroup upwards: the first that is ours to divide */
	while (strlen(directory) > strlen(m.point)) {
		r = try_unified(directory);
		if (!r)
			return text_copy(out->roots[0], sizeof(out->roots[0]), directory);
		*strrchr(directory, '/') = 0;
	}
	return -EACCES;
}

static int find_separate(const char *mounts, const char *own, struct cgroup_place *out)
{
	for (int i = 0; i < CGROUP_ROLES; i++) {
		char directory[512], path[384];
		struct mount m;
		int r = -ENOTSUP;

		if (find_mount(mounts, false, controllers[i], &m)) {
			if (geteuid() == 0)
				r = text_copy(directory, sizeof(directory), m.point);
			else if (own_path(own, false, controllers[i], path, sizeof(path)))
				r = place_of(&m, path, directory, sizeof(directory));
			r = r ? r : make_folder(directory);
		}
		if (!r)
			r = text_copy(out->roots[i], sizeof(out->roots[i]), directory);
		if (r && (i == CGROUP_MEMORY || i == CGROUP_PIDS))
			return r;
		if (r)
			out->roots[i][0] = 0;
	}
	return 0;
}

int cgroup_find(struct cgroup_place *out, struct error *err)
{
	struct buffer mounts = {0}, own = {0};
	int r;

	*out = (struct cgroup_place){0};
	r = path_read("/proc/self/mountinfo", PROC_FILE_MOST, &mounts, err);
	r = r ? r : path_read("/proc/self/cgroup", PROC_FILE_MOST, &own, err);
	if (!r && (!buffer_text(&mounts) || !buffer_text(&own)))
		r = error_set(err, -ENOMEM, "no memory to read /proc/self/mountinfo");
	if (!r) {
		out->unified = true;
		r = find_unified(buffer_text(&mounts), buffer_text(&own), out);
		if (r) {
			out->unified = false;
			r = find_separate(buffer_text(&mounts), buffer_text(&own), out);
		}
		if (r)
			r = error_set(err, -ENOTSUP, "%s",
				geteuid() == 0
					? "no cgroup hierarchy with memory and pids control may be "
					  "written: mount cgroup v2, or give the container it runs "
					  "in "
					  "a writable one"
					: "no cgroup with memory and pids control is delegated to "
					  "this "
					  "user: run it by `systemd-run --user --scope -p "
					  "Delegate=yes` "
					  "or as root");
	}
	buffer_fini(&mounts);
	buffer_fini(&own);
	return r;
}
