/* SPDX-License-Identifier: Apache-2.0 - passwords, hashed with yescrypt by the system's libcrypt.
 */
#include "api/people.h"

#include "base/text.h"

#include <crypt.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

const char *password_wrong(const char *password)
{
	size_t bytes = strlen(password), characters = 0;

	if (!text_is_utf8(password, bytes))
		return "The password must be text.";
	if (bytes > PASSWORD_MOST)
		return "The password may have at most 256 bytes.";
	for (const char *p = password; *p; p++)
		characters += ((unsigned char)*p & 0xc0) != 0x80;
	return characters < PASSWORD_LEAST ? "The password must have at least 12 characters."
					   : NULL;
}

/* crypt(3) with memory of its own, which is wiped; false: it failed */
static bool run(const char *password, const char *setting, char *out, size_t size)
{
	struct crypt_data *data = calloc(1, sizeof(*data));
	const char *hash = data ? crypt_rn(password, setting, data, sizeof(*data)) : NULL;
	bool done = hash && text_copy(out, size, hash) == 0;

	if (data)
		OPENSSL_cleanse(data, sizeof(*data));
	free(data);
	return done;
}

int password_hash(
	struct api_server *server, const char *password, char *out, size_t size, struct error *err)
{
	char *setting = crypt_gensalt_ra("$y$", 0, NULL, 0);
	bool done = false;

	/* one at a time: each takes 16 MiB, and strangers may ask for it */
	pthread_mutex_lock(&server->hashing);
	if (setting)
		done = run(password, setting, out, size) && text_starts(out, "$y$");
	pthread_mutex_unlock(&server->hashing);
	free(setting);
	return done ? 0 : error_set(err, -EIO, "libcrypt does not hash with yescrypt");
}

bool password_matches(struct api_server *server, const char *password, const char *hash)
{
	char own[128] = "";
	bool done;

	if (strlen(password) > PASSWORD_MOST)
		return false;
	pthread_mutex_lock(&server->hashing);
	done = run(password, hash, own, sizeof(own));
	pthread_mutex_unlock(&server->hashing);
	done = done && secret_equal(own, hash);
	OPENSSL_cleanse(own, sizeof(own));
	return done;
}
