/* SPDX-License-Identifier: Apache-2.0 - a program for jail tests: tells what it can see and do. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Started as the machine, statically linked. argv[1] says what to do:
 *
 *	look		print facts, one "name value" a line
 *	try WHAT	do one forbidden thing in a child and print how that ended
 *	spin		use 0.3 s of processor time in itself and as much in a child, then exit 7
 *	daemon		double-fork a process that holds fd 1 for ever, print "ready", wait for ever
 *	wait		print "ready" and wait for ever
 *	abort		SIGABRT
 *	fork		fork until it fails, print how many there were
 *	fill		write to /mem until it fails, print how many MiB there were
 */
static int fact(const char *name, long long value)
{
	return printf("%s %lld\n", name, value);
}

static void look_at_root(void)
{
	DIR *dir = opendir("/");
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			printf("entry %s\n", e->d_name);
	if (dir)
		closedir(dir);
}

static void look_at_descriptors(void)
{
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			fact("fd", fd);
}

static void look_at_limits(void)
{
	struct rlimit r;

	getrlimit(RLIMIT_CORE, &r);
	fact("core", (long long)r.rlim_max);
	getrlimit(RLIMIT_NPROC, &r);
	fact("nproc", (long long)r.rlim_max);
	getrlimit(RLIMIT_FSIZE, &r);
	fact("fsize", (long long)r.rlim_max);
	getrlimit(RLIMIT_MEMLOCK, &r);
	fact("memlock", (long long)r.rlim_max);
}

static long long connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), r;

	memcpy(address.sun_path, path, strlen(path) + 1);
	r = connect(fd, (struct sockaddr *)&address, sizeof(address));
	r = r ? -errno : 0;
	close(fd);
	return r;
}

static long long open_for(const char *path, int flags)
{
	int fd = open(path, flags, 0600), r = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

static void look_at_files(void)
{
	struct statvfs v = {0};
	char text[16] = "";
	int fd = open("/image", O_RDONLY);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0)
		printf("image %s\n", text);
	fact("image_write", open_for("/image", O_WRONLY));
	fact("root_write", open_for("/new", O_WRONLY | O_CREAT));
	fact("mem_write", open_for("/mem/new", O_WRONLY | O_CREAT));
	fact("host_file", open_for("/etc/passwd", O_RDONLY));
	fact("host_up", open_for("/../../etc/passwd", O_RDONLY));
	fact("proc", open_for("/proc/self/status", O_RDONLY));
	fact("null", open_for("/dev/null", O_RDONLY));
	if (statvfs("/mem", &v) == 0)
		fact("mem_bytes", (long long)(v.f_blocks * v.f_frsize));
	if (statvfs("/", &v) == 0)
		fact("root_flags", (long long)(v.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV)));
	if (statvfs("/image", &v) == 0)
		fact("image_flags",
			(long long)(v.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC)));
	fact("socket", connect_to("/vsock"));
}

static void look(char **env)
{
	char byte;

	for (; *env; env++)
		printf("env %s\n", *env);
	fact("uid", (long long)getauxval(AT_UID)); /* getuid(2) is not on the list */
	fact("gid", (long long)getauxval(AT_GID));
	fact("pid", getpid());
	fact("ppid", getppid());
	fact("stdin", read(0, &byte, 1));
	fact("ptrace_init", ptrace(PTRACE_PEEKUSER, 1, 0, 0) == -1 ? -errno : 0);
	fact("kill_init", kill(1, SIGKILL) ? -errno : 0);
	fact("kill_others", kill(-1, 0) ? -errno : 0);
	for (int pid = 1; pid < 3000; pid++)
		if (kill(pid, 0) == 0)
			fact("process", pid);
	look_at_root();
	look_at_descriptors();
	look_at_limits();
	look_at_files();
}

/* Each is one call that the list must end the process for, or that must fail. */
static long attempt(const char *what)
{
	char *const argv[] = {"x", NULL};

	if (strcmp(what, "unshare") == 0)
		return unshare(CLONE_NEWUSER);
	if (strcmp(what, "clone") == 0)
		return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (strcmp(what, "clone3") == 0)
		return syscall(SYS_clone3, NULL, 0);
	if (strcmp(what, "mount") == 0)
		return mount("x", "/mem", "tmpfs", 0, "");
	if (strcmp(what, "inet") == 0)
		return socket(AF_INET, SOCK_STREAM, 0);
	if (strcmp(what, "netlink") == 0)
		return socket(AF_NETLINK, SOCK_RAW, 0);
	if (strcmp(what, "vsock") == 0)
		return socket(40, SOCK_STREAM, 0);
	if (strcmp(what, "execve") == 0)
		return execve("/image", argv, NULL);
	if (strcmp(what, "mknod") == 0)
		return mknod("/mem/kmsg", S_IFCHR | 0600, 0x10b);
	if (strcmp(what, "keyctl") == 0)
		return syscall(SYS_keyctl, 0, 0);
	if (strcmp(what, "bpf") == 0)
		return syscall(SYS_bpf, 0, NULL, 0);
	if (strcmp(what, "io_uring") == 0)
		return syscall(SYS_io_uring_setup, 1, NULL);
	if (strcmp(what, "setuid") == 0)
		return setuid(0);
	if (strcmp(what, "tiocsti") == 0)
		return syscall(SYS_ioctl, 0, 0x5412, "x");
	if (strcmp(what, "chroot") == 0)
		return chroot("/mem");
	if (strcmp(what, "process_vm_readv") == 0)
		return syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0);
	return printf("no such attempt\n");
}

static void try(const char *what)
{
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		long r = attempt(what);

		_exit(r < 0 ? errno : 0);
	}
	waitpid(pid, &st, 0);
	if (WIFSIGNALED(st))
		printf("signal %d\n", WTERMSIG(st));
	else
		printf("errno %d\n", WEXITSTATUS(st));
}

static void use_processor(void)
{
	struct timespec t;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_nsec < 300000000 && t.tv_sec == 0);
}

static int spin(void)
{
	int ends[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	if (fork() == 0) {
		use_processor();
		if (write(ends[1], "x", 1) != 1)
			_exit(1);
		/* it goes on: it is killed and reaped by pid 1, and must count all the same */
		for (;;)
			pause();
	}
	use_processor();
	return read(ends[0], &byte, 1) == 1 ? 7 : 1;
}

static void make_daemon(void)
{
	if (fork() == 0) {
		setsid();
		if (fork() == 0)
			for (;;)
				pause();
		_exit(0);
	}
	wait(NULL);
}

static void fork_all(void)
{
	int count = 0;

	for (;; count++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0)
			for (;;)
				pause();
	}
	fact("forked", count);
}

static void fill(void)
{
	static char block[1 << 20];
	int fd = open("/mem/fill", O_WRONLY | O_CREAT, 0600), count = 0;

	memset(block, 1, sizeof(block));
	signal(SIGXFSZ, SIG_IGN);
	while (write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		count++;
	fact("filled", count);
}

int main(int argc, char **argv, char **env)
{
	const char *mode = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (strcmp(mode, "look") == 0)
		look(env);
	else if (strcmp(mode, "try") == 0 && argc > 2)
		try(argv[2]);
	else if (strcmp(mode, "spin") == 0)
		return spin();
	else if (strcmp(mode, "fork") == 0)
		fork_all();
	else if (strcmp(mode, "fill") == 0)
		fill();
	else if (strcmp(mode, "abort") == 0)
		abort();
	else if (strcmp(mode, "daemon") == 0 || strcmp(mode, "wait") == 0) {
		if (mode[0] == 'd')
			make_daemon();
		printf("ready\n");
		for (;;)
			pause();
	} else
		return 2;
	return 0;
}
