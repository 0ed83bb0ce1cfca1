/* SPDX-License-Identifier: Apache-2.0 - how sandboxes begin and end: each way with its reason. */
#include "monitor.h"

#include "base/clock.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(struct host *h)
{
	host_end(h);
}

static void starts_that_fail(void **state)
{
	static const struct {
		const char *script, *more, *detail;
	} cases[] = {
		{"boot hang\n", "{\"start_timeout_ms\": 100}", "did not start within 100 ms"},
		{"boot delay 60000\n", "{\"start_timeout_ms\": 100}",
			"did not start within 100 ms"},
		{"boot die\n", NULL, ""},
		{"boot garbage\n", NULL, "a frame that cannot be"},
		{"boot version 99\n", NULL, "run sealmark setup"},
		{"boot sideways\n", NULL, "script:1:"},
		{"", "{\"engine\": \"umm\"}", "umm"},
		{"", "{\"require_isolation\": \"kernel\"}", "\"kernel\" is required"},
		{"", "{\"require_isolation\": \"good\"}", "\"good\" is not one of"},
		{"", "{\"memory_mib\": 1}", "memory_mib must be a number from 64"},
		{"", "{\"home\": \"/proc/none\"}", "/proc/none"},
		{"", "{\"id\": \"../x\"}", "id may hold"},
	};
	struct host h;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		monitor_start(&h, *state, cases[i].script, cases[i].more);
		monitor_expect_stopped(&h, SANDBOX_STOPPED_START_FAILED, cases[i].detail);
		end(&h);
	}
}

static void stop_is_heard_at_any_time(void **state)
{
	uint8_t frame[WIRE_HEADER];
	int n = wire_put_mon_stop(frame, sizeof(frame), 1, 0, &(struct wire_mon_stop){0});
	struct host h;

	monitor_start(&h, *state, "boot hang\n", NULL);
	host_send(&h, frame, n);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_REQUESTED, "requested");
	end(&h);
	monitor_ready(&h, *state, "exec * hang\n", NULL);
	host_exec(&h, 1, "x", NULL);
	host_send(&h, frame, n);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_REQUESTED, "requested");
	assert_int_equal(host_end(&h), 0);
}

static void owner_that_goes_ends_it(void **state)
{
	struct host h;

	monitor_start(&h, *state, "boot hang\n", NULL);
	end(&h); /* waits for the keeper */
	monitor_ready(&h, *state, "exec * hang\n", NULL);
	host_exec(&h, 1, "x", NULL);
	end(&h);
}

static void extend(struct host *h, uint64_t lease_ms, enum wire_type answer)
{
	uint8_t frame[WIRE_HEADER + 8];

	host_send(h, frame,
		wire_put_mon_extend(frame, sizeof(frame), 5, 0,
			&(struct wire_mon_extend){.lease_ms = lease_ms}));
	host_expect(h, answer, 5);
}

static void lease_ends_it(void **state)
{
	struct host h;

	monitor_ready(&h, *state, "", "{\"lease_ms\": 50}");
	monitor_expect_stopped(&h, SANDBOX_STOPPED_LEASE, "lease");
	end(&h);
	monitor_ready(&h, *state, "exec * hang\n", "{\"lease_ms\": 3600000}");
	extend(&h, 0, WIRE_FAIL);
	extend(&h, UINT64_MAX, WIRE_FAIL);
	host_exec(&h, 1, "x", NULL);
	host_expect(&h, WIRE_STARTED, 1);
	extend(&h, 50, WIRE_DONE);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_LEASE, "lease");
	end(&h);
}

static void extended_lease_goes_on(void **state)
{
	int64_t start = clock_ms();
	struct host h;

	/* each time is long enough for a host that stands still for seconds */
	monitor_ready(&h, *state, "exec * delay 6000\n", "{\"lease_ms\": 5000}");
	extend(&h, 60000, WIRE_DONE);
	host_exec(&h, 1, "x", NULL);
	do {
		assert_int_equal(host_next(&h), 1);
	} while (h.frame.type != WIRE_EXIT);
	assert_true(clock_ms() - start >= 5000);
	end(&h);
}

/* Nobody asks anything, and still it is found out. */
static void mute_machine_is_found(void **state)
{
	struct host h;

	monitor_ready(&h, *state, "boot mute\n", "{\"patience_ms\": 100}");
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_FAULT, "does not answer");
	end(&h);
}

static void quiet_machine_lives(void **state)
{
	struct host h;

	/* its patience ends twice meanwhile, and the machine is asked whether it is there */
	monitor_ready(&h, *state, "exec * delay 7000\n", "{\"patience_ms\": 3000}");
	host_exec(&h, 1, "x", NULL);
	do {
		assert_int_equal(host_next(&h), 1);
	} while (h.frame.type != WIRE_EXIT);
	end(&h);
}

static void wall_limit_that_the_guest_ignores(void **state)
{
	struct host h;

	monitor_ready(&h, *state, "mute at EXEC\n", "{\"patience_ms\": 2000}");
	host_exec(&h, 1, "x", &(struct wire_exec){.wall_us = 50000});
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_FAULT, "did not end a command");
	end(&h);
}

static void kill_that_the_guest_ignores(void **state)
{
	uint8_t frame[WIRE_HEADER + 4];
	struct host h;

	monitor_ready(&h, *state, "exec * hang\nmute at KILL\n", "{\"patience_ms\": 2000}");
	host_exec(&h, 1, "x", NULL);
	host_send(&h, frame, wire_put_kill(frame, sizeof(frame), 1, 0, &(struct wire_kill){0}));
	monitor_expect_stopped(&h, SANDBOX_STOPPED_GUEST_FAULT, "did not end a command");
	end(&h);
}

/* The guest waits for the client's credit: once it was blamed for that after its wall limit. */
static void slow_client_is_not_held_against_the_guest(void **state)
{
	struct pollfd p = {.events = POLLIN};
	struct wire_exit exit;
	size_t got = 0;
	struct host h;

	monitor_ready(&h, *state, "exec * flood 1000000 exit 3\n", "{\"patience_ms\": 3000}");
	host_exec(&h, 1, "x", &(struct wire_exec){.wall_us = 60000000});
	while (got < WIRE_WINDOW) {
		assert_int_equal(host_next(&h), 1);
		got += h.frame.type == WIRE_DATA ? h.frame.length : 0;
	}
	p.fd = h.fd;
	assert_int_equal(poll(&p, 1, 7000), 0); /* no MON_STOPPED */
	host_credit(&h, 1, WIRE_STDOUT, WIRE_WINDOW);
	host_finish(&h, 1, NULL, &exit);
	assert_int_equal(exit.status, 3);
	end(&h);
}

/* --- deaths --- */

static pid_t monitor_of(const struct host *h)
{
	pid_t pids[4];
	size_t n = home_children(h->pid, pids, 4);

	assert_int_equal(n, 2); /* the machine, then the monitor */
	return pids[1];
}

static void killed_keeper_is_told(void **state)
{
	struct error err = {0};
	struct host h;

	monitor_ready(&h, *state, "", NULL);
	kill(h.pid, SIGKILL);
	monitor_expect_stopped(&h, SANDBOX_STOPPED_MONITOR_LOST, "keeper");
	end(&h);
	home_wait_for_all();
	/* what it could not take away is swept */
	assert_int_equal(sandbox_sweep(((struct home *)*state)->path, &err), 1);
}

static void killed_monitor_leaves_nothing(void **state)
{
	struct host h;

	monitor_ready(&h, *state, "exec * hang\n", NULL);
	host_exec(&h, 1, "x", NULL);
	kill(monitor_of(&h), SIGKILL);
	while (host_next(&h) == 1)
		assert_int_not_equal(h.frame.type, WIRE_MON_STOPPED);
	assert_int_not_equal(host_end(&h), 0);
}

static void terminated_keeper_leaves_nothing(void **state)
{
	struct host h;

	monitor_ready(&h, *state, "", NULL);
	kill(h.pid, SIGTERM);
	while (host_next(&h) == 1)
		;
	end(&h);
}

static void stop_tree(pid_t pid, int number)
{
	pid_t pids[8];
	size_t n = home_children(pid, pids, 8);

	kill(pid, number);
	for (size_t i = 0; i < n; i++)
		stop_tree(pids[i], number);
}

/* send, as long as it is taken; false when it is held back */
static bool send_while_taken(struct host *h, const uint8_t *bytes, size_t count)
{
	struct pollfd p = {h->fd, POLLOUT, 0};

	while (count) {
		ssize_t n;

		if (poll(&p, 1, 500) != 1)
			return false;
		n = send(h->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
		assert_true(n > 0 || errno == EAGAIN);
		bytes += n > 0 ? n : 0;
		count -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* The owner's death went unnoticed while the monitor read nothing from it, as the guest took
 * nothing: such a sandbox lived on until its lease ended. */
static void owner_dies_while_the_guest_is_frozen(void **state)
{
	static uint8_t frame[WIRE_HEADER + WIRE_WINDOW / 2];
	uint32_t id = 1;
	pid_t pids[4];
	struct host h;
	bool taken;
	int n;

	monitor_ready(&h, *state, "", "{\"lease_ms\": 3600000, \"patience_ms\": 3600000}");
	assert_int_equal(home_children(h.pid, pids, 4), 2);
	stop_tree(pids[0], SIGSTOP);
	do {
		n = wire_put_file_write(frame, sizeof(frame), id, 0,
			&(struct wire_file_write){.path = wire_str("/f")});
		taken = send_while_taken(&h, frame, (size_t)n);
		wire_header_put(frame, WIRE_WINDOW / 2, WIRE_DATA, WIRE_STDIN, id);
		taken = taken && send_while_taken(&h, frame, sizeof(frame));
	} while (taken && ++id < 60);
	assert_false(taken);
	end(&h);
}

/* As above, but by far not so much: a stop was not heard behind input that nobody took. */
static void stop_is_heard_while_the_guest_is_frozen(void **state)
{
	static uint8_t bytes[WIRE_WINDOW / 2];
	uint8_t frame[256];
	pid_t pids[4];
	struct host h;

	monitor_ready(&h, *state, "", "{\"lease_ms\": 3600000, \"patience_ms\": 3600000}");
	assert_int_equal(home_children(h.pid, pids, 4), 2);
	stop_tree(pids[0], SIGSTOP);
	host_send(&h, frame,
		wire_put_file_write(frame, sizeof(frame), 1, 0,
			&(struct wire_file_write){.path = wire_str("/f")}));
	host_data(&h, 1, bytes, sizeof(bytes));
	host_data(&h, 1, bytes, sizeof(bytes));
	host_send(&h, frame,
		wire_put_mon_stop(frame, sizeof(frame), 2, 0, &(struct wire_mon_stop){0}));
	monitor_expect_stopped(&h, SANDBOX_STOPPED_REQUESTED, "requested");
	end(&h);
}

static void not_started_by_hand(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		close(2);
		close(3);
		close(4);
		execl(MONITOR, "sealmark-monitor", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(starts_that_fail),
		TEST(stop_is_heard_at_any_time),
		TEST(owner_that_goes_ends_it),
		TEST(lease_ends_it),
		TEST(extended_lease_goes_on),
		TEST(mute_machine_is_found),
		TEST(quiet_machine_lives),
		TEST(wall_limit_that_the_guest_ignores),
		TEST(kill_that_the_guest_ignores),
		TEST(slow_client_is_not_held_against_the_guest),
		TEST(killed_keeper_is_told),
		TEST(killed_monitor_leaves_nothing),
		TEST(terminated_keeper_leaves_nothing),
		TEST(owner_dies_while_the_guest_is_frozen),
		TEST(stop_is_heard_while_the_guest_is_frozen),
		TEST(not_started_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
