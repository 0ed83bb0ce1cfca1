/* SPDX-License-Identifier: Apache-2.0 - a machine in its jail: what it sees, may do, and how it
 * ends. */
#include "fixture.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"
#include "engine/engine.h"
#include "wire/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The inmate's lines "name …": how many there are, and the n-th one's rest. */
static const char *fact(const char *text, const char *name, unsigned which)
{
	static char value[256];
	size_t n = strlen(name);

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		if (strncmp(text, name, n) != 0 || text[n] != ' ' || which-- > 0)
			continue;
		text_format(value, sizeof(value), "%.*s", (int)strcspn(text + n + 1, "\n"),
			text + n + 1);
		return value;
	}
	return NULL;
}

static long number(const char *text, const char *name)
{
	const char *value = fact(text, name, 0);

	if (!value)
		fail_msg("the inmate said nothing of %s:\n%s", name, text);
	return value ? strtol(value, NULL, 10) : 0;
}

/* Exactly these values of `name`, in any order. */
static void assert_facts(const char *text, const char *name, const char *const *values)
{
	unsigned count = 0, found = 0;

	for (; values[count]; count++)
		for (unsigned i = 0; fact(text, name, i); i++)
			found += strcmp(fact(text, name, i), values[count]) == 0;
	if (found != count || fact(text, name, count))
		fail_msg("not what is expected of %s:\n%s", name, text);
}

static void sees_only_its_own(void **state)
{
	static const char *const entries[] = {"image", "mem", "vsock", NULL};
	static const char *const env[] = {"TMPDIR=/mem", "HOME=/mem", "PATH=/", NULL};
	static const char *const fds[] = {"0", "1", "2", NULL};
	static const char *const processes[] = {"1", "2", NULL};
	int status;
	const char *text = fixture_run(*state, "look", NULL, &status);

	assert_int_equal(status, 0);
	assert_facts(text, "entry", entries);
	assert_facts(text, "env", env);
	assert_facts(text, "fd", fds);
	assert_facts(text, "process", processes);
	assert_int_equal(number(text, "uid"), 1000);
	assert_int_equal(number(text, "gid"), 1000);
	assert_int_equal(number(text, "pid"), 2);
	assert_int_equal(number(text, "ppid"), 1);
	assert_int_equal(number(text, "stdin"), 0);
	assert_int_equal(number(text, "host_file"), -ENOENT);
	assert_int_equal(number(text, "host_up"), -ENOENT);
	assert_int_equal(number(text, "proc"), -ENOENT);
	assert_int_equal(number(text, "null"), -ENOENT);
	assert_string_equal(fact(text, "image", 0), "hello");
	assert_int_equal(number(text, "socket"), 0);
}

static void writes_only_to_mem(void **state)
{
	int status;
	const char *text = fixture_run(*state, "look", NULL, &status);

	assert_true(number(text, "image_write") < 0);
	assert_int_equal(number(text, "root_write"), -EROFS);
	assert_int_equal(number(text, "mem_write"), 0);
	assert_int_equal(number(text, "mem_bytes"), FIXTURE_MEMORY);
	assert_int_equal(number(text, "root_flags"), 7);   /* ro, nosuid, nodev */
	assert_int_equal(number(text, "image_flags"), 15); /* and noexec */
}

static void has_limits(void **state)
{
	int status;
	const char *text = fixture_run(*state, "look", NULL, &status);

	assert_int_equal(number(text, "core"), 0);
	assert_int_equal(number(text, "memlock"), 0);
	assert_int_equal(number(text, "nproc"), FIXTURE_PROCESSES);
	assert_int_equal(number(text, "fsize"), FIXTURE_MEMORY);
}

static void cannot_reach_its_init(void **state)
{
	int status;
	const char *text = fixture_run(*state, "look", NULL, &status);

	assert_true(number(text, "ptrace_init") < 0);
	/* the signal is taken and does nothing: or nothing would have been said after it */
	assert_int_equal(number(text, "kill_init"), 0);
	assert_int_equal(number(text, "kill_others"), -ESRCH);
	assert_int_equal(status, 0);
}

static void forbidden_calls_end_it(void **state)
{
	static const char *const calls[] = {"unshare", "clone", "mount", "inet", "netlink", "vsock",
		"execve", "mknod", "keyctl", "bpf", "io_uring", "setuid", "tiocsti", "chroot",
		"process_vm_readv"};
	int status;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *one;
		const char *text;

		fixture_setup(&one);
		text = fixture_run(one, "try", calls[i], &status);
		if (strcmp(text, "signal 31\n") != 0)
			fail_msg("%s was not refused: %s", calls[i], text);
		fixture_teardown(&one);
	}
	/* libraries do without this one when it is not there */
	assert_string_equal(fixture_run(*state, "try", "clone3", &status), "errno 38\n");
}

static void processes_are_bounded(void **state)
{
	int status;
	const char *text = fixture_run(*state, "fork", NULL, &status);
	long forked = number(text, "forked");

	assert_true(forked > FIXTURE_PROCESSES / 2 && forked < FIXTURE_PROCESSES);
}

static void memory_files_are_bounded(void **state)
{
	int status;

	assert_int_equal(
		number(fixture_run(*state, "fill", NULL, &status), "filled"), FIXTURE_MEMORY >> 20);
}

static void status_is_the_machines(void **state)
{
	struct fixture *f = *state;
	int status;

	fixture_run(f, "abort", NULL, &status);
	assert_int_equal(status, 128 + SIGABRT);
}

static void usage_is_of_all(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	struct rusage u;
	int64_t cpu_us;

	fixture_mode(f, "spin", NULL);
	fixture_start(f, &m);
	assert_int_equal(fixture_wait(&m, &u), 7);
	cpu_us = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
		 u.ru_stime.tv_usec;
	assert_true(cpu_us >= 590000);
}

static pid_t child_of(pid_t parent)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	pid_t found = -1;

	assert_non_null(dir);
	while (found < 0 && (e = readdir(dir))) {
		char path[300], text[512], *p;
		FILE *file;
		size_t n;
		int ppid;

		text_format(path, sizeof(path), "/proc/%s/stat", e->d_name);
		file = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
		if (!file)
			continue;
		n = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
		text[n] = 0;
		p = strrchr(text, ')');
		if (p && sscanf(p, ") %*c %d", &ppid) == 1 && ppid == parent)
			found = (pid_t)strtol(e->d_name, NULL, 10);
	}
	closedir(dir);
	return found;
}

/* "\nName:\tvalue" in /proc/pid/status */
static void assert_status(pid_t pid, const char *name, const char *value)
{
	char path[64], want[128];
	struct buffer text = {0};

	text_format(path, sizeof(path), "/proc/%d/status", (int)pid);
	text_format(want, sizeof(want), "\n%s:\t%s\n", name, value);
	assert_int_equal(path_read(path, 65536, &text, NULL), 0);
	if (!strstr(buffer_text(&text), want))
		fail_msg("%s is not %s in\n%s", name, value, buffer_text(&text));
	buffer_fini(&text);
}

static void has_no_rights(void **state)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
	struct fixture *f = *state;
	struct jail_machine m;
	char line[64], uids[64];
	pid_t pids[2];

	fixture_mode(f, "wait", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	assert_string_equal(line, "ready");
	pids[0] = m.pid;
	pids[1] = child_of(m.pid);
	assert_true(pids[1] > 0);
	text_format(uids, sizeof(uids), "%u\t%u\t%u\t%u", f->spec.machine_uid, f->spec.machine_uid,
		f->spec.machine_uid, f->spec.machine_uid);
	for (int i = 0; i < 2; i++) {
		for (size_t k = 0; k < sizeof(sets) / sizeof(sets[0]); k++)
			assert_status(pids[i], sets[k], "0000000000000000");
		assert_status(pids[i], "Uid", uids);
		assert_status(pids[i], "NoNewPrivs", "1");
		assert_status(pids[i], "Seccomp", "2");
	}
	close(m.life_fd);
	m.life_fd = -1;
	assert_int_equal(fixture_wait(&m, NULL), 137);
}

static void has_namespaces_of_its_own(void **state)
{
	static const char *const names[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
	struct fixture *f = *state;
	struct buffer mounts = {0};
	struct jail_machine m;
	char line[64], path[64];
	unsigned lines = 0;
	pid_t pid;

	fixture_mode(f, "wait", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	pid = child_of(m.pid);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct stat ours, theirs;

		text_format(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		assert_int_equal(stat(path, &ours), 0);
		text_format(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, names[i]);
		assert_int_equal(stat(path, &theirs), 0);
		if (ours.st_ino == theirs.st_ino)
			fail_msg("the %s namespace is ours", names[i]);
	}
	text_format(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	assert_int_equal(path_read(path, 65536, &mounts, NULL), 0);
	for (const char *p = buffer_text(&mounts); (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 4); /* root, image, vsock, mem */
	buffer_fini(&mounts);
	close(m.life_fd);
	m.life_fd = -1;
	fixture_wait(&m, NULL);
}

static void life_ends_daemons_too(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	char line[64];

	fixture_mode(f, "daemon", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	assert_string_equal(line, "ready");
	close(m.life_fd);
	m.life_fd = -1;
	assert_string_equal(fixture_read(f), ""); /* until nobody has the console */
	assert_int_equal(fixture_wait(&m, NULL), 137);
}

static void dies_with_its_keeper(void **state)
{
	struct fixture *f = *state;
	char line[64];
	pid_t keeper;

	fixture_mode(f, "daemon", NULL);
	keeper = fork();
	if (keeper == 0) {
		struct jail_machine m;

		if (jail_start(&f->spec, &m, NULL))
			_exit(1);
		for (;;)
			pause();
	}
	close(f->console_write);
	f->console_write = -1;
	fixture_line(f, line, sizeof(line));
	assert_string_equal(line, "ready");
	kill(keeper, SIGKILL);
	assert_int_equal(waitpid(keeper, NULL, 0), keeper);
	assert_string_equal(fixture_read(f), "");
}

/* The dropped monitor ends its machine, and nothing else. */
static void monitor_may_end_it(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	char line[64];
	int st, us = (int)syscall(SYS_pidfd_open, getpid(), 0);
	pid_t monitor;

	fixture_mode(f, "wait", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	monitor = fork();
	if (monitor == 0) {
		if (jail_monitor_drop(f->spec.monitor_uid, f->spec.monitor_gid, NULL) ||
			jail_monitor_seccomp(NULL))
			_exit(1);
		if (geteuid() != f->spec.monitor_uid)
			_exit(2);
		/* an ordinary user's monitor is that user, who may signal us */
		if (f->spec.machine_uid != f->spec.monitor_uid &&
			(syscall(SYS_pidfd_send_signal, us, 0, NULL, 0) == 0 || errno != EPERM))
			_exit(3);
		_exit(syscall(SYS_pidfd_send_signal, m.pidfd, SIGKILL, NULL, 0) ? 4 : 0);
	}
	assert_int_equal(waitpid(monitor, &st, 0), monitor);
	assert_int_equal(st, 0);
	assert_string_equal(fixture_read(f), "");
	assert_int_equal(waitpid(m.pid, &st, 0), m.pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	close(us);
	close(m.pidfd);
	close(m.life_fd);
}

static void takes_its_cpu(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	cpu_set_t set;
	char line[64];

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &set))
			f->spec.cpu = i; /* the last */
	fixture_mode(f, "wait", NULL);
	fixture_start(f, &m);
	fixture_line(f, line, sizeof(line));
	assert_int_equal(sched_getaffinity(child_of(m.pid), sizeof(set), &set), 0);
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(CPU_ISSET((size_t)f->spec.cpu, &set));
	close(m.life_fd);
	m.life_fd = -1;
	fixture_wait(&m, NULL);
}

/* The start fails with both words in its message, and leaves no process. */
static void assert_fails(struct fixture *f, const char *one, const char *two)
{
	struct jail_machine m;
	struct error err = {0};
	int r = jail_start(&f->spec, &m, &err);

	assert_true(r < 0);
	assert_int_equal(err.code, r);
	if (!strstr(err.message, one) || !strstr(err.message, two))
		fail_msg("not '%s' and '%s': %s", one, two, err.message);
	assert_int_equal(m.pid, -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void failures_name_the_thing(void **state)
{
	struct fixture *f = *state;
	struct engine_plan *plan = &f->plan;

	text_copy(plan->binds[0].from, sizeof(plan->binds[0].from), "/nowhere/rootfs.erofs");
	assert_fails(f, "/nowhere/rootfs.erofs", "No such file");
	text_copy(plan->binds[0].from, sizeof(plan->binds[0].from), f->dir);
	assert_fails(f, f->dir, "no regular file");
	text_copy(plan->binds[0].from, sizeof(plan->binds[0].from), f->image);
	text_copy(plan->binds[0].to, sizeof(plan->binds[0].to), "/../image");
	assert_fails(f, "/../image", "no place");
	text_copy(plan->binds[0].to, sizeof(plan->binds[0].to), "/mem");
	assert_fails(f, "/mem", "no place");
	text_copy(plan->binds[0].to, sizeof(plan->binds[0].to), "/image");
	text_copy(plan->program, sizeof(plan->program), "/nowhere/linux");
	assert_fails(f, "/nowhere/linux", "No such file");
	text_copy(plan->program, sizeof(plan->program), f->image);
	assert_fails(f, "execute it", f->image);
	text_copy(plan->program, sizeof(plan->program), f->program);
	f->spec.cpu = 1000;
	assert_fails(f, "processor", "Invalid argument");
}

static void one_file_in_two_places_fails(void **state)
{
	struct fixture *f = *state;

	f->plan.binds[1] = f->plan.binds[0];
	f->plan.bind_count = 2;
	assert_fails(f, "show it its files: /image", "File exists");
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void starts_leak_nothing(void **state)
{
	struct fixture *f = *state;
	int before = open_descriptors();

	f->plan.arg_count = 1; /* it ends at once, with 2 */
	for (int i = 0; i < 10; i++) {
		struct jail_machine m;

		assert_int_equal(jail_start(&f->spec, &m, NULL), 0);
		assert_int_equal(fixture_wait(&m, NULL), 2);
		f->spec.cpu = 1000; /* fails in the child */
		assert_true(jail_start(&f->spec, &m, NULL) < 0);
		f->spec.cpu = -1;
		f->spec.console_fd = 1000; /* fails before the fork */
		assert_true(jail_start(&f->spec, &m, NULL) < 0);
		f->spec.console_fd = f->console_write;
	}
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* --- code of ours --- */

static void runs_code_of_ours(void **state)
{
	struct fixture *f = *state;
	struct jail_machine m;
	uint8_t frame[256];
	struct wire_frame hello;
	int pair[2], st;
	ssize_t n;

	assert_int_equal(engine_fake.plan(&(struct engine_config){0}, NULL, &f->plan, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	f->spec.channel_fd = pair[1];
	f->spec.config = &(struct engine_config){0};
	fixture_start(f, &m);
	close(pair[1]);
	n = read(pair[0], frame, sizeof(frame));
	assert_true(n > 0);
	assert_true(wire_frame_get(frame, (size_t)n, &hello, NULL) > 0);
	assert_int_equal(hello.type, WIRE_HELLO);
	close(m.life_fd);
	assert_int_equal(waitpid(m.pid, &st, 0), m.pid);
	assert_int_equal(WEXITSTATUS(st), 137);
	assert_int_equal(read(pair[0], frame, sizeof(frame)), 0);
	close(pair[0]);
	close(m.pidfd);
}

static void is_described(void **state)
{
	char text[160];

	assert_int_equal(jail_describe(geteuid() == 0, NULL, text, sizeof(text)), 0);
	assert_string_equal(text, geteuid() == 0 ? "userns seccomp own-uid" : "userns seccomp");
}

static void host_is_probed(void **state)
{
	struct jail_probe probe;

	jail_probe(&probe);
	assert_true(probe.user_namespaces);
	assert_true(probe.seccomp);
	assert_string_equal(probe.user_namespaces_cure, "");
	assert_int_equal(probe.own_uids, geteuid() == 0);
	assert_int_equal(probe.own_uids_cure[0] == 0, probe.own_uids);
	assert_int_equal(probe.cgroup_cure[0] == 0, probe.cgroup);
	assert_int_equal(probe.cgroup_kind[0] != 0, probe.cgroup);
}

#define WITH_MACHINE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

static int group(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MACHINE(sees_only_its_own),
		WITH_MACHINE(writes_only_to_mem),
		WITH_MACHINE(has_limits),
		WITH_MACHINE(cannot_reach_its_init),
		WITH_MACHINE(forbidden_calls_end_it),
		WITH_MACHINE(processes_are_bounded),
		WITH_MACHINE(memory_files_are_bounded),
		WITH_MACHINE(status_is_the_machines),
		WITH_MACHINE(usage_is_of_all),
		WITH_MACHINE(has_no_rights),
		WITH_MACHINE(has_namespaces_of_its_own),
		WITH_MACHINE(life_ends_daemons_too),
		WITH_MACHINE(dies_with_its_keeper),
		WITH_MACHINE(monitor_may_end_it),
		WITH_MACHINE(takes_its_cpu),
		WITH_MACHINE(failures_name_the_thing),
		WITH_MACHINE(one_file_in_two_places_fails),
		WITH_MACHINE(starts_leak_nothing),
		WITH_MACHINE(runs_code_of_ours),
		cmocka_unit_test(is_described),
		cmocka_unit_test(host_is_probed),
	};

	return cmocka_run_group_tests_name(
		geteuid() == 0 ? "machine, as root" : "machine, as an ordinary user", tests, NULL,
		NULL);
}

int main(int argc, char **argv)
{
	return fixture_groups(argc, argv, group);
}
