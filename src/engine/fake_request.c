/* SPDX-License-Identifier: Apache-2.0 - what engine fake does on each request of the host. */
#include "engine/fake_internal.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#define JOINED_MOST (1u << 20)

/* A path as the store has it: no slash at its end, relative ones below /workspace. */
static int take_path(char *out, const struct wire_str *path)
{
	size_t n;
	int r = path->text[0] == '/' ? text_copy(out, WIRE_PATH_MAX, path->text)
				     : text_format(out, WIRE_PATH_MAX, "/workspace/%s", path->text);

	for (n = strlen(out); !r && n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = 0;
	return r;
}

static const struct fake_exec_rule *find_rule(struct fake_guest *g, const struct wire_exec *m)
{
	struct buffer joined;
	const struct fake_exec_rule *found = NULL;
	const char *word, *text;
	uint32_t at = 0;

	buffer_init(&joined, JOINED_MOST);
	while ((word = wire_strs_next(&m->argv, &at)))
		if (buffer_printf(&joined, "%s%s", buffer_length(&joined) ? " " : "", word))
			break; /* the rest of a long one is not compared */
	text = buffer_text(&joined);
	for (size_t i = 0; text && !found && i < g->script.rule_count; i++)
		if (fnmatch(g->script.rules[i].pattern, text, 0) == 0)
			found = &g->script.rules[i];
	buffer_fini(&joined);
	return found;
}

static int begin_exec(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_exec m;
	size_t size;
	uint8_t *out;

	if (wire_get_exec(f->payload, f->length, &m))
		return -EPROTO;
	if (!m.argv.count) {
		fake_stream_fail(g, s, EINVAL, "no program is named");
		return 0;
	}
	s->rule = find_rule(g, &m);
	s->exec_flags = m.flags;
	s->output_bytes = m.output_bytes;
	s->started_us = clock_us();
	s->wait_until_ms = clock_deadline_ms((int64_t)g->script.slow_ms);
	s->deadline_ms = m.wall_us && m.wall_us < INT64_MAX / 2
				 ? clock_ms() + (int64_t)(m.wall_us / 1000)
				 : CLOCK_NEVER;
	s->cpu_us = 1000;
	s->memory_bytes = 1u << 20;
	out = fake_frame(g, 16, &size);
	fake_commit(g, wire_put_started(out, size, s->id, 0, &(struct wire_started){.pid = 100}));
	return 0;
}

void fake_request_complete(struct fake_guest *g, struct fake_stream *s)
{
	struct fake_file *file;
	int r;

	if (s->type == WIRE_TAR_IN) {
		r = fake_files_unpack(&g->files, s->path, &s->input, s->uid, s->gid);
	} else {
		r = fake_files_put(&g->files, s->path, WIRE_FILE_REGULAR, s->mode,
			s->flags & WIRE_PARENTS, &file);
		if (!r) {
			file->uid = s->uid;
			file->gid = s->gid;
			r = fake_files_add(
				&g->files, file, buffer_bytes(&s->input), buffer_length(&s->input));
		}
	}
	if (r)
		fake_stream_fail(g, s, r, s->path);
	else
		fake_stream_done(g, s);
}

static int begin_write(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_file_write m;

	if (wire_get_file_write(f->payload, f->length, &m))
		return -EPROTO;
	s->mode = m.mode;
	s->uid = m.uid;
	s->gid = m.gid;
	s->flags = m.flags;
	s->limit_bytes = m.limit_bytes;
	if (take_path(s->path, &m.path))
		fake_stream_fail(g, s, ENAMETOOLONG, "the path is too long");
	return 0;
}

static int begin_tar_in(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_tar_in m;

	if (wire_get_tar_in(f->payload, f->length, &m))
		return -EPROTO;
	s->uid = m.uid;
	s->gid = m.gid;
	s->limit_bytes = m.limit_bytes;
	if (take_path(s->path, &m.path))
		fake_stream_fail(g, s, ENAMETOOLONG, "the path is too long");
	return 0;
}

static int begin_read(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_file_read m;
	struct fake_file *file;
	size_t count, from;
	char path[WIRE_PATH_MAX];

	if (wire_get_file_read(f->payload, f->length, &m))
		return -EPROTO;
	file = take_path(path, &m.path) ? NULL : fake_files_find(&g->files, path);
	if (!file || file->type != WIRE_FILE_REGULAR) {
		fake_stream_fail(g, s, file ? EISDIR : ENOENT, path);
		return 0;
	}
	count = buffer_length(&file->bytes);
	from = m.offset < count ? (size_t)m.offset : count;
	count -= from;
	if (m.length && m.length < count)
		count = (size_t)m.length;
	return count && buffer_add(&s->body, buffer_bytes(&file->bytes) + from, count) ? -EPROTO
										       : 0;
}

static int begin_tar_out(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_tar_out m;
	char path[WIRE_PATH_MAX];
	int r;

	if (wire_get_tar_out(f->payload, f->length, &m))
		return -EPROTO;
	r = m.exclude.count ? -EOPNOTSUPP : take_path(path, &m.path);
	r = r ? r : fake_files_pack(&g->files, path, &s->body);
	if (r)
		fake_stream_fail(g, s, r, path);
	return 0;
}

static void say_entry(
	struct fake_guest *g, struct fake_stream *s, const struct fake_file *file, const char *name)
{
	char target[WIRE_PATH_MAX] = "";
	struct wire_entry m = {
		.path = wire_str(name),
		.type = file->type,
		.mode = file->mode,
		.uid = file->uid,
		.gid = file->gid,
		.size = buffer_length(&file->bytes),
		.mtime_ns = file->mtime_ns,
	};
	size_t size;
	uint8_t *out = fake_frame(g, 2 * WIRE_PATH_MAX + 128, &size);

	if (file->type == WIRE_FILE_SYMLINK)
		text_format(target, sizeof(target), "%.*s", (int)buffer_length(&file->bytes),
			(const char *)buffer_bytes(&file->bytes));
	m.target = wire_str(target);
	fake_commit(g, wire_put_entry(out, size, s->id, 0, &m));
}

static int do_list(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_file_list m;
	struct fake_file *top;
	char path[WIRE_PATH_MAX];
	uint32_t count = 0;

	if (wire_get_file_list(f->payload, f->length, &m))
		return -EPROTO;
	top = take_path(path, &m.path) ? NULL : fake_files_find(&g->files, path);
	if (!top || top->type != WIRE_FILE_DIRECTORY) {
		fake_stream_fail(g, s, top ? ENOTDIR : ENOENT, path);
		return 0;
	}
	for (size_t i = 0; i < g->files.count; i++) {
		const char *name =
			fake_files_below(g->files.list[i]->path, path, m.depth ? m.depth : 1);

		if (!name)
			continue;
		if (m.most && count++ >= m.most) {
			fake_stream_fail(g, s, E2BIG, path);
			return 0;
		}
		say_entry(g, s, g->files.list[i], name);
	}
	fake_stream_done(g, s);
	return 0;
}

static int do_stat(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_file_stat m;
	struct fake_file *file;
	char path[WIRE_PATH_MAX];

	if (wire_get_file_stat(f->payload, f->length, &m))
		return -EPROTO;
	file = take_path(path, &m.path) ? NULL : fake_files_find(&g->files, path);
	if (!file) {
		fake_stream_fail(g, s, ENOENT, path);
		return 0;
	}
	say_entry(g, s, file, m.path.text);
	fake_stream_done(g, s);
	return 0;
}

/* FILE_MKDIR, FILE_REMOVE, FILE_RENAME, FILE_CHMOD, FILE_CHOWN: 0 or negative errno, or -EPROTO */
static int change(struct fake_guest *g, const struct wire_frame *f, char *path)
{
	union {
		struct wire_file_mkdir mkdir;
		struct wire_file_remove remove;
		struct wire_file_rename rename;
		struct wire_file_chmod chmod;
		struct wire_file_chown chown;
	} m;
	struct fake_file *file;
	char to[WIRE_PATH_MAX];
	int r;

	switch (f->type) {
	case WIRE_FILE_MKDIR:
		if (wire_get_file_mkdir(f->payload, f->length, &m.mkdir))
			return -EPROTO;
		r = take_path(path, &m.mkdir.path);
		return r ? r
			 : fake_files_put(&g->files, path, WIRE_FILE_DIRECTORY, m.mkdir.mode,
				   m.mkdir.flags & WIRE_PARENTS, NULL);
	case WIRE_FILE_REMOVE:
		if (wire_get_file_remove(f->payload, f->length, &m.remove))
			return -EPROTO;
		r = take_path(path, &m.remove.path);
		return r ? r : fake_files_remove(&g->files, path, m.remove.flags & WIRE_RECURSIVE);
	case WIRE_FILE_RENAME:
		if (wire_get_file_rename(f->payload, f->length, &m.rename))
			return -EPROTO;
		r = take_path(path, &m.rename.from);
		r = r ? r : take_path(to, &m.rename.to);
		return r ? r : fake_files_rename(&g->files, path, to);
	case WIRE_FILE_CHMOD:
		if (wire_get_file_chmod(f->payload, f->length, &m.chmod))
			return -EPROTO;
		r = take_path(path, &m.chmod.path);
		file = r ? NULL : fake_files_find(&g->files, path);
		if (file)
			file->mode = m.chmod.mode & 07777;
		return r ? r : file ? 0 : -ENOENT;
	default:
		if (wire_get_file_chown(f->payload, f->length, &m.chown))
			return -EPROTO;
		r = take_path(path, &m.chown.path);
		file = r ? NULL : fake_files_find(&g->files, path);
		if (file) {
			file->uid = m.chown.owner;
			file->gid = m.chown.group;
		}
		return r ? r : file ? 0 : -ENOENT;
	}
}

static int do_change(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	char path[WIRE_PATH_MAX] = "";
	int r = change(g, f, path);

	if (r == -EPROTO)
		return r;
	if (r)
		fake_stream_fail(g, s, r, path);
	else
		fake_stream_done(g, s);
	return 0;
}

static int do_stats(struct fake_guest *g, struct fake_stream *s)
{
	struct wire_stats_reply m = {
		.uptime_us = 1000,
		.memory_total_bytes = 512u << 20,
		.memory_free_bytes = 400u << 20,
		.disk_total_bytes = 128u << 20,
		.disk_free_bytes =
			(128u << 20) - (g->files.bytes < 128u << 20 ? g->files.bytes : 0),
		.processes = 1,
		.cpu_us = 1000,
	};
	size_t size;
	uint8_t *out = fake_frame(g, 128, &size);

	fake_commit(g, wire_put_stats_reply(out, size, s->id, 0, &m));
	fake_stream_free(s);
	return 0;
}

static int do_ping(struct fake_guest *g, struct fake_stream *s, const struct wire_frame *f)
{
	struct wire_ping ping;
	size_t size;
	uint8_t *out;

	if (wire_get_ping(f->payload, f->length, &ping))
		return -EPROTO;
	out = fake_frame(g, 16, &size);
	fake_commit(
		g, wire_put_pong(out, size, s->id, 0, &(struct wire_pong){.token = ping.token}));
	fake_stream_free(s);
	return 0;
}

static struct fake_stream *open_stream(struct fake_guest *g, const struct wire_frame *f)
{
	struct fake_stream *free_one = NULL;

	if (f->stream == 0)
		return NULL;
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		struct fake_stream *s = &g->streams[i];

		if (s->used && s->id == f->stream)
			return NULL;
		if (!s->used && !free_one)
			free_one = s;
	}
	if (free_one) {
		*free_one = (struct fake_stream){
			.used = true, .id = f->stream, .type = f->type, .window = WIRE_WINDOW};
		for (int c = 0; c < WIRE_CHANNELS; c++)
			free_one->credit[c] = WIRE_WINDOW;
	}
	return free_one;
}

int fake_request(struct fake_guest *g, const struct wire_frame *f)
{
	struct fake_stream *s = open_stream(g, f);

	if (!s)
		return -EPROTO;
	switch (f->type) {
	case WIRE_EXEC:
		return begin_exec(g, s, f);
	case WIRE_FILE_WRITE:
		return begin_write(g, s, f);
	case WIRE_FILE_READ:
		return begin_read(g, s, f);
	case WIRE_TAR_IN:
		return begin_tar_in(g, s, f);
	case WIRE_TAR_OUT:
		return begin_tar_out(g, s, f);
	case WIRE_FILE_LIST:
		return do_list(g, s, f);
	case WIRE_FILE_STAT:
		return do_stat(g, s, f);
	case WIRE_STATS:
		return do_stats(g, s);
	case WIRE_PING:
		return do_ping(g, s, f);
	case WIRE_WATCH:
		fake_stream_fail(g, s, EOPNOTSUPP, "watch");
		return 0;
	default:
		return do_change(g, s, f);
	}
}
