/* SPDX-License-Identifier: Apache-2.0 - how to compile and run a submission, by its files. */
#ifndef SEALMARK_GRADE_LANGUAGE_H
#define SEALMARK_GRADE_LANGUAGE_H

#include "base/buffer.h"
#include "base/error.h"
#include "grade/assignment.h"

/*
 * Python, C, C++, Java and JavaScript. The main file is, of those with the language's suffix, the
 * first one that the assignment wants, else main.py (main.c, Main.java, …), else the only one. C
 * and C++ compile all files of the language together, Java all .java files.
 */
struct program {
	const char *language; /* "python"; "" for commands of the assignment */
	char **compile;       /* argv, or NULL when nothing is compiled */
	char **run;           /* argv */
};

/*
 * 0, -ENOMEM, or -EINVAL with the reason to reject the submission, which names the files found.
 * dir_fd: the folder with the files (Java's package is read from there).
 */
int program_find(const struct assignment *a, int dir_fd, const char *const *files,
	struct program *out, struct error *err);
void program_fini(struct program *program);

#endif
