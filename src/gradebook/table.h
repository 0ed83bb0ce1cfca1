/* SPDX-License-Identifier: Apache-2.0 - the gradebook as a table for people. */
#ifndef SEALMARK_GRADEBOOK_TABLE_H
#define SEALMARK_GRADEBOOK_TABLE_H

#include "base/buffer.h"
#include "gradebook/gradebook.h"

#include <stdbool.h>

/* columns: cut lines to so many, 0 not at all. The note column takes what is left. */
int table_write(const struct gradebook *gb, unsigned columns, bool color, struct buffer *out);

/* Columns that a UTF-8 text takes on a terminal, and how many of its bytes fit into so many. */
size_t table_text_width(const char *text);
size_t table_text_fit(const char *text, size_t columns);

#endif
