/* SPDX-License-Identifier: Apache-2.0 - machines that are no sandbox's, or not yet. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/*
 * Theory of operation
 *
 * A machine that has booted is handed over to a sandbox that is created: its record takes the
 * machine, and the machine is told what the sandbox's spec says. One thread makes them, of the
 * shapes that were asked for lately, while nothing else is being started; it drops them when they
 * take room, or are wanted no more. They count for no quota: a create takes their room.
 *
 * Each is a row in the store from before it is started until it is a sandbox's (which is one
 * transaction) or has ended, so that a server that is killed leaves none that the next does not
 * find. When none comes, its lease ends it.
 */
#define ATTACH_MS 30000
#define GONE_MS   30000
#define LOOK_MS   2
#define LEASE_MS  600000
#define EVERY_MS  30000  /* dead ones are noticed, leases renewed */
#define WANTED_MS 600000 /* after its last use a shape is wanted for so long */
#define PER_SHAPE 2
#define SHAPES    16
#define LIST_MOST 64
#define FAILED_MS 10000 /* after a start that failed */

struct shape {
	char hash[HASH_HEX_SIZE];
	char *rootfs;
	uint32_t memory_mib, disk_mib;
	int64_t used_ms; /* clock_ms(); 0: free place */
};

struct spares {
	struct api_server *server;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stopping, woken;
	struct shape shapes[SHAPES];
	int64_t began_ms, failed_ms;
};

/* --- their end --- */

/* Its keeper has cleared up after it: nobody tells, but its lock is gone. */
static void wait_gone(struct api_server *server, const char *machine)
{
	int64_t deadline = clock_deadline_ms(GONE_MS);
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
	struct sandbox_end end;

	int r;

	while ((r = sandbox_look(server->home, machine, &end, NULL)) == 1 && clock_ms() < deadline)
		nanosleep(&pause, NULL);
	if (!r && end.reason == SANDBOX_STOPPED_MONITOR_LOST)
		watch_lost(server, machine);
}

void spare_discard(struct api_server *server, const char *machine)
{
	struct sandbox *s = NULL;
	struct error err = {0};
	int r = sandbox_attach(server->home, machine, ATTACH_MS, &s, &err);

	if (!r)
		r = sandbox_stop(s, NULL, &err);
	sandbox_free(s);
	if (r && r != -ENODEV)
		log_error("machine %s: %s", machine, error_message(&err));
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return; /* it may live on: its row stays, for the next server to end it */
	wait_gone(server, machine);
	sandbox_forget(server->home, machine);
	if (store_spare_remove(server->store, machine, &err))
		log_error("machine %s: %s", machine, error_message(&err));
}

/* From now on nobody takes it. */
static void give_up(struct api_server *server, const char *machine)
{
	if (store_spare_advance(server->store, machine, STORE_SPARE_ENDING, NULL) == 0)
		spare_discard(server, machine);
}

/* --- what there is --- */

struct spare_list {
	struct store_spare all[LIST_MOST];
	size_t count;
};

static int add_spare(void *context, const struct store_spare *spare)
{
	struct spare_list *list = context;

	if (list->count < LIST_MOST)
		list->all[list->count++] = *spare;
	return 0;
}

static void read_list(struct api_server *server, struct spare_list *list)
{
	struct error err = {0};

	list->count = 0;
	if (store_spare_each(server->store, add_spare, list, &err))
		log_error("%s", error_message(&err));
}

/* Those that run and are not about to end. */
static size_t count_live(const struct spare_list *list, const char *shape, uint64_t *memory_mib)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (list->all[i].state == STORE_SPARE_ENDING ||
			(shape && strcmp(list->all[i].shape, shape) != 0))
			continue;
		count++;
		if (memory_mib)
			*memory_mib += list->all[i].memory_mib;
	}
	return count;
}

struct spare_list *spares_list(struct api_server *server)
{
	struct spare_list *list = calloc(1, sizeof(*list));

	if (list)
		read_list(server, list);
	return list;
}

void spares_adopt(struct api_server *server, struct spare_list *list)
{
	struct sandbox_end end;

	for (size_t i = 0; list && i < list->count; i++) {
		const struct store_spare *s = &list->all[i];

		/* one that was being started is not waited for */
		if (s->state != STORE_SPARE_READY || !server->options.spares_most)
			spare_discard(server, s->id);
		else if (sandbox_look(server->home, s->id, &end, NULL) != 1)
			give_up(server, s->id);
	}
	free(list);
}

/* --- shapes --- */

static int hash_shape(
	struct api_server *server, const char *rootfs, uint32_t memory, uint32_t disk, char *out)
{
	char text[1200];

	if (text_format(text, sizeof(text), "%s\n%u\n%u\n%s", rootfs, memory, disk,
		    server->options.engine ? server->options.engine : "auto"))
		return -ENAMETOOLONG;
	hash_bytes(text, strlen(text), out);
	return 0;
}

/* Somebody has asked for one like it: it is wanted again for a while. */
static void note_use(struct spares *spares, const char *hash, const char *rootfs,
	const struct store_sandbox *record)
{
	struct shape *place = &spares->shapes[0];

	for (size_t i = 0; i < SHAPES; i++) {
		struct shape *s = &spares->shapes[i];

		if (s->used_ms && strcmp(s->hash, hash) == 0) {
			s->used_ms = clock_ms();
			return;
		}
		if (s->used_ms < place->used_ms)
			place = s;
	}
	free(place->rootfs);
	*place = (struct shape){.rootfs = strdup(rootfs),
		.memory_mib = record->memory_mib,
		.disk_mib = record->disk_mib,
		.used_ms = clock_ms()};
	text_copy(place->hash, sizeof(place->hash), hash);
	if (!place->rootfs)
		*place = (struct shape){0};
}

static void wake(struct spares *spares)
{
	spares->woken = true;
	pthread_cond_signal(&spares->changed);
}

struct sandbox *spare_take(struct api_server *server, struct store_sandbox *record)
{
	struct spares *spares = server->spares;
	json_t *spec;
	const char *rootfs;
	char hash[HASH_HEX_SIZE];
	struct sandbox *s = NULL;

	if (!spares)
		return NULL;
	spec = json_loads(record->spec, 0, NULL);
	rootfs = request_text(spec, "rootfs", "");
	if (hash_shape(server, rootfs, record->memory_mib, record->disk_mib, hash) == 0) {
		while (!s && store_spare_take(
				     server->store, hash, record->id, record->machine, NULL) == 0) {
			/* one that has just died is none, and cleared up after */
			if (sandbox_attach(server->home, record->machine, ATTACH_MS, &s, NULL)) {
				sandbox_forget(server->home, record->machine);
				watch_lost(server, record->machine);
			}
		}
		pthread_mutex_lock(&spares->lock);
		note_use(spares, hash, rootfs, record);
		wake(spares);
		pthread_mutex_unlock(&spares->lock);
	}
	json_decref(spec);
	return s;
}

/* --- the thread --- */

static bool is_wanted(struct spares *spares, const char *hash)
{
	int64_t now = clock_ms();
	bool wanted = now - spares->began_ms < WANTED_MS; /* adopted ones, for the beginning */

	pthread_mutex_lock(&spares->lock);
	for (size_t i = 0; i < SHAPES && !wanted; i++) {
		const struct shape *s = &spares->shapes[i];

		wanted = s->used_ms && now - s->used_ms < WANTED_MS && strcmp(s->hash, hash) == 0;
	}
	pthread_mutex_unlock(&spares->lock);
	return wanted;
}

static uint64_t memory_most(const struct api_server *server)
{
	return server->options.spares_memory_mib;
}

/* memory that sandboxes leave to spares */
static uint64_t memory_left(struct api_server *server)
{
	struct store_quota used = {0};

	if (store_sandbox_totals(server->store, "", &used, NULL) ||
		used.memory_mib > server->quota.memory_mib)
		return 0;
	return server->quota.memory_mib - used.memory_mib;
}

/* Those that are dead, not wanted, or in the way end, the oldest first. */
static void prune(struct spares *spares)
{
	struct api_server *server = spares->server;
	uint64_t memory = 0, left = memory_left(server);
	struct sandbox_end end;
	struct spare_list list;
	size_t count;

	read_list(server, &list);
	count = count_live(&list, NULL, &memory);
	for (size_t i = 0; i < list.count; i++) {
		const struct store_spare *s = &list.all[i];

		if (s->state != STORE_SPARE_READY ||
			(sandbox_look(server->home, s->id, &end, NULL) == 1 && memory <= left &&
				count <= server->options.spares_most &&
				is_wanted(spares, s->shape)))
			continue;
		give_up(server, s->id);
		memory -= s->memory_mib;
		count--;
	}
}

/* The shape that was asked for last and has too few; its rootfs is the caller's. */
static bool choose(struct spares *spares, struct shape *out)
{
	struct api_server *server = spares->server;
	uint64_t memory = 0, left = memory_left(server), most = memory_most(server);
	int64_t now = clock_ms(), newest = 0;
	struct spare_list list;

	read_list(server, &list);
	if (count_live(&list, NULL, &memory) >= server->options.spares_most ||
		now - spares->failed_ms < FAILED_MS)
		return false;
	left = left < most ? left : most;
	pthread_mutex_lock(&spares->lock);
	for (size_t i = 0; i < SHAPES; i++) {
		const struct shape *s = &spares->shapes[i];

		if (!s->used_ms || now - s->used_ms >= WANTED_MS || s->used_ms <= newest ||
			memory + s->memory_mib > left ||
			count_live(&list, s->hash, NULL) >= PER_SHAPE)
			continue;
		newest = s->used_ms;
		*out = *s;
	}
	if (newest)
		out->rootfs = strdup(out->rootfs);
	pthread_mutex_unlock(&spares->lock);
	return newest && out->rootfs;
}

static int make_spare(struct api_server *server, const struct shape *shape, struct error *err)
{
	struct store_spare row = {.memory_mib = shape->memory_mib, .created_ms = api_now_ms()};
	json_t *none = json_pack("{sb}", "internet", 0);
	char *network = network_policy(server, none);
	struct sandbox_spec wanted = {.home = server->home,
		.engine = server->options.engine,
		.script = server->options.script,
		.require_isolation = server->options.isolation,
		.image = shape->rootfs,
		.memory_mib = shape->memory_mib,
		.disk_mib = shape->disk_mib,
		.lease_ms = LEASE_MS,
		.cpu = -1,
		.detached = true,
		.network = network,
		.id = row.id};
	struct sandbox *s = NULL;
	int r;

	json_decref(none);
	id_uuid(row.id);
	text_copy(row.shape, sizeof(row.shape), shape->hash);
	r = network ? store_spare_add(server->store, &row, err)
		    : error_set(err, -ENOMEM, "out of memory");
	if (!r) {
		r = sandbox_create(&wanted, &s, err);
		if (r) {
			store_spare_remove(server->store, row.id, NULL);
			watch_lost(server, row.id); /* its keeper may have been killed */
		} else
			r = store_spare_advance(server->store, row.id, STORE_SPARE_READY, err);
	}
	free(network);
	sandbox_free(s);
	return r;
}

/* false: there is nothing to make */
static bool make_one(struct spares *spares)
{
	struct api_server *server = spares->server;
	struct error err = {0};
	struct shape shape;
	bool busy;

	/* what somebody waits for comes first */
	pthread_mutex_lock(&server->lock);
	busy = server->starting_count || server->stopping;
	pthread_mutex_unlock(&server->lock);
	if (busy || !choose(spares, &shape))
		return false;
	if (make_spare(server, &shape, &err)) {
		log_warning("a machine in advance: %s", error_message(&err));
		spares->failed_ms = clock_ms();
	}
	free(shape.rootfs);
	return true;
}

/* Until something was asked for, or it is time to look; false: the server ends. */
static bool wait_more(struct spares *spares)
{
	/* after a start that failed the next is tried sooner */
	bool failed = clock_ms() - spares->failed_ms < FAILED_MS;
	int64_t until = clock_deadline_ms(failed ? FAILED_MS : EVERY_MS);
	struct timespec t = {until / 1000, until % 1000 * 1000000};
	int r = 0;

	pthread_mutex_lock(&spares->lock);
	while (!spares->woken && !spares->stopping && !r)
		r = pthread_cond_timedwait(&spares->changed, &spares->lock, &t);
	spares->woken = false;
	r = !spares->stopping;
	pthread_mutex_unlock(&spares->lock);
	return r;
}

static void *run(void *context)
{
	struct spares *spares = context;

	do {
		prune(spares);
		while (make_one(spares))
			prune(spares);
	} while (wait_more(spares));
	return NULL;
}

void spares_wake(struct api_server *server)
{
	struct spares *spares = server->spares;

	if (!spares)
		return;
	pthread_mutex_lock(&spares->lock);
	wake(spares);
	pthread_mutex_unlock(&spares->lock);
}

int spares_start(struct api_server *server, struct error *err)
{
	struct spares *spares;
	pthread_condattr_t monotonic;
	int r;

	if (!server->options.spares_most)
		return 0;
	spares = calloc(1, sizeof(*spares));
	if (!spares)
		return error_set(err, -ENOMEM, "out of memory");
	spares->server = server;
	spares->began_ms = clock_ms();
	spares->failed_ms = spares->began_ms - FAILED_MS;
	pthread_mutex_init(&spares->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&spares->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	r = pthread_create(&spares->thread, NULL, run, spares);
	if (r) {
		free(spares);
		return error_sys(err, r, "cannot start a thread");
	}
	server->spares = spares;
	return 0;
}

void spares_stop(struct api_server *server)
{
	struct spares *spares = server->spares;
	struct spare_list list;

	if (!spares)
		return;
	pthread_mutex_lock(&spares->lock);
	spares->stopping = true;
	wake(spares);
	pthread_mutex_unlock(&spares->lock);
	pthread_join(spares->thread, NULL);
	read_list(server, &list);
	for (size_t i = 0; i < list.count; i++) {
		if (list.all[i].state == STORE_SPARE_READY)
			give_up(server, list.all[i].id);
	}
	for (size_t i = 0; i < SHAPES; i++)
		free(spares->shapes[i].rootfs);
	pthread_cond_destroy(&spares->changed);
	pthread_mutex_destroy(&spares->lock);
	free(spares);
	server->spares = NULL;
}
