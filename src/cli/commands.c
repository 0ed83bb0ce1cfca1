/* SPDX-License-Identifier: Apache-2.0 - the table of commands, in the order of the help. */
#include "cli/cli.h"

const struct cli_command *const cli_commands[] = {
	&cli_grade,
	&cli_sandbox_run,
	&cli_sandbox_create,
	&cli_sandbox_exec,
	&cli_sandbox_cp,
	&cli_sandbox_cat,
	&cli_sandbox_ls,
	&cli_sandbox_get,
	&cli_sandbox_stop,
	&cli_sandbox_pause,
	&cli_sandbox_wake,
	&cli_sandbox_extend,
	&cli_sandbox_rm,
	&cli_image_ls,
	&cli_image_show,
	&cli_serve,
	&cli_keys_create,
	&cli_keys_ls,
	&cli_keys_revoke,
	&cli_usage_command,
	&cli_doctor,
	&cli_setup,
	NULL,
};
