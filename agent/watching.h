/* SPDX-License-Identifier: Apache-2.0 - WATCH: what changes in a folder, as records. */
#ifndef SEALMARK_AGENT_WATCHING_H
#define SEALMARK_AGENT_WATCHING_H

#include "walk.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/inotify.h>

struct agent;
struct stream;

/* A folder that is watched. Tables of them are outside of the streams: watching_tree.c. */
enum folder_state {
	FOLDER_FREE = 0,
	FOLDER_UNREAD, /* its folders are still to be found */
	FOLDER_FRESH,  /* the same, and what is in it is to be told */
	FOLDER_READ
};
struct folder {
	int wd;
	uint16_t parent; /* of itself: the root */
	uint8_t state;
	char name[256];
};

/* Two paths of a rename, and one before it. */
#define WATCHING_RECORD (WIRE_PATH_MAX + 4)
#define WATCHING_STEP   (3 * WATCHING_RECORD + 64)

struct watching {
	int fd; /* inotify, or -1 */
	struct folder *folders;
	uint32_t slot;       /* of the tables, WIRE_WATCHES_MOST: none */
	uint32_t most, used; /* folders allowed; entries of the table that were ever used */
	uint32_t count;      /* folders */
	uint32_t entries;    /* read since nothing was left to be read */
	uint32_t reading;    /* the folder that walk reads, when walk.depth */
	bool unread;         /* there may be folders to be read */
	bool recursive, started, ready, over;
	bool limited; /* that not all is watched has been said */
	uint32_t events;
	uint64_t batch_us, due_us; /* when to read what is ready */
	uint64_t end_us;
	struct walk walk;
	char root[WIRE_PATH_MAX]; /* without a slash at its end */
	uint32_t include_size, exclude_size;
	char include[WIRE_WATCH_PATTERNS], exclude[WIRE_WATCH_PATTERNS];

	/* something was moved away, and where to is not known yet */
	bool moved, moved_folder, moved_temporary;
	uint32_t moved_cookie, moved_index; /* of the folder, or WIRE_WATCH_FOLDERS */
	uint64_t moved_until_us;
	char moved_path[WIRE_PATH_MAX]; /* below the root */

	uint32_t at, filled;
	_Alignas(struct inotify_event) uint8_t bytes[4096]; /* events as the kernel gives them */
	uint32_t out_at, out_count;
	char out[2 * WATCHING_STEP];
};

/* watching.c */
void watching_begin(struct agent *a, struct stream *s, const struct wire_watch *m);
/* An event of a stream's descriptor, and the time that has come: also of other streams. */
void watching_event(struct agent *a, struct stream *s);
void watching_times(struct agent *a, struct stream *s);

/* watching_event.c: one event of the kernel */
void watching_take(struct agent *a, struct watching *w, const struct inotify_event *e);
/* What was moved away has come nowhere. */
void watching_settle(struct watching *w);
/* Say that something has happened to the path below the root. */
void watching_tell(struct watching *w, uint32_t event, bool folder, const char *path);
void watching_notice(struct watching *w, const char *text);
/* The watch is over, for that reason. */
void watching_over(struct watching *w, const char *notice);
bool watching_excludes(const struct watching *w, const char *path);

/* watching_tree.c: the folders; what opens something is called with the rights of the watch */
int watching_tree_begin(struct watching *w);
void watching_tree_end(struct watching *w);
/* Watch a folder, unless it is known. 0 (also for what cannot be watched: that is said) */
void watching_add(struct watching *w, uint32_t parent, const char *name, enum folder_state state);
/* Forget it and all below. */
void watching_drop(struct watching *w, uint32_t index);
/* WIRE_WATCH_FOLDERS: none */
uint32_t watching_find(const struct watching *w, uint32_t parent, const char *name);
uint32_t watching_find_wd(const struct watching *w, int wd);
/* The path below the root of a name in a folder (name "": of the folder). 0 or -ENAMETOOLONG */
int watching_path(
	const struct watching *w, uint32_t index, const char *name, char out[WIRE_PATH_MAX]);
/* Read on in folders that are not read: 1 when something was done, 0 when there are none. */
int watching_read(struct watching *w);
/* Events were lost: look again which folders there are. */
void watching_read_all(struct watching *w);

#endif
