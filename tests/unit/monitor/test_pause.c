/* SPDX-License-Identifier: Apache-2.0 - sandboxes that are paused: asked to, by themselves, and
 * what ends it. */
#include "monitor.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 60000

static char id[ID_SIZE];
static struct home *home;

static int setup(void **state)
{
	int r = home_setup(state);

	id_uuid(id);
	home = *state;
	return r;
}

static struct sandbox *create(const char *script)
{
	struct sandbox_spec spec = {.home = home->path,
		.engine = "fake",
		.script = home_script(home, script),
		.require_isolation = "none",
		.lease_ms = LONG_MS,
		.cpu = -1,
		.detached = true,
		.id = id};
	struct sandbox *s;
	struct error err = {0};

	if (sandbox_create(&spec, &s, &err))
		fail_msg("%s", err.message);
	return s;
}

static void set_rules(struct sandbox *s, struct sandbox_rules rules)
{
	struct error err = {0};

	rules.lease_ms = rules.lease_ms ? rules.lease_ms : LONG_MS;
	rules.paused_ms = rules.paused_ms ? rules.paused_ms : LONG_MS;
	if (sandbox_rules(s, &rules, &err))
		fail_msg("%s", err.message);
}

static bool is_paused(void)
{
	int64_t since, until;
	int r = sandbox_look_paused(home->path, id, &since, &until);

	if (r)
		assert_true(until > since && since > 0);
	return r == 1;
}

static void wait_paused(bool wanted)
{
	int64_t deadline = clock_deadline_ms(60000);

	while (is_paused() != wanted) {
		assert_true(clock_ms() < deadline);
		poll(NULL, 0, 2);
	}
}

static int run(struct sandbox *s, int64_t wall_ms, struct exec_result *result)
{
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct error err = {0};

	spec.argv = (const char *const[]){"x", NULL};
	spec.wall_ms = wall_ms;
	return sandbox_exec(s, &spec, result, &err);
}

static void end(struct sandbox *s, enum sandbox_stop_reason reason)
{
	struct sandbox_end how;

	sandbox_free(s);
	home_wait_for_all();
	assert_false(is_paused());
	assert_int_equal(sandbox_look(home->path, id, &how, NULL), 0);
	assert_int_equal(how.reason, reason);
	sandbox_forget(home->path, id);
}

/* the state letter of the machine's own process */
static char machine_state(void)
{
	char path[64], line[512];
	pid_t keeper, children[8], machine[2];
	size_t n;
	char state = '?';
	FILE *f;

	/* this process adopts the keeper; its children are the machine's pid 1 and the monitor */
	assert_int_equal(home_children(getpid(), &keeper, 1), 1);
	n = home_children(keeper, children, 8);
	for (size_t i = 0; i < n; i++) {
		if (home_children(children[i], machine, 2) != 1)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)machine[0]);
		f = fopen(path, "r");
		assert_non_null(f);
		assert_non_null(fgets(line, sizeof(line), f));
		fclose(f);
		state = strrchr(line, ')')[2];
	}
	return state;
}

static void it_stops_and_goes_on(void **state)
{
	struct sandbox *s = create("exec * stdout \"42\"\n");
	struct sandbox_state now;
	struct exec_result result = {0};

	(void)state;
	set_rules(s, (struct sandbox_rules){0});
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sandbox_pause(s, NULL), 0);
		assert_true(is_paused());
		assert_int_equal(machine_state(), 'T');
		assert_int_equal(sandbox_pause(s, NULL), 0); /* again is the same */
		assert_int_equal(sandbox_state(s, &now, NULL), 0);
		assert_true(now.paused && !now.busy);
		/* nothing runs on it, nor wakes it */
		assert_int_equal(run(s, 0, &result), -ESHUTDOWN);
		assert_true(is_paused());
		assert_int_equal(sandbox_wake(s, 0, NULL), 0);
		assert_false(is_paused());
		assert_int_not_equal(machine_state(), 'T');
		assert_int_equal(sandbox_wake(s, 0, NULL), 0);
		assert_int_equal(run(s, 0, &result), 0);
		assert_int_equal(buffer_length(&result.out), 2);
		exec_result_fini(&result);
	}
	sandbox_stop(s, NULL, NULL);
	end(s, SANDBOX_STOPPED_REQUESTED);
}

static void a_request_wakes_it(void **state)
{
	struct sandbox *s = create("");
	struct exec_result result = {0};

	(void)state;
	set_rules(s, (struct sandbox_rules){.auto_wake = true});
	assert_int_equal(sandbox_pause(s, NULL), 0);
	assert_int_equal(run(s, 0, &result), 0);
	assert_false(is_paused());
	exec_result_fini(&result);
	sandbox_stop(s, NULL, NULL);
	end(s, SANDBOX_STOPPED_REQUESTED);
}

static void it_pauses_when_idle(void **state)
{
	struct sandbox *s = create("exec * delay 300\n");
	struct exec_result result = {0};
	struct sandbox_state now;

	(void)state;
	set_rules(s, (struct sandbox_rules){.auto_wake = true, .idle_ms = 50});
	wait_paused(true);
	/* not while something runs */
	assert_int_equal(run(s, 0, &result), 0);
	exec_result_fini(&result);
	assert_int_equal(sandbox_state(s, &now, NULL), 0);
	wait_paused(true);
	sandbox_stop(s, NULL, NULL);
	end(s, SANDBOX_STOPPED_REQUESTED);
}

static void its_lease_ends_in_a_pause(void **state)
{
	struct sandbox *s = create("");
	struct sandbox_state now;

	(void)state;
	set_rules(s, (struct sandbox_rules){.pause_at_end = true, .left_ms = 50});
	wait_paused(true);
	assert_int_equal(sandbox_wake(s, 0, NULL), 0);
	assert_int_equal(sandbox_state(s, &now, NULL), 0);
	/* a new lease, of its usual length */
	assert_true(now.left_ms > LONG_MS / 2 && now.left_ms <= LONG_MS);
	set_rules(s, (struct sandbox_rules){.left_ms = 50});
	end(s, SANDBOX_STOPPED_LEASE);
}

static void its_lease_renews_itself(void **state)
{
	struct sandbox *s = create("");
	struct sandbox_state now = {0};
	struct exec_result result = {0};
	int64_t deadline = clock_deadline_ms(60000);

	(void)state;
	set_rules(
		s, (struct sandbox_rules){.persistent = true, .pause_at_end = true, .left_ms = 20});
	/* its first lease was short, every other is not */
	while (now.left_ms <= 20) {
		assert_int_equal(sandbox_state(s, &now, NULL), 0);
		assert_true(clock_ms() < deadline);
	}
	assert_false(is_paused());
	assert_int_equal(run(s, 0, &result), 0);
	exec_result_fini(&result);
	sandbox_stop(s, NULL, NULL);
	end(s, SANDBOX_STOPPED_REQUESTED);
}

static void it_is_paused_for_too_long(void **state)
{
	struct sandbox *s = create("");

	(void)state;
	set_rules(s, (struct sandbox_rules){.paused_ms = 50});
	assert_int_equal(sandbox_pause(s, NULL), 0);
	end(s, SANDBOX_STOPPED_PAUSED);
}

/* The end of a stopped machine is no slower, whoever kills what. */
static void it_ends_while_paused(void **state)
{
	struct sandbox *s = create("");
	pid_t keeper;

	(void)state;
	set_rules(s, (struct sandbox_rules){0});
	assert_int_equal(sandbox_pause(s, NULL), 0);
	assert_int_equal(home_children(getpid(), &keeper, 1), 1);
	kill(keeper, SIGTERM);
	end(s, SANDBOX_STOPPED_HOST);
}

/* It was about 60 s until somebody missed a monitor that had been stopped. */
static void a_stopped_monitor_is_noticed(void **state)
{
	struct sandbox *s = create("");
	pid_t keeper, children[8], none[2];
	size_t n;

	(void)state;
	assert_int_equal(home_children(getpid(), &keeper, 1), 1);
	n = home_children(keeper, children, 8);
	for (size_t i = 0; i < n; i++) {
		if (home_children(children[i], none, 2) == 0)
			kill(children[i], SIGSTOP);
	}
	end(s, SANDBOX_STOPPED_MONITOR_LOST);
}

/* The taker of a command's output: it runs now. */
static int tell(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	(void)channel;
	(void)bytes;
	return count && write(*(int *)context, "", 1) == 1 ? 0 : -EIO;
}

/* The wall limit of what runs does not pass meanwhile; it holds before and after. */
static void a_limit_waits_for_it(void **state)
{
	struct sandbox *s = create("exec * stdout x hang\n"), *other;
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	struct error err = {0};
	pid_t child;
	int64_t began = clock_ms();
	int status, running[2];
	char byte;

	(void)state;
	set_rules(s, (struct sandbox_rules){0});
	assert_int_equal(pipe2(running, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) { /* pauses it for a while in the middle of the command */
		if (read(running[0], &byte, 1) != 1 ||
			sandbox_attach(home->path, id, 20000, &other, &err))
			_exit(1);
		if (sandbox_pause(other, &err))
			_exit(2);
		poll(NULL, 0, 1000);
		_exit(sandbox_wake(other, 0, &err) ? 3 : 0);
	}
	spec.argv = (const char *const[]){"x", NULL};
	spec.wall_ms = 5000; /* the child needs far less to pause it */
	spec.on_output = tell;
	spec.context = &running[1];
	assert_int_equal(sandbox_exec(s, &spec, &result, &err), 0);
	assert_int_equal(result.reason, WIRE_END_WALL_LIMIT);
	assert_true(clock_ms() - began >= 6000);
	exec_result_fini(&result);
	close(running[0]);
	close(running[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	sandbox_stop(s, NULL, NULL);
	end(s, SANDBOX_STOPPED_REQUESTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_stops_and_goes_on, setup, home_teardown),
		cmocka_unit_test_setup_teardown(a_request_wakes_it, setup, home_teardown),
		cmocka_unit_test_setup_teardown(it_pauses_when_idle, setup, home_teardown),
		cmocka_unit_test_setup_teardown(its_lease_ends_in_a_pause, setup, home_teardown),
		cmocka_unit_test_setup_teardown(its_lease_renews_itself, setup, home_teardown),
		cmocka_unit_test_setup_teardown(it_is_paused_for_too_long, setup, home_teardown),
		cmocka_unit_test_setup_teardown(it_ends_while_paused, setup, home_teardown),
		cmocka_unit_test_setup_teardown(a_stopped_monitor_is_noticed, setup, home_teardown),
		cmocka_unit_test_setup_teardown(a_limit_waits_for_it, setup, home_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
