/* SPDX-License-Identifier: Apache-2.0 - FILE_LIST: entries of a directory, some levels deep. */
#include "agent.h"
#include "entry.h"
#include "fs.h"

#include <errno.h>
#include <string.h>

#define ENTRIES_AT_ONCE 64

/* One entry: 1, 0 at the end, negative errno. */
static int list_one(struct agent *a, struct stream *s)
{
	struct listing *l = &s->u.listing;
	char target[WIRE_PATH_MAX];
	int r = l->left ? walk_next(&l->walk) : 0;

	if (r <= 0)
		return r;
	/* a link that has just gone away is shown without its target */
	if (entry_target(walk_fd(&l->walk), l->walk.name, &l->walk.stat, target, sizeof(target)))
		target[0] = 0;
	entry_send(a, s, l->walk.path, &l->walk.stat, target);
	l->left--;
	/* what may not be entered is listed, not walked */
	if (S_ISDIR(l->walk.stat.st_mode) && (uint32_t)l->walk.depth < l->depth)
		walk_enter(&l->walk);
	return 1;
}

static enum progress listing_work(struct agent *a, struct stream *s)
{
	int r = fs_as(s->uid, s->gid);

	if (r) {
		stream_fail(a, s, r, "list");
		return PROGRESS_IDLE;
	}
	r = 1;
	for (int i = 0; i < ENTRIES_AT_ONCE && r > 0 && link_room(&a->link) >= LINK_RESERVE; i++)
		r = list_one(a, s);
	fs_as_root();
	if (r > 0)
		return link_room(&a->link) >= LINK_RESERVE ? PROGRESS_MORE : PROGRESS_ROOM;
	if (r < 0)
		stream_fail(a, s, r, "list %.300s", s->u.listing.walk.path);
	else
		stream_done(a, s);
	return PROGRESS_IDLE;
}

static void listing_release(struct agent *a, struct stream *s)
{
	walk_end(&s->u.listing.walk);
}

static const struct stream_class class_listing = {
	.name = "list", .work = listing_work, .release = listing_release};

void listing_begin(struct agent *a, struct stream *s, const struct wire_file_list *m)
{
	struct listing *l = &s->u.listing;
	int r;

	s->uid = m->uid;
	s->gid = m->gid;
	l->walk.depth = 0;
	l->depth = m->depth ? m->depth : 1;
	l->left = m->most ? m->most : UINT32_MAX;
	stream_start(s, &class_listing);
	r = fs_as(m->uid, m->gid);
	if (!r) {
		r = fs_open_read(m->path.text, S_IFDIR);
		if (r >= 0)
			r = walk_begin(&l->walk, r);
		fs_as_root();
	}
	if (r)
		stream_fail(a, s, r, "list %.300s", m->path.text);
}
