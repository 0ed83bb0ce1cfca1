#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	while (a == 2)
		memset(malloc(1 << 20), 1, 1 << 20);
	printf("%ld\n", a + b);
}
