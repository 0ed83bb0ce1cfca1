/* takes memory until there is none */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	for (;;) {
		char *more = malloc(1 << 20);

		if (more)
			memset(more, 1, 1 << 20);
	}
}
