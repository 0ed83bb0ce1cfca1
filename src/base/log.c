/* SPDX-License-Identifier: Apache-2.0 - diagnostics, see log.h. */
#include "base/log.h"

#include "base/buffer.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *name = "sealmark";
static enum log_level highest = LOG_LEVEL_WARNING;

void log_setup(const char *program, enum log_level most)
{
	name = program;
	highest = most;
}

enum log_level log_highest(void)
{
	return highest;
}

void log_line(enum log_level level, const char *format, ...)
{
	static const char *const words[] = {"", "warning: ", "", "debug: "};
	char text[2048];
	struct buffer line = {0};
	va_list ap;

	if (level > highest)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (buffer_printf(&line, "%s: %s", name, words[level]) == 0 &&
		text_add_safe(&line, text, strlen(text), false) == 0 &&
		buffer_add(&line, "\n", 1) == 0) {
		/* one write, so that lines of several processes do not mix */
		ssize_t ignored = write(2, buffer_bytes(&line), buffer_length(&line));

		(void)ignored;
	}
	buffer_fini(&line);
}
