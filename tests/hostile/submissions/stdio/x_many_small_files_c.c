/* More files than anybody lists, until the disk is full; the next case wants room again. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char block[8192];

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		for (int i = 0; i < 100000; i++) {
			char name[32];
			int fd;

			snprintf(name, sizeof(name), "%s/%d", i % 3 ? "." : "/tmp", i);
			fd = open(name, O_WRONLY | O_CREAT, 0600);
			if (fd < 0)
				break;
			if (i > 11000 && write(fd, block, sizeof(block)) < 0)
				break;
			close(fd);
		}
		perror("files");
		return 1;
	}
	printf("%ld\n", a + b);
}
