/* SPDX-License-Identifier: Apache-2.0 - what a sandbox may connect to, and what it has. */
#include "sandbox/internal.h"

#include "monitor/egress_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int change(
	struct sandbox *s, const char *policy, struct sandbox_network *out, struct error *err)
{
	size_t size = WIRE_HEADER + 16 + strlen(policy);
	struct wire_mon_network_reply m;
	struct operation op;
	uint8_t *frame;
	int n, r;

	if (size > EGRESS_POLICY_MOST + WIRE_HEADER + 16)
		return error_set(err, -EINVAL, "network: more than %u bytes", EGRESS_POLICY_MOST);
	frame = malloc(size);
	if (!frame)
		return error_set(err, -ENOMEM, "out of memory");
	op_begin(s, &op);
	n = wire_put_mon_network(
		frame, size, op.stream, 0, &(struct wire_mon_network){.policy = wire_str(policy)});
	r = op_send(&op, frame, (size_t)n, err);
	free(frame);
	if (!r)
		r = op_next(&op, err);
	if (r)
		return r;
	if (op.frame.type != WIRE_MON_NETWORK_REPLY ||
		wire_get_mon_network_reply(op.frame.payload, op.frame.length, &m))
		return error_set(err, -EPROTO, "the monitor answered something else");
	*out = (struct sandbox_network){.on = m.on,
		.open = m.open,
		.connections = m.connections,
		.refused = m.refused,
		.names = m.names,
		.bytes_in = m.bytes_in,
		.bytes_out = m.bytes_out};
	return 0;
}

int sandbox_network(struct sandbox *s, struct sandbox_network *out, struct error *err)
{
	return change(s, "", out, err);
}

int sandbox_set_network(
	struct sandbox *s, const char *policy, struct sandbox_network *out, struct error *err)
{
	struct sandbox_network unused;

	if (!policy[0])
		return error_set(err, -EINVAL, "network: is empty");
	return change(s, policy, out ? out : &unused, err);
}
