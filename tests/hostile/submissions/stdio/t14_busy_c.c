#include <stdio.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	while (a == 2) {
		volatile int x = 0;

		(void)x;
	}
	printf("%ld\n", a + b);
}
