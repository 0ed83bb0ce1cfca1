/* SPDX-License-Identifier: Apache-2.0 - a table of scores on a terminal, see table.h. */
#include "gradebook/table.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NAME_MOST  32u
#define MARKS_MOST 40u
#define NOTE_LEAST 12u

#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define BOLD   "\033[1m"
#define PLAIN  "\033[0m"

/* one character: its bytes, and its columns */
static size_t next_character(const char *text, size_t *columns)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t n = mbrtowc(&c, text, strlen(text), &state);
	int width;

	*columns = 1;
	if (n == (size_t)-1 || n == (size_t)-2 || n == 0)
		return 1;
	width = wcwidth(c);
	*columns = width < 0 ? 1 : (size_t)width;
	return n;
}

size_t table_text_width(const char *text)
{
	size_t columns, sum = 0;

	while (*text) {
		text += next_character(text, &columns);
		sum += columns;
	}
	return sum;
}

size_t table_text_fit(const char *text, size_t most)
{
	size_t columns, sum = 0, used = 0;

	while (text[used]) {
		size_t n = next_character(text + used, &columns);

		if (sum + columns > most)
			break;
		sum += columns;
		used += n;
	}
	return used;
}

/* text in a column of a width; what does not fit ends in … */
static void add_cell(struct buffer *out, const char *text, size_t width, const char *color)
{
	size_t fit = table_text_fit(text, width), shown = table_text_width(text);

	if (text[fit] && width) {
		fit = table_text_fit(text, width - 1);
		shown = width;
	}
	buffer_add_text(out, color);
	buffer_add(out, text, fit);
	if (text[fit] && width)
		buffer_add_text(out, "…");
	if (*color)
		buffer_add_text(out, PLAIN);
	while (shown++ < width)
		buffer_add(out, " ", 1);
}

struct layout {
	size_t name, status, score, marks, note; /* widths; marks 0: not shown */
	bool color;
};

static void show_score(const struct record_summary *s, char *out, size_t size)
{
	char score[RECORD_SCORE_SIZE], most[RECORD_SCORE_SIZE];

	out[0] = 0;
	if (s->has_score)
		text_format(out, size, "%s/%s", record_score(s->score, score),
			record_score(s->max_score, most));
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static struct layout find_layout(const struct gradebook *gb, unsigned columns, bool color)
{
	struct layout l = {.name = 7, .status = 6, .score = 5, .marks = 5, .color = color};
	size_t fixed;
	char score[90];

	for (size_t i = 0; i < gb->count; i++) {
		const struct record_summary *s = &gb->rows[i];

		show_score(s, score, sizeof(score));
		l.name = larger(l.name, table_text_width(s->student));
		l.status = larger(l.status, strlen(submission_status_name(s->status)));
		l.score = larger(l.score, strlen(score));
		l.marks = larger(l.marks, strlen(s->marks));
	}
	if (columns && l.name > NAME_MOST)
		l.name = NAME_MOST;
	if (l.marks > MARKS_MOST)
		l.marks = 0;
	fixed = l.name + l.status + l.score + l.marks + 8;
	if (columns && l.marks && fixed + NOTE_LEAST > columns) {
		fixed -= l.marks + 2;
		l.marks = 0;
	}
	l.note = columns > fixed + NOTE_LEAST ? columns - fixed - 1 : NOTE_LEAST;
	if (!columns)
		l.note = 0;
	return l;
}

static const char *score_color(const struct record_summary *s)
{
	if (s->status != SUBMISSION_GRADED)
		return YELLOW;
	if (s->score >= s->max_score)
		return GREEN;
	return s->score > 0 ? YELLOW : RED;
}

static void add_line(struct buffer *out, const struct layout *l, const char *const cells[5],
	const char *score_in, const char *all)
{
	add_cell(out, cells[0], l->name, all);
	buffer_add_text(out, "  ");
	add_cell(out, cells[1], l->status, all);
	buffer_add_text(out, "  ");
	add_cell(out, cells[2], l->score, *score_in ? score_in : all);
	if (l->marks) {
		buffer_add_text(out, "  ");
		add_cell(out, cells[3], l->marks, all);
	}
	if (*cells[4]) {
		buffer_add_text(out, "  ");
		if (l->note)
			add_cell(out, cells[4], larger(1, l->note), all);
		else
			buffer_add_text(out, cells[4]);
	}
	while (buffer_length(out) && out->data[out->end - 1] == ' ')
		out->end--;
	buffer_add(out, "\n", 1);
}

/* what the letters of the tests mean, those that are there */
static void add_legend(struct buffer *out, const struct run_counts *counts)
{
	bool any = false;

	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		if (!counts->verdicts[v])
			continue;
		buffer_printf(out, "%s%c %s", any ? "  " : "", record_mark((enum verdict)v),
			verdict_name((enum verdict)v));
		any = true;
	}
	if (any)
		buffer_add(out, "\n", 1);
}

int table_write(const struct gradebook *gb, unsigned columns, bool color, struct buffer *out)
{
	const struct layout l = find_layout(gb, columns, color);
	const char *const titles[5] = {"STUDENT", "STATUS", "SCORE", "TESTS", "NOTE"};
	const struct run_counts counts = gradebook_counts(gb);
	char score[90];

	add_line(out, &l, titles, "", color ? BOLD : "");
	for (size_t i = 0; i < gb->count; i++) {
		const struct record_summary *s = &gb->rows[i];
		const char *const cells[5] = {
			s->student, submission_status_name(s->status), score, s->marks, s->note};

		show_score(s, score, sizeof(score));
		add_line(out, &l, cells, color ? score_color(s) : "", "");
	}
	if (l.marks)
		add_legend(out, &counts);
	return buffer_text(out) ? 0 : -1;
}
