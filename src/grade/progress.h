/* SPDX-License-Identifier: Apache-2.0 - how far a run is: a bar on a terminal, else a line at
 * times.
 */
#ifndef SEALMARK_GRADE_PROGRESS_H
#define SEALMARK_GRADE_PROGRESS_H

#include "grade/run.h"

#include <stdbool.h>
#include <stdio.h>

struct progress {
	FILE *to;
	bool bar; /* a terminal that can redraw its line */
	bool utf8;
	int64_t start_ms;
	int64_t shown_ms;  /* when something was last shown */
	size_t shown_done; /* and what */
};

/* `utf8`: the locale's character set. The bar is drawn when `to` is a terminal with a TERM other
 * than dumb. */
void progress_init(struct progress *p, FILE *to, bool utf8);
/* Show what is; when nothing new is worth a line, does nothing. */
void progress_show(
	struct progress *p, const struct run_status *status, const struct run_counts *counts);
/* Take the bar away, so that something else can be written. */
void progress_clear(struct progress *p);
/* Milliseconds after which it should be shown again; -1: when something happens. */
int progress_every_ms(const struct progress *p);

/* Columns of a terminal; 0 when the file is none. */
unsigned progress_columns(FILE *file);

#endif
