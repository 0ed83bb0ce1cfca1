/* SPDX-License-Identifier: Apache-2.0 - the command line: commands and options, each declared once
 * in a table. */
#ifndef SEALMARK_CLI_CLI_H
#define SEALMARK_CLI_CLI_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A command is one table (struct cli_command) in one cmd_*.c, named in the list of main.c. From its
 * options come parsing, validation, error messages, --help and `sealmark help --tables`, against
 * which a test holds the manual page.
 *
 *	struct grade_options { const char *output; uint32_t jobs; bool json; };
 *
 *	static const struct cli_option options[] = {
 *		CLI_OPTION("output", 'o', "DIR", "write the results to DIR", "-o results/hw3",
 *			cli_text, offsetof(struct grade_options, output)),
 *		CLI_OPTION("jobs", 'j', "N", "grade N submissions at once", "-j 4",
 *			cli_u32, offsetof(struct grade_options, jobs), .least = 1, .most = 256),
 *		CLI_OPTION("json", 0, NULL, "print the result as JSON", "--json",
 *			cli_flag, offsetof(struct grade_options, json)),
 *		CLI_OPTIONS_END,
 *	};
 *
 * On the command line: --jobs 4, --jobs=4, -j 4, -j4; flags of one letter may be put together; --
 * ends the options. Long names are never abbreviated. -h and --help are everywhere.
 */
enum cli_status {
	CLI_OK = 0,
	CLI_ATTENTION = 1, /* done, but some of it needs attention */
	CLI_USAGE = 2,     /* the command line, or a file of the user's, is wrong */
	CLI_OURS = 3       /* a failure of Sealmark or of this host */
};

struct cli_option {
	const char *name; /* long name without dashes */
	char letter;      /* or 0 */
	const char
		*argument; /* its name in help ("SIZE"); NULL: a flag, parse is called with NULL */
	const char *help;  /* one line, lower case, no final full stop; says the default */
	const char *example; /* as typed: "--memory 1G" */
	/* Store `text` in `field`. 0, or a negative errno with what is wrong and what would be
	 * right; the option's name is put in front by the caller. */
	int (*parse)(
		const struct cli_option *option, const char *text, void *field, struct error *err);
	size_t offset;        /* of the field in the command's options structure */
	uint64_t least, most; /* for the number parsers; most 0: no upper bound */
	bool hidden;          /* not in help and manual; for tests */
	bool common;          /* of all commands that use a server; the manual has it once */
};
#define CLI_OPTION(name_, letter_, argument_, help_, example_, parse_, offset_, ...)               \
	{                                                                                          \
		.name = (name_), .letter = (letter_), .argument = (argument_), .help = (help_),    \
		.example = (example_), .parse = (parse_), .offset = (offset_), __VA_ARGS__         \
	}
#define CLI_OPTIONS_END                                                                            \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/* Parsers. Texts stay those of argv. */
typedef int cli_parser(
	const struct cli_option *option, const char *text, void *field, struct error *err);
cli_parser cli_flag;  /* bool */
cli_parser cli_text;  /* const char *; not empty */
cli_parser cli_u32;   /* uint32_t; least, most */
cli_parser cli_mib;   /* uint32_t, MiB from "512M", "2G"; a bare number counts MiB; least, most */
cli_parser cli_bytes; /* uint64_t, bytes from "64k", "1G"; least, most */
cli_parser cli_duration_ms; /* int64_t, ms from "10s", "2m", "1.5"; bare number: s; least, most */
cli_parser cli_texts;       /* struct cli_texts; may be given several times */

struct cli_texts {
	const char **items; /* NULL-terminated, or NULL when count is 0 */
	size_t count;
};

struct cli_command {
	const char *name;     /* "grade", "sandbox run" */
	const char *summary;  /* one line for the list of commands */
	const char *operands; /* for the synopsis: "TESTS SUBMISSIONS"; NULL: none */
	const char *text;     /* paragraphs with an empty line between; NULL: none */
	const char *examples; /* lines of "command" or "# comment"; each ends with a newline */
	const struct cli_option *options; /* ends with CLI_OPTIONS_END; NULL: none */
	const void *defaults;             /* initial options structure; NULL: all zero */
	size_t size;                      /* of the options structure */
	unsigned least, most;             /* operands wanted; most 0 with least 0: none */
	unsigned rest; /* so many operands end the options (a command with its own follows); 0: none
			*/

	/* Returns an enum cli_status (or the status of what it ran). A message set in err is
	 * printed by main, on one line after "sealmark: "; with CLI_USAGE where to find help
	 * follows. */
	int (*run)(
		const void *options, const char *const *operands, size_t count, struct error *err);
};

extern const struct cli_command cli_grade;
extern const struct cli_command cli_show;
extern const struct cli_command cli_sandbox_run;
extern const struct cli_command cli_sandbox_create;
extern const struct cli_command cli_sandbox_exec;
extern const struct cli_command cli_sandbox_spawn;
extern const struct cli_command cli_sandbox_ps;
extern const struct cli_command cli_sandbox_logs;
extern const struct cli_command cli_sandbox_kill;
extern const struct cli_command cli_sandbox_shell;
extern const struct cli_command cli_sandbox_cp;
extern const struct cli_command cli_sandbox_cat;
extern const struct cli_command cli_sandbox_ls;
extern const struct cli_command cli_sandbox_get;
extern const struct cli_command cli_sandbox_stop;
extern const struct cli_command cli_sandbox_pause;
extern const struct cli_command cli_sandbox_wake;
extern const struct cli_command cli_sandbox_extend;
extern const struct cli_command cli_sandbox_rm;
extern const struct cli_command cli_login;
extern const struct cli_command cli_logout;
extern const struct cli_command cli_whoami;
extern const struct cli_command cli_limits;
extern const struct cli_command cli_image_ls;
extern const struct cli_command cli_image_show;
extern const struct cli_command cli_image_build;
extern const struct cli_command cli_image_versions;
extern const struct cli_command cli_image_tag;
extern const struct cli_command cli_image_untag;
extern const struct cli_command cli_image_logs;
extern const struct cli_command cli_image_rm;
extern const struct cli_command cli_serve;
extern const struct cli_command cli_keys_create;
extern const struct cli_command cli_keys_ls;
extern const struct cli_command cli_keys_revoke;
extern const struct cli_command cli_usage_command;
extern const struct cli_command cli_owner_reset;
extern const struct cli_command cli_audit;
extern const struct cli_command cli_backup;
extern const struct cli_command cli_doctor;
extern const struct cli_command cli_setup;

/* All commands of this program in the order of the help, NULL-terminated (commands.c). */
extern const struct cli_command *const cli_commands[];

/* --- options.c, parsers.c --- */

/* Parse argv[0..count) (what follows the command's name) into `options` (command->size bytes, set
 * to the defaults here) and operands (room for count + 1; NULL-terminated). 0; 1 when help was
 * asked for; -EINVAL with a message. Lists are freed with cli_options_fini(). */
int cli_parse(const struct cli_command *command, const char *const *argv, size_t count,
	void *options, const char **operands, size_t *operand_count, struct error *err);
void cli_options_fini(const struct cli_command *command, void *options);

/* Set the message; returns CLI_USAGE, CLI_OURS. */
int cli_usage(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_ours(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As a person would type it: "512M", "64k"; "10s", "1500ms". 32 bytes are enough. */
void cli_write_size(char *out, size_t size, uint64_t bytes);
void cli_write_duration(char *out, size_t size, uint64_t ms);

/* --- help.c --- */

/* `sealmark --help`, `sealmark help sandbox`: the commands whose name begins with the word `group`
 * (NULL: all). Returns how many there are. */
size_t cli_help_list(FILE *to, const struct cli_command *const *commands, const char *group);
void cli_help_command(FILE *to, const struct cli_command *command);
/* Every command and option, a line each with tabs between the fields, for the manual's test. */
void cli_help_tables(FILE *to, const struct cli_command *const *commands);

/* --- suggest.c --- */

/* A word that names no command, or a group of commands without one of them: say what there is.
 * Returns the status. */
int cli_unknown_command(int argc, char **argv);

/* --- terminal.c --- */

/* True when the locale's character set is UTF-8 (✓ may be printed). */
bool cli_utf8(void);

/* Block SIGINT, SIGTERM and SIGHUP (those that are not ignored) in all threads (call before any is
 * started) and give a file descriptor that turns readable when one of them comes: a cancel_fd.
 * Negative errno. */
int cli_cancel_fd(void);
/* The signal that came, 0 if none; does not block. */
int cli_cancel_signal(int cancel_fd);
/* Write all of it, when there is room; -EINTR when a signal came first, else negative errno. */
int cli_write_out(int fd, int cancel_fd, const void *bytes, size_t count);

#endif
