/* SPDX-License-Identifier: Apache-2.0 - tables, JSON, times and money for people. */
#include "cli/remote.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void table_init(struct table *t, const char *const *heads)
{
	const char *cells[TABLE_COLUMNS];

	*t = (struct table){.rows = json_array()};
	while (heads[t->columns] && t->columns < TABLE_COLUMNS) {
		cells[t->columns] = heads[t->columns];
		t->columns++;
	}
	table_add(t, cells);
}

void table_add(struct table *t, const char *const *cells)
{
	json_t *row = json_array();

	for (size_t i = 0; i < t->columns; i++) {
		struct buffer safe = {0};
		const char *cell = cells[i] && *cells[i] ? cells[i] : "-";

		text_add_safe(&safe, cell, strlen(cell), false);
		json_array_append_new(row, json_string(buffer_text(&safe)));
		buffer_fini(&safe);
	}
	json_array_append_new(t->rows, row);
}

/* letters of UTF-8; those that are two columns wide only make a row crooked */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

void table_print(struct table *t)
{
	int widths[TABLE_COLUMNS] = {0};
	const json_t *row;
	size_t i;

	json_array_foreach (t->rows, i, row) {
		for (size_t c = 0; c < t->columns; c++) {
			int width = width_of(json_string_value(json_array_get(row, c)));

			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
	json_array_foreach (t->rows, i, row) {
		for (size_t c = 0; c < t->columns; c++) {
			const char *text = json_string_value(json_array_get(row, c));
			bool last = c + 1 == t->columns;

			printf("%s%*s", text, last ? 0 : widths[c] - width_of(text) + 2, "");
		}
		putchar('\n');
	}
	json_decref(t->rows);
	t->rows = NULL;
}

int remote_print_json(json_t *json, struct error *err)
{
	int r = json ? json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) : -1;

	json_decref(json);
	putchar('\n');
	return r ? cli_ours(err, "out of memory") : CLI_OK;
}

void remote_print_line(const json_t *json)
{
	json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	fflush(stdout);
}

void remote_put(FILE *to, const char *text)
{
	struct buffer safe = {0};

	text_add_safe(&safe, text, strlen(text), true);
	fputs(buffer_text(&safe), to);
	buffer_fini(&safe);
}

void remote_age(const char *stamp, char *out, size_t size)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
	struct tm tm = {0};
	int64_t away;
	size_t i = 0;

	if (!strptime(stamp, "%Y-%m-%dT%H:%M:%S", &tm)) {
		text_copy(out, size, "-");
		return;
	}
	away = (int64_t)timegm(&tm) - (int64_t)time(NULL);
	while (i < 3 && (away < 0 ? -away : away) < 2 * units[i].seconds)
		i++;
	text_format(out, size, "%s%lld %s%s", away > 0 ? "in " : "",
		(long long)((away < 0 ? -away : away) / units[i].seconds), units[i].name,
		away > 0 ? "" : " ago");
}

void remote_dollars(int64_t micros, char *out, size_t size)
{
	unsigned long long amount =
		micros < 0 ? (unsigned long long)-micros : (unsigned long long)micros;

	text_format(out, size, "%s$%llu.%06llu", micros < 0 ? "-" : "", amount / 1000000,
		amount % 1000000);
}
