/* SPDX-License-Identifier: Apache-2.0 - .../files/watches: begun, listed, read and ended. */
#include "api/watches.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

#define BATCH_MS      50
#define TIMEOUT_MS    3600000
#define OUTPUT_MOST   262144
#define PATTERNS_MOST 64

static json_t *watch_json(const struct sandbox_process *p)
{
	json_t *about = json_loads(p->about ? p->about : "", 0, NULL);
	json_t *out = about ? about : json_object();
	bool runs = p->state < WIRE_PROCESS_ENDED;

	json_object_set_new(out, "id", json_string(p->id + strlen(WATCH_PREFIX)));
	json_object_set_new(out, "state", json_string(runs ? "running" : "ended"));
	json_object_set_new(out, "startedAt", api_time(p->started_ms));
	json_object_set_new(out, "cursor", json_integer(0));
	return out;
}

/* --- begin --- */

static uint32_t event_bits(const json_t *names)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} known[] = {{"create", WIRE_WATCH_CREATE}, {"write", WIRE_WATCH_WRITE},
		{"remove", WIRE_WATCH_REMOVE}, {"rename", WIRE_WATCH_RENAME},
		{"chmod", WIRE_WATCH_CHMOD}};
	uint32_t bits = 0;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const json_t *name;
		size_t n;

		json_array_foreach (names, n, name) {
			if (strcmp(json_string_value(name), known[i].name) == 0)
				bits |= known[i].bit;
		}
		bits |= names ? 0 : known[i].bit;
	}
	return bits;
}

static void complain(struct request *q, const char *path, const char *message)
{
	answer_error(q, API_INVALID_REQUEST,
		json_pack("{s[{ss ss}]}", "issues", "path", path, "message", message), "%s %s.",
		path, message);
}

/* false: answered */
static bool take_patterns(struct request *q, const char *name, const char **out)
{
	const json_t *list = json_object_get(q->json, name), *text;
	size_t i, size = 0;

	json_array_foreach (list, i, text) {
		if (i == PATTERNS_MOST)
			break;
		out[i] = json_string_value(text);
		size += json_string_length(text) + 1;
		if (*out[i] && size <= WIRE_WATCH_PATTERNS)
			continue;
		complain(q, name, "must be patterns of 4096 bytes in all");
		return false;
	}
	return true;
}

/* false: answered */
static bool check(struct request *q)
{
	const char *id = request_text(q->json, "id", "");

	if (*request_text(q->json, "path", "") != '/')
		complain(q, "path", "must be an absolute path");
	else if (id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		complain(q, "id", "must be of a-z, 0-9 and -");
	else if (request_boolean(q->json, "webhook", false))
		answer_error(q, API_UNAVAILABLE, NULL, "Webhooks: not available on this server.");
	return !q->status;
}

static char *watch_about(const json_t *body)
{
	json_t *about = json_copy((json_t *)(uintptr_t)body);
	char *text;

	json_object_del(about, "id");
	json_object_del(about, "webhook");
	text = about ? json_dumps(about, JSON_COMPACT) : NULL;
	if (text && strlen(text) >= COMMAND_ABOUT) { /* long patterns: they are not shown */
		free(text);
		json_object_del(about, "include");
		json_object_del(about, "exclude");
		text = json_dumps(about, JSON_COMPACT);
	}
	if (text && strlen(text) >= COMMAND_ABOUT)
		text[0] = 0; /* a path of many odd letters */
	json_decref(about);
	return text;
}

static void failure(
	struct request *q, const struct store_sandbox *record, int r, const struct error *err)
{
	if (r == -EOPNOTSUPP)
		answer_error(q, API_UNAVAILABLE, NULL, "This machine cannot watch folders.");
	else if (r == -EEXIST)
		answer_error(q, API_ALREADY_EXISTS, NULL, "There is a watch of that id.");
	else
		command_failure(q, record, r, err);
}

static void begin(struct request *q, struct sandbox *s, const struct store_sandbox *record,
	struct watch_spec *spec)
{
	json_t *machine = json_loads(record->spec, 0, NULL);
	struct sandbox_process process = {0};
	struct sandbox_user user;
	struct error err = {0};
	int r;

	sandbox_user(machine, false, &user);
	spec->uid = user.uid;
	spec->gid = user.gid;
	r = sandbox_watch(s, spec, &process, &err);
	if (r)
		failure(q, record, r, &err);
	else
		answer_json(q, 201, watch_json(&process));
	sandbox_process_fini(&process);
	json_decref(machine);
}

void watches_create(struct request *q)
{
	const char *include[PATTERNS_MOST + 1] = {0}, *exclude[PATTERNS_MOST + 1] = {0};
	char id[sizeof(WATCH_PREFIX) + ID_SIZE] = WATCH_PREFIX, fresh[ID_SIZE];
	struct store_sandbox record = {0};
	struct sandbox *s;
	char *about;

	id_uuid(fresh);
	text_copy(id + strlen(WATCH_PREFIX), sizeof(id) - strlen(WATCH_PREFIX),
		request_text(q->json, "id", fresh));
	if (!check(q) || !take_patterns(q, "include", include) ||
		!take_patterns(q, "exclude", exclude))
		return;
	s = life_attach(q, &record);
	if (!s)
		return;
	about = watch_about(q->json);
	if (about)
		begin(q, s, &record,
			&(struct watch_spec){.path = request_text(q->json, "path", ""),
				.recursive = request_boolean(q->json, "recursive", false),
				.events = event_bits(json_object_get(q->json, "events")),
				.batch_ms = (uint32_t)request_integer(q->json, "batchMs", BATCH_MS),
				.folders = (uint32_t)request_integer(q->json, "maxWatches", 0),
				.timeout_ms = request_integer(q->json, "timeoutMs", TIMEOUT_MS),
				.include = include,
				.exclude = exclude,
				.id = id,
				.about = about});
	else
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	free(about);
	sandbox_free(s);
	store_sandbox_fini(&record);
}

/* --- look --- */

void watches_list(struct request *q)
{
	struct sandbox_process *list = NULL;
	struct store_sandbox record = {0};
	struct error err = {0};
	size_t count = 0;
	json_t *data;
	struct sandbox *s = life_attach_as_it_is(q, &record);
	int r;

	if (!s)
		return;
	data = json_array();
	r = sandbox_processes(s, &list, &count, &err);
	for (size_t i = 0; i < count; i++) {
		if (process_is_watch(list[i].id) && list[i].state < WIRE_PROCESS_ENDED)
			json_array_append_new(data, watch_json(&list[i]));
	}
	if (r)
		failure(q, &record, r, &err);
	else
		answer_json(q, 200, json_pack("{sO sn}", "data", data, "nextCursor"));
	json_decref(data);
	sandbox_processes_free(list, count);
	sandbox_free(s);
	store_sandbox_fini(&record);
}

struct use {
	struct sandbox *sandbox;
	struct store_sandbox record;
	struct error err;
	char id[sizeof(WATCH_PREFIX) + ID_SIZE];
	char request_id[ID_SIZE];
	struct api_server *server;
	uint64_t cursor;
};

static void use_free(void *context)
{
	struct use *u = context;

	sandbox_free(u->sandbox);
	store_sandbox_fini(&u->record);
	free(u);
}

/* NULL: answered */
static struct use *use_new(struct request *q, bool wake)
{
	struct use *u = calloc(1, sizeof(*u));
	int r;

	if (!u) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return NULL;
	}
	u->server = q->server;
	u->cursor = (uint64_t)request_integer(q->query, "cursor", 0);
	text_copy(u->request_id, sizeof(u->request_id), q->id);
	text_copy(u->id, sizeof(u->id), WATCH_PREFIX);
	r = text_copy(
		u->id + strlen(WATCH_PREFIX), sizeof(u->id) - strlen(WATCH_PREFIX), q->params[1]);
	if (r)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such watch.");
	else
		u->sandbox =
			wake ? life_attach(q, &u->record) : life_attach_as_it_is(q, &u->record);
	if (!u->sandbox) {
		free(u);
		return NULL;
	}
	return u;
}

static void answer_use_failure(struct request *q, const struct use *u, int r)
{
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such watch.");
	else
		failure(q, &u->record, r, &u->err);
}

/* what there is now, waiting for it at most so long */
static int read_items(struct use *u, struct watch_items *items, int64_t wait_ms, bool *ended)
{
	const struct output_spec spec = {.id = u->id,
		.cursor = items->cursor,
		.most = OUTPUT_MOST,
		.wait_ms = wait_ms,
		.cancel_fd = -1,
		.on_piece = watch_items_piece,
		.context = items};
	struct sandbox_process p = {0};
	int r = sandbox_process_output(u->sandbox, &spec, &p, &u->err);

	*ended = !r && p.state >= WIRE_PROCESS_ENDED && items->cursor >= p.output_end;
	sandbox_process_fini(&p);
	return r;
}

static json_t *events_json(const struct watch_items *items, bool ended)
{
	json_t *events = json_array(), *notices = json_array(), *item;
	json_int_t lost = 0;
	size_t i;

	json_array_foreach (items->list, i, item) {
		const char *k = request_text(item, "k", "");

		json_object_del(item, "start");
		json_object_del(item, "cursor");
		if (!*k)
			json_array_append(events, item);
		else if (strcmp(k, "lost") == 0)
			lost += request_integer(item, "bytes", 0);
		else
			json_array_append(notices, item);
	}
	return json_pack("{so so sI sI sb}", "events", events, "notices", notices, "nextCursor",
		(json_int_t)items->told, "lostBytes", lost, "ended", ended);
}

static void answer_events(struct request *q, struct use *u)
{
	struct watch_items items = {.list = json_array(), .cursor = u->cursor, .told = u->cursor};
	bool ended;
	int r = read_items(u, &items, request_integer(q->query, "waitMs", 0), &ended);

	if (r)
		answer_use_failure(q, u, r);
	else
		answer_json(q, 200, events_json(&items, ended));
	watch_items_fini(&items);
}

static bool produce(void *context, int fd)
{
	struct use *u = context;

	return watch_follow(&(struct watch_follow){.server = u->server,
				    .sandbox = u->sandbox,
				    .record = &u->record,
				    .request_id = u->request_id,
				    .id = u->id,
				    .cursor = u->cursor},
		fd);
}

/* is there such a watch? */
static bool is_there(struct request *q, struct use *u)
{
	struct watch_items nothing = {.cursor = UINT64_MAX};
	bool ended;
	int r = read_items(u, &nothing, 0, &ended);

	if (r)
		answer_use_failure(q, u, r);
	return !r;
}

void watches_events(struct request *q)
{
	struct use *u = use_new(q, false);
	struct stream_source source = {.produce = produce,
		.done = use_free,
		.context = u,
		.type = "application/x-ndjson",
		.size = -1};

	if (!u)
		return;
	if (!request_boolean(q->query, "follow", false))
		answer_events(q, u);
	else if (is_there(q, u)) {
		stream_answer(q, &source);
		return;
	}
	use_free(u);
}

void watches_stop(struct request *q)
{
	struct sandbox_process p = {0};
	struct use *u = use_new(q, true);
	int r;

	if (!u)
		return;
	r = sandbox_process_signal(u->sandbox, u->id, 15, &p, &u->err);
	if (r && r != -ESRCH)
		answer_use_failure(q, u, r);
	else
		answer_json(q, 200, json_pack("{sb}", "stopped", r == 0));
	sandbox_process_fini(&p);
	use_free(u);
}
