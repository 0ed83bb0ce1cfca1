#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2 && ftruncate(open("sparse", O_WRONLY | O_CREAT, 0600), 1LL << 40)) {
		perror("ftruncate");
		return 1;
	}
	printf("%ld\n", a + b);
}
