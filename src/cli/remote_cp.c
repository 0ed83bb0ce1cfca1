/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox cp: what its operands mean. */
#include "cli/remote.h"

#include "base/text.h"

#include <stddef.h>
#include <string.h>

struct cp_options {
	struct remote_options remote;
	bool quiet;
};

/* "BOX:PATH" taken apart: id and absolute path. */
static int take_apart(
	struct remote *r, const char *operand, char *id, struct buffer *guest, struct error *err)
{
	size_t prefix = remote_box_prefix(operand);
	char box[160];

	if (text_format(box, sizeof(box), "%.*s", (int)prefix, operand))
		return cli_usage(err, "\"%.80s\": the name of the sandbox is too long", operand);
	if (remote_guest_path(operand + prefix + 1, guest))
		return cli_ours(err, "out of memory");
	return remote_sandbox_id(r, box, id, err);
}

static int run_cp(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct cp_options *o = options;
	bool from = remote_box_prefix(operands[0]), to = remote_box_prefix(operands[1]);
	struct remote_copied copied = {0};
	struct buffer guest = {0};
	char id[REMOTE_ID_SIZE];
	struct remote *r;
	int status;

	if (from == to)
		return cli_usage(err,
			"one of the two must be BOX:PATH, and the other a path of this host "
			"(./a:b for one with a colon)");
	status = remote_open(&o->remote, &r, err);
	if (!status)
		status = take_apart(r, operands[from ? 0 : 1], id, &guest, err);
	if (!status && from)
		status = remote_copy_out(
			r, id, buffer_text(&guest), operands[1], o->quiet, &copied, err);
	else if (!status)
		status = remote_copy_in(
			r, id, operands[0], buffer_text(&guest), o->quiet, &copied, err);
	if (o->remote.json && (status == CLI_OK || status == CLI_ATTENTION) &&
		remote_print_json(
			json_pack("{ss ss ss sI sI}", "sandboxId", id, "source", operands[0],
				"target", operands[1], "bytes", (json_int_t)copied.bytes, "leftOut",
				(json_int_t)copied.left_out),
			err))
		status = CLI_OURS;
	buffer_fini(&guest);
	remote_free(r);
	return status;
}

static const struct cli_option options[] = {
	CLI_OPTION("quiet", 'q', NULL, "no bar on a terminal", "--quiet", cli_flag,
		offsetof(struct cp_options, quiet)),
	REMOTE_OPTIONS(struct cp_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_cp = {
	.name = "sandbox cp",
	.summary = "Copy files into a sandbox or out of it",
	.operands = "SOURCE TARGET",
	.text = "One of the two is BOX:PATH; a PATH that does not begin with / is below\n"
		"/workspace. A file keeps its mode, and goes into TARGET if that is a folder. Of "
		"a\n"
		"folder, what is in it is put into TARGET, which is made if need be.\n"
		"\n"
		"What comes out of a sandbox is written beneath TARGET and nowhere else: an\n"
		"archive that tries is refused, links that lead outside are left out (status 1).",
	.examples = "sealmark sandbox cp hw3 grader:/workspace/hw3\n"
		    "sealmark sandbox cp grader:results.json .\n",
	.options = options,
	.size = sizeof(struct cp_options),
	.least = 2,
	.most = 2,
	.run = run_cp,
};
