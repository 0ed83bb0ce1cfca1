/* SPDX-License-Identifier: Apache-2.0 - commands: as they are asked for, and what came of them. */
#ifndef SEALMARK_API_COMMAND_H
#define SEALMARK_API_COMMAND_H

#include "api/internal.h"

#define COMMAND_ABOUT 8192 /* bytes that a monitor keeps of one, see sandbox_spawn() */

/* A command of a request; it owns all that the exec_spec points to. */
struct command {
	struct sandbox *sandbox;
	struct store_sandbox record;
	json_t *body, *spec;
	char **env;
	const char **argv;
	char *cwd;
	struct buffer input;
	struct exec_spec exec;
	const char *user; /* "sandbox" or "root" */
	bool background;  /* may last as long as the lease */
	bool terminal;    /* exec.cols and exec.rows are set */
	bool base64;      /* its output is wanted as bytes */
	char id[ID_SIZE], request_id[ID_SIZE];
	struct api_server *server;
};

/* command.c: a checked body (fields as those of POST ...:exec), in a sandbox that runs; NULL:
 * answered. `background`: see above. */
struct command *command_new(struct request *q, const json_t *body, bool background);
void command_free(void *context);
/* Start it as a process of the monitor, which takes input when `input`; its stdin, if the body has
 * any, is written. Else as sandbox_spawn(). */
int command_spawn(
	struct command *c, bool input, bool hold, struct sandbox_process *out, struct error *err);

/* command_result.c */
/* exitCode, timedOut, durationMs and more of how it ended. */
void command_add_end(json_t *out, uint32_t memory_mib, const struct exec_result *result);
const char *command_end_state(const struct exec_result *result);
/* It did not run: exit code 127 or 126 when only its program is at fault, else 0. */
int command_not_started(int r, const struct error *err);
/* The answer when it could not be started for another reason, or was lost with its sandbox. */
void command_failure(
	struct request *q, const struct store_sandbox *record, int r, const struct error *err);

/* Watches are processes of the monitor too, under ids that begin so. */
#define WATCH_PREFIX "watch-"
bool process_is_watch(const char *id);

/* process_view.c */
json_t *process_json(const struct sandbox_process *p, uint32_t memory_mib);
/* The word that it was spawned with: false is none. */
bool process_wants_base64(const struct sandbox_process *p);
/* What is told to its monitor about a command; to be freed. NULL: no memory. */
char *process_about(const struct command *c);

/*
 * Events of a process's output, for streams of lines and for single answers. Text is cut between
 * letters where possible; what is no UTF-8 is given as base64 beside it. A gap before a piece
 * becomes a `truncated` event.
 */
struct process_events {
	int (*put)(void *context, json_t *event); /* takes the event over; 0 or negative errno */
	void *context;
	bool base64;
	uint64_t cursor; /* where the next piece should begin */
	struct {
		uint8_t bytes[4];
		size_t count;
		enum wire_channel channel;
	} rest; /* the begin of a letter whose end has not come yet; before the cursor */
};
/* For output_spec.on_piece, with the struct as context. */
int process_events_piece(
	void *events, enum wire_channel channel, uint64_t offset, const void *bytes, size_t count);
/* No more comes of the letter. */
int process_events_flush(struct process_events *e);
/* What has been told is before this. */
uint64_t process_events_told(const struct process_events *e);

/* follow.c: tell its output on fd, in lines, from the cursor on, until it has ended; then how.
 * `most_ms` < 0: for ever; else a `continue` then. false: the reader went away. */
struct follow {
	struct api_server *server;
	struct sandbox *sandbox;
	const struct store_sandbox *record;
	const char *request_id, *process_id;
	int fd;
	uint64_t cursor;
	bool base64;
	int64_t most_ms;
};
bool follow_process(const struct follow *follow);
int follow_put(int fd, json_t *event);
/* An `error` event. */
int follow_put_failure(const struct follow *follow, int r, const struct error *err);

#endif
