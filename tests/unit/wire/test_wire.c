/* SPDX-License-Identifier: Apache-2.0 - unit tests of wire/wire.h: frames and messages. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint8_t frame[WIRE_FRAME_MAX];

/* The bytes of a frame are a contract with guests of other versions: drawn out once. */
static void has_this_form(void **state)
{
	static const uint8_t want[] = {/* length 16, type 0x0006, channel 2, stream 0x01020304 */
		16, 0, 0, 0, 6, 0, 2, 0, 4, 3, 2, 1,
		/* error 2 */
		2, 0, 0, 0,
		/* "no file": its length, its bytes, a terminator (not counted) */
		7, 0, 0, 0, 'n', 'o', ' ', 'f', 'i', 'l', 'e', 0, 0xcc};
	struct wire_fail m = {.error = 2, .message = wire_str("no file")};
	int n;

	memset(frame, 0xcc, sizeof(want));
	n = wire_put_fail(frame, sizeof(frame), 0x01020304, 2, &m);
	assert_int_equal(n, WIRE_HEADER + 4 + 4 + 8);
	assert_memory_equal(frame, want, sizeof(want));
}

static void carries_an_exec(void **state)
{
	const char *argv[] = {"sh", "-c", "", "echo \xff"}, *env[] = {"A=1"};
	struct wire_exec m = {.flags = 5,
		.uid = 1000,
		.gid = 1001,
		.cpu_us = UINT64_MAX,
		.wall_us = 1,
		.memory_bytes = UINT64_C(1) << 40,
		.processes = 64,
		.cwd = wire_str("/work"),
		.argv = {.list = argv, .count = 4},
		.env = {.list = env, .count = 1}};
	struct wire_exec got;
	struct wire_frame f;
	uint32_t at = 0;
	int n = wire_put_exec(frame, sizeof(frame), 9, 0, &m);

	assert_true(n > 0);
	assert_int_equal(wire_frame_get(frame, (size_t)n, &f, NULL), n);
	assert_int_equal(f.type, WIRE_EXEC);
	assert_int_equal(f.stream, 9);
	assert_int_equal(wire_check(&f), 0);
	assert_int_equal(wire_get_exec(f.payload, f.length, &got), 0);
	assert_int_equal(got.flags, 5);
	assert_int_equal(got.uid, 1000);
	assert_int_equal(got.gid, 1001);
	assert_true(got.cpu_us == UINT64_MAX && got.wall_us == 1);
	assert_true(got.memory_bytes == UINT64_C(1) << 40);
	assert_string_equal(got.cwd.text, "/work");
	assert_int_equal(got.argv.count, 4);
	for (int i = 0; i < 4; i++)
		assert_string_equal(wire_strs_next(&got.argv, &at), argv[i]);
	assert_null(wire_strs_next(&got.argv, &at));
	at = 0;
	assert_string_equal(wire_strs_next(&got.env, &at), "A=1");
	assert_null(wire_strs_next(&got.env, &at));
}

static void encodes_absent_strings_as_empty(void **state)
{
	struct wire_entry m = {.path = {NULL, 7}, .mtime_ns = INT64_MIN}, got;
	int n = wire_put_entry(frame, sizeof(frame), 1, 0, &m);

	assert_int_equal(wire_get_entry(frame + WIRE_HEADER, (uint32_t)n - WIRE_HEADER, &got), 0);
	assert_string_equal(got.path.text, "");
	assert_int_equal(got.path.count, 0);
	assert_true(got.mtime_ns == INT64_MIN);
}

/* Each message of the table: all zero there and back, and no prefix or extension passes for it. */
static void takes_exactly_the_message(void **state)
{
	unsigned messages = 0;

#define M(NAME, name, number, direction)                                                           \
	{                                                                                          \
		struct wire_##name m, got;                                                         \
		uint8_t *exact;                                                                    \
		int n, payload;                                                                    \
                                                                                                   \
		memset(&m, 0, sizeof(m));                                                          \
		n = wire_put_##name(frame, sizeof(frame), 3, 1, &m);                               \
		payload = n - (int)WIRE_HEADER;                                                    \
		assert_true(payload >= 0);                                                         \
		assert_int_equal(wire_put_##name(frame, (size_t)n, 3, 1, &m), n);                  \
		if (payload)                                                                       \
			assert_int_equal(                                                          \
				wire_put_##name(frame, (size_t)n - 1, 3, 1, &m), -EMSGSIZE);       \
		for (int cut = 0; cut <= payload; cut++) {                                         \
			exact = malloc((size_t)cut + 1); /* so that ASan sees a byte too many */   \
			assert_non_null(exact);                                                    \
			memcpy(exact, frame + WIRE_HEADER, (size_t)cut);                           \
			assert_int_equal(wire_get_##name(exact, (uint32_t)cut, &got),              \
				cut == payload ? 0 : -EPROTO);                                     \
			free(exact);                                                               \
		}                                                                                  \
		frame[n] = 0;                                                                      \
		assert_int_equal(                                                                  \
			wire_get_##name(frame + WIRE_HEADER, (uint32_t)payload + 1, &got),         \
			-EPROTO);                                                                  \
		assert_string_equal(wire_type_name(number), #NAME);                                \
		assert_true(wire_type_direction(number) != 0);                                     \
		messages++;                                                                        \
	}
	WIRE_MESSAGES(M)
#undef M
	assert_true(messages > 30);
}

static void waits_for_whole_frames(void **state)
{
	struct wire_ping m = {.token = 7};
	struct wire_frame f;
	size_t need;
	int n = wire_put_ping(frame, sizeof(frame), 5, 0, &m);

	for (int i = 0; i < n; i++) {
		assert_int_equal(wire_frame_get(frame, (size_t)i, &f, &need), 0);
		assert_int_equal(need, i < (int)WIRE_HEADER ? (int)WIRE_HEADER : n);
	}
	/* what follows is the next frame's */
	frame[n] = 0xff;
	assert_int_equal(wire_frame_get(frame, (size_t)n + 1, &f, &need), n);
	assert_ptr_equal(f.payload, frame + WIRE_HEADER);
}

static void refuses_wrong_headers(void **state)
{
	struct wire_frame f;

	/* before the payload is there, or anything would be buffered for it */
	wire_header_put(frame, WIRE_PAYLOAD_MAX, WIRE_DATA, 0, 1);
	assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), 0);
	wire_header_put(frame, WIRE_PAYLOAD_MAX + 1, WIRE_DATA, 0, 1);
	assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), -EPROTO);
	wire_header_put(frame, UINT32_MAX, WIRE_DATA, 0, 1);
	assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), -EPROTO);
	wire_header_put(frame, 0, WIRE_DATA, WIRE_CHANNELS - 1, 1);
	assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), WIRE_HEADER);
	wire_header_put(frame, 0, WIRE_DATA, WIRE_CHANNELS, 1);
	assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), -EPROTO);
	static const uint16_t unknown[] = {0, 0x0c, 0x15, 0xff, 0x1ff, 0xffff};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		wire_header_put(frame, 0, (enum wire_type)unknown[i], 0, 1);
		assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), -EPROTO);
		assert_null(wire_type_name(unknown[i]));
		assert_int_equal(wire_type_direction(unknown[i]), 0);
	}
}

static int check_payload(uint16_t type, const void *payload, uint32_t length)
{
	struct wire_frame f = {.type = type, .length = length, .payload = payload};

	return wire_check(&f);
}

static void refuses_wrong_strings(void **state)
{
	static const uint8_t no_end[] = {1, 0, 0, 0, 2, 0, 0, 0, 'a', 'b', 'c'};
	static const uint8_t inner_zero[] = {1, 0, 0, 0, 3, 0, 0, 0, 'a', 0, 'c', 0};
	static const uint8_t too_long[] = {1, 0, 0, 0, 4, 0, 0, 0, 'a', 'b', 'c', 0};
	static const uint8_t huge[] = {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'a', 0};
	static const uint8_t good[] = {1, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c', 0};
	static const uint8_t blob[] = {0xff, 0xff, 0xff, 0xff, 1, 2};

	assert_int_equal(check_payload(WIRE_FAIL, good, sizeof(good)), 0);
	assert_int_equal(check_payload(WIRE_FAIL, no_end, sizeof(no_end)), -EPROTO);
	assert_int_equal(check_payload(WIRE_FAIL, inner_zero, sizeof(inner_zero)), -EPROTO);
	assert_int_equal(check_payload(WIRE_FAIL, too_long, sizeof(too_long)), -EPROTO);
	assert_int_equal(check_payload(WIRE_FAIL, huge, sizeof(huge)), -EPROTO);
	assert_int_equal(check_payload(WIRE_ENTROPY, blob, sizeof(blob)), -EPROTO);
	assert_int_equal(check_payload(WIRE_DATA, huge, sizeof(huge)), 0); /* any bytes */
	assert_int_equal(check_payload(0x0c, NULL, 0), -EPROTO);
}

/* A list may claim many strings only if they are there. */
static void bounds_lists(void **state)
{
	static const char *list[WIRE_STRINGS_MAX + 1];
	struct wire_exec m = {.argv = {.list = list, .count = WIRE_STRINGS_MAX}}, got;
	int n;

	for (size_t i = 0; i < WIRE_STRINGS_MAX + 1; i++)
		list[i] = "";
	n = wire_put_exec(frame, sizeof(frame), 1, 0, &m);
	assert_true(n > 0);
	assert_int_equal(wire_get_exec(frame + WIRE_HEADER, (uint32_t)n - WIRE_HEADER, &got), 0);
	assert_int_equal(got.argv.count, WIRE_STRINGS_MAX);
	m.argv.count = WIRE_STRINGS_MAX + 1;
	n = wire_put_exec(frame, sizeof(frame), 1, 0, &m);
	assert_true(n > 0);
	assert_int_equal(
		wire_get_exec(frame + WIRE_HEADER, (uint32_t)n - WIRE_HEADER, &got), -EPROTO);
}

static void refuses_what_does_not_fit(void **state)
{
	char *text = malloc(WIRE_PAYLOAD_MAX + 1);
	struct wire_fail m = {.message = {text, WIRE_PAYLOAD_MAX - 9}};

	assert_non_null(text);
	memset(text, 'a', WIRE_PAYLOAD_MAX + 1);
	assert_int_equal(wire_put_fail(frame, sizeof(frame), 1, 0, &m), WIRE_FRAME_MAX);
	m.message.count++;
	assert_int_equal(wire_put_fail(frame, sizeof(frame), 1, 0, &m), -EMSGSIZE);
	/* the limit is the frame's, however large the buffer is */
	assert_int_equal(wire_put_fail(frame, SIZE_MAX, 1, 0, &m), -EMSGSIZE);
	for (size_t size = 0; size < WIRE_HEADER; size++)
		assert_int_equal(wire_put_end(frame, size, 1, 0, &(struct wire_end){0}), -EMSGSIZE);
	free(text);
}

static void sorts_messages(void **state)
{
	struct wire_frame f;

	assert_true(wire_is_request(WIRE_EXEC) && wire_is_request(WIRE_FILE_CHOWN) &&
		    wire_is_request(WIRE_TAR_OUT) && wire_is_request(WIRE_PING));
	assert_false(wire_is_request(WIRE_ENTRY) || wire_is_request(WIRE_KILL) ||
		     wire_is_request(WIRE_DATA) || wire_is_request(WIRE_SHUTDOWN));
	assert_true(wire_is_final(WIRE_EXIT) && wire_is_final(WIRE_DONE) &&
		    wire_is_final(WIRE_FAIL) && wire_is_final(WIRE_PONG));
	assert_false(wire_is_final(WIRE_STARTED) || wire_is_final(WIRE_ENTRY) ||
		     wire_is_final(WIRE_END));
	/* no message both opens and ends a stream, and a request never comes from a guest */
	for (uint16_t type = 0; type < 0x200; type++) {
		assert_false(wire_is_request(type) && wire_is_final(type));
		if (wire_is_request(type))
			assert_int_equal(wire_type_direction(type), WIRE_TO_GUEST);
	}
	assert_string_equal(wire_end_name(WIRE_END_WALL_LIMIT), "wall limit");
	for (uint32_t i = 0; i < WIRE_END_COUNT; i++)
		assert_true(strlen(wire_end_name(i)) > 3);
	assert_string_equal(wire_end_name(WIRE_END_COUNT), "?");
	assert_string_equal(wire_end_name(UINT32_MAX), "?");
	wire_header_put(frame, 0, WIRE_END, 2, 5);
	wire_stream_set(frame, 0xfedcba98);
	assert_int_equal(wire_frame_get(frame, WIRE_HEADER, &f, NULL), WIRE_HEADER);
	assert_true(f.stream == 0xfedcba98 && f.type == WIRE_END && f.channel == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_this_form),
		cmocka_unit_test(carries_an_exec),
		cmocka_unit_test(encodes_absent_strings_as_empty),
		cmocka_unit_test(takes_exactly_the_message),
		cmocka_unit_test(waits_for_whole_frames),
		cmocka_unit_test(refuses_wrong_headers),
		cmocka_unit_test(refuses_wrong_strings),
		cmocka_unit_test(bounds_lists),
		cmocka_unit_test(refuses_what_does_not_fit),
		cmocka_unit_test(sorts_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
