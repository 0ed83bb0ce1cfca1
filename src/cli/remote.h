/* SPDX-License-Identifier: Apache-2.0 - a server of ours, as the commands see it: calls and their
 * answers. */
#ifndef SEALMARK_CLI_REMOTE_H
#define SEALMARK_CLI_REMOTE_H

#include "base/buffer.h"
#include "cli/cli.h"

#include <jansson.h>

/*
 * A command that needs a server opens it (remote_open), makes its calls (remote_call) and frees it.
 * Functions that return int here answer an enum cli_status: 0 when it went well, else the exit
 * status of the command, with the message set. What a server sends is data: bounded, checked, and
 * made harmless before it reaches a terminal.
 *
 * From remote_open() on SIGINT, SIGTERM and SIGHUP end the call that is under way; every later call
 * fails at once with 128 + signal, but one that says `anyway`, which is how a command tidies up.
 */

/* The options that all of these commands have; the first member of their own structure. */
struct remote_options {
	const char *url, *ca_file;
	bool json;
};
#define REMOTE_SERVER_OPTIONS(type)                                                                \
	CLI_OPTION("api-url", 0, "URL", "the server (default: $SEALMARK_API_URL, or the login's)", \
		"--api-url https://sealmark.example", cli_text, offsetof(type, remote.url),        \
		.common = true),                                                                   \
		CLI_OPTION("ca-file", 0, "FILE", "trust these certificates, beside the system's",  \
			"--ca-file ca.pem", cli_text, offsetof(type, remote.ca_file),              \
			.common = true)
#define REMOTE_OPTIONS(type)                                                                       \
	CLI_OPTION("json", 0, NULL, "print JSON", "--json", cli_flag, offsetof(type, remote.json), \
		.common = true),                                                                   \
		REMOTE_SERVER_OPTIONS(type)

/* Commands that this host can do as well: on a server when one is in use, here with --local. */
struct remote_where {
	struct remote_options remote;
	bool local;
};
#define REMOTE_WHERE_OPTIONS(type)                                                                 \
	CLI_OPTION("json", 0, NULL, "print JSON", "--json", cli_flag,                              \
		offsetof(type, where.remote.json), .common = true),                                \
		CLI_OPTION("local", 0, NULL, "work on this host, also when a server is set",       \
			"--local", cli_flag, offsetof(type, where.local), .common = true),         \
		CLI_OPTION("api-url", 0, "URL", "work on this server",                             \
			"--api-url https://sealmark.example", cli_text,                            \
			offsetof(type, where.remote.url), .common = true),                         \
		CLI_OPTION("ca-file", 0, "FILE", "trust these certificates, beside the system's",  \
			"--ca-file ca.pem", cli_text, offsetof(type, where.remote.ca_file),        \
			.common = true)

/* --- remote_settings.c: which server, with which key --- */

#define REMOTE_DEFAULT_URL "http://127.0.0.1:8080" /* to log in to, when none is named */
#define REMOTE_URL_SIZE    512
#define REMOTE_KEY_SIZE    256

struct remote_settings {
	char url[REMOTE_URL_SIZE];  /* without a slash at its end; "unix:/path" too; "": none */
	char auth[REMOTE_URL_SIZE]; /* where keys are asked for */
	char key[REMOTE_KEY_SIZE];  /* "": none */
	char ca_file[512];          /* "": the system's */
};

/* Is a server in use? */
bool remote_is_set(const struct remote_options *options, const struct remote_settings *settings);
/* Is the server in use on another host, so that its store is not here? Then with a message. */
bool remote_is_elsewhere(struct error *err);
/* From options, environment and login. Missing url or key is no failure. */
int remote_settings_load(
	const struct remote_options *options, struct remote_settings *out, struct error *err);
/* Keep a key for a server, which becomes the one that is used when none is named. */
int remote_settings_save(const char *url, const char *key, struct error *err);
/* Forget the key of a server; *found says whether there was one. */
int remote_settings_forget(const char *url, bool *found, struct error *err);
/* Is this a URL we may use? -EINVAL with a message; `out` without a slash at its end. */
int remote_url_check(const char *text, char *out, struct error *err);

/* --- remote_http.c, remote_call.c: calls --- */

struct remote;

/* CLI_USAGE when no server or key is known. */
int remote_open(const struct remote_options *options, struct remote **out, struct error *err);
/* *out is NULL when this host is to do it: a server is in use when it is named on the command line,
 * or when it and a key for it are set. */
int remote_open_where(const struct remote_where *where, struct remote **out, struct error *err);
/* With settings of one's own. The key may be missing. */
int remote_open_with(
	const struct remote_settings *settings, struct remote **out, struct error *err);
void remote_free(struct remote *r);
const struct remote_settings *remote_settings_of(const struct remote *r);

struct remote_call {
	const char *method;
	const char *path;  /* with its query, from remote_query() */
	json_t *body;      /* taken over, or NULL */
	const void *bytes; /* instead of body */
	size_t count;
	int64_t wait_ms;   /* go on trying so long while there is no room */
	unsigned prefer;   /* seconds the server may wait before it answers */
	const char *again; /* Idempotency-Key; NULL: one is made for a change */
	bool once;         /* not sent again once it may have arrived */
	bool anyway;       /* although a signal came */
	const bool *known; /* a signal waits a moment for this: what was begun can then be ended */
	bool no_key;
	/* The bytes of a success instead of JSON, as they come; a negative errno ends the call with
	 * -EPIPE as 141, else as a failure whose message `err` of the context has. */
	int (*on_bytes)(void *context, const void *bytes, size_t count);
	void *context;
	const char *about; /* put before messages: "exec", "/tmp/x" */
};

/* *out (may be NULL) is the answer, to be given back with json_decref(). */
int remote_call(struct remote *r, const struct remote_call *call, json_t **out, struct error *err);
/* The code of the error that the last call answered ("not_found"), or "". */
const char *remote_code(const struct remote *r);
/* Wait; false when a signal came meanwhile. */
bool remote_pause(struct remote *r, int64_t ms);
/* Readable when a signal came, for write and poll elsewhere. */
int remote_cancel_fd(const struct remote *r);
/* The exit status for a write that failed with this errno; -EINTR is a signal. */
int remote_write_failure(struct remote *r, int code, struct error *err);
/* 128 + the signal that came, or 0. */
int remote_interrupted(struct remote *r);

/* An answer's error object in one line, into err; CLI_USAGE or CLI_OURS as its status says. */
int remote_error(const json_t *error, long status, const char *about, struct error *err);

/* An open connection that was upgraded, for WebSocket (remote_shell.c). The CURL handle is the
 * caller's. */
void *remote_connect(struct remote *r, struct error *err);

/* --- remote_text.c: requests are put together, answers taken apart --- */

/* Append "?name=value" or "&name=value", encoded; nothing for a NULL value. */
void remote_query(struct buffer *path, const char *name, const char *value);
/* Append one encoded segment of a path. */
void remote_segment(struct buffer *path, const char *text);
char *remote_base64(const void *bytes, size_t count); /* NULL: out of memory */
int remote_unbase64(const char *text, struct buffer *out);
/* Set one of the two names of the object: `text` to the bytes, or `base64` when they are no UTF-8.
 * -ENOMEM. */
int remote_set_bytes(
	json_t *object, const char *text, const char *base64, const struct buffer *bytes);
const char *json_text(const json_t *object, const char *name); /* "" when it is not there */
int64_t json_number(const json_t *object, const char *name);   /* also of "123"; 0 */
/* {"NAME": "value"} of NAME=value texts; NULL with a message. */
json_t *remote_pairs(const struct cli_texts *texts, const char *option, struct error *err);
/* microdollars from "0.25"; a cli_parser into int64_t, -1 is none */
cli_parser remote_money;

/* --- remote_print.c --- */

#define TABLE_COLUMNS 10

struct table {
	size_t columns;
	json_t *rows; /* arrays of texts */
};
/* Heads end with NULL. */
void table_init(struct table *t, const char *const *heads);
void table_add(struct table *t, const char *const *cells);
void table_print(struct table *t); /* and frees it */

/* Print the document and give it back; CLI_OK. */
int remote_print_json(json_t *json, struct error *err);
/* One line of NDJSON. */
void remote_print_line(const json_t *json);
/* Harmless on a terminal. */
void remote_put(FILE *to, const char *text);
/* "3 m", "2 h ago"; of an ISO time. 32 bytes are enough. */
void remote_age(const char *stamp, char *out, size_t size);
void remote_dollars(int64_t micros, char *out, size_t size);

/* --- remote_find.c: sandboxes by id or name --- */

#define REMOTE_ID_SIZE 64

int remote_sandbox_id(struct remote *r, const char *reference, char *id, struct error *err);
/* "/v1/sandboxes/ID" and the suffix; find the id by a name first. */
int remote_sandbox_path(struct remote *r, const char *reference, const char *suffix,
	struct buffer *path, struct error *err);
/* Append what all pages of a list have; what came before a failure stays. */
int remote_pages(struct remote *r, const char *path, json_t *all, struct error *err);
/* "BOX:PATH": the name's length, or 0 when it is a local path. */
size_t remote_box_prefix(const char *operand);
/* An absolute path in the sandbox: what is relative is below /workspace. */
int remote_guest_path(const char *path, struct buffer *out);

/* --- remote_create.c --- */

struct remote_create {
	const char *name, *image, *on_lease_end, *user;
	struct cli_texts labels, env, allow, deny;
	uint32_t vcpu, memory_mib, disk_mib, idle_pause;
	int64_t lease_ms, wait_ms, max_cost, max_total;
	bool internet, no_internet, persistent, reuse, detach, has_idle;
	const char *again; /* Idempotency-Key, or NULL */
	bool anyway;       /* although a signal came */
};

/* Create, and unless detach wait until it runs. *out is the sandbox. */
int remote_create_sandbox(
	struct remote *r, const struct remote_create *o, json_t **out, struct error *err);

/* Until it runs; *sandbox is brought up to date. */
int remote_wait_running(struct remote *r, json_t **sandbox, struct error *err);

/* --- remote_exec.c --- */

struct remote_exec {
	const char *id;
	const char *const *argv;
	const char *cwd, *user;
	struct cli_texts env;
	int64_t timeout_ms;
	bool no_stdin;
};
/* {argv, cwd, env, user, timeoutMs}; NULL with a message. */
json_t *remote_command_json(const struct remote_exec *e, struct error *err);
/* Streams; the status of the command. */
int remote_exec(struct remote *r, const struct remote_exec *e, struct error *err);
/* The same as one document, at the end. */
int remote_exec_json(struct remote *r, const struct remote_exec *e, struct error *err);
/* Print such a document, which is given back, with the output and the status of the command; what
 * is no UTF-8 is there as base64. */
int remote_print_command(json_t *document, const struct buffer *out, const struct buffer *err_out,
	int status, struct error *err);

/* --- remote_copy.c --- */

struct remote_copied {
	uint64_t bytes;  /* sent or received: of a folder, of its archive */
	size_t left_out; /* entries that could not be written here */
};

/* A file, or what is in a folder; `guest` is an absolute path. *copied may be NULL. */
int remote_copy_in(struct remote *r, const char *id, const char *local, const char *guest,
	bool quiet, struct remote_copied *copied, struct error *err);
/* CLI_ATTENTION when something was left out. */
int remote_copy_out(struct remote *r, const char *id, const char *guest, const char *local,
	bool quiet, struct remote_copied *copied, struct error *err);

/* --- remote_progress.c: a bar on standard error, when that is a terminal and it takes long --- */
struct progress {
	const char *what;
	uint64_t total, done; /* total 0: not known */
	int64_t began_ms, drawn_ms;
	bool quiet, shown;
};
void progress_start(struct progress *p, const char *what, uint64_t total, bool quiet);
void progress_add(struct progress *p, uint64_t bytes);
void progress_end(struct progress *p);

/* --- remote_login.c --- */

struct remote_login {
	const char *purpose, *access; /* or NULL */
	int64_t daily;                /* microdollars to propose; 0: none */
	bool json;
};
/* Ask a person for a key and wait until they have decided; the key is kept, and put in settings. */
int remote_login(
	struct remote_settings *settings, const struct remote_login *what, struct error *err);

/* --- remote_run.c --- */

struct remote_run {
	struct remote_create create;
	struct remote_exec exec;
	struct cli_texts files; /* SOURCE:TARGET */
	bool trial;             /* without a key, ask for one */
	bool json;              /* one document at the end */
};
/* One command in a sandbox of its own, which is gone at the end; the status of the command. */
int remote_run(struct remote_settings *settings, const struct remote_run *run, struct error *err);

#endif
