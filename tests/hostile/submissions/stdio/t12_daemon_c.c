#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static long beats(void)
{
	struct stat s;

	return stat("/tmp/beats", &s) ? -1 : s.st_size;
}


int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 1) {
		if (fork() == 0) {
			setsid();
			if (fork() == 0) {
				int fd = open("/tmp/beats", O_WRONLY | O_CREAT | O_APPEND, 0600);

				for (;;) {
					if (write(fd, "x", 1) < 0 || write(1, "", 0) < 0)
						_exit(0);
					usleep(1000);
				}
			}
			_exit(0);
		}
		while (beats() < 3)
			usleep(1000);
	} else {
		long before = beats();

		usleep(100000);
		if (before < 3 || beats() != before)
			return 9; /* it lives, or never did */
	}
	printf("%ld\n", a + b);
}
