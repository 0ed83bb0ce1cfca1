/* SPDX-License-Identifier: Apache-2.0 - commands by a submission's files, and what is refused. */
#include "grade/language.h"

#include "folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static char *no_files[] = {NULL};
static char *wanted[] = {"b.py", NULL};

static void join(char **argv, char *out, size_t size)
{
	out[0] = 0;
	for (; argv && *argv; argv++)
		text_format(out + strlen(out), size - strlen(out), "%s%s", *out ? " " : "", *argv);
}

struct row {
	const char *files[5];
	const char *compile, *run;
};

static void test_commands(void **state)
{
	static const struct row rows[] = {
		{{"hw.py"}, "", "python3 ./hw.py"},
		{{"-x.py"}, "", "python3 ./-x.py"},
		{{"a.py", "main.py"}, "", "python3 ./main.py"},
		{{"a.py", "b.py"}, "", "python3 ./b.py"},
		{{"a.c", "a.h", "b.c"}, "gcc -O2 -std=gnu17 -o .prog ./a.c ./b.c -lm", "./.prog"},
		{{"a.cc", "b.cpp"}, "g++ -O2 -std=gnu++20 -o .prog ./a.cc ./b.cpp", "./.prog"},
		{{"x.js"}, "", "node ./x.js"},
		{{"A.java", "Main.java"},
			"javac -J-XX:+UseSerialGC -encoding UTF-8 -d .classes ./A.java ./Main.java",
			"java -XX:+UseSerialGC -XX:-UsePerfData -Xss64m -Xmx176m -cp .classes "
			"Main"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* b.py is wanted only where it is there */
		struct assignment a = {
			.files = i == 3 ? wanted : no_files, .limits = {.memory_bytes = 256 << 20}};
		struct program p;
		struct error err = {0};
		char text[500];

		if (program_find(&a, -1, rows[i].files, &p, &err))
			fail_msg("row %zu: %s", i, err.message);
		join(p.compile, text, sizeof(text));
		assert_string_equal(text, rows[i].compile);
		join(p.run, text, sizeof(text));
		assert_string_equal(text, rows[i].run);
		program_fini(&p);
	}
}

static void test_refused(void **state)
{
	static const struct row rows[] = {
		{{"a.py", "b.py"},
			"cannot tell which file is the program: a.py, b.py; name it main.py", ""},
		{{"notes.txt"}, "no program found (.py, .c, .cpp, .java, .js); found notes.txt",
			""},
		{{"A.java", "B.java"},
			"cannot tell which file is the program: A.java, B.java; name it "
			"Main.java",
			""},
	};
	const struct assignment a = {.files = no_files};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct program p;
		struct error err = {0};

		assert_int_equal(program_find(&a, -1, rows[i].files, &p, &err), -EINVAL);
		assert_string_equal(err.message, rows[i].compile);
	}
}

static void test_own_commands(void **state)
{
	char *run[] = {"./p", NULL};
	const struct assignment a = {.files = no_files, .run = run};
	const char *const files[] = {"x", NULL};
	struct program p;
	struct error err = {0};

	assert_int_equal(program_find(&a, -1, files, &p, &err), 0);
	assert_null(p.compile);
	assert_string_equal(p.run[0], "./p");
	program_fini(&p);
}

static void test_java_package(void **state)
{
	static const struct {
		const char *source, *name;
	} rows[] = {
		{"package a.b;\nclass Main {}", "a.b.Main"},
		{"\xef\xbb\xbf/* package x; */ // package y;\n package  c ;", "c.Main"},
		{"class Main {} // package a;", "Main"},
		{"packagex a;", "Main"},
		{"/* never closed package a;", "Main"},
		{"", "Main"},
	};
	struct assignment a = {.files = no_files, .limits = {.memory_bytes = 256 << 20}};
	const char *const files[] = {"src/Main.java", NULL};
	char folder[PATH_MAX], text[500];

	folder_new(folder, sizeof(folder));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct program p;
		struct error err = {0};
		int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		folder_put(folder, "src/Main.java", rows[i].source);
		assert_int_equal(program_find(&a, fd, files, &p, &err), 0);
		join(p.run, text, sizeof(text));
		assert_string_equal(strrchr(text, ' ') + 1, rows[i].name);
		program_fini(&p);
		close(fd);
	}
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_own_commands),
		cmocka_unit_test(test_java_package),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
