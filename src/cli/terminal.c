/* SPDX-License-Identifier: Apache-2.0 - the terminal: its character set, and Ctrl-C as a readable
 * file descriptor. */
#include "cli/cli.h"

#include <errno.h>
#include <langinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool cli_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

int cli_cancel_fd(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int cli_cancel_signal(int cancel_fd)
{
	struct signalfd_siginfo info;

	if (read(cancel_fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}
