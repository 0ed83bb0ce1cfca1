/* SPDX-License-Identifier: Apache-2.0 - assignment.yaml's keys, between the files of assignment. */
#ifndef SEALMARK_GRADE_ASSIGNMENT_INTERNAL_H
#define SEALMARK_GRADE_ASSIGNMENT_INTERNAL_H

#include "base/yaml.h"
#include "grade/assignment.h"

/* Check the tree against the table of keys and fill in what it says; the rest stays as it is. */
int assignment_read_keys(const struct yaml_tree *tree, struct assignment *a, struct error *err);

/* True when the path stays below its folder: relative, no "..", no empty part. */
bool assignment_path_is_below(const char *path);

#endif
