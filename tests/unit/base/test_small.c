/* SPDX-License-Identifier: Apache-2.0 - unit tests of base/clock.h, id.h, hash.h and log.h. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void counts_deadlines(void **state)
{
	int64_t before = clock_ms(), us = clock_us(), soon = clock_deadline_ms(5000);

	assert_true(us / 1000 >= before && clock_us() >= us);
	assert_true(soon >= before + 5000 && soon <= clock_ms() + 5000);
	assert_in_range(clock_poll_ms(soon), 1, 5000);
	assert_int_equal(clock_poll_ms(clock_ms() - 1), 0);
	assert_int_equal(clock_poll_ms(INT64_MIN), 0);
	assert_true(clock_deadline_ms(-1) == CLOCK_NEVER);
	assert_int_equal(clock_poll_ms(CLOCK_NEVER), -1);
	/* far away is far away, not a minute ago */
	assert_true(clock_deadline_ms(INT64_MAX) == CLOCK_NEVER);
	assert_true(clock_deadline_ms(INT64_MAX - 1) == CLOCK_NEVER);
	assert_int_equal(clock_poll_ms(CLOCK_NEVER - 1), INT_MAX);
}

static void stamps_in_utc(void **state)
{
	static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ";
	char stamp[CLOCK_STAMP_SIZE];

	clock_stamp(stamp);
	assert_int_equal(strlen(stamp), strlen(shape));
	for (size_t i = 0; shape[i]; i++) {
		if (shape[i] == 'd')
			assert_in_range(stamp[i], '0', '9');
		else
			assert_int_equal(stamp[i], shape[i]);
	}
}

static void makes_ids(void **state)
{
	uint8_t bytes[3] = {0x00, 0xab, 0x9f};
	char hex[7], a[ID_SIZE], b[ID_SIZE];

	id_hex(hex, bytes, sizeof(bytes));
	assert_string_equal(hex, "00ab9f");
	id_hex(hex, bytes, 0);
	assert_string_equal(hex, "");
	id_uuid(a);
	id_uuid(b);
	assert_string_not_equal(a, b);
	for (int i = 0; i < 100; i++) {
		id_uuid(a);
		assert_int_equal(strlen(a), 36);
		assert_int_equal(strspn(a, "0123456789abcdef-"), 36);
		assert_true(a[8] == '-' && a[13] == '-' && a[18] == '-' && a[23] == '-');
		assert_int_equal(a[14], '4');
		assert_non_null(strchr("89ab", a[19]));
		assert_true(id_is_like(a));
	}
	a[35] = 0;
	assert_false(id_is_like(a));
	assert_false(id_is_like(""));
	assert_false(id_is_like("../../../../../../../../../../etc/pw"));
	assert_false(id_is_like("0A000000-0000-4000-8000-000000000000"));
	assert_false(id_is_like("00000000-0000-4000-8000-0000000000000"));
}

static void hashes_known_vectors(void **state)
{
	char out[HASH_HEX_SIZE], other[HASH_HEX_SIZE];
	struct hash *h = hash_new();

	hash_bytes("", 0, out);
	assert_string_equal(
		out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	hash_bytes("abc", 3, out);
	assert_string_equal(
		out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	hash_add(h, "a", 1);
	hash_add(h, "bc", 2);
	hash_end(h, other);
	hash_free(h);
	assert_string_equal(out, other);
	/* RFC 4231, test case 2 */
	hash_hmac("Jefe", 4, "what do ya want for nothing?", 28, out);
	assert_string_equal(
		out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	hash_free(NULL);
}

static void keeps_hashed_fields_apart(void **state)
{
	static const char *const parts[2][2] = {{"ab", "c"}, {"a", "bc"}};
	char out[2][HASH_HEX_SIZE];

	for (int i = 0; i < 2; i++) {
		struct hash *h = hash_new();

		hash_add_field(h, parts[i][0], strlen(parts[i][0]));
		hash_add_field(h, parts[i][1], strlen(parts[i][1]));
		hash_end(h, out[i]);
		hash_free(h);
	}
	assert_string_not_equal(out[0], out[1]);
}

static void hashes_whole_files(void **state)
{
	char out[HASH_HEX_SIZE];
	int fd = memfd_create("x", MFD_CLOEXEC), pair[2];

	assert_int_equal(write(fd, "abc", 3), 3); /* the offset is not at the start now */
	assert_int_equal(hash_fd(fd, out), 0);
	assert_string_equal(
		out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_int_equal(ftruncate(fd, 1000000), 0); /* more than one read */
	assert_int_equal(pwrite(fd, "\0\0\0", 3, 0), 3);
	assert_int_equal(hash_fd(fd, out), 0);
	assert_string_equal(
		out, "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025");
	close(fd);
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(hash_fd(pair[0], out), -ESPIPE);
	close(pair[0]);
	close(pair[1]);
}

/* What a call writes to standard error. */
static const char *logged(void (*call)(void))
{
	static char out[8192];
	int pair[2], saved = dup(2);
	ssize_t n;

	assert_int_equal(pipe2(pair, O_NONBLOCK), 0);
	assert_int_equal(dup2(pair[1], 2), 2);
	call();
	assert_int_equal(dup2(saved, 2), 2);
	n = read(pair[0], out, sizeof(out) - 1);
	out[n > 0 ? n : 0] = 0;
	close(pair[0]);
	close(pair[1]);
	close(saved);
	return out;
}

static void log_all(void)
{
	log_error("e %d", 1);
	log_warning("w");
	log_info("i");
	log_debug("d");
}

static void log_hostile(void)
{
	log_error("name \x1b[2J\nsealmark: forged line\xff");
}

static void log_long(void)
{
	char text[5000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	log_error("%s", text);
}

static void logs_up_to_the_level(void **state)
{
	const char *out;

	assert_int_equal(log_highest(), LOG_LEVEL_WARNING);
	assert_string_equal(logged(log_all), "sealmark: e 1\nsealmark: warning: w\n");
	log_setup("test", LOG_LEVEL_DEBUG);
	assert_string_equal(
		logged(log_all), "test: e 1\ntest: warning: w\ntest: i\ntest: debug: d\n");
	log_setup("test", LOG_LEVEL_ERROR);
	assert_string_equal(logged(log_all), "test: e 1\n");
	/* one line stays one line, whatever is in it */
	out = logged(log_hostile);
	assert_string_equal(out, "test: name \\x1b[2J\\x0asealmark: forged line\xef\xbf\xbd\n");
	out = logged(log_long);
	assert_in_range(strlen(out), 2000, 2100);
	assert_int_equal(out[strlen(out) - 1], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_deadlines),
		cmocka_unit_test(stamps_in_utc),
		cmocka_unit_test(makes_ids),
		cmocka_unit_test(hashes_known_vectors),
		cmocka_unit_test(keeps_hashed_fields_apart),
		cmocka_unit_test(hashes_whole_files),
		cmocka_unit_test(logs_up_to_the_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
