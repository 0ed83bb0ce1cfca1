/* SPDX-License-Identifier: Apache-2.0 - one cgroup per sandbox: limits, usage, and its removal. */
#include "jail/cgroup_internal.h"
#include "jail/jail.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * Theory of operation
 *
 * A sandbox is the directory sealmark/<id> in each hierarchy used (v2: the one). Whoever made it
 * holds a lock (flock) on the first of them for as long as it or a fork of it lives; a sweep leaves
 * locked ones alone, so that two homes on one host never take each other's for leftovers.
 *
 * Files that are read later are kept open: they stay readable when the right to open them is gone.
 */
#define REMOVE_TIMEOUT_MS 5000
#define BACKOFF_MOST_MS   50
#define ID_MOST           64

struct jail_cgroup {
	struct cgroup_place place;
	char id[ID_MOST + 1];
	int parents[CGROUP_ROLES]; /* the "sealmark" directories, -1: not used */
	int dirs[CGROUP_ROLES];    /* sealmark/<id>; the first is locked */
	int cpu_fd, memory_fd, peak_fd;
	uint64_t peak_seen; /* where the kernel keeps no peak */
};

static bool is_id(const char *id)
{
	size_t n = strlen(id);

	if (n == 0 || n > ID_MOST || id[0] == '.')
		return false;
	for (; *id; id++)
		if (!((*id >= 'a' && *id <= 'z') || (*id >= 'A' && *id <= 'Z') ||
			    (*id >= '0' && *id <= '9') || *id == '-' || *id == '_' || *id == '.'))
			return false;
	return true;
}

static int write_at(int dir, const char *name, const char *value)
{
	cleanup_close int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : path_write_fd(fd, value, strlen(value));
}

static int write_number(int dir, const char *name, uint64_t value)
{
	char text[24];

	text_format(text, sizeof(text), "%llu", (unsigned long long)value);
	return write_at(dir, name, text);
}

static int open_folder(const char *root)
{
	char path[640];
	int fd;

	if (path_join(path, sizeof(path), root, "sealmark", NULL))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_dir_at(int parent, const char *id)
{
	int fd = openat(parent, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Is `dir` still what `parent`/`id` is? A sweep may have come between making and locking it. */
static bool is_in_place(int dir, int parent, const char *id)
{
	struct stat a, b;

	return fstat(dir, &a) == 0 && fstatat(parent, id, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int make_locked(int parent, const char *id)
{
	for (int tries = 0; tries < 8; tries++) {
		cleanup_close int fd = -1;

		if (mkdirat(parent, id, 0755))
			return -errno;
		fd = open_dir_at(parent, id);
		if (fd >= 0 && flock(fd, LOCK_EX) == 0 && is_in_place(fd, parent, id))
			return steal_fd(&fd);
	}
	return -EAGAIN;
}

static int make_dirs(struct jail_cgroup *cg, struct error *err)
{
	for (int i = 0; i < CGROUP_ROLES; i++) {
		if (!cg->place.roots[i][0])
			continue;
		cg->parents[i] = open_folder(cg->place.roots[i]);
		if (cg->parents[i] < 0)
			return error_sys(err, cg->parents[i], "%s/sealmark", cg->place.roots[i]);
		if (i == 0)
			cg->dirs[i] = make_locked(cg->parents[i], cg->id);
		else if (mkdirat(cg->parents[i], cg->id, 0755) && errno != EEXIST)
			cg->dirs[i] = -errno;
		else
			cg->dirs[i] = open_dir_at(cg->parents[i], cg->id);
		if (cg->dirs[i] < 0)
			return error_sys(err, cg->dirs[i], "%s/sealmark/%s: cannot make the cgroup",
				cg->place.roots[i], cg->id);
	}
	return 0;
}

static int set_unified_limits(
	struct jail_cgroup *cg, const struct jail_cgroup_limits *limits, struct error *err)
{
	int dir = cg->dirs[0], r = 0;

	if (limits->memory_bytes) {
		r = write_number(dir, "memory.max", limits->memory_bytes);
		if (r)
			return error_sys(err, r, "memory.max");
		write_at(dir, "memory.swap.max", "0"); /* absent when the host has no swap */
		write_at(dir, "memory.oom.group", "1");
	}
	if (limits->processes)
		r = write_number(dir, "pids.max", limits->processes);
	return r ? error_sys(err, r, "pids.max") : 0;
}

static int set_separate_limits(
	struct jail_cgroup *cg, const struct jail_cgroup_limits *limits, struct error *err)
{
	int memory = cg->dirs[CGROUP_MEMORY], r = 0;

	if (limits->memory_bytes) {
		r = write_number(memory, "memory.limit_in_bytes", limits->memory_bytes);
		if (r)
			return error_sys(err, r, "memory.limit_in_bytes");
		write_number(memory, "memory.memsw.limit_in_bytes", limits->memory_bytes);
		write_number(memory, "memory.swappiness", 0);
	}
	if (limits->processes)
		r = write_number(cg->dirs[CGROUP_PIDS], "pids.max", limits->processes);
	return r ? error_sys(err, r, "pids.max") : 0;
}

static void open_meters(struct jail_cgroup *cg)
{
	const int flags = O_RDONLY | O_CLOEXEC;

	if (cg->place.unified) {
		cg->cpu_fd = openat(cg->dirs[0], "cpu.stat", flags);
		cg->memory_fd = openat(cg->dirs[0], "memory.current", flags);
		cg->peak_fd = openat(cg->dirs[0], "memory.peak", flags);
		return;
	}
	if (cg->dirs[CGROUP_CPUACCT] >= 0)
		cg->cpu_fd = openat(cg->dirs[CGROUP_CPUACCT], "cpuacct.usage", flags);
	cg->memory_fd = openat(cg->dirs[CGROUP_MEMORY], "memory.usage_in_bytes", flags);
	cg->peak_fd = openat(cg->dirs[CGROUP_MEMORY], "memory.max_usage_in_bytes", flags);
}

static struct jail_cgroup *new_empty(const char *id)
{
	struct jail_cgroup *cg = calloc(1, sizeof(*cg));

	if (!cg)
		return NULL;
	text_copy(cg->id, sizeof(cg->id), id);
	for (int i = 0; i < CGROUP_ROLES; i++)
		cg->parents[i] = cg->dirs[i] = -1;
	cg->cpu_fd = cg->memory_fd = cg->peak_fd = -1;
	return cg;
}

int jail_cgroup_new(const char *id, const struct jail_cgroup_limits *limits,
	struct jail_cgroup **out, struct error *err)
{
	struct jail_cgroup *cg;
	int r;

	*out = NULL;
	if (!is_id(id))
		return error_set(err, -EINVAL, "%s: cannot be the name of a cgroup", id);
	cg = new_empty(id);
	if (!cg)
		return error_set(err, -ENOMEM, "no memory for a cgroup");
	if (cgroup_find(&cg->place, NULL)) {
		jail_cgroup_free(cg);
		return 0;
	}
	r = make_dirs(cg, err);
	if (!r)
		r = cg->place.unified ? set_unified_limits(cg, limits, err)
				      : set_separate_limits(cg, limits, err);
	if (r) {
		if (r != -EEXIST)
			jail_cgroup_remove(cg);
		else
			jail_cgroup_free(cg);
		return r;
	}
	open_meters(cg);
	*out = cg;
	return 0;
}

int jail_cgroup_enter(struct jail_cgroup *cg, pid_t pid, struct error *err)
{
	for (int i = 0; i < CGROUP_ROLES; i++) {
		int r = cg->dirs[i] < 0 ? 0
					: write_number(cg->dirs[i], "cgroup.procs", (uint64_t)pid);

		if (r)
			return error_sys(err, r, "%s/sealmark/%s: cannot enter the cgroup",
				cg->place.roots[i], cg->id);
	}
	return 0;
}

/* The number after `key` in the file, or at its start. */
static int read_number(int fd, const char *key, uint64_t *out)
{
	char text[512], *at = text, *end;
	ssize_t n;

	if (fd < 0)
		return -ENOTSUP;
	n = pread(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return -errno;
	text[n] = 0;
	if (key) {
		at = strstr(text, key);
		if (!at)
			return -ENOTSUP;
		at += strlen(key);
	}
	end = at + strcspn(at, "\n");
	*end = 0;
	return text_u64(at, out);
}

int jail_cgroup_cpu_us(struct jail_cgroup *cg, uint64_t *out)
{
	int r;

	if (cg->place.unified)
		return read_number(cg->cpu_fd, "usage_usec ", out);
	r = read_number(cg->cpu_fd, NULL, out);
	if (!r)
		*out /= 1000;
	return r;
}

int jail_cgroup_memory(struct jail_cgroup *cg, uint64_t *now, uint64_t *peak)
{
	uint64_t current, most;
	int r = read_number(cg->memory_fd, NULL, &current);

	if (r)
		return r;
	if (current > cg->peak_seen)
		cg->peak_seen = current;
	if (read_number(cg->peak_fd, NULL, &most))
		most = cg->peak_seen;
	if (now)
		*now = current;
	if (peak)
		*peak = most;
	return 0;
}

const char *jail_cgroup_kind(const struct jail_cgroup *cg)
{
	return cg->place.unified ? "cgroup-v2" : "cgroup-v1";
}

/* Is the process listed in the cgroup? */
static bool is_member(int dir, pid_t pid)
{
	cleanup_close int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	cleanup_file FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[32];
	uint32_t one;

	if (!f)
		return false;
	fd = -1;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (text_u32(line, &one) == 0 && (pid_t)one == pid)
			return true;
	}
	return false;
}

static void kill_members(int dir)
{
	cleanup_close int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	cleanup_file FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[32];
	uint32_t pid;

	if (!f)
		return;
	fd = -1;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (text_u32(line, &pid) || pid <= 1)
			continue;
		cleanup_close int one = (int)syscall(SYS_pidfd_open, pid, 0);
		/* the number may be another process's by now: look again with it held */
		if (one >= 0 && is_member(dir, (pid_t)pid))
			syscall(SYS_pidfd_send_signal, one, SIGKILL, NULL, 0);
	}
}

/* Kill and rmdir one directory, within the deadline. */
static int remove_dir(int parent, const char *id, int64_t deadline_ms)
{
	int backoff_ms = 1;

	for (;;) {
		cleanup_close int dir = -1;

		if (unlinkat(parent, id, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			return -errno;
		if (clock_ms() >= deadline_ms)
			return -EBUSY;
		dir = open_dir_at(parent, id);
		if (dir < 0)
			continue;
		if (write_at(dir, "cgroup.kill", "1"))
			kill_members(dir);
		/* v1 does not say when a cgroup is empty */
		poll(NULL, 0, backoff_ms);
		backoff_ms = backoff_ms < BACKOFF_MOST_MS ? backoff_ms * 2 : BACKOFF_MOST_MS;
	}
}

void jail_cgroup_remove(struct jail_cgroup *cg)
{
	int64_t deadline = clock_deadline_ms(REMOVE_TIMEOUT_MS);

	if (!cg)
		return;
	/* the locked one last: as long as it is there, no sweep takes an interest */
	for (int i = CGROUP_ROLES - 1; i >= 0; i--)
		if (cg->parents[i] >= 0 && cg->dirs[i] >= 0)
			remove_dir(cg->parents[i], cg->id, deadline);
	jail_cgroup_free(cg);
}

void jail_cgroup_free(struct jail_cgroup *cg)
{
	if (!cg)
		return;
	for (int i = 0; i < CGROUP_ROLES; i++) {
		close_fd(&cg->parents[i]);
		close_fd(&cg->dirs[i]);
	}
	close_fd(&cg->cpu_fd);
	close_fd(&cg->memory_fd);
	close_fd(&cg->peak_fd);
	free(cg);
}

/* Held by a living process? Takes the lock into *lock otherwise. */
static bool is_held(int parent, const char *id, int *lock)
{
	*lock = open_dir_at(parent, id);
	if (*lock < 0) /* nothing is there to hold, unless it only cannot be looked at now */
		return *lock == -EMFILE || *lock == -ENFILE || *lock == -ENOMEM;
	return flock(*lock, LOCK_EX | LOCK_NB) != 0;
}

static bool sweep_one(const int *parents, const char *id)
{
	int64_t deadline = clock_deadline_ms(REMOVE_TIMEOUT_MS);
	cleanup_close int lock = -1;
	bool all = true;

	/* the lock is on the first; a leftover in the others alone has lost it long ago */
	if (is_held(parents[0], id, &lock))
		return false;
	for (int i = CGROUP_ROLES - 1; i >= 0; i--)
		if (parents[i] >= 0 && remove_dir(parents[i], id, deadline))
			all = false;
	return all;
}

static int sweep_folder(
	const int *parents, int which, bool (*alive)(void *context, const char *id), void *context)
{
	int fd = openat(parents[which], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int removed = 0;

	if (!dir) {
		close_fd(&fd);
		return 0;
	}
	while ((entry = readdir(dir)))
		if (entry->d_type == DT_DIR && is_id(entry->d_name) &&
			!alive(context, entry->d_name) && sweep_one(parents, entry->d_name))
			removed++;
	return removed;
}

/* -1 where there is none */
static void open_folders(int *parents)
{
	struct cgroup_place place;

	for (int i = 0; i < CGROUP_ROLES; i++)
		parents[i] = -1;
	if (cgroup_find(&place, NULL))
		return;
	for (int i = 0; i < CGROUP_ROLES; i++)
		if (place.roots[i][0] && (parents[i] = open_folder(place.roots[i])) < 0)
			parents[i] = -1;
}

static void close_folders(int *parents)
{
	for (int i = 0; i < CGROUP_ROLES; i++)
		close_fd(&parents[i]);
}

int jail_cgroup_sweep(bool (*alive)(void *context, const char *id), void *context)
{
	int parents[CGROUP_ROLES], removed = 0;

	open_folders(parents);
	for (int i = 0; i < CGROUP_ROLES; i++)
		if (parents[i] >= 0)
			removed += sweep_folder(parents, i, alive, context);
	close_folders(parents);
	return removed;
}

bool jail_cgroup_exists(const char *id)
{
	int parents[CGROUP_ROLES];
	bool exists = false;

	open_folders(parents);
	for (int i = 0; i < CGROUP_ROLES; i++)
		if (parents[i] >= 0 && faccessat(parents[i], id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			exists = true;
	close_folders(parents);
	return exists;
}
