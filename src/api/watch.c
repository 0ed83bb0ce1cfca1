/* SPDX-License-Identifier: Apache-2.0 - learns of the ends of sandboxes, and forgets what is old.
 */
#include "api/internal.h"
#include "store/people.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

/*
 * A keeper leaves <home>/ended/<id> when its machine is over. The records of what is in there are
 * brought up to date, and the word is removed once its end is in the store. It is another server's
 * when its id is in no record: then it stays. <home>/paused/<id> is there as long as a machine is
 * paused.
 */
#define SWEEP_MS     500
#define SWEEP_FOR_MS 10000
#define SWEEP_END_MS 50 /* as a server ends */
#define EVERY_MS     600000
#define DAY_MS       INT64_C(86400000)
#define LIST_MOST    10000
#define EVENT_DAYS   14 /* that what has happened is kept */

static void settle_one(struct api_server *server, const char *id)
{
	struct store_sandbox record;
	struct error err = {0};
	int r = store_sandbox_get(server->store, NULL, id, &record, &err);

	if (r == -ENOENT)
		return;
	if (!r)
		r = life_settle(server, &record, &err);
	if (r)
		log_error("sandbox %s: %s", id, error_message(&err));
	else if (record.state == STORE_SANDBOX_STOPPED)
		sandbox_forget(server->home, record.machine);
	store_sandbox_fini(&record);
}

/* the sandbox of a machine of which something is said */
static void settle_machine(struct api_server *server, const char *machine)
{
	char id[ID_SIZE];

	/* else a file that is not whole yet, or one of a server that is not this */
	if (strlen(machine) == ID_SIZE - 1 &&
		store_sandbox_of_machine(server->store, machine, id, NULL) == 0)
		settle_one(server, id);
}

static void settle_all_words(struct api_server *server)
{
	char path[PATH_MAX];
	struct dirent *e;

	if (text_format(path, sizeof(path), "%s/ended", server->home))
		return;
	cleanup_dir DIR *dir = opendir(path);
	while (dir && (e = readdir(dir)))
		settle_machine(server, e->d_name);
}

struct ids {
	char (*list)[ID_SIZE];
	size_t count;
};

static int add_id(void *context, const struct store_sandbox *record)
{
	struct ids *ids = context;
	void *more = realloc(ids->list, (ids->count + 1) * ID_SIZE);

	if (!more)
		return -ENOMEM;
	ids->list = more;
	text_copy(ids->list[ids->count++], ID_SIZE, record->id);
	return 0;
}

/* What a server that was killed had under way: starts are waited for, stops are done. */
static void adopt(struct api_server *server, const char *id)
{
	struct store_sandbox record;
	struct sandbox *s = NULL;
	struct sandbox_end none;
	struct error err = {0};
	int r = store_sandbox_get(server->store, NULL, id, &record, &err);

	if (!r)
		r = life_settle(server, &record, &err);
	if (!r && record.state == STORE_SANDBOX_STOPPING)
		r = life_stop(server, id, &err);
	if (!r && record.state == STORE_SANDBOX_STARTING) {
		if (sandbox_look(server->home, record.machine, &none, NULL) == -ENOENT)
			r = life_start(server, id, &err); /* its server had not come to that */
		else
			r = sandbox_attach(server->home, record.machine, 30000, &s, &err);
	}
	if (s) {
		r = life_started(server, &record, s, &err);
		api_changed(server);
	}
	if (r && r != -ENODEV && r != -ESTALE)
		log_error("sandbox %s: %s", id, error_message(&err));
	sandbox_free(s);
	store_sandbox_fini(&record);
}

static struct ids list_records(struct api_server *server, unsigned states)
{
	const struct store_sandbox_filter filter = {.states = states, .limit = LIST_MOST};
	struct ids ids = {0};
	struct error err = {0};

	if (store_sandbox_each(server->store, &filter, add_id, &ids, &err))
		log_error("%s", error_message(&err));
	return ids;
}

static void each_of(struct api_server *server, struct ids ids,
	void (*act)(struct api_server *server, const char *id))
{
	for (size_t i = 0; i < ids.count; i++)
		act(server, ids.list[i]);
	free(ids.list);
}

static void forget_old(struct api_server *server)
{
	int64_t before = api_now_ms() - DAY_MS;
	struct error err = {0};
	char id[ID_SIZE];

	if (store_replay_expire(server->store, before, &err))
		log_error("%s", error_message(&err));
	if (store_event_expire(server->store, before - (EVENT_DAYS - 1) * DAY_MS, &err))
		log_error("%s", error_message(&err));
	/* approvals: forgotten after a day; keys that nobody fetched are revoked at once */
	if (store_approval_expire(server->store, api_now_ms(), before, &err))
		log_error("%s", error_message(&err));
	while (store_upload_oldest(server->store, before, id, NULL) == 0 &&
		store_upload_end(server->store, id, NULL) == 0)
		upload_remove(server, id);
}

static void take_events(struct api_server *server)
{
	_Alignas(struct inotify_event) char bytes[8192];
	const struct inotify_event *e;
	ssize_t n;

	while ((n = read(server->inotify_fd, bytes, sizeof(bytes))) > 0) {
		for (char *p = bytes; p < bytes + n; p += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)p;
			if (e->mask & IN_Q_OVERFLOW)
				settle_all_words(server);
			else if (e->len)
				settle_machine(server, e->name);
		}
	}
}

void watch_lost(struct api_server *server, const char *machine)
{
	const uint64_t one = 1;
	struct lost *lost = &server->lost;

	pthread_mutex_lock(&server->lock);
	server->sweep_until_ms = clock_deadline_ms(SWEEP_FOR_MS);
	if (machine)
		text_copy(lost->machines[lost->count++ % API_LOST_MOST], ID_SIZE, machine);
	pthread_mutex_unlock(&server->lock);
	if (write(server->wake_fd, &one, sizeof(one)) != sizeof(one))
		log_debug("the watcher is not there");
}

static bool is_sweeping(struct api_server *server)
{
	bool sweeping;

	pthread_mutex_lock(&server->lock);
	sweeping = clock_ms() < server->sweep_until_ms;
	pthread_mutex_unlock(&server->lock);
	return sweeping;
}

/* How long to wait for what is told, until `next`; what a killed keeper has left is swept once its
 * other processes have ended, of which nobody tells. */
static int patience(struct api_server *server, int64_t next_ms)
{
	struct error err = {0};
	bool sweeping = is_sweeping(server);

	if (sweeping && sandbox_sweep(server->home, &err) < 0)
		log_warning("cannot remove leftovers: %s", error_message(&err));
	return sweeping ? SWEEP_MS : clock_poll_ms(next_ms);
}

static bool is_lost_left(struct api_server *server)
{
	const struct lost *lost = &server->lost;
	bool left = false;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < lost->count && i < API_LOST_MOST && !left; i++)
		left = sandbox_is_left(server->home, lost->machines[i]);
	pthread_mutex_unlock(&server->lock);
	return left;
}

/* The server ends, and it may be the last here: what was lost just now goes with it. */
static void sweep_lost(struct api_server *server)
{
	while (is_sweeping(server) && is_lost_left(server)) {
		if (sandbox_sweep(server->home, NULL) < 0)
			return; /* it was said, or the next server says it */
		poll(NULL, 0, SWEEP_END_MS);
	}
}

static bool is_stopping(struct api_server *server)
{
	bool stopping;

	pthread_mutex_lock(&server->lock);
	stopping = server->stopping;
	pthread_mutex_unlock(&server->lock);
	return stopping;
}

/* Until `next` comes; false: the server ends. */
static bool listen_until(struct api_server *server, int64_t next_ms)
{
	struct pollfd p[] = {{server->inotify_fd, POLLIN, 0}, {server->wake_fd, POLLIN, 0}};
	uint64_t count;

	while (clock_ms() < next_ms) {
		poll(p, 2, patience(server, next_ms));
		if (p[0].revents)
			take_events(server);
		if (p[1].revents && read(server->wake_fd, &count, sizeof(count)) > 0 &&
			is_stopping(server))
			return false;
	}
	return true;
}

/* What a server that is gone had under way. It is listed before this one begins anything: what is
 * its own must not be taken for the other's, and started or ended a second time. */
struct legacy {
	struct api_server *server;
	struct ids records;
	struct spare_list *spares;
};

static struct legacy *list_legacy(struct api_server *server)
{
	struct legacy *legacy = calloc(1, sizeof(*legacy));
	struct error err = {0};

	if (!legacy)
		return NULL;
	if (store_sandbox_settle_phases(server->store, &err))
		log_error("%s", error_message(&err));
	legacy->server = server;
	legacy->records =
		list_records(server, 1u << STORE_SANDBOX_STARTING | 1u << STORE_SANDBOX_STOPPING);
	legacy->spares = spares_list(server);
	return legacy;
}

static void *watch(void *context)
{
	struct legacy *legacy = context;
	struct api_server *server = legacy->server;

	/* what was killed with an earlier server, of which no record tells */
	watch_lost(server, NULL);
	spares_adopt(server, legacy->spares);
	each_of(server, legacy->records, adopt);
	free(legacy);
	do {
		settle_all_words(server);
		each_of(server, list_records(server, STORE_SANDBOX_LIVE), settle_one);
		forget_old(server);
	} while (listen_until(server, clock_deadline_ms(EVERY_MS)));
	sweep_lost(server);
	return NULL;
}

int watch_start(struct api_server *server, struct error *err)
{
	struct legacy *legacy;
	char path[PATH_MAX];
	int r;

	if (text_format(path, sizeof(path), "%s/ended", server->home))
		return error_set(err, -ENAMETOOLONG, "home is too long");
	r = path_make(path, 0700, err);
	if (r)
		return r;
	server->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	server->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (server->inotify_fd < 0 || server->wake_fd < 0 ||
		inotify_add_watch(server->inotify_fd, path, IN_MOVED_TO) < 0)
		return error_sys(err, errno, "%s: cannot be watched", path);
	text_format(path, sizeof(path), "%s/paused", server->home);
	r = path_make(path, 0700, err);
	if (r)
		return r;
	if (inotify_add_watch(server->inotify_fd, path, IN_MOVED_TO | IN_DELETE) < 0)
		return error_sys(err, errno, "%s: cannot be watched", path);
	legacy = list_legacy(server);
	r = legacy ? pthread_create(&server->watcher, NULL, watch, legacy) : ENOMEM;
	if (r) {
		if (legacy) {
			free(legacy->records.list);
			free(legacy->spares);
		}
		free(legacy);
		return error_sys(err, r, "cannot start a thread");
	}
	server->watching = true;
	return 0;
}

void watch_stop(struct api_server *server)
{
	if (server->watching) {
		const uint64_t one = 1;

		if (write(server->wake_fd, &one, sizeof(one)) == sizeof(one))
			pthread_join(server->watcher, NULL);
		server->watching = false;
	}
	close_fd(&server->inotify_fd);
	close_fd(&server->wake_fd);
}
