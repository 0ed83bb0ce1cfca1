/* SPDX-License-Identifier: Apache-2.0 - drawing the progress of a run, see progress.h. */
#include "grade/progress.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_EVERY_MS 30000 /* without a terminal: at least so often while things happen */
#define DRAW_EVERY_MS 200
#define BAR_MOST      30u

unsigned progress_columns(FILE *file)
{
	struct winsize w;
	const char *columns = getenv("COLUMNS");
	uint32_t n;

	if (!isatty(fileno(file)))
		return 0;
	if (ioctl(fileno(file), TIOCGWINSZ, &w) == 0 && w.ws_col)
		return w.ws_col;
	return columns && text_u32(columns, &n) == 0 && n ? n : 80;
}

void progress_init(struct progress *p, FILE *to, bool utf8)
{
	const char *term = getenv("TERM");

	*p = (struct progress){.to = to,
		.bar = isatty(fileno(to)) && term && *term && strcmp(term, "dumb"),
		.utf8 = utf8,
		.start_ms = clock_ms(),
		.shown_ms = clock_ms()};
}

int progress_every_ms(const struct progress *p)
{
	return p->bar ? DRAW_EVERY_MS : -1;
}

/* "3:07" or "1:02:03" */
static void add_time(struct buffer *b, int64_t seconds)
{
	if (seconds >= 3600)
		buffer_printf(b, "%lld:%02lld:%02lld", (long long)seconds / 3600,
			(long long)seconds / 60 % 60, (long long)seconds % 60);
	else
		buffer_printf(b, "%lld:%02lld", (long long)seconds / 60, (long long)seconds % 60);
}

static void add_bar(
	struct buffer *b, const struct progress *p, size_t done, size_t total, unsigned width)
{
	size_t full = total ? done * width / total : width;

	for (unsigned i = 0; i < width; i++) {
		if (p->utf8)
			buffer_add_text(b, i < full ? "█" : "░");
		else
			buffer_add_text(b, i < full ? "#" : "-");
	}
}

static void add_verdicts(struct buffer *b, const struct run_counts *c)
{
	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		if (c->verdicts[v])
			buffer_printf(b, "  %s %u", verdict_name((enum verdict)v), c->verdicts[v]);
	}
}

/* rate and time left, from what this process did itself */
static void add_speed(struct buffer *b, const struct progress *p, const struct run_status *s)
{
	int64_t ms = clock_ms() - p->start_ms;
	size_t done = s->total - s->waiting - s->before;
	double rate = ms > 0 ? (double)done * 1000 / (double)ms : 0;

	if (done == 0 || ms < 1000)
		return;
	buffer_printf(b, rate >= 1 ? "  %.1f/s" : "  %.2f/s", rate);
	if (s->waiting) {
		buffer_add_text(b, "  ");
		add_time(b, (int64_t)((double)s->waiting / rate + 0.5));
		buffer_add_text(b, " left");
	}
}

/* Cut to what the line holds: a wrapped line could not be taken back. All but the bar is ASCII. */
static void draw(struct progress *p, const struct run_status *s, const struct run_counts *counts)
{
	unsigned columns = progress_columns(p->to), width;
	struct buffer line = {0}, rest = {0};
	size_t done = s->total - s->waiting;

	width = columns > 60 ? BAR_MOST : columns / 3;
	buffer_printf(&rest, " %zu/%zu", done, s->total);
	add_speed(&rest, p, s);
	if (s->again)
		buffer_printf(&rest, "  again alone %zu", s->again);
	add_verdicts(&rest, counts);
	if (columns > width && buffer_length(&rest) > columns - width - 1)
		rest.end = rest.start + columns - width - 1;
	buffer_add_text(&line, "\r\033[K");
	add_bar(&line, p, done, s->total, width);
	buffer_add(&line, buffer_bytes(&rest), buffer_length(&rest));
	fwrite(buffer_bytes(&line), 1, buffer_length(&line), p->to);
	fflush(p->to);
	buffer_fini(&line);
	buffer_fini(&rest);
}

static void say(struct progress *p, const struct run_status *s, const struct run_counts *counts)
{
	struct buffer line = {0};

	buffer_printf(&line, "%zu of %zu done", s->total - s->waiting, s->total);
	add_speed(&line, p, s);
	add_verdicts(&line, counts);
	fprintf(p->to, "%s\n", buffer_text(&line) ? buffer_text(&line) : "");
	fflush(p->to);
	buffer_fini(&line);
}

void progress_show(struct progress *p, const struct run_status *s, const struct run_counts *counts)
{
	size_t done = s->total - s->waiting, step = s->total / 10 ? s->total / 10 : 1;
	int64_t now = clock_ms();

	if (p->bar) {
		if (now - p->shown_ms < DRAW_EVERY_MS && p->shown_done == done)
			return;
		draw(p, s, counts);
	} else {
		/* ten lines for a run that goes fast, and one at times for a slow one */
		if (done == p->shown_done ||
			(done - p->shown_done < step && now - p->shown_ms < LINE_EVERY_MS))
			return;
		say(p, s, counts);
	}
	p->shown_done = done;
	p->shown_ms = now;
}

void progress_clear(struct progress *p)
{
	if (p->bar) {
		fputs("\r\033[K", p->to);
		fflush(p->to);
	}
}
