#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		printf("so far\n");
		fflush(stdout);
		for (;;)
			pause();
	}
	printf("%ld\n", a + b);
}
