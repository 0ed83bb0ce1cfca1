/* SPDX-License-Identifier: Apache-2.0 - random identifiers from the kernel's generator. */
#ifndef SEALMARK_BASE_ID_H
#define SEALMARK_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

#define ID_SIZE 37 /* a UUID with its terminator */

/* Fill with random bytes; aborts only when the kernel has no randomness to give. */
void id_random(void *out, size_t count);

/* A random (version 4) UUID in lower case; out has ID_SIZE bytes. */
void id_uuid(char *out);
/* Has a text the length and the letters of one? Then it is one component of a path. */
bool id_is_like(const char *text);

/* 2*count hexadecimal digits of `bytes` and a terminator. */
void id_hex(char *out, const void *bytes, size_t count);

#endif
