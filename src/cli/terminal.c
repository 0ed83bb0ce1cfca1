/* SPDX-License-Identifier: Apache-2.0 - the terminal: its character set, and Ctrl-C as a readable
 * file descriptor. */
#include "base/cleanup.h"
#include "cli/cli.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
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

/* A pipe or terminal is written in pieces that fit: Ctrl-C must not wait for a reader that has
 * stopped reading. */
int cli_write_out(int fd, int cancel_fd, const void *data, size_t count)
{
	const uint8_t *bytes = data;
	struct stat st;
	bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

	while (count) {
		struct pollfd fds[] = {{.fd = fd, .events = POLLOUT}, {cancel_fd, POLLIN, 0}};
		size_t piece = is_file || count < PIPE_BUF ? count : PIPE_BUF;
		ssize_t n;

		if (!is_file && poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[1].revents)
			return -EINTR;
		n = write(fd, bytes, piece);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n > 0) {
			bytes += n;
			count -= (size_t)n;
		}
	}
	return 0;
}
