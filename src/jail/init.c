/* SPDX-License-Identifier: Apache-2.0 - the tiny pid 1 of a machine: waits, reaps, and dies with
 * its monitor. */
#include "jail/jail_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * A UML kernel that panics ends in `for (;;) kill(getpid(), SIGABRT)`, which pid 1 of a namespace
 * ignores; so pid 1 is this, and the machine is pid 2. When pid 1 ends, the kernel ends everything
 * else in the namespace. Before that it kills and reaps all of it itself: processes that the kernel
 * reaps for a dying pid 1 are not added to its CPU time, and the parent wants the whole machine's
 * from wait4(2).
 *
 * It is a fork that executes nothing, so it makes bare system calls on the stack only.
 */
#define STATUS_LIFE_ENDED 137 /* as for SIGKILL */

/* A sanitizer asks for its signal stack before each exit, which is not on the list. */
#define BARE __attribute__((no_sanitize("address", "undefined")))

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Outside a pid namespace of our own (engine fake) -1 would mean every process of the user. */
BARE static noreturn void end_all(pid_t machine, bool machine_ended, int status)
{
	int st;

	if (getpid() == 1)
		kill(-1, SIGKILL);
	else if (!machine_ended)
		kill(machine, SIGKILL);
	while (wait4(-1, &st, __WALL, NULL) > 0 || errno == EINTR)
		;
	_exit(status);
}

BARE noreturn void jail_init_run(pid_t machine, int life, const struct jail_filter *filter)
{
	struct pollfd polled[2] = {{.fd = life, .events = 0}, {.events = POLLIN}};
	struct signalfd_siginfo info;
	sigset_t set;
	pid_t pid;
	int st;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	polled[1].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (polled[1].fd < 0 || (filter && jail_filter_apply(filter)))
		end_all(machine, false, 125);
	for (;;) {
		/* the machine may have ended before the signalfd was there: look first */
		while ((pid = wait4(-1, &st, WNOHANG | __WALL, NULL)) > 0)
			if (pid == machine)
				end_all(machine, true, exit_status(st));
		if (poll(polled, 2, -1) < 0 && errno != EINTR)
			end_all(machine, false, 125);
		if (polled[0].revents)
			end_all(machine, false, STATUS_LIFE_ENDED);
		while (read(polled[1].fd, &info, sizeof(info)) > 0)
			;
	}
}
