/* SPDX-License-Identifier: Apache-2.0 - /v1/sandboxes: create, list, get, delete, stop. */
#include "api/internal.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

#define LEASE_S      1800
#define MEMORY_MIB   4096
#define DISK_MIB     4096
#define IMAGE        "default"
#define MIB          (UINT64_C(1) << 20)
#define LABELS_MOST  32
#define IDLE_S       60
#define IDLE_LEAST_S 10

/* --- create --- */

/* What is asked for and cannot be given is refused, never left out in silence. */
const char *sandbox_not_there(const json_t *body)
{
	if (request_text(body, "snapshot", NULL))
		return "Snapshots";
	return NULL;
}

static void add_issue(json_t *issues, const char *path, const char *message)
{
	json_array_append_new(issues, json_pack("{ss ss}", "path", path, "message", message));
}

/* What is asked of one that is `pausable`, or not. */
void sandbox_check_pausing(const json_t *body, bool pausable, json_t *issues)
{
	int64_t idle = request_integer(body, "idlePauseSeconds", 0);

	if (idle > 0 && idle < IDLE_LEAST_S)
		add_issue(issues, "idlePauseSeconds", "must be 0, for never, or from 10 to 86400");
	if (!pausable && idle > 0)
		add_issue(issues, "idlePauseSeconds", "needs pausable: true");
	if (!pausable && strcmp(request_text(body, "onLeaseEnd", "stop"), "pause") == 0)
		add_issue(issues, "onLeaseEnd", "pause needs pausable: true");
}

/* fields against this server's own ceilings and each other; false: answered */
static bool check_sizes(struct request *q, struct store_sandbox *record)
{
	const json_t *body = q->json;
	uint64_t memory_most = q->server->quota.memory_mib;
	int64_t memory = request_integer(
		body, "memoryMiB", memory_most < MEMORY_MIB ? (int64_t)memory_most : MEMORY_MIB);
	int64_t disk =
		request_integer(body, "diskMiB", memory / 2 < DISK_MIB ? memory / 2 : DISK_MIB);
	json_t *issues = json_array();

	record->reserved = strcmp(request_text(body, "cpu", "shared"), "reserved") == 0;
	record->vcpu = (uint32_t)request_integer(body, "vcpu", q->server->vcpu_most);
	record->memory_mib = (uint32_t)memory;
	record->disk_mib = (uint32_t)disk;
	if (record->vcpu > q->server->vcpu_most)
		json_array_append_new(issues, json_pack("{ss ss}", "path", "vcpu", "message",
						      "machines of this host have one CPU each"));
	if ((uint64_t)memory > memory_most)
		json_array_append_new(issues, json_pack("{ss ss}", "path", "memoryMiB", "message",
						      "is more than all sandboxes may have here"));
	if (disk > memory)
		json_array_append_new(
			issues, json_pack("{ss ss}", "path", "diskMiB", "message",
					"the disk is in the machine's memory: at most memoryMiB"));
	sandbox_check_pausing(body, request_boolean(body, "pausable", true), issues);
	if (json_object_get(body, "getOrCreate") && request_boolean(body, "getOrCreate", false) &&
		!request_text(body, "name", NULL))
		json_array_append_new(issues, json_pack("{ss ss}", "path", "name", "message",
						      "is needed with getOrCreate"));
	network_check(json_object_get(body, "network"), issues);
	if (json_array_size(issues)) {
		answer_error(q, API_INVALID_REQUEST, json_pack("{so}", "issues", issues),
			"The request is not valid.");
		return false;
	}
	json_decref(issues);
	return true;
}

static json_t *image_env(const struct image *image)
{
	json_t *env = json_object();

	for (size_t i = 0; i < image->env_count; i++) {
		const char *equals = strchr(image->env[i], '=');
		char name[256];

		if (equals && text_format(name, sizeof(name), "%.*s", (int)(equals - image->env[i]),
				      image->env[i]) == 0)
			json_object_set_new(env, name, json_string(equals + 1));
	}
	return env;
}

static json_t *make_spec(const json_t *body, const struct image *image, const char *image_id)
{
	char reference[128];
	const json_t *env = json_object_get(body, "env"), *most;
	const bool pausable = request_boolean(body, "pausable", true);
	json_t *spec;

	text_format(reference, sizeof(reference), "%s@%s", image->name, image->version);
	spec = json_pack("{ss ss ss si si ss ss so sI ss sI sb sI sb sb ss so ss}", "image",
		reference, "imageId", image_id, "rootfs", image->rootfs, "uid", (int)image->uid,
		"gid", (int)image->gid, "userName", image->user, "cwd", image->cwd, "imageEnv",
		image_env(image), "timeoutSeconds",
		(json_int_t)request_integer(body, "timeoutSeconds", LEASE_S), "cpu",
		request_text(body, "cpu", "shared"), "cpuFloorMillis",
		(json_int_t)request_integer(body, "cpuFloorMillis", API_CPU_FLOOR_MILLIS),
		"pausable", pausable, "idlePauseSeconds",
		(json_int_t)request_integer(body, "idlePauseSeconds", pausable ? IDLE_S : 0),
		"autoWake", request_boolean(body, "autoWake", true), "persistent",
		request_boolean(body, "persistent", false), "onLeaseEnd",
		request_text(body, "onLeaseEnd", pausable ? "pause" : "stop"), "network",
		network_normal(json_object_get(body, "network")), "user",
		request_text(body, "user", "sandbox"));
	if (spec && env)
		json_object_set(spec, "env", (json_t *)(uintptr_t)env);
	most = json_object_get(body, "maxTotalCostMicros");
	if (spec && most)
		json_object_set(spec, "maxTotalCostMicros", (json_t *)(uintptr_t)most);
	return spec;
}

void answer_record(struct request *q, const char *id, int status, int64_t wait_ms, const char *flag)
{
	struct store_sandbox record;
	struct error err = {0};
	json_t *json;
	int r = store_sandbox_get(q->server->store, NULL, id, &record, &err);

	if (!r && wait_ms > 0)
		r = life_wait(q->server, &record, life_has_begun, NULL, wait_ms, &err);
	else if (!r)
		r = life_settle(q->server, &record, &err);
	if (r) {
		answer_failure(q, &err);
	} else {
		json = sandbox_json(&record);
		if (json && flag)
			json_object_set_new(json, flag, json_true());
		answer_json(q, status, json);
	}
	store_sandbox_fini(&record);
}

static int settle_record(void *context, const struct store_sandbox *record)
{
	json_array_append_new(context, json_string(record->id));
	return 0;
}

void sandboxes_settle(struct api_server *server)
{
	const struct store_sandbox_filter filter = {.states = STORE_SANDBOX_LIVE, .limit = 10000};
	json_t *ids = json_array(), *id;
	struct store_sandbox record;
	size_t i;

	store_sandbox_each(server->store, &filter, settle_record, ids, NULL);
	json_array_foreach (ids, i, id) {
		if (store_sandbox_get(server->store, NULL, json_string_value(id), &record, NULL) ==
			0)
			life_settle(server, &record, NULL);
		store_sandbox_fini(&record);
	}
	json_decref(ids);
}

void answer_no_room(struct request *q, int r, const char *taken, const struct error *err)
{
	if (r == -EEXIST)
		answer_error(q, API_NAME_TAKEN, json_pack("{ss}", "sandboxId", taken),
			"Another sandbox has this name.");
	else if (r == -EDQUOT)
		answer_error(q, API_QUOTA_EXCEEDED, json_pack("{ss}", "limit", taken), "%s.",
			error_message(err));
	else if (r == -ENOSPC)
		answer_error(q, API_NO_CAPACITY, json_pack("{ss}", "limit", taken), "%s.",
			error_message(err));
	else
		answer_failure(q, err);
}

static void refuse_create(struct request *q, int r, const struct store_sandbox *record,
	const char *taken, const struct error *err)
{
	int64_t more = meter_hold(&record->terms->meter, 1000 * (uint64_t)record->terms->lease_ms),
		cap = record->terms->cap_micros;

	if (r == STORE_OVER_LIMIT)
		money_refuse(q, record->owner, cap >= 0 && cap < more ? cap : more, err);
	else
		answer_no_room(q, r, taken, err);
}

static int add(
	struct request *q, const struct store_sandbox *record, char *taken, struct error *err)
{
	struct api_server *server = q->server;
	int r = store_sandbox_add(server->store, record, &server->quota, q->replay, taken, err);

	if (r != -EEXIST && r != -EDQUOT && r != -ENOSPC && r != STORE_OVER_LIMIT)
		return r;
	sandboxes_settle(server);
	return store_sandbox_add(server->store, record, &server->quota, q->replay, taken, err);
}

static void create(struct request *q, struct store_sandbox *record)
{
	char taken[ID_SIZE] = "";
	struct error err = {0};
	int r = add(q, record, taken, &err);

	if (r == -EEXIST && request_boolean(q->json, "getOrCreate", false)) {
		answer_record(q, taken, 200, q->wait_ms, "reused");
		return;
	}
	if (r) {
		refuse_create(q, r, record, taken, &err);
		return;
	}
	r = life_start(q->server, record->id, &err);
	if (r) {
		store_sandbox_stopped(q->server->store, record->id, "startup_failed",
			error_message(&err), api_now_ms(), NULL);
		answer_failure(q, &err);
		return;
	}
	answer_record(q, record->id, 201, q->wait_ms, NULL);
}

void sandboxes_create(struct request *q)
{
	const char *missing = sandbox_not_there(q->json),
		   *name = request_text(q->json, "name", NULL);
	const json_t *labels = json_object_get(q->json, "labels");
	struct store_sandbox record = {.created_ms = api_now_ms()};
	char image_id[ID_SIZE];
	struct store_terms terms;
	struct image *image;
	json_t *spec;

	if (q->left[0]) { /* made by a server that could not answer any more */
		q->replayed = true;
		answer_record(q, q->left, 201, q->wait_ms, NULL);
		return;
	}
	if (missing) {
		answer_error(
			q, API_UNAVAILABLE, NULL, "%s: not available on this server.", missing);
		return;
	}
	if (!q->server->quota.reserved &&
		strcmp(request_text(q->json, "cpu", "shared"), "reserved") == 0) {
		answer_error(q, API_UNAVAILABLE, NULL,
			"No CPUs are set aside on this server (quotas.reservedVcpu).");
		return;
	}
	if (!check_sizes(q, &record) || !env_check(q, json_object_get(q->json, "env")))
		return;
	image = image_find(q, request_text(q->json, "image", IMAGE), image_id);
	if (!image)
		return;
	id_uuid(record.id);
	text_copy(record.owner, sizeof(record.owner), q->key.id);
	record.name = name ? strdup(name) : NULL;
	spec = make_spec(q->json, image, image_id);
	record.spec = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
	record.labels = labels ? json_dumps(labels, JSON_COMPACT) : strdup("{}");
	record.expires_ms =
		record.created_ms + 1000 * request_integer(q->json, "timeoutSeconds", LEASE_S);
	record.terms = &terms;
	if (!record.spec || !record.labels || (!record.name && name))
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	else if (money_terms(q, &record, &terms))
		create(q, &record);
	json_decref(spec);
	image_free(image);
	store_sandbox_fini(&record);
}

/* --- list and get --- */

struct list {
	struct api_server *server;
	json_t *ids;
	int64_t last;
	uint32_t left;
	bool more;
};

static int add_listed(void *context, const struct store_sandbox *record)
{
	struct list *list = context;

	if (list->left == 0) {
		list->more = true;
		return 0;
	}
	list->left--;
	list->last = record->seq;
	json_array_append_new(list->ids, json_string(record->id));
	return 0;
}

/* "key:value", or false */
static bool split_label(const char *text, const char **names, const char **values, char *copy)
{
	char *colon;

	text_copy(copy, 512, text);
	colon = strchr(copy, ':');
	if (!colon || strlen(text) >= 512)
		return false;
	*colon = 0;
	*names = copy;
	*values = colon + 1;
	return true;
}

static unsigned wanted_states(const struct request *q)
{
	const json_t *given = json_object_get(q->query, "state"), *name;
	unsigned states = request_boolean(q->query, "includeStopped", false) ? STORE_SANDBOX_ANY
									     : STORE_SANDBOX_LIVE;
	unsigned some = 0;
	size_t i;

	if (!given)
		return states;
	json_array_foreach (given, i, name)
		some |= sandbox_state_bit_of(json_string_value(name));
	return some;
}

/* The records of the ids, brought up to date; those that no longer fit are left out. One that
 * cannot be looked at is no reason to leave it out in silence. */
static int listed(
	struct request *q, const json_t *ids, unsigned states, json_t *data, struct error *err)
{
	struct store_sandbox record;
	json_t *id;
	size_t i;
	int r = 0;

	json_array_foreach ((json_t *)(uintptr_t)ids, i, id) {
		r = store_sandbox_get(q->server->store, NULL, json_string_value(id), &record, err);
		if (r == -ENOENT)
			r = 0; /* forgotten meanwhile */
		else if (!r && (r = life_settle(q->server, &record, err)) == 0 &&
			 !record.deleted_ms && sandbox_state_bit(&record) & states)
			json_array_append_new(data, sandbox_json(&record));
		store_sandbox_fini(&record);
		if (r)
			break;
	}
	return r;
}

void sandboxes_list(struct request *q)
{
	const json_t *labels = json_object_get(q->query, "label");
	const char *names[LABELS_MOST], *values[LABELS_MOST];
	char copies[LABELS_MOST][512], cursor[24];
	struct list list = {.server = q->server, .ids = json_array()};
	json_t *data = json_array();
	struct store_sandbox_filter filter = {.owner = q->key.account ? NULL : q->key.id,
		.name = request_text(q->query, "name", NULL),
		.states = wanted_states(q),
		.label_names = names,
		.label_values = values,
		.labels = json_array_size(labels)};
	struct error err = {0};
	uint64_t after = 0;
	bool wrong = text_u64(request_text(q->query, "cursor", "0"), &after) || after > INT64_MAX;

	for (size_t i = 0; i < filter.labels && !wrong; i++)
		wrong = !split_label(json_string_value(json_array_get(labels, i)), &names[i],
			&values[i], copies[i]);
	list.left = (uint32_t)request_integer(q->query, "limit", 50);
	filter.limit = list.left + 1;
	filter.after = (int64_t)after;
	if (wrong) {
		answer_error(q, API_INVALID_REQUEST, NULL,
			"A label is key:value, and a cursor is what a list gave as nextCursor.");
	} else if (store_sandbox_each(q->server->store, &filter, add_listed, &list, &err) ||
		   listed(q, list.ids, filter.states, data, &err)) {
		answer_failure(q, &err);
	} else {
		text_format(cursor, sizeof(cursor), "%lld", (long long)list.last);
		answer_json(q, 200,
			json_pack("{sO so}", "data", data, "nextCursor",
				list.more ? json_string(cursor) : json_null()));
	}
	json_decref(data);
	json_decref(list.ids);
}

static bool is_state(const struct store_sandbox *record, const void *context)
{
	/* what is stopped never gets there */
	return strcmp(sandbox_state_name(record), context) == 0 ||
	       record->state == STORE_SANDBOX_STOPPED;
}

void sandboxes_get(struct request *q)
{
	const char *state = request_text(q->query, "waitFor", NULL);
	int64_t ms = 1000 * request_integer(q->query, "timeoutSeconds", 60);
	struct store_sandbox record;
	struct error err = {0};

	if (!life_find(q, &record))
		return;
	if (state && life_wait(q->server, &record, is_state, state, ms, &err))
		answer_failure(q, &err);
	else
		answer_json(q, 200, sandbox_json(&record));
	store_sandbox_fini(&record);
}

/* --- changes --- */

/* false: answered */
static bool stop(struct request *q, const struct store_sandbox *record)
{
	struct error err = {0};
	int r = life_stop(q->server, record->id, &err);

	if (r)
		life_failure(q, record, r, &err, false);
	return !r;
}

void sandboxes_stop(struct request *q)
{
	struct store_sandbox record;

	if (!life_find(q, &record))
		return;
	if (record.state == STORE_SANDBOX_STOPPED)
		answer_record(q, record.id, 200, 0, "already");
	else if (stop(q, &record))
		answer_record(q, record.id, 200, 0, NULL);
	store_sandbox_fini(&record);
}

void sandboxes_delete(struct request *q)
{
	struct store_sandbox record;
	struct error err = {0};
	int r = store_sandbox_get(
		q->server->store, q->key.account ? NULL : q->key.id, q->params[0], &record, &err);
	const bool already = !r && record.deleted_ms;

	if (r == -ENOENT) {
		answer_error(q, API_NOT_FOUND, NULL, "There is no sandbox %s.", q->params[0]);
		return;
	}
	if (!r && !record.deleted_ms) {
		if (!stop(q, &record)) {
			store_sandbox_fini(&record);
			return;
		}
		record.deleted_ms = api_now_ms();
		r = store_sandbox_delete(q->server->store, record.id, record.deleted_ms, &err);
		r = r == -ESTALE ? 0 : r;
		api_changed(q->server);
	}
	if (r)
		answer_failure(q, &err);
	else
		answer_json(q, 200,
			json_pack("{ss ss so so*}", "id", record.id, "status", "deleted",
				"deletedAt", api_time(record.deleted_ms), "already",
				already ? json_true() : NULL));
	store_sandbox_fini(&record);
}
