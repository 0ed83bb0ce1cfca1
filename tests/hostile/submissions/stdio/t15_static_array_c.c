#include <stdio.h>
#include <string.h>

static char array[700 << 20];


int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2)
		memset(array, 1, sizeof(array));
	printf("%ld\n", a + b);
}
