/* SPDX-License-Identifier: Apache-2.0 - submissions in: names, hostile trees, what is rejected and
 * why. */
#include "intake/intake.h"

#include "folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const none[] = {NULL};
static const char *const hw[] = {"hw.py", NULL};
static char folder[PATH_MAX];
static struct intake *in;

static int set_up(void **state)
{
	folder_new(folder, sizeof(folder));
	return 0;
}

static int tear_down(void **state)
{
	intake_free(in);
	in = NULL;
	folder_remove(folder);
	return 0;
}

static void take(const char *const *wanted)
{
	struct error err = {0};

	intake_free(in);
	in = NULL;
	if (intake_open(folder, &(struct intake_wants){.files = wanted}, &in, &err))
		fail_msg("%s", err.message);
}

static const struct submission *of(const char *student)
{
	const struct submission *s = intake_find(in, student);

	if (!s)
		fail_msg("no %s", student);
	return s;
}

static void expect_reject(const char *student, const char *reason)
{
	const struct submission *s = of(student);

	if (!s->reject)
		fail_msg("%s is taken", student);
	if (!strstr(s->reject, reason))
		fail_msg("%s: %s", student, s->reject);
	assert_int_equal(strlen(s->digest), 64);
}

/* What was passed over, and why: none of it silently. */
static void expect_litter(const char *part)
{
	char all[2000] = "";

	assert_int_equal(in->litter_count, in->litter_kept);
	for (size_t i = 0; i < in->litter_kept; i++)
		text_format(all + strlen(all), sizeof(all) - strlen(all), "%s (%s)|",
			in->litter[i].path, in->litter[i].why);
	if (!strstr(all, part))
		fail_msg("%s", all);
}

static void in_folder(char *out, const char *name)
{
	assert_int_equal(path_join(out, PATH_MAX, folder, name, NULL), 0);
}

static void test_plain(void **state)
{
	folder_put(folder, "anna/hw.py", "a");
	folder_put(folder, "anna/sub/more.py", "b");
	folder_put(folder, "bob.py", "c");
	folder_put(folder, ".hidden/hw.py", "");
	folder_put(folder, "__MACOSX/x", "");
	folder_put(folder, "._bob.py", "");
	folder_put(folder, ".DS_Store", "");
	folder_put(folder, "anna/.git/config", "");
	folder_put(folder, "anna/._hw.py", "");
	folder_put(folder, "anna/sub/THUMBS.DB", "");
	folder_put(folder, "only/.hw.py", "");
	take(hw);
	assert_int_equal(in->count, 3);
	expect_litter(".DS_Store (left by macOS)|._bob.py (left by macOS)|"
		      ".hidden (its name begins with a dot)|__MACOSX (left by macOS)|");
	expect_litter("|anna/._hw.py (left by macOS)|anna/.git (its name begins with a dot)|"
		      "anna/sub/THUMBS.DB (left by Windows)|"
		      "only/.hw.py (its name begins with a dot)|");
	expect_reject("only",
		"the folder is empty but for .hw.py, which is passed over: its name begins with a "
		"dot");
	assert_null(of("anna")->reject);
	assert_int_equal(of("anna")->tree.count, 2);
	assert_string_equal(of("anna")->paths[0], "hw.py");
	assert_string_equal(of("anna")->paths[1], "sub/more.py");
	assert_null(of("anna")->paths[2]);
	/* a single file stands for the one that is wanted */
	assert_string_equal(of("bob")->paths[0], "hw.py");
}

static void test_names(void **state)
{
	static const char *const entries[] = {"Smith, \"Jr.\"", "\xe6\x9d\x8e", "=cmd|x", "-rf",
		"new\nline", "a b", "\xff\xfe", "\xff\xfd", "back\\slash", "'"};

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		char name[300];

		text_format(name, sizeof(name), "%s/hw.py", entries[i]);
		folder_put(folder, name, "x");
	}
	take(hw);
	assert_int_equal(in->count, 10);
	assert_null(of("Smith, \"Jr.\"")->reject);
	assert_null(of("\xe6\x9d\x8e")->reject);
	assert_null(of("-rf")->reject);
	assert_string_equal(of("new\\x0aline")->entry, "new\nline");
	/* names that cannot be shown are told apart, and every time alike */
	for (size_t i = 0, parted = 0; i < in->count; i++) {
		const struct submission *s = &in->submissions[i];

		assert_true(text_is_utf8(s->student, strlen(s->student)));
		assert_null(s->reject);
		if (i)
			assert_true(strcmp(in->submissions[i - 1].student, s->student) < 0);
		if (text_starts(s->student, "\xef\xbf\xbd")) {
			assert_int_equal(strlen(s->student), 6 + 1 + 16);
			parted++;
		}
		assert_true(i + 1 < in->count || parted == 2);
	}
}

static void test_stems(void **state)
{
	folder_put(folder, "a.py", "1");
	folder_put(folder, "a.txt", "2");
	folder_put(folder, "b.py", "3");
	folder_put(folder, "b/hw.py", "4");
	folder_put(folder, "c.d.py", "5");
	take(none);
	assert_int_equal(in->count, 5);
	assert_string_equal(of("a.py")->entry, "a.py");
	assert_string_equal(of("a.txt")->entry, "a.txt");
	assert_string_equal(of("b")->entry, "b");
	assert_string_equal(of("b.py")->entry, "b.py");
	assert_string_equal(of("c.d")->entry, "c.d.py");
}

/* Where nothing is wanted the tests may say what a single file is called. */
static void test_single(void **state)
{
	struct error err = {0};

	folder_put(folder, "anna.py", "x");
	folder_put(folder, "bob.txt", "x");
	folder_put(folder, "cleo/x.py", "x");
	static const struct intake_wants single = {.single = "mod.py"};
	assert_int_equal(intake_open(folder, &single, &in, &err), 0);
	assert_string_equal(of("anna")->paths[0], "mod.py");
	assert_string_equal(of("bob")->paths[0], "bob.txt");
	assert_string_equal(of("cleo")->paths[0], "x.py");
}

static void test_wrapped(void **state)
{
	folder_put(folder, "a/hw3-final/hw.py", "x");
	folder_put(folder, "a/hw3-final/d/e.py", "x");
	folder_put(folder, "a/__MACOSX/hw3-final/._hw.py", "x");
	folder_put(folder, "b/1/2/3/hw.py", "x");
	folder_put(folder, "c/x/other.py", "x");
	folder_put(folder, "d/src/hw.py", "x");
	folder_put(folder, "d/doc/notes.txt", "x");
	take(hw);
	assert_string_equal(of("a")->inside, "hw3-final");
	assert_string_equal(of("a")->paths[0], "d/e.py");
	assert_string_equal(of("a")->paths[1], "hw.py");
	assert_string_equal(of("b")->inside, "1/2/3");
	expect_reject("c", "hw.py is missing; found other.py");
	expect_reject("d",
		"hw.py is missing; found doc/notes.txt, src/hw.py; src/hw.py is not in the "
		"right folder");
	static const char *const deep[] = {"src/hw.py", NULL};
	take(deep);
	assert_string_equal(of("d")->inside, "");
	expect_reject("a", "src/hw.py is missing");
}

/* One that holds no module that the tests import was graded, with an error in each test. */
static void test_modules(void **state)
{
	static const char *const modules[] = {"hw", "pkg.part", NULL};
	static const struct intake_wants wants = {.modules = modules, .single = "hw.py"};
	struct error err = {0};

	folder_put(folder, "a/hw.py", "x");
	folder_put(folder, "b/deep/hw/__init__.py", "x");
	folder_put(folder, "c/hw.cpython-313-x86_64-linux-gnu.so", "x");
	folder_put(folder, "d/pkg/part.py", "x");
	folder_put(folder, "e/HW.py", "x");
	folder_put(folder, "f/hw.txt", "x");
	folder_put(folder, "g/hw.d/x.py", "x");
	folder_put(folder, "h/hw2.py", "x");
	folder_put(folder, "i.txt", "x");
	folder_put(folder, "j.py", "x");
	folder_put(folder, "k/hw.zip", "x");
	assert_int_equal(intake_open(folder, &wants, &in, &err), 0);
	assert_null(of("a")->reject);
	assert_null(of("b")->reject);
	assert_string_equal(of("b")->paths[0], "hw/__init__.py");
	assert_null(of("c")->reject);
	assert_null(of("d")->reject);
	expect_reject("e", "hw.py is missing; found HW.py; HW.py has nearly the right name");
	expect_reject("f", "hw.py is missing; found hw.txt");
	expect_reject("g", "hw.py is missing; found x.py");
	expect_reject("h", "hw.py is missing; found hw2.py");
	expect_reject("i", "hw.py is missing; found i.txt");
	assert_string_equal(of("j")->paths[0], "hw.py");
	expect_reject("k", "archives are not supported yet");
	assert_null(intake_module_of_nobody(in, modules));
	static const char *const more[] = {"hw", "numpyy", NULL};
	assert_string_equal(intake_module_of_nobody(in, more), "numpyy");
}

static void test_missing(void **state)
{
	char path[PATH_MAX];

	folder_put(folder, "a/HW.py", "x");
	folder_put(folder, "b/hw.txt", "x");
	folder_put(folder, "z.txt", "x");
	in_folder(path, "empty/also");
	assert_int_equal(path_make(path, 0755, NULL), 0);
	for (int i = 0; i < 15; i++) {
		text_format(path, sizeof(path), "many/f%02d", i);
		folder_put(folder, path, "");
	}
	take(hw);
	expect_reject("a", "hw.py is missing; found HW.py; HW.py has nearly the right name");
	expect_reject("b", "hw.py is missing; found hw.txt");
	expect_reject("z", "hw.py is missing; found z.txt");
	expect_reject("empty", "the folder is empty");
	expect_reject("many", "f09 and 5 more");
}

static void test_archives(void **state)
{
	folder_put(folder, "a.zip", "PK");
	folder_put(folder, "b.tar.gz", "x");
	folder_put(folder, "c/hw.zip", "PK");
	take(hw);
	expect_reject("a", "a.zip: archives are not supported yet; unpack it into a folder a");
	expect_reject("b", "unpack it into a folder b");
	expect_reject("c", "hw.zip: archives are not supported yet");
}

/* T26's relatives in folders: none is followed, each rejects only its own submission. */
static void test_hostile(void **state)
{
	char path[PATH_MAX], to[PATH_MAX];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	folder_put(folder, "good/hw.py", "x");
	folder_put(folder, "link/x", "");
	in_folder(path, "link/hw.py");
	assert_int_equal(symlink("/etc/passwd", path), 0);
	in_folder(path, "linked");
	assert_int_equal(symlink("good", path), 0);
	folder_put(folder, "linkdir/hw.py", "");
	in_folder(path, "linkdir/sub");
	assert_int_equal(symlink("../good", path), 0);
	in_folder(path, "pipe/sub");
	path_make(path, 0755, NULL);
	in_folder(path, "pipe/sub/hw.py");
	assert_int_equal(mkfifo(path, 0644), 0);
	in_folder(path, "pipe2");
	assert_int_equal(mkfifo(path, 0644), 0);
	in_folder(path, "sock");
	path_make(path, 0755, NULL);
	in_folder(path, "sock/hw.py");
	if (text_copy(address.sun_path, sizeof(address.sun_path), path) == 0)
		assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	folder_put(folder, "sparse/hw.py", "");
	in_folder(path, "sparse/hw.py");
	assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
	text_copy(to, sizeof(to), "deep");
	for (int i = 0; i < 40; i++)
		text_format(to + strlen(to), sizeof(to) - strlen(to), "/d");
	text_format(to + strlen(to), sizeof(to) - strlen(to), "/hw.py");
	folder_put(folder, to, "x");
	take(hw);
	assert_null(of("good")->reject);
	expect_reject("link", "hw.py: is a symbolic link; only files and folders are taken");
	expect_reject("linked", "is a symbolic link");
	expect_reject("linkdir", "sub: is a symbolic link");
	expect_reject("pipe", "sub/hw.py: is a named pipe");
	expect_reject("pipe2", "is a device, pipe or socket");
	expect_reject("sock", "hw.py: is a socket");
	expect_reject("sparse", "larger than 64 MiB");
	expect_reject("deep", "folders are nested deeper than 32");
}

static void test_too_many(void **state)
{
	char name[64], path[PATH_MAX];

	folder_put(folder, "many/hw.py", "");
	for (unsigned i = 0; i < INTAKE_FILES_MAX; i++) {
		text_format(name, sizeof(name), "many/f%u", i);
		in_folder(path, name);
		assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);
	}
	folder_put(folder, "good/hw.py", "x");
	take(hw);
	expect_reject("many", "more than 10000 files");
	assert_null(of("good")->reject);
}

/* However much of it there is: the count is right, and what is kept of it is bounded. */
static void test_much_litter(void **state)
{
	char name[64];

	folder_put(folder, "anna/hw.py", "x");
	for (unsigned i = 0; i < INTAKE_LITTER_KEPT + 10; i++) {
		text_format(name, sizeof(name), "anna/.f%u", i);
		folder_put(folder, name, "");
	}
	folder_put(folder, ".x", "");
	take(hw);
	assert_null(of("anna")->reject);
	assert_int_equal(in->litter_count, INTAKE_LITTER_KEPT + 11);
	assert_int_equal(in->litter_kept, INTAKE_LITTER_KEPT);
	assert_string_equal(in->litter[0].path, ".x");
	assert_true(in->litter[0].is_entry && !in->litter[1].is_entry);
}

/* As long as a file system lets them be, and alike but for case or the form of an accent. */
static void test_near_names(void **state)
{
	static const char *const alike[] = {"Anna", "anna", "Zo\xc3\xab", "Zoe\xcc\x88"};
	char name[300], longest[256];

	memset(longest, 'n', 255);
	longest[255] = 0;
	for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
		text_format(name, sizeof(name), "%s/hw.py", alike[i]);
		folder_put(folder, name, "x");
	}
	text_format(name, sizeof(name), "%s/hw.py", longest);
	folder_put(folder, name, "x");
	take(hw);
	assert_int_equal(in->count, 5);
	for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++)
		assert_string_equal(of(alike[i])->entry, alike[i]);
	assert_null(of(longest)->reject);
}

static void test_digest(void **state)
{
	char first[HASH_HEX_SIZE], path[PATH_MAX];

	folder_put(folder, "a/hw.py", "x");
	folder_put(folder, "b/hw.py", "x");
	take(hw);
	assert_string_equal(of("a")->digest, of("b")->digest);
	text_copy(first, sizeof(first), of("a")->digest);
	folder_put(folder, "a/hw.py", "y");
	in_folder(path, "b/hw.py");
	assert_int_equal(chmod(path, 0755), 0);
	take(hw);
	assert_string_not_equal(of("a")->digest, first);
	assert_string_not_equal(of("b")->digest, first);
}

static int stage(const char *student, char *to, struct error *err)
{
	int fd, r;

	folder_new(to, PATH_MAX);
	fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = intake_stage(in, of(student), fd, err);
	close(fd);
	return r;
}

static void expect_file(const char *base, const char *name, const char *text, mode_t mode)
{
	char path[PATH_MAX];
	struct buffer b = {0};
	struct stat st;

	path_join(path, sizeof(path), base, name, NULL);
	assert_int_equal(path_read(path, 1000, &b, NULL), 0);
	assert_string_equal(buffer_text(&b), text);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	buffer_fini(&b);
}

static void test_stage(void **state)
{
	char to[PATH_MAX], path[PATH_MAX];
	struct error err = {0};

	folder_put(folder, "a/w/hw.py", "x");
	folder_put(folder, "a/w/d/e/run", "y");
	in_folder(path, "a/w/d/e/run");
	assert_int_equal(chmod(path, 04711), 0);
	folder_put(folder, "b.py", "z");
	take(hw);
	assert_int_equal(stage("a", to, &err), 0);
	expect_file(to, "hw.py", "x", 0644);
	expect_file(to, "d/e/run", "y", 0755);
	folder_remove(to);
	assert_int_equal(stage("b", to, &err), 0);
	expect_file(to, "hw.py", "z", 0644);
	folder_remove(to);
}

/* Between reading and copying a submission becomes something else: never copied. */
static void test_changed(void **state)
{
	char to[PATH_MAX], path[PATH_MAX];
	struct error err = {0};

	folder_put(folder, "a/hw.py", "x");
	take(hw);
	folder_put(folder, "a/hw.py", "y");
	assert_int_equal(stage("a", to, &err), -ESTALE);
	folder_remove(to);
	folder_put(folder, "a/hw.py", "longer");
	assert_int_equal(stage("a", to, &err), -ESTALE);
	folder_remove(to);
	in_folder(path, "a/hw.py");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(stage("a", to, &err), -ESTALE);
	folder_remove(to);
	assert_int_equal(symlink("/etc/hostname", path), 0);
	assert_int_equal(stage("a", to, &err), -ESTALE);
	folder_remove(to);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(stage("a", to, &err), -ESTALE);
	folder_remove(to);
}

static void test_nothing(void **state)
{
	static const struct intake_wants wants = {.files = hw};
	struct error err = {0};
	char path[PATH_MAX];

	assert_int_equal(intake_open(folder, &wants, &in, &err), -ENOENT);
	assert_non_null(strstr(err.message, "holds no submissions; put"));
	folder_put(folder, ".anna/hw.py", "");
	assert_int_equal(intake_open(folder, &wants, &in, &err), -ENOENT);
	assert_non_null(strstr(err.message, ".anna is passed over: its name begins with a dot"));
	folder_put(folder, "file", "");
	in_folder(path, "file");
	assert_int_equal(intake_open(path, &wants, &in, &err), -ENOTDIR);
	in_folder(path, "none");
	assert_int_equal(intake_open(path, &wants, &in, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stems, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_single, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wrapped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_modules, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_missing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_archives, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_much_litter, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_near_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_digest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_changed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
