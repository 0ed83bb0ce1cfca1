/* SPDX-License-Identifier: Apache-2.0 - the choice of an engine, and the plan of a UML machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/path.h"
#include "base/text.h"
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static char home[64], kernel[128];

static int make_home(void **state)
{
	char dir[128];

	(void)state;
	text_copy(home, sizeof(home), "/tmp/sealmark-engine-XXXXXX");
	assert_non_null(mkdtemp(home));
	text_format(dir, sizeof(dir), "%s/kernels/uml", home);
	text_format(kernel, sizeof(kernel), "%s/linux", dir);
	return path_make(dir, 0755, NULL);
}

static int remove_home(void **state)
{
	(void)state;
	return path_remove_tree(AT_FDCWD, home, NULL);
}

static void put_kernel(mode_t mode)
{
	assert_int_equal(path_write_whole(kernel, "x", 1, mode, NULL), 0);
	assert_int_equal(chmod(kernel, mode), 0);
}

static void missing_kernel_has_a_cure(void **state)
{
	struct error err = {0};

	(void)state;
	assert_null(engine_find("auto", home, &err));
	assert_non_null(strstr(err.message, kernel));
	assert_non_null(strstr(err.message, "sealmark setup"));
	assert_int_equal(err.code, -ENOENT);
	assert_int_equal(engine_uml.probe(home, &err), -ENOENT);
}

static void auto_is_never_fake(void **state)
{
	struct error err = {0};

	(void)state;
	assert_null(engine_find(NULL, home, NULL)); /* without a kernel: nothing, not fake */
	put_kernel(0755);
	assert_ptr_equal(engine_find(NULL, home, &err), &engine_uml);
	assert_ptr_equal(engine_find("auto", home, &err), &engine_uml);
	assert_ptr_equal(engine_find("fake", home, &err), &engine_fake);
	assert_string_equal(engine_fake.isolation, "none");
	assert_string_equal(engine_uml.isolation, "kernel");
}

static void unknown_names_are_refused(void **state)
{
	struct error err = {0};

	(void)state;
	assert_null(engine_find("qmeu", home, &err));
	assert_non_null(strstr(err.message, "qmeu"));
	assert_non_null(strstr(err.message, "uml"));
	assert_int_equal(err.code, -EINVAL);
}

static void kernel_must_be_executable(void **state)
{
	struct error err = {0};

	(void)state;
	put_kernel(0644);
	assert_int_equal(engine_uml.probe(home, &err), -EACCES);
	assert_non_null(strstr(err.message, kernel));
}

static struct engine_config config(void)
{
	return (struct engine_config){
		.image = "/images/rootfs.erofs",
		.initrd = "/lib/agent.cpio",
		.home = home,
		.memory_mib = 256,
		.disk_mib = 128,
		.files_most = 65536,
	};
}

static bool has_arg(const struct engine_plan *plan, const char *arg)
{
	for (unsigned i = 0; i < plan->arg_count; i++)
		if (strcmp(plan->args[i], arg) == 0)
			return true;
	return false;
}

static bool has_bind(const struct engine_plan *plan, const char *from, const char *to)
{
	for (unsigned i = 0; i < plan->bind_count; i++)
		if (strcmp(plan->binds[i].from, from) == 0 && strcmp(plan->binds[i].to, to) == 0)
			return !plan->binds[i].writable;
	return false;
}

static void uml_is_planned(void **state)
{
	struct engine_config c = config();
	struct engine_plan plan;

	(void)state;
	put_kernel(0755);
	assert_int_equal(engine_uml.plan(&c, "/vsock", &plan, NULL), 0);
	assert_int_equal(plan.channel, ENGINE_VHOST_USER);
	assert_string_equal(plan.program, kernel);
	assert_true(has_arg(&plan, "mem=256M"));
	assert_true(has_arg(&plan, "ubd0r=/image"));
	assert_true(has_arg(&plan, "initrd=/initrd"));
	assert_true(has_arg(&plan, "virtio_uml.device=/vsock:19"));
	assert_true(has_arg(&plan, "seccomp=off")); /* ptrace mode: isolation first */
	assert_true(has_arg(&plan, "sm_disk=128"));
	assert_true(has_arg(&plan, "sm_files=65536"));
	assert_true(has_bind(&plan, c.image, "/image"));
	assert_true(has_bind(&plan, c.initrd, "/initrd"));
	assert_true(has_bind(&plan, "", "/vsock"));
	assert_true(plan.scratch_bytes == (256u + 12u) << 20);
	assert_true(plan.needs_fixed_layout);
	assert_false(plan.is_code_of_ours);
	assert_true(plan.processes > 512);
	c.kernel = "/nowhere/linux";
	assert_int_equal(engine_uml.plan(&c, "/vsock", &plan, NULL), -ENOENT);
}

static void bad_configurations_are_refused(void **state)
{
	struct engine_config c = config();
	struct engine_plan plan;
	struct error err = {0};
	char longest[600];

	(void)state;
	put_kernel(0755);
	c.memory_mib = 8;
	assert_int_equal(engine_uml.plan(&c, "/vsock", &plan, &err), -EINVAL);
	assert_non_null(strstr(err.message, "8 MiB"));
	c.memory_mib = 70000;
	assert_int_equal(engine_uml.plan(&c, "/vsock", &plan, &err), -EINVAL);
	c = config();
	c.image = NULL;
	assert_int_equal(engine_uml.plan(&c, "/vsock", &plan, &err), -EINVAL);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = 0;
	c.image = longest;
	assert_int_equal(engine_uml.plan(&c, "/vsock", &plan, &err), -ENAMETOOLONG);
	c = config();
	c.script = "/nowhere/script";
	assert_int_equal(engine_fake.plan(&c, NULL, &plan, &err), -ENOENT);
	assert_non_null(strstr(err.message, "/nowhere/script"));
}

int main(void)
{
#define AT_HOME(test) cmocka_unit_test_setup_teardown(test, make_home, remove_home)
	const struct CMUnitTest tests[] = {
		AT_HOME(missing_kernel_has_a_cure),
		AT_HOME(auto_is_never_fake),
		AT_HOME(unknown_names_are_refused),
		AT_HOME(kernel_must_be_executable),
		AT_HOME(uml_is_planned),
		AT_HOME(bad_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
