/* SPDX-License-Identifier: Apache-2.0 - one frame from the host: checked, then handed to its job.
 */
#include "agent.h"
#include "egress.h"

#include <errno.h>

static int take_data(struct agent *a, struct stream *s, const struct wire_frame *f)
{
	if (f->channel != WIRE_STDIN || !s->class->data || s->ended || f->length > s->window)
		return -EPROTO;
	s->window -= f->length;
	if (f->length)
		s->class->data(a, s, f->payload, f->length);
	return 0;
}

static int take_end(struct agent *a, struct stream *s, const struct wire_frame *f)
{
	if (f->channel != WIRE_STDIN || !s->class->end || s->ended)
		return -EPROTO;
	s->ended = true;
	s->class->end(a, s);
	return 0;
}

static int take_credit(struct stream *s, const struct wire_frame *f)
{
	struct wire_credit m;

	if (wire_get_credit(f->payload, f->length, &m))
		return -EPROTO;
	if (f->channel == WIRE_STDIN || m.bytes > WIRE_WINDOW ||
		s->credit[f->channel] > WIRE_WINDOW - m.bytes)
		return -EPROTO;
	s->credit[f->channel] += m.bytes;
	s->busy = s->class->work != NULL;
	return 0;
}

static void take_kill(struct agent *a, struct stream *s, uint32_t reason)
{
	if (s->class->kill)
		s->class->kill(a, s, reason);
	else
		stream_fail(a, s, ECANCELED, "%s", s->class->name);
}

/* A frame for a stream that exists, or has just ended (what was under way is then ignored). */
static int take_for_stream(struct agent *a, const struct wire_frame *f)
{
	struct stream *s = stream_find(a, f->stream);
	struct wire_resize resize;
	struct wire_signal signal;
	struct wire_kill kill;

	if (!s)
		return 0;
	switch (f->type) {
	case WIRE_DATA:
		return take_data(a, s, f);
	case WIRE_END:
		return take_end(a, s, f);
	case WIRE_CREDIT:
		return take_credit(s, f);
	case WIRE_SIGNAL:
		if (wire_get_signal(f->payload, f->length, &signal))
			return -EPROTO;
		return exec_signal(a, s, signal.signal);
	case WIRE_RESIZE:
		if (wire_get_resize(f->payload, f->length, &resize))
			return -EPROTO;
		exec_resize(s, resize.cols, resize.rows);
		return 0;
	case WIRE_KILL:
		if (wire_get_kill(f->payload, f->length, &kill))
			return -EPROTO;
		take_kill(a, s, kill.reason);
		return 0;
	default:
		return -EPROTO;
	}
}

/* Messages about the connection itself. */
static int take_for_machine(struct agent *a, const struct wire_frame *f)
{
	struct wire_entropy entropy;
	struct wire_clock clock;

	switch (f->type) {
	case WIRE_SHUTDOWN:
		a->stop = true;
		return 0;
	case WIRE_CLOCK:
		if (wire_get_clock(f->payload, f->length, &clock))
			return -EPROTO;
		system_clock(&clock);
		return 0;
	case WIRE_ENTROPY:
		if (wire_get_entropy(f->payload, f->length, &entropy))
			return -EPROTO;
		system_entropy(&entropy);
		return 0;
	default:
		return -EPROTO;
	}
}

static void take_ping(struct agent *a, struct stream *s, const struct wire_ping *ping)
{
	struct wire_pong m = {.token = ping->token};

	stream_final(a, s, wire_put_pong(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &m));
}

/* The requests: decode by the table's own function, then call. */
static int take_request(struct agent *a, const struct wire_frame *f)
{
	struct stream *s;

	if (!f->stream || f->channel || stream_find(a, f->stream))
		return -EPROTO;
	s = stream_open(a, f->stream);
	if (!s) {
		struct wire_fail m = {EBUSY, wire_str("too many operations at once"), 0};

		stream_commit(
			a, wire_put_fail(stream_frame(a), LINK_RESERVE / 2, f->stream, 0, &m));
		return 0;
	}
	switch (f->type) {
#define REQUEST(NAME, name, call)                                                                  \
	case WIRE_##NAME: {                                                                        \
		struct wire_##name m;                                                              \
                                                                                                   \
		if (wire_get_##name(f->payload, f->length, &m))                                    \
			return -EPROTO;                                                            \
		call;                                                                              \
		return 0;                                                                          \
	}
		REQUEST(PING, ping, take_ping(a, s, &m))
		REQUEST(STATS, stats, system_stats(a, s))
		REQUEST(EXEC, exec, exec_begin(a, s, &m))
		REQUEST(FILE_WRITE, file_write, incoming_begin(a, s, &m))
		REQUEST(FILE_READ, file_read, outgoing_begin(a, s, &m))
		REQUEST(FILE_LIST, file_list, listing_begin(a, s, &m))
		REQUEST(FILE_STAT, file_stat, file_stat(a, s, &m))
		REQUEST(FILE_MKDIR, file_mkdir, file_mkdir(a, s, &m))
		REQUEST(FILE_REMOVE, file_remove, removal_begin(a, s, &m))
		REQUEST(FILE_RENAME, file_rename, file_rename(a, s, &m))
		REQUEST(FILE_CHMOD, file_chmod, file_chmod(a, s, &m))
		REQUEST(FILE_CHOWN, file_chown, file_chown(a, s, &m))
		REQUEST(TAR_IN, tar_in, unpacking_begin(a, s, &m))
		REQUEST(TAR_OUT, tar_out, packing_begin(a, s, &m))
		REQUEST(WATCH, watch, watching_begin(a, s, &m))
#undef REQUEST
	default:
		return -EPROTO;
	}
}

int request_take(struct agent *a, const struct wire_frame *f)
{
	if (!(wire_type_direction(f->type) & WIRE_TO_GUEST) ||
		wire_type_direction(f->type) == WIRE_TO_MONITOR)
		return -EPROTO;
	if (wire_is_network(f->type))
		return egress_take(a, f);
	if (wire_is_request(f->type))
		return take_request(a, f);
	return f->stream ? take_for_stream(a, f) : take_for_machine(a, f);
}
