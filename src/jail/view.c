/* SPDX-License-Identifier: Apache-2.0 - the file system a machine sees: an empty root with its
 * files. */
#include "jail/jail_internal.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * Theory of operation
 *
 * The root is a small tmpfs that is attached over "/", made the root with pivot_root(2) and left
 * read only; the old root is then detached, so that no path leads to the host. In it lie mount
 * points for single files of the host (image, initrd, socket) and one tmpfs at /mem, which alone
 * may be written and executed.
 *
 * With uids of its own the machine may lack the right to walk to those files, so the parent takes
 * detached mounts of them with root's rights before it forks, and they are only attached here. An
 * ordinary user cannot do that, and need not: its machine walks with the user's own rights.
 */
#define ROOT_SIZE   "65536"
#define ROOT_INODES "32"
#define MEM_INODES  16u

bool jail_view_item(const struct jail_spec *spec, unsigned i, const char **from, const char **to,
	bool *writable)
{
	const struct engine_plan *plan = spec->plan;

	if (i < plan->bind_count && i < ENGINE_BINDS) {
		*from = plan->binds[i].from[0] ? plan->binds[i].from : spec->socket_path;
		*to = plan->binds[i].to;
		*writable = plan->binds[i].writable;
		return true;
	}
	if (i == plan->bind_count && spec->socket_path && spec->socket_in_root) {
		for (unsigned k = 0; k < i; k++)
			if (strcmp(plan->binds[k].to, spec->socket_in_root) == 0)
				return false; /* the plan has placed it */
		*from = spec->socket_path;
		*to = spec->socket_in_root;
		*writable = false;
		return true;
	}
	return false;
}

static int restrict_mount(int fd, bool writable)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
	};

	if (!writable)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	return mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) ? -errno : 0;
}

int jail_view_clone(const char *path, bool writable)
{
	cleanup_close int fd = open_tree(
		AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	int r;

	if (fd < 0)
		return -errno;
	r = restrict_mount(fd, writable);
	return r ? r : steal_fd(&fd);
}

struct option {
	const char *key, *value;
};

/* A detached tmpfs; fd or negative errno. */
static int new_tmpfs(const struct option *options, unsigned flags)
{
	cleanup_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0)
		return -errno;
	for (; options->key; options++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options->key, options->value, 0))
			return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, flags);
	return fd < 0 ? -errno : fd;
}

static int fail(struct jail_job *job, int code, const char *what)
{
	text_copy(job->detail, sizeof(job->detail), what);
	return code;
}

/* The working directory is the new root. */
static int show(struct jail_job *job, unsigned i, const char *from, const char *to, bool writable)
{
	cleanup_close int tree = job->own_uids ? job->tree_fds[i] : jail_view_clone(from, writable);
	cleanup_close int point = -1;

	job->tree_fds[i] = -1;
	if (tree < 0)
		return fail(job, tree, from);
	point = openat(
		AT_FDCWD, to + 1, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (point < 0)
		return fail(job, -errno, to);
	if (move_mount(tree, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH))
		return fail(job, -errno, from);
	return 0;
}

static int add_mem(struct jail_job *job)
{
	const struct engine_plan *plan = job->spec->plan;
	char size[24], inodes[24];
	uint64_t count = plan->scratch_files ? plan->scratch_files : MEM_INODES;
	const struct option options[] = {
		{"size", size}, {"nr_inodes", inodes}, {"mode", "0700"}, {NULL, NULL}};

	text_format(size, sizeof(size), "%llu", (unsigned long long)plan->scratch_bytes);
	text_format(inodes, sizeof(inodes), "%llu", (unsigned long long)count);
	if (mkdirat(AT_FDCWD, "mem", 0700))
		return fail(job, -errno, "/mem");
	cleanup_close int fd = new_tmpfs(options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (fd < 0)
		return fail(job, fd, "/mem");
	if (move_mount(fd, "", AT_FDCWD, "mem", MOVE_MOUNT_F_EMPTY_PATH))
		return fail(job, -errno, "/mem");
	return 0;
}

int jail_view_enter(struct jail_job *job)
{
	static const struct option root_options[] = {
		{"size", ROOT_SIZE}, {"nr_inodes", ROOT_INODES}, {"mode", "0755"}, {NULL, NULL}};
	struct mount_attr private = {.propagation = MS_PRIVATE};
	struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
	const char *from, *to;
	bool writable;
	int r;

	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof(private)))
		return fail(job, -errno, "the mounts of the host cannot be made private");
	cleanup_close int root =
		new_tmpfs(root_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (root < 0)
		return fail(job, root, "tmpfs");
	if (move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) || fchdir(root))
		return fail(job, -errno, "the new root");
	for (unsigned i = 0; jail_view_item(job->spec, i, &from, &to, &writable); i++) {
		/* relative host paths do not exist: start.c refuses them */
		r = show(job, i, from, to, writable);
		if (r)
			return r;
	}
	if (job->spec->plan->scratch_bytes) {
		r = add_mem(job);
		if (r)
			return r;
	}
	/* new and old root at one place: the old one then lies over the new and is peeled off */
	if (syscall(SYS_pivot_root, ".", "."))
		return fail(job, -errno, "pivot_root");
	if (umount2(".", MNT_DETACH))
		return fail(job, -errno, "the old root cannot be detached");
	if (chdir("/"))
		return fail(job, -errno, "/");
	if (mount_setattr(AT_FDCWD, "/", 0, &read_only, sizeof(read_only)))
		return fail(job, -errno, "the new root cannot be made read only");
	return 0;
}
