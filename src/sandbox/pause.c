/* SPDX-License-Identifier: Apache-2.0 - the rules by which a sandbox lives; pause, wake, state. */
#include "sandbox/internal.h"

#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MOST 64

/* send a frame and wait for its answer, of which op->frame is the last */
static int ask(
	struct sandbox *s, struct operation *op, const uint8_t *frame, int size, struct error *err)
{
	int r = op_request(op, frame, size, err);

	return r ? r : op_next(op, err);
}

int sandbox_rules(struct sandbox *s, const struct sandbox_rules *rules, struct error *err)
{
	const uint32_t flags = (rules->pause_at_end ? WIRE_RULE_PAUSE : 0) |
			       (rules->persistent ? WIRE_RULE_PERSISTENT : 0) |
			       (rules->auto_wake ? WIRE_RULE_AUTO_WAKE : 0) |
			       (rules->hand_over ? WIRE_RULE_HAND_OVER : 0);
	uint8_t frame[WIRE_HEADER + 64];
	struct operation op;
	int n;

	op_begin(s, &op);
	n = wire_put_mon_rules(frame, sizeof(frame), op.stream, 0,
		&(struct wire_mon_rules){.flags = flags,
			.lease_ms = (uint64_t)rules->lease_ms,
			.left_ms = (uint64_t)rules->left_ms,
			.idle_ms = (uint64_t)rules->idle_ms,
			.paused_ms = (uint64_t)rules->paused_ms});
	return ask(s, &op, frame, n, err);
}

int sandbox_pause(struct sandbox *s, struct error *err)
{
	uint8_t frame[WIRE_HEADER];
	struct operation op;
	int n;

	op_begin(s, &op);
	n = wire_put_mon_pause(frame, sizeof(frame), op.stream, 0, &(struct wire_mon_pause){0});
	return ask(s, &op, frame, n, err);
}

int sandbox_wake(struct sandbox *s, int64_t lease_ms, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 8];
	struct operation op;
	int n;

	op_begin(s, &op);
	n = wire_put_mon_wake(frame, sizeof(frame), op.stream, 0,
		&(struct wire_mon_wake){.lease_ms = (uint64_t)lease_ms});
	return ask(s, &op, frame, n, err);
}

int sandbox_state(struct sandbox *s, struct sandbox_state *out, struct error *err)
{
	uint8_t frame[WIRE_HEADER];
	struct wire_mon_state_reply m;
	struct operation op;
	int n, r;

	op_begin(s, &op);
	n = wire_put_mon_state(frame, sizeof(frame), op.stream, 0, &(struct wire_mon_state){0});
	r = ask(s, &op, frame, n, err);
	if (r)
		return r;
	if (op.frame.type != WIRE_MON_STATE_REPLY ||
		wire_get_mon_state_reply(op.frame.payload, op.frame.length, &m))
		return error_set(err, -EPROTO, "the monitor answered something else");
	*out = (struct sandbox_state){.paused = m.paused,
		.busy = m.busy,
		.left_ms = (int64_t)m.left_ms,
		.paused_total_ms = (int64_t)m.paused_ms};
	return 0;
}

int sandbox_metrics(struct sandbox *s, bool coarse, struct sandbox_metrics *out, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 8];
	struct wire_mon_metrics_reply m;
	struct operation op;
	int n, r;

	*out = (struct sandbox_metrics){0};
	op_begin(s, &op);
	n = wire_put_mon_metrics(
		frame, sizeof(frame), op.stream, 0, &(struct wire_mon_metrics){.coarse = coarse});
	r = ask(s, &op, frame, n, err);
	if (r)
		return r;
	if (op.frame.type != WIRE_MON_METRICS_REPLY ||
		wire_get_mon_metrics_reply(op.frame.payload, op.frame.length, &m) ||
		m.samples.count % sizeof(struct wire_sample))
		return error_set(err, -EPROTO, "the monitor answered something else");
	out->samples = malloc(m.samples.count + 1);
	if (!out->samples)
		return error_set(err, -ENOMEM, "out of memory");
	memcpy(out->samples, m.samples.bytes, m.samples.count);
	out->count = m.samples.count / sizeof(struct wire_sample);
	out->step_ms = (int64_t)m.step_ms;
	return 0;
}

int sandbox_look_paused(const char *home, const char *id, int64_t *since_ms, int64_t *until_ms)
{
	struct buffer text = {0};
	long long since = 0, until = 0;
	char path[PATH_MAX];
	int r;

	*since_ms = *until_ms = 0;
	if (text_format(path, sizeof(path), "%s/paused/%s", home, id))
		return 0;
	r = path_read(path, WORD_MOST, &text, NULL);
	if (!r && buffer_text(&text))
		r = sscanf(buffer_text(&text), "%lld %lld", &since, &until) != 2;
	buffer_fini(&text);
	*since_ms = since;
	*until_ms = until;
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return r; /* which says nothing of the sandbox */
	return r == -ENOENT ? 0 : 1;
}
