/* SPDX-License-Identifier: Apache-2.0 - recipes: packages, files and commands as steps of a plan.
 */
#include "image/plan.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * What a recipe says ends as words of programs, each quoted, after "--" where the program knows
 * it. The patterns here are the second fence: a package is a name with a version, never an option,
 * an address or a file.
 */
#define PACKAGES_MOST 256u
#define PACKAGE_MOST  200u
#define COMMAND_MOST  65536u
#define VALUE_MOST    32768u
#define CONTENT_MOST  (1u << 20)

void image_issue(json_t *issues, const char *path, const char *format, ...)
{
	struct buffer safe = {0};
	char message[300];
	va_list ap;

	if (json_array_size(issues) >= 50)
		return;
	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	if (text_add_safe(&safe, path, strnlen(path, 200), false) == 0 && buffer_text(&safe))
		json_array_append_new(issues,
			json_pack("{ss ss}", "path", buffer_text(&safe), "message", message));
	buffer_fini(&safe);
}

/* --- names --- */

static size_t span(const char *text, const char *also)
{
	size_t n = 0;

	while (text[n] && (isalnum((unsigned char)text[n]) || strchr(also, text[n])))
		n++;
	return n;
}

/* name[:architecture][=version][/suite] */
static bool is_apt(const char *text)
{
	size_t n = span(text, "+.-");

	if (!n || !isalnum((unsigned char)text[0]))
		return false;
	if (text[n] == ':')
		n += 1 + span(text + n + 1, "");
	if (text[n] == '=' || text[n] == '/')
		n += 1 + span(text + n + 1, "+.-:~");
	return !text[n] && text[n - 1] != '=' && text[n - 1] != '/' && text[n - 1] != ':';
}

/* What PEP 508 says of a requirement, without its URLs and markers: blanks between parts only, so
 * that no part can bring another word along. Each takes its part of *at, and the blanks after it.
 */

static void take_blanks(const char **at)
{
	*at += strspn(*at, " \t");
}

static bool take_char(const char **at, char c)
{
	if (**at != c)
		return false;
	++*at;
	take_blanks(at);
	return true;
}

/* letters and digits at both ends */
static bool take_pip_name(const char **at)
{
	size_t n = span(*at, "._-");

	if (!n || !isalnum((unsigned char)(*at)[0]) || !isalnum((unsigned char)(*at)[n - 1]))
		return false;
	*at += n;
	take_blanks(at);
	return true;
}

static bool take_pip_extras(const char **at)
{
	if (!take_char(at, '['))
		return true;
	if (take_char(at, ']'))
		return true;
	do {
		if (!take_pip_name(at))
			return false;
	} while (take_char(at, ','));
	return take_char(at, ']');
}

/* ">=2.0", "==1.*" */
static bool take_pip_version(const char **at)
{
	static const char *const comparisons[] = {"===", "~=", "==", "!=", "<=", ">=", "<", ">"};
	size_t i = 0, n;
	bool star;

	while (i < ARRAY_SIZE(comparisons) && !text_starts(*at, comparisons[i]))
		i++;
	if (i == ARRAY_SIZE(comparisons))
		return false;
	*at += strlen(comparisons[i]);
	take_blanks(at);
	n = span(*at, "._-+!");
	/* "2.*" is a version for == and != alone */
	star = n > 1 && (*at)[n] == '*' && (*at)[n - 1] == '.';
	if (!n || !isalnum((unsigned char)(*at)[0]) ||
		(star ? i != 2 && i != 3 : !isalnum((unsigned char)(*at)[n - 1])))
		return false;
	*at += n + star;
	take_blanks(at);
	return true;
}

/* name[extras] with versions: "numpy>=2,<3", "uvicorn[standard] == 0.30.*" */
static bool is_pip(const char *text)
{
	if (!take_pip_name(&text) || !take_pip_extras(&text))
		return false;
	if (!*text)
		return true;
	do {
		if (!take_pip_version(&text))
			return false;
	} while (take_char(&text, ','));
	return !*text;
}

/* [@scope/]name[@version or tag] */
static bool is_npm(const char *text)
{
	size_t n = 0;

	if (text[0] == '@') {
		n = 1 + span(text + 1, "._-~");
		if (n == 1 || text[n] != '/' || text[1] == '.')
			return false;
		n++;
	}
	if (!isalnum((unsigned char)text[n]))
		return false;
	n += span(text + n, "._-~");
	if (text[n] == '@')
		n += 1 + span(text + n + 1, "._-~^<>=*+ ");
	return !text[n];
}

/* --- packages --- */

static int check_names(const json_t *list, const char *field, bool (*is)(const char *),
	const char *right, json_t *issues)
{
	char path[64];
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > PACKAGES_MOST) {
		image_issue(issues, field, "must be a list of at most %u names", PACKAGES_MOST);
		return -EINVAL;
	}
	json_array_foreach (list, i, item) {
		const char *text = json_string_value(item);

		if (text && strlen(text) <= PACKAGE_MOST &&
			strlen(text) == json_string_length(item) && is(text))
			continue;
		text_format(path, sizeof(path), "%s[%zu]", field, i);
		image_issue(issues, path, "must be %s", right);
	}
	return 0;
}

/* RUN of a shell script whose arguments are the names */
static int add_install(
	struct image_plan *plan, const char *title, const char *script, const json_t *list)
{
	struct buffer text = {0};
	struct image_step *step;
	json_t *item;
	size_t i;
	int r;

	step = image_plan_step(plan, IMAGE_STEP_RUN, &r);
	if (!step)
		return r;
	(void)((r = image_step_word(step, "/bin/bash", 9)) ||
		(r = image_step_word(step, "-ec", 3)) ||
		(r = image_step_word(step, script, strlen(script))) ||
		(r = image_step_word(step, "install", 7)));
	if (!r)
		r = buffer_add_text(&text, title);
	json_array_foreach (list, i, item) {
		const char *name = json_string_value(item);

		if (!r)
			r = image_step_word(step, name, strlen(name));
		if (!r)
			r = buffer_printf(&text, " %s", name);
	}
	if (!r)
		r = image_step_title(step, "%s", buffer_text(&text));
	step->workdir = strdup("/");
	buffer_fini(&text);
	return r ? r : step->workdir ? 0 : -ENOMEM;
}

struct installer {
	const char *field, *path, *title, *right, *script;
	bool (*is)(const char *text);
};

static const struct installer installers[] = {
	{"apt", "recipe.apt", "apt-get install",
		"a package's name, as python3-venv or gcc-14=14.2.0-19",
		"apt-get -q update; apt-get -q install -y --no-install-recommends -- \"$@\"; "
		"apt-get -q clean; rm -rf /var/lib/apt/lists/*",
		is_apt},
	{"pip", "recipe.pip", "pip install",
		"a package, with extras and versions if wanted, as hypothesis or "
		"uvicorn[standard]>=0.30,<1",
		"python3 -m pip install --break-system-packages --no-cache-dir --no-input "
		"--disable-pip-version-check --root-user-action=ignore --progress-bar off -- "
		"\"$@\"",
		is_pip},
	{"npm", "recipe.npm", "npm install -g", "a package, as typescript or @types/node@20",
		"npm install -g --no-fund --no-audit --no-update-notifier --no-progress "
		"--cache /tmp/npm -- \"$@\"",
		is_npm},
};

static int add_packages(struct image_plan *plan, const json_t *recipe, json_t *issues)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(installers) && !r; i++) {
		const struct installer *f = &installers[i];
		const json_t *list = json_object_get(recipe, f->field);
		size_t before = json_array_size(issues);

		if (!list)
			continue;
		check_names(list, f->path, f->is, f->right, issues);
		if (json_array_size(list) && json_array_size(issues) == before)
			r = add_install(plan, f->title, f->script, list);
	}
	return r;
}

/* --- environment, folder --- */

static int add_env(struct image_plan *plan, const json_t *env, json_t *issues)
{
	const char *name;
	json_t *value;
	char path[300];
	int r = 0;

	if (env && !json_is_object(env))
		image_issue(issues, "recipe.env", "must be an object of strings");
	json_object_foreach ((json_t *)(uintptr_t)env, name, value) {
		const char *text = json_string_value(value);

		text_format(path, sizeof(path), "recipe.env.%.200s", name);
		if (!image_is_variable(name))
			image_issue(issues, path,
				"a variable's name has letters, digits and _, no digit first");
		else if (!text || strlen(text) > VALUE_MOST)
			image_issue(
				issues, path, "must be a string of at most %u bytes", VALUE_MOST);
		else if (!r)
			r = image_plan_variable(plan, name, text, false);
	}
	return r;
}

static int add_workdir(struct image_plan *plan, const json_t *value, json_t *issues)
{
	const char *path = json_string_value(value);
	struct image_step *step;
	int r;

	if (!value)
		return 0;
	if (!path || path[0] != '/' || strlen(path) >= PATH_MAX / 2) {
		image_issue(issues, "recipe.workdir", "must be an absolute path");
		return 0;
	}
	plan->workdir = image_path_clean("/", path);
	step = plan->workdir ? image_plan_step(plan, IMAGE_STEP_DIRECTORY, &r) : NULL;
	if (!plan->workdir || !step)
		return plan->workdir ? r : -ENOMEM;
	step->target = strdup(plan->workdir);
	step->owner = strdup("runtime");
	r = image_step_title(step, "workdir %s", plan->workdir);
	return step->target && step->owner ? r : -ENOMEM;
}

/* --- files --- */

static int add_file(struct image_plan *plan, const char *name, const struct buffer *bytes,
	unsigned mode, const char *workdir)
{
	struct image_step *step;
	size_t index;
	int r = image_plan_file(plan, workdir ? NULL : name,
		buffer_length(bytes) ? buffer_bytes(bytes) : (const void *)"", buffer_length(bytes),
		mode, &index);

	if (r || !workdir)
		return r;
	step = image_plan_step(plan, IMAGE_STEP_FILE, &r);
	if (!step)
		return r;
	step->file = index;
	step->mode = (int)mode;
	step->target = image_path_clean(workdir, name);
	r = step->target ? image_step_title(step, "file %s", step->target) : -ENOMEM;
	return r;
}

static bool read_mode(const json_t *value, unsigned *mode)
{
	const char *text = json_string_value(value);
	unsigned long n;
	char *end;

	*mode = 0644;
	if (!value || json_is_null(value))
		return true;
	if (json_is_integer(value)) {
		*mode = (unsigned)json_integer_value(value);
		return json_integer_value(value) >= 0 && json_integer_value(value) <= 07777;
	}
	n = text ? strtoul(text, &end, 8) : 0;
	*mode = (unsigned)n;
	return text && strlen(text) >= 3 && strlen(text) <= 5 && isdigit((unsigned char)*text) &&
	       !*end && n <= 07777;
}

/* One file, with what is wrong said at `at`. */
static int take_file(struct image_plan *plan, const char *name, const json_t *content,
	const json_t *entry, const char *at, const char *workdir, json_t *issues)
{
	const char *text = json_string_value(content);
	const char *encoding = json_string_value(json_object_get(entry, "encoding"));
	struct buffer bytes = {0};
	unsigned mode = 0644;
	int r = 0;

	if (!name || !name[0] || strlen(name) >= PATH_MAX / 2 ||
		(workdir ? !image_is_beneath(name + strspn(name, "/")) : !image_is_beneath(name)))
		image_issue(issues, at, "must have a path without \"..\"%s",
			workdir ? "" : ", below the context");
	else if (!text || json_string_length(content) > 2 * CONTENT_MOST)
		image_issue(issues, at, "must have a content of at most 1 MiB");
	else if (encoding && strcmp(encoding, "utf8") != 0 && strcmp(encoding, "base64") != 0)
		image_issue(issues, at, "encoding must be utf8 or base64");
	else if (!read_mode(json_object_get(entry, "mode"), &mode))
		image_issue(issues, at, "mode must be octal, as \"755\"");
	else if (encoding && strcmp(encoding, "base64") == 0 &&
		 (r = text_unbase64(text, &bytes)) == -EINVAL)
		image_issue(issues, at, "content is not base64");
	else if (!r && !(encoding && strcmp(encoding, "base64") == 0))
		r = buffer_add(&bytes, text, json_string_length(content));
	if (!r && json_array_size(issues) == 0)
		r = add_file(plan, name, &bytes, mode, workdir);
	buffer_fini(&bytes);
	return r == -EINVAL ? 0 : r;
}

static void refuse_others(const json_t *entry, const char *at, json_t *issues)
{
	static const char *const known[] = {"path", "content", "encoding", "mode", NULL};
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)entry, key, value) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			image_issue(issues, at, "%.60s is not a known field", key);
	}
}

int image_files_parse(struct image_plan *plan, const json_t *files, const char *path,
	const char *workdir, json_t *issues)
{
	const char *name;
	json_t *entry;
	char at[400];
	size_t i;
	int r = 0;

	if (!json_is_object(files) && !json_is_array(files)) {
		image_issue(issues, path, "must be an object {path: content} or a list of files");
		return 0;
	}
	json_object_foreach ((json_t *)(uintptr_t)files, name, entry) {
		text_format(at, sizeof(at), "%s.%.200s", path, name);
		if (!r)
			r = take_file(plan, name, entry, NULL, at, workdir, issues);
	}
	json_array_foreach (files, i, entry) {
		text_format(at, sizeof(at), "%s[%zu]", path, i);
		refuse_others(entry, at, issues);
		if (!r)
			r = take_file(plan, json_string_value(json_object_get(entry, "path")),
				json_object_get(entry, "content"), entry, at, workdir, issues);
	}
	return r;
}

/* --- commands --- */

static int add_command(struct image_plan *plan, const char *text)
{
	struct image_step *step;
	int r;

	step = image_plan_step(plan, IMAGE_STEP_RUN, &r);
	if (!step)
		return r;
	(void)((r = image_step_word(step, "/bin/bash", 9)) ||
		(r = image_step_word(step, "-ec", 3)) ||
		(r = image_step_word(step, text, strlen(text))) ||
		(r = image_step_title(step, "run %s", text)));
	step->workdir = strdup(plan->workdir ? plan->workdir : plan->cwd);
	return r ? r : step->workdir ? 0 : -ENOMEM;
}

static int add_commands(struct image_plan *plan, const json_t *list, json_t *issues)
{
	char at[64];
	json_t *item;
	size_t i;
	int r = 0;

	if (list && !json_is_array(list))
		image_issue(issues, "recipe.commands", "must be a list of strings");
	json_array_foreach (list, i, item) {
		const char *text = json_string_value(item);

		text_format(at, sizeof(at), "recipe.commands[%zu]", i);
		if (!text || !text[0] || strlen(text) > COMMAND_MOST)
			image_issue(issues, at, "must be a string of 1 to %u bytes", COMMAND_MOST);
		else if (!r)
			r = add_command(plan, text);
	}
	return r;
}

int image_recipe_parse(struct image_plan *plan, const json_t *recipe, json_t *issues)
{
	static const char *const known[] = {
		"base", "apt", "pip", "npm", "commands", "files", "env", "workdir", NULL};
	const json_t *base = json_object_get(recipe, "base");
	const char *key, *nearest;
	char at[128];
	json_t *value;
	int r = 0;

	if (!json_is_object(recipe)) {
		image_issue(issues, "recipe", "must be an object");
		return -EINVAL;
	}
	json_object_foreach ((json_t *)(uintptr_t)recipe, key, value) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (known[i])
			continue;
		nearest = text_nearest(key, known);
		text_format(at, sizeof(at), "recipe.%.80s", key);
		image_issue(issues, at, "is not a known field%s%s",
			nearest ? "; did you mean " : "", nearest ? nearest : "");
	}
	if (base && (!json_string_length(base) || json_string_length(base) > 128))
		image_issue(issues, "recipe.base", "must be the reference of an image, as default");
	else if (!(plan->base = strdup(base ? json_string_value(base) : "default")))
		return -ENOMEM;
	(void)((r = add_env(plan, json_object_get(recipe, "env"), issues)) ||
		(r = add_workdir(plan, json_object_get(recipe, "workdir"), issues)) ||
		(r = add_packages(plan, recipe, issues)));
	if (!r && json_object_get(recipe, "files"))
		r = image_files_parse(plan, json_object_get(recipe, "files"), "recipe.files",
			plan->workdir ? plan->workdir : plan->cwd, issues);
	if (!r)
		r = add_commands(plan, json_object_get(recipe, "commands"), issues);
	if (r == -E2BIG)
		image_issue(issues, "recipe",
			"is too large: at most %u steps, %u files, %u variables", IMAGE_STEPS_MOST,
			IMAGE_FILES_MOST, IMAGE_VARIABLES_MOST);
	return json_array_size(issues) ? -EINVAL : r;
}
