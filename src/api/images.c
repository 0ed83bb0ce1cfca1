/* SPDX-License-Identifier: Apache-2.0 - images: those installed on this host. */
#include "api/internal.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

/* An id that never changes: a UUID (version 8) out of name, version and contents. */
static void image_id(const struct image *image, char *out)
{
	char text[256], hex[HASH_HEX_SIZE];

	text_format(
		text, sizeof(text), "image %s@%s %s", image->name, image->version, image->digest);
	hash_bytes(text, strlen(text), hex);
	text_format(out, ID_SIZE, "%.8s-%.4s-8%.3s-a%.3s-%.12s", hex, hex + 8, hex + 12, hex + 15,
		hex + 18);
}

static json_t *image_json(const struct image *image, bool latest)
{
	bool damaged = !image->digest[0];
	char id[ID_SIZE], reference[128];

	image_id(image, id);
	text_format(reference, sizeof(reference), "%s@%s", image->name, image->version);
	return json_pack("{ss ss ss ss ss so ss so s{} ss sI ss* ss* ss}", "id", id, "kind",
		"image", "name", image->name, "version", image->version, "reference", reference,
		"tags", latest ? json_pack("[s]", "latest") : json_array(), "state",
		damaged ? "failed" : "ready", "error",
		damaged ? json_string(image->description ? image->description : "damaged")
			: json_null(),
		"labels", "recipeDigest", image->recipe_digest, "sizeBytes",
		(json_int_t)image->size_bytes, "description", image->description, "createdAt",
		image->created, "sha256", image->digest);
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

struct image *image_find(struct request *q, const char *reference, char *id)
{
	char text[256] = "";
	struct image *image = NULL;
	struct error err = {0};
	int r = 0;

	if (is_id(reference))
		r = reference_of(q->server, reference, text, sizeof(text), &err);
	else if (text_ends(reference, ":latest"))
		text_format(text, sizeof(text), "%.*s", (int)(strlen(reference) - 7), reference);
	else if (!strchr(reference, ':'))
		text_copy(text, sizeof(text), reference);
	if (!r && !text[0]) {
		answer_error(q, API_IMAGE_NOT_FOUND, NULL, "There is no image %.100s.", reference);
		return NULL;
	}
	if (!r)
		r = image_resolve(q->server->home, text, &image, &err);
	if (r == -ENOENT || r == -EINVAL) {
		answer_error(q, API_IMAGE_NOT_FOUND, NULL, "%s.", error_message(&err));
		return NULL;
	}
	if (r) {
		answer_failure(q, &err);
		return NULL;
	}
	if (id)
		image_id(image, id);
	return image;
}

static bool is_latest(struct request *q, const struct image *image)
{
	struct image *latest;
	bool same = false;

	if (image_resolve(q->server->home, image->name, &latest, NULL) == 0) {
		same = strcmp(latest->version, image->version) == 0;
		image_free(latest);
	}
	return same;
}

static void answer_image(struct request *q, const char *reference)
{
	struct image *image = image_find(q, reference, NULL);

	if (image)
		answer_json(q, 200, image_json(image, is_latest(q, image)));
	image_free(image);
}

void images_get(struct request *q)
{
	answer_image(q, q->params[0]);
}

void images_resolve(struct request *q)
{
	answer_image(q, request_text(q->query, "ref", ""));
}

/* the cursor is the number of images before */
void images_list(struct request *q)
{
	const char *name = request_text(q->query, "name", NULL);
	const char *state = request_text(q->query, "state", NULL);
	int64_t limit = request_integer(q->query, "limit", 50);
	uint64_t skip = 0, at = 0;
	json_t *data = json_array(), *next = json_null();
	struct image **images;
	struct error err = {0};
	size_t count;

	if (text_u64(request_text(q->query, "cursor", "0"), &skip)) {
		json_decref(data);
		answer_error(q, API_INVALID_REQUEST, NULL, "This cursor is none of this server.");
		return;
	}
	if (image_list(q->server->home, &images, &count, &err)) {
		json_decref(data);
		answer_failure(q, &err);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const char *is = images[i]->digest[0] ? "ready" : "failed";

		if ((name && strcmp(images[i]->name, name)) || (state && strcmp(is, state)) ||
			at++ < skip)
			continue;
		if (json_array_size(data) == (size_t)limit) {
			char text[24];

			text_format(text, sizeof(text), "%llu", (unsigned long long)at - 1);
			next = json_string(text);
			break;
		}
		json_array_append_new(data, image_json(images[i], is_latest(q, images[i])));
	}
	image_list_free(images, count);
	answer_json(q, 200, json_pack("{so so}", "data", data, "nextCursor", next));
}
