/* SPDX-License-Identifier: Apache-2.0 - what the files of intake share. */
#ifndef SEALMARK_INTAKE_INTAKE_INTERNAL_H
#define SEALMARK_INTAKE_INTAKE_INTERNAL_H

#include "intake/intake.h"

/* Length of a name without its suffix ("hw.tar.gz": 2); the whole length when it has none. */
size_t names_stem(const char *name);
/* The suffix of an archive that `name` ends with, or NULL. */
const char *names_archive(const char *name);
/* Give every submission its unique student and sort them. */
int names_assign(struct submission *list, size_t count, struct error *err);

/* Note what is passed over: `name` in the folder `entry`, or an entry itself (`entry` is NULL). */
int litter_add(struct intake *intake, const char *entry, const char *name, const char *why);
void litter_sort(struct intake *intake);
void litter_fini(struct intake *intake);

/* The folder that holds a submission's files; for a single file SUBMISSIONS itself. */
int stage_source(const struct intake *intake, const struct submission *s, struct error *err);

#endif
