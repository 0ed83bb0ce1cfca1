/* SPDX-License-Identifier: Apache-2.0 - processes: rings, offsets, bounds and hostile guests. */
#include "../base/unit.h"

#include "base/text.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what processes lean on --- */

static struct monitor m;
static struct stream streams[WIRE_STREAMS_MAX];
static bool paused, congested;

/* what the last request was answered with */
static struct {
	unsigned pieces, listed, done;
	uint32_t error;                  /* of a FAIL, or 0 */
	struct wire_mon_process process; /* without its texts, which are */
	char id[64], about[64];
	uint64_t begin, end; /* offsets of the pieces */
	struct buffer bytes;
} got;

/* what the guest was sent */
static struct {
	uint32_t credit[WIRE_CHANNELS];
	struct buffer input;
	unsigned ends, signal, cols, kills;
} guest;

void client_send(struct client *c, const uint8_t *bytes, size_t size)
{
	struct wire_mon_piece piece;
	struct wire_frame f;

	assert_int_equal(wire_frame_get(bytes, size, &f, NULL), size);
	assert_int_equal(wire_check(&f), 0);
	switch (f.type) {
	case WIRE_MON_PIECE:
		wire_get_mon_piece(f.payload, f.length, &piece);
		if (got.pieces++ == 0)
			got.begin = piece.offset;
		else /* within an answer nothing is missing */
			assert_int_equal(piece.offset, got.end);
		got.end = piece.offset + piece.bytes.count;
		assert_int_equal(buffer_add(&got.bytes, piece.bytes.bytes, piece.bytes.count), 0);
		break;
	case WIRE_MON_PROCESS:
		got.listed++;
		wire_get_mon_process(f.payload, f.length, &got.process);
		text_copy(got.id, sizeof(got.id), got.process.id.text);
		text_copy(got.about, sizeof(got.about), got.process.about.text);
		break;
	case WIRE_DONE:
		got.done++;
		break;
	default:
		fail();
	}
}

void stream_answer_fail(struct client *c, uint32_t stream, uint32_t error, const char *message)
{
	got.error = error;
}

void guest_send(struct guest *g, const uint8_t *frame, size_t size)
{
	static size_t data; /* bytes of DATA that follow its header */
	struct wire_credit credit;
	struct wire_signal signal;
	struct wire_resize resize;
	struct wire_frame f;

	if (data) {
		assert_int_equal(size, data);
		buffer_add(&guest.input, frame, size);
		data = 0;
		return;
	}
	if (wire_frame_get(frame, size, &f, NULL) == 0) {
		assert_int_equal(f.type, WIRE_DATA);
		data = f.length;
		return;
	}
	if (f.type == WIRE_CREDIT && wire_get_credit(f.payload, f.length, &credit) == 0)
		guest.credit[f.channel] += credit.bytes;
	if (f.type == WIRE_SIGNAL && wire_get_signal(f.payload, f.length, &signal) == 0)
		guest.signal = signal.signal;
	if (f.type == WIRE_RESIZE && wire_get_resize(f.payload, f.length, &resize) == 0)
		guest.cols = resize.cols;
	guest.ends += f.type == WIRE_END;
}

bool guest_congested(const struct guest *g)
{
	return congested;
}

bool pause_let(struct monitor *monitor)
{
	return !paused;
}

void limits_begin(
	struct monitor *monitor, struct stream *s, const struct wire_exec *e, uint8_t *bytes)
{
}

void stream_kill(struct monitor *monitor, struct stream *s, uint32_t reason)
{
	s->killed = true;
	guest.kills++;
}

void monitor_schedule_tick(struct monitor *monitor)
{
}

struct stream *stream_open(
	struct monitor *monitor, uint16_t type, struct client *c, uint32_t client_id)
{
	for (size_t i = 0; i < WIRE_STREAMS_MAX; i++) {
		if (streams[i].used)
			continue;
		streams[i] = (struct stream){.used = true, .id = (uint32_t)i + 1, .type = type};
		for (size_t channel = 0; channel < WIRE_CHANNELS; channel++)
			streams[i].credit[channel] = WIRE_WINDOW;
		return &streams[i];
	}
	return NULL;
}

/* --- a client and a guest --- */

static int setup(void **state)
{
	memset(&m, 0, sizeof(m));
	memset(streams, 0, sizeof(streams));
	memset(&guest, 0, sizeof(guest));
	paused = congested = false;
	m.state = MONITOR_RUNNING;
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		m.clients[i] = (struct client){.monitor = &m, .fd = i < 2 ? (int)i : -1};
	return uv_loop_init(&m.loop) || uv_timer_init(&m.loop, &m.processes.waits);
}

static int teardown(void **state)
{
	processes_close(&m);
	uv_run(&m.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&m.loop), 0);
	assert_int_equal(m.processes.output_bytes, 0);
	assert_int_equal(m.processes.input_bytes, 0);
	buffer_fini(&got.bytes);
	buffer_fini(&guest.input);
	return 0;
}

/* a request of client number `who`, and what it is answered */
static void ask(unsigned who, const uint8_t *frame, int size)
{
	const char *why;
	struct wire_frame f;

	assert_true(size > 0);
	buffer_fini(&got.bytes);
	memset(&got, 0, sizeof(got));
	assert_int_equal(wire_frame_get(frame, (size_t)size, &f, NULL), size);
	assert_int_equal(process_request(&m.clients[who], &f, &why), 0);
}

#define ASK(who, name, ...)                                                                        \
	do {                                                                                       \
		static uint8_t frame_[WIRE_FRAME_MAX];                                             \
                                                                                                   \
		ask(who, frame_,                                                                   \
			wire_put_##name(frame_, sizeof(frame_), 7, 0,                              \
				&(struct wire_##name){__VA_ARGS__}));                              \
	} while (0)

static struct stream *stream_of(const char *id)
{
	struct process *p = process_find(&m, id);

	return p ? p->stream : NULL;
}

static void spawn(unsigned who, const char *id, uint32_t spawn_flags, uint32_t exec_flags)
{
	const char *const argv[] = {"x"};
	uint8_t exec[256];
	int n = wire_put_exec(exec, sizeof(exec), 1, 0,
		&(struct wire_exec){.flags = exec_flags, .argv = {.list = argv, .count = 1}});

	ASK(who, mon_spawn, .id = wire_str(id), .flags = spawn_flags, .about = wire_str("about"),
		.exec = {exec + WIRE_HEADER, (uint32_t)n - WIRE_HEADER});
}

static void says(const char *id, const uint8_t *frame, int size)
{
	struct stream *s = stream_of(id);
	struct wire_frame f;

	assert_non_null(s);
	assert_int_equal(wire_frame_get(frame, (size_t)size, &f, NULL), size);
	process_from_guest(&m, s, &f);
	if (wire_is_final(f.type))
		s->used = false;
}

static void started(const char *id)
{
	uint8_t frame[32];

	says(id, frame,
		wire_put_started(frame, sizeof(frame), 1, 0, &(struct wire_started){.pid = 42}));
}

static void ended(const char *id)
{
	uint8_t frame[128];

	says(id, frame,
		wire_put_exit(frame, sizeof(frame), 1, 0, &(struct wire_exit){.status = 3}));
}

/* as far as its credit reaches, as a guest that keeps the rules; how much it was */
static size_t prints(const char *id, uint16_t channel, const void *bytes, size_t count)
{
	struct stream *s = stream_of(id);
	const struct wire_frame f = {.type = WIRE_DATA,
		.channel = channel,
		.length = (uint32_t)(count < s->credit[channel] ? count : s->credit[channel]),
		.payload = bytes};

	s->credit[channel] -= f.length;
	process_from_guest(&m, s, &f);
	return f.length;
}

static void runs(const char *id, uint32_t spawn_flags, uint32_t exec_flags)
{
	spawn(0, id, spawn_flags, exec_flags);
	assert_int_equal(got.listed, 0); /* not before it runs */
	started(id);
	assert_int_equal(got.done, 1);
	assert_int_equal(got.process.state, WIRE_PROCESS_RUNNING);
	assert_string_equal(got.about, "about");
}

#define READ(who, id_, cursor_, ...)                                                               \
	ASK(who, mon_output, .id = wire_str(id_), .cursor = (cursor_), .most = 1u << 20,           \
		__VA_ARGS__)

/* --- output --- */

static uint8_t letters[WIRE_PAYLOAD_MAX];

static void test_output(void **state)
{
	runs("a", 0, 0);
	prints("a", WIRE_STDOUT, "abc", 3);
	prints("a", WIRE_STDOUT, "de", 2);
	prints("a", WIRE_STDERR, "FG", 2);
	READ(0, "a", 0, .wait_ms = 0);
	assert_int_equal(got.pieces, 2); /* what follows on a channel is one piece */
	assert_memory_equal(buffer_bytes(&got.bytes), "abcdeFG", 7);
	assert_int_equal(got.process.output_end, 7);
	READ(1, "a", 4, .wait_ms = 0);
	assert_memory_equal(buffer_bytes(&got.bytes), "eFG", 3);
	READ(0, "a", 7, .wait_ms = 0);
	assert_int_equal(got.pieces, 0);
	assert_int_equal(got.done, 1);
	READ(0, "a", UINT64_MAX, .wait_ms = 0);
	assert_int_equal(got.done, 1);
	ended("a");
	READ(0, "a", 0, .wait_ms = UINT64_MAX);
	assert_int_equal(buffer_length(&got.bytes), 7);
	assert_int_equal(got.process.state, WIRE_PROCESS_ENDED);
	assert_int_equal(got.process.status, 3);
}

static void test_waiting(void **state)
{
	runs("a", 0, 0);
	READ(0, "a", 0, .wait_ms = 1000000);
	assert_int_equal(got.done, 0);
	prints("a", WIRE_STDOUT, "x", 1);
	assert_int_equal(got.done, 1);
	assert_memory_equal(buffer_bytes(&got.bytes), "x", 1);
	READ(0, "a", 1, .wait_ms = 1000000);
	assert_int_equal(got.done, 0);
	ended("a");
	assert_int_equal(got.done, 1);
	assert_int_equal(got.pieces, 0);
	/* its time is over */
	runs("b", 0, 0);
	READ(0, "b", 0, .wait_ms = 1);
	uv_run(&m.loop, UV_RUN_DEFAULT);
	assert_int_equal(got.done, 1);
	/* another of the same client ends it; a client that goes is told nothing */
	READ(0, "b", 0, .wait_ms = 1000000);
	READ(0, "b", 0, .wait_ms = 2000000);
	assert_int_equal(got.done, 1);
	process_client_gone(&m.clients[0]);
	prints("b", WIRE_STDOUT, "x", 1);
	assert_int_equal(got.done, 1);
}

static void test_old_output_is_dropped(void **state)
{
	uint64_t total = 0;

	runs("a", 0, 0);
	for (int i = 0; i < 100; i++) {
		size_t n = prints("a", WIRE_STDOUT, letters, sizeof(letters));

		assert_int_equal(n, sizeof(letters)); /* it never waits for anybody */
		total += n;
		assert_true(m.processes.output_bytes <= PROCESS_OUTPUT + sizeof(letters));
	}
	READ(0, "a", 0, .wait_ms = 0);
	assert_int_equal(got.process.output_end, total);
	assert_int_equal(got.begin, got.process.output_first);
	assert_true(got.begin >= total - PROCESS_OUTPUT && got.begin < total);
	ended("a");
	assert_int_equal(m.processes.output_bytes, buffer_length(&process_find(&m, "a")->output));
}

/* the dearest output for us: single bytes, each on another channel than the one before */
static void test_a_flood_of_single_bytes_of_many(void **state)
{
	char id[8];

	for (unsigned i = 0; i < PROCESSES_RUNNING; i++) {
		snprintf(id, sizeof(id), "p%u", i);
		runs(id, i % 2 ? WIRE_SPAWN_HOLD : 0, 0);
	}
	for (unsigned i = 0; i < PROCESSES_RUNNING; i++) {
		snprintf(id, sizeof(id), "p%u", i);
		for (unsigned n = 0; n < (i < 4 ? 600000u : 60000u); n++)
			prints(id, n % 2 ? WIRE_STDOUT : WIRE_STDERR, "x", 1);
		assert_true(m.processes.output_bytes <= PROCESSES_OUTPUT);
	}
	for (unsigned i = 0; i < PROCESSES_RUNNING; i++) {
		snprintf(id, sizeof(id), "p%u", i);
		READ(1, id, 0, .wait_ms = 0);
		assert_int_equal(got.done, 1);
		assert_true(got.process.output_first <= got.process.output_end);
	}
}

/* --- held for a reader --- */

static void test_a_held_one_waits_for_its_reader(void **state)
{
	uint64_t total = 0, read = 0;

	runs("a", WIRE_SPAWN_HOLD, 0);
	for (int i = 0; i < 10; i++)
		total += prints("a", WIRE_STDOUT, letters, sizeof(letters));
	assert_int_equal(total, WIRE_WINDOW);
	total += prints("a", WIRE_STDERR, "e", 1);
	/* somebody else's reading is no reading */
	READ(1, "a", total, .wait_ms = 0);
	assert_int_equal(guest.credit[WIRE_STDOUT], 0);
	while (read < total) {
		READ(0, "a", read, .wait_ms = 0);
		assert_int_equal(got.begin, read); /* nothing is lost */
		read = got.end;
	}
	READ(0, "a", read, .wait_ms = 0);
	assert_int_equal(guest.credit[WIRE_STDOUT], WIRE_WINDOW);
	assert_int_equal(prints("a", WIRE_STDOUT, letters, sizeof(letters)), sizeof(letters));
	/* its end leaves the reader what it has not read */
	ended("a");
	READ(0, "a", read, .wait_ms = 0);
	assert_int_equal(got.begin, read);
	/* the reader is gone: nobody is waited for */
	runs("b", WIRE_SPAWN_HOLD, 0);
	while (prints("b", WIRE_STDOUT, letters, sizeof(letters)))
		;
	process_client_gone(&m.clients[0]);
	for (int i = 0; i < 20; i++)
		assert_int_equal(
			prints("b", WIRE_STDOUT, letters, sizeof(letters)), sizeof(letters));
	assert_true(
		buffer_length(&process_find(&m, "b")->output) <= PROCESS_OUTPUT + sizeof(letters));
}

/* --- input --- */

#define WRITE(id_, offset_, bytes_, ...)                                                           \
	ASK(0, mon_write, .id = wire_str(id_), .offset = (offset_),                                \
		.bytes = {(const uint8_t *)(bytes_), (uint32_t)strlen(bytes_)}, __VA_ARGS__)

static void test_input_by_offsets(void **state)
{
	runs("a", 0, WIRE_EXEC_STDIN);
	WRITE("a", 0, "abc", .eof = 0);
	assert_int_equal(got.process.input_bytes, 3);
	WRITE("a", 0, "abc", .eof = 0);
	WRITE("a", 1, "bcd", .eof = 0);
	WRITE("a", UINT64_MAX, "e", .eof = 0);
	assert_int_equal(got.process.input_bytes, 5);
	WRITE("a", 6, "x", .eof = 0);
	assert_int_equal(got.error, ESPIPE);
	WRITE("a", 4, "ef", .eof = 1);
	assert_int_equal(got.process.input_bytes, 6);
	assert_false(got.process.input_open);
	WRITE("a", 4, "ef", .eof = 1);
	assert_int_equal(got.error, 0);
	WRITE("a", 6, "g", .eof = 0);
	assert_int_equal(got.error, EBADF);
	assert_memory_equal(buffer_bytes(&guest.input), "abcdef", 6);
	assert_int_equal(buffer_length(&guest.input), 6);
	assert_int_equal(guest.ends, 1);
	runs("b", 0, 0);
	WRITE("b", 0, "x", .eof = 0);
	assert_int_equal(got.error, EBADF);
}

static void test_input_that_is_not_read(void **state)
{
	const struct wire_frame credit = {.type = WIRE_CREDIT};
	uint64_t taken, before;

	/* its end waits for the rest of its input */
	runs("a", 0, WIRE_EXEC_STDIN);
	for (taken = 0; taken < WIRE_WINDOW; taken = got.process.input_bytes)
		ASK(0, mon_write, .id = wire_str("a"), .offset = taken,
			.bytes = {letters, sizeof(letters) / 2});
	WRITE("a", WIRE_WINDOW, "xy", .eof = 1);
	assert_false(got.process.input_open);
	assert_int_equal(guest.ends, 0);
	stream_of("a")->credit[WIRE_STDIN] += 1;
	process_from_guest(&m, stream_of("a"), &credit);
	assert_int_equal(guest.ends, 0);
	stream_of("a")->credit[WIRE_STDIN] += 1;
	process_from_guest(&m, stream_of("a"), &credit);
	assert_int_equal(guest.ends, 1);
	runs("b", 0, WIRE_EXEC_STDIN);
	for (taken = 0, before = 1; taken != before; taken = got.process.input_bytes) {
		before = taken;
		ASK(0, mon_write, .id = wire_str("b"), .offset = taken,
			.bytes = {letters, sizeof(letters) / 2});
	}
	assert_int_equal(taken, WIRE_WINDOW + PROCESS_INPUT);
	WRITE("b", UINT64_MAX, "x", .eof = 0);
	assert_int_equal(got.error, ENOBUFS);
	/* it reads on */
	buffer_clear(&guest.input);
	stream_of("b")->credit[WIRE_STDIN] += 1000;
	congested = true;
	process_from_guest(&m, stream_of("b"), &credit);
	assert_int_equal(buffer_length(&guest.input), 0);
	congested = false;
	process_resume_all(&m);
	assert_int_equal(buffer_length(&guest.input), 1000);
	ended("b");
	assert_int_equal(process_find(&m, "b")->input_bytes, WIRE_WINDOW + PROCESS_INPUT);
}

/* --- life --- */

static void test_requests_that_are_refused(void **state)
{
	uint8_t frame[64];
	const char *why;
	struct wire_frame f;

	runs("a", 0, 0);
	spawn(0, "a", 0, 0);
	assert_int_equal(got.error, EEXIST);
	spawn(0, "../a", 0, 0);
	assert_int_equal(got.error, EINVAL);
	spawn(0, "", 0, 0);
	assert_int_equal(got.error, EINVAL);
	ASK(0, mon_spawn, .id = wire_str("b"), .exec = {letters, 10});
	assert_int_equal(got.error, EINVAL);
	READ(0, "b", 0, .wait_ms = 0);
	assert_int_equal(got.error, ENOENT);
	ASK(0, mon_resize, .id = wire_str("a"), .cols = 1, .rows = 1);
	assert_int_equal(got.error, ENOTTY);
	ASK(0, mon_signal, .id = wire_str("a"), .signal = 65);
	assert_int_equal(got.error, EINVAL);
	ASK(0, mon_signal, .id = wire_str("a"), .signal = 15);
	assert_int_equal(guest.signal, 15);
	paused = true;
	ASK(0, mon_signal, .id = wire_str("a"), .signal = 9);
	assert_int_equal(got.error, ESHUTDOWN);
	assert_int_equal(guest.signal, 15);
	READ(0, "a", 0, .wait_ms = 0); /* what is kept is told all the same */
	assert_int_equal(got.done, 1);
	paused = false;
	ended("a");
	ASK(0, mon_signal, .id = wire_str("a"), .signal = 15);
	assert_int_equal(got.error, ESRCH);
	wire_put_mon_processes(frame, sizeof(frame), 0, 0, &(struct wire_mon_processes){0});
	wire_frame_get(frame, sizeof(frame), &f, NULL);
	assert_int_equal(process_request(&m.clients[0], &f, &why), -EPROTO);
}

static void fails(const char *id, uint32_t error, const char *message)
{
	uint8_t frame[128];

	says(id, frame,
		wire_put_fail(frame, sizeof(frame), 1, 0,
			&(struct wire_fail){.error = error, .message = wire_str(message)}));
}

static void test_what_cannot_be_started(void **state)
{
	spawn(0, "a", 0, 0);
	fails("a", ENOENT, "program /no: No such file or directory");
	assert_int_equal(got.process.state, WIRE_PROCESS_ENDED);
	assert_int_equal(got.process.status, 127);
	READ(0, "a", 0, .wait_ms = 0);
	assert_memory_equal(buffer_bytes(&got.bytes), "sealmark: /no: No such", 22);
	spawn(0, "b", 0, 0);
	fails("b", ENOENT, "working directory /no: No such file or directory");
	assert_int_equal(got.error, ENOENT);
	assert_null(process_find(&m, "b"));
	/* one that has begun and is given up is no success */
	runs("c", 0, 0);
	fails("c", EIO, "program gone");
	READ(0, "c", 0, .wait_ms = UINT64_MAX);
	assert_int_equal(got.process.state, WIRE_PROCESS_LOST);
	/* its spawner went away before it began */
	spawn(0, "d", WIRE_SPAWN_HOLD, 0);
	process_client_gone(&m.clients[0]);
	started("d");
	fails("d", EIO, "x");
	assert_int_equal(m.processes.running, 0);
}

static void test_too_many(void **state)
{
	char id[8];

	for (unsigned i = 0; i < 300; i++) {
		snprintf(id, sizeof(id), "p%u", i);
		runs(id, 0, 0);
		if (i >= PROCESSES_RUNNING - 1)
			ended(id);
		assert_true(m.processes.count <= PROCESSES_MOST);
	}
	ASK(0, mon_processes, .unused_ = 0);
	assert_int_equal(got.listed, PROCESSES_MOST);
	assert_string_equal(got.id, "p299");
	assert_non_null(process_find(&m, "p0")); /* those that run are never forgotten */
	spawn(0, "last", 0, 0);
	assert_int_equal(got.error, 0);
	spawn(0, "more", 0, 0);
	assert_int_equal(got.error, EBUSY);
}

/* --- watches --- */

static void watch(const char *id)
{
	uint8_t request[256];
	int n = wire_put_watch(
		request, sizeof(request), 1, 0, &(struct wire_watch){.path = wire_str("/w")});

	ASK(0, mon_spawn, .id = wire_str(id), .flags = WIRE_SPAWN_WATCH, .about = wire_str("about"),
		.exec = {request + WIRE_HEADER, (uint32_t)n - WIRE_HEADER});
}

static void watched(const char *id)
{
	watch(id);
	started(id);
	assert_int_equal(got.done, 1);
	assert_int_equal(got.process.state, WIRE_PROCESS_RUNNING);
}

static void watch_ends(const char *id)
{
	uint8_t frame[32];

	says(id, frame, wire_put_done(frame, sizeof(frame), 1, 0, &(struct wire_done){0}));
}

static void test_a_watch(void **state)
{
	watched("w");
	assert_int_equal(stream_of("w")->type, WIRE_WATCH);
	prints("w", WIRE_STDOUT, "cf/w/a", 7);
	ASK(0, mon_signal, .id = wire_str("w"), .signal = 15);
	ASK(0, mon_signal, .id = wire_str("w"), .signal = 15);
	assert_int_equal(got.done, 1);
	assert_int_equal(guest.kills, 1);
	assert_int_equal(guest.signal, 0);
	watch_ends("w");
	READ(0, "w", 0, .wait_ms = UINT64_MAX);
	assert_memory_equal(buffer_bytes(&got.bytes), "cf/w/a", 7);
	assert_int_equal(got.process.state, WIRE_PROCESS_ENDED);
	/* an EXEC is none */
	ASK(0, mon_spawn, .id = wire_str("x"), .flags = WIRE_SPAWN_WATCH, .about = wire_str(""),
		.exec = {(const uint8_t *)"", 0});
	assert_int_equal(got.error, EINVAL);
	/* over before it stood */
	watch("y");
	watch_ends("y");
	assert_int_equal(got.done, 1);
}

static void test_too_many_watches(void **state)
{
	char id[8];

	for (unsigned i = 0; i < WIRE_WATCHES_MOST; i++) {
		snprintf(id, sizeof(id), "w%u", i);
		watched(id);
	}
	watch("more");
	assert_int_equal(got.error, EBUSY);
	watch_ends("w3");
	watched("more");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_output),
		T(test_waiting),
		T(test_old_output_is_dropped),
		T(test_a_flood_of_single_bytes_of_many),
		T(test_a_held_one_waits_for_its_reader),
		T(test_input_by_offsets),
		T(test_input_that_is_not_read),
		T(test_requests_that_are_refused),
		T(test_what_cannot_be_started),
		T(test_too_many),
		T(test_a_watch),
		T(test_too_many_watches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
