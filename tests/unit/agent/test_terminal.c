/* SPDX-License-Identifier: Apache-2.0 - commands with a terminal of their own. */
#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct client client;

static int setup(void **state)
{
	*state = &client;
	client_start(&client);
	return 0;
}

static int teardown(void **state)
{
	client_stop(*state, 0);
	return 0;
}

#define TERMINAL(flags_)                                                                           \
	(struct exec_options)                                                                      \
	{                                                                                          \
		.flags = WIRE_EXEC_TERMINAL | (flags_), .cols = 100, .rows = 30                    \
	}

/* DATA until `wanted` was printed */
static void read_until(struct client *c, uint32_t id, const char *wanted)
{
	struct buffer seen = {0};
	struct wire_frame f;

	do {
		client_frame(c, &f);
		assert_int_equal(f.stream, id);
		assert_true(f.type == WIRE_DATA || f.type == WIRE_STARTED);
		if (f.type == WIRE_DATA)
			assert_int_equal(buffer_add(&seen, f.payload, f.length), 0);
	} while (!strstr(buffer_text(&seen), wanted));
	buffer_fini(&seen);
}

static const char *text(struct outcome *o)
{
	return buffer_text(&o->bytes[WIRE_STDOUT]);
}

#define assert_exited(o, code)                                                                     \
	do {                                                                                       \
		assert_int_equal((o)->type, WIRE_EXIT);                                            \
		assert_int_equal((o)->exit.reason, WIRE_END_EXITED);                               \
		assert_int_equal((o)->exit.status, code);                                          \
	} while (0)

static void gives_one_that_is_its_own(void **state)
{
	struct outcome o = {0};

	client_finish(*state,
		client_shell(*state,
			"stty size; for i in 0 1 2; do test -t $i || echo not $i; done; "
			"echo err >&2; : </dev/tty && echo own; exit 3",
			TERMINAL(WIRE_EXEC_STDIN)),
		&o);
	assert_exited(&o, 3);
	assert_string_equal(text(&o), "30 100\r\nerr\r\nown\r\n");
	outcome_fini(&o);
}

static void changes_its_size(void **state)
{
	struct client *c = *state;
	struct outcome o = {0};
	uint32_t id = client_shell(c,
		"trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.01; done",
		TERMINAL(WIRE_EXEC_STDIN));

	read_until(c, id, "ready\r\n");
	client_send(c, wire_put_resize(c->out, sizeof(c->out), id, 0,
			       &(struct wire_resize){.cols = 90, .rows = 1000000}));
	client_finish(c, id, &o);
	assert_exited(&o, 5);
	assert_string_equal(text(&o), "65535 90\r\n");
	outcome_fini(&o);
}

static void takes_what_is_typed(void **state)
{
	struct client *c = *state;
	struct outcome o = {0};
	uint32_t id = client_shell(c, "cat", TERMINAL(WIRE_EXEC_STDIN));

	client_data(c, id, "a line\n", 7);
	client_end(c, id); /* at the begin of a line: the end of its input */
	client_finish(c, id, &o);
	assert_exited(&o, 0);
	assert_string_equal(text(&o), "a line\r\na line\r\n");
	outcome_fini(&o);
}

static void interrupts(void **state)
{
	struct client *c = *state;
	struct outcome o = {0};
	uint32_t id = client_shell(c, "echo ready; exec sleep 1000", TERMINAL(WIRE_EXEC_STDIN));

	read_until(c, id, "ready\r\n");
	client_data(c, id, "\003", 1);
	client_finish(c, id, &o);
	assert_int_equal(o.exit.reason, WIRE_END_SIGNALED);
	assert_int_equal(o.exit.status, SIGINT);
	outcome_fini(&o);
}

/* the agent once closed its end as soon as nobody had the other open, and so hung programs up
 * while they were exiting */
static void does_not_hang_up_who_has_closed_it(void **state)
{
	struct outcome o = {0};

	client_finish(*state,
		client_shell(*state, "exec 0<&- 1>&- 2>&-; sleep 0.1; echo again >/dev/tty; exit 6",
			TERMINAL(WIRE_EXEC_STDIN)),
		&o);
	assert_exited(&o, 6);
	assert_string_equal(text(&o), "again\r\n");
	outcome_fini(&o);
}

static void has_all_that_was_printed_at_the_end(void **state)
{
	struct outcome o = {0};

	client_finish(*state,
		client_shell(*state,
			"i=0; while [ $i -lt 20000 ]; do echo 0123456789; "
			"i=$((i+1)); done",
			TERMINAL(0)),
		&o);
	assert_exited(&o, 0);
	assert_int_equal(strlen(text(&o)), 20000 * 12);
	outcome_fini(&o);
}

static void ignores_a_size_for_what_has_none(void **state)
{
	struct client *c = *state;
	struct outcome o = {0};
	uint32_t id = client_shell(c, "cat", (struct exec_options){.flags = WIRE_EXEC_STDIN});

	for (uint32_t i = 0; i < 2; i++)
		client_send(c, wire_put_resize(c->out, sizeof(c->out), id + i, 0,
				       &(struct wire_resize){.cols = 1, .rows = 1}));
	client_end(c, id);
	client_finish(c, id, &o);
	assert_exited(&o, 0);
	outcome_fini(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_one_that_is_its_own),
		cmocka_unit_test(changes_its_size),
		cmocka_unit_test(takes_what_is_typed),
		cmocka_unit_test(interrupts),
		cmocka_unit_test(does_not_hang_up_who_has_closed_it),
		cmocka_unit_test(has_all_that_was_printed_at_the_end),
		cmocka_unit_test(ignores_a_size_for_what_has_none),
	};

	return cmocka_run_group_tests_name("agent terminal", tests, setup, teardown);
}
