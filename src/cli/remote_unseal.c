/* SPDX-License-Identifier: Apache-2.0 - a key pair for one login (OpenSSL); its private half never
 * leaves this process. */
#include "cli/remote_unseal.h"

#include "cli/remote.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <string.h>

#define BITS 3072

struct unseal {
	EVP_PKEY *pair;
};

int unseal_new(struct unseal **out, struct error *err)
{
	struct unseal *u = calloc(1, sizeof(*u));

	if (u)
		u->pair = EVP_RSA_gen(BITS);
	if (!u || !u->pair) {
		unseal_free(u);
		return error_set(err, -ENOMEM, "cannot make a key pair");
	}
	*out = u;
	return 0;
}

void unseal_free(struct unseal *u)
{
	if (!u)
		return;
	EVP_PKEY_free(u->pair);
	free(u);
}

char *unseal_public(const struct unseal *u)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *pem = NULL, *text = NULL;
	long length = 0;

	if (bio && PEM_write_bio_PUBKEY(bio, u->pair))
		length = BIO_get_mem_data(bio, &pem);
	if (length > 0)
		text = strndup(pem, (size_t)length);
	BIO_free(bio);
	return text;
}

static bool is_printable(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	}
	return length > 0;
}

int unseal_text(
	const struct unseal *u, const char *sealed, char *out, size_t size, struct error *err)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(u->pair, NULL);
	unsigned char plain[BITS / 8];
	size_t length = sizeof(plain);
	struct buffer bytes = {0};
	bool good = context && remote_unbase64(sealed, &bytes) == 0 &&
		    EVP_PKEY_decrypt_init(context) == 1 &&
		    EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1 &&
		    EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha256()) == 1 &&
		    EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha256()) == 1 &&
		    EVP_PKEY_decrypt(context, plain, &length, buffer_bytes(&bytes),
			    buffer_length(&bytes)) == 1 &&
		    length < size && is_printable((char *)plain, length);

	if (good) {
		memcpy(out, plain, length);
		out[length] = 0;
	}
	explicit_bzero(plain, sizeof(plain));
	EVP_PKEY_CTX_free(context);
	buffer_fini(&bytes);
	return good ? 0 : error_set(err, -EBADMSG, "the key that the server sent cannot be read");
}
