/* SPDX-License-Identifier: Apache-2.0 - the monitor's loop: states, lease, and the end. */
#include "monitor/egress.h"
#include "monitor/monitor.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPLAIN_MS 1000 /* for the keeper to say how the machine ended */
#define SETTLE_MS                                                                                  \
	5000 /* for the machine's processes to end, and then for clients to read the end */

void monitor_usage(struct monitor *m, struct monitor_usage *out)
{
	uint64_t peak = 0;

	int64_t wall_us = clock_us() - m->started_us - 1000 * monitor_paused_ms(m);

	*out = (struct monitor_usage){.wall_us = wall_us > 0 ? (uint64_t)wall_us : 0};
	if (m->cgroup) {
		jail_cgroup_cpu_us(m->cgroup, &out->cpu_us);
		if (jail_cgroup_memory(m->cgroup, &out->memory_bytes, &peak) == 0 &&
			peak > m->memory_peak_bytes)
			m->memory_peak_bytes = peak;
	}
	if (m->cpu_final_us > out->cpu_us)
		out->cpu_us = m->cpu_final_us;
	out->cpu_us -= m->cpu_before_us < out->cpu_us ? m->cpu_before_us : out->cpu_us;
	out->memory_peak_bytes = m->memory_peak_bytes;
}

void monitor_order(struct monitor *m, enum keeper_order_kind kind, int64_t for_ms)
{
	const struct keeper_order order = {.kind = (int32_t)kind, .for_ms = for_ms};

	if (m->keeper_fd >= 0 &&
		send(m->keeper_fd, &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("the keeper is gone");
}

/* Its pid 1 ends once neither this process nor the keeper holds the life pipe any more. */
static void end_machine(struct monitor *m)
{
	close_fd(&m->life_fd);
	monitor_order(m, KEEPER_END, 0);
}

static void close_clients(struct monitor *m)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		client_close(&m->clients[i]);
}

void monitor_close_when_drained(struct monitor *m)
{
	if (client_drained(m))
		close_clients(m);
	/* with its clients gone and every other handle closed the loop ends */
}

static void give_up_clients(uv_timer_t *timer)
{
	struct monitor *m = timer->data;

	close_clients(m);
}

/* The last word to clients (it ends every stream), once the machine's process is gone (or will not
 * go). */
static void finish(struct monitor *m)
{
	uint8_t frame[MONITOR_LAST_WORD];
	struct monitor_usage usage;
	char console[2048];
	int n;

	if (m->state == MONITOR_STOPPED)
		return;
	m->state = MONITOR_STOPPED;
	monitor_usage(m, &usage);
	console_text(&m->console, console, sizeof(console));
	n = wire_put_mon_stopped(frame, sizeof(frame), 0, 0,
		&(struct wire_mon_stopped){.reason = m->reason,
			.detail = wire_str(m->detail),
			.cpu_us = usage.cpu_us,
			.memory_peak_bytes = usage.memory_peak_bytes,
			.wall_us = usage.wall_us,
			.console = wire_str(console)});
	if (n > 0)
		client_broadcast(m, frame, (size_t)n);
	if (n > 0 && m->config->detached &&
		send(m->keeper_fd, frame, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_error("the end could not be told to the keeper: %s", strerror(errno));
	guest_close(&m->guest);
	egress_close(m);
	console_close(&m->console);
	processes_close(m);
	uv_close((uv_handle_t *)&m->keeper_poll, NULL);
	if (m->listen_fd >= 0)
		uv_close((uv_handle_t *)&m->listen_poll, NULL);
	uv_close((uv_handle_t *)&m->lease, NULL);
	uv_close((uv_handle_t *)&m->tick, NULL);
	pause_close(m);
	/* a client that does not read is not waited for; the timer alone does not keep the loop */
	uv_timer_start(&m->settle, give_up_clients, SETTLE_MS, 0);
	uv_unref((uv_handle_t *)&m->settle);
	monitor_close_when_drained(m);
}

static void machine_stuck(uv_timer_t *timer)
{
	struct monitor *m = timer->data;

	log_error("the machine's processes did not end within %d ms", SETTLE_MS);
	if (m->machine_pidfd >= 0)
		syscall(SYS_pidfd_send_signal, m->machine_pidfd, SIGKILL, NULL, 0);
	finish(m);
}

void monitor_stop(struct monitor *m, enum sandbox_stop_reason reason, const char *format, ...)
{
	va_list ap;

	if (m->state >= MONITOR_STOPPING)
		return;
	if (m->state == MONITOR_BOOTING && reason != SANDBOX_STOPPED_OWNER &&
		reason != SANDBOX_STOPPED_REQUESTED)
		reason = SANDBOX_STOPPED_START_FAILED;
	m->state = MONITOR_STOPPING;
	m->reason = reason;
	va_start(ap, format);
	vsnprintf(m->detail, sizeof(m->detail), format, ap);
	va_end(ap);
	uv_timer_stop(&m->lease);
	uv_timer_stop(&m->tick);
	uv_timer_stop(&m->pausing.idle);
	if (m->machine_ended)
		return finish(m);
	end_machine(m);
	uv_timer_start(&m->settle, machine_stuck, SETTLE_MS, 0);
}

static void not_explained(uv_timer_t *timer)
{
	struct monitor *m = timer->data;

	monitor_stop(m, SANDBOX_STOPPED_GUEST_ENDED, "%s", m->guest.fault);
}

void monitor_channel_lost(struct monitor *m)
{
	/* its end has closed the channel, or that of the keeper, which would be ours */
	if (m->state < MONITOR_STOPPING && !uv_is_active((uv_handle_t *)&m->settle))
		uv_timer_start(&m->settle, not_explained, EXPLAIN_MS, 0);
}

static void tick(uv_timer_t *timer)
{
	struct monitor *m = timer->data;

	monitor_schedule_tick(m);
}

void monitor_schedule_tick(struct monitor *m)
{
	int64_t next;

	if (m->state != MONITOR_RUNNING || m->pausing.state)
		return;
	next = limits_tick(m);
	if (m->state != MONITOR_RUNNING || next == CLOCK_NEVER) {
		uv_timer_stop(&m->tick);
		return;
	}
	next -= clock_ms();
	uv_update_time(&m->loop);
	uv_timer_start(&m->tick, tick, next > 0 ? (uint64_t)next : 0, 0);
}

static void lease_over(uv_timer_t *timer)
{
	struct monitor *m = timer->data;

	if (m->state == MONITOR_BOOTING)
		monitor_stop(m, SANDBOX_STOPPED_START_FAILED,
			"the machine did not start within %lld ms",
			(long long)m->config->start_timeout_ms);
	else
		pause_lease_over(m);
}

void monitor_lease(struct monitor *m, int64_t lease_ms)
{
	uv_update_time(&m->loop);
	m->pausing.ends_ms = clock_deadline_ms(lease_ms);
	uv_timer_start(&m->lease, lease_over, (uint64_t)lease_ms, 0);
}

/* tell one client, or all (NULL) */
static void tell_ready(struct monitor *m, struct client *c)
{
	uint8_t frame[WIRE_HEADER + 1024];
	int n = wire_put_mon_ready(frame, sizeof(frame), 0, 0,
		&(struct wire_mon_ready){.id = wire_str(m->config->id),
			.engine = wire_str(m->engine),
			.isolation = wire_str(m->isolation),
			.kernel = wire_str(m->kernel),
			.boot_us = (uint64_t)m->boot_us});

	if (n > 0 && c)
		client_send(c, frame, (size_t)n);
	else if (n > 0)
		client_broadcast(m, frame, (size_t)n);
}

void monitor_ready(struct monitor *m, const struct wire_str *kernel)
{
	struct buffer safe = {0};

	m->state = MONITOR_RUNNING;
	m->boot_us = clock_us() - m->started_us;
	/* the guest's word, which ends up in records and on terminals */
	if (text_add_safe(&safe, kernel->text, kernel->count, false) == 0 && buffer_text(&safe))
		text_copy(m->kernel, sizeof(m->kernel), buffer_text(&safe));
	buffer_fini(&safe);
	monitor_lease(m, m->config->lease_ms);
	egress_guest_ready(m);
	tell_ready(m, NULL);
	monitor_schedule_tick(m);
}

/* The keeper tells the machine's end, or is itself gone. */
static void keeper_said(uv_poll_t *poll, int status, int events)
{
	struct monitor *m = poll->data;
	struct keeper_note note;
	struct keeper_answer answer;
	ssize_t n = recv(m->keeper_fd, &note, sizeof(note), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == sizeof(answer)) {
		memcpy(&answer, &note, sizeof(answer));
		pause_answered(m, &answer);
		return;
	}
	uv_poll_stop(&m->keeper_poll);
	if (n != sizeof(note)) {
		monitor_stop(m, SANDBOX_STOPPED_MONITOR_LOST, "its keeper process died");
		m->machine_ended = true; /* nobody left to tell */
		return finish(m);
	}
	m->machine_ended = true;
	m->cpu_final_us = note.cpu_us;
	if (note.memory_peak_bytes > m->memory_peak_bytes)
		m->memory_peak_bytes = note.memory_peak_bytes;
	if (m->state == MONITOR_STOPPING)
		return finish(m);
	guest_read_last(&m->guest);
	monitor_stop(m, SANDBOX_STOPPED_GUEST_ENDED,
		WIFSIGNALED(note.status) ? "the machine was ended by signal %d"
					 : "the machine ended with status %d",
		WIFSIGNALED(note.status) ? WTERMSIG(note.status) : WEXITSTATUS(note.status));
}

/* A client for whom there is no place is told so: silence would be the sandbox's end. */
static void tell_full(int fd)
{
	uint8_t frame[WIRE_HEADER + 128];
	int n = wire_put_fail(frame, sizeof(frame), 0, 0,
		&(struct wire_fail){.error = EBUSY,
			.message = wire_str("too many operations at once on this sandbox")});

	if (n > 0 && send(fd, frame, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a client that was refused is gone");
}

static void accepted(uv_poll_t *poll, int status, int events)
{
	struct monitor *m = poll->data;
	int fd = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	struct client *c = fd >= 0 ? client_add(m, fd, false) : NULL;

	if (!c && fd >= 0) {
		tell_full(fd);
		close(fd);
	}
	if (c && m->state == MONITOR_RUNNING)
		tell_ready(m, c);
}

static int start(struct monitor *m, const struct monitor_parts *parts)
{
	int r = uv_loop_init(&m->loop);

	if (!r)
		r = uv_timer_init(&m->loop, &m->lease);
	if (!r)
		r = uv_timer_init(&m->loop, &m->tick);
	if (!r)
		r = uv_timer_init(&m->loop, &m->settle);
	if (!r)
		r = uv_timer_init(&m->loop, &m->pausing.idle);
	if (!r)
		r = uv_timer_init(&m->loop, &m->metrics.timer);
	if (!r)
		r = metrics_start(m);
	if (!r)
		r = uv_timer_init(&m->loop, &m->processes.waits);
	if (!r)
		r = uv_poll_init(&m->loop, &m->keeper_poll, parts->keeper_fd);
	if (!r)
		r = uv_poll_start(&m->keeper_poll, UV_READABLE | UV_DISCONNECT, keeper_said);
	if (!r && m->listen_fd >= 0)
		r = uv_poll_init(&m->loop, &m->listen_poll, m->listen_fd);
	if (!r && m->listen_fd >= 0)
		r = uv_poll_start(&m->listen_poll, UV_READABLE, accepted);
	if (!r)
		r = console_start(&m->console, m, parts->console_fd);
	if (!r && !client_add(m, parts->owner_fd, true))
		r = -ENOMEM;
	if (!r)
		r = guest_start(&m->guest, m, parts->vsock, parts->stream_fd);
	if (!r)
		r = uv_timer_start(&m->lease, lease_over, (uint64_t)m->config->start_timeout_ms, 0);
	return r;
}

int monitor_run(const struct monitor_parts *parts, struct error *err)
{
	static struct monitor monitor; /* large, and one to a process */
	struct monitor *m = &monitor;
	int r;

	m->config = parts->config;
	m->engine = parts->engine;
	text_copy(m->isolation, sizeof(m->isolation), parts->isolation);
	m->cgroup = parts->cgroup;
	m->machine_pidfd = parts->machine_pidfd;
	m->life_fd = parts->life_fd;
	m->keeper_fd = parts->keeper_fd;
	m->listen_fd = parts->listen_fd;
	m->started_us = parts->started_us;
	m->heard_ms = clock_ms();
	pause_init(m);
	m->lease.data = m->tick.data = m->settle.data = m->keeper_poll.data = m->listen_poll.data =
		m;
	client_init(m);
	r = start(m, parts);
	if (r)
		return error_sys(err, r, "the monitor cannot start its loop");
	if (parts->egress_fd >= 0) {
		r = egress_start(m, parts->egress_fd, m->config->network, err);
		if (r)
			return r;
	}
	r = jail_monitor_seccomp(err);
	if (r)
		return r;
	uv_run(&m->loop, UV_RUN_DEFAULT);
	return 0;
}
