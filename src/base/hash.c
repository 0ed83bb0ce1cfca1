/* SPDX-License-Identifier: Apache-2.0 - SHA-256 by OpenSSL libcrypto, see hash.h. */
#include "base/hash.h"

#include "base/cleanup.h"
#include "base/id.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct hash {
	EVP_MD_CTX *ctx;
};

struct hash *hash_new(void)
{
	struct hash *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->ctx = EVP_MD_CTX_new();
	if (!h->ctx || !EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL)) {
		hash_free(h);
		return NULL;
	}
	return h;
}

void hash_free(struct hash *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->ctx);
	free(h);
}

void hash_add(struct hash *h, const void *bytes, size_t count)
{
	if (!EVP_DigestUpdate(h->ctx, bytes, count))
		abort();
}

void hash_add_field(struct hash *h, const void *bytes, size_t count)
{
	uint8_t n[8];

	for (int i = 0; i < 8; i++)
		n[i] = (uint8_t)((uint64_t)count >> (8 * i));
	hash_add(h, n, sizeof(n));
	hash_add(h, bytes, count);
}

void hash_end(struct hash *h, char *out_hex)
{
	uint8_t d[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!EVP_DigestFinal_ex(h->ctx, d, &n) || n != 32)
		abort();
	id_hex(out_hex, d, n);
}

void hash_bytes(const void *bytes, size_t count, char *out_hex)
{
	uint8_t d[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!EVP_Digest(bytes, count, d, &n, EVP_sha256(), NULL))
		abort();
	id_hex(out_hex, d, n);
}

void hash_hmac(const void *key, size_t key_count, const void *bytes, size_t count, char *out_hex)
{
	uint8_t d[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!HMAC(EVP_sha256(), key, (int)key_count, bytes, count, d, &n))
		abort();
	id_hex(out_hex, d, n);
}

int hash_fd(int fd, char *out_hex)
{
	struct hash *h = hash_new();
	cleanup_free uint8_t *chunk = malloc(1 << 18);
	off_t at = 0;

	if (!h || !chunk) {
		hash_free(h);
		return -ENOMEM;
	}
	for (;;) {
		ssize_t n = pread(fd, chunk, 1 << 18, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			hash_free(h);
			return r;
		}
		if (n == 0)
			break;
		hash_add(h, chunk, (size_t)n);
		at += n;
	}
	hash_end(h, out_hex);
	hash_free(h);
	return 0;
}
