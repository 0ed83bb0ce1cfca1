/* SPDX-License-Identifier: Apache-2.0 - how a sandbox lives on: lease, idleness, pause and wake. */
#include "monitor/monitor.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

/*
 * Theory of operation
 *
 * The rules of a sandbox are held to here and not by its server, which may be dead. To pause it the
 * keeper stops the machine's processes; this process runs on and answers clients.
 *
 *	          ask              done               ask               done
 *	  NONE ────────> STOPPING ──────> STOPPED ──────────> RESUMING ──────> NONE
 *	   ^                │                                    │
 *	   └──── failed ────┘                     failed: the sandbox ends
 *
 * A wish that comes while the keeper is at work on the opposite is noted (`turn`) and follows its
 * answer. While the state is not NONE neither limits nor watchdogs nor the lease run; the deadlines
 * of what was under way move by the time it took.
 */
#define LEASE_MOST_MS (INT64_C(1) << 40)

static void idle_due(uv_timer_t *timer);

static void answer_done(struct client *c, uint32_t *stream)
{
	uint8_t frame[WIRE_HEADER];
	int n = wire_put_done(frame, sizeof(frame), *stream, 0, &(struct wire_done){0});

	*stream = 0;
	if (n > 0)
		client_send(c, frame, (size_t)n);
}

/* tell all who wait for it; with an errno that it has failed */
static void tell(struct monitor *m, bool pauses, uint32_t failed)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct client *c = &m->clients[i];
		uint32_t *stream = pauses ? &c->pauses : &c->wakes;

		if (!*stream)
			continue;
		if (failed)
			stream_answer_fail(c, *stream, failed,
				pauses ? "it cannot be paused" : "it was paused again");
		else
			answer_done(c, stream);
		*stream = 0;
	}
}

static void arm_idle(struct monitor *m)
{
	struct pausing *p = &m->pausing;
	int64_t left;

	uv_timer_stop(&p->idle);
	if (m->state != MONITOR_RUNNING || p->state || !p->rules.idle_ms)
		return;
	left = p->active_ms + (int64_t)p->rules.idle_ms - clock_ms();
	uv_update_time(&m->loop);
	uv_timer_start(&p->idle, idle_due, left > 0 ? (uint64_t)left : 0, 0);
}

static void pause_machine(struct monitor *m)
{
	struct pausing *p = &m->pausing;

	p->state = PAUSE_STOPPING;
	p->turn = false;
	p->since_ms = clock_ms();
	uv_timer_stop(&m->lease);
	uv_timer_stop(&m->tick);
	uv_timer_stop(&p->idle);
	monitor_order(m, KEEPER_PAUSE, (int64_t)p->rules.paused_ms);
}

static void resume_machine(struct monitor *m)
{
	struct pausing *p = &m->pausing;

	p->state = PAUSE_RESUMING;
	p->turn = false;
	uv_timer_stop(&m->lease);
	monitor_order(m, KEEPER_RESUME, 0);
}

static void want_pause(struct monitor *m)
{
	if (m->pausing.state == PAUSE_NONE)
		pause_machine(m);
	else
		m->pausing.turn = m->pausing.state == PAUSE_RESUMING;
}

static void want_wake(struct monitor *m)
{
	if (m->pausing.state == PAUSE_STOPPED)
		resume_machine(m);
	else
		m->pausing.turn = m->pausing.state == PAUSE_STOPPING;
}

/* It runs (again): what was under way has lost no time. */
static void runs(struct monitor *m, int64_t lease_ms)
{
	struct pausing *p = &m->pausing;
	int64_t passed = clock_ms() - p->since_ms;

	p->state = PAUSE_NONE;
	p->total_ms += passed;
	p->lease_ms = 0;
	limits_shift(m, passed);
	pause_active(m);
	monitor_lease(m, lease_ms > 0 ? lease_ms : 1);
	arm_idle(m);
	monitor_schedule_tick(m);
	client_resume_all(m);
}

static void stopped(struct monitor *m, int result)
{
	struct pausing *p = &m->pausing;

	if (!result) {
		p->state = PAUSE_STOPPED;
		monitor_lease(m, (int64_t)p->rules.paused_ms);
		tell(m, true, 0);
		if (p->turn)
			resume_machine(m);
		return;
	}
	tell(m, true, (uint32_t)-result);
	if (p->at_lease_end) {
		monitor_stop(m, SANDBOX_STOPPED_PAUSE_FAILED,
			"its lease has ended, and it cannot be paused: %s", strerror(-result));
		return;
	}
	/* not again at once: idleness is counted anew */
	runs(m, p->ends_ms - p->since_ms);
	tell(m, false, 0);
}

static void resumed(struct monitor *m, int result)
{
	struct pausing *p = &m->pausing;

	if (result) {
		monitor_stop(m, SANDBOX_STOPPED_PAUSE_FAILED, "it cannot be woken: %s",
			strerror(-result));
		return;
	}
	runs(m, p->lease_ms ? p->lease_ms : (int64_t)p->rules.lease_ms);
	tell(m, false, 0);
	if (p->turn)
		pause_machine(m);
}

void pause_answered(struct monitor *m, const struct keeper_answer *answer)
{
	if (m->state != MONITOR_RUNNING)
		return;
	if (answer->kind == KEEPER_PAUSE && m->pausing.state == PAUSE_STOPPING)
		stopped(m, answer->result);
	else if (answer->kind == KEEPER_RESUME && m->pausing.state == PAUSE_RESUMING)
		resumed(m, answer->result);
}

static void idle_due(uv_timer_t *timer)
{
	struct monitor *m = timer->data;
	struct pausing *p = &m->pausing;

	if (stream_any(m))
		p->active_ms = clock_ms();
	if (clock_ms() - p->active_ms < (int64_t)p->rules.idle_ms) {
		arm_idle(m);
		return;
	}
	p->at_lease_end = false;
	want_pause(m);
}

void pause_active(struct monitor *m)
{
	m->pausing.active_ms = clock_ms();
}

bool pause_let(struct monitor *m)
{
	pause_active(m);
	if (m->pausing.state == PAUSE_NONE)
		return true;
	if (!(m->pausing.rules.flags & WIRE_RULE_AUTO_WAKE))
		return false;
	want_wake(m);
	return true; /* the channel keeps it until then */
}

void pause_lease_over(struct monitor *m)
{
	struct pausing *p = &m->pausing;

	if (p->state == PAUSE_STOPPED) {
		monitor_stop(m, SANDBOX_STOPPED_PAUSED, "it was paused for too long");
	} else if (p->rules.flags & WIRE_RULE_PERSISTENT) {
		monitor_lease(m, (int64_t)p->rules.lease_ms);
	} else if (p->rules.flags & WIRE_RULE_PAUSE) {
		p->at_lease_end = true;
		want_pause(m);
	} else {
		monitor_stop(m, SANDBOX_STOPPED_LEASE, "its lease has ended");
	}
}

/* --- messages --- */

static bool is_sound(const struct wire_mon_rules *r)
{
	return r->lease_ms && r->lease_ms <= LEASE_MOST_MS && r->left_ms <= LEASE_MOST_MS &&
	       r->idle_ms <= LEASE_MOST_MS && r->paused_ms && r->paused_ms <= LEASE_MOST_MS;
}

/* From now on it is somebody's: a machine that was made in advance. */
static void hand_over(struct monitor *m)
{
	struct monitor_usage usage;

	monitor_usage(m, &usage);
	m->cpu_before_us += usage.cpu_us;
	m->started_us = clock_us();
	m->pausing.total_ms = 0;
	metrics_begin(m);
}

static void take_rules(struct monitor *m, const struct wire_mon_rules *rules)
{
	struct pausing *p = &m->pausing;

	p->rules = *rules;
	if (rules->flags & WIRE_RULE_HAND_OVER)
		hand_over(m);
	if (rules->left_ms && p->state == PAUSE_NONE)
		monitor_lease(m, (int64_t)rules->left_ms);
	pause_active(m);
	arm_idle(m);
}

int64_t monitor_paused_ms(const struct monitor *m)
{
	const struct pausing *p = &m->pausing;

	return p->total_ms + (p->state ? clock_ms() - p->since_ms : 0);
}

static void answer_state(struct client *c, uint32_t stream)
{
	const struct pausing *p = &c->monitor->pausing;
	int64_t now = clock_ms();
	uint8_t frame[WIRE_HEADER + 32];
	int n = wire_put_mon_state_reply(frame, sizeof(frame), stream, 0,
		&(struct wire_mon_state_reply){.paused = p->state == PAUSE_STOPPED,
			.busy = stream_any(c->monitor),
			.left_ms = (uint64_t)(p->ends_ms > now ? p->ends_ms - now : 0),
			.paused_ms = (uint64_t)monitor_paused_ms(c->monitor)});

	if (n > 0)
		client_send(c, frame, (size_t)n);
}

static void ask_pause(struct client *c, uint32_t stream)
{
	struct monitor *m = c->monitor;

	c->pauses = stream;
	if (m->pausing.state == PAUSE_STOPPED)
		return answer_done(c, &c->pauses);
	m->pausing.at_lease_end = false;
	want_pause(m);
}

static void ask_wake(struct client *c, uint32_t stream, uint64_t lease_ms)
{
	struct monitor *m = c->monitor;

	c->wakes = stream;
	if (m->pausing.state == PAUSE_NONE)
		return answer_done(c, &c->wakes);
	m->pausing.lease_ms = (int64_t)lease_ms;
	want_wake(m);
}

int pause_message(struct client *c, const struct wire_frame *f, const char **why)
{
	struct wire_mon_rules rules = {0};
	struct wire_mon_wake wake = {0};
	struct wire_mon_metrics metrics = {0};
	uint32_t stream = f->stream;

	*why = "rules that cannot be";
	if (f->type == WIRE_MON_RULES &&
		(wire_get_mon_rules(f->payload, f->length, &rules) || !is_sound(&rules)))
		return -EPROTO;
	if (f->type == WIRE_MON_WAKE &&
		(wire_get_mon_wake(f->payload, f->length, &wake) || wake.lease_ms > LEASE_MOST_MS))
		return -EPROTO;
	*why = "a stream of its own is needed";
	if (!stream)
		return -EPROTO;
	if (c->monitor->state >= MONITOR_STOPPING)
		return 0; /* MON_STOPPED is the answer */
	if (c->monitor->state == MONITOR_BOOTING || c->pauses || c->wakes) {
		stream_answer_fail(c, stream, EAGAIN, "the sandbox is starting, or being paused");
		return 0;
	}
	if (f->type == WIRE_MON_RULES) {
		take_rules(c->monitor, &rules);
		answer_done(c, &stream);
	} else if (f->type == WIRE_MON_PAUSE) {
		ask_pause(c, stream);
	} else if (f->type == WIRE_MON_WAKE) {
		ask_wake(c, stream, wake.lease_ms);
	} else if (f->type == WIRE_MON_METRICS) {
		metrics_answer(c, stream,
			wire_get_mon_metrics(f->payload, f->length, &metrics) == 0 &&
				metrics.coarse);
	} else {
		answer_state(c, stream);
	}
	return 0;
}

void pause_init(struct monitor *m)
{
	/* until it is told otherwise: as its configuration says, and stopped then */
	m->pausing.rules = (struct wire_mon_rules){.lease_ms = (uint64_t)m->config->lease_ms,
		.paused_ms = (uint64_t)m->config->lease_ms};
	m->pausing.active_ms = clock_ms();
	m->pausing.idle.data = m;
}

void pause_close(struct monitor *m)
{
	uv_close((uv_handle_t *)&m->pausing.idle, NULL);
	uv_close((uv_handle_t *)&m->metrics.timer, NULL);
}
