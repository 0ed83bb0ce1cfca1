/* SPDX-License-Identifier: Apache-2.0 - images of a server: listed, shown, tagged, deleted, their
 * logs. */
#include "cli/remote_image.h"

#include "base/id.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define LOG_PAGES_MOST 100000u

/* --- lists --- */

static void add_row(struct table *t, const json_t *image)
{
	struct buffer tags = {0};
	const json_t *tag;
	char size[32], age[32];
	size_t i;

	json_array_foreach (json_object_get(image, "tags"), i, tag)
		buffer_printf(&tags, "%s%s", i ? "," : "",
			json_string_value(tag) ? json_string_value(tag) : "?");
	text_format(size, sizeof(size), "%lld MiB",
		(long long)((json_number(image, "sizeBytes") + (1 << 19)) >> 20));
	remote_age(json_text(image, "createdAt"), age, sizeof(age));
	table_add(t, (const char *const[]){json_text(image, "name"), json_text(image, "version"),
			     json_text(image, "state"), json_number(image, "sizeBytes") ? size : "",
			     age, buffer_text(&tags), json_text(image, "description")});
	buffer_fini(&tags);
}

int remote_image_ls(struct remote *r, const char *name, bool json, struct error *err)
{
	static const char *const heads[] = {
		"NAME", "VERSION", "STATE", "SIZE", "CREATED", "TAGS", "DESCRIPTION", NULL};
	json_t *all = json_array();
	struct buffer path = {0};
	struct table table;
	const json_t *image;
	size_t i;
	int status;

	buffer_add_text(&path, "/v1/images");
	remote_query(&path, "name", name);
	status = remote_pages(r, buffer_text(&path), all, err);
	if (!status && json) {
		status = remote_print_json(json_incref(all), err);
	} else if (!status) {
		table_init(&table, heads);
		json_array_foreach (all, i, image)
			add_row(&table, image);
		table_print(&table);
	}
	json_decref(all);
	buffer_fini(&path);
	remote_free(r);
	return status;
}

/* --- one --- */

static int resolve(struct remote *r, const char *reference, json_t **out, struct error *err)
{
	struct buffer path = {0};
	bool is_id = id_is_like(reference);
	int status;

	buffer_add_text(&path, is_id ? "/v1/images/" : "/v1/images/resolve");
	if (is_id)
		remote_segment(&path, reference);
	else
		remote_query(&path, "ref", reference);
	status = remote_call(r,
		&(struct remote_call){
			.method = "GET", .path = buffer_text(&path), .about = reference},
		out, err);
	buffer_fini(&path);
	if (!status && !*json_text(*out, "id"))
		status = cli_ours(err, "%.100s: the server's answer has no id", reference);
	return status;
}

static void put(const char *name, const char *value)
{
	if (!value || !*value)
		return;
	printf("%-9s ", name);
	remote_put(stdout, value);
	putchar('\n');
}

int remote_image_show(struct remote *r, const char *reference, bool json, struct error *err)
{
	json_t *image = NULL;
	char size[32];
	int status = resolve(r, reference, &image, err);

	if (!status && json) {
		status = remote_print_json(json_incref(image), err);
	} else if (!status) {
		put("image", json_text(image, "reference"));
		put("id", json_text(image, "id"));
		put("about", json_text(image, "description"));
		put("state", json_text(image, "state"));
		put("error", json_text(image, "error"));
		text_format(size, sizeof(size), "%lld MiB",
			(long long)((json_number(image, "sizeBytes") + (1 << 19)) >> 20));
		put("size", size);
		put("sha256", json_text(image, "sha256"));
		put("recipe", json_text(image, "recipeDigest"));
		put("created", json_text(image, "createdAt"));
	}
	json_decref(image);
	remote_free(r);
	return status;
}

/* POST /v1/images/ID:verb */
static int change(struct remote *r, const char *reference, const char *verb, json_t *body,
	json_t **image, struct error *err)
{
	struct buffer path = {0};
	json_t *found = NULL;
	int status = resolve(r, reference, &found, err);

	buffer_add_text(&path, "/v1/images/");
	remote_segment(&path, json_text(found, "id"));
	buffer_add_text(&path, verb);
	json_decref(found);
	if (!status)
		status = remote_call(r,
			&(struct remote_call){.method = "POST",
				.path = buffer_text(&path),
				.body = json_incref(body),
				.about = reference},
			image, err);
	json_decref(body);
	buffer_fini(&path);
	return status;
}

int remote_image_tag(
	struct remote *r, const char *reference, const char *tag, bool point, struct error *err)
{
	int status = change(
		r, reference, point ? ":tag" : ":untag", json_pack("{ss}", "tag", tag), NULL, err);

	remote_free(r);
	return status;
}

int remote_image_rm(struct remote *r, const char *const *references, struct error *err)
{
	int status = CLI_OK;

	for (size_t i = 0; !status && references[i]; i++) {
		status = change(r, references[i], ":delete", NULL, NULL, err);
		if (!status)
			printf("%s is gone\n", references[i]);
	}
	remote_free(r);
	return status;
}

/* --- logs --- */

/* The newest build of a name, also one that failed, and why; else what the reference says. */
static int find_build(
	struct remote *r, const char *reference, char *id, struct buffer *why, struct error *err)
{
	struct buffer path = {0};
	json_t *answer = NULL;
	const json_t *first;
	int status = CLI_OK;

	if (!strpbrk(reference, ":@")) {
		buffer_add_text(&path, "/v1/images");
		remote_query(&path, "name", reference);
		remote_query(&path, "limit", "1");
		status = remote_call(r,
			&(struct remote_call){.method = "GET", .path = buffer_text(&path)}, &answer,
			err);
		buffer_fini(&path);
	}
	first = json_array_get(json_object_get(answer, "data"), 0);
	if (!status && !first) {
		json_decref(answer);
		answer = NULL;
		status = resolve(r, reference, &answer, err);
		first = answer;
	}
	if (!status && text_copy(id, REMOTE_ID_SIZE, json_text(first, "id")))
		status = cli_ours(err, "the server's answer makes no sense");
	if (!status)
		buffer_add_text(why, json_text(first, "error"));
	json_decref(answer);
	return status;
}

static void put_log_line(const json_t *line, bool json)
{
	if (json) {
		remote_print_line(line);
		return;
	}
	remote_put(stdout, json_text(line, "text"));
	putchar('\n');
}

int remote_image_logs(struct remote *r, const char *reference, bool json, struct error *err)
{
	char id[REMOTE_ID_SIZE], after[32];
	struct buffer why = {0};
	int64_t seq = 0;
	int status = find_build(r, reference, id, &why, err);

	for (unsigned n = 0; !status && n < LOG_PAGES_MOST; n++) {
		struct buffer path = {0};
		json_t *answer = NULL;
		const json_t *line;
		int64_t before = seq;
		size_t i;

		text_format(after, sizeof(after), "%lld", (long long)seq);
		buffer_add_text(&path, "/v1/images/");
		remote_segment(&path, id);
		buffer_add_text(&path, "/logs");
		remote_query(&path, "after", after);
		status = remote_call(r,
			&(struct remote_call){.method = "GET", .path = buffer_text(&path)}, &answer,
			err);
		buffer_fini(&path);
		json_array_foreach (json_object_get(answer, "lines"), i, line) {
			put_log_line(line, json);
			if (buffer_length(&why) &&
				strcmp(json_text(line, "text"), buffer_text(&why)) == 0)
				buffer_clear(&why); /* it stands there */
		}
		seq = json_number(answer, "nextAfter");
		json_decref(answer);
		if (seq <= before)
			break;
	}
	/* what a build ended with without a word of its own: its server was killed */
	if (!status && buffer_length(&why))
		log_error("%s: %.300s", reference, buffer_text(&why));
	buffer_fini(&why);
	remote_free(r);
	return status;
}
