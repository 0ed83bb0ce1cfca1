/* SPDX-License-Identifier: Apache-2.0 - fuzzes Dockerfiles and recipes: a plan keeps its promises,
 * and its scripts hold what was said as quoted words only. */
#include "image/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* What a shell makes of the text between its single quotes. */
static void check_quote(const char *text)
{
	struct buffer out = {0};
	const char *p, *t = text;

	check(image_quote(&out, text) == 0);
	p = buffer_text(&out);
	check(*p++ == '\'');
	while (*p) {
		if (*p != '\'') {
			check(*p++ == *t++);
		} else if (strncmp(p, "'\\''", 4) == 0) {
			check(*t++ == '\'');
			p += 4;
		} else {
			check(p[1] == 0);
			break;
		}
	}
	check(*p == '\'' && *t == 0);
	buffer_fini(&out);
}

/* Absolute, and without a way up. */
static void check_path(const char *path)
{
	check(path[0] == '/' && (!path[1] || image_is_beneath(path + 1)));
}

static void check_step(const struct image_plan *plan, const struct image_step *step)
{
	struct buffer out = {0};

	check(step->title && !strchr(step->title, '\n') && step->variables <= plan->variable_count);
	check(step->kind != IMAGE_STEP_RUN || (step->word_count && step->workdir));
	check(step->kind == IMAGE_STEP_RUN || step->target);
	check(step->kind != IMAGE_STEP_FILE || step->file < plan->file_count);
	if (step->target)
		check_path(step->target);
	if (step->workdir)
		check_path(step->workdir);
	for (size_t i = 0; i < step->word_count; i++) {
		check_quote(step->words[i]);
		check(step->kind != IMAGE_STEP_COPY || image_is_beneath(step->words[i]));
	}
	check(step->mode >= -1 && step->mode <= 07777);
	check(image_step_script(plan, step, &out) == 0 && buffer_length(&out) > 0);
	buffer_fini(&out);
}

static void check_plan(const struct image_plan *plan)
{
	check(plan->base && plan->base[0] && strlen(plan->base) <= 128);
	check(plan->step_count <= IMAGE_STEPS_MOST && plan->file_count <= IMAGE_FILES_MOST);
	if (plan->workdir)
		check_path(plan->workdir);
	for (size_t i = 0; i < plan->variable_count; i++)
		check(image_is_variable(plan->variables[i].name));
	for (size_t i = 0; i < plan->file_count; i++)
		check(!plan->files[i].name || image_is_beneath(plan->files[i].name));
	for (size_t i = 0; i < plan->step_count; i++)
		check_step(plan, &plan->steps[i]);
}

static int parse(struct image_plan *plan, const uint8_t *bytes, size_t count)
{
	struct image_dockerfile source = {.text = (const char *)bytes, .count = count};
	struct error err = {0};
	json_t *recipe, *issues;
	int r;

	if (count && bytes[0] == '{' && (recipe = json_loadb(source.text, count, 0, NULL))) {
		issues = json_array();
		r = image_recipe_parse(plan, recipe, issues);
		check((r == -EINVAL) == (json_array_size(issues) > 0));
		json_decref(issues);
		json_decref(recipe);
		return r;
	}
	source.no_start = count & 1;
	r = image_dockerfile_parse(plan, &source, &err);
	check(!r || (r == -EINVAL && strncmp(err.message, "Dockerfile:", 11) == 0));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct image_plan *plan = image_plan_new("/workspace");

	check(plan != NULL);
	if (parse(plan, bytes, count) == 0)
		check_plan(plan);
	image_plan_free(plan);
	return 0;
}
