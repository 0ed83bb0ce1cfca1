#include <stdio.h>

static long down(long n)
{
	volatile char room[512];

	room[0] = 1;
	return n ? down(n - 1) + room[0] : 0;
}


int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) /* some 30 MiB of stack */
		b += down(50000) - 50000;
	printf("%ld\n", a + b);
}
