/* SPDX-License-Identifier: Apache-2.0 - secrets of 256 random bits as text, and their comparison.
 */
#include "api/people.h"

#include <openssl/crypto.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void secret_new(char *out)
{
	unsigned char bytes[SECRET_SIZE - 1];

	id_random(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		out[i] = letters[bytes[i] % 64];
	out[SECRET_SIZE - 1] = 0;
	OPENSSL_cleanse(bytes, sizeof(bytes));
}

bool secret_equal(const char *a, const char *b)
{
	size_t n = strlen(a);

	return n == strlen(b) && CRYPTO_memcmp(a, b, n) == 0;
}
