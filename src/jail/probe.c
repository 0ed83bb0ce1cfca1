/* SPDX-License-Identifier: Apache-2.0 - what confinement this host allows, tried out. */
#include "jail/cgroup_internal.h"
#include "jail/jail_internal.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int jail_describe(bool privileged, const struct jail_cgroup *cg, char *out, size_t size)
{
	return text_format(out, size, "userns %s%s%s%s",
		jail_seccomp_only_logs() ? "seccomp-log-only" : "seccomp", cg ? " " : "",
		cg ? jail_cgroup_kind(cg) : "", privileged ? " own-uid" : "");
}

static bool put(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* As the jail does it, down to a mount: some hosts give the namespace but no rights in it. */
static noreturn void try_namespaces(void)
{
	const int kinds = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
			  CLONE_NEWUTS | CLONE_NEWCGROUP;
	char map[64];
	unsigned uid = geteuid(), gid = getegid();

	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (unshare(kinds))
		_exit(1);
	text_format(map, sizeof(map), "%d %u 1", JAIL_INSIDE_ID, uid);
	if (!put("/proc/self/setgroups", "deny") || !put("/proc/self/uid_map", map))
		_exit(2);
	text_format(map, sizeof(map), "%d %u 1", JAIL_INSIDE_ID, gid);
	if (!put("/proc/self/gid_map", map))
		_exit(2);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("probe", "/", "tmpfs", 0, "size=4096"))
		_exit(3);
	_exit(0);
}

static bool namespaces_work(void)
{
	pid_t pid = fork();
	int st = -1;

	if (pid == 0)
		try_namespaces();
	if (pid > 0)
		while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
			;
	return pid > 0 && st == 0;
}

static bool sysctl_is(const char *path, const char *value)
{
	struct buffer text = {0};
	bool is = false;

	if (!path_read(path, 64, &text, NULL) && buffer_text(&text)) {
		char *t = buffer_text(&text);

		t[strcspn(t, "\n")] = 0;
		is = strcmp(t, value) == 0;
	}
	buffer_fini(&text);
	return is;
}

static const char *namespace_cure(void)
{
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") &&
		geteuid() != 0)
		return "run: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or run as "
		       "root)";
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", "0") && geteuid() != 0)
		return "run: sysctl -w kernel.unprivileged_userns_clone=1 (or run as root)";
	if (sysctl_is("/proc/sys/user/max_user_namespaces", "0"))
		return "run: sysctl -w user.max_user_namespaces=15000";
	return "user namespaces are refused here: in a container, start it with the right to make "
	       "them (podman: --security-opt seccomp=unconfined, or --privileged); a chroot never "
	       "has it (systemd-nspawn instead)";
}

/* Is the whole private range ours to give out? */
static bool range_is_mapped(void)
{
	cleanup_file FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long long inside, outside, count;
	const unsigned long long first = JAIL_UID_BASE, most = 2ULL * JAIL_SLOTS;

	while (f && fscanf(f, "%llu %llu %llu", &inside, &outside, &count) == 3)
		if (inside <= first && inside + count >= first + most)
			return true;
	return false;
}

bool jail_has_own_uids(void)
{
	return geteuid() == 0 && range_is_mapped();
}

void jail_probe(struct jail_probe *out)
{
	unsigned action = SECCOMP_RET_KILL_PROCESS;
	struct cgroup_place place;
	struct error err = {0};

	*out = (struct jail_probe){0};
	out->user_namespaces = namespaces_work();
	if (!out->user_namespaces)
		text_copy(out->user_namespaces_cure, sizeof(out->user_namespaces_cure),
			namespace_cure());
	out->own_uids = jail_has_own_uids();
	if (!out->own_uids)
		text_copy(out->own_uids_cure, sizeof(out->own_uids_cure),
			geteuid() == 0
				? "the container maps too few user ids: run on the host as root"
				: "run as root: each sandbox then has a user of its own");
	out->seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
	out->cgroup = cgroup_find(&place, &err) == 0;
	text_copy(out->cgroup_kind, sizeof(out->cgroup_kind),
		!out->cgroup    ? ""
		: place.unified ? "cgroup-v2"
				: "cgroup-v1");
	if (!out->cgroup)
		text_copy(out->cgroup_cure, sizeof(out->cgroup_cure), err.message);
}
