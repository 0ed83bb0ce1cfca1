#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2)
		abort();
	printf("%ld\n", a + b);
}
