/* SPDX-License-Identifier: Apache-2.0 - the life of sandboxes: started, found, waited for, stopped.
 */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define ATTACH_MS     30000 /* for the connection to a machine that is there */
#define STOP_MS       40000
#define LOOK_MS       1000  /* nobody tells of a keeper that was killed: who waits looks itself */
#define START_GONE_MS 60000 /* a start that left no trace for that long has failed */

/* --- records whose machines this process starts --- */

static bool is_starting(struct api_server *server, const char *id)
{
	bool found = false;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < server->starting_count && !found; i++)
		found = strcmp(server->starting[i], id) == 0;
	pthread_mutex_unlock(&server->lock);
	return found;
}

/* -EALREADY: another thread starts it */
static int add_starting(struct api_server *server, const char *id)
{
	void *more;
	int r = 0;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < server->starting_count && !r; i++)
		r = strcmp(server->starting[i], id) == 0 ? -EALREADY : 0;
	if (!r && server->starting_count == server->starting_room) {
		more = realloc(server->starting, (server->starting_room + 64) * ID_SIZE);
		if (more) {
			server->starting = more;
			server->starting_room += 64;
		} else {
			r = -ENOMEM;
		}
	}
	if (!r)
		text_copy(server->starting[server->starting_count++], ID_SIZE, id);
	pthread_mutex_unlock(&server->lock);
	return r;
}

static void remove_starting(struct api_server *server, const char *id)
{
	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < server->starting_count; i++) {
		if (strcmp(server->starting[i], id) == 0) {
			server->starting_count--;
			memmove(server->starting[i], server->starting[server->starting_count],
				ID_SIZE);
			break;
		}
	}
	spares_wake(server);
	/* the last that a thread does with the server, which waits for it */
	server->changes++;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

/* --- ends --- */

static const char *reason_name(enum sandbox_stop_reason reason)
{
	switch (reason) {
	case SANDBOX_STOPPED_REQUESTED:
		return "requested";
	case SANDBOX_STOPPED_LEASE:
		return "lease_expired";
	case SANDBOX_STOPPED_START_FAILED:
		return "startup_failed";
	case SANDBOX_STOPPED_OWNER:
		return "operator_stopped";
	case SANDBOX_STOPPED_PAUSED:
		return "paused_expired";
	case SANDBOX_STOPPED_PAUSE_FAILED:
		return "pause_failed";
	case SANDBOX_STOPPED_HOST:
		return "host_stopped";
	case SANDBOX_STOPPED_GUEST_ENDED:
	case SANDBOX_STOPPED_GUEST_FAULT:
	case SANDBOX_STOPPED_MONITOR_LOST:
	case SANDBOX_RUNNING:
	case SANDBOX_STOP_REASONS:
	default:
		return "host_lost";
	}
}

/* onLeaseEnd: "delete" */
static int delete_if_wanted(struct api_server *server, const char *id, struct error *err)
{
	struct store_sandbox record;
	int r = store_sandbox_get(server->store, NULL, id, &record, err);
	json_t *spec = r ? NULL : json_loads(record.spec, 0, NULL);

	if (!r && strcmp(request_text(spec, "onLeaseEnd", ""), "delete") == 0)
		r = store_sandbox_delete(server->store, id, api_now_ms(), err);
	json_decref(spec);
	store_sandbox_fini(&record);
	return r;
}

/* the detail may hold words of the guest, which the monitor has made harmless; not so when it was
 * taken over */
static int record_end(
	struct api_server *server, const char *id, const struct sandbox_end *end, struct error *err)
{
	struct buffer safe = {0};
	const char *detail = NULL;
	int r;

	if (text_add_safe(&safe, end->detail, strlen(end->detail), false) == 0)
		detail = buffer_text(&safe);
	r = money_ended(server, id, &end->usage, err);
	if (!r)
		r = store_sandbox_stopped(server->store, id, reason_name(end->reason),
			detail ? detail : "", api_now_ms(), err);
	buffer_fini(&safe);
	uploads_forget(server, id);
	if (!r && end->reason == SANDBOX_STOPPED_LEASE)
		r = delete_if_wanted(server, id, err);
	api_changed(server);
	return r == -ESTALE ? 0 : r; /* somebody else has seen it first */
}

static int reload(struct api_server *server, struct store_sandbox *record, struct error *err)
{
	char id[ID_SIZE];

	text_copy(id, sizeof(id), record->id);
	store_sandbox_fini(record);
	return store_sandbox_get(server->store, NULL, id, record, err);
}

/* when its start was begun: a restart is the latest activity of what was made long ago */
static int64_t begun_ms(const struct store_sandbox *record)
{
	return record->active_ms > record->created_ms ? record->active_ms : record->created_ms;
}

int life_settle(struct api_server *server, struct store_sandbox *record, struct error *err)
{
	struct sandbox_end end;
	int r;

	if (record->state == STORE_SANDBOX_STOPPED || is_starting(server, record->id))
		return 0;
	r = sandbox_look(server->home, record->machine, &end, err);
	if (r == 1) {
		r = pause_settle(server, record, err);
		return r == 1 ? reload(server, record, err) : r;
	}
	if (r == -ENOENT) {
		if (record->state == STORE_SANDBOX_STARTING &&
			api_now_ms() - begun_ms(record) < START_GONE_MS)
			return 0;
		end.reason = SANDBOX_STOPPED_MONITOR_LOST;
		text_copy(end.detail, sizeof(end.detail), "there is no trace of it on this host");
	} else if (r) {
		return r;
	}
	/* killed with its keeper: nobody else clears up after it */
	if (end.reason == SANDBOX_STOPPED_MONITOR_LOST)
		watch_lost(server, record->machine);
	r = record_end(server, record->id, &end, err);
	return r ? r : reload(server, record, err);
}

/* --- starting --- */

struct start {
	struct api_server *server;
	char id[ID_SIZE];
	char before[ID_SIZE]; /* a machine that must have ended first, or "" */
};

/* It runs: say so, or stop it when that was asked for meanwhile. */
int life_started(struct api_server *server, const struct store_sandbox *record, struct sandbox *s,
	struct error *err)
{
	const struct sandbox_info *info = sandbox_info(s);
	json_t *spec = json_loads(record->spec, 0, NULL);
	char *network = network_policy(server, json_object_get(spec, "network"));
	struct sandbox_rules rules;
	int64_t now;
	int r;

	pause_rules(server, record, spec, &rules);
	rules.hand_over = true; /* what its start took is not its owner's */
	rules.left_ms = rules.lease_ms;
	r = network ? sandbox_set_network(s, network, NULL, err)
		    : error_set(err, -ENOMEM, "out of memory");
	free(network);
	if (!r)
		r = sandbox_rules(s, &rules, err);
	if (!r)
		r = money_ready(server, record, err);
	now = api_now_ms();
	if (!r)
		r = store_sandbox_ready(server->store, record->id, info->isolation, now,
			now + 1000 * request_integer(spec, "timeoutSeconds", 60), err);
	json_decref(spec);
	if (!r)
		money_started(server, record);
	if (r && r != -ESTALE) {
		log_error("sandbox %s: %s", record->id, error_message(err));
		sandbox_stop(s, NULL, NULL);
		return record_end(server, record->id, sandbox_end(s), err);
	}
	if (r == -ESTALE) {
		sandbox_stop(s, NULL, NULL);
		r = record_end(server, record->id, sandbox_end(s), err);
	}
	return r;
}

/* A machine that waits for it, or nothing: then the record names one that is to be made. */
static struct sandbox *take_spare(struct api_server *server, struct store_sandbox *record)
{
	char own[ID_SIZE];
	struct sandbox *s;

	text_copy(own, sizeof(own), record->machine);
	s = spare_take(server, record);
	if (!s && strcmp(own, record->machine) != 0) { /* it died on the way */
		text_copy(record->machine, sizeof(record->machine), own);
		store_sandbox_machine(server->store, record->id, own, NULL);
	}
	return s;
}

static int start_machine(struct api_server *server, struct store_sandbox *record, struct error *err)
{
	json_t *spec = json_loads(record->spec, 0, NULL);
	char *network = network_policy(server, json_object_get(spec, "network"));
	struct sandbox_spec wanted = {.home = server->home,
		.engine = server->options.engine,
		.script = server->options.script,
		.require_isolation = server->options.isolation,
		.image = request_text(spec, "rootfs", NULL),
		.memory_mib = record->memory_mib,
		.disk_mib = record->disk_mib,
		.lease_ms =
			money_lease_ms(record, 1000 * request_integer(spec, "timeoutSeconds", 60)),
		.cpu = reserved_cpu(server, record->seat),
		.detached = true,
		.network = network,
		.id = record->machine};
	/* machines made in advance share their CPU */
	struct sandbox *s = record->reserved ? NULL : take_spare(server, record);
	struct error why = {0};
	struct sandbox_end end;
	int r = 0;

	if (record->reserved && wanted.cpu < 0)
		r = error_set(&why, -ERANGE, "the CPU that it had is not set aside any more");
	else if (!s)
		r = network ? sandbox_create(&wanted, &s, &why)
			    : error_set(&why, -ENOMEM, "out of memory");
	free(network);
	json_decref(spec);
	/* a server that is gone may have started it just then: one of the two has the directory */
	if (r && sandbox_look(server->home, record->machine, &end, NULL) == 1 &&
		sandbox_attach(server->home, record->machine, ATTACH_MS, &s, NULL) == 0)
		r = 0;
	end = (struct sandbox_end){0};
	end.reason = SANDBOX_STOPPED_START_FAILED;
	if (!r) {
		r = life_started(server, record, s, err);
	} else {
		log_error("sandbox %s: %s", record->id, error_message(&why));
		watch_lost(server, record->machine); /* its keeper may have been killed */
		text_copy(end.detail, sizeof(end.detail), error_message(&why));
		r = record_end(server, record->id, &end, err);
	}
	sandbox_free(s);
	return r;
}

static void *start_thread(void *context)
{
	struct start *start = context;
	struct api_server *server = start->server;
	struct store_sandbox record;
	struct error err = {0};
	int r = store_sandbox_get(server->store, NULL, start->id, &record, &err);

	if (start->before[0])
		spare_discard(server, start->before);
	if (!r)
		r = start_machine(server, &record, &err);
	if (r)
		log_error("sandbox %s: %s", start->id, error_message(&err));
	store_sandbox_fini(&record);
	remove_starting(server, start->id);
	free(start);
	return NULL;
}

/* It is among those that start; it is no longer when this fails. */
static int spawn(struct api_server *server, const char *id, const char *before, struct error *err)
{
	struct start *start = calloc(1, sizeof(*start));
	pthread_attr_t attributes;
	pthread_t thread;
	int r = ENOMEM;

	if (start) {
		start->server = server;
		text_copy(start->id, sizeof(start->id), id);
		text_copy(start->before, sizeof(start->before), before);
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attributes, start_thread, start);
		pthread_attr_destroy(&attributes);
	}
	if (r) {
		remove_starting(server, id);
		free(start);
		return error_sys(err, r, "cannot start a thread");
	}
	return 0;
}

int life_start(struct api_server *server, const char *id, struct error *err)
{
	int r = add_starting(server, id);

	if (r == -EALREADY)
		return 0;
	return r ? error_set(err, r, "out of memory") : spawn(server, id, "", err);
}

int life_restart(struct api_server *server, const struct store_sandbox *record, char *taken,
	struct error *err)
{
	json_t *spec = json_loads(record->spec, 0, NULL);
	int64_t lease_ms = 1000 * request_integer(spec, "timeoutSeconds", 60);
	char machine[ID_SIZE];
	int r;

	json_decref(spec);
	id_uuid(machine);
	/* from before the record says so: nobody must look for a machine that is not there yet */
	r = add_starting(server, record->id);
	if (r)
		return r == -EALREADY ? error_set(err, -ESTALE, "it is being started")
				      : error_set(err, r, "out of memory");
	r = store_sandbox_restart(
		server->store, record, machine, &server->quota, api_now_ms(), lease_ms, taken, err);
	if (r) {
		remove_starting(server, record->id);
		return r;
	}
	api_changed(server);
	r = spawn(server, record->id, record->state == STORE_SANDBOX_RUNNING ? record->machine : "",
		err);
	if (r)
		store_sandbox_stopped(server->store, record->id, "startup_failed",
			error_message(err), api_now_ms(), NULL);
	return r;
}

/* --- waiting and stopping --- */

int life_wait(struct api_server *server, struct store_sandbox *record,
	bool (*settled)(const struct store_sandbox *record, const void *context),
	const void *context, int64_t ms, struct error *err)
{
	int64_t deadline = clock_deadline_ms(ms);
	struct timespec until;
	uint64_t seen;
	bool over = false;
	int64_t next;
	int r;

	for (;;) {
		pthread_mutex_lock(&server->lock);
		seen = server->changes;
		pthread_mutex_unlock(&server->lock);
		r = reload(server, record, err);
		if (!r)
			r = life_settle(server, record, err);
		if (r || over || settled(record, context))
			return r;
		next = clock_deadline_ms(LOOK_MS);
		next = next < deadline ? next : deadline;
		until = (struct timespec){next / 1000, next % 1000 * 1000000};
		pthread_mutex_lock(&server->lock);
		while (server->changes == seen && !server->stopping &&
			!pthread_cond_timedwait(&server->changed, &server->lock, &until))
			;
		over = clock_ms() >= deadline || server->stopping;
		pthread_mutex_unlock(&server->lock);
	}
}

static int stop_machine(struct api_server *server, const char *id, struct error *err)
{
	struct store_sandbox record;
	struct sandbox *s;
	int r = store_sandbox_get(server->store, NULL, id, &record, err);

	if (!r)
		r = sandbox_attach(server->home, record.machine, ATTACH_MS, &s, err);
	store_sandbox_fini(&record);

	if (r == -ENODEV)
		return 0; /* over by itself; settled by the caller */
	if (r)
		return r;
	r = store_sandbox_stopping(server->store, id, err);
	if (!r)
		api_changed(server);
	if (!r || r == -ESTALE) {
		sandbox_stop(s, NULL, NULL);
		r = record_end(server, id, sandbox_end(s), err);
	}
	sandbox_free(s);
	return r;
}

int life_stop(struct api_server *server, const char *id, struct error *err)
{
	return life_stop_for(server, id, NULL, err);
}

int life_stop_for(struct api_server *server, const char *id, const char *reason, struct error *err)
{
	struct store_sandbox record;
	int r = store_sandbox_get(server->store, NULL, id, &record, err);

	if (!r)
		r = life_settle(server, &record, err);
	if (!r && record.state != STORE_SANDBOX_STOPPED) {
		/* the thread that starts it will see that it must not go on */
		if (is_starting(server, id))
			r = store_sandbox_stopping(server->store, id, err);
		if (r == -ESTALE)
			r = 0;
		if (!r && !is_starting(server, id))
			r = stop_machine(server, id, err);
		if (!r)
			r = life_wait(server, &record, life_has_ended, NULL, STOP_MS, err);
		if (!r && record.state != STORE_SANDBOX_STOPPED)
			r = error_set(err, -ETIMEDOUT, "sandbox %s does not stop", id);
	}
	store_sandbox_fini(&record);
	return r;
}
