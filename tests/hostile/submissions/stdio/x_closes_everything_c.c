#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		for (int fd = 0; fd < 1024; fd++)
			close(fd);
		pause();
	}
	printf("%ld\n", a + b);
}
