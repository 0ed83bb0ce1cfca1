/* writes to where nothing is */
#include <stdio.h>

int main(void)
{
	volatile int *numbers = NULL;

	numbers[0] = 1;
	printf("0\n");
	return 0;
}
