#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	for (int i = 0; i < 100 && a == 2; i++) {
		if (fork() == 0) {
			while (clock() < CLOCKS_PER_SEC / 10)
				;
			_exit(0);
		}
		wait(NULL);
	}
	printf("%ld\n", a + b);
}
