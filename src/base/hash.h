/* SPDX-License-Identifier: Apache-2.0 - SHA-256 digests (OpenSSL libcrypto) in hexadecimal. */
#ifndef SEALMARK_BASE_HASH_H
#define SEALMARK_BASE_HASH_H

#include <stddef.h>

#define HASH_HEX_SIZE 65 /* 64 digits and a terminator */

struct hash; /* a digest being computed */

struct hash *hash_new(void); /* NULL on ENOMEM */
void hash_free(struct hash *h);
void hash_add(struct hash *h, const void *bytes, size_t count);
/* Add length and bytes, so that two fields never run into each other. */
void hash_add_field(struct hash *h, const void *bytes, size_t count);
void hash_end(struct hash *h, char *out_hex); /* h may only be freed after it */

void hash_bytes(const void *bytes, size_t count, char *out_hex);
/* HMAC-SHA-256 */
void hash_hmac(const void *key, size_t key_count, const void *bytes, size_t count, char *out_hex);
/* Whole contents of an open file from offset 0; 0 or negative errno. */
int hash_fd(int fd, char *out_hex);

#endif
