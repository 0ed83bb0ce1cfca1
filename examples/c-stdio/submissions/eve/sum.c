/* does not compile */
#include <stdio.h>

int main(void)
{
	long long sum = 0
	printf("%lld\n", sum);
	return 0;
}
