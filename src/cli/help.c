/* SPDX-License-Identifier: Apache-2.0 - help, made from the tables of the commands. */
#include "base/text.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH       80
#define HELP_COLUMN 26

#define HARD_SPACE '\a' /* in help: a space at which no line is broken */

/* Write words from column `at` on, wrapped to WIDTH and indented to `indent`; ends the line. */
static void put_wrapped(FILE *to, const char *text, int at, int indent)
{
	bool first = true;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (!first && at + 1 + length > WIDTH) {
			fprintf(to, "\n%*s", indent, "");
			at = indent;
			first = true;
		}
		if (!first)
			fputc(' ', to);
		at += length + !first;
		first = false;
		for (; length; length--, text++)
			fputc(*text == HARD_SPACE ? ' ' : *text, to);
		while (*text == ' ')
			text++;
	}
	fputc('\n', to);
}

/* Paragraphs, each wrapped anew: the lines of the source are not those of the reader. */
static void put_text(FILE *to, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t length = end ? (size_t)(end - text) : strlen(text);
		char *paragraph = strndup(text, length);

		for (char *p = paragraph; p && *p; p++) {
			if (*p == '\n')
				*p = ' ';
		}
		fputc('\n', to);
		put_wrapped(to, paragraph ? paragraph : "", 0, 0);
		free(paragraph);
		text += length + (end ? 2 : 0);
	}
}

static void put_option(FILE *to, const struct cli_option *o)
{
	char left[64], help[512];
	int n;

	text_format(left, sizeof(left), "  %c%c%s--%s%s%s", o->letter ? '-' : ' ',
		o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
		o->argument ? " " : "", o->argument ? o->argument : "");
	n = fprintf(to, "%s", left);
	if (n + 2 > HELP_COLUMN)
		fprintf(to, "\n%*s", HELP_COLUMN, "");
	else
		fprintf(to, "%*s", HELP_COLUMN - n, "");
	/* the example of a flag would only repeat its name */
	if (o->argument)
		text_format(help, sizeof(help), "%s; as%c%s", o->help, HARD_SPACE, o->example);
	else
		text_format(help, sizeof(help), "%s", o->help);
	for (char *p = strchr(help, HARD_SPACE); p && *p; p++) {
		if (*p == ' ')
			*p = HARD_SPACE;
	}
	put_wrapped(to, help, HELP_COLUMN, HELP_COLUMN);
}

static void put_synopsis(FILE *to, const struct cli_command *command)
{
	fprintf(to, "usage: sealmark %s", command->name);
	if (command->options && command->options[0].name)
		fputs(" [OPTION]...", to);
	if (command->operands)
		fprintf(to, "%s %s", command->rest == 1 ? " --" : "", command->operands);
	fputc('\n', to);
}

void cli_help_command(FILE *to, const struct cli_command *command)
{
	static const struct cli_option help =
		CLI_OPTION("help", 'h', NULL, "show this help", "--help", NULL, 0);

	put_synopsis(to, command);
	fprintf(to, "\n%s.\n", command->summary);
	if (command->text)
		put_text(to, command->text);
	fputs("\noptions:\n", to);
	for (const struct cli_option *o = command->options; o && o->name; o++) {
		if (!o->hidden)
			put_option(to, o);
	}
	put_option(to, &help);
	if (!command->examples)
		return;
	fputs("\nexamples:\n", to);
	for (const char *line = command->examples; *line;) {
		int length = (int)strcspn(line, "\n");

		fprintf(to, "  %.*s\n", length, line);
		line += length + (line[length] == '\n');
	}
}

static bool in_group(const char *name, const char *group)
{
	size_t n = strlen(group);

	return strncmp(name, group, n) == 0 && (name[n] == ' ' || !name[n]);
}

size_t cli_help_list(FILE *to, const struct cli_command *const *commands, const char *group)
{
	size_t count = 0;

	for (size_t i = 0; commands[i]; i++) {
		if (group && !in_group(commands[i]->name, group))
			continue;
		if (!count++)
			fprintf(to,
				"usage: sealmark %s%sCOMMAND [OPTION]... [ARGUMENT]...\n\n"
				"%scommands:\n",
				group ? group : "", group ? " " : "",
				group ? ""
				      : "Runs untrusted student code, each submission in a "
					"throwaway "
					"virtual machine\nwith a kernel of its own, and grades "
					"it.\n\n");
		fprintf(to, "  %-14s ", commands[i]->name);
		put_wrapped(to, commands[i]->summary, 17, 17);
	}
	if (count)
		fprintf(to,
			"\n`sealmark help COMMAND` says more about one; `man sealmark` has it "
			"all%s.\n",
			group ? "" : ";\n`sealmark --version` says which version this is");
	return count;
}

void cli_help_tables(FILE *to, const struct cli_command *const *commands)
{
	for (size_t i = 0; commands[i]; i++) {
		const struct cli_command *c = commands[i];

		fprintf(to, "command\t%s\t%s\t%s\n", c->name, c->operands ? c->operands : "",
			c->summary);
		for (const struct cli_option *o = c->options; o && o->name; o++) {
			if (o->hidden)
				continue;
			fprintf(to, "%s\t%s\t--%s\t%.1s\t%s\t%s\n", o->common ? "common" : "option",
				c->name, o->name, &o->letter, o->argument ? o->argument : "",
				o->help);
		}
	}
}
