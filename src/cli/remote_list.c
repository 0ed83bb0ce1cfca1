/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox ls and cat: lists of sandboxes, lists of
 * files, files. */
#include "cli/remote.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls_options {
	struct remote_options remote;
	struct cli_texts labels;
	const char *state;
	bool all, quiet, recursive;
};

/* --- sandboxes --- */

static void add_row(struct table *t, const json_t *s)
{
	const char *name, *cells[6];
	char shape[64], lease[32];
	struct buffer labels = {0};
	json_t *value;

	json_object_foreach (json_object_get(s, "labels"), name, value)
		buffer_printf(&labels, "%s%s=%s", buffer_length(&labels) ? "," : "", name,
			json_string_value(value));
	text_format(shape, sizeof(shape), "%lld/%lldM", (long long)json_number(s, "vcpu"),
		(long long)json_number(s, "memoryMiB"));
	remote_age(json_text(s,
			   strcmp(json_text(s, "state"), "stopped") == 0 ? "endedAt" : "expiresAt"),
		lease, sizeof(lease));
	cells[0] = json_text(s, "id");
	cells[1] = json_text(s, "name");
	cells[2] = json_text(s, "state");
	cells[3] = shape;
	cells[4] = lease;
	cells[5] = buffer_text(&labels);
	table_add(t, cells);
	buffer_fini(&labels);
}

static int label_query(struct buffer *path, const struct cli_texts *labels, struct error *err)
{
	for (size_t i = 0; i < labels->count; i++) {
		struct buffer label = {0};
		char *equals;

		buffer_add_text(&label, labels->items[i]);
		equals = strchr(buffer_text(&label), '=');
		if (!equals || equals == buffer_text(&label)) {
			buffer_fini(&label);
			return cli_usage(
				err, "--label: \"%.200s\": must be KEY=VALUE", labels->items[i]);
		}
		*equals = ':';
		remote_query(path, "label", buffer_text(&label));
		buffer_fini(&label);
	}
	return CLI_OK;
}

static int query(const struct ls_options *o, struct buffer *path, struct error *err)
{
	buffer_add_text(path, "/v1/sandboxes");
	remote_query(path, "state", o->state);
	if (o->all)
		remote_query(path, "includeStopped", "true");
	return label_query(path, &o->labels, err);
}

/* All pages; what has come is shown even when a later page fails. */
static int list_sandboxes(struct remote *r, const struct ls_options *o, struct error *err)
{
	static const char *const heads[] = {
		"ID", "NAME", "STATE", "CPU/MEM", "LEASE", "LABELS", NULL};
	struct buffer path = {0};
	json_t *all = json_array();
	struct table table;
	const json_t *s;
	size_t i;
	int status = query(o, &path, err);

	if (!status)
		status = remote_pages(r, buffer_text(&path), all, err);
	buffer_fini(&path);
	if (o->remote.json) {
		remote_print_json(json_incref(all), err);
	} else if (o->quiet) {
		json_array_foreach (all, i, s) {
			remote_put(stdout, json_text(s, "id"));
			putchar('\n');
		}
	} else if (json_array_size(all)) {
		table_init(&table, heads);
		json_array_foreach (all, i, s)
			add_row(&table, s);
		table_print(&table);
	} else if (!status) {
		puts("no sandbox; make one with: sealmark sandbox create");
	}
	json_decref(all);
	return status;
}

/* --- files --- */

static void add_file(struct table *t, const json_t *entry, bool with_path)
{
	const char *cells[5];
	struct buffer name = {0};
	char size[32], age[32];

	buffer_add_text(&name, json_text(entry, with_path ? "path" : "name"));
	if (strcmp(json_text(entry, "type"), "directory") == 0)
		buffer_add_text(&name, "/");
	if (*json_text(entry, "symlinkTarget"))
		buffer_printf(&name, " -> %s", json_text(entry, "symlinkTarget"));
	text_format(size, sizeof(size), "%lld", (long long)json_number(entry, "size"));
	remote_age(json_text(entry, "modifiedAt"), age, sizeof(age));
	cells[0] = json_text(entry, "mode");
	cells[1] = json_text(entry, "owner");
	cells[2] = size;
	cells[3] = age;
	cells[4] = buffer_text(&name);
	table_add(t, cells);
	buffer_fini(&name);
}

static int by_path(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;

	return strcmp(json_text(*x, "path"), json_text(*y, "path"));
}

/* The rows of the files, by name: the machine has them in no order. */
static int add_files(struct table *t, const json_t *list, bool whole_path)
{
	size_t count = json_array_size(list);
	const json_t **sorted = calloc(count ? count : 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(list, i);
	qsort(sorted, count, sizeof(*sorted), by_path);
	for (size_t i = 0; i < count; i++)
		add_file(t, sorted[i], whole_path);
	free(sorted);
	return 0;
}

static int list_files(
	struct remote *r, const struct ls_options *o, const char *operand, struct error *err)
{
	static const char *const heads[] = {"MODE", "OWNER", "SIZE", "MODIFIED", "NAME", NULL};
	size_t prefix = remote_box_prefix(operand);
	struct buffer path = {0}, guest = {0};
	const json_t *list;
	json_t *answer = NULL;
	struct table table;
	char box[160];
	int status;

	if (text_format(
		    box, sizeof(box), "%.*s", (int)(prefix ? prefix : strlen(operand)), operand))
		return cli_usage(err, "\"%.80s\": the name of the sandbox is too long", operand);
	status = remote_sandbox_path(r, box, "/files/list", &path, err);
	remote_guest_path(prefix ? operand + prefix + 1 : "", &guest);
	remote_query(&path, "path", buffer_text(&guest));
	remote_query(&path, "limit", "10000");
	if (o->all)
		remote_query(&path, "hidden", "true");
	if (o->recursive)
		remote_query(&path, "depth", "64");
	if (!status)
		status = remote_call(r,
			&(struct remote_call){
				.method = "GET", .path = buffer_text(&path), .about = operand},
			&answer, err);
	buffer_fini(&path);
	buffer_fini(&guest);
	if (status)
		return status;
	if (o->remote.json)
		return remote_print_json(answer, err);
	list = json_object_get(answer, "entries");
	if (!list)
		list = json_object_get(answer, "data");
	table_init(&table, heads);
	if (add_files(&table, list, o->recursive))
		status = cli_ours(err, "out of memory");
	table_print(&table);
	if (json_is_true(json_object_get(answer, "truncated")))
		fputs("sealmark: the list is cut: there are more files\n", stderr);
	json_decref(answer);
	return status;
}

static int run_ls(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct ls_options *o = options;
	struct remote *r;
	int status = remote_open(&o->remote, &r, err);

	if (!status)
		status = count ? list_files(r, o, operands[0], err) : list_sandboxes(r, o, err);
	remote_free(r);
	return status;
}

/* --- cat --- */

#define CAT_MOST (64u << 20) /* of a file as JSON, which is held whole */

/* Where the bytes of a file go. */
struct sink {
	struct remote *r;
	struct error *err;
	struct buffer kept;
};

static int on_bytes(void *context, const void *bytes, size_t count)
{
	struct sink *sink = context;
	int r = cli_write_out(STDOUT_FILENO, remote_cancel_fd(sink->r), bytes, count);

	return r && r != -EPIPE && r != -EINTR ? error_sys(sink->err, r, "standard output") : r;
}

static int on_kept(void *context, const void *bytes, size_t count)
{
	struct sink *sink = context;
	int r;

	if (buffer_length(&sink->kept) + count > CAT_MOST)
		return error_set(sink->err, -EFBIG,
			"larger than the %u MiB that --json takes: leave it out", CAT_MOST >> 20);
	r = buffer_add(&sink->kept, bytes, count);
	return r ? error_set(sink->err, r, "out of memory") : 0;
}

/* A line for the file: {"file", "size", "text"}, or "base64" when it is no UTF-8. */
static int say_file(const char *operand, const struct buffer *bytes, struct error *err)
{
	json_t *line =
		json_pack("{ss sI}", "file", operand, "size", (json_int_t)buffer_length(bytes));
	int r = remote_set_bytes(line, "text", "base64", bytes);

	if (!r)
		remote_print_line(line);
	json_decref(line);
	return r ? cli_ours(err, "%s", strerror(ENOMEM)) : CLI_OK;
}

static int cat_file(struct remote *r, const char *operand, bool json, struct error *err)
{
	size_t prefix = remote_box_prefix(operand);
	struct buffer path = {0}, guest = {0};
	struct sink sink = {.r = r, .err = err};
	char box[160];
	int status = CLI_OK;

	if (!prefix || text_format(box, sizeof(box), "%.*s", (int)prefix, operand))
		return cli_usage(err, "\"%.200s\": must be BOX:PATH", operand);
	status = remote_sandbox_path(r, box, "/files/content", &path, err);
	remote_guest_path(operand + prefix + 1, &guest);
	remote_query(&path, "path", buffer_text(&guest));
	if (!status)
		status = remote_call(r,
			&(struct remote_call){.method = "GET",
				.path = buffer_text(&path),
				.on_bytes = json ? on_kept : on_bytes,
				.context = &sink,
				.about = operand},
			NULL, err);
	if (!status && json)
		status = say_file(operand, &sink.kept, err);
	buffer_fini(&sink.kept);
	buffer_fini(&path);
	buffer_fini(&guest);
	return status;
}

static int run_cat(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct ls_options *o = options;
	struct remote *r;
	int status = remote_open(&o->remote, &r, err);

	for (size_t i = 0; !status && i < count; i++)
		status = cat_file(r, operands[i], o->remote.json, err);
	remote_free(r);
	return status;
}

#define FIELD(name) offsetof(struct ls_options, name)
static const struct cli_option ls_options[] = {
	CLI_OPTION("label", 'l', "KEY=VALUE", "only sandboxes with this label; several times",
		"--label course=cs101", cli_texts, FIELD(labels)),
	CLI_OPTION("state", 's', "STATE", "only sandboxes in this state", "--state running",
		cli_text, FIELD(state)),
	CLI_OPTION("all", 'a', NULL, "stopped sandboxes too; hidden files too", "--all", cli_flag,
		FIELD(all)),
	CLI_OPTION("quiet", 'q', NULL, "print ids only", "--quiet", cli_flag, FIELD(quiet)),
	CLI_OPTION("recursive", 'r', NULL, "files in folders below too", "--recursive", cli_flag,
		FIELD(recursive)),
	REMOTE_OPTIONS(struct ls_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_ls = {
	.name = "sandbox ls",
	.summary = "List the sandboxes of a server, or files in one",
	.operands = "[BOX[:PATH]]",
	.text = "Without BOX, the sandboxes. With it, the files in a folder of that sandbox,\n"
		"/workspace when no PATH is given.",
	.examples = "sealmark sandbox ls --label course=cs101\n"
		    "sealmark sandbox ls grader:/workspace/tests\n"
		    "sealmark sandbox ls -q --label old=yes | xargs sealmark sandbox rm\n",
	.options = ls_options,
	.size = sizeof(struct ls_options),
	.most = 1,
	.run = run_ls,
};

static const struct cli_option cat_options[] = {
	REMOTE_OPTIONS(struct ls_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_cat = {
	.name = "sandbox cat",
	.summary = "Print files of a sandbox",
	.operands = "BOX:PATH...",
	.text = "The bytes as they are; a PATH that does not begin with / is below /workspace. "
		"With\n"
		"--json a line for each file, of at most 64 MiB, with its text, or its base64 when "
		"it\n"
		"is no UTF-8.",
	.examples = "sealmark sandbox cat grader:results.json\n",
	.options = cat_options,
	.size = sizeof(struct ls_options),
	.least = 1,
	.most = UINT_MAX,
	.run = run_cat,
};
