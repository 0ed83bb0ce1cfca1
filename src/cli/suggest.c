/* SPDX-License-Identifier: Apache-2.0 - a command that does not exist: which one may be meant. */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"

#include <string.h>

/*
 * What other programs call it. A word may have several rows: the first whose command exists in the
 * group is meant. Rows that name a whole command are for words that stand alone.
 */
static const struct synonym {
	const char *word, *meant;
} synonyms[] = {
	{"list", "ls"},
	{"delete", "rm"},
	{"delete", "revoke"},
	{"remove", "rm"},
	{"remove", "revoke"},
	{"rm", "revoke"},
	{"destroy", "rm"},
	{"new", "create"},
	{"add", "create"},
	{"start", "create"},
	{"up", "create"},
	{"show", "get"},
	{"inspect", "get"},
	{"inspect", "show"},
	{"info", "get"},
	{"info", "show"},
	{"get", "show"},
	{"status", "get"},
	{"resume", "wake"},
	{"unpause", "wake"},
	{"suspend", "pause"},
	{"renew", "extend"},
	{"end", "stop"},
	{"terminate", "stop"},
	{"ssh", "shell"},
	{"attach", "shell"},
	{"console", "shell"},
	{"terminal", "shell"},
	{"copy", "cp"},
	{"upload", "cp"},
	{"download", "cp"},
	{"push", "cp"},
	{"pull", "cp"},
	{"test", "grade"},
	{"server", "serve"},
	{"start", "serve"},
	{"check", "doctor"},
	{"init", "setup"},
	{"install", "setup"},
	{"signin", "login"},
	{"build", "image build"},
	{"password", "owner reset"},
};

static const struct cli_command *named(const char *group, const char *word)
{
	char name[80];

	if (text_format(name, sizeof(name), "%s%s%s", group, *group ? " " : "", word))
		return NULL;
	for (size_t i = 0; cli_commands[i]; i++) {
		if (strcmp(cli_commands[i]->name, name) == 0)
			return cli_commands[i];
	}
	return NULL;
}

static const struct cli_command *synonym(const char *group, const char *word)
{
	const struct cli_command *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(synonyms) && !found; i++) {
		if (strcmp(synonyms[i].word, word) == 0)
			found = named(group, synonyms[i].meant);
	}
	/* "sealmark ps": its group was forgotten */
	if (!found && !*group)
		found = named("sandbox", word);
	return found;
}

static const char *nearest_name(char *const *argv, int argc, const char *word, bool is_group)
{
	const char *names[64], *nearest;
	char pair[160];
	size_t n = 0;

	for (size_t i = 0; cli_commands[i] && n < ARRAY_SIZE(names) - 1; i++)
		names[n++] = cli_commands[i]->name;
	names[n] = NULL;
	nearest = text_nearest(word, names);
	/* "sandbx run": the group's word alone may be what is wrong */
	if (!nearest && !is_group && argc > 1 &&
		text_format(pair, sizeof(pair), "%s %s", argv[0], argv[1]) == 0)
		nearest = text_nearest(pair, names);
	return nearest;
}

static bool is_group_name(const char *word)
{
	size_t length = strlen(word);

	for (size_t i = 0; cli_commands[i]; i++) {
		const char *name = cli_commands[i]->name;

		if (length && strncmp(name, word, length) == 0 && name[length] == ' ')
			return true;
	}
	return false;
}

int cli_unknown_command(int argc, char **argv)
{
	bool is_group = is_group_name(argv[0]);
	const struct cli_command *same;
	const char *meant;
	char word[80] = "";

	if (is_group && argc < 2) {
		log_error("%s needs a command of its own", argv[0]);
		cli_help_list(stderr, cli_commands, argv[0]);
		return CLI_USAGE;
	}
	text_format(word, sizeof(word), "%s%s%s", argv[0], is_group ? " " : "",
		is_group ? argv[1] : "");
	same = synonym(is_group ? argv[0] : "", is_group ? argv[1] : argv[0]);
	meant = same ? same->name : nearest_name(argv, argc, word, is_group);
	if (meant)
		log_error("unknown command \"%s\"; did you mean: sealmark %s", word, meant);
	else
		log_error("unknown command \"%s\"; sealmark --help lists what there is", word);
	return CLI_USAGE;
}
