/* SPDX-License-Identifier: Apache-2.0 - the processes of one exec, held together by a cgroup. */
#include "cgroup.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 64

#define CGROUP_CLOSED                                                                              \
	.procs_fd = -1, .events_fd = -1, .cpu_fd = -1, .peak_fd = -1, .memory_events_fd = -1,      \
	.pids_events_fd = -1, .memory_max_fd = -1, .pids_max_fd = -1

static const struct cgroup cgroup_none = {CGROUP_CLOSED};

static void file_name(char *out, uint32_t number, const char *file)
{
	snprintf(out, NAME_SIZE, "exec-%" PRIu32 "%s%s", number, *file ? "/" : "", file);
}

static int open_file(int root, uint32_t number, const char *file, int flags)
{
	char name[NAME_SIZE];

	file_name(name, number, file);
	return openat(root, name, flags | O_CLOEXEC);
}

static int write_file(int root, uint32_t number, const char *file, const char *value)
{
	int fd = open_file(root, number, file, O_WRONLY);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* The number after "key " at the start of a line of a file that is read anew; 0 without it. */
static uint64_t read_key(int fd, const char *key)
{
	size_t length = strlen(key);
	char text[512], *line;
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return 0;
	text[n] = 0;
	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length) && line[length] == ' ')
			return strtoull(line + length + 1, NULL, 10);
	}
	return 0;
}

static void close_files(struct cgroup *cg)
{
	int fds[] = {cg->procs_fd, cg->events_fd, cg->cpu_fd, cg->peak_fd, cg->memory_events_fd,
		cg->pids_events_fd, cg->memory_max_fd, cg->pids_max_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	*cg = (struct cgroup){.number = cg->number, CGROUP_CLOSED};
}

static int make(struct cgroup_pool *pool, int root, struct cgroup *cg)
{
	char name[NAME_SIZE];

	*cg = cgroup_none;
	file_name(name, pool->next, "");
	if (mkdirat(root, name, 0755))
		return -errno;
	cg->number = pool->next++;
	cg->procs_fd = open_file(root, cg->number, "cgroup.procs", O_RDWR);
	cg->events_fd = open_file(root, cg->number, "cgroup.events", O_RDONLY);
	cg->cpu_fd = open_file(root, cg->number, "cpu.stat", O_RDONLY);
	cg->peak_fd = open_file(root, cg->number, "memory.peak", O_RDONLY);
	cg->memory_events_fd = open_file(root, cg->number, "memory.events", O_RDONLY);
	cg->pids_events_fd = open_file(root, cg->number, "pids.events", O_RDONLY);
	cg->memory_max_fd = open_file(root, cg->number, "memory.max", O_WRONLY);
	cg->pids_max_fd = open_file(root, cg->number, "pids.max", O_WRONLY);
	if (cg->procs_fd < 0 || cg->events_fd < 0 || cg->cpu_fd < 0) {
		int error = errno;

		cgroup_drop(pool, cg);
		return -error;
	}
	/* However many processes it has, they weigh less than one worker of the kernel, which may
	 * be carrying the host's word to end them. */
	write_file(root, cg->number, "cpu.weight", "10");
	/* One process out of memory is the end of them all: no half-alive verdicts. */
	write_file(root, cg->number, "memory.oom.group", "1");
	return 0;
}

void cgroup_pool_init(struct cgroup_pool *pool)
{
	pool->spare = cgroup_none;
	pool->next = 1;
	pool->dead_count = 0;
}

bool cgroup_pool_tend(struct cgroup_pool *pool, int root)
{
	uint32_t kept = 0, before = pool->dead_count;
	char name[NAME_SIZE];

	if (root < 0)
		return false;
	for (uint32_t i = 0; i < before; i++) {
		struct cgroup *cg = &pool->dead[i];

		close_files(cg);
		file_name(name, cg->number, "");
		if (unlinkat(root, name, AT_REMOVEDIR) && errno == EBUSY)
			pool->dead[kept++] = *cg;
	}
	pool->dead_count = kept;
	if (pool->spare.number)
		return kept != before;
	return make(pool, root, &pool->spare) == 0;
}

int cgroup_take(struct cgroup_pool *pool, int root, struct cgroup *out)
{
	*out = cgroup_none;
	if (root < 0)
		return 0;
	if (!pool->spare.number)
		return make(pool, root, out);
	*out = pool->spare;
	pool->spare = cgroup_none;
	return 0;
}

static int write_number(int fd, uint64_t number)
{
	char value[32];
	int n = snprintf(value, sizeof(value), "%" PRIu64, number);

	return write(fd, value, (size_t)n) == n ? 0 : -errno;
}

int cgroup_limit(const struct cgroup *cg, uint64_t memory_bytes, uint32_t processes)
{
	int r = 0;

	if (cg->number && memory_bytes)
		r = write_number(cg->memory_max_fd, memory_bytes);
	if (cg->number && processes && !r)
		r = write_number(cg->pids_max_fd, processes);
	return r;
}

/* Signal all that cgroup.procs lists, a page at a time. */
static void signal_listed(const struct cgroup *cg, int signal)
{
	char text[4096];
	size_t kept = 0;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(cg->procs_fd, text + kept, sizeof(text) - 1 - kept, at)) > 0) {
		char *line = text, *end;

		at += n;
		text[kept + (size_t)n] = 0;
		while ((end = strchr(line, '\n'))) {
			long pid = strtol(line, NULL, 10);

			if (pid > 1)
				kill((pid_t)pid, signal);
			line = end + 1;
		}
		kept = strlen(line);
		memmove(text, line, kept);
	}
}

void cgroup_signal(const struct cgroup *cg, int root, int signal)
{
	if (!cg->number) {
		tree_signal(cg->main, cg->alone, signal);
		return;
	}
	if (signal == SIGKILL && write_file(root, cg->number, "cgroup.kill", "1") == 0)
		return;
	if (signal != SIGKILL) {
		signal_listed(cg, signal);
		return;
	}
	/* Kernels before 5.14: nothing forks while it is frozen, and the killed leave all the same.
	 */
	write_file(root, cg->number, "cgroup.freeze", "1");
	signal_listed(cg, signal);
	write_file(root, cg->number, "cgroup.freeze", "0");
}

void cgroup_freeze(const struct cgroup *cg, int root, bool frozen)
{
	if (cg->number)
		write_file(root, cg->number, "cgroup.freeze", frozen ? "1" : "0");
}

bool cgroup_is_empty(const struct cgroup *cg)
{
	char text[128];
	ssize_t n;

	if (!cg->number)
		return tree_is_empty(cg->main, cg->alone);
	n = pread(cg->events_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return true;
	text[n] = 0;
	return strstr(text, "populated 0") != NULL;
}

uint64_t cgroup_cpu_us(const struct cgroup *cg)
{
	return cg->number ? read_key(cg->cpu_fd, "usage_usec") : tree_cpu_us(cg->main, cg->alone);
}

uint64_t cgroup_memory_peak(const struct cgroup *cg)
{
	char text[32];
	ssize_t n = cg->peak_fd >= 0 ? pread(cg->peak_fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return 0;
	text[n] = 0;
	return strtoull(text, NULL, 10);
}

uint64_t cgroup_oom_kills(const struct cgroup *cg)
{
	return read_key(cg->memory_events_fd, "oom_kill");
}

uint64_t cgroup_refused_forks(const struct cgroup *cg)
{
	return read_key(cg->pids_events_fd, "max");
}

void cgroup_drop(struct cgroup_pool *pool, struct cgroup *cg)
{
	if (cg->number) {
		/* The list is as long as execs can be open; one that will not go is let lie. */
		if (pool->dead_count < CGROUP_DEAD_MOST)
			pool->dead[pool->dead_count++] = *cg;
		else
			close_files(cg);
	}
	*cg = cgroup_none;
}

uint64_t cgroup_total_cpu_us(int root)
{
	uint64_t us = 0;
	int fd = root >= 0 ? openat(root, "cpu.stat", O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		us = read_key(fd, "usage_usec");
		close(fd);
	}
	return us;
}
