#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	for (int i = 0; i < 20 && a == 2; i++) {
		if (fork() == 0)
			_exit(0);
	}
	usleep(100000);
	printf("%ld\n", a + b);
}
