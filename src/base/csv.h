/* SPDX-License-Identifier: Apache-2.0 - CSV as RFC 4180 says, safe to open in a spreadsheet. */
#ifndef SEALMARK_BASE_CSV_H
#define SEALMARK_BASE_CSV_H

#include "base/buffer.h"

#include <stddef.h>

/*
 * Rows end with CR LF; a cell that holds a comma, a quote, a line break or a blank at its edge is
 * quoted. Bytes that are not UTF-8 become U+FFFD and zero bytes too.
 *
 * A spreadsheet runs a cell that begins with = + - @ (also the full-width forms), tab or CR. Text
 * that a student could choose goes through csv_add_text(), which puts one apostrophe before such
 * text, and before text that begins with an apostrophe, so that the rule for reading it back has no
 * exception: one leading apostrophe is taken off.
 *
 * Each call answers 0 or the buffer's error.
 */
struct csv {
	struct buffer *out;
	size_t cells; /* in the row so far */
};

int csv_add(struct csv *csv, const char *text);                     /* text of ours */
int csv_add_text(struct csv *csv, const void *bytes, size_t count); /* anybody's text */
int csv_end_row(struct csv *csv);

#endif
