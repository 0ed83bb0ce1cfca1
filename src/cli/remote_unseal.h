/* SPDX-License-Identifier: Apache-2.0 - a key pair for one login, with which a new key is read. */
#ifndef SEALMARK_CLI_REMOTE_UNSEAL_H
#define SEALMARK_CLI_REMOTE_UNSEAL_H

#include "base/error.h"

#include <stddef.h>

struct unseal;

int unseal_new(struct unseal **out, struct error *err);
void unseal_free(struct unseal *u);
/* The public half as PEM; to be freed. NULL: out of memory. */
char *unseal_public(const struct unseal *u);
/* Base64 of RSA-OAEP-SHA256 as printable text. */
int unseal_text(
	const struct unseal *u, const char *sealed, char *out, size_t size, struct error *err);

#endif
