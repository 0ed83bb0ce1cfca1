/* SPDX-License-Identifier: Apache-2.0 - images: a build is asked for. */
#include "api/builds.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_STEP_MS 1000

/* What is asked for, on its way to a build. */
struct asked {
	struct image_source source;
	struct image_plan *plan;
	struct image *base;
	json_t *chunks, *tags;
	char digest[HASH_HEX_SIZE], name[IMAGE_NAME_MAX + 1];
};

static void asked_fini(struct asked *a)
{
	image_plan_free(a->plan);
	image_free(a->base);
	json_decref(a->chunks);
	json_decref(a->tags);
}

static void refuse(struct request *q, json_t *issues)
{
	answer_error(q, API_INVALID_REQUEST, json_pack("{sO}", "issues", issues),
		"The request is not valid.");
}

/* --- what this server has no meaning for --- */

/* Of one build's machine: what the operator says of builds, within what all machines may have
 * together, and those of one key. */
static uint32_t memory_most(const struct request *q)
{
	const struct store_quota *quota = &q->server->quota;
	uint64_t most = q->server->options.build_memory_mib;

	if (quota->memory_mib < most)
		most = quota->memory_mib;
	if (quota->key_memory_mib && quota->key_memory_mib < most)
		most = quota->key_memory_mib;
	return (uint32_t)most;
}

static void check_unknown(struct request *q, const json_t *body, json_t *issues)
{
	uint32_t most = memory_most(q);
	int64_t memory = request_integer(json_object_get(body, "build"), "memoryMiB", most);
	const json_t *start = json_object_get(body, "start");

	if (json_object_get(body, "image"))
		image_issue(issues, "image",
			"images of registries cannot be taken here; give recipe.base, an image of "
			"this server");
	if (most < IMAGE_BUILD_MEMORY_LEAST)
		image_issue(issues, "build.memoryMiB",
			"a build takes %u at the least, and no machine may have more than %u here",
			IMAGE_BUILD_MEMORY_LEAST, most);
	else if (memory > most)
		image_issue(issues, "build.memoryMiB", "may be %u here at the most", most);
	if (json_object_get(body, "target"))
		image_issue(issues, "target", "builds have one stage here");
	if (start && !json_is_null(start))
		image_issue(issues, "start",
			"sandboxes start nothing by themselves here; give null or leave it out");
}

static void check_names(struct asked *a, const json_t *body, json_t *issues)
{
	const char *name = request_text(body, "name", "");
	const json_t *list = json_object_get(body, "tags");
	char path[32];
	json_t *tag;
	size_t i;

	if (name[0] && !image_is_name(name))
		image_issue(issues, "name",
			"must be lower case letters, digits, dots, dashes and underscores");
	text_copy(a->name, sizeof(a->name), name);
	a->tags = list ? json_deep_copy(list) : json_pack("[s]", "latest");
	json_array_foreach (list, i, tag) {
		text_format(path, sizeof(path), "tags[%zu]", i);
		if (!image_is_tag(json_string_value(tag)))
			image_issue(issues, path,
				"must be lower case letters, digits, dots, dashes, a letter first");
	}
}

/* The pieces of a context, which must be here. */
static void check_context(struct request *q, struct asked *a, const json_t *context, json_t *issues)
{
	const json_t *archive = json_object_get(context, "archive");
	const json_t *chunks = json_object_get(archive, "chunks");
	char path[PATH_MAX], at[64];
	json_t *chunk;
	size_t i;

	if (!context)
		return;
	if (!a->source.dockerfile)
		image_issue(issues, "context", "goes with dockerfile");
	json_array_foreach (chunks, i, chunk) {
		text_format(at, sizeof(at), "context.archive.chunks[%zu]", i);
		if (context_file(q->server, q->key.id, json_string_value(chunk), path, NULL))
			image_issue(issues, at, "must be a SHA-256 in lower case hexadecimal");
		else if (access(path, F_OK))
			image_issue(issues, at, "is not here: PUT /v1/images/context/{digest}");
	}
	a->chunks = json_deep_copy(chunks);
}

/* Fill in a; false: answered. */
static bool understand(struct request *q, struct asked *a)
{
	const json_t *body = q->json;
	json_t *issues = json_array();
	struct error err = {0};
	bool fine = false;
	int r = 0;

	a->source = (struct image_source){
		.recipe = json_object_get(body, "recipe"),
		.dockerfile = json_object_get(body, "dockerfile"),
		.files = json_object_get(body, "files"),
		.arguments = json_object_get(body, "buildArgs"),
		.env = json_object_get(body, "env"),
		.no_start = json_is_null(json_object_get(body, "start")),
	};
	check_unknown(q, body, issues);
	check_names(a, body, issues);
	check_context(q, a, json_object_get(body, "context"), issues);
	if (!json_array_size(issues))
		r = image_source_plan(
			q->server->home, &a->source, &a->plan, &a->base, issues, &err);
	if (json_array_size(issues))
		refuse(q, issues);
	else if (r == -ENOENT)
		answer_error(q, API_IMAGE_NOT_FOUND, NULL, "%s.", error_message(&err));
	else if (r)
		answer_failure(q, &err);
	else if (!image_visible(q, a->base->owner))
		answer_error(
			q, API_IMAGE_NOT_FOUND, NULL, "There is no image %.100s.", a->plan->base);
	else
		fine = true;
	json_decref(issues);
	return fine;
}

static void digest(struct asked *a)
{
	cleanup_free char *text = a->chunks ? json_dumps(a->chunks, JSON_COMPACT) : NULL;
	char context[HASH_HEX_SIZE] = "";

	if (text)
		hash_bytes(text, strlen(text), context);
	image_source_digest(&a->source, a->base, context, a->digest);
	if (!a->name[0])
		image_source_name(a->digest, a->name);
}

/* --- whose name it is --- */

static bool is_recorded(struct request *q, const char *name)
{
	bool found = false;
	json_t *builds, *about;
	size_t i;

	if (image_builds(q->server->home, &builds, NULL))
		return false;
	json_array_foreach (builds, i, about) {
		const char *state = request_text(about, "state", "");

		found |= strcmp(request_text(about, "name", ""), name) == 0 &&
			 strcmp(request_text(about, "owner", ""), q->key.id) != 0 &&
			 (strcmp(state, "queued") == 0 || strcmp(state, "building") == 0);
	}
	json_decref(builds);
	return found;
}

/* The operator builds this name just now, with `sealmark image build`. What a killed process has
 * left is no build. */
static bool is_built_elsewhere(struct request *q, const char *name)
{
	return !q->key.account && is_recorded(q, name) &&
	       image_builds_sweep(q->server->home, 0, NULL) == 0 && is_recorded(q, name);
}

/* A name belongs to who built it first; the operator's names are the operator's. False: answered.
 */
static bool check_owner(struct request *q, const struct asked *a)
{
	struct image **images;
	struct error err = {0};
	bool fine = true;
	size_t count;

	if (image_list(q->server->home, &images, &count, &err)) {
		answer_failure(q, &err);
		return false;
	}
	for (size_t i = 0; i < count && fine; i++) {
		const struct image *image = images[i];

		fine = strcmp(image->name, a->name) != 0 ||
		       (image->id[0] && (q->key.account || strcmp(image->owner, q->key.id) == 0));
	}
	image_list_free(images, count);
	if (!fine)
		answer_error(q, API_NAME_TAKEN, NULL,
			"The image %s is somebody else's; choose another name.", a->name);
	return fine;
}

/* --- limits --- */

static bool check_room(struct request *q, uint64_t *left)
{
	const struct api_options *o = &q->server->options;
	unsigned most = o->builds_queued_most;
	uint64_t most_bytes = (uint64_t)o->images_most_mib << 20, used;
	struct error err = {0};

	*left = 0;
	/* who has none yet finds a place also when others have taken all */
	if (builds_count(q->server, NULL) >=
		(builds_count(q->server, q->key.id) ? most : 2 * most)) {
		answer_error(q, API_BUILD_IN_PROGRESS, NULL, "%u builds wait already.", most);
		return false;
	}
	if (!most_bytes)
		return true;
	if (image_built_bytes(q->server->home, &used, &err)) {
		answer_failure(q, &err);
		return false;
	}
	if (used >= most_bytes) {
		answer_error(q, API_QUOTA_EXCEEDED, json_pack("{ss}", "limit", "images"),
			"Images take %llu MiB, and may take %u; delete some.",
			(unsigned long long)(used >> 20), o->images_most_mib);
		return false;
	}
	*left = most_bytes - used;
	return true;
}

/* --- the answer --- */

static void answer_build(struct request *q, const char *id, int status, bool cached)
{
	json_t *about, *json = image_by_id(q, id, &about);

	if (json) {
		json_object_set_new(json, "cached", json_boolean(cached));
		answer_json(q, status, json);
	}
	json_decref(about);
}

bool build_is_over(struct api_server *server, const char *id)
{
	json_t *about;
	const char *state;
	bool over;

	if (image_build_read(server->home, id, &about, NULL))
		return true;
	state = json_string_value(json_object_get(about, "state"));
	over = strcmp(state, "queued") != 0 && strcmp(state, "building") != 0;
	json_decref(about);
	return over;
}

/* Until it is over, or the time is. */
static void wait_settled(struct request *q, const char *id)
{
	int64_t end = api_now_ms() + q->wait_ms;

	for (int64_t left = q->wait_ms; left > 0; left = end - api_now_ms()) {
		uint64_t seen = builds_changes(q->server);
		bool over = build_is_over(q->server, id);

		pthread_mutex_lock(&q->server->lock);
		over = over || q->server->stopping;
		pthread_mutex_unlock(&q->server->lock);
		if (over)
			return;
		builds_wait(q->server, seen, left < SETTLE_STEP_MS ? left : SETTLE_STEP_MS);
	}
}

/* It is there: its tags move, and that is all. */
static void answer_same(struct request *q, const struct asked *a, const struct image *same)
{
	struct error err = {0};
	json_t *tag, *json;
	size_t i;

	json_array_foreach (a->tags, i, tag) {
		if (image_tag(q->server->home, same->name, same->version, json_string_value(tag),
			    &err)) {
			answer_failure(q, &err);
			return;
		}
	}
	json = image_json(q, same);
	json_object_set_new(json, "cached", json_true());
	answer_json(q, 200, json);
}

/* --- the build --- */

static struct image_build *make_build(struct request *q, const struct asked *a)
{
	const json_t *labels = json_object_get(q->json, "labels");
	json_t *about = json_pack("{ss ss ss ss sO sO*}", "name", a->name, "owner", q->key.id,
		"digest", a->digest, "base", a->plan->base, "tags", a->tags, "labels", labels);
	struct image_build *build = NULL;
	struct error err = {0};

	if (!about)
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	else if (image_build_new(q->server->home, about, &build, &err))
		answer_failure(q, &err);
	json_decref(about);
	return build;
}

static void reuse(struct request *q, const struct asked *a, const struct image *same, bool *claimed)
{
	struct image_build *build = make_build(q, a);
	struct error err = {0};
	char id[ID_SIZE];
	int r;

	if (!build)
		return;
	text_copy(id, sizeof(id), image_build_id(build));
	r = image_build_reuse(build, same, &err);
	image_build_free(build);
	builds_release(q->server, a->name); /* before anybody knows that it is there */
	*claimed = false;
	if (r)
		answer_failure(q, &err);
	else
		answer_build(q, id, 201, true);
}

static void start(struct request *q, struct asked *a, struct build_job *job, bool *claimed)
{
	const json_t *limits = json_object_get(q->json, "build");
	uint64_t most = (uint64_t)request_integer(limits, "maxImageMiB", 0) << 20;
	struct error err = {0};
	char id[ID_SIZE];

	if (!check_room(q, &job->bytes_most))
		return;
	if (most && (!job->bytes_most || most < job->bytes_most))
		job->bytes_most = most;
	job->timeout_ms = 1000 * request_integer(limits, "timeoutSeconds", 0);
	job->plan = a->plan;
	job->base = a->base;
	job->chunks = a->chunks;
	job->build = make_build(q, a);
	if (!job->build)
		return;
	text_copy(id, sizeof(id), image_build_id(job->build));
	if (builds_add(q->server, job, &err)) {
		image_build_fail(job->build, error_message(&err), NULL);
		image_build_free(job->build);
		answer_failure(q, &err);
		return;
	}
	*claimed = false; /* the job's now */
	a->plan = NULL;
	a->base = NULL;
	a->chunks = NULL;
	wait_settled(q, id);
	answer_build(q, id, 201, false);
}

/* From here on it is the one build of its name, on this server. */
static void build(struct request *q, struct asked *a, const struct image *same)
{
	struct build_job job = {
		.memory_mib = (uint32_t)request_integer(
			json_object_get(q->json, "build"), "memoryMiB", memory_most(q))};
	struct error err = {0};
	bool claimed;
	int r;

	text_copy(job.owner, sizeof(job.owner), q->key.id);
	text_copy(job.name, sizeof(job.name), a->name);
	r = builds_claim(q->server, &job, &err);
	claimed = !r;
	if (r && r != -EEXIST)
		answer_failure(q, &err);
	else if (r || is_built_elsewhere(q, a->name))
		answer_error(q, API_BUILD_IN_PROGRESS, NULL,
			"The image %s is being built; its next build can be asked for then.",
			a->name);
	else if (!check_owner(q, a)) /* again: it may have become somebody's */
		;
	else if (same && image_visible(q, same->owner))
		reuse(q, a, same, &claimed);
	else
		start(q, a, &job, &claimed);
	if (claimed)
		builds_release(q->server, job.name);
}

void images_create(struct request *q)
{
	struct asked a = {0};
	struct image *same = NULL;

	if (understand(q, &a)) {
		digest(&a);
		if (request_boolean(q->json, "cache", true))
			image_source_same(q->server->home, a.name, a.digest, &same, NULL);
		if (!check_owner(q, &a))
			;
		else if (same && strcmp(same->name, a.name) == 0)
			answer_same(q, &a, same);
		else
			build(q, &a, same);
	}
	image_free(same);
	asked_fini(&a);
}
