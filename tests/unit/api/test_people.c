/* SPDX-License-Identifier: Apache-2.0 - passwords, guessing, names of hosts, codes, sealed keys. */
#include "api/people.h"

#include "base/text.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- secrets and passwords --- */

static void secrets_differ_and_compare(void **state)
{
	char a[SECRET_SIZE], b[SECRET_SIZE];

	secret_new(a);
	secret_new(b);
	assert_int_equal(strlen(a), SECRET_SIZE - 1);
	assert_string_not_equal(a, b);
	assert_true(secret_equal(a, a));
	assert_false(secret_equal(a, b));
	assert_false(secret_equal(a, ""));
	assert_false(secret_equal("", a));
	assert_false(secret_equal("ab", "abc"));
}

static void passwords_are_checked_and_hashed(void **state)
{
	struct api_server *server = calloc(1, sizeof(*server));
	char hash[128], other[128], most[PASSWORD_MOST + 2];

	assert_non_null(server);
	pthread_mutex_init(&server->hashing, NULL);
	assert_non_null(password_wrong("eleven char"));
	assert_null(password_wrong("twelve chars"));
	/* eleven letters of two bytes each: characters count, not bytes */
	assert_non_null(password_wrong("äöüäöüäöüäö"));
	assert_null(password_wrong("äöüäöüäöüäöü"));
	assert_non_null(password_wrong("twelve chars \xff"));
	memset(most, 'a', sizeof(most));
	most[PASSWORD_MOST + 1] = 0;
	assert_non_null(password_wrong(most));
	assert_false(password_matches(server, most, "$y$j9T$x$x"));
	most[PASSWORD_MOST] = 0;
	assert_null(password_wrong(most));

	assert_int_equal(password_hash(server, most, hash, sizeof(hash), NULL), 0);
	assert_true(text_starts(hash, "$y$"));
	assert_int_equal(password_hash(server, most, other, sizeof(other), NULL), 0);
	assert_string_not_equal(hash, other); /* salted */
	assert_true(password_matches(server, most, hash));
	most[PASSWORD_MOST - 1] = 'b'; /* to its last byte */
	assert_false(password_matches(server, most, hash));
	assert_false(password_matches(server, "", hash));
	assert_false(password_matches(server, most, ""));
	pthread_mutex_destroy(&server->hashing);
	free(server);
}

/* --- guessing --- */

static void a_source_slows_down_and_is_forgiven(void **state)
{
	struct guard *guard = guard_new();
	int64_t now = 1000000, wait = 0, before;

	for (int i = 0; i < 5; i++)
		assert_int_equal(guard_enter(guard, "a", false, now), 0);
	before = guard_enter(guard, "a", false, now);
	assert_true(before > 0);
	/* each attempt makes the next wait longer, to a bound: nobody is locked out for good */
	for (int i = 0; i < 12; i++) {
		now += before;
		assert_int_equal(guard_enter(guard, "a", false, now), 0);
		wait = guard_enter(guard, "a", false, now);
		assert_true(wait >= before);
		before = wait;
	}
	assert_true(wait <= 5 * 60 * 1000);
	guard_forgive(guard, "a");
	assert_int_equal(guard_enter(guard, "a", false, now), 0);
	guard_free(guard);
}

static void many_sources_share_a_budget_and_known_browsers_do_not(void **state)
{
	struct guard *guard = guard_new();
	int64_t now = 1000000;
	unsigned allowed = 0;
	char name[32];

	for (int i = 0; i < 5000; i++) {
		text_format(name, sizeof(name), "source %d", i);
		allowed += guard_enter(guard, name, false, now) == 0;
	}
	assert_true(allowed >= 5 && allowed <= 40);
	assert_true(guard_enter(guard, "owner at a new place", false, now) > 0);
	assert_int_equal(guard_enter(guard, "owner's browser", true, now), 0);
	/* it comes back by itself */
	assert_int_equal(guard_enter(guard, "owner at a new place", false, now + 60000), 0);
	guard_free(guard);
}

/* --- names --- */

static void only_names_that_no_stranger_has_are_plain(void **state)
{
	static const char *const plain[] = {"localhost", "LOCALHOST:8080", "127.0.0.1",
		"10.0.0.7:8443", "[::1]", "[::1]:8080", "[2001:db8::7]:1"};
	static const char *const other[] = {"", ":80", "example.org", "example.org:80",
		"127.0.0.1.example.org", "localhost.example.org", "127.0.0.1@example.org",
		"127.0.0.1:80@example.org", "[::1]x", "[::1", "::1:", "localhost:80/x",
		"localhost:\r\nX: y", "1", "0x7f.1"};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		assert_true(origin_host_is_plain(plain[i]));
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		assert_false(origin_host_is_plain(other[i]));
}

static void addresses_are_grouped(void **state)
{
	char a[64], b[64];

	origin_group("192.0.2.7", a, sizeof(a));
	assert_string_equal(a, "192.0.2.7");
	origin_group("2001:db8:1:2:3:4:5:6", a, sizeof(a));
	origin_group("2001:db8:1:2:ffff::1", b, sizeof(b));
	assert_string_equal(a, b);
	origin_group("2001:db8:1:3::1", b, sizeof(b));
	assert_string_not_equal(a, b);
	origin_group("unix", a, sizeof(a));
	assert_string_equal(a, "unix");
}

static void codes_are_read_as_people_type_them(void **state)
{
	char code[STORE_USER_CODE_SIZE];

	assert_true(approval_code("BCDF-GHJK", code));
	assert_string_equal(code, "BCDF-GHJK");
	assert_true(approval_code(" bcdf ghjk", code));
	assert_string_equal(code, "BCDF-GHJK");
	assert_false(approval_code("", code));
	assert_false(approval_code("BCDF-GHJ", code));
	assert_false(approval_code("BCDF-GHJKL", code));
	assert_false(approval_code("ABCD-EFGH", code)); /* vowels are none */
	assert_false(approval_code("BCDF-GHJ\"", code));
	assert_false(approval_code("BCDFGHJKLMNPQRSTVWXZBCDFGHJKLMNPQRSTVWXZ", code));
}

static void products_are_known_names_once_each(void **state)
{
	json_t *list = json_pack("[s s s]", "images", "sandboxes", "images");
	json_t *wrong = json_pack("[s s]", "images", "secrets"), *back;
	char text[64];

	assert_true(products_join(list, text, sizeof(text)));
	assert_string_equal(text, "sandboxes,images");
	back = products_list(text);
	assert_int_equal(json_array_size(back), 2);
	assert_string_equal(json_string_value(json_array_get(back, 1)), "images");
	assert_false(products_join(wrong, text, sizeof(text)));
	assert_true(products_join(NULL, text, sizeof(text)));
	assert_string_equal(text, "");
	json_decref(list);
	json_decref(wrong);
	json_decref(back);
}

/* --- pages --- */

static void pages_escape_everything(void **state)
{
	struct buffer out = {0};

	html(&out, "<b title=\"$\">$</b>", "\"><script>'&", "a\nb\x1b[31m\xff\xe2\x80\xae", NULL);
	assert_non_null(buffer_text(&out));
	assert_null(strstr(buffer_text(&out), "<script>"));
	assert_non_null(strstr(buffer_text(&out), "&quot;&gt;&lt;script&gt;&#39;&amp;"));
	assert_null(strchr(buffer_text(&out), '\x1b'));
	assert_null(strchr(buffer_text(&out), '\n'));
	assert_null(strstr(buffer_text(&out), "\xe2\x80\xae"));
	buffer_fini(&out);
}

/* --- sealed keys --- */

static EVP_PKEY *rsa(unsigned bits, char **text)
{
	EVP_PKEY *key = EVP_RSA_gen(bits);
	unsigned char *der = NULL;
	int size = i2d_PUBKEY(key, &der);

	assert_true(size > 0);
	*text = api_base64(der, (size_t)size);
	OPENSSL_free(der);
	return key;
}

static void unseal(EVP_PKEY *key, const char *sealed, char *out, size_t size)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
	unsigned char plain[1024];
	size_t n = sizeof(plain);
	struct buffer bytes = {0};

	assert_int_equal(api_unbase64(sealed, &bytes), 0);
	assert_int_equal(EVP_PKEY_decrypt_init(context), 1);
	assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING), 1);
	assert_int_equal(EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha256()), 1);
	assert_int_equal(
		EVP_PKEY_decrypt(context, plain, &n, buffer_bytes(&bytes), buffer_length(&bytes)),
		1);
	assert_int_equal(text_format(out, size, "%.*s", (int)n, (const char *)plain), 0);
	EVP_PKEY_CTX_free(context);
	buffer_fini(&bytes);
}

static void a_sealed_key_opens_with_the_private_key(void **state)
{
	char *text, *taken = NULL, *sealed = NULL, *again = NULL, out[API_KEY_SIZE], pem[1024];
	EVP_PKEY *key = rsa(2048, &text);

	assert_int_equal(seal_public_key(text, &taken, NULL), 0);
	assert_string_equal(taken, text);
	assert_int_equal(seal_for(taken, "rtcloud_x", &sealed, NULL), 0);
	assert_int_equal(seal_for(taken, "rtcloud_x", &again, NULL), 0);
	assert_string_not_equal(sealed, again); /* OAEP is never the same twice */
	unseal(key, sealed, out, sizeof(out));
	assert_string_equal(out, "rtcloud_x");
	free(taken);
	free(again);
	/* the same key as PEM */
	assert_int_equal(
		text_format(pem, sizeof(pem),
			"-----BEGIN PUBLIC KEY-----\n%.64s\n%s\n-----END PUBLIC KEY-----\n", text,
			text + 64),
		0);
	assert_int_equal(seal_public_key(pem, &taken, NULL), 0);
	assert_string_equal(taken, text);
	free(taken);
	free(sealed);
	free(text);
	EVP_PKEY_free(key);
}

static void other_public_keys_are_refused(void **state)
{
	char *text, *out = NULL, cut[2000];
	EVP_PKEY *key = rsa(1024, &text), *curve = EVP_EC_gen("P-256");
	unsigned char *der = NULL;
	int size = i2d_PUBKEY(curve, &der);

	assert_int_equal(seal_public_key(text, &out, NULL), -EINVAL); /* too short */
	free(text);
	EVP_PKEY_free(key);
	text = api_base64(der, (size_t)size);
	assert_int_equal(seal_public_key(text, &out, NULL), -EINVAL); /* not RSA */
	free(text);
	OPENSSL_free(der);
	EVP_PKEY_free(curve);
	key = rsa(2048, &text);
	for (size_t n = 0; n < strlen(text); n++) {
		text_format(cut, sizeof(cut), "%.*s", (int)n, text);
		assert_int_equal(seal_public_key(cut, &out, NULL), -EINVAL);
	}
	text_format(cut, sizeof(cut), "%sAAAA", text); /* something after it */
	assert_int_equal(seal_public_key(cut, &out, NULL), -EINVAL);
	assert_int_equal(seal_public_key("-----BEGIN PUBLIC KEY-----", &out, NULL), -EINVAL);
	assert_int_equal(seal_public_key("not base64 at all!", &out, NULL), -EINVAL);
	assert_int_equal(seal_public_key("", &out, NULL), -EINVAL);
	free(text);
	EVP_PKEY_free(key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_differ_and_compare),
		cmocka_unit_test(passwords_are_checked_and_hashed),
		cmocka_unit_test(a_source_slows_down_and_is_forgiven),
		cmocka_unit_test(many_sources_share_a_budget_and_known_browsers_do_not),
		cmocka_unit_test(only_names_that_no_stranger_has_are_plain),
		cmocka_unit_test(addresses_are_grouped),
		cmocka_unit_test(codes_are_read_as_people_type_them),
		cmocka_unit_test(products_are_known_names_once_each),
		cmocka_unit_test(pages_escape_everything),
		cmocka_unit_test(a_sealed_key_opens_with_the_private_key),
		cmocka_unit_test(other_public_keys_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
