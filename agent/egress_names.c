/* SPDX-License-Identifier: Apache-2.0 - addresses that stand for names. */
#include "egress.h"

#include <stdio.h>
#include <string.h>

/* 198.18.0.0/15, for benchmarks of networks: no program has another use for it. The oldest name
 * gives way to the newest. */
#define FIRST 0xc6120000u
#define MASK  0xfffe0000u

static char names[EGRESS_NAMES][DNS_NAME_MOST + 1];
static uint32_t used, next;

uint32_t egress_name_address(const char *name)
{
	for (uint32_t i = 0; i < used; i++)
		if (strcmp(names[i], name) == 0)
			return FIRST + 1 + i;
	if (next == EGRESS_NAMES)
		next = 0;
	snprintf(names[next], sizeof(names[next]), "%s", name);
	if (used < EGRESS_NAMES)
		used++;
	return FIRST + 1 + next++;
}

bool egress_is_stand_in(uint32_t address)
{
	return (address & MASK) == FIRST;
}

const char *egress_address_name(uint32_t address)
{
	uint32_t i = address - FIRST - 1;

	return egress_is_stand_in(address) && i < used ? names[i] : NULL;
}
