/* SPDX-License-Identifier: Apache-2.0 - money of sandboxes: terms, measures, caps, who is over. */
#include "api/internal.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * The store holds and charges (store/money.h); this file tells it what the monitors measure. A
 * thread looks at every sandbox that runs each few seconds, so that what it has cost is known while
 * it runs, and what was measured is not lost with a monitor that is killed.
 *
 * A cap of a whole life must hold without this server too: the lease that a monitor is given is
 * never longer than the money that is left lasts with every vCPU busy. As long as the sandbox is
 * less busy the thread lengthens it again, ever closer to the cap; what ends by such a lease, or is
 * stopped here at the cap, has the stop reason lifetime_cap.
 */
#define TICK_MS     5000
#define TICK_LEAST  200
#define CAP_LEAST   1000 /* a cap that does not last so long is refused */
#define ATTACH_MS   2000
#define CAP_DONE_MS 400 /* a lease that is shorter is over */

static json_t *micros(int64_t value)
{
	return json_sprintf("%lld", (long long)value);
}

/* --- create --- */

static bool answer_budget(struct request *q, const char *field, int64_t given, int64_t needed)
{
	answer_error(q, API_BUDGET_EXCEEDED,
		json_pack("{ss so so}", "field", field, "maxMicros", micros(given), "neededMicros",
			micros(needed)),
		"%s is %lld microdollars, and up to %lld may be needed.", field, (long long)given,
		(long long)needed);
	return false;
}

bool money_terms(struct request *q, const struct store_sandbox *record, struct store_terms *out)
{
	int64_t most = request_integer(q->json, "maxCostMicros", -1), first, second;

	*out = (struct store_terms){
		.meter = {.prices = q->server->options.prices,
			.vcpu = record->vcpu,
			.memory_mib = record->memory_mib,
			.floor_millis = (uint32_t)request_integer(
				q->json, "cpuFloorMillis", API_CPU_FLOOR_MILLIS),
			.reserved =
				strcmp(request_text(q->json, "cpu", "shared"), "reserved") == 0},
		.cap_micros = request_integer(q->json, "maxTotalCostMicros", STORE_NO_CAP),
		.lease_ms = record->expires_ms - record->created_ms};
	first = meter_hold(&out->meter, 1000 * (uint64_t)out->lease_ms);
	second = meter_hold(&out->meter, 1000 * CAP_LEAST);
	if (most >= 0 && first > most)
		return answer_budget(q, "maxCostMicros", most, first);
	if (out->cap_micros != STORE_NO_CAP && second > out->cap_micros)
		return answer_budget(q, "maxTotalCostMicros", out->cap_micros, second);
	return true;
}

void money_refuse(struct request *q, const char *payer, int64_t more, const struct error *why)
{
	struct store_spending now;
	struct error err = {0};

	if (store_spending(q->server->store, payer, more, api_now_ms(), &now, &err)) {
		answer_failure(q, &err);
		return;
	}
	answer_error(q, API_SPENDING_LIMIT,
		json_pack("{so so so so so}", "limitMicros", micros(now.limit_micros), "usedMicros",
			micros(now.charged_micros + now.held_micros), "heldMicros",
			micros(now.held_micros), "neededMicros", micros(more), "resetsAt",
			api_time(now.resets_ms)),
		"%s.", error_message(why));
}

/* --- while it runs --- */

/* The thread looks again at once. */
static void wake(struct api_server *server)
{
	const uint64_t one = 1;

	if (server->money_fd >= 0 && write(server->money_fd, &one, sizeof(one)) != sizeof(one))
		log_debug("the thread of money is awake already");
}

int money_ready(struct api_server *server, const struct store_sandbox *record, struct error *err)
{
	const struct meter_use *before = &record->money.seen;

	/* its monitor counts from when it was handed over, so only a restart has a past */
	return before->running_us || before->cpu_us
		       ? store_money_begin(server->store, record->id, 0, 0, err)
		       : 0;
}

void money_started(struct api_server *server, const struct store_sandbox *record)
{
	/* a lease that its cap makes short may end before the next look */
	if (record->money.bounded && money_lease_ms(record, 2 * TICK_MS) < 2 * TICK_MS)
		wake(server);
}

/* It costs something just now. */
static bool is_awake(const struct store_sandbox *record)
{
	return record->state == STORE_SANDBOX_RUNNING && !record->phase;
}

int64_t money_lease_ms(const struct store_sandbox *record, int64_t wanted_ms)
{
	const struct store_money *m = &record->money;
	uint64_t lasts_ms;

	if (!m->open || m->cap_micros == STORE_NO_CAP)
		return wanted_ms;
	lasts_ms = meter_lasts_us(&m->terms,
			   m->cap_micros - store_money_charged(m, is_awake(record), api_now_ms())) /
		   1000;
	return lasts_ms < (uint64_t)wanted_ms ? (int64_t)lasts_ms : wanted_ms;
}

static int see(struct api_server *server, const char *id, struct sandbox *s, struct error *err)
{
	struct sandbox_usage used = {0};
	int r = sandbox_usage(s, &used, err);

	return r ? r
		 : store_money_seen(
			   server->store, id, used.cpu_us, used.wall_us, api_now_ms(), err);
}

int money_ended(struct api_server *server, const char *id, const struct sandbox_usage *used,
	struct error *err)
{
	/* a monitor that was lost has not said what it measured: what was seen before counts */
	return used->wall_us ? store_money_seen(server->store, id, used->cpu_us, used->wall_us,
				       api_now_ms(), err)
			     : 0;
}

int money_renew(struct api_server *server, struct store_sandbox *record, struct sandbox *s,
	int64_t until_ms, struct error *err)
{
	char id[ID_SIZE];
	int r;

	if (!record->money.open)
		return 0;
	text_copy(id, sizeof(id), record->id);
	r = s ? see(server, id, s, err) : 0;
	if (!r)
		r = store_money_renew(
			server->store, id, until_ms, record->money.cap_micros, api_now_ms(), err);
	if (r)
		return r;
	store_sandbox_fini(record);
	return store_sandbox_get(server->store, NULL, id, record, err);
}

bool money_extend(
	struct request *q, struct store_sandbox *record, struct sandbox *s, int64_t until_ms)
{
	const struct store_money *m = &record->money;
	int64_t now = api_now_ms(), more;
	struct error err = {0};
	int r = money_renew(q->server, record, s, until_ms, &err);

	if (r == STORE_OVER_LIMIT) {
		/* the hold of now goes, with what has not run up of it */
		more = meter_hold(
			       &m->terms, 1000 * (uint64_t)(until_ms > now ? until_ms - now : 0)) -
		       (m->held_micros -
			       (store_money_charged(m, is_awake(record), now) - m->charged_micros));
		money_refuse(q, record->owner, more > 0 ? more : 0, &err);
	} else if (r) {
		life_failure(q, record, r == -ESTALE ? -ENODEV : r, &err, false);
	}
	return r == 0;
}

bool money_cap(struct request *q, struct store_sandbox *record)
{
	const json_t *given = json_object_get(q->json, "maxTotalCostMicros");
	struct store_money *m = &record->money;
	int64_t cap = json_is_integer(given) ? json_integer_value(given) : STORE_NO_CAP;
	int64_t now = api_now_ms();
	int64_t charged = store_money_charged(m, is_awake(record), now);
	const bool bounded = m->bounded;
	struct error err = {0};
	int r;

	if (!given || !m->open)
		return true;
	if (!m->until_ms) {
		answer_error(q, API_SANDBOX_NOT_READY, NULL, "The sandbox is starting.");
		return false;
	}
	if (cap != STORE_NO_CAP && cap <= charged)
		return answer_budget(q, "maxTotalCostMicros", cap, charged);
	m->cap_micros = cap;
	r = money_renew(q->server, record, NULL, m->until_ms, &err);
	/* the monitor has a lease by the old cap until the thread gives it another */
	if (!r && bounded)
		r = store_money_bound(q->server->store, record->id, true, &err);
	if (r == STORE_OVER_LIMIT)
		money_refuse(q, record->owner, cap == STORE_NO_CAP ? 0 : cap - charged, &err);
	else if (r)
		life_failure(q, record, r == -ESTALE ? -ENODEV : r, &err, false);
	else
		wake(q->server);
	return r == 0;
}

/* --- the thread --- */

static bool is_stopping(struct api_server *server)
{
	bool stopping;

	pthread_mutex_lock(&server->lock);
	stopping = server->stopping;
	pthread_mutex_unlock(&server->lock);
	return stopping;
}

struct ids {
	char (*list)[ID_SIZE];
	char (*reasons)[32]; /* only where they are to be stopped */
	size_t count;
};

static int add_id(struct ids *ids, const char *id, const char *reason)
{
	void *list = realloc(ids->list, (ids->count + 1) * ID_SIZE);
	void *reasons;

	if (!list)
		return -ENOMEM;
	ids->list = list;
	reasons = realloc(ids->reasons, (ids->count + 1) * 32);
	if (!reasons)
		return -ENOMEM;
	ids->reasons = reasons;
	text_copy(ids->list[ids->count], ID_SIZE, id);
	text_copy(ids->reasons[ids->count++], 32, reason);
	return 0;
}

static void ids_fini(struct ids *ids)
{
	free(ids->list);
	free(ids->reasons);
}

static int add_running(void *context, const struct store_sandbox *record)
{
	return record->money.open ? add_id(context, record->id, "") : 0;
}

static int add_over(void *context, const char *sandbox, const char *reason)
{
	return add_id(context, sandbox, reason);
}

static void stop_for(struct api_server *server, const char *id, const char *reason)
{
	struct error err = {0};
	int r = store_money_stop_for(server->store, id, reason, &err);

	if (!r)
		r = life_stop(server, id, &err);
	if (r)
		log_error("sandbox %s: %s", id, error_message(&err));
	else
		log_info("sandbox %s: stopped (%s)", id, reason);
}

void money_look(struct api_server *server, const struct store_sandbox *record)
{
	struct sandbox *s = NULL;

	if (record->money.open && record->state == STORE_SANDBOX_RUNNING &&
		sandbox_attach(server->home, record->machine, ATTACH_MS, &s, NULL) == 0)
		see(server, record->id, s, NULL);
	sandbox_free(s);
}

void money_paused(struct api_server *server, const char *id)
{
	struct store_sandbox record = {0};
	struct error err = {0};
	int r = store_sandbox_get(server->store, NULL, id, &record, &err);

	if (!r && record.money.held_micros) { /* else somebody was here already */
		money_look(server, &record);
		r = money_renew(server, &record, NULL, api_now_ms(), &err);
	}
	if (r && r != -ESTALE && r != -ENOENT)
		log_error("sandbox %s: %s", id, error_message(&err));
	store_sandbox_fini(&record);
}

/* What ends by its money is stopped, whatever else its lease would end in. */
static int give_lease(struct api_server *server, const struct store_sandbox *record,
	struct sandbox *s, int64_t lease_ms, bool bounded, struct error *err)
{
	struct store_sandbox bound = *record;
	json_t *spec = json_loads(record->spec, 0, NULL);
	struct sandbox_rules rules;

	bound.money.bounded = bounded;
	pause_rules(server, &bound, spec, &rules);
	json_decref(spec);
	rules.left_ms = lease_ms;
	return sandbox_rules(s, &rules, err);
}

/* Its lease is what its money lasts for, if that is less; answers that, or -1. */
static int64_t hold_to_cap(struct api_server *server, struct store_sandbox *record,
	struct sandbox *s, struct error *err)
{
	int64_t wanted = record->expires_ms - api_now_ms(), lease;

	if ((record->money.cap_micros == STORE_NO_CAP && !record->money.bounded) || wanted <= 0)
		return -1;
	lease = money_lease_ms(record, wanted);
	if (lease < CAP_DONE_MS) {
		stop_for(server, record->id, "lifetime_cap");
		return -1;
	}
	/* first said, then done: whatever ends it then is the cap */
	if (lease < wanted && !record->money.bounded &&
		store_money_bound(server->store, record->id, true, err))
		return -1;
	/* rules are not given for nothing: they count as something that was asked for */
	if (lease < wanted && record->money.bounded) {
		sandbox_extend(s, lease, err);
	} else if (lease < wanted || record->money.bounded) {
		if (give_lease(server, record, s, lease, lease < wanted, err) == 0 &&
			lease == wanted)
			store_money_bound(server->store, record->id, false, err);
	}
	return lease < wanted ? lease : -1;
}

/* A lease that renewed itself is charged and held for anew. */
static void follow_lease(struct api_server *server, struct store_sandbox *record)
{
	struct error err = {0};
	int r;

	if (record->expires_ms <= record->money.until_ms + 1000)
		return;
	r = money_renew(server, record, NULL, record->expires_ms, &err);
	if (r == STORE_OVER_LIMIT)
		stop_for(server, record->id, "spending_limit");
	else if (r && r != -ESTALE)
		log_error("sandbox %s: %s", record->id, error_message(&err));
}

/* With a cap no lease renews itself without this server; it is renewed here instead. */
static void renew_capped(struct api_server *server, struct store_sandbox *record, struct sandbox *s)
{
	json_t *spec = json_loads(record->spec, 0, NULL);
	const bool persistent = request_boolean(spec, "persistent", false);
	int64_t now = api_now_ms(),
		until = now + 1000 * request_integer(spec, "timeoutSeconds", 60);
	struct error err = {0};
	int r = 0;

	json_decref(spec);
	if (!persistent || record->money.cap_micros == STORE_NO_CAP ||
		record->expires_ms > now + 3 * TICK_MS)
		return;
	r = money_renew(server, record, NULL, until, &err);
	if (!r)
		r = sandbox_extend(s, money_lease_ms(record, until - now), &err);
	if (!r)
		r = store_sandbox_lease(server->store, record->id, until, &err);
	if (!r)
		record->expires_ms = until;
	else if (r == STORE_OVER_LIMIT)
		log_info("sandbox %s: its lease is not renewed: %s", record->id,
			error_message(&err));
	else if (r != -ESTALE && r != -ENODEV)
		log_error("sandbox %s: %s", record->id, error_message(&err));
}

/* Answers after how long it must be looked at again. */
static int64_t look_at(struct api_server *server, const char *id)
{
	struct store_sandbox record = {0};
	struct sandbox *s = NULL;
	struct error err = {0};
	int64_t lease = -1;
	int r = store_sandbox_get(server->store, NULL, id, &record, &err);

	if (!r)
		r = sandbox_attach(server->home, record.machine, ATTACH_MS, &s, &err);
	if (!r)
		r = see(server, id, s, &err);
	/* a keeper that was killed tells nobody: this is who finds it out when no one asks */
	if (r == -ENODEV && life_settle(server, &record, &err))
		log_error("sandbox %s: %s", id, error_message(&err));
	store_sandbox_fini(&record);
	if (!r)
		r = store_sandbox_get(server->store, NULL, id, &record, &err);
	if (!r && is_awake(&record) && record.money.open) {
		follow_lease(server, &record);
		renew_capped(server, &record, s);
		lease = hold_to_cap(server, &record, s, &err);
	}
	/* over by itself, or too busy to answer: the next look tells */
	if (r && r != -ENODEV && r != -ETIMEDOUT && r != -EBUSY && r != -ENOENT)
		log_error("sandbox %s: %s", id, error_message(&err));
	sandbox_free(s);
	store_sandbox_fini(&record);
	return lease < 0 || lease / 2 > TICK_MS ? TICK_MS : lease / 2;
}

static int64_t look_at_all(struct api_server *server)
{
	const struct store_sandbox_filter filter = {
		.states = 1u << STORE_SANDBOX_RUNNING, .limit = 10000};
	struct ids running = {0}, over = {0};
	struct error err = {0};
	int64_t next = TICK_MS, one;

	if (store_sandbox_each(server->store, &filter, add_running, &running, &err))
		log_error("%s", error_message(&err));
	for (size_t i = 0; i < running.count && !is_stopping(server); i++) {
		one = look_at(server, running.list[i]);
		next = one < next ? one : next;
	}
	if (store_money_each_over(server->store, api_now_ms(), add_over, &over, &err))
		log_error("%s", error_message(&err));
	for (size_t i = 0; i < over.count && !is_stopping(server); i++)
		stop_for(server, over.list[i], over.reasons[i]);
	ids_fini(&running);
	ids_fini(&over);
	return next < TICK_LEAST ? TICK_LEAST : next;
}

static void *run(void *context)
{
	struct api_server *server = context;
	struct pollfd p = {server->money_fd, POLLIN, 0};
	uint64_t wakes;

	while (!is_stopping(server)) {
		if (poll(&p, 1, (int)look_at_all(server)) > 0 &&
			read(server->money_fd, &wakes, sizeof(wakes)) < 0)
			log_debug("nobody woke the thread of money");
	}
	return NULL;
}

int money_start(struct api_server *server, struct error *err)
{
	int r;

	server->money_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->money_fd < 0)
		return error_sys(err, errno, "eventfd");
	r = pthread_create(&server->money, NULL, run, server);
	if (r)
		return error_sys(err, r, "cannot start a thread");
	server->counting = true;
	return 0;
}

void money_stop(struct api_server *server)
{
	if (server->counting) {
		wake(server);
		pthread_join(server->money, NULL);
	}
	server->counting = false;
	close_fd(&server->money_fd);
}
