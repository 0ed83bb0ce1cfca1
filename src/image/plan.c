/* SPDX-License-Identifier: Apache-2.0 - plans of builds: made, grown, freed. */
#include "image/plan.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TITLE_MOST 120

struct image_plan *image_plan_new(const char *cwd)
{
	struct image_plan *plan = calloc(1, sizeof(*plan));

	if (plan && !(plan->cwd = strdup(cwd))) {
		free(plan);
		return NULL;
	}
	return plan;
}

static void step_fini(struct image_step *step)
{
	for (size_t i = 0; i < step->word_count; i++)
		free(step->words[i]);
	free(step->words);
	free(step->title);
	free(step->target);
	free(step->owner);
	free(step->user);
	free(step->workdir);
}

void image_plan_free(struct image_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->variable_count; i++) {
		free(plan->variables[i].name);
		free(plan->variables[i].value);
	}
	for (size_t i = 0; i < plan->step_count; i++)
		step_fini(&plan->steps[i]);
	for (size_t i = 0; i < plan->file_count; i++) {
		free(plan->files[i].name);
		free(plan->files[i].bytes);
	}
	free(plan->variables);
	free(plan->steps);
	free(plan->files);
	free(plan->base);
	free(plan->cwd);
	free(plan->workdir);
	free(plan);
}

int image_plan_variable(struct image_plan *plan, const char *name, const char *value, bool argument)
{
	struct image_variable *more;

	if (plan->variable_count >= IMAGE_VARIABLES_MOST)
		return -E2BIG;
	more = reallocarray(plan->variables, plan->variable_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	plan->variables = more;
	more += plan->variable_count;
	*more = (struct image_variable){strdup(name), strdup(value), argument};
	if (!more->name || !more->value) {
		free(more->name);
		free(more->value);
		return -ENOMEM;
	}
	plan->variable_count++;
	return 0;
}

const char *image_plan_value(const struct image_plan *plan, const char *name)
{
	for (size_t i = plan->variable_count; i > 0; i--) {
		if (strcmp(plan->variables[i - 1].name, name) == 0)
			return plan->variables[i - 1].value;
	}
	return NULL;
}

struct image_step *image_plan_step(struct image_plan *plan, enum image_step_kind kind, int *r)
{
	struct image_step *more;

	*r = plan->step_count >= IMAGE_STEPS_MOST ? -E2BIG : 0;
	if (*r)
		return NULL;
	more = reallocarray(plan->steps, plan->step_count + 1, sizeof(*more));
	if (!more) {
		*r = -ENOMEM;
		return NULL;
	}
	plan->steps = more;
	more += plan->step_count++;
	*more = (struct image_step){.kind = kind, .variables = plan->variable_count, .mode = -1};
	return more;
}

int image_step_word(struct image_step *step, const char *word, size_t count)
{
	char **more = reallocarray(step->words, step->word_count + 2, sizeof(*more));

	if (!more)
		return -ENOMEM;
	step->words = more;
	more[step->word_count] = strndup(word, count);
	more[step->word_count + 1] = NULL;
	if (!more[step->word_count])
		return -ENOMEM;
	step->word_count++;
	return 0;
}

int image_step_title(struct image_step *step, const char *format, ...)
{
	char text[4 * TITLE_MOST];
	struct buffer safe = {0};
	size_t n;
	va_list ap;
	int r;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	n = strcspn(text, "\n");
	r = text_add_safe(&safe, text, n < TITLE_MOST ? n : TITLE_MOST, false);
	if (!r && (text[n] || n > TITLE_MOST))
		r = buffer_add_text(&safe, " ...");
	step->title = r ? NULL : buffer_steal(&safe);
	buffer_fini(&safe);
	return step->title ? 0 : -ENOMEM;
}

int image_plan_file(struct image_plan *plan, const char *name, const void *bytes, size_t count,
	unsigned mode, size_t *index)
{
	struct image_file *more;

	if (plan->file_count >= IMAGE_FILES_MOST)
		return -E2BIG;
	more = reallocarray(plan->files, plan->file_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	plan->files = more;
	more += plan->file_count;
	*more = (struct image_file){.name = name ? strdup(name) : NULL,
		.bytes = malloc(count + 1),
		.count = count,
		.mode = mode};
	if (!more->bytes || (name && !more->name)) {
		free(more->bytes);
		free(more->name);
		return -ENOMEM;
	}
	memcpy(more->bytes, bytes, count);
	*index = plan->file_count++;
	return 0;
}

bool image_is_variable(const char *name)
{
	if (!name[0] || isdigit((unsigned char)name[0]) || strlen(name) > 256)
		return false;
	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && *p != '_')
			return false;
	}
	return true;
}

bool image_is_beneath(const char *path)
{
	if (!path[0] || path[0] == '/' || strlen(path) >= PATH_MAX)
		return false;
	for (const char *p = path; *p; p += strcspn(p, "/"), p += strspn(p, "/")) {
		if (strcspn(p, "/") == 2 && p[0] == '.' && p[1] == '.')
			return false;
	}
	return true;
}

char *image_path_clean(const char *from, const char *path)
{
	char text[PATH_MAX], *out;
	size_t n = 0;

	if (text_format(text, sizeof(text), "%s/%s", path[0] == '/' ? "" : from, path))
		return NULL;
	out = malloc(strlen(text) + 2);
	if (!out)
		return NULL;
	for (const char *p = text + strspn(text, "/"); *p;) {
		size_t part = strcspn(p, "/");

		if (part == 2 && strncmp(p, "..", 2) == 0) {
			while (n && out[--n] != '/')
				;
		} else if (!(part == 1 && *p == '.')) {
			out[n++] = '/';
			memcpy(out + n, p, part);
			n += part;
		}
		p += part;
		p += strspn(p, "/");
	}
	if (!n)
		out[n++] = '/';
	out[n] = 0;
	return out;
}
