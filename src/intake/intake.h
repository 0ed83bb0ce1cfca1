/* SPDX-License-Identifier: Apache-2.0 - submissions in: who handed in what. */
#ifndef SEALMARK_INTAKE_INTAKE_H
#define SEALMARK_INTAKE_INTAKE_H

#include "base/error.h"
#include "base/hash.h"
#include "intake/tree.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * SUBMISSIONS is a folder; each entry of it is one submission: a folder, or a single file. The
 * student is the entry's name, for a file without its suffix unless two entries would then have the
 * same name. Litter (tree_litter) is passed over, and what was is kept for the user to see.
 * Whatever is wrong with one submission rejects that one, with a reason for people; only a failure
 * of the host fails the call.
 *
 * Nothing is followed and nothing is trusted twice: what is graded is a private copy
 * (intake_stage) whose digest is the one read here.
 */
#define INTAKE_FILES_MAX    10000u
#define INTAKE_BYTES_MAX    (64u << 20)
#define INTAKE_DEPTH_MAX    32u
#define INTAKE_STUDENTS_MAX 100000u

struct submission {
	char *entry;   /* name in SUBMISSIONS, any bytes */
	char *student; /* unique UTF-8 text without control characters, made from it */
	char *reject;  /* why it cannot be graded, or NULL */
	char *inside;  /* folder within the entry that holds the work ("" when there is none around)
			*/
	bool is_file;  /* a single file: tree holds it under the name it gets */
	struct tree tree;
	char digest[HASH_HEX_SIZE];
	char **paths; /* NULL-terminated, those of tree */
};

/* Something that was passed over: an entry of SUBMISSIONS, or what lies in one. */
struct intake_litter {
	char *path; /* below SUBMISSIONS, any bytes */
	const char *why;
	bool is_entry;
};
#define INTAKE_LITTER_KEPT 1000u

struct intake {
	int dir_fd;
	struct intake_litter *litter; /* entries first, then by path; at most so many as are kept */
	size_t litter_kept, litter_count;
	struct submission *submissions; /* sorted by student, bytewise */
	size_t count;
};

/* What each submission must hold. Lists are NULL-terminated; NULL is an empty one. */
struct intake_wants {
	const char *const *files;   /* all of these */
	const char *const *modules; /* of these Python modules ("hw", "pkg.part") one at least */
	/* what a submission that is a single file is called when no file is wanted; else it stands
	 * for the one that is wanted. Both only when the suffixes are equal. */
	const char *single;
};
int intake_open(
	const char *path, const struct intake_wants *wants, struct intake **out, struct error *err);
/* The first of the modules that no submission holds, or NULL. */
const char *intake_module_of_nobody(const struct intake *intake, const char *const *modules);
/* Only see whether `path` is a folder that can be read. */
int intake_check(const char *path, struct error *err);
void intake_free(struct intake *intake);

/* NULL when there is none of that name. */
const struct submission *intake_find(const struct intake *intake, const char *student);

/* Copy a submission's files below dir_fd (an empty folder). -ESTALE when they are not those that
 * were read any more. */
int intake_stage(const struct intake *intake, const struct submission *submission, int dir_fd,
	struct error *err);

#endif
