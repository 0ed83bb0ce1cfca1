/* SPDX-License-Identifier: Apache-2.0 - cgroups and slots: made, limited, swept, given back. */
#include "fixture.h"

#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY (48ull << 20)

static const struct jail_cgroup_limits limits = {.memory_bytes = MEMORY, .processes = 20};

static void name_of(char *out, size_t size, const char *what)
{
	text_format(out, size, "test-%d-%s", (int)getpid(), what);
}

/* NULL where this host or user has none: then there is nothing to test. */
static struct jail_cgroup *make(const char *what)
{
	struct jail_cgroup *cg;
	struct error err = {0};
	char id[64];

	name_of(id, sizeof(id), what);
	if (jail_cgroup_new(id, &limits, &cg, &err))
		fail_msg("%s", err.message);
	return cg;
}

/* The directories of the id in all hierarchies. */
static unsigned directories(const char *what)
{
	static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified",
		"/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu",
		"/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct"};
	char id[64], path[200];
	unsigned count = 0;

	name_of(id, sizeof(id), what);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		text_format(path, sizeof(path), "%s/sealmark/%s", places[i], id);
		count += access(path, F_OK) == 0;
	}
	return count;
}

/* Is the line of any hierarchy in the process's /proc file about the id? */
static bool is_in(pid_t pid, const char *what)
{
	struct buffer text = {0};
	char path[64], id[64];
	bool found;

	name_of(id, sizeof(id), what);
	text_format(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	assert_int_equal(path_read(path, 65536, &text, NULL), 0);
	found = strstr(buffer_text(&text), id) != NULL;
	buffer_fini(&text);
	return found;
}

static void machine_is_in_it(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	char line[64];
	uint64_t cpu = 0, now = 0, peak = 0;

	f->spec.cgroup = make("in");
	if (!f->spec.cgroup)
		skip();
	fixture_mode(f, "wait", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	assert_true(is_in(m.pid, "in"));
	assert_int_equal(jail_cgroup_cpu_us(f->spec.cgroup, &cpu), 0);
	assert_true(cpu > 0 && cpu < 10000000);
	assert_int_equal(jail_cgroup_memory(f->spec.cgroup, &now, &peak), 0);
	assert_true(peak >= now && peak > 0 && peak <= MEMORY);
	/* killed, awaited and removed by the removal alone */
	jail_cgroup_remove(f->spec.cgroup);
	assert_int_equal(directories("in"), 0);
	assert_string_equal(fixture_read(f), "");
	assert_int_equal(waitpid(m.pid, NULL, 0), m.pid);
	close(m.pidfd);
	close(m.life_fd);
}

static void processes_are_limited(void **state)
{
	struct fixture *f = *state;
	const char *text;
	int status;

	f->spec.cgroup = make("pids");
	if (!f->spec.cgroup)
		skip();
	text = fixture_run(f, "fork", NULL, &status);
	assert_true(strncmp(text, "forked ", 7) == 0);
	assert_true(strtol(text + 7, NULL, 10) < 20);
	jail_cgroup_remove(f->spec.cgroup);
}

static void memory_is_limited(void **state)
{
	struct fixture *f = *state;
	uint64_t now, peak;
	int status;

	f->spec.cgroup = make("memory");
	if (!f->spec.cgroup)
		skip();
	f->plan.scratch_bytes = 2 * MEMORY;
	fixture_run(f, "fill", NULL, &status);
	assert_int_equal(status, 137); /* the kernel ended it */
	assert_int_equal(jail_cgroup_memory(f->spec.cgroup, &now, &peak), 0);
	assert_true(peak > MEMORY / 2 && peak <= MEMORY);
	jail_cgroup_remove(f->spec.cgroup);
}

/* A dropped monitor still reads usage, but may not remove. */
static void is_read_after_the_drop(void **state)
{
	struct fixture *f = *state;
	struct jail_cgroup *cg = make("drop");
	pid_t pid;
	int st;

	if (!cg)
		skip();
	pid = fork();
	if (pid == 0) {
		uint64_t cpu, now, peak;

		if (jail_monitor_drop(f->spec.monitor_uid, f->spec.monitor_gid, NULL) ||
			jail_monitor_seccomp(NULL))
			_exit(1);
		if (jail_cgroup_cpu_us(cg, &cpu) || jail_cgroup_memory(cg, &now, &peak))
			_exit(2);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	jail_cgroup_remove(cg);
	assert_int_equal(directories("drop"), 0);
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = {"", ".", "..", "../x", "a/b", ".hidden", "a b", "a\n"};
	struct jail_cgroup *cg;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(jail_cgroup_new(bad[i], &limits, &cg, NULL), -EINVAL);
		assert_null(cg);
	}
}

static void second_of_a_name_is_refused(void **state)
{
	struct jail_cgroup *cg = make("twice"), *other;
	struct error err = {0};
	char id[64];

	(void)state;
	if (!cg)
		skip();
	name_of(id, sizeof(id), "twice");
	assert_int_equal(jail_cgroup_new(id, &limits, &other, &err), -EEXIST);
	assert_non_null(strstr(err.message, id));
	assert_true(directories("twice") > 0); /* the first one's is left alone */
	jail_cgroup_remove(cg);
}

/* Only our own: other homes' sandboxes may run on this host. */
static bool is_not_ours(void *context, const char *id)
{
	return strcmp(id, context) != 0;
}

static void sweep_takes_leftovers_only(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	struct jail_cgroup *cg;
	char line[64], id[64];
	pid_t maker;
	int ends[2];

	cg = make("sweep");
	if (!cg)
		skip();
	name_of(id, sizeof(id), "sweep");
	assert_int_equal(jail_cgroup_sweep(is_not_ours, id), 0); /* it is held: by us */
	assert_true(directories("sweep") > 0);

	/* a holder that is killed leaves it, and a process in it */
	jail_cgroup_remove(cg);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fixture_mode(f, "wait", NULL);
	maker = fork();
	if (maker == 0) {
		if (jail_cgroup_new(id, &limits, &f->spec.cgroup, NULL) ||
			jail_start(&f->spec, &m, NULL))
			_exit(1);
		for (;;)
			pause();
	}
	fixture_line(f, line, sizeof(line));
	assert_string_equal(line, "ready");
	assert_int_equal(jail_cgroup_sweep(is_not_ours, id), 0);
	kill(maker, SIGKILL);
	waitpid(maker, NULL, 0);
	assert_int_equal(jail_cgroup_sweep(is_not_ours, id), 1);
	assert_int_equal(directories("sweep"), 0);
	close(ends[0]);
	close(ends[1]);
}

static void slots_are_exclusive(void **state)
{
	struct fixture *f = *state;
	int a, b, c, fd_a, fd_b, fd_c;

	assert_int_equal(jail_slot_take(f->dir, &a, &fd_a, NULL), 0);
	assert_int_equal(jail_slot_take(f->dir, &b, &fd_b, NULL), 0);
	assert_true(a >= 0 && b >= 0 && a != b && a < JAIL_SLOTS && b < JAIL_SLOTS);
	if (geteuid() != 0) { /* root's are the host's: others take and give them back too */
		assert_int_equal(a, 0);
		assert_int_equal(b, 1);
		close(fd_a);
		assert_int_equal(jail_slot_take(f->dir, &c, &fd_c, NULL), 0);
		assert_int_equal(c, 0);
		fd_a = fd_c;
	}
	close(fd_a);
	close(fd_b);
}

static void slot_of_a_killed_holder_is_free(void **state)
{
	struct fixture *f = *state;
	int slot, fd, ends[2];
	pid_t holder;

	if (geteuid() == 0)
		skip();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	holder = fork();
	if (holder == 0) {
		if (jail_slot_take(f->dir, &slot, &fd, NULL) ||
			write(ends[1], &slot, sizeof(slot)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ends[0], &slot, sizeof(slot)), sizeof(slot));
	assert_int_equal(slot, 0);
	assert_int_equal(jail_slot_take(f->dir, &slot, &fd, NULL), 0);
	assert_int_equal(slot, 1);
	close(fd);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	assert_int_equal(jail_slot_take(f->dir, &slot, &fd, NULL), 0);
	assert_int_equal(slot, 0);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* The machine must not hold its monitor's slot. */
static void machine_does_not_hold_the_slot(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	char line[64];
	int slot, again, fd;

	if (geteuid() == 0)
		skip();
	assert_int_equal(jail_slot_take(f->dir, &slot, &fd, NULL), 0);
	fixture_mode(f, "wait", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	close(fd);
	assert_int_equal(jail_slot_take(f->dir, &again, &fd, NULL), 0);
	assert_int_equal(again, slot);
	close(fd);
	close(m.life_fd);
	m.life_fd = -1;
	fixture_wait(&m, NULL);
}

#define WITH_MACHINE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

static int group(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MACHINE(machine_is_in_it),
		WITH_MACHINE(processes_are_limited),
		WITH_MACHINE(memory_is_limited),
		WITH_MACHINE(is_read_after_the_drop),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(second_of_a_name_is_refused),
		WITH_MACHINE(sweep_takes_leftovers_only),
		WITH_MACHINE(slots_are_exclusive),
		WITH_MACHINE(slot_of_a_killed_holder_is_free),
		WITH_MACHINE(machine_does_not_hold_the_slot),
	};

	return cmocka_run_group_tests_name(geteuid() == 0 ? "cgroup and slot, as root"
							  : "cgroup and slot, as an ordinary user",
		tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return fixture_groups(argc, argv, group);
}
