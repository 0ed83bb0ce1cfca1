/* SPDX-License-Identifier: Apache-2.0 - a new key, encrypted for the program that asked for it. */
#include "api/people.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

/* The public key is a stranger's. It is only ever used to encrypt with, once, when a person says
 * so; size and exponent have bounds, so that nobody chooses how long that takes. */
#define TEXT_MOST     4096
#define BITS_LEAST    2048
#define BITS_MOST     8192
#define EXPONENT_BITS 33

#define PEM_BEGIN "-----BEGIN PUBLIC KEY-----"
#define PEM_END   "-----END PUBLIC KEY-----"

static void free_key(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

static void free_context(EVP_PKEY_CTX **context)
{
	EVP_PKEY_CTX_free(*context);
}

/* Base64 (also its url-safe form) without white space and PEM's lines, padded. */
static int take_base64(const char *text, struct buffer *out)
{
	const char *begin = strstr(text, PEM_BEGIN), *end = NULL;
	struct buffer plain = {0};
	int r = 0;

	if (begin) {
		text = begin + strlen(PEM_BEGIN);
		end = strstr(text, PEM_END);
		if (!end)
			return -EINVAL;
	}
	for (const char *p = text; *p && p != end && !r; p++) {
		const char c = *p == '-' ? '+' : *p == '_' ? '/' : *p;

		if (!strchr(" \t\r\n", c))
			r = buffer_add(&plain, &c, 1);
	}
	while (!r && buffer_length(&plain) % 4)
		r = buffer_add(&plain, "=", 1);
	if (!r)
		r = buffer_text(&plain) ? api_unbase64(buffer_text(&plain), out) : -ENOMEM;
	buffer_fini(&plain);
	return r;
}

/* an RSA key that may be used, of all of the bytes; NULL */
static EVP_PKEY *parse(const uint8_t *bytes, size_t count)
{
	const unsigned char *p = bytes;
	EVP_PKEY *key = count && count <= TEXT_MOST ? d2i_PUBKEY(NULL, &p, (long)count) : NULL;
	BIGNUM *e = NULL, *n = NULL;
	bool good;

	good = key && p == bytes + count && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
	       EVP_PKEY_get_bits(key) >= BITS_LEAST && EVP_PKEY_get_bits(key) <= BITS_MOST &&
	       EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e) &&
	       EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &n) && BN_is_odd(n) &&
	       BN_is_odd(e) && BN_num_bits(e) > 1 && BN_num_bits(e) <= EXPONENT_BITS;
	BN_free(e);
	BN_free(n);
	if (good)
		return key;
	EVP_PKEY_free(key);
	return NULL;
}

int seal_public_key(const char *text, char **out, struct error *err)
{
	struct buffer der = {0};
	EVP_PKEY *key = NULL;

	if (strlen(text) <= TEXT_MOST && take_base64(text, &der) == 0)
		key = parse(buffer_bytes(&der), buffer_length(&der));
	*out = key ? api_base64(buffer_bytes(&der), buffer_length(&der)) : NULL;
	buffer_fini(&der);
	if (!key)
		return error_set(err, -EINVAL,
			"is no RSA public key of %d to %d bits, as PEM or base64 of its "
			"SubjectPublicKeyInfo",
			BITS_LEAST, BITS_MOST);
	EVP_PKEY_free(key);
	return *out ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static EVP_PKEY_CTX *oaep(EVP_PKEY *key)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);

	if (context && EVP_PKEY_encrypt_init(context) == 1 &&
		EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1 &&
		EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha256()) == 1 &&
		EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha256()) == 1)
		return context;
	EVP_PKEY_CTX_free(context);
	return NULL;
}

int seal_for(const char *public_key, const char *text, char **out, struct error *err)
{
	uint8_t sealed[BITS_MOST / 8];
	size_t size = sizeof(sealed);
	struct buffer der = {0};
	EVP_PKEY *key __attribute__((cleanup(free_key))) = NULL;
	EVP_PKEY_CTX *context __attribute__((cleanup(free_context))) = NULL;

	if (api_unbase64(public_key, &der) == 0)
		key = parse(buffer_bytes(&der), buffer_length(&der));
	buffer_fini(&der);
	context = key ? oaep(key) : NULL;
	if (!context || EVP_PKEY_encrypt(context, sealed, &size, (const unsigned char *)text,
				strlen(text)) != 1)
		return error_set(err, -EINVAL, "the program's public key does not encrypt");
	*out = api_base64(sealed, size);
	return *out ? 0 : error_set(err, -ENOMEM, "out of memory");
}
