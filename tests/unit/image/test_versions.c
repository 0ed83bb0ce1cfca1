/* SPDX-License-Identifier: Apache-2.0 - versions, tags and records of builds in a home. */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "image/build.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char home[64];
static struct error err;

static void install(const char *build, const char *name, const char *tag, char *version)
{
	const char *const tags[] = {"latest", tag, NULL};
	char stage[PATH_MAX], path[PATH_MAX], digest[HASH_HEX_SIZE];
	json_t *manifest;

	hash_bytes("x", 1, digest);
	assert_int_equal(image_stage(home, build, stage, &err), 0);
	assert_int_equal(path_join(path, sizeof(path), stage, "rootfs.erofs", &err), 0);
	assert_int_equal(path_write_whole(path, "x", 1, 0644, &err), 0);
	manifest = json_pack("{ss ss ss ss si s{}}", "name", name, "id", build, "sha256", digest,
		"recipe_digest", "0123456789ab", "size_bytes", 1, "packages");
	assert_int_equal(image_install(home, build, manifest, tags, version, &err), 0);
	json_decref(manifest);
}

#define BUILD_1 "00000000-0000-4000-8000-000000000001"
#define BUILD_2 "00000000-0000-4000-8000-000000000002"
#define BUILD_3 "00000000-0000-4000-8000-000000000003"

static void expect(const char *reference, const char *version)
{
	struct image *image = NULL;
	int r = image_resolve(home, reference, &image, &err);

	assert_int_equal(r, version ? 0 : -ENOENT);
	if (version)
		assert_string_equal(image->version, version);
	image_free(image);
}

static void test_versions(void **state)
{
	char version[IMAGE_VERSION_MAX + 1], **tags;
	struct image **images;
	size_t count;

	install(BUILD_1, "course", NULL, version);
	assert_string_equal(version, "1");
	install(BUILD_2, "course", "exam", version);
	assert_string_equal(version, "2");
	expect("course", "2");
	expect("course:latest", "2");
	expect("course:exam", "2");
	expect("course@1", "1");
	expect("course:none", NULL);
	expect("course@3", NULL);

	assert_int_equal(image_tag(home, "course", "1", "exam", &err), 0);
	expect("course:exam", "1");
	assert_int_equal(image_tag(home, "course", "7", "exam", &err), -ENOENT);
	assert_int_equal(image_tag(home, "course", "1", "3", &err), -EINVAL);
	assert_int_equal(image_tag(home, "course", "1", "../x", &err), -EINVAL);
	assert_int_equal(image_untag(home, "course", "2", "exam", &err), -ENOENT);
	assert_int_equal(image_tags(home, "course", "1", &tags, &err), 0);
	assert_string_equal(tags[0], "exam");
	assert_null(tags[1]);
	image_tags_free(tags);

	/* the number of a version that was deleted never comes again */
	assert_int_equal(image_delete(home, "course", "2", &err), 0);
	expect("course", NULL);
	expect("course@2", NULL);
	assert_int_equal(image_delete(home, "course", "2", &err), -ENOENT);
	install(BUILD_3, "course", NULL, version);
	assert_string_equal(version, "3");
	assert_int_equal(image_list(home, &images, &count, &err), 0);
	assert_int_equal(count, 2);
	assert_string_equal(images[0]->version, "3");
	assert_string_equal(images[0]->id, BUILD_3);
	assert_string_equal(images[1]->version, "1");
	image_list_free(images, count);
}

static const char *state_of(const char *id, char *out)
{
	json_t *about;

	assert_int_equal(image_build_read(home, id, &about, &err), 0);
	snprintf(out, 32, "%s", json_string_value(json_object_get(about, "state")));
	json_decref(about);
	return out;
}

static void test_records(void **state)
{
	json_t *about = json_pack("{ss}", "name", "course");
	char id[ID_SIZE], text[32], path[PATH_MAX];
	struct image_build *build;
	struct buffer log = {0};

	assert_int_equal(image_build_new(home, about, &build, &err), 0);
	json_decref(about);
	text_copy(id, sizeof(id), image_build_id(build));
	assert_string_equal(state_of(id, text), "queued");
	image_build_say(build, NULL, "stdout", "hel\033[1mlo");
	/* somebody works on it: it is left alone */
	assert_int_equal(image_builds_sweep(home, 0, &err), 0);
	assert_string_equal(state_of(id, text), "queued");
	assert_int_equal(image_build_forget(home, id, &err), -EBUSY);
	image_build_free(build);
	/* its process is gone */
	assert_int_equal(image_builds_sweep(home, 0, &err), 0);
	assert_string_equal(state_of(id, text), "failed");
	assert_int_equal(image_build_log(home, id, path, &err), 0);
	assert_int_equal(path_read(path, 4096, &log, &err), 0);
	assert_non_null(strstr(buffer_text(&log), "\"seq\":1"));
	assert_non_null(strstr(buffer_text(&log), "hel\\\\x1b[1mlo"));
	buffer_fini(&log);
	assert_int_equal(image_build_forget(home, id, &err), 0);
	assert_int_equal(image_build_read(home, id, &about, &err), -ENOENT);
	assert_int_equal(image_build_log(home, "../../x", path, &err), -ENOENT);
}

/* The process died between the version's rename and its own record. */
static void test_record_of_a_version(void **state)
{
	json_t *about = json_pack("{ss}", "name", "late");
	char version[IMAGE_VERSION_MAX + 1], id[ID_SIZE], text[32];
	struct image_build *build;

	assert_int_equal(image_build_new(home, about, &build, &err), 0);
	json_decref(about);
	text_copy(id, sizeof(id), image_build_id(build));
	install(id, "late", NULL, version);
	image_build_free(build);
	assert_int_equal(image_builds_sweep(home, 0, &err), 0);
	assert_string_equal(state_of(id, text), "ready");
}

static int make_home(void **state)
{
	text_copy(home, sizeof(home), "/tmp/sealmark-test-versions.XXXXXX");
	return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
	return path_remove_tree(AT_FDCWD, home, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_record_of_a_version),
	};

	return cmocka_run_group_tests(tests, make_home, remove_home);
}
