/* SPDX-License-Identifier: Apache-2.0 - calls that fail on demand, see faults.h. */
#include "faults.h"

#include "base/text.h"

#include <errno.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char chosen[32];
static atomic_uint left; /* calls until the one that fails */
static atomic_bool hit;

void fault_set(const char *call, unsigned nth)
{
	text_copy(chosen, sizeof(chosen), call ? call : "");
	left = nth;
	hit = false;
}

bool fault_was_hit(void)
{
	return hit;
}

static bool fails(const char *call)
{
	if (strcmp(call, chosen) || !left || --left)
		return false;
	hit = true;
	return true;
}

__attribute__((constructor)) static void read_variable(void)
{
	const char *text = getenv(FAULT_VARIABLE), *colon = text ? strchr(text, ':') : NULL;
	uint32_t nth;

	if (!colon || text_u32(colon + 1, &nth) || (size_t)(colon - text) >= sizeof(chosen))
		return;
	memcpy(chosen, text, (size_t)(colon - text));
	left = nth;
}

#define WRAP(type, name, failure, error, parameters, arguments)                                    \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		if (!fails(#name))                                                                 \
			return __real_##name arguments;                                            \
		errno = error;                                                                     \
		return failure;                                                                    \
	}

WRAP(void *, malloc, NULL, ENOMEM, (size_t size), (size))
WRAP(void *, calloc, NULL, ENOMEM, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, NULL, ENOMEM, (void *old, size_t size), (old, size))
WRAP(char *, strdup, NULL, ENOMEM, (const char *text), (text))
WRAP(int, socketpair, -1, EMFILE, (int domain, int type, int protocol, int *pair),
	(domain, type, protocol, pair))
WRAP(int, socket, -1, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, pipe2, -1, EMFILE, (int *pair, int flags), (pair, flags))
WRAP(pid_t, fork, -1, EAGAIN, (void), ())
WRAP(int, posix_spawn, EAGAIN, EAGAIN,
	(pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const *argv, char *const *env),
	(pid, path, actions, attributes, argv, env))
