/* SPDX-License-Identifier: Apache-2.0 - recipes and Dockerfiles: what is taken, what is refused. */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "image/plan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct image_plan *plan;
static struct error err;

static int dockerfile(const char *text)
{
	const struct image_dockerfile source = {.text = text, .count = strlen(text)};

	image_plan_free(plan);
	plan = image_plan_new("/workspace");
	err = (struct error){0};
	return image_dockerfile_parse(plan, &source, &err);
}

/* the issues of a recipe as "path: message" lines */
static int recipe(const char *text, struct buffer *said)
{
	json_error_t where;
	json_t *json = json_loads(text, 0, &where), *issues = json_array(), *issue;
	size_t i;
	int r;

	assert_non_null(json);
	image_plan_free(plan);
	plan = image_plan_new("/workspace");
	r = image_recipe_parse(plan, json, issues);
	json_array_foreach (issues, i, issue)
		buffer_printf(said, "%s: %s\n", json_string_value(json_object_get(issue, "path")),
			json_string_value(json_object_get(issue, "message")));
	json_decref(issues);
	json_decref(json);
	return r;
}

static const struct image_step *step(size_t i)
{
	assert_true(i < plan->step_count);
	return &plan->steps[i];
}

static void test_instructions(void **state)
{
	assert_int_equal(dockerfile("# comment\n"
				    "FROM default AS base\n"
				    "\n"
				    "WORKDIR /srv/app/../x\n"
				    "RUN echo one && \\\n"
				    "    # in between\n"
				    "    echo two\n"
				    "COPY --chown=runtime:runtime --chmod=0640 a.txt b/ ./to/\n"
				    "USER runtime\n"
				    "RUN [\"ls\", \"-l a\"]\n"),
		0);
	assert_string_equal(plan->base, "default");
	assert_string_equal(plan->workdir, "/srv/x");
	assert_int_equal(plan->step_count, 4);
	assert_int_equal(step(0)->kind, IMAGE_STEP_DIRECTORY);
	assert_string_equal(step(0)->target, "/srv/x");
	assert_string_equal(step(1)->words[0], "/bin/sh");
	assert_string_equal(step(1)->words[2], "echo one &&     echo two");
	assert_int_equal(step(1)->line, 5);
	assert_null(step(1)->user);
	assert_int_equal(step(2)->kind, IMAGE_STEP_COPY);
	assert_int_equal(step(2)->word_count, 2);
	assert_string_equal(step(2)->words[1], "b/");
	assert_string_equal(step(2)->target, "/srv/x/to");
	assert_string_equal(step(2)->owner, "runtime:runtime");
	assert_int_equal(step(2)->mode, 0640);
	assert_true(step(2)->into);
	assert_int_equal(step(3)->word_count, 2);
	assert_string_equal(step(3)->words[1], "-l a");
	assert_string_equal(step(3)->user, "runtime");
}

static void test_variables(void **state)
{
	assert_int_equal(dockerfile("ARG TAG=1\n"
				    "FROM default@${TAG}\n"
				    "ENV A=one B=\"a b\" C='$A' D=x\\ y\n"
				    "ENV OLD all of  it\n"
				    "ENV E=${A:-no} F=${NONE:-yes} G=${A:+set} H=\"q\\\"$A\"\n"
				    "ARG A=two\n"
				    "WORKDIR /$A\n"),
		0);
	assert_string_equal(plan->base, "default@1");
	assert_string_equal(image_plan_value(plan, "A"), "one"); /* an ENV stands above an ARG */
	assert_string_equal(image_plan_value(plan, "B"), "a b");
	assert_string_equal(image_plan_value(plan, "C"), "$A");
	assert_string_equal(image_plan_value(plan, "D"), "x y");
	assert_string_equal(image_plan_value(plan, "OLD"), "all of  it");
	assert_string_equal(image_plan_value(plan, "E"), "one");
	assert_string_equal(image_plan_value(plan, "F"), "yes");
	assert_string_equal(image_plan_value(plan, "G"), "set");
	assert_string_equal(image_plan_value(plan, "H"), "q\"one");
	assert_string_equal(plan->workdir, "/one");
}

static void test_heredocs(void **state)
{
	assert_int_equal(dockerfile("FROM default\n"
				    "ENV A=1\n"
				    "RUN <<EOF\n"
				    "echo $A\n"
				    "# not a comment here\n"
				    "EOF\n"
				    "RUN cat <<-'X' >/x\n"
				    "\ttext\n"
				    "\tX\n"
				    "COPY <<file /etc/\n"
				    "value $A\n"
				    "file\n"
				    "COPY <<\"raw\" /etc/raw\n"
				    "value $A\n"
				    "raw\n"),
		0);
	assert_string_equal(step(0)->words[2], "echo $A\n# not a comment here\n");
	assert_string_equal(step(1)->words[2], "cat <<-'X' >/x\n\ttext\nX\n");
	assert_int_equal(step(2)->kind, IMAGE_STEP_FILE);
	assert_string_equal(step(2)->target, "/etc/file");
	assert_memory_equal(plan->files[0].bytes, "value 1\n", 8);
	assert_memory_equal(plan->files[1].bytes, "value $A\n", 9);
	assert_int_equal(dockerfile("FROM default\nRUN <<EOF\nno end\n"), -EINVAL);
}

static void test_escape_directive(void **state)
{
	assert_int_equal(dockerfile("# escape=`\nFROM default\nRUN a `\n b\\c\n"), 0);
	assert_string_equal(step(0)->words[2], "a  b\\c");
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "Dockerfile:1: has no FROM"},
		{"RUN x\n", "Dockerfile:1: RUN before FROM"},
		{"FROM default\n\nCMD x\n", "Dockerfile:3: CMD is not supported"},
		{"FROM default\nADD a b\n", "COPY does it"},
		{"FROM default\nENTRYPOINT [\"x\"]\n", "Dockerfile:2: ENTRYPOINT is not"},
		{"FROM default\nFROM default\n", "Dockerfile:2: a second FROM"},
		{"FROM --platform=linux default\n", "--platform=linux is not supported"},
		{"FROM default\nRUN --mount=type=cache x\n", "RUN --mount is not supported"},
		{"FROM default\nCOPY --from=x a b\n", "COPY --from=x is not supported"},
		{"FROM default\nCOPY ../x /y\n", "must be in the context"},
		{"FROM default\nCOPY a/../../x /y\n", "must be in the context"},
		{"FROM default\nCOPY a\n", "COPY takes SOURCE"},
		{"FROM default\nENV 1A=x\n", "Dockerfile:2: ENV 1A=x"},
		{"FROM default\nENV A=${x\n", "without its"},
		{"FROM default\nENV A=${x?y}\n", "of a variable there is"},
		{"FROM default\nENV A='x\n", "a quote that does not end"},
		{"FROM default\nUSER -x\n", "USER -x"},
		{"FROM default\nUSER a;b\n", "USER a;b"},
		{"FROM default\nWORKDIR a b\n", "takes one word"},
		{"FROM default\nNOISE\n", "NOISE is not supported"},
		{"FROM default\nRUN\n", "RUN takes something"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(dockerfile(cases[i].text), -EINVAL);
		if (!strstr(error_message(&err), cases[i].says))
			fail_msg("%s: said %s", cases[i].text, error_message(&err));
	}
}

/* A word of a source is a text of the shell, whatever is in it. */
static void test_quotes(void **state)
{
	struct buffer out = {0}, said = {0};

	assert_int_equal(
		recipe("{\"commands\": [\"echo 'a' $(x)\"], \"env\": {\"A\": \"'; rm\"}}", &said),
		0);
	assert_int_equal(image_step_script(plan, step(0), &out), 0);
	assert_non_null(strstr(buffer_text(&out), "export A=''\\''; rm'\n"));
	assert_non_null(strstr(buffer_text(&out), "'echo '\\''a'\\'' $(x)'"));
	buffer_fini(&out);
	buffer_fini(&said);
}

static void test_recipe(void **state)
{
	struct buffer said = {0};

	assert_int_equal(
		recipe("{\"base\": \"default@3\", \"apt\": [\"gcc-14=14.2.0-19\", \"a2ps\"],"
		       "\"pip\": [\"numpy>=2,<3\", \"uvicorn[standard]==0.30.*\", \"x\"],"
		       "\"npm\": [\"@types/node@20\", \"typescript\"],"
		       "\"files\": {\"a/b.txt\": \"x\", \"/etc/c\": \"y\"},"
		       "\"commands\": [\"true\"], \"workdir\": \"/srv\"}",
			&said),
		0);
	assert_int_equal(buffer_length(&said), 0);
	assert_int_equal(plan->step_count, 7);
	assert_string_equal(plan->workdir, "/srv");
	assert_string_equal(step(1)->words[4], "gcc-14=14.2.0-19");
	assert_string_equal(step(2)->words[5], "uvicorn[standard]==0.30.*");
	assert_string_equal(step(4)->target, "/srv/a/b.txt");
	assert_string_equal(step(5)->target, "/etc/c");
	assert_string_equal(step(6)->workdir, "/srv");
	buffer_fini(&said);
}

static void test_recipe_refused(void **state)
{
	static const char *const cases[][2] = {
		{"{\"apt\": [\"--allow-untrusted\"]}", "recipe.apt[0]: "},
		{"{\"apt\": [\"ok\", \"a;b\"]}", "recipe.apt[1]: "},
		{"{\"apt\": [\"/tmp/x.deb\"]}", "recipe.apt[0]: "},
		{"{\"apt\": [\"x=\"]}", "recipe.apt[0]: "},
		{"{\"apt\": \"x\"}", "recipe.apt: must be a list"},
		{"{\"pip\": [\"-r x\"]}", "recipe.pip[0]: "},
		{"{\"pip\": [\"git+https://x/y\"]}", "recipe.pip[0]: "},
		{"{\"pip\": [\"x @ file:///y\"]}", "recipe.pip[0]: "},
		{"{\"pip\": [\"x[a\"]}", "recipe.pip[0]: "},
		{"{\"npm\": [\"--global\"]}", "recipe.npm[0]: "},
		{"{\"npm\": [\"../x\"]}", "recipe.npm[0]: "},
		{"{\"npm\": [\"x@file:y\"]}", "recipe.npm[0]: "},
		{"{\"files\": {\"../x\": \"\"}}", "recipe.files.../x: "},
		{"{\"files\": {\"a/../../x\": \"\"}}", "recipe.files.a/../../x: "},
		{"{\"files\": [{\"path\": \"x\", \"content\": \"?\", \"encoding\": \"base64\"}]}",
			"is not base64"},
		{"{\"files\": [{\"path\": \"x\", \"content\": \"\", \"mode\": \"9\"}]}", "octal"},
		{"{\"files\": [{\"path\": \"x\", \"content\": \"\", \"owner\": \"9\"}]}",
			"owner is not a known field"},
		{"{\"env\": {\"A B\": \"x\"}}", "recipe.env.A B: "},
		{"{\"workdir\": \"x\"}", "recipe.workdir: must be an absolute path"},
		{"{\"commands\": [\"\"]}", "recipe.commands[0]: "},
		{"{\"comands\": []}", "did you mean commands"},
		{"{\"base\": \"\"}", "recipe.base: "},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buffer said = {0};

		assert_int_equal(recipe(cases[i][0], &said), -EINVAL);
		if (!strstr(buffer_text(&said), cases[i][1]))
			fail_msg("%s: said %s", cases[i][0], buffer_text(&said));
		buffer_fini(&said);
	}
}

static int pip(const char *requirement, struct buffer *said)
{
	char text[300];

	text_format(text, sizeof(text), "{\"pip\": [\"ok\", \"%s\"]}", requirement);
	return recipe(text, said);
}

/* Anything with a comparison in it was passed on, blanks and all. */
static void test_requirements(void **state)
{
	static const char *const right[] = {"a", "A.b_c-d", "x[]", "x[y]", "x [y, z-1] ",
		"numpy>=2,<3", "numpy >= 2, < 3", "x==1.0.*", "x!=1.*", "x~=1.4.2",
		"x===1.0+local.7", "x==1!2.0rc1.post2.dev3"};
	static const char *const wrong[] = {"", " x", "-x", "x-", ".x", "x y", "x==", "x=1", "x=>1",
		"x==1 2", "x==1 -r /etc/passwd", "x==1 --pre", "x==1,", "x==1,,<2", "x,<2",
		"x>=1.*", "x==*", "x==1*", "x==.*", "x==1.*.2", "x==-1", "x==1-", "x[y", "x[y z]",
		"x[y,]", "x[,y]", "x[y]]", "x(>=1)", "x>1;python_version>'3'", "x @ https://y/z",
		"./x", "x/y", "x==1\\n-r y"};

	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		struct buffer said = {0};

		if (pip(right[i], &said))
			fail_msg("\"%s\" is refused: %s", right[i], buffer_text(&said));
		assert_string_equal(step(0)->words[5], right[i]);
		buffer_fini(&said);
		image_plan_free(plan);
		plan = NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct buffer said = {0};

		if (pip(wrong[i], &said) != -EINVAL)
			fail_msg("\"%s\" is taken", wrong[i]);
		assert_true(text_starts(buffer_text(&said), "recipe.pip[1]: must be a package"));
		buffer_fini(&said);
	}
}

static int free_plan(void **state)
{
	image_plan_free(plan);
	plan = NULL;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_instructions),
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_heredocs),
		cmocka_unit_test(test_escape_directive),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_recipe),
		cmocka_unit_test(test_recipe_refused),
		cmocka_unit_test(test_requirements),
	};

	return cmocka_run_group_tests(tests, NULL, free_plan);
}
