/* SPDX-License-Identifier: Apache-2.0 - sandboxes by id or name, and paths in them. */
#include "cli/remote.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

#define HOME_IN_GUEST "/workspace"
#define PAGES_MOST    10000u /* a list that never ends is not believed */

static bool is_uuid(const char *text)
{
	static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i = 0;

	for (; shape[i]; i++) {
		if (shape[i] == '-' ? text[i] != '-'
				    : !text[i] || !strchr("0123456789abcdefABCDEF", text[i]))
			return false;
	}
	return !text[i];
}

static int list_named(
	struct remote *r, const char *name, bool stopped, json_t **out, struct error *err)
{
	struct buffer path = {0};
	int status;

	buffer_add_text(&path, "/v1/sandboxes");
	remote_query(&path, "name", name);
	remote_query(&path, "limit", "2");
	if (stopped)
		remote_query(&path, "includeStopped", "true");
	status = remote_call(
		r, &(struct remote_call){.method = "GET", .path = buffer_text(&path)}, out, err);
	buffer_fini(&path);
	return status;
}

/* The one of this name that can run; else the only one that is stopped. */
int remote_sandbox_id(struct remote *r, const char *reference, char *id, struct error *err)
{
	json_t *answer = NULL;
	const json_t *list, *found;
	int status = CLI_OK;

	if (is_uuid(reference))
		return text_copy(id, REMOTE_ID_SIZE, reference) ? CLI_OURS : CLI_OK;
	if (strlen(reference) > 128)
		return cli_usage(
			err, "\"%.40s...\" is neither the id nor the name of a sandbox", reference);
	for (int stopped = 0; !status && stopped < 2; stopped++) {
		json_decref(answer);
		status = list_named(r, reference, stopped, &answer, err);
		if (json_array_size(json_object_get(answer, "data")))
			break;
	}
	if (status)
		return status;
	list = json_object_get(answer, "data");
	found = json_array_get(list, 0);
	if (!found)
		status = cli_usage(err,
			"no sandbox has the id or the name \"%.128s\" (sealmark sandbox ls)",
			reference);
	else if (json_array_size(list) > 1)
		status = cli_usage(err,
			"several stopped sandboxes were called \"%.128s\": give the id of one "
			"(sealmark sandbox ls --all)",
			reference);
	else if (!is_uuid(json_text(found, "id")))
		status = cli_ours(err, "the server's list has no ids");
	else
		text_copy(id, REMOTE_ID_SIZE, json_text(found, "id"));
	json_decref(answer);
	return status;
}

int remote_sandbox_path(struct remote *r, const char *reference, const char *suffix,
	struct buffer *path, struct error *err)
{
	char id[REMOTE_ID_SIZE];
	int status = remote_sandbox_id(r, reference, id, err);

	if (!status && buffer_printf(path, "/v1/sandboxes/%s%s", id, suffix))
		status = cli_ours(err, "out of memory");
	return status;
}

size_t remote_box_prefix(const char *operand)
{
	size_t n = strcspn(operand, ":/");

	return operand[n] == ':' ? n : 0;
}

int remote_guest_path(const char *path, struct buffer *out)
{
	if (*path != '/' && buffer_add_text(out, HOME_IN_GUEST))
		return -ENOMEM;
	if (*path && *path != '/' && buffer_add_text(out, "/"))
		return -ENOMEM;
	return buffer_add_text(out, path);
}

int remote_pages(struct remote *r, const char *path, json_t *all, struct error *err)
{
	char cursor[256] = "";
	int status = CLI_OK;

	for (unsigned n = 0; !status && n < PAGES_MOST; n++) {
		struct buffer page = {0};
		json_t *answer = NULL;

		buffer_add_text(&page, path);
		remote_query(&page, "limit", "100");
		remote_query(&page, "cursor", cursor[0] ? cursor : NULL);
		status = remote_call(r,
			&(struct remote_call){.method = "GET", .path = buffer_text(&page)}, &answer,
			err);
		buffer_fini(&page);
		if (!status)
			json_array_extend(all, json_object_get(answer, "data"));
		if (text_copy(cursor, sizeof(cursor), json_text(answer, "nextCursor")))
			cursor[0] = 0;
		json_decref(answer);
		if (!cursor[0])
			break;
	}
	return status;
}
