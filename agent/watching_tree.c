/* SPDX-License-Identifier: Apache-2.0 - WATCH: the folders that are watched. */
#include "watching.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * A folder knows its parent and its name, so that a rename is one change, however much is below. A
 * new folder is watched first and read then: what comes into it between the two is seen twice,
 * never missed. The table is also the list of what is still to be read. An index is not used again
 * before all that lay below it is forgotten.
 */
#define NONE       WIRE_WATCH_FOLDERS
#define DEPTH_MOST 128
#define READ_MOST  100000u /* entries, until it is given up to find all folders */
#define EVENTS                                                                                     \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |     \
		IN_ONLYDIR | IN_EXCL_UNLINK)

/* Only touched where they are used. */
static struct folder tables[WIRE_WATCHES_MOST][WIRE_WATCH_FOLDERS];
static bool taken[WIRE_WATCHES_MOST];

int watching_path(
	const struct watching *w, uint32_t index, const char *name, char out[WIRE_PATH_MAX])
{
	const char *parts[DEPTH_MOST];
	size_t at = 0, depth = 0;

	if (*name)
		parts[depth++] = name;
	for (; index; index = w->folders[index].parent) {
		if (depth == DEPTH_MOST)
			return -ENAMETOOLONG;
		parts[depth++] = w->folders[index].name;
	}
	out[0] = 0;
	while (depth--) {
		size_t n = strlen(parts[depth]);

		if (at + n + 2 > WIRE_PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(out + at, parts[depth], n);
		at += n;
		out[at] = 0;
		if (depth)
			out[at++] = '/';
	}
	return 0;
}

/* fd or negative errno */
static int open_folder(const struct watching *w, const char *path)
{
	int root = fs_open_read(*w->root ? w->root : "/", S_IFDIR), fd;

	if (root < 0 || !*path)
		return root;
	fd = fs_open(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0, FS_WITHIN);
	close(root);
	return fd;
}

/* wd or negative errno */
static int watch_folder(const struct watching *w, const char *path)
{
	uint32_t mask = EVENTS | (w->events & WIRE_WATCH_WRITE ? IN_MODIFY : 0) |
			(w->events & WIRE_WATCH_CHMOD ? IN_ATTRIB : 0);
	int fd = open_folder(w, path), wd;
	char name[32];

	if (fd < 0)
		return fd;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->fd, name, mask);
	if (wd < 0)
		wd = -errno;
	close(fd);
	return wd;
}

uint32_t watching_find(const struct watching *w, uint32_t parent, const char *name)
{
	for (uint32_t i = 1; i < w->used; i++) {
		const struct folder *f = &w->folders[i];

		if (f->state && f->parent == parent && strcmp(f->name, name) == 0)
			return i;
	}
	return NONE;
}

uint32_t watching_find_wd(const struct watching *w, int wd)
{
	for (uint32_t i = 0; i < w->used; i++) {
		if (w->folders[i].state && w->folders[i].wd == wd)
			return i;
	}
	return NONE;
}

static void forget(struct watching *w, uint32_t index)
{
	if (w->walk.depth && w->reading == index)
		walk_end(&w->walk);
	if (w->moved_index == index)
		w->moved_index = NONE;
	inotify_rm_watch(w->fd, w->folders[index].wd);
	w->folders[index].state = FOLDER_FREE;
	w->count--;
}

void watching_drop(struct watching *w, uint32_t index)
{
	bool more = true;

	if (index >= w->used || !w->folders[index].state)
		return;
	forget(w, index);
	while (more) {
		more = false;
		for (uint32_t i = 1; i < w->used; i++) {
			const struct folder *f = &w->folders[i];

			if (!f->state || w->folders[f->parent].state)
				continue;
			forget(w, i);
			more = true;
		}
	}
}

static void say_limit(struct watching *w)
{
	if (!w->limited)
		watching_notice(w, "limit");
	w->limited = true;
}

static uint32_t free_entry(const struct watching *w)
{
	uint32_t i = 0;

	while (i < w->used && w->folders[i].state)
		i++;
	return i;
}

void watching_add(struct watching *w, uint32_t parent, const char *name, enum folder_state state)
{
	char path[WIRE_PATH_MAX];
	uint32_t index, other;
	struct folder *f;
	int wd;

	if (watching_find(w, parent, name) != NONE)
		return;
	if (w->count >= w->most || strlen(name) >= sizeof(f->name) ||
		watching_path(w, parent, name, path)) {
		say_limit(w);
		return;
	}
	if (watching_excludes(w, path))
		return;
	wd = watch_folder(w, path);
	/* gone again, or not the user's to read; the kernel's own limit is one to be told */
	if (wd == -ENOSPC || wd == -ENOMEM || wd == -EMFILE || wd == -ENFILE)
		say_limit(w);
	if (wd < 0)
		return;
	other = watching_find_wd(w, wd);
	if (other != NONE && other) { /* known by another name, which it has no more */
		w->folders[other].state = FOLDER_READ;
		w->folders[other].wd = -1;
		watching_drop(w, other);
	}
	if (!w->folders[parent].state) { /* it was below that other */
		inotify_rm_watch(w->fd, wd);
		return;
	}
	index = free_entry(w);
	f = &w->folders[index];
	*f = (struct folder){.wd = wd, .parent = (uint16_t)parent, .state = (uint8_t)state};
	memcpy(f->name, name, strlen(name) + 1);
	w->used = index >= w->used ? index + 1 : w->used;
	w->count++;
	w->unread = true;
}

int watching_tree_begin(struct watching *w)
{
	int wd;

	w->slot = 0;
	while (w->slot < WIRE_WATCHES_MOST && taken[w->slot])
		w->slot++;
	if (w->slot == WIRE_WATCHES_MOST)
		return -EBUSY;
	taken[w->slot] = true;
	w->folders = tables[w->slot];
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0)
		return -errno;
	wd = watch_folder(w, "");
	if (wd < 0)
		return wd;
	w->folders[0] = (struct folder){.wd = wd, .state = FOLDER_READ};
	w->used = w->count = 1;
	if (w->recursive) {
		w->folders[0].state = FOLDER_UNREAD;
		w->unread = true;
	}
	return 0;
}

void watching_tree_end(struct watching *w)
{
	walk_end(&w->walk);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	if (w->slot < WIRE_WATCHES_MOST)
		taken[w->slot] = false;
	w->slot = WIRE_WATCHES_MOST;
}

/* a folder that is to be read, into walk; 0: there is none */
static int open_unread(struct watching *w)
{
	bool enough = w->entries >= READ_MOST;
	char path[WIRE_PATH_MAX];
	uint32_t i = 0;
	int fd;

	while (i < w->used && w->folders[i].state != FOLDER_UNREAD &&
		w->folders[i].state != FOLDER_FRESH)
		i++;
	if (i == w->used) {
		w->unread = false;
		w->entries = 0;
		return 0;
	}
	if (enough) {
		say_limit(w);
		w->folders[i].state = FOLDER_READ;
		return 1;
	}
	fd = watching_path(w, i, "", path);
	if (!fd)
		fd = open_folder(w, path);
	if (fd < 0 || walk_begin(&w->walk, fd)) { /* gone: its events say so */
		w->folders[i].state = FOLDER_READ;
		return 1;
	}
	w->reading = i;
	return 1;
}

int watching_read(struct watching *w)
{
	char path[WIRE_PATH_MAX];
	struct folder *f;
	bool folder;
	int r;

	if (!w->walk.depth)
		return w->unread ? open_unread(w) : 0;
	f = &w->folders[w->reading];
	r = w->entries++ < READ_MOST ? walk_next(&w->walk) : -EFBIG;
	if (r <= 0) {
		walk_end(&w->walk);
		f->state = FOLDER_READ;
		if (r < 0)
			say_limit(w);
		return 1;
	}
	folder = S_ISDIR(w->walk.stat.st_mode);
	if (f->state == FOLDER_FRESH && !watching_path(w, w->reading, w->walk.name, path))
		watching_tell(w, WIRE_WATCH_CREATE, folder, path);
	if (folder)
		watching_add(w, w->reading, w->walk.name, (enum folder_state)f->state);
	return 1;
}

void watching_read_all(struct watching *w)
{
	if (!w->recursive)
		return;
	walk_end(&w->walk);
	for (uint32_t i = 0; i < w->used; i++) {
		if (w->folders[i].state)
			w->folders[i].state = FOLDER_UNREAD;
	}
	w->unread = true;
}
