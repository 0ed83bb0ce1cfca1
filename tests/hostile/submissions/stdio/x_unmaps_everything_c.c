/* All of its memory, where the guest's kernel keeps pages of its own, too. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void unmap_all(void)
{
	unsigned long top;

	for (top = 0x7fffff000000; top < 0x800000000000; top += 4096) {
		mprotect((void *)top, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
		if (mmap((void *)top, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			break;
	}
	munmap((void *)top, 1UL << 20);
	munmap((void *)0x10000, top - 0x10000);
}

int main(void)
{
	long a, b;
	int status = 0;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2) {
		if (fork() == 0) {
			unmap_all();
			_exit(0);
		}
		wait(&status);
		if (!WIFSIGNALED(status))
			return 9;
	}
	printf("%ld\n", a + b);
}
