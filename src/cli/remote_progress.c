/* SPDX-License-Identifier: Apache-2.0 - a bar on standard error for what takes long. */
#include "cli/remote.h"

#include "base/clock.h"

#include <unistd.h>

#define SILENT_MS 500 /* what is over by then needs no bar */
#define REDRAW_MS 100
#define CELLS     30

void progress_start(struct progress *p, const char *what, uint64_t total, bool quiet)
{
	*p = (struct progress){.what = what,
		.total = total,
		.began_ms = clock_ms(),
		.quiet = quiet || !isatty(STDERR_FILENO)};
}

static void draw(struct progress *p, int64_t now)
{
	double mib = (double)p->done / (1 << 20);
	double seconds = (double)(now - p->began_ms) / 1000;
	unsigned full = p->total ? (unsigned)(p->done * CELLS / p->total) : 0;

	fprintf(stderr, "\r%s ", p->what);
	if (p->total) {
		fputc('[', stderr);
		for (unsigned i = 0; i < CELLS; i++)
			fputc(i < full ? '#' : ' ', stderr);
		fprintf(stderr, "] %3u%% ",
			(unsigned)(p->done >= p->total ? 100 : p->done * 100 / p->total));
	}
	fprintf(stderr, "%.1f MiB, %.1f MiB/s\033[K", mib, seconds > 0 ? mib / seconds : 0);
	fflush(stderr);
	p->drawn_ms = now;
	p->shown = true;
}

void progress_add(struct progress *p, uint64_t bytes)
{
	int64_t now = clock_ms();

	p->done += bytes;
	if (!p->quiet && now - p->began_ms > SILENT_MS && now - p->drawn_ms > REDRAW_MS)
		draw(p, now);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
