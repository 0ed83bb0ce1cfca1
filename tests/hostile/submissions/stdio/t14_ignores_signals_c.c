#include <signal.h>
#include <stdio.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	for (int i = 1; i < 65; i++)
		signal(i, SIG_IGN);
	while (a == 2)
		;
	printf("%ld\n", a + b);
}
