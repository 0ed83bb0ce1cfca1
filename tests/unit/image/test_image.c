/* SPDX-License-Identifier: Apache-2.0 - images: references, manifests, the list, damaged files. */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char home[64];

static void write_file(const char *path, const char *text)
{
	struct error err = {0};
	char folder[PATH_MAX];

	assert_int_equal(text_copy(folder, sizeof(folder), path), 0);
	*strrchr(folder, '/') = 0;
	assert_int_equal(path_make(folder, 0755, &err), 0);
	assert_int_equal(path_write_whole(path, text, strlen(text), 0644, &err), 0);
}

static void in_home(char *out, const char *rest)
{
	assert_int_equal(text_format(out, PATH_MAX, "%s/%s", home, rest), 0);
}

/* Put an image of the given contents; `extra` are more members of its manifest. */
static void put_image(
	const char *name, const char *version, const char *contents, const char *extra)
{
	char path[PATH_MAX], digest[HASH_HEX_SIZE];
	struct buffer manifest = {0};

	hash_bytes(contents, strlen(contents), digest);
	assert_int_equal(text_format(path, sizeof(path), "%s/images/%s/%s/rootfs.erofs", home, name,
				 version),
		0);
	write_file(path, contents);
	assert_int_equal(buffer_printf(&manifest,
				 "{\"name\": \"%s\", \"version\": %s, \"sha256\": \"%s\",\n"
				 " \"recipe_digest\": \"0123456789ab\", \"size_bytes\": %zu,\n"
				 " \"packages\": {\"python3\": \"3.13\", \"gcc\": \"14\"}%s}\n",
				 name, version, digest, strlen(contents), extra),
		0);
	assert_int_equal(text_format(path, sizeof(path), "%s/images/%s/%s/manifest.json", home,
				 name, version),
		0);
	write_file(path, buffer_text(&manifest));
	buffer_fini(&manifest);
}

static void put_latest(const char *name, const char *target)
{
	char path[PATH_MAX];

	assert_int_equal(text_format(path, sizeof(path), "%s/images/%s/latest", home, name), 0);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static int make_home(void **state)
{
	text_copy(home, sizeof(home), "/tmp/sealmark-test-image.XXXXXX");
	return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
	return path_remove_tree(AT_FDCWD, home, NULL);
}

static void test_resolve(void **state)
{
	struct image *image;
	struct error err = {0};
	char expected[PATH_MAX];

	put_image("default", "9", "old",
		", \"env\": {\"PATH\": \"/bin\"}, \"uid\": 7, \"cwd\": \"/w\"");
	put_image("default", "10", "new contents", ", \"description\": \"Python\"");
	put_latest("default", "10");

	assert_int_equal(image_resolve(home, "default", &image, &err), 0);
	assert_string_equal(image->name, "default");
	assert_string_equal(image->version, "10");
	in_home(expected, "images/default/10/rootfs.erofs");
	assert_string_equal(image->rootfs, expected);
	assert_int_equal(image->size_bytes, 12);
	assert_string_equal(image->description, "Python");
	assert_int_equal(image->uid, 1000);
	assert_string_equal(image->cwd, "/workspace");
	assert_int_equal(image->env_count, 0);
	assert_int_equal(image->package_count, 2);
	assert_string_equal(image->packages[0].name, "gcc");
	assert_string_equal(image->packages[1].version, "3.13");
	assert_int_equal(image_verify(image, &err), 0);
	image_free(image);

	assert_int_equal(image_resolve(home, "default@latest", &image, &err), 0);
	assert_string_equal(image->version, "10");
	image_free(image);

	assert_int_equal(image_resolve(home, "default@9", &image, &err), 0);
	assert_int_equal(image->uid, 7);
	assert_string_equal(image->cwd, "/w");
	assert_string_equal(image->env[0], "PATH=/bin");
	assert_null(image->env[1]);
	image_free(image);
}

static void test_missing(void **state)
{
	struct image *image;
	struct error err = {0};

	assert_int_equal(image_resolve(home, "default", &image, &err), -ENOENT);
	assert_non_null(strstr(err.message, "sealmark setup"));
	put_image("default", "1", "x", "");
	put_latest("default", "1");
	assert_int_equal(image_resolve(home, "defualt", &image, &err), -ENOENT);
	assert_non_null(strstr(err.message, "there is: default"));
	assert_int_equal(image_resolve(home, "default@2", &image, &err), -ENOENT);
}

/* A reference is never a path. */
static void test_bad_reference(void **state)
{
	static const char *const bad[] = {"", "@", "@1", "default@", "../default", "a/b", ".", "..",
		"default@..", "default@1/..", "-x", "Default", "a b", "default@latest/../1",
		"a@b@c", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmn"};

	put_image("default", "1", "x", "");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct image *image = NULL;
		struct error err = {0};

		assert_int_equal(image_resolve(home, bad[i], &image, &err), -EINVAL);
		assert_null(image);
		assert_true(err.message[0]);
	}
}

static void test_bad_manifest(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "manifest.json:"},
		{"[]", "object"},
		{"{\"name\": \"default\"", "manifest.json:1:"},
		{"{\"name\": \"other\", \"version\": 1}", "name: must be"},
		{"{\"name\": \"default\", \"version\": 2}", "version: must be"},
		{"{\"name\": \"default\", \"name\": \"default\"}", "duplicate"},
		{"{\"name\": \"default\", \"version\": 1, \"size_bytes\": -1}", "size_bytes"},
		{"{\"name\": \"default\", \"version\": 1, \"size_bytes\": 1, \"sha256\": \"XY\"}",
			"sha256"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct image *image = NULL;
		struct error err = {0};
		char path[PATH_MAX];

		put_image("default", "1", "x", "");
		put_latest("default", "1");
		in_home(path, "images/default/1/manifest.json");
		write_file(path, bad[i].text);
		assert_int_equal(image_resolve(home, "default", &image, &err), -EBADMSG);
		assert_null(image);
		if (!strstr(err.message, bad[i].says))
			fail_msg("\"%s\" lacks \"%s\"", err.message, bad[i].says);
	}
	for (unsigned i = 0; i < 4; i++) {
		static const char *const extra[] = {", \"env\": []", ", \"env\": {\"A=B\": \"\"}",
			", \"uid\": \"root\"", ", \"cwd\": 3"};
		struct image *image = NULL;
		struct error err = {0};

		put_image("default", "1", "x", extra[i]);
		assert_int_equal(image_resolve(home, "default", &image, &err), -EBADMSG);
	}
}

static void test_bad_latest(void **state)
{
	static const char *const bad[] = {"../default/1", "/etc", ".", "1/",
		"11111111111111111111111"
		"1111111111111111111"};

	put_image("default", "1", "x", "");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct image *image = NULL;
		struct error err = {0};

		put_latest("default", bad[i]);
		assert_int_equal(image_resolve(home, "default", &image, &err), -EBADMSG);
	}
}

static void test_changed_contents(void **state)
{
	struct image *image;
	struct error err = {0};
	char path[PATH_MAX];

	put_image("default", "1", "abc", "");
	put_latest("default", "1");
	assert_int_equal(image_resolve(home, "default", &image, &err), 0);
	write_file(image->rootfs, "abd");
	assert_int_equal(image_verify(image, &err), -EBADMSG);
	assert_non_null(strstr(err.message, image->digest));
	image_free(image);

	in_home(path, "images/default/1/rootfs.erofs");
	write_file(path, "cut short or not");
	assert_int_equal(image_resolve(home, "default", &image, &err), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(image_resolve(home, "default", &image, &err), -ENOENT);
}

static void test_list(void **state)
{
	struct image **images;
	size_t count;
	struct error err = {0};
	char path[PATH_MAX];

	assert_int_equal(image_list(home, &images, &count, &err), 0);
	assert_int_equal(count, 0);
	image_list_free(images, count);

	put_image("zeta", "1", "z", "");
	put_image("alpha", "2", "a2", "");
	put_image("alpha", "10", "a10", "");
	put_latest("alpha", "10");
	in_home(path, "images/alpha/3/manifest.json");
	write_file(path, "{}");
	in_home(path, "images/README");
	write_file(path, "not an image");
	in_home(path, "images/notes");
	write_file(path, "a file with the name of an image");
	assert_int_equal(image_list(home, &images, &count, &err), 0);
	assert_int_equal(count, 4);
	assert_string_equal(images[0]->name, "alpha");
	assert_string_equal(images[0]->version, "10");
	assert_string_equal(images[1]->version, "3");
	assert_string_equal(images[1]->digest, "");
	assert_non_null(strstr(images[1]->description, "name: must be"));
	assert_string_equal(images[2]->version, "2");
	assert_string_equal(images[3]->name, "zeta");
	image_list_free(images, count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_resolve, make_home, remove_home),
		cmocka_unit_test_setup_teardown(test_missing, make_home, remove_home),
		cmocka_unit_test_setup_teardown(test_bad_reference, make_home, remove_home),
		cmocka_unit_test_setup_teardown(test_bad_manifest, make_home, remove_home),
		cmocka_unit_test_setup_teardown(test_bad_latest, make_home, remove_home),
		cmocka_unit_test_setup_teardown(test_changed_contents, make_home, remove_home),
		cmocka_unit_test_setup_teardown(test_list, make_home, remove_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
