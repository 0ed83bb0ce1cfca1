/* SPDX-License-Identifier: Apache-2.0 - scope-bound ownership: variables that free themselves. */
#ifndef SEALMARK_BASE_CLEANUP_H
#define SEALMARK_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Declare with the attribute, initialise at once, and hand ownership over with
 * steal_ptr() or steal_fd() (both leave the variable empty):
 *
 *	cleanup_close int fd = open(...);
 *	cleanup_free char *name = strdup(...);
 *	return steal_fd(&fd);
 */
static inline void cleanup_free_fn(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_fn(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_file_fn(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_dir_fn(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define cleanup(fn)   __attribute__((cleanup(fn)))
#define cleanup_free  cleanup(cleanup_free_fn)
#define cleanup_close cleanup(cleanup_close_fn)
#define cleanup_file  cleanup(cleanup_file_fn)
#define cleanup_dir   cleanup(cleanup_dir_fn)

static inline int steal_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

/* close *fd if it is open and mark it closed */
static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#define steal_ptr(pp)                                                                              \
	({                                                                                         \
		__typeof__(*(pp)) stolen_ = *(pp);                                                 \
		*(pp) = NULL;                                                                      \
		stolen_;                                                                           \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
