/* SPDX-License-Identifier: Apache-2.0 - what the creator asks of a monitor, as one JSON object. */
#ifndef SEALMARK_MONITOR_CONFIG_H
#define SEALMARK_MONITOR_CONFIG_H

#include "base/error.h"
#include "engine/engine.h"
#include "monitor/egress_policy.h"

#include <stdint.h>

/* File descriptors a monitor is started with. */
#define MONITOR_OWNER_FD                                                                           \
	3                   /* the creator's control connection; the sandbox ends when it closes,  \
			     * unless it is detached */
#define MONITOR_CONFIG_FD 4 /* the JSON object, to its end */

struct monitor_config {
	char id[40];
	char engine_name[16];
	char home[512], image[512], kernel[512], initrd[512], script[512];
	char require_isolation[16];
	uint32_t memory_mib, disk_mib, files_most;
	int64_t lease_ms, start_timeout_ms;
	int64_t patience_ms; /* how long the agent may owe an answer */
	int cpu;             /* -1: chosen by slot */
	/* JSON, see egress_policy.h; "": never a network */
	char network[EGRESS_POLICY_MOST + 1];
	int detached; /* 1: it goes on when its creator goes, and leaves word of its end */
};

/* Read and check; errors name the field. */
int monitor_config_read(int fd, struct monitor_config *out, struct error *err);

/* The engine's view of it; strings stay owned by config. */
void monitor_config_engine(const struct monitor_config *config, struct engine_config *out);

#endif
