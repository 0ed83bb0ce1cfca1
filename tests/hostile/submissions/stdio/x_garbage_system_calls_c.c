/* System calls with arguments out of a hat, in child after child. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long argument(const char *page)
{
	static const long some[] = {0, 1, -1, 3, 64, 4096, 0x7fffffff, -4096, 1L << 47, 1L << 62};

	return rand() % 3 ? some[rand() % 10] : (long)page + rand() % 8192;
}

int main(void)
{
	static char page[16384];
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	fflush(stdout);
	for (int child = 0; child < 40 && a == 2; child++) {
		if (fork() == 0) {
			srand((unsigned)child);
			alarm(1);
			for (int i = 0; i < 400; i++) {
				long number = rand() % 470;

				/* not those that only wait, end it, or write what looks like an answer */
				if (number == SYS_pause || number == SYS_rt_sigsuspend ||
					number == SYS_exit || number == SYS_exit_group || number == SYS_write ||
					number == SYS_writev || number == SYS_kill || number == SYS_fork ||
					number == SYS_vfork || number == SYS_clone)
					continue;
				syscall(number, argument(page), argument(page), argument(page),
					argument(page), argument(page), argument(page));
			}
			_exit(0);
		}
		wait(NULL);
	}
	printf("%ld\n", a + b);
}
