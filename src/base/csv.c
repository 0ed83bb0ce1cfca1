/* SPDX-License-Identifier: Apache-2.0 - writing CSV, see csv.h. */
#include "base/csv.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* bytes of the well-formed UTF-8 character at p, or 0 */
static size_t character(const uint8_t *p, size_t count)
{
	for (size_t n = 1; n <= 4 && n <= count; n++) {
		if (text_is_utf8(p, n))
			return *p ? n : 0;
	}
	return 0;
}

static bool must_quote(const uint8_t *p, size_t count)
{
	if (count && (p[0] == ' ' || p[count - 1] == ' '))
		return true;
	for (size_t i = 0; i < count; i++) {
		if (strchr(",\"\r\n\t", p[i]) && p[i])
			return true;
	}
	return false;
}

static int add_cell(struct csv *csv, const void *bytes, size_t count, const char *before)
{
	const uint8_t *p = bytes;
	bool quote = must_quote(p, count);
	int r = csv->cells++ ? buffer_add(csv->out, ",", 1) : 0;

	if (!r && quote)
		r = buffer_add(csv->out, "\"", 1);
	if (!r)
		r = buffer_add_text(csv->out, before);
	while (count && !r) {
		size_t n = character(p, count);

		if (n == 0)
			r = buffer_add_text(csv->out, REPLACEMENT);
		else if (*p == '"')
			r = buffer_add(csv->out, "\"\"", 2);
		else
			r = buffer_add(csv->out, p, n);
		p += n ? n : 1;
		count -= n ? n : 1;
	}
	return !r && quote ? buffer_add(csv->out, "\"", 1) : r;
}

int csv_add(struct csv *csv, const char *text)
{
	return add_cell(csv, text, strlen(text), "");
}

int csv_add_text(struct csv *csv, const void *bytes, size_t count)
{
	/* ASCII, then the full-width = + - @ that some spreadsheets take for the same */
	static const char *const formula[] = {"=", "+", "-", "@", "\t", "\r", "'", "\xef\xbc\x9d",
		"\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};

	for (size_t i = 0; i < sizeof(formula) / sizeof(formula[0]); i++) {
		size_t n = strlen(formula[i]);

		if (count >= n && memcmp(bytes, formula[i], n) == 0)
			return add_cell(csv, bytes, count, "'");
	}
	return add_cell(csv, bytes, count, "");
}

int csv_end_row(struct csv *csv)
{
	csv->cells = 0;
	return buffer_add(csv->out, "\r\n", 2);
}
