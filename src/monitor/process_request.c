/* SPDX-License-Identifier: Apache-2.0 - processes: what clients ask of them. */
#include "monitor/monitor.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MOST_MS (INT64_C(1) << 40)
#define OUTPUT_MOST  (256u << 10) /* bytes of one answer */

static void answer_done(struct client *c, uint32_t stream)
{
	uint8_t frame[WIRE_HEADER];
	int n = wire_put_done(frame, sizeof(frame), stream, 0, &(struct wire_done){0});

	if (n > 0)
		client_send(c, frame, (size_t)n);
}

static void answer_process(struct client *c, uint32_t stream, const struct process *p)
{
	uint8_t frame[WIRE_HEADER + PROCESS_ABOUT + 512];
	int n = wire_put_mon_process(frame, sizeof(frame), stream, 0,
		&(struct wire_mon_process){.id = wire_str(p->id),
			.state = p->state,
			.pid = p->pid,
			.reason = p->end.reason,
			.status = p->end.status,
			.flags = p->end.flags,
			.wall_us = p->end.wall_us,
			.started_ms = p->started_ms,
			.ended_ms = p->ended_ms,
			.output_first = p->first,
			.output_end = p->next,
			.input_bytes = p->input_bytes,
			.input_open = p->input_open,
			.cols = p->cols,
			.rows = p->rows,
			.about = wire_str(p->about)});

	if (n > 0)
		client_send(c, frame, (size_t)n);
}

static void answer(struct client *c, uint32_t stream, const struct process *p)
{
	answer_process(c, stream, p);
	answer_done(c, stream);
}

/* --- waiting for output --- */

static void answer_wait(struct client *c)
{
	struct process_wait w = c->wait;

	c->wait.process = NULL;
	process_pieces(c, w.stream, w.process, w.cursor, w.most);
	answer(c, w.stream, w.process);
}

static bool is_due(const struct process_wait *w)
{
	return !w->process->stream || w->process->next > w->cursor;
}

static void waits_over(uv_timer_t *timer);

static void schedule(struct monitor *m)
{
	int64_t next = CLOCK_NEVER, now = clock_ms();

	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		const struct process_wait *w = &m->clients[i].wait;

		if (m->clients[i].fd >= 0 && w->process && w->until_ms < next)
			next = w->until_ms;
	}
	if (next == CLOCK_NEVER) {
		uv_timer_stop(&m->processes.waits);
		return;
	}
	uv_update_time(&m->loop);
	m->processes.waits.data = m;
	uv_timer_start(&m->processes.waits, waits_over, next > now ? (uint64_t)(next - now) : 0, 0);
}

static void waits_over(uv_timer_t *timer)
{
	struct monitor *m = timer->data;
	int64_t now = clock_ms();

	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct client *c = &m->clients[i];

		if (c->fd >= 0 && c->wait.process && c->wait.until_ms <= now)
			answer_wait(c);
	}
	schedule(m);
}

void process_tell(struct monitor *m, struct process *p)
{
	bool told = false;

	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct client *c = &m->clients[i];

		if (c->fd >= 0 && c->wait.process == p && is_due(&c->wait)) {
			answer_wait(c);
			told = true;
		}
	}
	if (told)
		schedule(m);
}

static void output(
	struct client *c, uint32_t stream, struct process *p, const struct wire_mon_output *ask)
{
	int64_t wait = ask->wait_ms < WAIT_MOST_MS ? (int64_t)ask->wait_ms : WAIT_MOST_MS;

	if (c->wait.process)
		answer_wait(c);
	c->wait = (struct process_wait){.process = p,
		.stream = stream,
		.most = ask->most < OUTPUT_MOST ? ask->most : OUTPUT_MOST,
		.cursor = ask->cursor,
		.until_ms = clock_ms() + wait};
	if (p->holder == c)
		process_acked(c->monitor, p, ask->cursor);
	if (!wait || is_due(&c->wait))
		answer_wait(c);
	else
		schedule(c->monitor);
}

/* --- the others --- */

static bool is_id(const struct wire_str *id)
{
	for (uint32_t i = 0; i < id->count; i++) {
		char c = id->text[i];

		if ((c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-')
			return false;
	}
	return id->count && id->count < PROCESS_ID;
}

void process_begun(struct monitor *m, struct process *p, const struct wire_fail *failure)
{
	struct client *c = p->spawner;

	p->spawner = NULL;
	if (c && failure) {
		stream_answer_fail(c, p->spawner_stream, failure->error ? failure->error : EIO,
			failure->message.text);
		process_free(m, p);
	} else if (c) {
		answer(c, p->spawner_stream, p);
	}
}

static bool is_request(const struct wire_mon_spawn *ask, bool watch, struct wire_exec *e)
{
	struct wire_watch w;

	return watch ? !wire_get_watch(ask->exec.bytes, ask->exec.count, &w)
		     : !wire_get_exec(ask->exec.bytes, ask->exec.count, e);
}

static bool has_room_to_watch(const struct monitor *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->processes.count; i++)
		n += m->processes.list[i]->watch && m->processes.list[i]->stream;
	return n < WIRE_WATCHES_MOST;
}

static void spawn(struct client *c, uint32_t stream, const struct wire_mon_spawn *ask)
{
	struct monitor *m = c->monitor;
	bool watch = ask->flags & WIRE_SPAWN_WATCH;
	uint16_t type = watch ? WIRE_WATCH : WIRE_EXEC;
	cleanup_free uint8_t *frame = NULL;
	struct wire_exec e = {0};
	struct process *p;
	struct stream *s;

	if (!is_id(&ask->id) || ask->about.count >= PROCESS_ABOUT || !is_request(ask, watch, &e))
		return stream_answer_fail(c, stream, EINVAL, "no such process can be");
	if (process_find(m, ask->id.text))
		return stream_answer_fail(c, stream, EEXIST, "there is a process of that id");
	if (watch && !has_room_to_watch(m))
		return stream_answer_fail(c, stream, EBUSY, "too many watches at once");
	frame = malloc(WIRE_HEADER + ask->exec.count);
	p = frame ? process_new(m, ask->id.text, ask->about.text) : NULL;
	if (!p)
		return stream_answer_fail(
			c, stream, EBUSY, "too many processes at once in this sandbox");
	s = stream_open(m, type, NULL, 0);
	if (!s) {
		process_free(m, p);
		return stream_answer_fail(
			c, stream, EBUSY, "too many operations at once on this sandbox");
	}
	p->stream = s;
	p->watch = watch;
	p->spawner = c;
	p->spawner_stream = stream;
	p->holder = ask->flags & WIRE_SPAWN_HOLD ? c : NULL;
	p->cols = e.cols;
	p->rows = e.rows;
	p->input_open = s->input = e.flags & WIRE_EXEC_STDIN;
	s->process = p;
	m->processes.running++;
	wire_header_put(frame, ask->exec.count, type, 0, s->id);
	memcpy(frame + WIRE_HEADER, ask->exec.bytes, ask->exec.count);
	if (!watch)
		limits_begin(m, s, &e, frame);
	guest_send(&m->guest, frame, WIRE_HEADER + ask->exec.count);
	monitor_schedule_tick(m);
}

static void list(struct client *c, uint32_t stream)
{
	const struct processes *all = &c->monitor->processes;

	for (size_t i = 0; i < all->count; i++)
		answer_process(c, stream, all->list[i]);
	answer_done(c, stream);
}

static void write_input(
	struct client *c, uint32_t stream, struct process *p, const struct wire_mon_write *ask)
{
	struct monitor *m = c->monitor;
	const uint8_t *bytes = ask->bytes.bytes;
	bool append = ask->offset == UINT64_MAX;
	uint64_t known = append ? 0 : p->input_bytes - ask->offset;
	size_t n = ask->bytes.count;

	if (append && p->input_open && n > process_input_room(m, p))
		return stream_answer_fail(
			c, stream, ENOBUFS, "the process does not read its input");
	if (!append && ask->offset > p->input_bytes)
		return stream_answer_fail(c, stream, ESPIPE, "input before this offset is missing");
	/* sent again: what has been taken before is left out */
	if (known >= n && (!ask->eof || known > n || !p->input_open))
		return answer(c, stream, p);
	if (!p->input_open)
		return stream_answer_fail(c, stream, EBADF, "the process takes no input");
	n -= (size_t)known;
	if (process_input(m, p, bytes + known, n) == n && ask->eof) {
		p->input_ends = true;
		p->input_open = false;
	}
	process_pump(m, p);
	answer(c, stream, p);
}

static void send_signal(struct client *c, uint32_t stream, struct process *p, uint32_t signal)
{
	uint8_t frame[WIRE_HEADER + 16];
	int n;

	if (!p->stream)
		return stream_answer_fail(c, stream, ESRCH, "the process has ended");
	if (signal < 1 || signal > 64)
		return stream_answer_fail(c, stream, EINVAL, "no such signal");
	if (p->watch) {
		if (!p->stream->killed)
			stream_kill(c->monitor, p->stream, WIRE_KILL_CANCEL);
		monitor_schedule_tick(c->monitor);
		return answer(c, stream, p);
	}
	n = wire_put_signal(
		frame, sizeof(frame), p->stream->id, 0, &(struct wire_signal){.signal = signal});
	if (n > 0)
		guest_send(&c->monitor->guest, frame, (size_t)n);
	answer(c, stream, p);
}

static void resize(
	struct client *c, uint32_t stream, struct process *p, const struct wire_mon_resize *ask)
{
	uint8_t frame[WIRE_HEADER + 16];
	int n;

	if (!p->stream)
		return stream_answer_fail(c, stream, ESRCH, "the process has ended");
	if (!p->cols)
		return stream_answer_fail(c, stream, ENOTTY, "the process has no terminal");
	if (!ask->cols || !ask->rows)
		return stream_answer_fail(c, stream, EINVAL, "a terminal has columns and rows");
	p->cols = ask->cols;
	p->rows = ask->rows;
	n = wire_put_resize(frame, sizeof(frame), p->stream->id, 0,
		&(struct wire_resize){.cols = p->cols, .rows = p->rows});
	if (n > 0)
		guest_send(&c->monitor->guest, frame, (size_t)n);
	answer(c, stream, p);
}

static struct process *find(struct client *c, uint32_t stream, const struct wire_str *id)
{
	struct process *p = process_find(c->monitor, id->text);

	if (!p)
		stream_answer_fail(c, stream, ENOENT, "there is no such process");
	return p;
}

/* decode by the table, find its process, call */
#define ABOUT_ONE(NAME, name, call)                                                                \
	case WIRE_##NAME: {                                                                        \
		struct wire_##name ask;                                                            \
                                                                                                   \
		if (wire_get_##name(f->payload, f->length, &ask))                                  \
			return -EPROTO;                                                            \
		p = find(c, f->stream, &ask.id);                                                   \
		if (p)                                                                             \
			call;                                                                      \
		return 0;                                                                          \
	}

int process_request(struct client *c, const struct wire_frame *f, const char **why)
{
	struct monitor *m = c->monitor;
	struct wire_mon_spawn ask_spawn;
	struct process *p;

	*why = "a stream of its own is needed";
	if (!f->stream)
		return -EPROTO;
	if (m->state >= MONITOR_STOPPING)
		return 0; /* MON_STOPPED is the answer */
	if (m->state == MONITOR_BOOTING) {
		stream_answer_fail(c, f->stream, EAGAIN, "the sandbox is still starting");
		return 0;
	}
	/* what is kept here is told also while the machine is paused */
	if (f->type != WIRE_MON_OUTPUT && f->type != WIRE_MON_PROCESSES && !pause_let(m)) {
		stream_answer_fail(c, f->stream, ESHUTDOWN, "the sandbox is paused");
		return 0;
	}
	switch (f->type) {
	case WIRE_MON_SPAWN:
		if (wire_get_mon_spawn(f->payload, f->length, &ask_spawn))
			return -EPROTO;
		spawn(c, f->stream, &ask_spawn);
		return 0;
	case WIRE_MON_PROCESSES:
		list(c, f->stream);
		return 0;
		ABOUT_ONE(MON_OUTPUT, mon_output, output(c, f->stream, p, &ask))
		ABOUT_ONE(MON_WRITE, mon_write, write_input(c, f->stream, p, &ask))
		ABOUT_ONE(MON_SIGNAL, mon_signal, send_signal(c, f->stream, p, ask.signal))
		ABOUT_ONE(MON_RESIZE, mon_resize, resize(c, f->stream, p, &ask))
	default:
		*why = "a message that only a monitor sends";
		return -EPROTO;
	}
}

void process_client_gone(struct client *c)
{
	struct monitor *m = c->monitor;

	c->wait.process = NULL;
	for (size_t i = 0; i < m->processes.count; i++) {
		struct process *p = m->processes.list[i];

		if (p->spawner == c)
			p->spawner = NULL;
		if (p->holder == c)
			process_acked(m, p, UINT64_MAX);
	}
}

void process_resume_all(struct monitor *m)
{
	for (size_t i = 0; i < m->processes.count; i++) {
		if (buffer_length(&m->processes.list[i]->input))
			process_pump(m, m->processes.list[i]);
	}
}

void processes_close(struct monitor *m)
{
	uv_close((uv_handle_t *)&m->processes.waits, NULL);
	while (m->processes.count)
		process_free(m, m->processes.list[0]);
}
