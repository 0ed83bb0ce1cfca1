#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2)
		_exit(0);
	printf("%ld\n", a + b);
}
