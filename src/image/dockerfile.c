/* SPDX-License-Identifier: Apache-2.0 - Dockerfiles: FROM, RUN, COPY, ENV, WORKDIR, USER, ARG. */
#include "image/dockerfile_internal.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * Theory of operation
 *
 * The text is hostile, and only read: physical lines are joined to instructions (comments dropped,
 * the escape character at a line's end, heredocs after it), an instruction is its first word, and a
 * table says who takes the rest. What is not in the table is refused with its name and line:
 * a Dockerfile that means more than what is built would be a silent lie.
 *
 * One stage. An ARG before FROM stays known after it.
 */
/* --- the rest of an instruction --- */

/* its words, variables put in; *out holds them one after the other, each with its NUL */
static int read_words(const struct parse *p, const char *rest, struct buffer *out)
{
	struct error err = {0};
	int r = image_dockerfile_expand(p->plan, rest, p->escape, true, out, &err);

	return r == -EINVAL ? dockerfile_fail(p, "%s", error_message(&err))
			    : dockerfile_fail_code(p, r);
}

static const char *next_word(const struct buffer *words, const char *word)
{
	const char *next = word ? word + strlen(word) + 1 : (const char *)buffer_bytes(words);

	return next && next < (const char *)buffer_bytes(words) + buffer_length(words) ? next
										       : NULL;
}

/* the one word of an instruction */
static int read_one(const struct parse *p, const char *what, const char *rest, struct buffer *out)
{
	int r = read_words(p, rest, out);
	const char *word = r ? NULL : next_word(out, NULL);

	if (!r && (!word || !*word || next_word(out, word)))
		return dockerfile_fail(p, "%s takes one word", what);
	return r;
}

/* A JSON list of texts; NULL when it is none. */
static json_t *read_list(const char *rest)
{
	json_t *list = rest[0] == '[' ? json_loads(rest, 0, NULL) : NULL, *item;
	size_t i;
	bool fine = json_is_array(list) && json_array_size(list) > 0;

	json_array_foreach (list, i, item)
		fine = fine && json_is_string(item);
	if (fine)
		return list;
	json_decref(list);
	return NULL;
}

/* --- instructions --- */

static int do_from(struct parse *p, const char *rest)
{
	struct buffer words = {0};
	const char *word, *as;
	int r = read_words(p, rest, &words);

	word = r ? NULL : next_word(&words, NULL);
	as = word ? next_word(&words, word) : NULL;
	if (r)
		;
	else if (p->plan->base)
		r = dockerfile_fail(p, "a second FROM: builds have one stage here");
	else if (!word || !*word || strlen(word) > 128)
		r = dockerfile_fail(p, "FROM takes the reference of an image, as FROM default");
	else if (word[0] == '-')
		r = dockerfile_fail(p, "FROM %.60s is not supported: FROM IMAGE [AS NAME]", word);
	else if (as && (strcasecmp(as, "as") != 0 || !next_word(&words, as) ||
			       next_word(&words, next_word(&words, as))))
		r = dockerfile_fail(p, "FROM is not understood: FROM IMAGE [AS NAME]");
	else
		r = (p->plan->base = strdup(word)) ? 0 : dockerfile_fail_code(p, -ENOMEM);
	buffer_fini(&words);
	return r;
}

static int do_arg(struct parse *p, const char *rest)
{
	struct buffer words = {0};
	int r = read_words(p, rest, &words);

	for (const char *word = NULL; !r && (word = next_word(&words, word));) {
		const char *equals = strchr(word, '=');
		size_t n = equals ? (size_t)(equals - word) : strlen(word);
		const char *value = equals ? equals + 1 : NULL, *given;
		char name[257];

		if (text_format(name, sizeof(name), "%.*s", (int)n, word) ||
			!image_is_variable(name)) {
			r = dockerfile_fail(p, "ARG %.60s: not the name of a variable", word);
			break;
		}
		given = json_string_value(json_object_get(p->source->arguments, name));
		if (given)
			value = given;
		for (size_t i = 0; i < p->plan->variable_count; i++) {
			if (!p->plan->variables[i].argument &&
				strcmp(p->plan->variables[i].name, name) == 0)
				value = NULL; /* an ENV stands above it */
		}
		if (value)
			r = dockerfile_fail_code(
				p, image_plan_variable(p->plan, name, value, true));
	}
	buffer_fini(&words);
	return r;
}

/* ENV NAME VALUE: all of the line is one value */
static int do_env_old(struct parse *p, const char *rest)
{
	size_t n = strcspn(rest, BLANKS);
	struct buffer value = {0};
	struct error err = {0};
	char name[257];
	int r;

	if (text_format(name, sizeof(name), "%.*s", (int)n, rest) || !image_is_variable(name))
		return dockerfile_fail(p, "ENV %.60s: not the name of a variable", rest);
	rest += n + strspn(rest + n, BLANKS);
	if (!*rest)
		return dockerfile_fail(p, "ENV %s has no value", name);
	r = image_dockerfile_expand(p->plan, rest, p->escape, false, &value, &err);
	if (r == -EINVAL)
		r = dockerfile_fail(p, "%s", error_message(&err));
	if (!r)
		r = image_plan_variable(p->plan, name, (const char *)buffer_bytes(&value), false);
	buffer_fini(&value);
	return dockerfile_fail_code(p, r);
}

static int do_env(struct parse *p, const char *rest)
{
	struct buffer words = {0};
	int r;

	if (!memchr(rest, '=', strcspn(rest, BLANKS)))
		return do_env_old(p, rest);
	r = read_words(p, rest, &words);
	for (const char *word = NULL; !r && (word = next_word(&words, word));) {
		const char *equals = strchr(word, '=');
		char name[257];

		if (!equals ||
			text_format(name, sizeof(name), "%.*s", (int)(equals - word), word) ||
			!image_is_variable(name))
			r = dockerfile_fail(p, "ENV %.60s: must be NAME=VALUE", word);
		else
			r = dockerfile_fail_code(
				p, image_plan_variable(p->plan, name, equals + 1, false));
	}
	buffer_fini(&words);
	return r;
}

static const char *here(const struct parse *p)
{
	return p->plan->workdir ? p->plan->workdir : p->plan->cwd;
}

static int do_workdir(struct parse *p, const char *rest)
{
	struct buffer words = {0};
	struct image_step *step;
	char *path = NULL;
	int r = read_one(p, "WORKDIR", rest, &words);

	if (!r)
		path = image_path_clean(here(p), (const char *)buffer_bytes(&words));
	if (!r && !path)
		r = dockerfile_fail(p, "WORKDIR: the path is too long");
	step = r ? NULL : image_plan_step(p->plan, IMAGE_STEP_DIRECTORY, &r);
	if (step) {
		step->line = p->line;
		step->target = strdup(path);
		r = step->target ? image_step_title(step, "WORKDIR %s", path) : -ENOMEM;
		free(p->plan->workdir);
		p->plan->workdir = steal_ptr(&path);
	}
	free(path);
	buffer_fini(&words);
	return dockerfile_fail_code(p, r);
}

/* user[:group], of names or numbers */
static bool is_user(const char *text)
{
	size_t n =
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	if (!n || text[0] == '-' || n > 32)
		return false;
	return !text[n] || (text[n] == ':' && !strchr(text + n + 1, ':') && is_user(text + n + 1));
}

static int do_user(struct parse *p, const char *rest)
{
	struct buffer words = {0};
	int r = read_one(p, "USER", rest, &words);
	const char *user = (const char *)buffer_bytes(&words);

	if (!r && !is_user(user))
		r = dockerfile_fail(p, "USER %.60s: must be a name or a number", user);
	if (!r) {
		free(p->user);
		p->user = strcmp(user, "root") && strcmp(user, "0") ? strdup(user) : NULL;
	}
	buffer_fini(&words);
	return r;
}

/* What the shell is to run: the line and its heredocs, or the heredoc that is all of it. */
static int run_text(struct parse *p, const char *rest, struct buffer *out)
{
	struct heredoc docs[HEREDOCS_MOST];
	size_t count = dockerfile_heredocs(rest, docs);
	bool whole = count == 1 && text_starts(rest, "<<") && docs[0].last;
	int r = 0;

	if (!count)
		return dockerfile_fail_code(p, buffer_add_text(out, rest));
	if (!whole)
		r = dockerfile_fail_code(p, buffer_printf(out, "%s\n", rest));
	for (size_t i = 0; i < count && !r; i++)
		r = dockerfile_heredoc(p, &docs[i], !whole, out);
	return r;
}

static int do_run(struct parse *p, const char *rest)
{
	json_t *list = read_list(rest), *item;
	struct image_step *step;
	struct buffer text = {0};
	const char *shell[] = {"/bin/sh", "-c"};
	size_t i;
	int r = 0;

	if (rest[0] == '-')
		r = dockerfile_fail(p, "RUN %.*s is not supported", (int)strcspn(rest, "= "), rest);
	step = r ? NULL : image_plan_step(p->plan, IMAGE_STEP_RUN, &r);
	if (step) {
		step->line = p->line;
		step->workdir = strdup(here(p));
		step->user = p->user ? strdup(p->user) : NULL;
		r = image_step_title(step, "RUN %s", rest);
		if (!step->workdir || (p->user && !step->user))
			r = -ENOMEM;
	}
	if (!r && !list)
		r = run_text(p, rest, &text);
	for (i = 0; i < 2 && !r && !list; i++)
		r = image_step_word(step, shell[i], strlen(shell[i]));
	if (!r && !list)
		r = image_step_word(step, buffer_text(&text), buffer_length(&text));
	json_array_foreach (list, i, item) {
		if (!r)
			r = image_step_word(
				step, json_string_value(item), json_string_length(item));
	}
	json_decref(list);
	buffer_fini(&text);
	return dockerfile_fail_code(p, r);
}

/* COPY <<NAME target: a file of what follows */
static int copy_heredoc(struct parse *p, const struct heredoc *h, const char *target, int mode)
{
	struct buffer body = {0}, text = {0};
	struct image_step *step;
	struct error err = {0};
	char *name = NULL;
	size_t index;
	int r = dockerfile_heredoc(p, h, false, &body);

	if (!r && !h->literal && buffer_length(&body)) {
		r = image_dockerfile_expand(
			p->plan, buffer_text(&body), p->escape, false, &text, &err);
		if (r == -EINVAL)
			r = dockerfile_fail(p, "%s", error_message(&err));
		else if (!r)
			buffer_clear(&body), r = buffer_add(&body, buffer_bytes(&text),
						     buffer_length(&text) - 1);
	}
	if (!r)
		r = image_plan_file(p->plan, NULL,
			buffer_length(&body) ? buffer_bytes(&body) : (const void *)"",
			buffer_length(&body), 0644, &index);
	step = r ? NULL : image_plan_step(p->plan, IMAGE_STEP_FILE, &r);
	if (step) {
		if (text_ends(target, "/") && asprintf(&name, "%s/%s", target, h->word) < 0)
			name = NULL;
		step->line = p->line;
		step->file = index;
		step->mode = mode < 0 ? 0644 : mode;
		step->target = image_path_clean(here(p), name ? name : target);
		r = step->target ? image_step_title(step, "COPY <<%s %s", h->word, target)
				 : -ENOMEM;
		free(name);
	}
	buffer_fini(&body);
	buffer_fini(&text);
	return dockerfile_fail_code(p, r);
}

struct copy {
	char *owner;
	int mode;
};

/* Takes --chown and --chmod from the beginning of rest. */
static int copy_options(struct parse *p, const char **rest, struct copy *copy)
{
	while (text_starts(*rest, "--")) {
		size_t n = strcspn(*rest, BLANKS);
		struct buffer words = {0};
		cleanup_free char *option = strndup(*rest, n);
		const char *value;
		int r = option ? read_one(p, "an option of COPY", option, &words) : -ENOMEM;

		value = r ? "" : (const char *)buffer_bytes(&words);
		if (!r && text_starts(value, "--chown=") && is_user(value + 8)) {
			free(copy->owner);
			copy->owner = strdup(value + 8);
		} else if (!r && text_starts(value, "--chmod=") && strlen(value + 8) >= 3 &&
			   strlen(value + 8) <= 4 &&
			   strspn(value + 8, "01234567") == strlen(value + 8)) {
			copy->mode = (int)strtoul(value + 8, NULL, 8);
		} else if (!r) {
			r = dockerfile_fail(p,
				"COPY %.60s is not supported (--chown=USER[:GROUP] and "
				"--chmod=OCTAL are)",
				value);
		}
		buffer_fini(&words);
		if (r)
			return dockerfile_fail_code(p, r);
		*rest += n;
		*rest += strspn(*rest, BLANKS);
	}
	return 0;
}

/* The words of a COPY, from a list or a line. */
static int copy_words(struct parse *p, const char *rest, struct buffer *words)
{
	json_t *list = read_list(rest), *item;
	struct error err = {0};
	size_t i;
	int r = 0;

	if (!list)
		return read_words(p, rest, words);
	json_array_foreach (list, i, item) {
		if (!r)
			r = image_dockerfile_expand(
				p->plan, json_string_value(item), p->escape, false, words, &err);
	}
	json_decref(list);
	return r == -EINVAL ? dockerfile_fail(p, "%s", error_message(&err))
			    : dockerfile_fail_code(p, r);
}

static int copy_files(struct parse *p, struct image_step *step, const struct buffer *words)
{
	const char *target = NULL, *word = NULL;
	size_t count = 0;
	int r = 0;

	while ((word = next_word(words, word))) {
		target = word;
		count++;
	}
	if (count < 2)
		return dockerfile_fail(p, "COPY takes SOURCE... TARGET");
	for (word = next_word(words, NULL); word != target && !r; word = next_word(words, word)) {
		const char *source = word + strspn(word, "/");

		if (!*source)
			source = ".";
		if (!image_is_beneath(source))
			return dockerfile_fail(
				p, "COPY %.60s: must be in the context, without \"..\"", word);
		r = image_step_word(step, source, strlen(source));
	}
	step->into = count > 2 || text_ends(target, "/") || strcmp(target, ".") == 0 ||
		     text_ends(target, "/.");
	if (!r && !*target)
		return dockerfile_fail(p, "COPY takes SOURCE... TARGET");
	if (!r && !(step->target = image_path_clean(here(p), target)))
		return dockerfile_fail(p, "COPY: the path is too long");
	return r;
}

static int do_copy(struct parse *p, const char *rest)
{
	struct copy copy = {.mode = -1};
	struct buffer words = {0};
	const char *all = rest, *first, *target;
	struct heredoc docs[HEREDOCS_MOST];
	struct image_step *step;
	int r = copy_options(p, &rest, &copy);

	if (!r)
		r = copy_words(p, rest, &words);
	first = r ? NULL : next_word(&words, NULL);
	target = first ? next_word(&words, first) : NULL;
	if (!r && text_starts(rest, "<<") && dockerfile_heredocs(rest, docs) == 1) {
		if (!target || next_word(&words, target) || copy.owner)
			r = dockerfile_fail(
				p, "COPY <<%s takes one TARGET, and no --chown", docs[0].word);
		else
			r = copy_heredoc(p, &docs[0], target, copy.mode);
	} else if (!r) {
		step = image_plan_step(p->plan, IMAGE_STEP_COPY, &r);
		if (step) {
			step->line = p->line;
			step->owner = steal_ptr(&copy.owner);
			step->mode = copy.mode;
			r = image_step_title(step, "COPY %s", all);
		}
		if (!r)
			r = copy_files(p, step, &words);
	}
	free(copy.owner);
	buffer_fini(&words);
	return dockerfile_fail_code(p, r);
}

/* --- the table --- */

static const struct instruction {
	const char *name;
	int (*take)(struct parse *p, const char *rest);
	bool before_from;
} instructions[] = {
	{"FROM", do_from, true},
	{"ARG", do_arg, true},
	{"RUN", do_run, false},
	{"COPY", do_copy, false},
	{"ENV", do_env, false},
	{"WORKDIR", do_workdir, false},
	{"USER", do_user, false},
};

static int take(struct parse *p, const char *text)
{
	size_t n = strcspn(text, BLANKS);
	const char *rest = text + n + strspn(text + n, BLANKS);
	char name[32];

	if (text_format(name, sizeof(name), "%.*s", (int)n, text))
		return dockerfile_fail(p, "%.30s... is no instruction", text);
	for (char *c = name; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	if (p->source->no_start && (!strcmp(name, "CMD") || !strcmp(name, "HEALTHCHECK")))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(instructions); i++) {
		if (strcmp(instructions[i].name, name) != 0)
			continue;
		if (!p->plan->base && !instructions[i].before_from)
			return dockerfile_fail(p, "%s before FROM", name);
		if (!*rest)
			return dockerfile_fail(p, "%s takes something", name);
		return instructions[i].take(p, rest);
	}
	return dockerfile_fail(p,
		"%s is not supported (FROM, RUN, COPY, ENV, WORKDIR, USER, ARG are%s)", name,
		strcmp(name, "ADD") == 0 ? "; COPY does it for files" : "");
}

int image_dockerfile_parse(
	struct image_plan *plan, const struct image_dockerfile *source, struct error *err)
{
	struct parse p = {.plan = plan,
		.source = source,
		.at = source->text,
		.end = source->text + source->count,
		.next = 1,
		.line = 1,
		.escape = '\\',
		.err = err};
	struct buffer text = {0};
	int r;

	if (source->count > IMAGE_DOCKERFILE_MOST)
		return dockerfile_fail(&p, "is larger than %u KiB", IMAGE_DOCKERFILE_MOST >> 10);
	if (memchr(source->text, 0, source->count) || !text_is_utf8(source->text, source->count))
		return dockerfile_fail(&p, "is no text");
	dockerfile_directives(&p);
	while ((r = dockerfile_instruction(&p, &text)) > 0) {
		r = buffer_text(&text) ? take(&p, buffer_text(&text))
				       : dockerfile_fail_code(&p, -ENOMEM);
		if (r)
			break;
	}
	if (!r && !plan->base)
		r = dockerfile_fail(&p, "has no FROM; begin with FROM default");
	if (!plan->workdir && !r && !(plan->workdir = strdup(plan->cwd)))
		r = dockerfile_fail_code(&p, -ENOMEM);
	buffer_fini(&text);
	free(p.user);
	return r;
}
