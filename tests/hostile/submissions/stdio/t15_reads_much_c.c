#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Many times the limit in files of the system: page cache is no memory of the program. */
static long long read_all(const char *folder, long long most)
{
	static char block[1 << 20];
	char path[PATH_MAX];
	struct dirent *e;
	long long sum = 0;
	DIR *d = opendir(folder);
	ssize_t n;

	while (d && sum < most && (e = readdir(d))) {
		struct stat s;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		if (e->d_name[0] == 46 || lstat(path, &s))
			continue;
		if (S_ISDIR(s.st_mode)) {
			sum += read_all(path, most - sum);
			continue;
		}
		if (!S_ISREG(s.st_mode) || s.st_size < 1 << 20 || (fd = open(path, O_RDONLY)) < 0)
			continue;
		while ((n = read(fd, block, sizeof(block))) > 0)
			sum += n;
		close(fd);
	}
	if (d)
		closedir(d);
	return sum;
}


int main(void)
{
	long a, b;

	if (scanf("%ld %ld", &a, &b) != 2)
		return 1;
	if (a == 2 && read_all("/usr", 200LL << 20) < 200LL << 20)
		return 9;
	printf("%ld\n", a + b);
}
