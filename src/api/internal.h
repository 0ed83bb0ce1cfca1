/* SPDX-License-Identifier: Apache-2.0 - what the files of the HTTP server share. */
#ifndef SEALMARK_API_INTERNAL_H
#define SEALMARK_API_INTERNAL_H

#include "api/api.h"
#include "base/buffer.h"
#include "image/image.h"
#include "sandbox/sandbox.h"

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>

/*
 * Theory of operation
 *
 * Each connection has a thread of libmicrohttpd. server.c gathers a request, finds its route in the
 * table (routes.c), checks key, query and body against what the table says (validate.c), and calls
 * the route's handler: straight-line blocking code that fills in the answer (answer.c). A change
 * with an Idempotency-Key goes through replay.c, before and after its handler. Answers that are
 * streams come from a thread of their own through a pipe (stream.c), so that the reader's pace
 * holds back the guest.
 *
 * What runs in the background is the monitor's (processes.c): streams of its output (follow.c) ask
 * for more when their reader has taken what came. A terminal (terminal.c) leaves HTTP: its
 * connection has a thread of ours.
 *
 * Life of sandboxes (life.c): the record is committed, with the quota, before the machine is
 * started; a thread starts it, detached, and records that it is ready. Ends are learned from the
 * word that keepers leave in <home>/ended (watch.c), and from the lock of a keeper that lives, when
 * a record is read.
 */

/* Body and piece limits. */
#define API_JSON_MOST  (4u << 20) /* stdin of a command comes in JSON */
#define API_BYTES_MOST (1u << 20) /* of a file, a piece or an archive */
#define API_WAIT_MOST  120
#define API_LOST_MOST  64

#define API_CPU_FLOOR_MILLIS 50

/* --- errors: code, status, whether and when the same call may work again, hint --- */
#define API_ERRORS(E)                                                                              \
	E(INVALID_REQUEST, "invalid_request", 400, -1, NULL)                                       \
	E(DISK_TOO_SMALL, "disk_too_small", 400, -1, "Ask for a larger diskMiB.")                  \
	E(ENV_TOO_LARGE, "env_too_large", 400, -1, "At most 32 variables and 32 KiB together.")    \
	E(INVALID_ENV, "invalid_env", 400, -1,                                                     \
		"Names are letters, digits and _, and do not begin with a digit.")                 \
	E(UNAUTHORIZED, "unauthorized", 401, -1,                                                   \
		"Send \"Authorization: Bearer KEY\"; sealmark keys create makes a key.")           \
	E(SPENDING_LIMIT, "spending_limit_reached", 402, -1,                                       \
		"It is the key's limit of 24 hours, which the operator can raise.")                \
	E(SIGN_IN, "unauthorized", 401, -1, NULL)                                                  \
	E(FORBIDDEN, "forbidden", 403, -1, NULL)                                                   \
	E(PERSON_ONLY, "permission_denied", 403, -1, "Sign in with a browser; no key can do it.")  \
	E(NOT_SELECTED, "permission_denied", 403, -1, "A person can make a key for more.")         \
	E(PERMISSION_DENIED, "permission_denied", 403, -1, NULL)                                   \
	E(NETWORK_NOT_ALLOWED, "network_not_allowed", 403, -1, NULL)                               \
	E(NOT_FOUND, "not_found", 404, -1, NULL)                                                   \
	E(ROUTE_NOT_FOUND, "route_not_found", 404, -1,                                             \
		"GET /v1/openapi.json lists what there is.")                                       \
	E(FILE_NOT_FOUND, "file_not_found", 404, -1, NULL)                                         \
	E(IMAGE_NOT_FOUND, "image_not_found", 404, -1, "GET /v1/images lists what there is.")      \
	E(SNAPSHOT_NOT_FOUND, "snapshot_not_found", 404, -1, NULL)                                 \
	E(METHOD_NOT_ALLOWED, "method_not_allowed", 405, -1, NULL)                                 \
	E(NO_CAPACITY, "no_capacity", 409, 1000,                                                   \
		"It passes when a sandbox or a build ends; send the same call again.")             \
	E(QUOTA_EXCEEDED, "quota_exceeded", 409, 1000,                                             \
		"It passes when a sandbox or a build ends; send the same call again.")             \
	E(BUILD_IN_PROGRESS, "build_in_progress", 409, 1000,                                       \
		"It passes when a build ends; send the same call again.")                          \
	E(NOT_RUNNING, "not_running", 409, -1, NULL)                                               \
	E(SANDBOX_PAUSED, "sandbox_paused", 409, -1,                                               \
		"Wake it with POST /v1/sandboxes/{id}:wake, or set autoWake.")                     \
	E(NOT_PAUSED, "not_paused", 409, -1, NULL)                                                 \
	E(NOT_PAUSABLE, "not_pausable", 409, -1, "It was created with pausable: false.")           \
	E(SANDBOX_STOPPED, "sandbox_stopped", 409, -1, "Create another; stopReason says why.")     \
	E(SANDBOX_NOT_READY, "sandbox_not_ready", 409, -1,                                         \
		"Wait with GET /v1/sandboxes/{id}?waitFor=running.")                               \
	E(IS_A_DIRECTORY, "is_a_directory", 409, -1, "GET .../files/archive takes folders.")       \
	E(NOT_A_DIRECTORY, "not_a_directory", 409, -1, NULL)                                       \
	E(DIRECTORY_NOT_EMPTY, "directory_not_empty", 409, -1, "Remove it with recursive: true.")  \
	E(ALREADY_EXISTS, "already_exists", 409, -1, "Rename with overwrite: true to replace it.") \
	E(DISK_FULL, "disk_full", 409, -1, NULL)                                                   \
	E(NOT_CONNECTED, "not_pending", 409, -1, NULL)                                             \
	E(STDIN_CLOSED, "stdin_closed", 409, -1, "Spawn it with stdinMode: pipe.")                 \
	E(NO_TERMINAL, "no_terminal", 409, -1, "Spawn it with pty: {cols, rows}.")                 \
	E(NAME_TAKEN, "name_taken", 409, -1, "Use getOrCreate to have the one of that name.")      \
	E(LEASE_TOO_SHORT, "lease_too_short", 409, -1, "Extend the lease first.")                  \
	E(BUDGET_EXCEEDED, "budget_exceeded", 409, -1,                                             \
		"Ask for a shorter lease or a smaller sandbox, or allow it to cost more.")         \
	E(TOO_LARGE, "body_too_large", 413, -1, "Larger files go through POST .../uploads.")       \
	E(KEY_REUSED, "idempotency_key_reused", 422, -1, "Use a new key for another request.")     \
	E(RATE_LIMITED, "rate_limited", 429, 1000, NULL)                                           \
	E(INTERNAL, "internal_error", 500, -1, NULL)                                               \
	E(GUEST_FAILED, "guest_failed", 500, -1, NULL)                                             \
	E(UNAVAILABLE, "unavailable", 501, -1, "This server does not have it yet.")                \
	E(BUSY, "busy", 503, 1000, NULL)                                                           \
	E(HOST_UNAVAILABLE, "host_unavailable", 503, 1000, NULL)                                   \
	E(GUEST_BUSY, "guest_busy", 503, 250, NULL)

enum api_error {
#define E(NAME, code, status, retry_ms, hint) API_##NAME,
	API_ERRORS(E)
#undef E
		API_ERROR_COUNT
};

/* --- routes --- */
enum field_kind {
	FIELD_TEXT,    /* least to most bytes */
	FIELD_INTEGER, /* least to most */
	FIELD_BOOLEAN,
	FIELD_TEXTS,  /* array (query: repeated) of at most `most` texts */
	FIELD_MAP,    /* object of texts, at most `most` of them */
	FIELD_OBJECT, /* with `fields` */
	FIELD_ANY     /* its handler checks it */
};

struct field {
	const char *name;
	enum field_kind kind;
	int64_t least, most;
	bool required;
	bool null;          /* null may be given, and is passed on */
	const char *values; /* FIELD_TEXT, FIELD_TEXTS: "a|b|c", only these */
	const struct field *fields;
	const char *help; /* one sentence for openapi.json */
};
#define FIELDS_END                                                                                 \
	{                                                                                          \
		.name = NULL                                                                       \
	}

struct request;

#define ROUTE_OPEN      1u /* needs no key */
#define ROUTE_PERSON    4u /* needs a session: a key, whatever it may, is refused */
#define ROUTE_PAGE      8u /* for a browser: any query, and a form (bytes_most) */
#define ROUTE_NO_REPLAY 2u /* by its nature done again without harm, or a stream */

struct route {
	const char *method;
	const char *path; /* "/v1/sandboxes/{id}:stop" */
	const char *summary;
	void (*handle)(struct request *q); /* NULL: unavailable */
	const struct field *query, *body;
	uint64_t bytes_most; /* the body is bytes, not JSON */
	unsigned flags;
	int status;          /* of a success, for openapi.json; 0: 200 */
	const char *answers; /* media types of a success, "a|b"; NULL: application/json */
};
extern const struct route api_routes[]; /* ends with method NULL */

#define ROUTE_PARAMS     2
#define ROUTE_PARAM_MOST 128

/* 0, -ENOENT: no such path, -EINVAL: the path is there, with other methods. */
int route_find(const char *method, const char *path, const struct route **out,
	char params[ROUTE_PARAMS][ROUTE_PARAM_MOST]);

/*
 * Check `value` (an object) against fields; what is wrong goes to `issues` as
 * {"path": "network.allow[3]", "message": "..."}.
 */
void validate_object(
	const struct field *fields, const json_t *value, const char *path, json_t *issues);
/* The same for a query, whose values are turned from text into what the fields say. */
void validate_query(const struct field *fields, const json_t *given, json_t *out, json_t *issues);

/* The OpenAPI document of a table. */
json_t *openapi_document(const struct route *routes);

/* --- server and request --- */
struct rate;

struct api_server {
	struct api_options options;
	char home[512];
	char address[512];
	char socket_path[108]; /* to be unlinked at the end */
	char epoch[ID_SIZE];   /* of this process, in records of what is under way */
	struct store *store;
	struct MHD_Daemon *daemon;
	char *cert, *key;
	struct store_quota quota;
	int *reserved_cpus; /* quota.reserved of them, by their numbers on the host */
	uint32_t vcpu_most;
	struct rate *rate;
	struct rate *strangers; /* by address, for what is open */
	struct guard *guard;
	struct console *console;
	struct builds *builds;
	pthread_mutex_t hashing; /* one password at a time */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* some record has changed */
	uint64_t changes;
	char (*starting)[ID_SIZE]; /* records whose machines threads of this process start */
	size_t starting_count, starting_room;
	bool stopping;
	struct terminal *terminals; /* connections that are terminals, terminal.c */

	pthread_t watcher;
	bool watching;
	int wake_fd, inotify_fd, uploads_fd;
	int64_t sweep_until_ms; /* of clock_ms(): what a killed keeper has left is looked for */
	struct lost {
		char machines[API_LOST_MOST][ID_SIZE]; /* whose keepers were killed: a ring */
		size_t count;
	} lost;

	struct spares *spares; /* NULL: none are made */
	pthread_t money;
	bool counting;
	int money_fd;
	struct request *bodies; /* that are large */
	int lock_fd;            /* the store is this server's as long as it is open */
};

struct request {
	struct api_server *server;
	struct MHD_Connection *connection;
	const struct route *route;
	const char *method;
	char *path;
	char id[ID_SIZE]; /* x-request-id */
	char params[ROUTE_PARAMS][ROUTE_PARAM_MOST];
	struct store_api_key key;
	struct buffer body;
	bool refused;
	uint64_t held; /* of what bodies may take together, under the server's lock */
	struct request *next_body;
	bool cut;            /* its connection ends with the answer */
	char share[ID_SIZE]; /* its share of server->rate or strangers, "" when it has none */

	char address[64];            /* the client's, "unix" for a socket */
	bool person;                 /* a session, not a key: key is the owner's */
	char session[HASH_HEX_SIZE]; /* hash of its token */
	char csrf[HASH_HEX_SIZE];
	char who[64]; /* for the audit log */
	char cookies[3][200];
	size_t cookie_count;
	const char *cache; /* Cache-Control; NULL: no-store */

	uint64_t drained; /* bytes of a body that was refused */
	json_t *json, *query;
	const char *replay; /* its Idempotency-Key, when it goes through replay.c */
	char left[ID_SIZE]; /* what an earlier server had made for this key, or "" */
	int64_t wait_ms;    /* Prefer: wait */

	/* what becomes the connection's when it is upgraded, if it is; terminal.c */
	void *upgrade;
	void (*upgrade_free)(void *upgrade);

	int status; /* 0: no answer yet */
	json_t *answer;
	struct MHD_Response *response; /* instead of answer */
	bool replayed;
	int64_t retry_ms;
};

/* answer.c. The json is taken over; NULL is out of memory, which is an answer too. */
void answer_json(struct request *q, int status, json_t *json);
/* `details` (or NULL) is taken over. */
void answer_error(struct request *q, enum api_error error, json_t *details, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* After it: the same call may work in so many ms. */
void answer_retry_in(struct request *q, int64_t ms);
/* A failure of ours: logged with the request's id, which is all that the client is told. */
void answer_failure(struct request *q, const struct error *err);
/* The error object alone, for streams. */
json_t *answer_error_object(
	enum api_error error, const char *request_id, json_t *details, const char *message);
bool answer_send(struct request *q); /* false: it could not be queued */

/* values of the checked body or query, or the default */
const char *request_text(const json_t *object, const char *name, const char *otherwise);
int64_t request_integer(const json_t *object, const char *name, int64_t otherwise);
bool request_boolean(const json_t *object, const char *name, bool otherwise);

int64_t api_now_ms(void);     /* wall clock */
json_t *api_time(int64_t ms); /* "2026-11-29T17:48:06.123Z", null for 0 */
/* Bytes of a guest as a JSON string: what is no UTF-8 becomes U+FFFD; *exact: nothing did. */
json_t *api_guest_text(const void *bytes, size_t count, bool *exact);
char *api_base64(const void *bytes, size_t count);
int api_unbase64(const char *text, struct buffer *out); /* -EINVAL */

/* server.c: take over the listening socket and serve. */
int server_listen(struct api_server *server, int fd, struct error *err);
/* The connection was not idle: this server was at work for it. */
void api_active(struct api_server *server, struct MHD_Connection *connection);
/* Something changed in the store; wake those who wait. */
void api_changed(struct api_server *server);

/* key.c: fills q->key, or answers. */
bool key_check(struct request *q);

/* rate.c: the share of one key. */
struct rate *rate_new(uint32_t per_second);
void rate_free(struct rate *rate);
/* May wait; false: too many. With true, rate_leave() follows. */
bool rate_enter(struct rate *rate, const char *key);
void rate_leave(struct rate *rate, const char *key);

/* replay.c: false when the answer is there already. */
bool replay_begin(struct request *q);
void replay_end(struct request *q);

/* bodies.c: may a body grow to `length` of the `most` that it can have? */
bool body_grows(struct request *q, uint64_t length, uint64_t most);
void body_done(struct request *q);
/* Is a document of JSON small enough to be parsed, by the number of its values? */
bool body_is_modest(const void *bytes, size_t count);

/* framing.c: can the head be read in one way only? Else answers. */
bool framing_is_clear(struct request *q);

/* standing.c: by what right something goes on for longer than a request. */
struct standing {
	char key[ID_SIZE], session[HASH_HEX_SIZE];
	bool person;
	int64_t looked_ms;
};
void standing_take(const struct request *q, struct standing *out);
/* false: its key was revoked, or its session has ended. `used`: a client has just said something.
 */
bool standing_holds(struct api_server *server, struct standing *s, bool used);

/* stream.c: answer with what `produce` writes to fd, in its own thread; it gives up when a write
 * fails, and answers false when what it wrote is not whole. `size` of the whole, or -1. The context
 * is freed with `done`, whatever happens. With `failed` there is no answer before the first byte:
 * what fails until then is answered by it, instead of by a connection that breaks off. */
struct stream_source {
	bool (*produce)(void *context, int fd);
	void (*failed)(void *context, struct request *q); /* may be NULL */
	void (*done)(void *context);
	void *context;
	const char *type;
	int64_t size;
};
/* The response, for headers of its own; NULL when it could not be made (an answer is set). */
struct MHD_Response *stream_answer(struct request *q, const struct stream_source *source);

/* life.c, and what handlers need of it in life_attach.c */
/* The record of q's first parameter, brought up to date with what is true; else answers. */
bool life_find(struct request *q, struct store_sandbox *out);
/* Bring a record up to date; it may be read again afterwards. */
int life_settle(struct api_server *server, struct store_sandbox *record, struct error *err);
/* Start the machine of a record that was just added, in a thread. */
int life_start(struct api_server *server, const char *id, struct error *err);
/* Its machine is there, which `s` is connected to: give it its rules, and say that it runs. */
int life_started(struct api_server *server, const struct store_sandbox *record, struct sandbox *s,
	struct error *err);
/* Start it anew on another machine, once the one it had has ended. -EEXIST, -EDQUOT, -ENOSPC,
 * -ESTALE: as store_sandbox_restart(). */
int life_restart(struct api_server *server, const struct store_sandbox *record, char *taken,
	struct error *err);
/* Stop it, wait for it, record why: "requested", or `reason`. */
int life_stop(struct api_server *server, const char *id, struct error *err);
int life_stop_for(struct api_server *server, const char *id, const char *reason, struct error *err);
/* Wait until `settled` says so of the record, or the time is over; the newest is in *record. */
int life_wait(struct api_server *server, struct store_sandbox *record,
	bool (*settled)(const struct store_sandbox *record, const void *context),
	const void *context, int64_t ms, struct error *err);
/* A connection to a sandbox that runs; waits while it starts, wakes it if it may be; else answers.
 * *record is filled. */
struct sandbox *life_attach(struct request *q, struct store_sandbox *record);
/* The same, of one that may be paused and stays so. */
struct sandbox *life_attach_as_it_is(struct request *q, struct store_sandbox *record);
/* The state in which it is, for life_wait(). */
bool life_has_begun(const struct store_sandbox *record, const void *context);
bool life_has_ended(const struct store_sandbox *record, const void *context);
/* Turn what a call on it answered into an answer. `path`: it was about a file. */
void life_failure(struct request *q, const struct store_sandbox *record, int r,
	const struct error *err, bool file);

/* pause.c */
/* The rules of a spec, with the money that the record has; left_ms is 0. */
void pause_rules(const struct api_server *server, const struct store_sandbox *record,
	const json_t *spec, struct sandbox_rules *out);
/* Bring the phase of a record that runs up to date; it may be read again. 1: it was changed. */
int pause_settle(struct api_server *server, const struct store_sandbox *record, struct error *err);
/* Wake it for a request; false: answered. */
bool pause_wake(struct request *q, struct store_sandbox *record, int64_t lease_ms);
/* The errors of what cannot be done with one that has ended, or is paused. */
void answer_stopped(struct request *q, const struct store_sandbox *record);
void answer_paused(struct request *q, const struct store_sandbox *record);
/* Why there is no room for one (more); `limit`: as the store names it. */
void answer_no_room(struct request *q, int r, const char *limit, const struct error *err);

/* spares.c */
/* Stop a machine that is no sandbox's any more, and forget it. */
void spare_discard(struct api_server *server, const char *machine);
/* What an earlier server has left: listed before this one makes any. */
struct spare_list *spares_list(struct api_server *server);
void spares_adopt(struct api_server *server, struct spare_list *list); /* frees it */
/* terminal.c: end them all, and wait for it. */
void terminals_stop(struct api_server *server);
/* A machine that is ready for a record that starts, which has it then; NULL: there is none, and the
 * record's machine is one that is still to be started. */
struct sandbox *spare_take(struct api_server *server, struct store_sandbox *record);
/* Something has changed for them. */
void spares_wake(struct api_server *server);
int spares_start(struct api_server *server, struct error *err);
void spares_stop(struct api_server *server);

/* serving.c: -EBUSY when another server has the store; as many descriptors as there may be. */
int serving_begin(struct api_server *server, struct error *err);
void serving_files(void);

/* reserved.c: set quota.reserved CPUs aside: this thread, and all that it starts from then on, keep
 * off them. */
int reserved_start(struct api_server *server, struct error *err);
/* Of a seat as the store gives it; -1: none. */
int reserved_cpu(const struct api_server *server, uint32_t seat);

/* watch.c: a thread that reads what keepers leave, and forgets what is old. */
int watch_start(struct api_server *server, struct error *err);
void watch_stop(struct api_server *server);
/* A keeper was killed, or may have been: what it has left is to be removed, before the server ends
 * if that can be. NULL: of whichever machine. */
void watch_lost(struct api_server *server, const char *machine);

/* money.c: calls of the create path and of life.c, and a thread that measures. */
/* What a new sandbox (sizes, created_ms and expires_ms are filled in) is charged by; false: it may
 * cost more than the request allows, answered. */
bool money_terms(struct request *q, const struct store_sandbox *record, struct store_terms *out);
/* Answer STORE_OVER_LIMIT; `more` is what was to be held. */
void money_refuse(struct request *q, const char *payer, int64_t more, const struct error *why);
/* Its machine was handed over just now; before store_sandbox_ready(). */
int money_ready(struct api_server *server, const struct store_sandbox *record, struct error *err);
/* The record says that it runs. */
void money_started(struct api_server *server, const struct store_sandbox *record);
/* The lease to be given to its monitor: `wanted_ms`, or for how long its cap lasts. */
int64_t money_lease_ms(const struct store_sandbox *record, int64_t wanted_ms);
/* The lease ends at `until_ms` from now on (now, while it is paused): charge so far, hold anew,
 * before the monitor is told. The record is read again. `s` or NULL. STORE_OVER_LIMIT. */
int money_renew(struct api_server *server, struct store_sandbox *record, struct sandbox *s,
	int64_t until_ms, struct error *err);
/* The same for a request; false: answered. */
bool money_extend(
	struct request *q, struct store_sandbox *record, struct sandbox *s, int64_t until_ms);
/* maxTotalCostMicros of a change, if it is in it; false: answered. The record is read again. */
bool money_cap(struct request *q, struct store_sandbox *record);
/* Measure it once more, if it runs. */
void money_look(struct api_server *server, const struct store_sandbox *record);
/* It is paused, and the record says so: charge so far, and hold nothing while it costs nothing. */
void money_paused(struct api_server *server, const char *id);
/* The last measure; before store_sandbox_stopped(), which settles. */
int money_ended(struct api_server *server, const char *id, const struct sandbox_usage *used,
	struct error *err);
int money_start(struct api_server *server, struct error *err);
void money_stop(struct api_server *server);

/* sandbox_view.c */
json_t *sandbox_json(const struct store_sandbox *record);
const char *sandbox_state_name(const struct store_sandbox *record);
/* Its bit in store_sandbox_filter.states; of a name: 0 when there is no such state. */
unsigned sandbox_state_bit(const struct store_sandbox *record);
unsigned sandbox_state_bit_of(const char *name);
/* Answer with the record as it is, after the wait that was asked for; `flag` is set in it. */
void answer_record(
	struct request *q, const char *id, int status, int64_t wait_ms, const char *flag);
/* What an exec in it needs of its spec; strings stay the spec's. */
struct sandbox_user {
	uint32_t uid, gid;
	const char *name, *home;
};
void sandbox_user(const json_t *spec, bool root, struct sandbox_user *out);

/* sandboxes.c: a thing that is asked for and cannot be given, or NULL; and what is wrong with what
 * is asked of one that is `pausable`, or not */
const char *sandbox_not_there(const json_t *body);
void sandbox_check_pausing(const json_t *body, bool pausable, json_t *issues);
/* Before it is said that there is no room: are all that take it still there? */
void sandboxes_settle(struct api_server *server);

/* builds.c: room may have become free for one that waits for it */
void builds_look(struct api_server *server);

/* images.c: an image by id, name, name:latest or name@version; else answers. `id` (ID_SIZE bytes,
 * or NULL) is its id in the API. */
struct image *image_find(struct request *q, const char *reference, char *id);

/* sandbox_env.c: variables as asked for; false: answered. `env` may hold nulls, which are fine. */
bool env_check(struct request *q, const json_t *env);
/* The environment of a command: the image's, the sandbox's, its own. NULL-terminated, to be freed
 * with env_free(); NULL: out of memory. */
char **env_make(const json_t *spec, const struct sandbox_user *user, const json_t *own);
void env_free(char **env);

/* network.c: add what is wrong with rules to the issues; what they mean in the form of the record
 * (NULL: the default, internet); the policy that enforces them, with the operator's rules (to be
 * freed; NULL: out of memory); apply rules to the running sandbox of q's first parameter, or
 * answer. */
void network_check(const json_t *network, json_t *issues);
json_t *network_normal(const json_t *network);
char *network_policy(const struct api_server *server, const json_t *network);
bool network_apply(struct request *q, const json_t *network);

/* uploads_left.c: remove the files of pieces that a killed server has left without a record */
int uploads_start(struct api_server *server, struct error *err);
/* uploads.c: the file of an upload's pieces; all that is under way to a sandbox that has ended */
void upload_remove(struct api_server *server, const char *id);
void uploads_forget(struct api_server *server, const char *sandbox);

/* archive.c: unpack what is in a file descriptor or in memory */
struct unpack {
	const char *path;
	bool root;
	const void *bytes;
	size_t count;
	int fd; /* instead of bytes, or -1 */
};
void archive_unpack(struct request *q, const struct unpack *unpack);

/* handlers of routes.c */
void account_me(struct request *q);
void account_limits(struct request *q);
void usage_get(struct request *q);
void usage_export(struct request *q);
void openapi_get(struct request *q);
void events_list(struct request *q);
void metrics_get(struct request *q);
void sandboxes_pause(struct request *q);
void sandboxes_wake(struct request *q);
void sandboxes_restart(struct request *q);
void health_get(struct request *q);
void sandboxes_create(struct request *q);
void sandboxes_list(struct request *q);
void sandboxes_get(struct request *q);
void sandboxes_delete(struct request *q);
void sandboxes_stop(struct request *q);
void sandboxes_extend(struct request *q);
void sandboxes_update(struct request *q);
void network_get(struct request *q);
void network_put(struct request *q);
void commands_exec(struct request *q);
void processes_spawn(struct request *q);
void processes_list(struct request *q);
void processes_get(struct request *q);
void processes_output(struct request *q);
void processes_write(struct request *q);
void processes_signal(struct request *q);
void processes_resize(struct request *q);
void terminal_open(struct request *q);
void watches_create(struct request *q);
void watches_list(struct request *q);
void watches_events(struct request *q);
void watches_stop(struct request *q);
void files_read(struct request *q);
void files_write(struct request *q);
void files_list(struct request *q);
void files_stat(struct request *q);
void files_mkdir(struct request *q);
void files_remove(struct request *q);
void files_rename(struct request *q);
void files_chmod(struct request *q);
void archive_get(struct request *q);
void archive_put(struct request *q);
void uploads_create(struct request *q);
void uploads_archive(struct request *q);
void uploads_put(struct request *q);
void uploads_commit(struct request *q);
void uploads_abort(struct request *q);
void images_list(struct request *q);
void images_get(struct request *q);
void images_resolve(struct request *q);
void images_create(struct request *q);
void images_logs(struct request *q);
void images_tag(struct request *q);
void images_untag(struct request *q);
void images_delete(struct request *q);
void context_missing(struct request *q);
void context_put(struct request *q);

#endif
