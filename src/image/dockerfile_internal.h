/* SPDX-License-Identifier: Apache-2.0 - what the files that read Dockerfiles share. */
#ifndef SEALMARK_IMAGE_DOCKERFILE_INTERNAL_H
#define SEALMARK_IMAGE_DOCKERFILE_INTERNAL_H

#include "image/plan.h"

#define BLANKS        " \t\v\f"
#define HEREDOCS_MOST 16
#define WORD_MOST     128

struct parse {
	struct image_plan *plan;
	const struct image_dockerfile *source;
	const char *at, *end; /* what is not read yet */
	unsigned next;        /* number of the line at `at` */
	unsigned line;        /* where the instruction began */
	char escape;
	char *user; /* NULL: root */
	struct error *err;
};

struct heredoc {
	char word[WORD_MOST];
	bool strips;  /* <<-: tabs at the beginning go */
	bool literal; /* its word is quoted */
	bool last;    /* nothing follows it in the line */
};

/* "Dockerfile:LINE: ..." with the line of the instruction; -EINVAL. */
int dockerfile_fail(const struct parse *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The message of an error that has none yet; -EINVAL has. */
int dockerfile_fail_code(const struct parse *p, int r);

/* "# escape=`" in the first lines. */
void dockerfile_directives(struct parse *p);
/* The next instruction, its lines joined; 1, 0 at the end, or negative. */
int dockerfile_instruction(struct parse *p, struct buffer *out);
/* The heredocs that `text` begins, in order; out has HEREDOCS_MOST. */
size_t dockerfile_heredocs(const char *text, struct heredoc *out);
/* The lines of one, with their ends; `closing` also the last one, for a shell. */
int dockerfile_heredoc(struct parse *p, const struct heredoc *h, bool closing, struct buffer *out);

#endif
