/* SPDX-License-Identifier: Apache-2.0 - fuzzes rules of egress: whatever they are, what must not be
 * reached is not.
 *
 * Build and run: tests/fuzz/run 600 egress
 */
#include "monitor/egress_policy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void fuzz_name(const char *text)
{
	char name[EGRESS_NAME_MOST + 1], again[EGRESS_NAME_MOST + 1], address_text[64];
	struct egress_address address, same;

	if (egress_name_normal(text, name)) {
		check(egress_name_normal(name, again) && strcmp(name, again) == 0);
		/* a name is never what some take for an address */
		check(!egress_address_parse(name, &address));
	}
	if (egress_address_parse(text, &address)) {
		egress_address_text(&address, address_text, sizeof(address_text));
		check(egress_address_parse(address_text, &same));
		check(memcmp(&address, &same, sizeof(same)) == 0);
	}
}

static void fuzz_policy(const char *text)
{
	static const char *const never[] = {
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254"};
	struct egress_policy *policy;
	struct error err = {0};

	if (egress_policy_new(text, &policy, &err)) {
		check(err.code == -EINVAL || err.code == -ENOMEM);
		return;
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]) && !policy->also_count; i++) {
		struct egress_address a;

		check(egress_address_parse(never[i], &a));
		check(egress_check_address(policy, NULL, &a, 80, NULL, 0) != EGRESS_ALLOWED);
		check(egress_check_address(policy, "example.org", &a, 80, NULL, 0) !=
			EGRESS_ALLOWED);
	}
	egress_policy_free(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	char *text = malloc(count + 1);
	struct egress_rule rule;
	const char *why = NULL;

	if (count)
		memcpy(text, bytes, count);
	text[count] = 0;
	fuzz_name(text);
	if (egress_rule_parse(text, &rule, &why))
		check(why != NULL);
	else
		check(rule.kind == EGRESS_ANY || rule.kind == EGRESS_RANGE || rule.name[0]);
	fuzz_policy(text);
	free(text);
	return 0;
}
