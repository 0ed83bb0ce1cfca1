/* SPDX-License-Identifier: Apache-2.0 - answers that are lines of JSON, and the output of commands
 * in them. */
#ifndef SEALMARK_CLI_REMOTE_STREAM_H
#define SEALMARK_CLI_REMOTE_STREAM_H

#include "cli/remote.h"

/* Cuts a stream into lines; remote_lines_feed() is an on_bytes. */
struct remote_lines {
	/* The event is the caller's; a negative errno ends the stream. */
	int (*on_line)(void *context, const json_t *event);
	void *context;
	struct buffer rest;
	struct error *err; /* for lines that are too long or no JSON */
};
int remote_lines_feed(void *context, const void *bytes, size_t count);
void remote_lines_fini(struct remote_lines *l);

/* What a command writes and how it ends, from its events. */
struct remote_output {
	struct remote *r;
	bool json;   /* print the events themselves */
	bool gather; /* keep stdout and stderr instead of writing them */
	struct buffer out, err_out;
	char process[REMOTE_ID_SIZE]; /* "" until it started */
	int64_t cursor;               /* bytes that have been written */
	int64_t limit_ms;             /* of its time, for the message */
	bool ended, again;            /* ended by its exit; to be followed at the cursor */
	bool started;                 /* its id is known */
	bool failed;                  /* ended by an error event, which err has */
	bool broken;                  /* what came makes no sense, or cannot be written */
	int status;                   /* of the command, when it ended */
	json_t *exit;                 /* its exit event */
	struct error *err;
};
int remote_output_event(void *context, const json_t *event);
void remote_output_fini(struct remote_output *o);
bool remote_output_is_lost(const struct remote_output *o, int status, const struct error *err);
/* Follow a process from the cursor to its end, over lost connections. */
int remote_output_follow(
	struct remote_output *o, const char *id, const char *process, struct error *err);
/* The exit status for {exitCode, timedOut, signal, state, outOfMemory}, and what to say of it. */
int remote_exit_status(const json_t *end, int64_t limit_ms);

/* All of standard input that is a file or pipe, at most `most` bytes; *given says whether. */
int remote_read_input(
	struct remote *r, size_t most, struct buffer *out, bool *given, struct error *err);

#endif
