/* SPDX-License-Identifier: Apache-2.0 - what a build is to do: a recipe or a Dockerfile as steps.
 */
#ifndef SEALMARK_IMAGE_PLAN_H
#define SEALMARK_IMAGE_PLAN_H

#include "base/buffer.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A plan comes from one of two parsers of hostile text (recipe.c, dockerfile.c) and is turned into
 * scripts for the machine that builds (script.c). The control side runs nothing of it.
 */
#define IMAGE_STEPS_MOST      256u
#define IMAGE_VARIABLES_MOST  512u
#define IMAGE_FILES_MOST      1024u
#define IMAGE_DOCKERFILE_MOST (256u << 10)
#define IMAGE_CONTEXT_FOLDER  "/.build/context"

struct image_variable {
	char *name, *value;
	bool argument; /* an ARG: seen by the steps after it, not kept in the image */
};

enum image_step_kind {
	IMAGE_STEP_RUN,      /* words: the program and its arguments */
	IMAGE_STEP_COPY,     /* words: patterns in the context; to target */
	IMAGE_STEP_FILE,     /* file number `file` to target */
	IMAGE_STEP_DIRECTORY /* target, made when it is not there */
};

struct image_step {
	enum image_step_kind kind;
	unsigned line; /* of a Dockerfile, else 0 */
	char *title;   /* for the log: one line */
	char **words;
	size_t word_count;
	char *target;     /* absolute, or NULL */
	bool into;        /* COPY: the target is a folder whatever is there */
	char *owner;      /* COPY: "user[:group]", or NULL */
	char *user;       /* RUN: whose; NULL: root */
	char *workdir;    /* RUN: where; absolute */
	size_t variables; /* it sees so many of the plan's */
	size_t file;
	int mode; /* FILE, COPY: permissions, -1: as they are */
};

struct image_file {
	char *name; /* in the context; NULL: for a step alone */
	void *bytes;
	size_t count;
	unsigned mode;
};

struct image_plan {
	char *base; /* an image's reference */
	struct image_variable *variables;
	size_t variable_count;
	struct image_step *steps;
	size_t step_count;
	struct image_file *files;
	size_t file_count;
	char *cwd;     /* where it begins: the base's folder */
	char *workdir; /* of programs in the image; NULL: cwd */
};

/* NULL: out of memory. */
struct image_plan *image_plan_new(const char *cwd);
void image_plan_free(struct image_plan *plan);

/* Each takes copies; 0, -ENOMEM, or -E2BIG beyond the most. */
int image_plan_variable(
	struct image_plan *plan, const char *name, const char *value, bool argument);
/* The value that the steps from here on see, or NULL. */
const char *image_plan_value(const struct image_plan *plan, const char *name);
/* A step at the end, all zero but its kind, variables and mode; NULL: see above, in *r. */
struct image_step *image_plan_step(struct image_plan *plan, enum image_step_kind kind, int *r);
int image_step_word(struct image_step *step, const char *word, size_t count);
/* A title of one harmless line; cut when it is long. */
int image_step_title(struct image_step *step, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int image_plan_file(struct image_plan *plan, const char *name, const void *bytes, size_t count,
	unsigned mode, size_t *index);

/* --- words that both parsers check --- */
/* Letters, digits, _; no digit first. */
bool image_is_variable(const char *name);
/* "a/b" beneath something: no "..", no empty text, no leading "/"; "." is fine. */
bool image_is_beneath(const char *path);
/* `path` below `from` when it is relative, without ".", ".." and doubled "/". NULL: out of memory,
 * or longer than a path may be. */
char *image_path_clean(const char *from, const char *path);

/* --- recipe.c --- */
/* Add the steps of `recipe` (an object). What is wrong goes to issues, as {path, message}. 0, or
 * -EINVAL when there are issues, -ENOMEM. */
int image_recipe_parse(struct image_plan *plan, const json_t *recipe, json_t *issues);
/* The list [{path, content, encoding, mode}] or object {path: content}; `workdir` NULL: files of
 * the context, else put below it as steps. */
int image_files_parse(struct image_plan *plan, const json_t *files, const char *path,
	const char *workdir, json_t *issues);
void image_issue(json_t *issues, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* --- dockerfile.c --- */
struct image_dockerfile {
	const char *text;
	size_t count;
	const json_t *arguments; /* object of texts: values of ARG, or NULL */
	bool no_start;           /* pass over CMD and HEALTHCHECK */
};
/* 0; -EINVAL with "Dockerfile:LINE: ...", -ENOMEM. */
int image_dockerfile_parse(
	struct image_plan *plan, const struct image_dockerfile *source, struct error *err);

/* dockerfile_text.c: $NAME, ${NAME}, ${NAME:-word}, ${NAME:+word}; `escape` takes the meaning of
 * what follows. With `words` quotes are taken away and blanks divide. Adds NUL-terminated words
 * to out. -EINVAL with a message that has no line. */
int image_dockerfile_expand(const struct image_plan *plan, const char *text, char escape,
	bool words, struct buffer *out, struct error *err);

/* --- script.c --- */
/* The script of one step, run by the driver inside the new root; of all of them, as the driver. */
int image_step_script(
	const struct image_plan *plan, const struct image_step *step, struct buffer *out);
/* 'text' for a shell */
int image_quote(struct buffer *out, const char *text);
extern const char image_driver[];

#endif
