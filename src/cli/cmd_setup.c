/* SPDX-License-Identifier: Apache-2.0 - sealmark setup: becomes the installed setup program. */
#include "cli/cli.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct setup_options {
	bool kernel, all, force, quiet;
	struct cli_texts images;
};

/* Two words an image and four flags, argv[0] and the end. */
static const char **setup_argv(const struct setup_options *o, const char *program)
{
	const char **argv = calloc(2 * o->images.count + 6, sizeof(argv[0]));
	size_t n = 0;

	if (!argv)
		return NULL;
	argv[n++] = program;
	if (o->kernel)
		argv[n++] = "--kernel";
	for (size_t i = 0; i < o->images.count; i++) {
		argv[n++] = "--image";
		argv[n++] = o->images.items[i];
	}
	if (o->all)
		argv[n++] = "--all";
	if (o->force)
		argv[n++] = "--force";
	if (o->quiet)
		argv[n++] = "--quiet";
	return argv;
}

static int run(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	char program[PATH_MAX];
	const char **argv;

	if (sandbox_helper_path("setup", program, sizeof(program), err))
		return CLI_OURS;
	argv = setup_argv(options, program);
	if (!argv)
		return cli_ours(err, "%s", strerror(ENOMEM));
	sigaction(SIGPIPE, &usual, NULL);
	execve(program, (char **)argv, environ);
	free(argv);
	error_sys(err, errno, "%s: cannot run it", program);
	return CLI_OURS;
}

static const struct cli_option options[] = {
	CLI_OPTION("kernel", 0, NULL, "build the guest kernel", "--kernel", cli_flag,
		offsetof(struct setup_options, kernel)),
	CLI_OPTION("image", 0, "NAME", "build this image; may be given several times",
		"--image default", cli_texts, offsetof(struct setup_options, images)),
	CLI_OPTION("all", 0, NULL, "build everything (what it does without --kernel and --image)",
		"--all", cli_flag, offsetof(struct setup_options, all)),
	CLI_OPTION("force", 'f', NULL, "build even what is up to date", "--force", cli_flag,
		offsetof(struct setup_options, force)),
	CLI_OPTION("quiet", 'q', NULL, "print errors only", "--quiet", cli_flag,
		offsetof(struct setup_options, quiet)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_setup = {
	.name = "setup",
	.summary = "Build the guest kernel and the images this host needs",
	.text = "The kernel is built from Debian's linux-source, the images from Debian packages,\n"
		"into $SEALMARK_HOME. What is up to date is left alone; what is interrupted "
		"leaves\n"
		"nothing half-made. The environment variables http_proxy and https_proxy are\n"
		"honoured.",
	.examples = "sealmark setup\nsealmark setup --image default --force\n",
	.options = options,
	.size = sizeof(struct setup_options),
	.run = run,
};
