/* SPDX-License-Identifier: Apache-2.0 - a command line against a command's table of options. */
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_NAMES 64

/* What is being parsed; argv[at] is next. */
struct parse {
	const struct cli_command *command;
	const char *const *argv;
	size_t count, at;
	void *options;
	struct error *err;
};

static const struct cli_option no_options[] = {CLI_OPTIONS_END};

static const struct cli_option *options_of(const struct cli_command *command)
{
	return command->options ? command->options : no_options;
}

static const struct cli_option *find_long(
	const struct cli_command *command, const char *name, size_t length)
{
	for (const struct cli_option *o = options_of(command); o->name; o++) {
		if (strlen(o->name) == length && strncmp(o->name, name, length) == 0)
			return o;
	}
	return NULL;
}

static const struct cli_option *find_letter(const struct cli_command *command, char letter)
{
	for (const struct cli_option *o = options_of(command); o->name; o++) {
		if (o->letter && o->letter == letter)
			return o;
	}
	return NULL;
}

static int unknown_option(const struct parse *p, const char *name, size_t length)
{
	const char *names[OPTION_NAMES + 2], *nearest;
	size_t n = 0;
	char word[64];

	for (const struct cli_option *o = options_of(p->command); o->name && n < OPTION_NAMES;
		o++) {
		if (!o->hidden)
			names[n++] = o->name;
	}
	names[n++] = "help";
	names[n] = NULL;
	text_format(word, sizeof(word), "%.*s", (int)(length < 60 ? length : 60), name);
	nearest = text_nearest(word, names);
	if (nearest)
		return error_set(
			p->err, -EINVAL, "unknown option --%s; did you mean --%s?", word, nearest);
	return error_set(p->err, -EINVAL, "unknown option --%s", word);
}

/* `shown` is the option as the user gave it, "--memory" or "-m". */
static int apply(struct parse *p, const struct cli_option *o, const char *shown, const char *value)
{
	struct error why = {0};

	if (o->parse(o, value, (char *)p->options + o->offset, &why) == 0)
		return 0;
	return error_set(p->err, -EINVAL, "%s: %s", shown, error_message(&why));
}

/* The value in the next argument; one that is itself a known option was surely not meant. */
static int take_value(struct parse *p, const struct cli_option *o, const char *shown)
{
	const char *value = p->at < p->count ? p->argv[p->at] : NULL;

	if (!value || strcmp(value, "--") == 0 ||
		(text_starts(value, "--") &&
			find_long(p->command, value + 2, strcspn(value + 2, "="))))
		return error_set(p->err, -EINVAL, "%s needs a value: %s %s, as %s", shown, shown,
			o->argument, o->example);
	p->at++;
	return apply(p, o, shown, value);
}

/* --name, --name=value, --name value; 1 for --help. */
static int parse_long(struct parse *p, const char *name)
{
	size_t length = strcspn(name, "=");
	const struct cli_option *o = find_long(p->command, name, length);
	char shown[80];

	if (length == 4 && strncmp(name, "help", 4) == 0)
		return 1;
	if (!o)
		return unknown_option(p, name, length);
	text_format(shown, sizeof(shown), "--%s", o->name);
	if (!o->argument) {
		if (name[length] == '=')
			return error_set(
				p->err, -EINVAL, "%s takes no value; give %s alone", shown, shown);
		return apply(p, o, shown, NULL);
	}
	if (name[length] == '=')
		return apply(p, o, shown, name + length + 1);
	return take_value(p, o, shown);
}

/* -a, -ab (flags), -j4, -j 4; 1 for -h. */
static int parse_letters(struct parse *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct cli_option *o = find_letter(p->command, *letters);
		const char shown[] = {'-', *letters, 0};
		int r;

		if (*letters == 'h' && !o)
			return 1;
		if (!o)
			return error_set(p->err, -EINVAL, "unknown option %s", shown);
		if (o->argument)
			return letters[1] ? apply(p, o, shown, letters + 1)
					  : take_value(p, o, shown);
		r = apply(p, o, shown, NULL);
		if (r)
			return r;
	}
	return 0;
}

/* The n-th word of the operands' names: "SUBMISSIONS" of "TESTS SUBMISSIONS" is number 1. */
static void operand_name(const struct cli_command *command, size_t n, char *out, size_t size)
{
	const char *words = command->operands;

	while (n-- && words[strcspn(words, " ")])
		words += strcspn(words, " ") + 1;
	text_format(out, size, "%.*s", (int)strcspn(words, " "), words);
}

static int check_operands(struct parse *p, const char **operands, size_t count)
{
	const struct cli_command *c = p->command;
	char name[64];

	if (count < c->least) {
		operand_name(c, count, name, sizeof(name));
		return error_set(p->err, -EINVAL, "%s is missing: sealmark %s %s%s", name, c->name,
			c->rest == 1 ? "[OPTION]... -- " : "", c->operands);
	}
	if (count <= c->most)
		return 0;
	if (!c->most)
		return error_set(p->err, -EINVAL,
			"unexpected argument \"%.80s\": sealmark %s takes none", operands[0],
			c->name);
	return error_set(p->err, -EINVAL,
		"unexpected argument \"%.80s\": sealmark %s takes only %s", operands[c->most],
		c->name, c->operands);
}

int cli_parse(const struct cli_command *command, const char *const *argv, size_t count,
	void *options, const char **operands, size_t *operand_count, struct error *err)
{
	struct parse p = {command, argv, count, 0, options, err};
	bool ended = false;
	size_t n = 0;

	if (command->size && command->defaults)
		memcpy(options, command->defaults, command->size);
	else if (command->size)
		memset(options, 0, command->size);
	while (p.at < count) {
		const char *word = argv[p.at++];
		int r = 0;

		if (ended || word[0] != '-' || !word[1]) {
			operands[n++] = word;
			ended = ended || (command->rest && n >= command->rest);
		} else if (strcmp(word, "--") == 0) {
			ended = true;
		} else if (word[1] == '-') {
			r = parse_long(&p, word + 2);
		} else {
			r = parse_letters(&p, word + 1);
		}
		if (r)
			return r;
	}
	operands[n] = NULL;
	*operand_count = n;
	return check_operands(&p, operands, n);
}

void cli_options_fini(const struct cli_command *command, void *options)
{
	for (const struct cli_option *o = options_of(command); o->name; o++) {
		struct cli_texts *texts;

		if (o->parse != cli_texts)
			continue;
		texts = (void *)((char *)options + o->offset);
		free(texts->items);
		*texts = (struct cli_texts){0};
	}
}

static void set(struct error *err, int code, const char *format, va_list ap)
{
	if (!err)
		return;
	err->code = code;
	vsnprintf(err->message, sizeof(err->message), format, ap);
}

int cli_usage(struct error *err, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	set(err, -EINVAL, format, ap);
	va_end(ap);
	return CLI_USAGE;
}

int cli_ours(struct error *err, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	set(err, -EIO, format, ap);
	va_end(ap);
	return CLI_OURS;
}
