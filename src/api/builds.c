/* SPDX-License-Identifier: Apache-2.0 - builds of images: threads that wait for their turn. */
#include "api/builds.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "store/builds.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FAILED_KEPT_MS (INT64_C(7) * 24 * 3600 * 1000)
#define LOOK_MS        5000   /* room is looked for at least so often */
#define CLAIM_MS       600000 /* for so long it is kept for a build, then not, and so on */

struct job {
	struct job *next;
	struct builds *builds;
	struct build_job what;
	char id[ID_SIZE];
	int cancel_fd;
	bool cancelled; /* the lock is held to read it */
	bool runs;
	bool passed_over; /* its key's own ceilings are in the way: no reason for others to wait */
	bool said;        /* that it waits for room */
	int64_t since_ms; /* its turn has come: clock_ms(), or 0 */
	uint64_t round;
	size_t chunk; /* the next piece of the context */
	struct buffer piece;
};

struct builds {
	struct api_server *server;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job *jobs; /* the oldest first */
	unsigned running;
	uint64_t round;
	uint64_t changes;
	uint64_t looks; /* with each change here, and of the room that sandboxes take */
	bool stopping;
};

static void look(struct builds *b)
{
	b->looks++;
	pthread_cond_broadcast(&b->changed);
}

static void wake(struct builds *b)
{
	b->changes++;
	look(b);
}

/* Until something changes; at the most for so long. */
static void wait_change(struct builds *b, int64_t ms)
{
	int64_t end_us = clock_us() + 1000 * ms;
	const struct timespec end = {end_us / 1000000, end_us % 1000000 * 1000};

	pthread_cond_timedwait(&b->changed, &b->lock, &end);
}

static void job_free(struct job *j)
{
	image_build_free(j->what.build);
	image_plan_free(j->what.plan);
	image_free(j->what.base);
	json_decref(j->what.chunks);
	buffer_fini(&j->piece);
	close_fd(&j->cancel_fd);
	free(j);
}

static void on_line(void *context, const char *stream, const char *text)
{
	struct job *j = context;

	pthread_mutex_lock(&j->builds->lock);
	wake(j->builds);
	pthread_mutex_unlock(&j->builds->lock);
}

/* The pieces of the context, each of which is what its name says. */
static int next_piece(void *context, const void **bytes, size_t *count)
{
	struct job *j = context;
	const char *digest = json_string_value(json_array_get(j->what.chunks, j->chunk++));
	char path[PATH_MAX], hex[HASH_HEX_SIZE];
	int r;

	if (!digest)
		return 0;
	buffer_clear(&j->piece);
	r = context_file(j->builds->server, j->what.owner, digest, path, NULL);
	if (!r)
		r = path_read(path, API_BYTES_MOST, &j->piece, NULL);
	if (r)
		return r;
	hash_bytes(buffer_bytes(&j->piece), buffer_length(&j->piece), hex);
	if (strcmp(hex, digest) != 0)
		return -EBADMSG;
	*bytes = buffer_bytes(&j->piece);
	*count = buffer_length(&j->piece);
	return 1;
}

/*
 * Keys take turns: each build has the number of a round, in which each key has at most one. A round
 * is over when a build of it has ended; who comes then is in the next, behind those that wait in
 * it.
 */
static void give_round(struct builds *b, struct job *j)
{
	j->round = b->round;
	for (const struct job *o = b->jobs; o; o = o->next) {
		if (o->round >= j->round && strcmp(o->what.owner, j->what.owner) == 0)
			j->round = o->round + 1;
	}
}

static bool is_next(const struct builds *b, const struct job *j)
{
	bool before = true;

	for (const struct job *o = b->jobs; o; o = o->next) {
		if (o == j)
			before = false;
		else if (!o->runs && !o->cancelled && !o->passed_over &&
			 o->round < j->round + before)
			return false;
	}
	return true;
}

/* The room of its machine, as the store gives it: 0, -ENOSPC or -EDQUOT. */
static int take_room(struct builds *b, struct job *j)
{
	struct api_server *server = b->server;
	bool claim = (clock_ms() - j->since_ms) / CLAIM_MS % 2 == 0;
	char taken[ID_SIZE] = "", text[256];
	struct error err = {0};
	int r = store_build_room(server->store, j->what.name, &server->quota, claim, taken, &err);

	spares_wake(server); /* they leave it what they take */
	if (r != -ENOSPC && r != -EDQUOT) {
		if (r)
			log_error("build %s: %s", j->id, error_message(&err));
		return r;
	}
	if (!j->said) {
		text_format(text, sizeof(text), "waiting for room: %s", error_message(&err));
		image_build_say(j->what.build, NULL, "system", text);
		j->said = true;
	}
	return r;
}

/* Its turn has come: does it have the room that it needs? The lock is given up meanwhile. */
static bool begin(struct builds *b, struct job *j)
{
	bool passed_over;
	int r;

	if (!j->since_ms)
		j->since_ms = clock_ms();
	b->running++; /* the place is its own for as long as the store is asked */
	pthread_mutex_unlock(&b->lock);
	r = take_room(b, j);
	pthread_mutex_lock(&b->lock);
	passed_over = r == -EDQUOT;
	j->runs = !r;
	if (r)
		b->running--;
	if (!r || passed_over != j->passed_over) {
		j->passed_over = passed_over;
		wake(b); /* another one may be next */
	}
	return !r;
}

/* Until it may run; false: it was cancelled. */
static bool wait_turn(struct builds *b, struct job *j)
{
	unsigned most = b->server->options.builds_most;
	int64_t settled_ms = clock_ms();
	uint64_t seen;

	while (!j->cancelled && !b->stopping) {
		seen = b->looks;
		if (b->running < most && is_next(b, j)) {
			if (begin(b, j))
				return true;
			if (clock_ms() - settled_ms >= LOOK_MS) {
				/* what was killed says no word: what takes the room may be gone */
				pthread_mutex_unlock(&b->lock);
				sandboxes_settle(b->server);
				pthread_mutex_lock(&b->lock);
				settled_ms = clock_ms();
			}
		}
		if (b->looks == seen && !j->cancelled && !b->stopping)
			wait_change(b, LOOK_MS);
	}
	return false;
}

static void run(struct job *j)
{
	struct api_server *server = j->builds->server;
	cleanup_free char *network = network_policy(server, NULL);
	struct image_machine machine = {
		.engine = server->options.engine,
		.script = server->options.script,
		.isolation = server->options.isolation,
		.memory_mib = j->what.memory_mib,
		.timeout_ms = j->what.timeout_ms,
		.bytes_most = j->what.bytes_most,
		.cancel_fd = j->cancel_fd,
		.next = j->what.chunks ? next_piece : NULL,
		.folder_fd = -1,
		.on_line = on_line,
		.context = j,
	};
	json_t *policy = network ? json_loads(network, 0, NULL) : NULL;
	cleanup_free char *open = NULL;

	/* the operator's rules hold for builds too */
	json_object_set_new(policy, "internet", json_true());
	open = policy ? json_dumps(policy, JSON_COMPACT) : NULL;
	json_decref(policy);
	machine.network = open;
	if (open)
		image_build_run(j->what.build, j->what.plan, j->what.base, &machine, NULL);
	else
		image_build_fail(j->what.build, "out of memory", NULL);
}

static void *job_main(void *context)
{
	struct job *j = context, **at;
	struct builds *b = j->builds;
	bool turn;

	pthread_mutex_lock(&b->lock);
	turn = wait_turn(b, j);
	pthread_mutex_unlock(&b->lock);
	if (turn)
		run(j);
	else
		image_build_fail(j->what.build, "The build was cancelled.", NULL);
	/* its lock goes before its place does: who waits for the end may then forget the record */
	image_build_free(j->what.build);
	j->what.build = NULL;
	builds_release(b->server, j->what.name);
	pthread_mutex_lock(&b->lock);
	for (at = &b->jobs; *at != j; at = &(*at)->next)
		;
	*at = j->next;
	b->running -= j->runs;
	if (j->runs && j->round >= b->round)
		b->round = j->round + 1;
	wake(b);
	pthread_mutex_unlock(&b->lock);
	job_free(j);
	return NULL;
}

/* The id of the job of this name, or "". */
static void find_job(struct builds *b, const char *name, char *id)
{
	id[0] = 0;
	for (const struct job *j = b->jobs; j; j = j->next) {
		if (strcmp(j->what.name, name) == 0)
			text_copy(id, ID_SIZE, j->id);
	}
}

/* Who has read that a build is over may ask for the next at once, though its machine is still being
 * cleared away. */
static void wait_cleared(struct builds *b, const char *name)
{
	char id[ID_SIZE], now[ID_SIZE];

	pthread_mutex_lock(&b->lock);
	find_job(b, name, id);
	pthread_mutex_unlock(&b->lock);
	if (!id[0] || !build_is_over(b->server, id))
		return;
	pthread_mutex_lock(&b->lock);
	for (;;) {
		find_job(b, name, now);
		if (strcmp(now, id) != 0)
			break;
		wait_change(b, LOOK_MS);
	}
	pthread_mutex_unlock(&b->lock);
}

int builds_claim(struct api_server *server, const struct build_job *job, struct error *err)
{
	const struct store_build build = {.name = job->name,
		.owner = job->owner,
		.server = server->epoch,
		.vcpu = 1, /* as every machine of this host */
		.memory_mib = job->memory_mib,
		.created_ms = api_now_ms()};

	wait_cleared(server->builds, job->name);
	return store_build_add(server->store, &build, err);
}

void builds_release(struct api_server *server, const char *name)
{
	struct error err = {0};

	if (store_build_remove(server->store, name, &err))
		log_error("build of %s: %s", name, error_message(&err));
	spares_wake(server);
}

unsigned builds_count(struct api_server *server, const char *owner)
{
	struct builds *b = server->builds;
	unsigned count = 0;

	pthread_mutex_lock(&b->lock);
	for (const struct job *j = b->jobs; j; j = j->next)
		count += !owner || strcmp(j->what.owner, owner) == 0;
	pthread_mutex_unlock(&b->lock);
	return count;
}

int builds_add(struct api_server *server, const struct build_job *what, struct error *err)
{
	struct builds *b = server->builds;
	struct job *j = calloc(1, sizeof(*j)), **at;
	pthread_attr_t detached;
	pthread_t thread;
	int r;

	if (!j)
		return error_sys(err, -ENOMEM, "build");
	j->builds = b;
	j->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	text_copy(j->id, sizeof(j->id), image_build_id(what->build));
	j->what = *what;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&b->lock);
	give_round(b, j);
	for (at = &b->jobs; *at; at = &(*at)->next)
		;
	*at = j;
	r = j->cancel_fd < 0 ? EMFILE : pthread_create(&thread, &detached, job_main, j);
	if (r)
		*at = NULL;
	wake(b);
	pthread_mutex_unlock(&b->lock);
	pthread_attr_destroy(&detached);
	if (!r)
		return 0;
	close_fd(&j->cancel_fd);
	free(j);
	return error_sys(err, r, "a thread for the build");
}

static void cancel(struct job *j)
{
	j->cancelled = true;
	if (write(j->cancel_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
		log_error("build %s: %s", j->id, strerror(errno));
}

void builds_cancel(struct api_server *server, const char *id)
{
	struct builds *b = server->builds;

	pthread_mutex_lock(&b->lock);
	for (;;) {
		struct job *j = b->jobs;

		while (j && strcmp(j->id, id) != 0)
			j = j->next;
		if (!j)
			break;
		if (!j->cancelled) {
			cancel(j);
			wake(b);
		}
		pthread_cond_wait(&b->changed, &b->lock);
	}
	pthread_mutex_unlock(&b->lock);
}

uint64_t builds_changes(struct api_server *server)
{
	uint64_t changes;

	pthread_mutex_lock(&server->builds->lock);
	changes = server->builds->changes;
	pthread_mutex_unlock(&server->builds->lock);
	return changes;
}

void builds_wait(struct api_server *server, uint64_t seen, int64_t ms)
{
	struct builds *b = server->builds;
	int64_t end_ms = clock_ms() + ms, left;

	pthread_mutex_lock(&b->lock);
	while (b->changes == seen && !b->stopping && (left = end_ms - clock_ms()) > 0)
		wait_change(b, left);
	pthread_mutex_unlock(&b->lock);
}

void builds_look(struct api_server *server)
{
	struct builds *b = server->builds;

	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	look(b);
	pthread_mutex_unlock(&b->lock);
}

int builds_start(struct api_server *server, struct error *err)
{
	struct builds *b = calloc(1, sizeof(*b));
	pthread_condattr_t monotonic;

	if (!b)
		return error_set(err, -ENOMEM, "out of memory");
	b->server = server;
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&b->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	server->builds = b;
	context_sweep(server);
	/* the machines of a server that was killed have ended with it */
	if (store_build_sweep(server->store, server->epoch, err))
		return err->code;
	return image_builds_sweep(server->home, api_now_ms() - FAILED_KEPT_MS, err);
}

void builds_halt(struct api_server *server)
{
	struct builds *b = server->builds;

	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->stopping = true;
	for (struct job *j = b->jobs; j; j = j->next)
		cancel(j);
	wake(b);
	pthread_mutex_unlock(&b->lock);
}

void builds_stop(struct api_server *server)
{
	struct builds *b = server->builds;

	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	while (b->jobs)
		pthread_cond_wait(&b->changed, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

void builds_free(struct api_server *server)
{
	struct builds *b = server->builds;

	if (!b)
		return;
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b);
	server->builds = NULL;
}
