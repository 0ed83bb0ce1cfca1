/* SPDX-License-Identifier: Apache-2.0 - WATCH: what the kernel tells, made into records. */
#include "agent.h"
#include "watching.h"
#include "wire/glob.h"

#include <stdio.h>
#include <string.h>

/*
 * Both ends of a move are one rename when both are within; else what went is removed and what came
 * is created. The two follow each other, but another event may be between them, or the second not
 * there yet: then it is waited for a moment. What the agent itself writes first under a name of its
 * own and then moves into place (transfer.c) is a creation, and the name is never told.
 */
#define NONE          WIRE_WATCH_FOLDERS
#define MOVE_US       20000u
#define TEMPORARY     ".sealmark-"
#define TEMPORARY_LEN (sizeof(TEMPORARY) - 1)

static void add_record(struct watching *w, const char *prefix, const char *text)
{
	size_t left = sizeof(w->out) - w->out_count;
	int n = snprintf(w->out + w->out_count, left, "%s%s", prefix, text);

	if (n >= 0 && (size_t)n < left)
		w->out_count += (uint32_t)n + 1;
}

void watching_notice(struct watching *w, const char *text)
{
	add_record(w, "!", text);
}

void watching_over(struct watching *w, const char *notice)
{
	if (!w->over)
		watching_notice(w, notice);
	w->over = true;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_matched(const char *patterns, uint32_t size, const char *path)
{
	for (uint32_t at = 0; at < size; at += (uint32_t)strlen(patterns + at) + 1) {
		const char *pattern = patterns + at;

		if (glob_matches(pattern, strchr(pattern, '/') ? path : last_name(path)))
			return true;
	}
	return false;
}

bool watching_excludes(const struct watching *w, const char *path)
{
	return is_matched(w->exclude, w->exclude_size, path);
}

static bool is_told(const struct watching *w, const char *path)
{
	return !watching_excludes(w, path) &&
	       (!w->include_size || is_matched(w->include, w->include_size, path));
}

static void add_path(struct watching *w, char letter, char kind, const char *path)
{
	char whole[WIRE_PATH_MAX + 1];
	char prefix[3] = {letter, kind, 0};
	int n = snprintf(whole, sizeof(whole), "%s/%s", w->root, path);

	if (n > 0 && (size_t)n < sizeof(whole))
		add_record(w, prefix, whole);
}

void watching_tell(struct watching *w, uint32_t event, bool folder, const char *path)
{
	static const char letters[] = "cwrna";
	int number = __builtin_ctz(event);

	if (w->events & event && is_told(w, path))
		add_path(w, letters[number], folder ? 'd' : 'f', path);
}

void watching_settle(struct watching *w)
{
	if (!w->moved)
		return;
	w->moved = false;
	if (!w->moved_temporary)
		watching_tell(w, WIRE_WATCH_REMOVE, w->moved_folder, w->moved_path);
	if (w->moved_index != NONE)
		watching_drop(w, w->moved_index);
}

static bool is_temporary(const char *name)
{
	const char *hex = name + TEMPORARY_LEN;

	return strncmp(name, TEMPORARY, TEMPORARY_LEN) == 0 &&
	       strspn(hex, "0123456789abcdef") == 8 && hex[8] == '-';
}

static void move_from(struct agent *a, struct watching *w, const struct inotify_event *e,
	uint32_t index, const char *path)
{
	w->moved = true;
	w->moved_folder = e->mask & IN_ISDIR;
	w->moved_temporary = is_temporary(e->name);
	w->moved_cookie = e->cookie;
	w->moved_index = w->moved_folder ? watching_find(w, index, e->name) : NONE;
	w->moved_until_us = a->now_us + MOVE_US;
	memcpy(w->moved_path, path, strlen(path) + 1);
}

static bool is_below(const struct watching *w, uint32_t index, uint32_t top)
{
	for (uint32_t n = 0; index && index != top && n < w->most; n++)
		index = w->folders[index].parent;
	return index == top;
}

static void rename_folder(struct watching *w, uint32_t index, const char *name, const char *path)
{
	struct folder *f = &w->folders[w->moved_index];

	/* below itself: the table is ahead of this event, and what it missed is found again */
	if (is_below(w, index, w->moved_index))
		watching_read_all(w);
	if (watching_excludes(w, path) || strlen(name) >= sizeof(f->name) ||
		is_below(w, index, w->moved_index)) {
		watching_drop(w, w->moved_index);
		return;
	}
	f->parent = (uint16_t)index;
	memcpy(f->name, name, strlen(name) + 1);
}

static void move_to(
	struct watching *w, const struct inotify_event *e, uint32_t index, const char *path)
{
	bool known = w->moved, folder = e->mask & IN_ISDIR;

	w->moved = false;
	if (folder && (!known || watching_find(w, index, e->name) != w->moved_index))
		watching_drop(w, watching_find(w, index, e->name)); /* one that was empty */
	if (!known || w->moved_temporary || !is_told(w, w->moved_path)) {
		watching_tell(w, WIRE_WATCH_CREATE, folder, path);
	} else if (!is_told(w, path)) {
		watching_tell(w, WIRE_WATCH_REMOVE, folder, w->moved_path);
	} else if (w->events & WIRE_WATCH_RENAME) {
		add_path(w, 'o', folder ? 'd' : 'f', w->moved_path);
		watching_tell(w, WIRE_WATCH_RENAME, folder, path);
	}
	if (known && w->moved_index != NONE)
		rename_folder(w, index, e->name, path);
	else if (folder && w->recursive)
		watching_add(w, index, e->name, FOLDER_FRESH);
}

static void in_folder(
	struct agent *a, struct watching *w, const struct inotify_event *e, uint32_t index)
{
	bool folder = e->mask & IN_ISDIR, temporary = is_temporary(e->name);
	char path[WIRE_PATH_MAX];

	if (watching_path(w, index, e->name, path))
		return;
	if (e->mask & IN_MOVED_FROM) {
		move_from(a, w, e, index, path);
	} else if (e->mask & IN_MOVED_TO) {
		move_to(w, e, index, path);
	} else if (temporary) {
		return;
	} else if (e->mask & IN_CREATE) {
		watching_tell(w, WIRE_WATCH_CREATE, folder, path);
		if (folder && w->recursive)
			watching_add(w, index, e->name, FOLDER_FRESH);
	} else if (e->mask & IN_DELETE) {
		watching_tell(w, WIRE_WATCH_REMOVE, folder, path);
		if (folder)
			watching_drop(w, watching_find(w, index, e->name));
	} else if (e->mask & IN_MODIFY) {
		watching_tell(w, WIRE_WATCH_WRITE, folder, path);
	} else if (e->mask & IN_ATTRIB) {
		watching_tell(w, WIRE_WATCH_CHMOD, folder, path);
	}
}

void watching_take(struct agent *a, struct watching *w, const struct inotify_event *e)
{
	uint32_t index = watching_find_wd(w, e->wd);

	if (w->moved && !(e->mask & IN_MOVED_TO && e->cookie == w->moved_cookie))
		watching_settle(w);
	if (e->mask & IN_Q_OVERFLOW) {
		watching_notice(w, "overflow");
		watching_read_all(w);
	} else if (index == 0 &&
		   e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) {
		watching_over(w, "end root-removed");
	} else if (index != NONE && e->mask & IN_IGNORED) {
		watching_drop(w, index);
	} else if (index != NONE && e->len) { /* its parent tells of what it is itself */
		in_folder(a, w, e, index);
	}
}
