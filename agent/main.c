/* SPDX-License-Identifier: Apache-2.0 - sealmark-agent: boot the guest, then serve its host. */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct agent agent;

/* For tests and for engines without a machine: serve on a descriptor that is already connected. */
static int serve_given(const char *number)
{
	char *end;
	long fd = strtol(number, &end, 10);
	int r;

	if (*end || end == number || fd < 0 || fd > 1 << 20) {
		fprintf(stderr, "sealmark-agent: sm_fd must be a file descriptor, not \"%s\"\n",
			number);
		return 2;
	}
	r = agent_serve(&agent, (int)fd);
	if (r)
		fprintf(stderr, "sealmark-agent: %s\n", strerror(-r));
	return r ? 1 : 0;
}

int main(void)
{
	const char *given = getenv("sm_fd");
	int fd, r;

	agent_init(&agent);
	if (getpid() != 1) {
		if (given)
			return serve_given(given);
		fputs("sealmark-agent is the first process of a guest; it does nothing here\n",
			stderr);
		return 2;
	}
	fd = boot_machine(&agent);
	r = agent_serve(&agent, fd);
	boot_power_off(r ? strerror(-r) : NULL);
}
