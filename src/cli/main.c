/* SPDX-License-Identifier: Apache-2.0 - sealmark: finds the command, parses its options, runs it.
 */
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "grade/assignment.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Descriptors 0 to 2 must be something, or the next open() would become somebody's output. */
static void fill_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
			exit(CLI_OURS);
	}
}

/* A reader that went away is an error of write(), not the end of this process in mid-work. */
/* Writes that fail say so with an error. */
static void ignore_signals_of_writes(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGXFSZ, &ignore, NULL);
}

static void setup_log(void)
{
	const char *level = getenv("SEALMARK_LOG");
	enum log_level most = LOG_LEVEL_WARNING;

	if (level && strcmp(level, "info") == 0)
		most = LOG_LEVEL_INFO;
	else if (level && strcmp(level, "debug") == 0)
		most = LOG_LEVEL_DEBUG;
	log_setup("sealmark", most);
}

/* The command named by the first words of argv, and how many words that took. */
static const struct cli_command *find_command(int argc, char **argv, int *words)
{
	for (size_t i = 0; cli_commands[i]; i++) {
		const char *name = cli_commands[i]->name;
		int n = 0;

		while (n < argc && text_starts(name, argv[n]) && *argv[n] &&
			(name[strlen(argv[n])] == ' ' || !name[strlen(argv[n])])) {
			name += strlen(argv[n++]);
			if (!*name) {
				*words = n;
				return cli_commands[i];
			}
			name++;
		}
	}
	return NULL;
}

/* The keys of assignment.yaml, for the test of its manual page. */
static int put_assignment_keys(void)
{
	struct buffer keys = {0};
	int status = assignment_describe_keys(&keys) ? CLI_OURS : CLI_OK;

	for (char *line = buffer_text(&keys); !status && line && *line;) {
		int length = (int)strcspn(line, "\n");

		printf("key\t%.*s\n", length, line);
		line += length + (line[length] == '\n');
	}
	buffer_fini(&keys);
	return status;
}

/* sealmark help [COMMAND...] */
static int help(int argc, char **argv)
{
	const struct cli_command *command;
	int words;

	if (!argc) {
		cli_help_list(stdout, cli_commands, NULL);
		return CLI_OK;
	}
	if (argc == 1 && strcmp(argv[0], "--tables") == 0) {
		cli_help_tables(stdout, cli_commands);
		return put_assignment_keys();
	}
	command = find_command(argc, argv, &words);
	if (command && words == argc) {
		cli_help_command(stdout, command);
		return CLI_OK;
	}
	if (argc == 1 && cli_help_list(stdout, cli_commands, argv[0]))
		return CLI_OK;
	return cli_unknown_command(argc, argv);
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	cleanup_free void *options = calloc(1, command->size ? command->size : 1);
	cleanup_free const char **operands = calloc((size_t)argc + 1, sizeof(operands[0]));
	struct error err = {0};
	size_t count;
	int status;

	if (!options || !operands) {
		log_error("%s", strerror(ENOMEM));
		return CLI_OURS;
	}
	status = cli_parse(
		command, (const char *const *)argv, (size_t)argc, options, operands, &count, &err);
	if (status > 0) {
		cli_help_command(stdout, command);
		status = CLI_OK;
	} else if (status < 0) {
		status = CLI_USAGE;
	} else {
		status = command->run(options, operands, count, &err);
	}
	cli_options_fini(command, options);
	if (!err.message[0])
		return status;
	/* a server's refusal is not put right by reading the help */
	if (status == CLI_USAGE && err.code != -EREMOTEIO)
		log_error("%s: %s (sealmark %s --help)", command->name, error_message(&err),
			command->name);
	else
		log_error("%s", error_message(&err));
	return status;
}

/* Output that was lost must not look like success; a closed pipe is the reader's choice. */
static int finish_output(int status)
{
	bool lost = ferror(stdout);

	errno = 0;
	if (fflush(stdout) == 0 && !lost)
		return status;
	if (errno == EPIPE)
		return 128 + SIGPIPE;
	log_error("could not write all of the output%s%s", errno ? ": " : "",
		errno ? strerror(errno) : "");
	return CLI_OURS;
}

int main(int argc, char **argv)
{
	const struct cli_command *command;
	int words;

	fill_standard_fds();
	ignore_signals_of_writes();
	setlocale(LC_CTYPE, "");
	setup_log();
	if (argc < 2) {
		cli_help_list(stderr, cli_commands, NULL);
		return CLI_USAGE;
	}
	argc--;
	argv++;
	if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "version") == 0) {
		puts("sealmark " SEALMARK_VERSION);
		return finish_output(CLI_OK);
	}
	if (strcmp(argv[0], "help") == 0)
		return finish_output(help(argc - 1, argv + 1));
	if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
		return finish_output(help(0, NULL));
	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) &&
		!find_command(1, argv, &words) && cli_help_list(stdout, cli_commands, argv[0]))
		return finish_output(CLI_OK);
	command = find_command(argc, argv, &words);
	if (!command && argv[0][0] == '-') {
		log_error("unknown option %s before a command; sealmark --help lists what there is",
			argv[0]);
		return CLI_USAGE;
	}
	if (!command)
		return cli_unknown_command(argc, argv);
	return finish_output(run(command, argc - words, argv + words));
}
