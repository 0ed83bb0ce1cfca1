/* SPDX-License-Identifier: Apache-2.0 - unit tests of base/buffer.h. */
#include "base/buffer.h"

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void starts_empty(void **state)
{
	struct buffer b = {0};

	assert_int_equal(buffer_length(&b), 0);
	assert_null(buffer_bytes(&b));
	buffer_consume(&b, 10);
	buffer_clear(&b);
	assert_int_equal(buffer_add(&b, NULL, 0), 0);
	assert_string_equal(buffer_text(&b), "");
	buffer_fini(&b);
	buffer_fini(&b);
	buffer_fini(NULL);
}

static void keeps_order_while_it_is_consumed(void **state)
{
	struct buffer b = {0};
	uint8_t put = 0, got = 0;

	/* grows, moves down and wraps the byte's value many times */
	for (int i = 0; i < 5000; i++) {
		for (int k = 0; k < i % 37; k++, put++)
			assert_int_equal(buffer_add(&b, &put, 1), 0);
		for (int k = 0; k < i % 31 && buffer_length(&b); k++, got++) {
			assert_int_equal(*buffer_bytes(&b), got);
			buffer_consume(&b, 1);
		}
	}
	while (buffer_length(&b)) {
		assert_int_equal(*buffer_bytes(&b), got++);
		buffer_consume(&b, 1);
	}
	assert_int_equal(put, got);
	buffer_fini(&b);
}

/* A queue that never empties stays as large as its contents ask for. */
static void does_not_grow_without_need(void **state)
{
	struct buffer b = {0};
	char bytes[100] = {0};

	for (int i = 0; i < 100000; i++) {
		assert_int_equal(buffer_add(&b, bytes, sizeof(bytes)), 0);
		if (i >= 10)
			buffer_consume(&b, sizeof(bytes));
	}
	assert_int_equal(buffer_length(&b), 1000);
	assert_true(b.capacity <= 8192);
	buffer_fini(&b);
}

static void holds_its_limit(void **state)
{
	struct buffer b;

	buffer_init(&b, 10);
	assert_int_equal(buffer_add(&b, "0123456789", 10), 0);
	assert_int_equal(buffer_add(&b, "x", 1), -ENOBUFS);
	assert_int_equal(buffer_printf(&b, "%d", 1), -ENOBUFS);
	assert_null(buffer_reserve(&b, 1));
	assert_string_equal(buffer_text(&b), "0123456789"); /* nothing was added */
	buffer_consume(&b, 4);
	assert_int_equal(buffer_add(&b, "abcd", 4), 0);
	assert_int_equal(buffer_add(&b, "x", 1), -ENOBUFS);
	assert_string_equal(buffer_text(&b), "456789abcd");
	buffer_clear(&b);
	assert_int_equal(buffer_add(&b, "01234567890", 11), -ENOBUFS);
	buffer_fini(&b);
	assert_int_equal(b.limit, 10);
}

static void refuses_absurd_sizes(void **state)
{
	struct buffer b = {0};

	assert_int_equal(buffer_add(&b, "", SIZE_MAX), -ENOMEM);
	assert_null(buffer_reserve(&b, SIZE_MAX / 2));
	assert_int_equal(buffer_length(&b), 0);
	buffer_fini(&b);
}

static void prints_and_reserves(void **state)
{
	struct buffer b = {0};
	uint8_t *room;

	assert_int_equal(buffer_add_text(&b, "a"), 0);
	assert_int_equal(buffer_printf(&b, "%s-%d", "b", 5), 0);
	room = buffer_reserve(&b, 3000);
	assert_non_null(room);
	memset(room, 'c', 3000);
	buffer_commit(&b, 2);
	assert_string_equal(buffer_text(&b), "ab-5cc");
	/* longer than anything allocated so far */
	assert_int_equal(buffer_printf(&b, "%5000s", "x"), 0);
	assert_int_equal(buffer_length(&b), 5006);
	buffer_fini(&b);
}

static void hands_its_text_over(void **state)
{
	struct buffer b = {0};
	char *text;

	buffer_add_text(&b, "some text");
	buffer_consume(&b, 5);
	text = buffer_steal(&b);
	assert_string_equal(text, "text");
	free(text);
	assert_int_equal(buffer_length(&b), 0);
	text = buffer_steal(&b);
	assert_string_equal(text, "");
	free(text);
	buffer_add_text(&b, "again");
	assert_string_equal(buffer_text(&b), "again");
	buffer_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_empty),
		cmocka_unit_test(keeps_order_while_it_is_consumed),
		cmocka_unit_test(does_not_grow_without_need),
		cmocka_unit_test(holds_its_limit),
		cmocka_unit_test(refuses_absurd_sizes),
		cmocka_unit_test(prints_and_reserves),
		cmocka_unit_test(hands_its_text_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
