/* SPDX-License-Identifier: Apache-2.0 - the lines of a Dockerfile: instructions, heredocs, faults.
 */
#include "image/dockerfile_internal.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int dockerfile_fail(const struct parse *p, const char *format, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return error_set(p->err, -EINVAL, "Dockerfile:%u: %s", p->line, text);
}

/* -EINVAL has its message; others get one. */
int dockerfile_fail_code(const struct parse *p, int r)
{
	if (r == -E2BIG)
		return dockerfile_fail(p,
			"too much: at most %u instructions, %u files, %u variables",
			IMAGE_STEPS_MOST, IMAGE_FILES_MOST, IMAGE_VARIABLES_MOST);
	return r == -ENOMEM ? error_set(p->err, r, "out of memory") : r;
}

/* --- lines --- */

/* The next physical line without its end. */
static bool read_line(struct parse *p, const char **line, size_t *count)
{
	const char *nl;

	if (p->at >= p->end)
		return false;
	nl = memchr(p->at, '\n', (size_t)(p->end - p->at));
	*line = p->at;
	*count = (size_t)((nl ? nl : p->end) - p->at);
	p->at = nl ? nl + 1 : p->end;
	p->next++;
	if (*count && (*line)[*count - 1] == '\r')
		(*count)--;
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

static void trim(const char **line, size_t *count)
{
	while (*count && is_blank((*line)[0])) {
		(*line)++;
		(*count)--;
	}
	while (*count && is_blank((*line)[*count - 1]))
		(*count)--;
}

/* "# escape=`" in the first lines */
void dockerfile_directives(struct parse *p)
{
	const char *line, *start = p->at;
	size_t count;
	unsigned next = p->next;

	while (read_line(p, &line, &count)) {
		char text[64], *equals;

		trim(&line, &count);
		if (!count || line[0] != '#' || count >= sizeof(text))
			break;
		memcpy(text, line + 1, count - 1);
		text[count - 1] = 0;
		equals = strchr(text, '=');
		if (!equals)
			break;
		*equals++ = 0;
		equals += strspn(equals, BLANKS);
		if (strncasecmp(text + strspn(text, BLANKS), "escape", 6) == 0 && *equals == '`')
			p->escape = '`';
		start = p->at;
		next = p->next;
	}
	p->at = start;
	p->next = next;
}

/* The next instruction, its lines joined; 1, 0 at the end, or negative. */
int dockerfile_instruction(struct parse *p, struct buffer *out)
{
	const char *line, *raw;
	size_t count, raw_count;
	bool goes_on = false;
	int r;

	buffer_clear(out);
	while (read_line(p, &raw, &raw_count)) {
		line = raw;
		count = raw_count;
		trim(&line, &count);
		if (!count || line[0] == '#')
			continue;
		if (!goes_on)
			p->line = p->next - 1;
		else /* what a line begins with is part of the instruction */
			line = raw;
		count = (size_t)(raw + raw_count - line);
		while (count && is_blank(line[count - 1]))
			count--;
		goes_on = line[count - 1] == p->escape;
		r = buffer_add(out, line, count - goes_on);
		if (r)
			return dockerfile_fail_code(p, -ENOMEM);
		if (!goes_on)
			break;
	}
	return buffer_length(out) ? 1 : 0;
}

/* --- heredocs --- */

/* The heredocs that `text` begins, in order. */
size_t dockerfile_heredocs(const char *text, struct heredoc *out)
{
	size_t found = 0;

	for (const char *p = text; (p = strstr(p, "<<")) && found < HEREDOCS_MOST;) {
		struct heredoc *h = &out[found];
		char quote = 0;
		size_t n = 0;

		p += 2;
		if (*p == '<') { /* a here-string */
			p += strspn(p, "<");
			continue;
		}
		h->strips = *p == '-';
		p += *p == '-';
		if (*p == '"' || *p == '\'')
			quote = *p++;
		while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '.')
			n++;
		if (!n || n >= WORD_MOST || isdigit((unsigned char)p[0]) ||
			(quote && p[n] != quote))
			continue;
		memcpy(h->word, p, n);
		h->word[n] = 0;
		h->literal = quote;
		p += n + (quote != 0);
		h->last = !p[strspn(p, BLANKS)];
		found++;
	}
	return found;
}

/* Its lines, with their ends; `closing` also the last one, for a shell. */
int dockerfile_heredoc(struct parse *p, const struct heredoc *h, bool closing, struct buffer *out)
{
	const char *line;
	size_t count, tabs;
	int r = 0;

	while (!r && read_line(p, &line, &count)) {
		for (tabs = 0; h->strips && tabs < count && line[tabs] == '\t'; tabs++)
			;
		if (count - tabs == strlen(h->word) &&
			memcmp(line + tabs, h->word, count - tabs) == 0) {
			if (closing)
				r = buffer_printf(out, "%s\n", h->word);
			return dockerfile_fail_code(p, r);
		}
		if (closing)
			tabs = 0; /* the shell does it */
		r = buffer_add(out, line + tabs, count - tabs);
		if (!r)
			r = buffer_add(out, "\n", 1);
	}
	return r ? dockerfile_fail_code(p, -ENOMEM)
		 : dockerfile_fail(p, "the heredoc %s does not end", h->word);
}
