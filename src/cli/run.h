/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox run: its options, and the run on this
 * host. */
#ifndef SEALMARK_CLI_RUN_H
#define SEALMARK_CLI_RUN_H

#include "cli/remote.h"

/*
 * The machine gets more memory than the command may use, so that what runs out first is the
 * command's own allowance: its end then has a name, and the agent is not in it.
 */
#define RUN_MACHINE_EXTRA_MIB 64u
#define RUN_MEMORY_LEAST_MIB  32u
#define RUN_MEMORY_MOST_MIB   (65536u - RUN_MACHINE_EXTRA_MIB)
/* what streams through is bounded by its reader, not by us */
#define RUN_OUTPUT_UNLIMITED  (UINT64_C(1) << 50)

/* whose rights the command has; not given: the image's user */
struct run_user {
	bool given;
	uint32_t uid, gid;
};

struct run_options {
	const char *image, *engine, *isolation, *cwd, *script;
	uint32_t memory_mib, disk_mib, processes;
	int64_t timeout_ms, cpu_ms;
	uint64_t output_bytes;
	struct run_user user;
	struct cli_texts env, files, allow, deny, also_allow;
	bool internet;
	/* for a server */
	struct remote_options remote;
	struct cli_texts labels;
	int64_t wait_ms;
	uint32_t vcpu;
	bool want_remote, want_local, trial;
};

/* On this host; the status of the command. */
int run_here(const struct run_options *options, const char *const *operands, struct error *err);

#endif
