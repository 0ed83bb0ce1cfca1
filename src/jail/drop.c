/* SPDX-License-Identifier: Apache-2.0 - giving rights up for good. */
#include "jail/jail_internal.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int jail_drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}, {0}};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	/* Needs CAP_SETPCAP, which an ordinary user lacks; no_new_privs keeps the set useless. */
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno == EINVAL)
			break;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return -errno;
	return syscall(SYS_capset, &header, none) ? -errno : 0;
}

/* To uid:gid with nothing, not even to be looked into. */
static int drop(uid_t uid, gid_t gid, struct error *err)
{
	struct rlimit none = {0, 0};
	uid_t r, e, s;
	int code;

	if (setrlimit(RLIMIT_CORE, &none))
		return error_sys(err, errno, "cannot set the monitor's limits");
	if (chdir("/"))
		return error_sys(err, errno, "/");
	if (geteuid() != uid || getuid() != uid) {
		/* the bounding set first: afterwards there is no right to do so */
		for (unsigned long cap = 0; cap < 64; cap++)
			if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno == EINVAL)
				break;
		if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
			return error_sys(err, errno, "cannot become uid %u", (unsigned)uid);
	}
	code = jail_drop_capabilities();
	if (code)
		return error_sys(err, code, "cannot give up capabilities");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return error_sys(err, errno, "cannot stop others from reading the monitor");
	if (getresuid(&r, &e, &s) || r != uid || e != uid || s != uid)
		return error_set(err, -EPERM, "the monitor is not uid %u", (unsigned)uid);
	return 0;
}

int jail_monitor_drop(uid_t uid, gid_t gid, struct error *err)
{
	struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_NPROC, &none))
		return error_sys(err, errno, "cannot set the monitor's limits");
	return drop(uid, gid, err);
}

int jail_egress_drop(uid_t uid, gid_t gid, struct error *err)
{
	struct rlimit files = {256, 256};

	/* threads are made later, so processes are held back by the list of system calls alone */
	if (setrlimit(RLIMIT_NOFILE, &files))
		return error_sys(err, errno, "cannot set the connector's limits");
	return drop(uid, gid, err);
}
