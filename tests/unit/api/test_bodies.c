/* SPDX-License-Identifier: Apache-2.0 - what bodies may take together, and values of JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/internal.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void documents_have_few_values(void **state)
{
	static const char escaped[] = "{\"a\":\"\\\",,,,\\\\\"}", open_text[] = "{\"a\":\"\\";
	char *lists = malloc(4u << 20);

	assert_non_null(lists);
	assert_true(body_is_modest("", 0));
	assert_true(body_is_modest(escaped, strlen(escaped)));
	assert_true(body_is_modest(open_text, strlen(open_text)));
	memset(lists, ',', 4u << 20);
	assert_false(body_is_modest(lists, 4u << 20));
	assert_false(body_is_modest(lists, 65537));
	assert_true(body_is_modest(lists, 65536));
	lists[0] = '"'; /* a long text is one value */
	assert_true(body_is_modest(lists, 4u << 20));
	for (size_t i = 0; i < 4u << 20; i++)
		lists[i] = "[],"[i % 3];
	assert_false(body_is_modest(lists, 4u << 20));
	free(lists);
}

static struct request *begin(struct api_server *server, const char *key)
{
	struct request *q = calloc(1, sizeof(*q));

	assert_non_null(q);
	q->server = server;
	text_copy(q->key.id, sizeof(q->key.id), key);
	return q;
}

static void end(struct request *q)
{
	body_done(q);
	free(q);
}

/* 4 MiB each: of one key as many as are at work at once, and twice as many in all */
static void large_bodies_have_a_share(void **state)
{
	const uint64_t most = 4u << 20;
	struct api_server server = {.stopping = false};
	struct request *first[128], *second[128], *q;

	pthread_mutex_init(&server.lock, NULL);
	for (size_t i = 0; i < 128; i++) {
		first[i] = begin(&server, "a");
		assert_true(body_grows(first[i], 65536, most));
		assert_true(body_grows(first[i], 65537, most));
		assert_true(body_grows(first[i], most, most)); /* it has it all */
	}
	q = begin(&server, "a");
	assert_true(body_grows(q, 65536, most));
	assert_false(body_grows(q, 65537, most));
	end(q);
	for (size_t i = 0; i < 128; i++) {
		second[i] = begin(&server, "b");
		assert_true(body_grows(second[i], 100000, most));
	}
	q = begin(&server, "c");
	assert_false(body_grows(q, 100000, most));
	end(first[64]); /* from between others */
	assert_true(body_grows(q, 100000, most));
	end(q);
	for (size_t i = 0; i < 128; i++) {
		if (i != 64)
			end(first[i]);
		end(second[i]);
	}
	assert_null(server.bodies);
	pthread_mutex_destroy(&server.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_have_few_values),
		cmocka_unit_test(large_bodies_have_a_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
