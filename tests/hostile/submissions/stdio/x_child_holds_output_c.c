/* The program ends with the right answer; its child holds the output open for a long time. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (fork() == 0) {
		setsid();
		pause();
	}
	printf("%ld\n", a + b);
}
