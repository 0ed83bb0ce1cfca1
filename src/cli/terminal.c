/* SPDX-License-Identifier: Apache-2.0 - the terminal: its character set, and Ctrl-C as a readable
 * file descriptor. */
#include "base/cleanup.h"
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
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction was;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		/* nohup and the shell's & have said that this one is to be ignored */
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	}
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
