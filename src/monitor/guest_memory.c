/* SPDX-License-Identifier: Apache-2.0 - a machine's memory, see guest_memory.h. */
#include "monitor/guest_memory.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define GUARDED_MOST 64

/* what the handler looks through; changed only by calls that touch no guest memory meanwhile */
static struct guest_memory *guarded[GUARDED_MOST];
static struct sigaction before;

/* Only mmap(2), sigaction(2) and plain stores: safe in a signal handler. */
static void on_sigbus(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	uint8_t *at = info->si_addr;

	(void)context;
	for (size_t i = 0; info->si_code > 0 && i < GUARDED_MOST; i++) {
		struct guest_memory *m = guarded[i];

		for (unsigned k = 0; m && k < m->count; k++) {
			struct guest_memory_region *r = &m->regions[k];

			if (at < r->map || at >= r->map + r->map_size)
				continue;
			if (mmap(r->map, r->map_size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
				    0) == MAP_FAILED)
				break;
			m->lost = 1;
			errno = saved;
			return;
		}
	}
	/* not ours: the access happens again, under the handler that was there before */
	sigaction(signal, &before, NULL);
	errno = saved;
}

/* Each time anew: somebody else may have taken the signal since. */
static int install(struct error *err)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO}, now;

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, &now))
		return error_sys(err, errno, "cannot guard guest memory");
	if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_sigbus)
		before = now;
	return 0;
}

int guest_memory_init(struct guest_memory *m, struct error *err)
{
	int r = install(err);

	if (r)
		return r;
	*m = (struct guest_memory){0};
	for (size_t i = 0; i < GUARDED_MOST; i++) {
		if (guarded[i])
			continue;
		guarded[i] = m;
		return 0;
	}
	return error_set(err, -EMFILE, "more than %d machines in one process", GUARDED_MOST);
}

void guest_memory_clear(struct guest_memory *m)
{
	while (m->count) {
		struct guest_memory_region *r = &m->regions[--m->count];

		munmap(r->map, r->map_size);
		*r = (struct guest_memory_region){0};
	}
}

void guest_memory_fini(struct guest_memory *m)
{
	if (!m)
		return;
	guest_memory_clear(m);
	for (size_t i = 0; i < GUARDED_MOST; i++) {
		if (guarded[i] == m)
			guarded[i] = NULL;
	}
}

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

/* A file that only page faults of the kernel's own fill: on others (FUSE) a fault could wait for
 * the machine for ever. */
static int check_file(int fd, uint64_t end, struct error *err)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return error_sys(err, errno, "memory file");
	if (!S_ISREG(st.st_mode) || fs.f_type != TMPFS_MAGIC)
		return error_set(err, -EPROTO, "memory is not a file of a tmpfs");
	if ((uint64_t)st.st_size < end)
		return error_set(err, -EPROTO, "memory region ends behind the end of its file");
	return 0;
}

int guest_memory_add(struct guest_memory *m, int fd, uint64_t guest, uint64_t user, uint64_t size,
	uint64_t offset, struct error *err)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), slack = offset % page, end, total = size;
	struct guest_memory_region *r = &m->regions[m->count];
	void *map;
	int rc;

	if (m->count == GUEST_MEMORY_REGIONS)
		return error_set(err, -EPROTO, "more than %u memory regions", GUEST_MEMORY_REGIONS);
	for (unsigned i = 0; i < m->count; i++)
		total += m->regions[i].size; /* each is at most the limit: no overflow */
	if (size == 0 || size > GUEST_MEMORY_BYTES_MOST || total > GUEST_MEMORY_BYTES_MOST)
		return error_set(err, -EPROTO, "memory region of a size out of range");
	if (__builtin_add_overflow(offset, size, &end) || end > INT64_MAX ||
		guest > UINT64_MAX - size || user > UINT64_MAX - size)
		return error_set(err, -EPROTO, "memory region beyond the address space");
	for (unsigned i = 0; i < m->count; i++) {
		const struct guest_memory_region *o = &m->regions[i];

		if (overlap(guest, size, o->guest, o->size) ||
			overlap(user, size, o->user, o->size))
			return error_set(err, -EPROTO, "memory regions overlap");
	}
	rc = check_file(fd, end, err);
	if (rc)
		return rc;
	map = mmap(NULL, (size_t)(size + slack), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		fd, (off_t)(offset - slack));
	if (map == MAP_FAILED)
		return error_sys(err, errno, "cannot map guest memory");
	*r = (struct guest_memory_region){.guest = guest,
		.user = user,
		.size = size,
		.map = map,
		.map_size = (size_t)(size + slack),
		.base = (uint8_t *)map + slack};
	m->count++;
	return 0;
}

void *guest_memory_at(const struct guest_memory *m, uint64_t guest, uint64_t size)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct guest_memory_region *r = &m->regions[i];

		if (guest >= r->guest && guest - r->guest < r->size &&
			size <= r->size - (guest - r->guest))
			return r->base + (guest - r->guest);
	}
	return NULL;
}

void *guest_memory_at_user(const struct guest_memory *m, uint64_t user, uint64_t size)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct guest_memory_region *r = &m->regions[i];

		if (user >= r->user && user - r->user < r->size &&
			size <= r->size - (user - r->user))
			return r->base + (user - r->user);
	}
	return NULL;
}
