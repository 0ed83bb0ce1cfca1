/* SPDX-License-Identifier: Apache-2.0 - a terminal of its own for an exec. */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

/* From linux/ioctl.h by way of asm-generic/ioctls.h; musl has it in newer versions only. */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

#define SIDE_MOST 65535u
#define END_MARK  "\004" /* what a terminal takes for the end of input, at the begin of a line */

int terminal_resize(int fd, uint32_t cols, uint32_t rows)
{
	struct winsize size = {.ws_col = (unsigned short)(cols < SIDE_MOST ? cols : SIDE_MOST),
		.ws_row = (unsigned short)(rows < SIDE_MOST ? rows : SIDE_MOST)};

	return ioctl(fd, TIOCSWINSZ, &size) ? -errno : 0;
}

/*
 * The peer is opened by its controller, not by a path, so that nothing that a guest mounts on
 * /dev/pts is opened instead. Our end is kept twice, so that input and output have descriptors of
 * their own to be watched and closed.
 */
int terminal_open(struct exec *e, const struct wire_exec *m, int *theirs)
{
	int unlocked = 0;
	int ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (ours < 0)
		return -errno;
	e->fds[WIRE_STDOUT] = ours;
	if (ioctl(ours, TIOCSPTLCK, &unlocked))
		return -errno;
	theirs[WIRE_STDOUT] = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (theirs[WIRE_STDOUT] < 0)
		return -errno;
	theirs[WIRE_STDIN] = fcntl(theirs[WIRE_STDOUT], F_DUPFD_CLOEXEC, 3);
	theirs[WIRE_STDERR] = fcntl(theirs[WIRE_STDOUT], F_DUPFD_CLOEXEC, 3);
	if (theirs[WIRE_STDIN] < 0 || theirs[WIRE_STDERR] < 0)
		return -errno;
	if (m->flags & WIRE_EXEC_STDIN) {
		e->fds[WIRE_STDIN] = fcntl(ours, F_DUPFD_CLOEXEC, 3);
		if (e->fds[WIRE_STDIN] < 0)
			return -errno;
	}
	if (fchown(theirs[WIRE_STDOUT], m->uid, m->gid) || fchmod(theirs[WIRE_STDOUT], 0620))
		return -errno;
	return m->cols && m->rows ? terminal_resize(ours, m->cols, m->rows) : 0;
}

void terminal_end(int fd)
{
	/* a terminal has no end of its own; one that takes nothing more is not waited for */
	ssize_t n = write(fd, END_MARK, 1);

	(void)n;
}
