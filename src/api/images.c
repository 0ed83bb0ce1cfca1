/* SPDX-License-Identifier: Apache-2.0 - images: those of this host, and builds on their way. */
#include "api/builds.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

/* An id that never changes: the build's, or a UUID (version 8) out of name, version and contents.
 */
static void image_id(const struct image *image, char *out)
{
	char text[256], hex[HASH_HEX_SIZE];

	if (image->id[0]) {
		text_copy(out, ID_SIZE, image->id);
		return;
	}
	text_format(
		text, sizeof(text), "image %s@%s %s", image->name, image->version, image->digest);
	hash_bytes(text, strlen(text), hex);
	text_format(out, ID_SIZE, "%.8s-%.4s-8%.3s-a%.3s-%.12s", hex, hex + 8, hex + 12, hex + 15,
		hex + 18);
}

/* What the operator put there is everybody's. */
bool image_visible(const struct request *q, const char *owner)
{
	return !owner || !owner[0] || q->key.account || strcmp(owner, q->key.id) == 0;
}

static json_t *tags_of(const struct request *q, const struct image *image)
{
	json_t *out = json_array();
	char **tags;

	if (image_tags(q->server->home, image->name, image->version, &tags, NULL) == 0) {
		for (char **t = tags; *t; t++)
			json_array_append_new(out, json_string(*t));
		image_tags_free(tags);
	}
	return out;
}

json_t *image_json(struct request *q, const struct image *image)
{
	bool damaged = !image->digest[0];
	char id[ID_SIZE], reference[128];
	json_t *about = NULL, *json;
	const json_t *labels;

	image_id(image, id);
	text_format(reference, sizeof(reference), "%s@%s", image->name, image->version);
	if (image->id[0])
		image_build_read(q->server->home, id, &about, NULL);
	labels = json_object_get(about, "labels");
	json = json_pack("{ss ss ss ss ss so ss so sO* ss sI ss* ss* ss}", "id", id, "kind",
		"image", "name", image->name, "version", image->version, "reference", reference,
		"tags", tags_of(q, image), "state", damaged ? "failed" : "ready", "error",
		damaged ? json_string(image->description ? image->description : "damaged")
			: json_null(),
		"labels", labels, "recipeDigest", image->recipe_digest, "sizeBytes",
		(json_int_t)image->size_bytes, "description", image->description, "createdAt",
		image->created, "sha256", image->digest);
	if (!labels)
		json_object_set_new(json, "labels", json_object());
	json_decref(about);
	return json;
}

static int64_t stamp(const json_t *about, const char *name)
{
	return json_integer_value(json_object_get(about, name));
}

json_t *image_build_json(const json_t *about)
{
	const json_t *labels = json_object_get(about, "labels");
	const json_t *error = json_object_get(about, "error");
	json_t *json = json_pack("{sO ss sO sn sn s[] sO sO? sO* sO? so so so}", "id",
		json_object_get(about, "id"), "kind", "image", "name",
		json_object_get(about, "name"), "version", "reference", "tags", "state",
		json_object_get(about, "state"), "error", error, "labels", labels, "recipeDigest",
		json_object_get(about, "digest"), "createdAt", api_time(stamp(about, "createdMs")),
		"startedAt", api_time(stamp(about, "startedMs")), "endedAt",
		api_time(stamp(about, "endedMs")));

	if (!labels)
		json_object_set_new(json, "labels", json_object());
	return json;
}

static bool is_id(const char *text)
{
	return strlen(text) == ID_SIZE - 1 && text[8] == '-' && text[13] == '-' &&
	       text[18] == '-' && text[23] == '-';
}

/* The "name@version" of an id; an empty text when there is none. */
static int reference_of(
	struct api_server *server, const char *id, char *out, size_t size, struct error *err)
{
	struct image **images;
	char other[ID_SIZE];
	size_t count;
	int r = image_list(server->home, &images, &count, err);

	out[0] = 0;
	if (r)
		return r;
	for (size_t i = 0; i < count; i++) {
		image_id(images[i], other);
		if (strcmp(other, id) == 0)
			text_format(out, size, "%s@%s", images[i]->name, images[i]->version);
	}
	image_list_free(images, count);
	return 0;
}

static void not_found(struct request *q, const char *reference)
{
	answer_error(q, API_IMAGE_NOT_FOUND, NULL, "There is no image %.100s.", reference);
}

struct image *image_find(struct request *q, const char *reference, char *id)
{
	char text[256] = "";
	struct image *image = NULL;
	struct error err = {0};
	int r = 0;

	if (is_id(reference))
		r = reference_of(q->server, reference, text, sizeof(text), &err);
	else
		text_copy(text, sizeof(text), reference);
	if (!r && !text[0]) {
		not_found(q, reference);
		return NULL;
	}
	if (!r)
		r = image_resolve(q->server->home, text, &image, &err);
	if (r == -ENOENT) { /* the message names what there is, of other keys too */
		not_found(q, reference);
		return NULL;
	}
	if (r == -EINVAL) {
		answer_error(q, API_IMAGE_NOT_FOUND, NULL, "%s.", error_message(&err));
		return NULL;
	}
	if (r) {
		answer_failure(q, &err);
		return NULL;
	}
	if (!image_visible(q, image->owner)) {
		image_free(image);
		not_found(q, reference);
		return NULL;
	}
	if (id)
		image_id(image, id);
	return image;
}

json_t *image_by_id(struct request *q, const char *id, json_t **about)
{
	const char *state = NULL;
	struct image *image;
	json_t *json = NULL;

	*about = NULL;
	if (is_id(id) && image_build_read(q->server->home, id, about, NULL) == 0 &&
		!image_visible(q, json_string_value(json_object_get(*about, "owner")))) {
		json_decref(*about);
		*about = NULL;
		not_found(q, id);
		return NULL;
	}
	state = json_string_value(json_object_get(*about, "state"));
	if (state && strcmp(state, "ready") != 0)
		return image_build_json(*about);
	image = image_find(q, id, NULL);
	if (image)
		json = image_json(q, image);
	if (!image || !json) {
		json_decref(*about);
		*about = NULL;
	}
	if (image && !json)
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	image_free(image);
	return json;
}

void images_get(struct request *q)
{
	json_t *about, *json = image_by_id(q, q->params[0], &about);

	if (json)
		answer_json(q, 200, json);
	json_decref(about);
}

void images_resolve(struct request *q)
{
	struct image *image = image_find(q, request_text(q->query, "ref", ""), NULL);

	if (image)
		answer_json(q, 200, image_json(q, image));
	image_free(image);
}

/* --- the list: builds that made no image, the newest first, then images by name --- */

struct listing {
	const char *name, *state;
	uint64_t skip, at;
	size_t limit;
	json_t *data, *next;
};

/* Takes json; false: the page is full. */
static bool add(struct listing *l, json_t *json)
{
	const char *name = json_string_value(json_object_get(json, "name"));
	const char *state = json_string_value(json_object_get(json, "state"));
	char text[24];

	if (!name || !state || (l->name && strcmp(name, l->name)) ||
		(l->state && strcmp(state, l->state)) || l->at++ < l->skip) {
		json_decref(json);
		return true;
	}
	if (json_array_size(l->data) < l->limit) {
		json_array_append_new(l->data, json);
		return true;
	}
	text_format(text, sizeof(text), "%llu", (unsigned long long)l->at - 1);
	json_decref(l->next);
	l->next = json_string(text);
	json_decref(json);
	return false;
}

static int list_all(struct request *q, struct listing *l, struct error *err)
{
	struct image **images;
	json_t *builds;
	size_t count;
	bool room = true;
	int r = image_builds(q->server->home, &builds, err);

	if (r)
		return r;
	for (size_t i = json_array_size(builds); i > 0 && room; i--) {
		const json_t *about = json_array_get(builds, i - 1);

		if (strcmp(json_string_value(json_object_get(about, "state")), "ready") != 0 &&
			image_visible(q, json_string_value(json_object_get(about, "owner"))))
			room = add(l, image_build_json(about));
	}
	json_decref(builds);
	r = image_list(q->server->home, &images, &count, err);
	if (r)
		return r;
	for (size_t i = 0; i < count && room; i++) {
		if (image_visible(q, images[i]->owner))
			room = add(l, image_json(q, images[i]));
	}
	image_list_free(images, count);
	return 0;
}

/* the cursor is the number of entries before */
void images_list(struct request *q)
{
	struct listing l = {.name = request_text(q->query, "name", NULL),
		.state = request_text(q->query, "state", NULL),
		.limit = (size_t)request_integer(q->query, "limit", 50)};
	struct error err = {0};

	if (text_u64(request_text(q->query, "cursor", "0"), &l.skip)) {
		answer_error(q, API_INVALID_REQUEST, NULL, "This cursor is none of this server.");
		return;
	}
	l.data = json_array();
	l.next = json_null();
	if (list_all(q, &l, &err)) {
		json_decref(l.data);
		json_decref(l.next);
		answer_failure(q, &err);
		return;
	}
	answer_json(q, 200, json_pack("{so so}", "data", l.data, "nextCursor", l.next));
}
