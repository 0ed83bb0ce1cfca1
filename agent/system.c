/* SPDX-License-Identifier: Apache-2.0 - requests about the machine: statistics, clock, entropy. */
#include "agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define ENTROPY_MOST 512u

/* "MemAvailable:   1234 kB" counts page cache that can go; sysinfo does not. */
static uint64_t memory_available(void)
{
	char text[512], *line;
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	line = strstr(text, "MemAvailable:");
	return line ? strtoull(line + strlen("MemAvailable:"), NULL, 10) << 10 : 0;
}

void system_stats(struct agent *a, struct stream *s)
{
	struct wire_stats_reply m = {.uptime_us = agent_now_us()};
	struct sysinfo info;
	struct statfs fs;

	if (sysinfo(&info) == 0) {
		m.memory_total_bytes = (uint64_t)info.totalram * info.mem_unit;
		m.processes = info.procs;
	}
	m.memory_free_bytes = memory_available();
	if (a->disk_fd >= 0 && fstatfs(a->disk_fd, &fs) == 0) {
		m.disk_total_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
		m.disk_free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	}
	m.cpu_us = cgroup_total_cpu_us(a->cgroup_fd);
	stream_final(a, s, wire_put_stats_reply(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &m));
}

void system_clock(const struct wire_clock *m)
{
	struct timespec t = {.tv_sec = (time_t)(m->realtime_ns / 1000000000),
		.tv_nsec = (long)(m->realtime_ns % 1000000000)};

	if (m->realtime_ns >= 0 && clock_settime(CLOCK_REALTIME, &t))
		perror("sealmark-agent: clock");
}

/* From linux/random.h, which musl's headers do not have. */
#define RANDOM_ADD    _IOW('R', 0x03, int[2])
#define RANDOM_RESEED _IO('R', 0x07)

void system_entropy(const struct wire_entropy *m)
{
	struct {
		int bits, bytes;
		uint8_t data[ENTROPY_MOST];
	} pool = {0};
	uint32_t n = m->bytes.count;
	int fd;

	if (n > ENTROPY_MOST)
		n = ENTROPY_MOST;
	pool.bits = (int)(n * 8);
	pool.bytes = (int)n;
	memcpy(pool.data, m->bytes.bytes, n);
	fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, RANDOM_ADD, &pool) || ioctl(fd, RANDOM_RESEED))
		perror("sealmark-agent: entropy");
	if (fd >= 0)
		close(fd);
}
