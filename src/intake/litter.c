/* SPDX-License-Identifier: Apache-2.0 - what was passed over, so that nothing is lost silently. */
#include "intake/intake_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int litter_add(struct intake *in, const char *entry, const char *name, const char *why)
{
	struct intake_litter *l;

	in->litter_count++;
	if (in->litter_kept == INTAKE_LITTER_KEPT)
		return 0;
	if (!in->litter && !(in->litter = calloc(INTAKE_LITTER_KEPT, sizeof(*in->litter))))
		return -ENOMEM;
	l = &in->litter[in->litter_kept];
	if (asprintf(&l->path, "%s%s%s", entry ? entry : "", entry ? "/" : "", name) < 0) {
		l->path = NULL;
		return -ENOMEM;
	}
	l->why = why;
	l->is_entry = !entry;
	in->litter_kept++;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct intake_litter *x = a, *y = b;

	if (x->is_entry != y->is_entry)
		return x->is_entry ? -1 : 1;
	return strcmp(x->path, y->path);
}

void litter_sort(struct intake *in)
{
	if (in->litter_kept)
		qsort(in->litter, in->litter_kept, sizeof(*in->litter), by_place);
}

void litter_fini(struct intake *in)
{
	for (size_t i = 0; i < in->litter_kept; i++)
		free(in->litter[i].path);
	free(in->litter);
}
