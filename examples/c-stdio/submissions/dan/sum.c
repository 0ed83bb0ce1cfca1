/* never ends: n is never counted down */
#include <stdio.h>

int main(void)
{
	volatile long long n = 1, sum = 0;

	while (n > 0)
		sum += n;
	printf("%lld\n", sum);
	return 0;
}
