/* SPDX-License-Identifier: Apache-2.0 - images: tag, untag, delete. */
#include "api/builds.h"
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

/* What the operator installed is the operator's to change. */
static bool may_change(struct request *q, const struct image *image)
{
	if (image->id[0] && (q->key.account || strcmp(image->owner, q->key.id) == 0))
		return true;
	answer_error(q, API_FORBIDDEN, NULL,
		"%s@%s was installed on this host; only its operator changes it.", image->name,
		image->version);
	return false;
}

/* The image of the first parameter, one that can be changed; else answers. */
static struct image *find_own(struct request *q)
{
	json_t *about, *json = image_by_id(q, q->params[0], &about);
	const char *state = json_string_value(json_object_get(json, "state"));
	struct image *image = NULL;

	if (json && about && strcmp(state, "ready") != 0)
		answer_error(q,
			strcmp(state, "failed") == 0 ? API_IMAGE_NOT_FOUND : API_BUILD_IN_PROGRESS,
			NULL, "This image is %s.", state);
	else if (json)
		image = image_find(q, q->params[0], NULL);
	json_decref(json);
	json_decref(about);
	if (image && !may_change(q, image)) {
		image_free(image);
		return NULL;
	}
	return image;
}

static void change_tag(struct request *q, bool point)
{
	const char *tag = request_text(q->json, "tag", "");
	struct error err = {0};
	struct image *image;
	int r;

	if (!image_is_tag(tag)) {
		answer_error(q, API_INVALID_REQUEST,
			json_pack("{s[{ss ss}]}", "issues", "path", "tag", "message",
				"must be lower case letters, digits, dots, dashes, a letter first"),
			"tag is not the name of a tag.");
		return;
	}
	image = find_own(q);
	if (!image)
		return;
	r = point ? image_tag(q->server->home, image->name, image->version, tag, &err)
		  : image_untag(q->server->home, image->name, image->version, tag, &err);
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "%s.", error_message(&err));
	else if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200, image_json(q, image));
	image_free(image);
}

void images_tag(struct request *q)
{
	change_tag(q, true);
}

void images_untag(struct request *q)
{
	change_tag(q, false);
}

/* A build that has made nothing: cancelled if it is on its way, then forgotten. */
static void delete_build(struct request *q, json_t *json)
{
	struct error err = {0};
	int r;

	builds_cancel(q->server, q->params[0]);
	r = image_build_forget(q->server->home, q->params[0], &err);
	if (r == -EBUSY)
		answer_error(q, API_BUILD_IN_PROGRESS, NULL,
			"Another process of this host builds it; end it there.");
	else if (r)
		answer_failure(q, &err);
	if (r) {
		json_decref(json);
		return;
	}
	json_object_set_new(json, "state", json_string("deleted"));
	answer_json(q, 200, json);
}

void images_delete(struct request *q)
{
	json_t *about, *json = image_by_id(q, q->params[0], &about);
	const char *state = json_string_value(json_object_get(json, "state"));
	struct error err = {0};
	struct image *image;

	if (!json)
		return;
	if (about && strcmp(state, "ready") != 0) {
		json_decref(about);
		delete_build(q, json);
		return;
	}
	json_decref(about);
	image = image_find(q, q->params[0], NULL);
	if (!image || !may_change(q, image)) {
		json_decref(json);
	} else if (image_delete(q->server->home, image->name, image->version, &err)) {
		json_decref(json);
		answer_failure(q, &err);
	} else {
		image_build_forget(q->server->home, image->id, NULL);
		audit_done(
			q, "image.deleted", q->params[0], request_text(json, "name", image->name));
		json_object_set_new(json, "state", json_string("deleted"));
		answer_json(q, 200, json);
	}
	image_free(image);
}
