/* SPDX-License-Identifier: Apache-2.0 - reads the scripts of engine fake (language: see fake.c). */
#include "engine/fake_internal.h"

#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_MOST (1u << 20)

/* Where in the script we are, for messages, and the rest of the line. */
struct line {
	const char *name;
	unsigned number;
	char *rest;
	struct error *err;
};

/* A word or a quoted text; owned by the script's text, which it is written over. */
struct token {
	char *text;
	size_t count;
};

static int complain(const struct line *line, const char *what, const char *word)
{
	return error_set(line->err, -EINVAL, "%s:%u: %s%s%s%s", line->name, line->number, what,
		word ? " '" : "", word ? word : "", word ? "'" : "");
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One escape after the backslash at p; returns what follows it, NULL when there is none such. */
static const char *escape(const char *p, char *out)
{
	static const char names[] = "nrt0\\\"", values[] = "\n\r\t\0\\\"";
	const char *at = *p ? strchr(names, *p) : NULL;

	if (at) {
		*out = values[at - names];
		return p + 1;
	}
	if (p[0] != 'x' || hex_digit(p[1]) < 0 || hex_digit(p[2]) < 0)
		return NULL;
	*out = (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
	return p + 3;
}

static int quoted(struct line *line, struct token *out)
{
	const char *p = line->rest + 1;
	char *w = line->rest;

	out->text = w;
	while (*p != '"') {
		if (!*p)
			return complain(line, "a quoted text has no end", NULL);
		if (*p == '\\') {
			p = escape(p + 1, w++);
			if (!p)
				return complain(line,
					"no such escape; use \\n \\r \\t \\0 \\\\ "
					"\\\" or \\xHH",
					NULL);
		} else {
			*w++ = *p++;
		}
	}
	p++;
	if (*p && *p != ' ' && *p != '\t')
		return complain(line, "a blank must follow a quoted text", NULL);
	out->count = (size_t)(w - out->text);
	line->rest = (char *)p + (*p != 0);
	*w = 0;
	return 0;
}

/* 1: *out is the next token; 0: the line is at its end; negative: error. */
static int next(struct line *line, struct token *out)
{
	int r;

	line->rest += strspn(line->rest, " \t");
	if (!*line->rest || *line->rest == '#')
		return 0;
	if (*line->rest == '"') {
		r = quoted(line, out);
		return r ? r : 1;
	}
	out->text = line->rest;
	out->count = strcspn(line->rest, " \t");
	line->rest += out->count;
	if (*line->rest)
		*line->rest++ = 0;
	return 1;
}

static int need(struct line *line, const char *what, struct token *out)
{
	int r = next(line, out);

	if (r == 0)
		return complain(line, what, NULL);
	return r < 0 ? r : 0;
}

static int need_number(struct line *line, uint64_t *out)
{
	struct token t;
	int r = need(line, "a number is missing", &t);

	if (r)
		return r;
	return text_u64(t.text, out) ? complain(line, "not a number:", t.text) : 0;
}

static int need_end(struct line *line)
{
	struct token t;
	int r = next(line, &t);

	return r > 0 ? complain(line, "one word too many:", t.text) : r;
}

static char *copy(const struct token *t)
{
	char *text = malloc(t->count + 1);

	if (text) {
		memcpy(text, t->text, t->count);
		text[t->count] = 0;
	}
	return text;
}

static int grow(void **list, size_t *count, size_t size)
{
	void *more = realloc(*list, (*count + 1) * size);

	if (!more)
		return -ENOMEM;
	*list = more;
	memset((char *)more + *count * size, 0, size);
	(*count)++;
	return 0;
}

static int read_boot(struct line *line, struct fake_script *s)
{
	static const char *const names[] = {"ok", "hang", "die", "garbage", "mute"};
	struct token t;
	uint64_t version;
	int r = need(line, "boot: how? ok, hang, die, garbage, mute, delay MS or version N", &t);

	if (r)
		return r;
	if (strcmp(t.text, "delay") == 0)
		return need_number(line, &s->boot_delay_ms);
	if (strcmp(t.text, "version") == 0) {
		r = need_number(line, &version);
		s->version = (uint32_t)version;
		return r;
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(t.text, names[i]) == 0) {
			s->boot = (enum fake_boot)i;
			return 0;
		}
	return complain(
		line, "boot: ok, hang, die, garbage, mute, delay MS or version N, not", t.text);
}

static const struct {
	const char *name;
	enum fake_step_kind kind;
	enum wire_channel channel;
	enum wire_ending reason;
	enum { NOTHING, TEXT, NUMBER, ENDING } takes;
} step_table[] = {
	{"stdout", FAKE_STEP_OUTPUT, WIRE_STDOUT, 0, TEXT},
	{"stderr", FAKE_STEP_OUTPUT, WIRE_STDERR, 0, TEXT},
	{"report", FAKE_STEP_OUTPUT, WIRE_REPORT, 0, TEXT},
	{"flood", FAKE_STEP_FLOOD, WIRE_STDOUT, 0, NUMBER},
	{"echo", FAKE_STEP_ECHO, WIRE_STDOUT, 0, NOTHING},
	{"delay", FAKE_STEP_DELAY, 0, 0, NUMBER},
	{"cpu", FAKE_STEP_CPU, 0, 0, NUMBER},
	{"memory", FAKE_STEP_MEMORY, 0, 0, NUMBER},
	{"hang", FAKE_STEP_HANG, 0, 0, NOTHING},
	{"exit", FAKE_STEP_END, 0, WIRE_END_EXITED, NUMBER},
	{"signal", FAKE_STEP_END, 0, WIRE_END_SIGNALED, NUMBER},
	{"end", FAKE_STEP_END, 0, WIRE_END_EXITED, ENDING},
};

static int read_ending(struct line *line, enum wire_ending *out)
{
	static const struct {
		const char *name;
		enum wire_ending reason;
	} endings[] = {
		{"cpu_limit", WIRE_END_CPU_LIMIT},
		{"wall_limit", WIRE_END_WALL_LIMIT},
		{"memory_limit", WIRE_END_MEMORY_LIMIT},
		{"output_limit", WIRE_END_OUTPUT_LIMIT},
		{"file_limit", WIRE_END_FILE_LIMIT},
		{"killed", WIRE_END_KILLED},
	};
	struct token t;
	int r = need(line, "end: by what? cpu_limit and the like", &t);

	for (unsigned i = 0; !r && i < sizeof(endings) / sizeof(endings[0]); i++)
		if (strcmp(t.text, endings[i].name) == 0) {
			*out = endings[i].reason;
			return 0;
		}
	return r ? r : complain(line, "end: there is no ending", t.text);
}

static int read_step(struct line *line, const char *name, struct fake_exec_rule *rule)
{
	struct fake_step *step;
	struct token t;
	unsigned i;
	int r;

	for (i = 0; i < sizeof(step_table) / sizeof(step_table[0]); i++)
		if (strcmp(step_table[i].name, name) == 0)
			break;
	if (i == sizeof(step_table) / sizeof(step_table[0]))
		return complain(line, "exec: there is no step", name);
	r = grow((void **)&rule->steps, &rule->step_count, sizeof(*step));
	if (r)
		return r;
	step = &rule->steps[rule->step_count - 1];
	step->kind = step_table[i].kind;
	step->channel = step_table[i].channel;
	step->reason = step_table[i].reason;
	switch (step_table[i].takes) {
	case NOTHING:
		return 0;
	case NUMBER:
		return need_number(line, &step->number);
	case ENDING:
		return read_ending(line, &step->reason);
	case TEXT:
		r = need(line, "a text is missing", &t);
		if (r)
			return r;
		step->text = copy(&t);
		step->count = t.count;
		return step->text ? 0 : -ENOMEM;
	}
	return -EINVAL;
}

static int read_exec(struct line *line, struct fake_script *s)
{
	struct fake_exec_rule *rule;
	struct token t;
	int r = need(line, "exec: a pattern is missing", &t);

	r = r ? r : grow((void **)&s->rules, &s->rule_count, sizeof(*rule));
	if (r)
		return r;
	rule = &s->rules[s->rule_count - 1];
	rule->pattern = copy(&t);
	if (!rule->pattern)
		return -ENOMEM;
	while ((r = next(line, &t)) > 0) {
		r = read_step(line, t.text, rule);
		if (r)
			return r;
	}
	return r;
}

static int find_message(const char *name, uint16_t *out)
{
	for (uint16_t type = 1; type < 0x100; type++) {
		const char *known = wire_type_name(type);

		if (known && strcmp(known, name) == 0) {
			*out = type;
			return 0;
		}
	}
	return -ENOENT;
}

/* "die at MESSAGE [N]"; "send at MESSAGE TEXT [N]" */
static int read_trouble(struct line *line, enum fake_trouble_kind kind, struct fake_script *s)
{
	struct fake_trouble *trouble;
	struct token t;
	int r = need(line, "'at' and a message are missing", &t);

	if (!r && strcmp(t.text, "at") != 0)
		return complain(line, "'at' must follow, not", t.text);
	r = r ? r : need(line, "the name of a message is missing, as EXEC", &t);
	r = r ? r : grow((void **)&s->troubles, &s->trouble_count, sizeof(*trouble));
	if (r)
		return r;
	trouble = &s->troubles[s->trouble_count - 1];
	trouble->kind = kind;
	trouble->which = 1;
	if (find_message(t.text, &trouble->type))
		return complain(line, "there is no message", t.text);
	if (kind == FAKE_SEND) {
		r = need(line, "the bytes to send are missing", &t);
		trouble->text = r ? NULL : copy(&t);
		trouble->count = r ? 0 : t.count;
		if (r || !trouble->text)
			return r ? r : -ENOMEM;
	}
	r = next(line, &t);
	if (r > 0 && (text_u64(t.text, &trouble->which) || !trouble->which))
		return complain(line, "not a count from 1:", t.text);
	return r < 0 ? r : 0;
}

static int read_line(struct line *line, struct fake_script *s)
{
	static const char *const troubles[] = {"die", "garbage", "mute", "half", "send"};
	struct token t;
	int r = next(line, &t);

	if (r <= 0)
		return r;
	if (strcmp(t.text, "exec") == 0)
		return read_exec(line, s);
	if (strcmp(t.text, "boot") == 0)
		r = read_boot(line, s);
	else if (strcmp(t.text, "slow") == 0)
		r = need_number(line, &s->slow_ms);
	else
		r = -ENOENT;
	for (unsigned i = 0; r == -ENOENT && i < sizeof(troubles) / sizeof(troubles[0]); i++)
		if (strcmp(t.text, troubles[i]) == 0)
			r = read_trouble(line, (enum fake_trouble_kind)i, s);
	if (r == -ENOENT)
		return complain(line,
			"a line begins with boot, exec, slow, die, garbage, mute, half or send, "
			"not",
			t.text);
	return r ? r : need_end(line);
}

int fake_script_parse(const char *name, char *text, struct fake_script *out, struct error *err)
{
	struct line line = {.name = name, .err = err};
	int r = 0;

	*out = (struct fake_script){.version = WIRE_VERSION};
	while (!r && text) {
		line.number++;
		line.rest = strsep(&text, "\n");
		r = read_line(&line, out);
		if (r == -ENOMEM)
			error_set(err, r, "%s: no memory for the script", name);
	}
	if (r)
		fake_script_fini(out);
	return r;
}

int fake_script_read(const char *path, struct fake_script *out, struct error *err)
{
	struct buffer text = {0};
	char empty[] = "";
	int r;

	if (!path || !path[0])
		return fake_script_parse("", empty, out, err);
	r = path_read(path, SCRIPT_MOST, &text, err);
	if (!r && !buffer_text(&text))
		r = error_set(err, -ENOMEM, "%s: no memory for the script", path);
	if (!r && strlen(buffer_text(&text)) != buffer_length(&text))
		r = error_set(err, -EINVAL, "%s: a script has no NUL bytes", path);
	if (!r)
		r = fake_script_parse(path, buffer_text(&text), out, err);
	buffer_fini(&text);
	return r;
}

void fake_script_fini(struct fake_script *s)
{
	for (size_t i = 0; i < s->rule_count; i++) {
		for (size_t k = 0; k < s->rules[i].step_count; k++)
			free(s->rules[i].steps[k].text);
		free(s->rules[i].steps);
		free(s->rules[i].pattern);
	}
	for (size_t i = 0; i < s->trouble_count; i++)
		free(s->troubles[i].text);
	free(s->rules);
	free(s->troubles);
	*s = (struct fake_script){0};
}
