/* SPDX-License-Identifier: Apache-2.0 - the monitor's own confinement. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int pair[2];

/* Forbidden: each must end the process. */
static void do_open(void)
{
	open("/etc/passwd", O_RDONLY);
}

static void do_open2(void)
{
	syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0);
}

static void do_legacy_open(void)
{
	syscall(SYS_open, "/etc/passwd", O_RDONLY);
}

static void do_socket(void)
{
	socket(AF_UNIX, SOCK_STREAM, 0);
}

static void do_connect(void)
{
	connect(pair[0], NULL, 0);
}

static void do_fork(void)
{
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
		_exit(0);
}

static void do_clone3(void)
{
	syscall(SYS_clone3, NULL, 0);
}

static void do_exec(void)
{
	execl("/bin/true", "true", NULL);
}

static void do_ptrace(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
}

static void do_kill(void)
{
	kill(getppid(), 0);
}

static void do_code(void)
{
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void do_protect(void)
{
	mprotect(pair, 1, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static void do_unlink(void)
{
	unlink("/nowhere");
}

static void do_ring(void)
{
	syscall(SYS_io_uring_setup, 1, NULL);
}

static void do_limits(void)
{
	struct rlimit r;

	prlimit(getppid(), RLIMIT_CORE, NULL, &r);
}

static void do_setuid(void)
{
	syscall(SYS_setuid, 0);
}

static void do_control(void)
{
	syscall(SYS_ioctl, 0, 0x5412, "x"); /* TIOCSTI */
}

/* Allowed: the process ends itself with 0. */
static void do_loop(void)
{
	struct epoll_event e = {.events = EPOLLIN};
	uint64_t one = 1;
	char bytes[4] = "abc";
	struct iovec part = {bytes, 3};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	int ep = epoll_create1(EPOLL_CLOEXEC), ev = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	void *memory;

	if (ep < 0 || ev < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e))
		_exit(1);
	if (write(ev, &one, sizeof(one)) != sizeof(one) || epoll_wait(ep, &e, 1, 1000) != 1)
		_exit(2);
	if (sendmsg(pair[0], &message, MSG_NOSIGNAL) != 3 || recvmsg(pair[1], &message, 0) != 3)
		_exit(3);
	memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || munmap(memory, 1 << 20))
		_exit(4);
	memory = malloc(4 << 20);
	if (!memory)
		_exit(5);
	free(memory);
	close(ep);
	close(ev);
	_exit(0);
}

static void do_abort(void)
{
	raise(SIGABRT);
}

static void in_monitor(const char *name, void (*act)(void), int status)
{
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		uid_t uid = geteuid() ? geteuid() : JAIL_UID_BASE + 2 * JAIL_SLOTS - 1;

		signal(SIGABRT, SIG_DFL);
		if (jail_monitor_drop(uid, geteuid() ? getegid() : uid, NULL) ||
			jail_monitor_seccomp(NULL))
			_exit(90);
		act();
		_exit(91);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (st != status)
		fail_msg("%s ended with %x instead of %x", name, st, status);
}

static void forbidden_calls_end_it(void **state)
{
	static const struct {
		const char *name;
		void (*act)(void);
	} calls[] = {
		{"openat", do_open},
		{"openat2", do_open2},
		{"open", do_legacy_open},
		{"socket", do_socket},
		{"connect", do_connect},
		{"fork", do_fork},
		{"clone3", do_clone3},
		{"execve", do_exec},
		{"ptrace", do_ptrace},
		{"kill", do_kill},
		{"mmap of code", do_code},
		{"mprotect to code", do_protect},
		{"unlink", do_unlink},
		{"io_uring", do_ring},
		{"prlimit of another", do_limits},
		{"setuid", do_setuid},
		{"TIOCSTI", do_control},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		in_monitor(calls[i].name, calls[i].act, SIGSYS);
}

static void loop_works(void **state)
{
	(void)state;
	in_monitor("loop", do_loop, 0);
	in_monitor("abort", do_abort, SIGABRT);
}

static void drop_is_for_good(void **state)
{
	pid_t pid = fork();
	uid_t uid = geteuid() ? geteuid() : JAIL_UID_BASE + 2 * JAIL_SLOTS - 1;
	int st;

	(void)state;
	if (pid == 0) {
		if (jail_monitor_drop(uid, geteuid() ? getegid() : uid, NULL))
			_exit(1);
		if (setuid(0) == 0 || seteuid(0) == 0)
			_exit(2);
		if (uid != 65534 && getgroups(0, NULL) != 0)
			_exit(3);
		if (getegid() == 0 || setgid(0) == 0)
			_exit(4);
		if (open("/etc/shadow", O_RDONLY) >= 0)
			_exit(5);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

static void log_only_is_told(void **state)
{
	char text[160];

	(void)state;
	setenv("SEALMARK_SECCOMP_LOG", "1", 1);
	jail_describe(false, NULL, text, sizeof(text));
	unsetenv("SEALMARK_SECCOMP_LOG");
	assert_string_equal(text, "userns seccomp-log-only");
}

static int group(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forbidden_calls_end_it),
		cmocka_unit_test(loop_works),
		cmocka_unit_test(drop_is_for_good),
		cmocka_unit_test(log_only_is_told),
	};

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return 1;
	return cmocka_run_group_tests_name(
		geteuid() == 0 ? "monitor, as root" : "monitor, as an ordinary user", tests, NULL,
		NULL);
}

int main(int argc, char **argv)
{
	return fixture_groups(argc, argv, group);
}
