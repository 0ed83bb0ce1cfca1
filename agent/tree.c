/* SPDX-License-Identifier: Apache-2.0 - a process and all it started, found in /proc. */
#include "tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TREE_MOST 4096

struct process {
	pid_t pid, parent, session;
	bool zombie, member;
	uint64_t ticks;
};

/* One snapshot at a time; only touched where it is used. */
static struct process table[TREE_MOST];

static bool read_process(const char *pid, struct process *p)
{
	char path[64], text[1024], *after;
	unsigned long user, system, child_user, child_system;
	ssize_t n;
	char state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	/* the name is in parentheses and may hold anything, parentheses too */
	after = strrchr(text, ')');
	if (!after || sscanf(after + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
			      &state, &p->parent, &p->session, &user, &system, &child_user,
			      &child_system) != 7)
		return false;
	p->pid = (pid_t)strtol(pid, NULL, 10);
	p->zombie = state == 'Z' || state == 'X';
	p->ticks = user + system + child_user + child_system;
	p->member = false;
	return true;
}

/* Fill the table and mark the members of the tree. */
static size_t snapshot(pid_t main, bool alone)
{
	DIR *dir = opendir("/proc");
	pid_t self = getpid();
	struct dirent *d;
	size_t count = 0;
	bool grew = true;

	while (dir && count < TREE_MOST && (d = readdir(dir)))
		if (isdigit((unsigned char)d->d_name[0]) && read_process(d->d_name, &table[count]))
			count++;
	if (dir)
		closedir(dir);
	for (size_t i = 0; i < count; i++)
		table[i].member = table[i].pid == main || table[i].session == main ||
				  (alone && table[i].parent == self);
	while (grew) {
		grew = false;
		for (size_t i = 0; i < count; i++) {
			for (size_t k = 0; k < count && !table[i].member; k++) {
				if (!table[k].member || table[k].pid != table[i].parent)
					continue;
				table[i].member = true;
				grew = true;
			}
		}
	}
	return count;
}

void tree_signal(pid_t main, bool alone, int signal)
{
	size_t count = snapshot(main, alone);

	for (size_t i = 0; i < count; i++)
		if (table[i].member && !table[i].zombie && table[i].pid > 1)
			kill(table[i].pid, signal);
}

bool tree_is_empty(pid_t main, bool alone)
{
	size_t count = snapshot(main, alone);

	for (size_t i = 0; i < count; i++)
		if (table[i].member && !table[i].zombie)
			return false;
	return true;
}

uint64_t tree_cpu_us(pid_t main, bool alone)
{
	uint64_t ticks = 0, per_second = (uint64_t)sysconf(_SC_CLK_TCK);
	size_t count = snapshot(main, alone);

	for (size_t i = 0; i < count; i++)
		if (table[i].member)
			ticks += table[i].ticks;
	return per_second ? ticks * 1000000u / per_second : 0;
}
