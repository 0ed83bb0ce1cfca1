/* SPDX-License-Identifier: Apache-2.0 - option tables: every form, every complaint, the help. */
#include "base/cleanup.h"
#include "cli/cli.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct values {
	bool json, verbose;
	const char *output;
	uint32_t jobs, memory_mib;
	uint64_t bytes;
	int64_t timeout_ms;
	struct cli_texts env;
};

static const struct values defaults = {.output = "here", .jobs = 2};

#define FIELD(name) offsetof(struct values, name)
static const struct cli_option options[] = {
	CLI_OPTION("json", 'j', NULL, "print JSON", "--json", cli_flag, FIELD(json)),
	CLI_OPTION("verbose", 'v', NULL, "say more", "--verbose", cli_flag, FIELD(verbose)),
	CLI_OPTION("output", 'o', "DIR", "write to DIR", "-o out", cli_text, FIELD(output)),
	CLI_OPTION("workers", 'w', "N", "work N at once", "--workers 4", cli_u32, FIELD(jobs),
		.least = 1, .most = 256),
	CLI_OPTION("memory", 'm', "SIZE", "memory of each", "--memory 1G", cli_mib,
		FIELD(memory_mib), .least = 64, .most = 2048),
	CLI_OPTION("bytes", 0, "SIZE", "most bytes", "--bytes 64k", cli_bytes, FIELD(bytes),
		.least = 1),
	CLI_OPTION("timeout", 't', "TIME", "time limit", "--timeout 10s", cli_duration_ms,
		FIELD(timeout_ms), .least = 1, .most = 3600000),
	CLI_OPTION("env", 'e', "NAME=VALUE", "set a variable", "--env A=1", cli_texts, FIELD(env)),
	CLI_OPTION("secret", 0, "X", "for tests", "--secret x", cli_text, FIELD(output),
		.hidden = true),
	CLI_OPTIONS_END,
};

static int run(const void *o, const char *const *operands, size_t count, struct error *err)
{
	return CLI_OK;
}

static const struct cli_command command = {
	.name = "copy file",
	.summary = "Copy a file somewhere",
	.operands = "FROM TO",
	.text = "First\nparagraph, of words and words and words and words and words and words "
		"that fill a line.\n\nSecond.",
	.examples = "sealmark copy file a b\n",
	.options = options,
	.defaults = &defaults,
	.size = sizeof(struct values),
	.least = 2,
	.most = 2,
	.run = run,
};

static const struct cli_command with_rest = {
	.name = "run",
	.summary = "Run a command",
	.operands = "COMMAND [ARGUMENT]...",
	.options = options,
	.size = sizeof(struct values),
	.least = 1,
	.most = UINT32_MAX,
	.rest = 1,
	.run = run,
};

/* the command comes after what it is done in */
static const struct cli_command with_box = {
	.name = "exec",
	.summary = "Run a command there",
	.operands = "BOX COMMAND [ARGUMENT]...",
	.options = options,
	.size = sizeof(struct values),
	.least = 2,
	.most = UINT32_MAX,
	.rest = 2,
	.run = run,
};

static const struct cli_command plain = {.name = "plain", .summary = "Do it", .run = run};

static struct values values;
static const char *operands[32];
static size_t operand_count;
static struct error err;

#define PARSE(command, ...) parse(command, (const char *const[]){__VA_ARGS__, NULL})
static int parse(const struct cli_command *c, const char *const *argv)
{
	size_t count = 0;

	while (argv[count])
		count++;
	err = (struct error){0};
	return cli_parse(c, argv, count, &values, operands, &operand_count, &err);
}

static int fini(void **state)
{
	cli_options_fini(&command, &values);
	return 0;
}

static void assert_says(const char *text)
{
	if (!strstr(err.message, text))
		fail_msg("\"%s\" lacks \"%s\"", err.message, text);
}

static void test_defaults(void **state)
{
	assert_int_equal(PARSE(&command, "a", "b"), 0);
	assert_string_equal(values.output, "here");
	assert_int_equal(values.jobs, 2);
	assert_false(values.json);
	assert_int_equal(operand_count, 2);
	assert_string_equal(operands[1], "b");
	assert_null(operands[2]);
}

static void test_forms(void **state)
{
	assert_int_equal(PARSE(&command, "-w4", "a", "--memory=1G", "-jv", "--timeout", "1.5", "-o",
				 "x", "b", "--bytes", "3k"),
		0);
	assert_int_equal(values.jobs, 4);
	assert_int_equal(values.memory_mib, 1024);
	assert_int_equal(values.timeout_ms, 1500);
	assert_int_equal(values.bytes, 3072);
	assert_string_equal(values.output, "x");
	assert_true(values.json && values.verbose);
	assert_int_equal(operand_count, 2);

	assert_int_equal(PARSE(&command, "-vw", "8", "a", "b", "-m", "128"), 0);
	assert_int_equal(values.jobs, 8);
	assert_int_equal(values.memory_mib, 128);
	assert_false(values.json);
}

static void test_list(void **state)
{
	assert_int_equal(PARSE(&command, "--env", "A=1", "a", "-eB=2", "b", "--env=C="), 0);
	assert_int_equal(values.env.count, 3);
	assert_string_equal(values.env.items[0], "A=1");
	assert_string_equal(values.env.items[1], "B=2");
	assert_string_equal(values.env.items[2], "C=");
	assert_null(values.env.items[3]);
}

static void test_end_of_options(void **state)
{
	assert_int_equal(PARSE(&command, "--", "--json", "-"), 0);
	assert_false(values.json);
	assert_string_equal(operands[0], "--json");
	assert_string_equal(operands[1], "-");

	/* a command with options of its own keeps them, with and without -- */
	assert_int_equal(PARSE(&with_rest, "-v", "python3", "--json", "-h"), 0);
	assert_true(values.verbose);
	assert_false(values.json);
	assert_int_equal(operand_count, 3);
	assert_int_equal(PARSE(&with_rest, "-v", "--", "-x", "--", "y"), 0);
	assert_int_equal(operand_count, 3);
	assert_string_equal(operands[0], "-x");
	assert_string_equal(operands[1], "--");

	/* options may stand on both sides of the first operand, not after the second */
	assert_int_equal(PARSE(&with_box, "box", "-v", "ls", "--json"), 0);
	assert_true(values.verbose);
	assert_false(values.json);
	assert_int_equal(operand_count, 3);
	assert_string_equal(operands[2], "--json");
	assert_int_equal(PARSE(&with_box, "box", "--", "ls", "--", "-v"), 0);
	assert_false(values.verbose);
	assert_int_equal(operand_count, 4);
	assert_int_equal(PARSE(&with_box, "box"), -EINVAL);
}

static void test_help_wanted(void **state)
{
	assert_int_equal(PARSE(&command, "--help"), 1);
	assert_int_equal(PARSE(&command, "-jh"), 1);
	assert_int_equal(PARSE(&plain, "-h"), 1);
	assert_int_equal(PARSE(&command, "a", "b", "c", "--help"), 1);
}

static void test_complaints(void **state)
{
	static const struct {
		const char *argv[5];
		const char *says[3];
	} bad[] = {
		{{"--memroy", "1G"}, {"unknown option --memroy", "did you mean --memory?"}},
		{{"--hlep"}, {"did you mean --help?"}},
		{{"--secrte", "x"}, {"unknown option --secrte"}},
		{{"--mem", "1G"}, {"unknown option --mem"}},
		{{"-x"}, {"unknown option -x"}},
		{{"-jx"}, {"unknown option -x"}},
		{{"--memory"}, {"--memory needs a value", "--memory SIZE", "--memory 1G"}},
		{{"-m"}, {"-m needs a value"}},
		{{"--output", "--json"}, {"--output needs a value"}},
		{{"--output", "--"}, {"--output needs a value"}},
		{{"--json=yes"}, {"--json takes no value"}},
		{{"--memory", "lots"}, {"--memory", "\"lots\" is not a size", "--memory 1G"}},
		{{"--memory=-5"}, {"is not a size"}},
		{{"--memory", "32M"}, {"out of range", "from 64M to 2G"}},
		{{"--memory", "99999999999999999999G"}, {"out of range", "from 64M to 2G"}},
		{{"--bytes", "0"}, {"out of range", "1 or more"}},
		{{"--bytes", "99999999999999999999"}, {"out of range", "smaller"}},
		{{"--workers", "0"}, {"--workers", "from 1 to 256", "--workers 4"}},
		{{"-w257"}, {"-w: 257 is out of range"}},
		{{"--workers", "4x"}, {"\"4x\" is not a whole number"}},
		{{"--timeout", "soon"}, {"\"soon\" is not a time", "--timeout 10s"}},
		{{"--timeout", "2h"}, {"out of range", "from 1ms to 1h"}},
		{{"--output="}, {"--output: is empty", "DIR"}},
		{{NULL}, {"FROM is missing", "sealmark copy file FROM TO"}},
		{{"a"}, {"TO is missing"}},
		{{"a", "b", "c"}, {"unexpected argument \"c\"", "takes only FROM TO"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(parse(&command, bad[i].argv), -EINVAL);
		for (size_t k = 0; k < 3 && bad[i].says[k]; k++)
			assert_says(bad[i].says[k]);
	}
	/* the nearest name of a hidden option is not given away */
	PARSE(&command, "--secrte", "x");
	assert_null(strstr(err.message, "did you mean"));
	assert_int_equal(PARSE(&plain, "a"), -EINVAL);
	assert_says("takes none");
	assert_int_equal(PARSE(&with_rest, "-v"), -EINVAL);
	assert_says("COMMAND is missing: sealmark run [OPTION]... -- COMMAND");
}

/* A list that was begun is freed when a later option is wrong (ASan watches). */
static void test_list_and_error(void **state)
{
	assert_int_equal(PARSE(&command, "--env", "A=1", "--nonsense"), -EINVAL);
	assert_int_equal(values.env.count, 1);
}

static char *help_of(void (*put)(FILE *to))
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_non_null(to);
	put(to);
	fclose(to);
	return text;
}

static void put_help(FILE *to)
{
	cli_help_command(to, &command);
}

static const struct cli_command *const all[] = {&command, &plain, NULL};

static void put_tables(FILE *to)
{
	cli_help_tables(to, all);
}

static void put_group(FILE *to)
{
	assert_int_equal(cli_help_list(to, all, "copy"), 1);
	assert_int_equal(cli_help_list(to, all, "cop"), 0);
}

static void test_help(void **state)
{
	cleanup_free char *help = help_of(put_help), *tables = help_of(put_tables);
	cleanup_free char *group = help_of(put_group);

	assert_non_null(strstr(help, "usage: sealmark copy file [OPTION]... FROM TO\n"));
	assert_non_null(strstr(help,
		"\n\nFirst paragraph, of words and words and words and words and words and words "
		"that\nfill a line.\n\nSecond.\n\noptions:\n"));
	assert_non_null(strstr(help, "  -m, --memory SIZE       memory of each; as --memory 1G\n"));
	assert_non_null(strstr(help, "      --bytes SIZE        most bytes; as --bytes 64k\n"));
	assert_non_null(strstr(help, "  -j, --json              print JSON\n"));
	assert_non_null(strstr(help, "  -h, --help              show this help\n"));
	assert_non_null(strstr(help, "examples:\n  sealmark copy file a b\n"));
	assert_null(strstr(help, "secret"));
	assert_non_null(strstr(tables, "command\tcopy file\tFROM TO\tCopy a file somewhere\n"));
	assert_non_null(strstr(tables, "option\tcopy file\t--memory\tm\tSIZE\tmemory of each\n"));
	assert_non_null(strstr(tables, "option\tcopy file\t--bytes\t\tSIZE\tmost bytes\n"));
	assert_null(strstr(tables, "secret"));
	assert_non_null(strstr(group, "copy file"));
	assert_null(strstr(group, "plain"));
}

static void test_written_numbers(void **state)
{
	static const struct {
		uint64_t value;
		const char *size, *time;
	} cases[] = {{0, "0", "0s"}, {1, "1", "1ms"}, {1000, "1000", "1s"},
		{65536, "64k", "65536ms"}, {3600000, "3600000", "1h"},
		{UINT64_C(3) << 40, "3T", "3298534883328ms"}, {90000, "90000", "90s"},
		{1536, "1536", "1536ms"}, {120000, "120000", "2m"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[32];

		cli_write_size(text, sizeof(text), cases[i].value);
		assert_string_equal(text, cases[i].size);
		cli_write_duration(text, sizeof(text), cases[i].value);
		assert_string_equal(text, cases[i].time);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_defaults, fini),
		cmocka_unit_test_teardown(test_forms, fini),
		cmocka_unit_test_teardown(test_list, fini),
		cmocka_unit_test_teardown(test_end_of_options, fini),
		cmocka_unit_test_teardown(test_help_wanted, fini),
		cmocka_unit_test_teardown(test_complaints, fini),
		cmocka_unit_test_teardown(test_list_and_error, fini),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_written_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
