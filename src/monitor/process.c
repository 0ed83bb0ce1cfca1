/* SPDX-License-Identifier: Apache-2.0 - processes: their output kept, their input passed on. */
#include "monitor/monitor.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A record: its header, then its bytes. */
#define RECORD_HEADER 4u
#define RECORD_MOST   (16u << 10)
#define RECORD_COUNT  0xffffffu
#define INPUT_PIECE   (64u << 10)

static uint32_t record_header(uint32_t channel, uint32_t count)
{
	return channel << 24 | count;
}

static uint32_t header_at(const struct process *p, size_t at)
{
	uint32_t header;

	memcpy(&header, buffer_bytes(&p->output) + at, sizeof(header));
	return header;
}

static int64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- output --- */

/* The records before `cursor` are done with: the guest may be given credit for them. */
static void count_acked(struct process *p, uint64_t cursor)
{
	uint64_t offset = p->first;

	for (size_t at = 0; at < buffer_length(&p->output) && offset < cursor;) {
		uint32_t header = header_at(p, at), count = header & RECORD_COUNT;
		uint64_t from = offset > p->acked ? offset : p->acked;
		uint64_t to = offset + count < cursor ? offset + count : cursor;

		if (to > from)
			p->owed[header >> 24] += (uint32_t)(to - from);
		offset += count;
		at += RECORD_HEADER + count;
	}
	if (cursor > p->acked)
		p->acked = cursor;
}

static void drop_first(struct monitor *m, struct process *p)
{
	uint32_t count = header_at(p, 0) & RECORD_COUNT;

	count_acked(p, p->first + count);
	buffer_consume(&p->output, RECORD_HEADER + count);
	m->processes.output_bytes -= RECORD_HEADER + count;
	p->first += count;
	if (!buffer_length(&p->output))
		p->last_count = 0;
}

static void drop_all(struct monitor *m, struct process *p)
{
	count_acked(p, p->next);
	m->processes.output_bytes -= buffer_length(&p->output);
	buffer_fini(&p->output);
	p->first = p->next;
	p->last_count = 0;
}

/* the holder waits for its oldest record */
static bool is_wanted(const struct process *p)
{
	return p->holder && p->first + (header_at(p, 0) & RECORD_COUNT) > p->acked;
}

/* whose output is given up when all together is too much */
static struct process *find_victim(struct monitor *m)
{
	struct process *most = NULL;

	for (size_t i = 0; i < m->processes.count; i++) {
		struct process *p = m->processes.list[i];
		size_t n = buffer_length(&p->output);

		if (!n)
			continue;
		if (!p->stream)
			return p;
		if (!most || n > buffer_length(&most->output))
			most = p;
	}
	return most;
}

static void make_room(struct monitor *m, struct process *p)
{
	while (buffer_length(&p->output) > PROCESS_OUTPUT &&
		(!is_wanted(p) || buffer_length(&p->output) > PROCESS_HELD))
		drop_first(m, p);
	while (m->processes.output_bytes > PROCESSES_OUTPUT) {
		struct process *victim = find_victim(m);

		if (!victim->stream)
			drop_all(m, victim);
		else
			drop_first(m, victim);
	}
}

/* some bytes to the newest record, or to a new one; how many, 0: no memory */
static size_t add_some(
	struct monitor *m, struct process *p, uint32_t channel, const uint8_t *bytes, size_t count)
{
	bool fresh = !p->last_count || p->last_channel != channel || p->last_count >= RECORD_MOST;
	uint32_t old = fresh ? 0 : p->last_count, header;
	size_t n = count < RECORD_MOST - old ? count : RECORD_MOST - old;

	/* both or neither */
	if (!buffer_reserve(&p->output, RECORD_HEADER + n))
		return 0;
	header = record_header(channel, old + (uint32_t)n);
	if (fresh)
		buffer_add(&p->output, &header, sizeof(header));
	else
		memcpy(buffer_bytes(&p->output) + buffer_length(&p->output) - old - RECORD_HEADER,
			&header, sizeof(header));
	buffer_add(&p->output, bytes, n);
	m->processes.output_bytes += n + (fresh ? RECORD_HEADER : 0);
	p->last_channel = channel;
	p->last_count = old + (uint32_t)n;
	p->next += n;
	return n;
}

static void add(
	struct monitor *m, struct process *p, uint32_t channel, const uint8_t *bytes, size_t count)
{
	while (count) {
		size_t n = add_some(m, p, channel, bytes, count);

		if (!n) { /* no memory: lost, and by the offsets seen to be lost */
			drop_all(m, p);
			p->owed[channel] += (uint32_t)count;
			p->next += count;
			p->first = p->acked = p->next;
			return;
		}
		if (!p->holder) {
			p->owed[channel] += (uint32_t)n;
			p->acked = p->next;
		}
		bytes += n;
		count -= n;
	}
	make_room(m, p);
}

uint64_t process_pieces(
	struct client *c, uint32_t stream, const struct process *p, uint64_t cursor, uint32_t most)
{
	uint8_t frame[WIRE_HEADER + RECORD_MOST + 64];
	uint64_t offset = p->first;

	for (size_t at = 0; at < buffer_length(&p->output) && most;) {
		uint32_t header = header_at(p, at), count = header & RECORD_COUNT;
		const uint8_t *bytes = buffer_bytes(&p->output) + at + RECORD_HEADER;
		uint32_t skip = cursor > offset && cursor - offset < count
					? (uint32_t)(cursor - offset)
					: 0;
		uint32_t n = count - skip < most ? count - skip : most;

		if (offset + count > cursor) {
			int size = wire_put_mon_piece(frame, sizeof(frame), stream, 0,
				&(struct wire_mon_piece){.offset = offset + skip,
					.channel = header >> 24,
					.bytes = {bytes + skip, n}});

			if (size > 0)
				client_send(c, frame, (size_t)size);
			most -= n;
			cursor = offset + skip + n;
		}
		offset += count;
		at += RECORD_HEADER + count;
	}
	return cursor;
}

static void give_credit(struct monitor *m, struct process *p, uint32_t channel)
{
	uint8_t frame[WIRE_HEADER + 16];
	int n;

	if (p->owed[channel] < WIRE_CREDIT_STEP || !p->stream)
		return;
	n = wire_put_credit(frame, sizeof(frame), p->stream->id, (uint16_t)channel,
		&(struct wire_credit){.bytes = p->owed[channel]});
	if (n > 0)
		guest_send(&m->guest, frame, (size_t)n);
	p->stream->credit[channel] += p->owed[channel];
	p->owed[channel] = 0;
}

void process_acked(struct monitor *m, struct process *p, uint64_t cursor)
{
	if (cursor == UINT64_MAX)
		p->holder = NULL;
	if (cursor > p->next)
		cursor = p->next;
	count_acked(p, cursor);
	for (uint32_t channel = WIRE_STDOUT; channel < WIRE_CHANNELS; channel++)
		give_credit(m, p, channel);
	make_room(m, p);
}

/* --- input --- */

size_t process_input_room(const struct monitor *m, const struct process *p)
{
	size_t own = PROCESS_INPUT - buffer_length(&p->input);
	size_t all = PROCESSES_INPUT - m->processes.input_bytes;

	return own < all ? own : all;
}

size_t process_input(struct monitor *m, struct process *p, const void *bytes, size_t count)
{
	size_t room = process_input_room(m, p), n = count < room ? count : room;

	if (buffer_add(&p->input, bytes, n))
		return 0;
	m->processes.input_bytes += n;
	p->input_bytes += n;
	return n;
}

static void send_input(struct monitor *m, struct process *p, size_t n)
{
	uint8_t header[WIRE_HEADER];

	wire_header_put(header, (uint32_t)n, WIRE_DATA, WIRE_STDIN, p->stream->id);
	guest_send(&m->guest, header, sizeof(header));
	guest_send(&m->guest, buffer_bytes(&p->input), n);
	buffer_consume(&p->input, n);
	m->processes.input_bytes -= n;
	p->stream->credit[WIRE_STDIN] -= n;
}

void process_pump(struct monitor *m, struct process *p)
{
	struct stream *s = p->stream;
	uint8_t header[WIRE_HEADER];

	while (s && buffer_length(&p->input) && s->credit[WIRE_STDIN] &&
		!guest_congested(&m->guest)) {
		size_t n = buffer_length(&p->input);

		n = n < s->credit[WIRE_STDIN] ? n : (size_t)s->credit[WIRE_STDIN];
		send_input(m, p, n < INPUT_PIECE ? n : INPUT_PIECE);
	}
	if (!s || buffer_length(&p->input))
		return;
	buffer_fini(&p->input);
	if (p->input_ends && !s->ended[WIRE_STDIN]) {
		s->ended[WIRE_STDIN] = true;
		wire_header_put(header, 0, WIRE_END, WIRE_STDIN, s->id);
		guest_send(&m->guest, header, sizeof(header));
	}
}

/* --- life --- */

struct process *process_find(struct monitor *m, const char *id)
{
	for (size_t i = 0; i < m->processes.count; i++) {
		if (strcmp(m->processes.list[i]->id, id) == 0)
			return m->processes.list[i];
	}
	return NULL;
}

void process_free(struct monitor *m, struct process *p)
{
	struct processes *all = &m->processes;

	for (size_t i = 0; i < all->count; i++) {
		if (all->list[i] != p)
			continue;
		memmove(all->list + i, all->list + i + 1,
			(all->count - i - 1) * sizeof(all->list[0]));
		all->count--;
		break;
	}
	all->output_bytes -= buffer_length(&p->output);
	all->input_bytes -= buffer_length(&p->input);
	buffer_fini(&p->output);
	buffer_fini(&p->input);
	free(p->about);
	free(p);
}

/* the place of the one that ended first; false: all run */
static bool forget_one(struct monitor *m)
{
	struct process *first = NULL;

	for (size_t i = 0; i < m->processes.count; i++) {
		struct process *p = m->processes.list[i];

		if (!p->stream && (!first || p->ended_ms < first->ended_ms))
			first = p;
	}
	if (first)
		process_free(m, first);
	return first != NULL;
}

struct process *process_new(struct monitor *m, const char *id, const char *about)
{
	struct process *p;

	if (m->processes.running >= PROCESSES_RUNNING ||
		(m->processes.count >= PROCESSES_MOST && !forget_one(m)))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p || text_copy(p->id, sizeof(p->id), id) || !(p->about = strdup(about))) {
		free(p);
		return NULL;
	}
	p->started_ms = wall_ms();
	m->processes.list[m->processes.count++] = p;
	return p;
}

static void end(struct monitor *m, struct process *p, enum wire_process_state state)
{
	p->stream->process = NULL;
	p->stream = NULL;
	p->state = state;
	p->ended_ms = wall_ms();
	p->input_open = false;
	m->processes.running--;
	m->processes.input_bytes -= buffer_length(&p->input);
	buffer_fini(&p->input);
	make_room(m, p);
	process_tell(m, p);
}

/* A program that is not there is, as in a shell, a command that ends with 127 (or 126) and says so;
 * any other failure is no process. */
static void failed(struct monitor *m, struct process *p, const struct wire_fail *fail)
{
	struct buffer text = {0};

	if (p->state == WIRE_PROCESS_STARTING && text_starts(fail->message.text, "program ")) {
		buffer_printf(&text, "sealmark: %s\n", fail->message.text + strlen("program "));
		add(m, p, WIRE_STDERR, buffer_bytes(&text), buffer_length(&text));
		buffer_fini(&text);
		p->end = (struct wire_exit){.reason = WIRE_END_EXITED,
			.status = fail->error == ENOENT || fail->error == ENOTDIR ? 127 : 126};
		end(m, p, WIRE_PROCESS_ENDED);
		process_begun(m, p, NULL);
		return;
	}
	end(m, p, WIRE_PROCESS_LOST);
	if (p->spawner)
		process_begun(m, p, fail);
}

void process_from_guest(struct monitor *m, struct stream *s, const struct wire_frame *f)
{
	struct process *p = s->process;
	struct wire_started started;
	struct wire_fail fail;

	switch (f->type) {
	case WIRE_DATA:
		add(m, p, f->channel, f->payload, f->length);
		give_credit(m, p, f->channel);
		process_tell(m, p);
		break;
	case WIRE_CREDIT:
		process_pump(m, p);
		break;
	case WIRE_STARTED:
		wire_get_started(f->payload, f->length, &started);
		p->state = WIRE_PROCESS_RUNNING;
		p->pid = started.pid;
		process_begun(m, p, NULL);
		break;
	case WIRE_DONE: /* of a watch */
		p->end = (struct wire_exit){.reason = WIRE_END_EXITED};
		process_begun(m, p, NULL);
		end(m, p, WIRE_PROCESS_ENDED);
		break;
	case WIRE_EXIT:
		wire_get_exit(f->payload, f->length, &p->end);
		process_begun(m, p, NULL);
		end(m, p, p->end.reason < WIRE_END_COUNT ? WIRE_PROCESS_ENDED : WIRE_PROCESS_LOST);
		break;
	case WIRE_FAIL:
		wire_get_fail(f->payload, f->length, &fail);
		failed(m, p, &fail);
		break;
	default:
		break;
	}
}
