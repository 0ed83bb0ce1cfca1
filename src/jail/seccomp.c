/* SPDX-License-Identifier: Apache-2.0 - the lists of system calls: machine, pid 1, monitor. */
#include "jail/jail_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * Each list names what may be called; everything else ends the process (SECCOMP_RET_KILL_PROCESS),
 * but for a few calls that a C library tries and does without, which fail with ENOSYS. Lists are
 * tables: a number, and optionally one condition on one argument; several lines for one call mean
 * any of them. Calls without a condition are allowed from the kernel's bitmap, so their number
 * costs nothing; conditions are kept off what runs hot.
 *
 * System calls of the guest's programs are no business of the machine's list: in ptrace mode
 * PTRACE_SYSEMU cancels them before seccomp looks. The processes that carry them are still under
 * it, for the calls that the guest kernel makes them do (mmap, munmap, mprotect).
 */
struct rule {
	int call;
	enum { ANY = 0, MASKED, ERROR } test;
	unsigned arg;
	uint64_t mask, value; /* MASKED: allowed when (argument & mask) == value */
};

#define ALLOW(name)                                                                                \
	{                                                                                          \
		.call = SCMP_SYS(name), .test = ANY                                                \
	}
#define ALLOW_IF(name, arg_, mask_, value_)                                                        \
	{                                                                                          \
		SCMP_SYS(name), MASKED, arg_, mask_, value_                                        \
	}
#define ALLOW_IS(name, arg_, value_)                                                               \
	{                                                                                          \
		SCMP_SYS(name), MASKED, arg_, 0xffffffffu, value_                                  \
	}
#define MISSING(name)                                                                              \
	{                                                                                          \
		.call = SCMP_SYS(name), .test = ERROR                                              \
	}

#define NEW_NAMESPACES                                                                             \
	((uint64_t)(uint32_t)(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |          \
			      CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME))

/* What a UML kernel in ptrace mode and the stubs of its processes use. */
static const struct rule machine_rules[] = {
	/* memory, of itself and in the stubs */
	ALLOW(mmap),
	ALLOW(munmap),
	ALLOW(mprotect),
	ALLOW(brk),
	ALLOW(madvise),
	ALLOW(mremap),
	ALLOW(memfd_create),
	/* its processes: clone without new namespaces, the stub from a memory file */
	ALLOW_IF(clone, 0, NEW_NAMESPACES, 0),
	MISSING(clone3),
	ALLOW_IS(execveat, 4, AT_EMPTY_PATH),
	ALLOW(exit),
	ALLOW(exit_group),
	ALLOW(wait4),
	ALLOW(kill),
	ALLOW(tgkill),
	ALLOW(getpid),
	ALLOW(getppid),
	ALLOW(gettid),
	ALLOW(setsid),
	ALLOW(ptrace),
	ALLOW_IS(prctl, 0, PR_SET_PDEATHSIG),
	ALLOW_IS(prctl, 0, PR_SET_NAME),
	ALLOW_IS(prctl, 0, PR_SET_NO_NEW_PRIVS),
	ALLOW(arch_prctl),
	ALLOW(set_tid_address),
	ALLOW(set_robust_list),
	MISSING(rseq),
	ALLOW(futex),
	ALLOW(close_range),
	ALLOW_IS(personality, 0, 0xffffffffu),
	ALLOW_IS(personality, 0, ADDR_NO_RANDOMIZE),
	/* signals and time */
	ALLOW(rt_sigaction),
	ALLOW(rt_sigprocmask),
	ALLOW(rt_sigreturn),
	ALLOW(sigaltstack),
	ALLOW(rt_sigsuspend),
	ALLOW(signalfd4),
	ALLOW(pause),
	ALLOW(restart_syscall),
	ALLOW(clock_gettime),
	ALLOW(timer_create),
	ALLOW(timer_settime),
	ALLOW(nanosleep),
	ALLOW(clock_nanosleep),
	/* its files: nothing but its own is there to be opened */
	ALLOW(read),
	ALLOW(write),
	ALLOW(pread64),
	ALLOW(pwrite64),
	ALLOW(readv),
	ALLOW(writev),
	ALLOW(close),
	ALLOW(lseek),
	ALLOW(openat),
	ALLOW(fcntl),
	ALLOW(newfstatat),
	ALLOW(statfs),
	ALLOW(readlink),
	ALLOW(access),
	ALLOW(dup2),
	ALLOW(mkdir),
	ALLOW(rmdir),
	ALLOW(unlink),
	ALLOW(fchmod),
	ALLOW(fdatasync),
	ALLOW(getdents64),
	ALLOW_IS(ioctl, 1, TCGETS),
	ALLOW_IS(ioctl, 1, TCSETS),
	ALLOW_IS(ioctl, 1, TCSETSW),
	ALLOW_IS(ioctl, 1, TCSETSF),
	ALLOW_IS(ioctl, 1, TIOCGWINSZ),
	/* the channel */
	ALLOW_IS(socket, 0, AF_UNIX),
	ALLOW_IS(socketpair, 0, AF_UNIX),
	ALLOW(connect),
	ALLOW(sendmsg),
	ALLOW(recvmsg),
	ALLOW(poll),
	ALLOW(eventfd2),
	ALLOW(epoll_create),
	ALLOW(epoll_create1),
	ALLOW(epoll_ctl),
	ALLOW(epoll_wait),
	/* what it looks up about itself */
	ALLOW_IS(prlimit64, 0, 0),
	ALLOW(uname),
	ALLOW(sched_getaffinity),
	ALLOW(getrandom),
};

static const struct rule init_rules[] = {
	ALLOW(poll),
	ALLOW(ppoll),
	ALLOW(read),
	ALLOW(wait4),
	ALLOW(kill),
	ALLOW(getpid),
	ALLOW(exit_group),
	ALLOW(rt_sigreturn),
	ALLOW(restart_syscall),
};

/* A libuv loop over descriptors that are open or come by accept or SCM_RIGHTS. */
static const struct rule monitor_rules[] = {
	ALLOW(epoll_wait),
	ALLOW(epoll_pwait),
	ALLOW(epoll_ctl),
	ALLOW(epoll_create1),
	ALLOW(poll),
	ALLOW(ppoll),
	ALLOW(eventfd2),
	ALLOW(timerfd_create),
	ALLOW(timerfd_settime),
	ALLOW(timerfd_gettime),
	ALLOW(read),
	ALLOW(write),
	ALLOW(readv),
	ALLOW(writev),
	ALLOW(preadv2),
	ALLOW(pread64),
	ALLOW(pwrite64),
	ALLOW(lseek),
	ALLOW(close),
	ALLOW(close_range),
	ALLOW(accept4),
	ALLOW(sendmsg),
	ALLOW(recvmsg),
	ALLOW(sendto),
	ALLOW(recvfrom),
	ALLOW(shutdown),
	ALLOW(getsockopt),
	ALLOW(setsockopt),
	ALLOW(getsockname),
	ALLOW(getpeername),
	ALLOW(pipe2),
	ALLOW(dup),
	ALLOW(dup2),
	ALLOW(dup3),
	ALLOW(fcntl),
	ALLOW(fstat),
	ALLOW(fstatfs),
	ALLOW_IF(newfstatat, 3, AT_EMPTY_PATH, AT_EMPTY_PATH),
	ALLOW(fsync),
	ALLOW_IS(ioctl, 1, FIONBIO),
	ALLOW_IS(ioctl, 1, FIONREAD),
	ALLOW_IS(ioctl, 1, FIOCLEX),
	ALLOW_IS(ioctl, 1, TCGETS),
	/* memory that is never code */
	ALLOW_IF(mmap, 2, PROT_EXEC, 0),
	ALLOW_IF(mprotect, 2, PROT_EXEC, 0),
	ALLOW(munmap),
	ALLOW(mremap),
	ALLOW(madvise),
	ALLOW(brk),
	/* signals, time, itself */
	ALLOW(rt_sigaction),
	ALLOW(rt_sigprocmask),
	ALLOW(rt_sigreturn),
	ALLOW(rt_sigtimedwait),
	ALLOW(sigaltstack),
	ALLOW(restart_syscall),
	ALLOW(clock_gettime),
	ALLOW(clock_nanosleep),
	ALLOW(nanosleep),
	ALLOW(gettimeofday),
	ALLOW(futex),
	ALLOW(sched_yield),
	ALLOW(getrandom),
	ALLOW(getpid),
	ALLOW(gettid),
	ALLOW(getppid),
	ALLOW(getuid),
	ALLOW(geteuid),
	ALLOW(getgid),
	ALLOW(getegid),
	ALLOW(getrusage),
	ALLOW_IS(prlimit64, 0, 0),
	ALLOW(getcpu),
	ALLOW(sched_getaffinity),
	ALLOW(wait4),
	ALLOW(exit),
	ALLOW(exit_group),
	/* only by descriptor: a pid could be anybody's of this user; abort(3) signals itself */
	ALLOW(pidfd_send_signal),
};

/* Threads, reading files, sockets to look up and to connect; no exec, no process, no signal. */
static const struct rule egress_rules[] = {
	ALLOW_IF(clone, 0, CLONE_THREAD, CLONE_THREAD),
	MISSING(clone3),
	ALLOW(set_robust_list),
	ALLOW(rseq),
	ALLOW(set_tid_address),
	ALLOW(futex),
	ALLOW(exit),
	ALLOW(exit_group),
	ALLOW_IS(prctl, 0, PR_SET_NAME),
	ALLOW(gettid),
	ALLOW(getpid),
	ALLOW(getuid),
	ALLOW(geteuid),
	ALLOW(getgid),
	ALLOW(getegid),
	ALLOW(uname),
	ALLOW(sysinfo),
	ALLOW(getrandom),
	ALLOW(sched_yield),
	ALLOW(sched_getaffinity),
	ALLOW_IS(prlimit64, 0, 0),
	ALLOW(getrlimit),
	ALLOW(clock_gettime),
	ALLOW(clock_nanosleep),
	ALLOW(nanosleep),
	ALLOW(gettimeofday),
	ALLOW(rt_sigaction),
	ALLOW(rt_sigprocmask),
	ALLOW(rt_sigreturn),
	ALLOW(sigaltstack),
	ALLOW(restart_syscall),
	/* memory; modules for names are loaded when first needed */
	ALLOW(mmap),
	ALLOW(mprotect),
	ALLOW(munmap),
	ALLOW(mremap),
	ALLOW(madvise),
	ALLOW(brk),
	/* files, for reading only */
	ALLOW_IF(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
	ALLOW(newfstatat),
	ALLOW(statx),
	ALLOW(fstat),
	ALLOW(access),
	ALLOW(faccessat),
	ALLOW(readlink),
	ALLOW(readlinkat),
	ALLOW(getdents64),
	ALLOW(read),
	ALLOW(pread64),
	ALLOW(lseek),
	ALLOW(close),
	ALLOW(fcntl),
	ALLOW(write), /* its log */
	ALLOW(writev),
	/* sockets: the world, name servers, the host's cache of names, its own addresses */
	ALLOW_IF(socket, 0, 0xffffffffu, AF_INET),
	ALLOW_IF(socket, 0, 0xffffffffu, AF_INET6),
	ALLOW_IF(socket, 0, 0xffffffffu, AF_UNIX),
	ALLOW_IF(socket, 0, 0xffffffffu, AF_NETLINK),
	ALLOW(connect),
	ALLOW(bind), /* of a netlink socket; ports are of no use without listen */
	ALLOW(getsockname),
	ALLOW(getpeername),
	ALLOW(getsockopt),
	ALLOW(setsockopt),
	ALLOW(sendto),
	ALLOW(sendmsg),
	ALLOW(sendmmsg),
	ALLOW(recvfrom),
	ALLOW(recvmsg),
	ALLOW(shutdown),
	ALLOW(poll),
	ALLOW(ppoll),
	ALLOW_IS(ioctl, 1, FIONREAD),
	ALLOW_IS(ioctl, 1, TCGETS),
};

bool jail_seccomp_only_logs(void)
{
	const char *value = getenv("SEALMARK_SECCOMP_LOG");

	return value && strcmp(value, "1") == 0;
}

static void release_filter(scmp_filter_ctx *context)
{
	if (*context)
		seccomp_release(*context);
}

static int add_rule(scmp_filter_ctx context, const struct rule *rule)
{
	switch (rule->test) {
	case ANY:
		return seccomp_rule_add(context, SCMP_ACT_ALLOW, rule->call, 0);
	case MASKED:
		return seccomp_rule_add(context, SCMP_ACT_ALLOW, rule->call, 1,
			SCMP_CMP(rule->arg, SCMP_CMP_MASKED_EQ, rule->mask, rule->value));
	case ERROR:
		return seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), rule->call, 0);
	}
	return -EINVAL;
}

static int build(const struct rule *rules, size_t count, uint32_t otherwise, scmp_filter_ctx *out,
	struct error *err)
{
	cleanup(release_filter) scmp_filter_ctx context =
		seccomp_init(jail_seccomp_only_logs() ? SCMP_ACT_LOG : otherwise);
	int r;

	if (!context)
		return error_set(err, -ENOMEM, "cannot make a system call list");
	/* the caller has set no_new_privs; calls of another architecture end the process */
	r = seccomp_attr_set(context, SCMP_FLTATR_CTL_NNP, 0);
	if (!r)
		r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	for (size_t i = 0; !r && i < count; i++)
		r = add_rule(context, &rules[i]);
	if (r)
		return error_sys(err, r, "cannot make a system call list");
	*out = steal_ptr(&context);
	return 0;
}

/* libseccomp writes a compiled list to a file only: one in memory. */
static int compile(
	const struct rule *rules, size_t count, struct jail_filter *out, struct error *err)
{
	cleanup(release_filter) scmp_filter_ctx context = NULL;
	cleanup_close int fd = -1;
	off_t size;
	int r = build(rules, count, SCMP_ACT_KILL_PROCESS, &context, err);

	if (r)
		return r;
	fd = memfd_create("list", MFD_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "memfd_create");
	r = seccomp_export_bpf(context, fd);
	if (r)
		return error_sys(err, r, "cannot compile a system call list");
	size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || (size_t)size % sizeof(struct sock_filter) ||
		(size_t)size / sizeof(struct sock_filter) > BPF_MAXINSNS)
		return error_set(err, -EIO, "a compiled system call list has a wrong size");

	cleanup_free struct sock_filter *code = malloc((size_t)size);
	if (!code)
		return error_set(err, -ENOMEM, "no memory for a system call list");
	if (pread(fd, code, (size_t)size, 0) != size)
		return error_sys(err, errno, "cannot read a compiled system call list");
	out->count = (unsigned short)((size_t)size / sizeof(*code));
	out->code = steal_ptr(&code);
	return 0;
}

int jail_filter_machine(struct jail_filter *out, struct error *err)
{
	return compile(machine_rules, ARRAY_SIZE(machine_rules), out, err);
}

int jail_filter_init(struct jail_filter *out, struct error *err)
{
	return compile(init_rules, ARRAY_SIZE(init_rules), out, err);
}

void jail_filter_fini(struct jail_filter *f)
{
	free(f->code);
	*f = (struct jail_filter){NULL, 0};
}

int jail_filter_apply(const struct jail_filter *f)
{
	struct sock_fprog program = {.len = f->count, .filter = f->code};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? -errno : 0;
}

int jail_monitor_seccomp(struct error *err)
{
	cleanup(release_filter) scmp_filter_ctx context = NULL;
	uint64_t self = (uint64_t)getpid();
	int r = build(
		monitor_rules, ARRAY_SIZE(monitor_rules), SCMP_ACT_KILL_PROCESS, &context, err);

	if (r)
		return r;
	r = seccomp_rule_add(
		context, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_CMP(0, SCMP_CMP_EQ, self));
	if (r)
		return error_sys(err, r, "cannot make a system call list");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return error_sys(err, errno, "no_new_privs");
	r = seccomp_load(context);
	return r ? error_sys(err, r, "cannot install the monitor's system call list") : 0;
}

int jail_egress_seccomp(struct error *err)
{
	cleanup(release_filter) scmp_filter_ctx context = NULL;
	int r = build(egress_rules, ARRAY_SIZE(egress_rules), SCMP_ACT_ERRNO(EPERM), &context, err);

	if (r)
		return r;
	r = seccomp_load(context);
	return r ? error_sys(err, r, "cannot install the connector's system call list") : 0;
}
