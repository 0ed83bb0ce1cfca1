/* SPDX-License-Identifier: Apache-2.0 - folders that are watched, as processes of the monitor. */
#include "sandbox/internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

int sandbox_watch(struct sandbox *s, const struct watch_spec *spec, struct sandbox_process *out,
	struct error *err)
{
	cleanup_free uint8_t *watch = malloc(WIRE_FRAME_MAX);
	cleanup_free uint8_t *frame = malloc(WIRE_FRAME_MAX);
	struct operation op;
	int n;

	*out = (struct sandbox_process){0};
	if (!watch || !frame)
		return error_set(err, -ENOMEM, "out of memory");
	op_begin(s, &op);
	n = wire_put_watch(watch, WIRE_FRAME_MAX, op.stream, 0,
		&(struct wire_watch){.path = wire_str(spec->path),
			.uid = spec->uid,
			.gid = spec->gid,
			.flags = spec->recursive ? WIRE_RECURSIVE : 0,
			.events = spec->events,
			.batch_ms = spec->batch_ms,
			.folders = spec->folders,
			.timeout_ms = spec->timeout_ms > 0 ? (uint64_t)spec->timeout_ms : 0,
			.include = wire_list(spec->include),
			.exclude = wire_list(spec->exclude)});
	if (n < 0)
		return error_set(err, -E2BIG, "the patterns are too long");
	n = wire_put_mon_spawn(frame, WIRE_FRAME_MAX, op.stream, 0,
		&(struct wire_mon_spawn){.id = wire_str(spec->id),
			.flags = WIRE_SPAWN_WATCH,
			.about = wire_str(spec->about),
			.exec = {watch + WIRE_HEADER, (uint32_t)n - WIRE_HEADER}});
	if (n < 0)
		return error_set(err, -E2BIG, "the patterns are too long");
	n = op_send(&op, frame, (size_t)n, err);
	return n ? n : process_take_answer(&op, out, err);
}
