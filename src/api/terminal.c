/* SPDX-License-Identifier: Apache-2.0 - GET ...: a process's terminal over a WebSocket. */
#include "api/command.h"
#include "api/ws.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/*
 * Theory of operation
 *
 * The process is started (or found) while the request is still HTTP, so that what is wrong is an
 * ordinary error. Then the connection is the terminal's: a thread of its own waits, in the
 *monitor's answer, for output, and lets itself be interrupted by the socket. Nothing is fetched
 *from the monitor while the browser has not taken what was fetched before; what it is too slow for
 *is lost, as it is for everybody who reads late.
 *
 *	client                        server
 *	binary: what is typed         binary: what is printed
 *	{"type":"resize",cols,rows}   {"type":"ready",processId}, {"type":"exit",exitCode}
 *
 * A client that says goodbye hangs up the shell that was started for it; one that is cut off may
 * come back with its processId. A process that was there before is left alone either way.
 */
#define OUTPUT_PIECE 65536
#define PING_MS      30000
#define GOODBYE_MS   5000
#define DRAIN_MOST   4096   /* pieces */
#define STALLED_MS   120000 /* so long a client may take nothing of what waits */

struct terminal {
	struct api_server *server;
	struct sandbox *sandbox;
	struct store_sandbox record;
	char process_id[ID_SIZE], request_id[ID_SIZE];
	bool own; /* it was started for this connection */
	uint64_t cursor;
	struct standing standing;

	struct MHD_UpgradeResponseHandle *upgrade;
	int fd;
	struct ws *socket;
	struct terminal *next; /* of the server's, under its lock */
};

static void terminal_free(void *context)
{
	struct terminal *t = context;

	ws_free(t->socket);
	sandbox_free(t->sandbox);
	store_sandbox_fini(&t->record);
	free(t);
}

/* --- what is said --- */

static void put_event(struct terminal *t, json_t *event)
{
	char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;

	if (text)
		ws_put(t->socket, true, text, strlen(text));
	free(text);
	json_decref(event);
}

static void put_exit(struct terminal *t, const struct sandbox_process *p)
{
	json_t *event = process_json(p, t->record.memory_mib);

	if (event)
		json_object_set_new(event, "type", json_string("exit"));
	put_event(t, event);
	ws_close(t->socket, 1000);
}

static void put_failure(struct terminal *t, int r, const struct error *err)
{
	struct request q = {.server = t->server};
	json_t *event;

	text_copy(q.id, sizeof(q.id), t->request_id);
	command_failure(&q, &t->record, r, err);
	event = json_pack("{ss sO}", "type", "error", "error", json_object_get(q.answer, "error"));
	json_decref(q.answer);
	put_event(t, event);
	ws_close(t->socket, 1011);
}

/* Its key or session may have ended since; true: it is over, and said so. */
static bool is_outlawed(struct terminal *t, bool used)
{
	if (standing_holds(t->server, &t->standing, used))
		return false;
	put_event(t, json_pack("{ss so}", "type", "error", "error",
			     answer_error_object(API_UNAUTHORIZED, t->request_id, NULL,
				     "The key or session of this terminal has ended.")));
	ws_close(t->socket, 1008);
	return true;
}

/* --- what is heard --- */

static void resize(struct terminal *t, const uint8_t *bytes, size_t count)
{
	struct sandbox_process process = {0};
	json_t *event = json_loadb((const char *)bytes, count, JSON_REJECT_DUPLICATES, NULL);
	int64_t cols = request_integer(event, "cols", 0), rows = request_integer(event, "rows", 0);
	bool right = strcmp(request_text(event, "type", ""), "resize") == 0 && cols >= 1 &&
		     cols <= 4096 && rows >= 1 && rows <= 4096;

	if (!right)
		ws_close(t->socket, 1008);
	else /* one that has just ended has no size */
		sandbox_process_resize(
			t->sandbox, t->process_id, (uint32_t)cols, (uint32_t)rows, &process, NULL);
	sandbox_process_fini(&process);
	json_decref(event);
}

static void type(struct terminal *t, const uint8_t *bytes, size_t count)
{
	struct sandbox_process process = {0};
	struct error err = {0};
	int r = sandbox_process_write(
		t->sandbox, t->process_id, SANDBOX_INPUT_END, bytes, count, false, &process, &err);

	sandbox_process_fini(&process);
	/* what an ended process would have taken does not matter; its exit follows */
	if (r && r != -EBADF)
		put_failure(t, r, &err);
}

static void heard(void *context, bool text, const uint8_t *bytes, size_t count)
{
	struct terminal *t = context;

	if (ws_is_closing(t->socket) || is_outlawed(t, true))
		return;
	if (text)
		resize(t, bytes, count);
	else
		type(t, bytes, count);
}

/* --- the loop --- */

static int on_piece(
	void *context, enum wire_channel channel, uint64_t offset, const void *bytes, size_t count)
{
	struct terminal *t = context;

	if (is_outlawed(t, false))
		return -EPIPE;
	t->cursor = offset + count;
	return ws_put(t->socket, false, bytes, count);
}

/* send what waits, hear what has come: without asking for more output meanwhile */
static bool settle(struct terminal *t, int64_t patience_ms)
{
	int64_t until = clock_deadline_ms(patience_ms);
	struct pollfd p = {.fd = t->fd};

	for (;;) {
		ws_write(t->socket);
		if (!ws_wants_write(t->socket))
			return !ws_is_over(t->socket);
		p.events = (short)(ws_wants_read(t->socket) ? POLLIN | POLLOUT : POLLOUT);
		if (poll(&p, 1, clock_poll_ms(until)) == 0)
			return false;
		if (p.revents & POLLIN)
			ws_read(t->socket);
		if (p.revents & POLLOUT)
			until = clock_deadline_ms(patience_ms);
		if (p.revents & (POLLERR | POLLNVAL))
			return false;
	}
}

/* wait for output or for the client; 1 at the end of the process */
static int step(struct terminal *t, struct error *err)
{
	const struct output_spec spec = {.id = t->process_id,
		.cursor = t->cursor,
		.most = OUTPUT_PIECE,
		.wait_ms = PING_MS,
		.cancel_fd = t->fd,
		.on_piece = on_piece,
		.context = t};
	struct sandbox_process p = {0};
	uint64_t before = t->cursor;
	int r = sandbox_process_output(t->sandbox, &spec, &p, err);

	if (r == -EINTR) {
		ws_read(t->socket);
		return 0;
	}
	if (!r && p.state >= WIRE_PROCESS_ENDED && t->cursor >= p.output_end) {
		put_exit(t, &p);
		r = 1;
	} else if (!r && t->cursor == before) {
		ws_ping(t->socket);
	}
	sandbox_process_fini(&p);
	return r;
}

/* Both sides say goodbye, or the client has had its time. What it still sends is read, as a socket
 * that is closed with bytes unread takes back what it has sent. */
static void part(struct terminal *t)
{
	int64_t until = clock_deadline_ms(GOODBYE_MS);
	struct pollfd p = {.fd = t->fd, .events = POLLIN};
	char rest[4096];

	while (settle(t, GOODBYE_MS) && poll(&p, 1, clock_poll_ms(until)) > 0)
		ws_read(t->socket);
	if (ws_was_closed(t->socket))
		return;
	shutdown(t->fd, SHUT_WR);
	for (int i = 0; i < DRAIN_MOST && poll(&p, 1, clock_poll_ms(until)) > 0; i++) {
		if (recv(t->fd, rest, sizeof(rest), MSG_DONTWAIT) <= 0)
			return;
	}
}

static void serve(struct terminal *t)
{
	struct error err = {0};
	int r = 0;

	put_event(t, json_pack("{ss ss}", "type", "ready", "processId", t->process_id));
	while (ws_has_early(t->socket))
		ws_read(t->socket);
	while (r == 0 && settle(t, STALLED_MS) && !ws_is_closing(t->socket)) {
		r = step(t, &err);
		if (r == 0 && !ws_is_closing(t->socket))
			is_outlawed(t, false);
	}
	if (r < 0 && r != -EPIPE)
		put_failure(t, r, &err);
	part(t);
}

static void hang_up(struct terminal *t)
{
	struct sandbox_process process = {0};

	if (t->own && ws_was_closed(t->socket))
		sandbox_process_signal(t->sandbox, t->process_id, SIGHUP, &process, NULL);
	sandbox_process_fini(&process);
}

/* --- threads --- */

/* false: the server is stopping */
static bool enlist(struct terminal *t)
{
	bool in;

	pthread_mutex_lock(&t->server->lock);
	in = !t->server->stopping;
	if (in) {
		t->next = t->server->terminals;
		t->server->terminals = t;
	}
	pthread_mutex_unlock(&t->server->lock);
	return in;
}

static void delist(struct terminal *t)
{
	struct terminal **p;

	pthread_mutex_lock(&t->server->lock);
	for (p = &t->server->terminals; *p; p = &(*p)->next) {
		if (*p == t) {
			*p = t->next;
			break;
		}
	}
	/* within the lock: once the list is empty the daemon ends */
	MHD_upgrade_action(t->upgrade, MHD_UPGRADE_ACTION_CLOSE);
	pthread_cond_broadcast(&t->server->changed);
	pthread_mutex_unlock(&t->server->lock);
}

void terminals_stop(struct api_server *server)
{
	pthread_mutex_lock(&server->lock);
	for (struct terminal *t = server->terminals; t; t = t->next)
		shutdown(t->fd, SHUT_RDWR);
	while (server->terminals)
		pthread_cond_wait(&server->changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

static void *run(void *context)
{
	struct terminal *t = context;

	serve(t);
	hang_up(t);
	delist(t);
	terminal_free(t);
	return NULL;
}

static int start_thread(struct terminal *t)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, run, t);
	pthread_attr_destroy(&attributes);
	return r;
}

/* The connection is ours from now on. */
static void upgraded(void *context, struct MHD_Connection *connection, void *state,
	const char *early, size_t count, MHD_socket fd, struct MHD_UpgradeResponseHandle *upgrade)
{
	struct terminal *t = context;
	const struct ws_events events = {.message = heard, .context = t};
	struct request *q = state;

	q->upgrade = NULL;
	t->fd = fd;
	t->upgrade = upgrade;
	t->socket = ws_new(fd, &events, early, count);
	if (!t->socket || !enlist(t)) {
		MHD_upgrade_action(upgrade, MHD_UPGRADE_ACTION_CLOSE);
		terminal_free(t);
	} else if (start_thread(t)) {
		delist(t);
		terminal_free(t);
	}
}

/* --- the request --- */

static const char *header(const struct request *q, const char *name)
{
	return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

/* the answer to its key; false: answered */
static bool check_handshake(struct request *q, char *accept)
{
	const char *upgrade = header(q, "Upgrade"), *key = header(q, "Sec-WebSocket-Key");
	const char *connection = header(q, "Connection"),
		   *version = header(q, "Sec-WebSocket-Version");

	/* a terminal is reached by GET, and does more than reading */
	if (strcmp(q->key.access, "read") == 0)
		answer_error(q, API_PERMISSION_DENIED, NULL, "This key may only read.");
	else if (!upgrade || strcasecmp(upgrade, "websocket") != 0 || !connection ||
		 !strcasestr(connection, "upgrade") || !version || strcmp(version, "13") != 0 ||
		 !key || ws_accept(key, accept))
		answer_error(q, API_INVALID_REQUEST, NULL,
			"A terminal is a WebSocket: connect with version 13 of its protocol.");
	return !q->status;
}

/* what the query asks for, as a body of POST .../processes */
static json_t *shell(const json_t *query)
{
	const char *command = request_text(query, "command", NULL);
	json_t *argv = command ? json_pack("[s s s]", "bash", "-c", command)
			       : json_pack("[s s]", "bash", "-l");

	return json_pack("{so ss s{sI sI} ss* ss*}", "argv", argv, "stdinMode", "pipe", "pty",
		"cols", (json_int_t)request_integer(query, "cols", 80), "rows",
		(json_int_t)request_integer(query, "rows", 24), "cwd",
		request_text(query, "cwd", NULL), "user", request_text(query, "user", NULL));
}

static bool start_process(struct request *q, struct terminal *t)
{
	struct sandbox_process process = {0};
	json_t *body = shell(q->query);
	struct command *c = command_new(q, body, true);
	struct error err = {0};
	int r;

	json_decref(body);
	if (!c)
		return false;
	r = command_spawn(c, true, false, &process, &err);
	sandbox_process_fini(&process);
	if (r) {
		command_failure(q, &c->record, r, &err);
	} else {
		text_copy(t->process_id, sizeof(t->process_id), c->id);
		t->own = true;
		t->sandbox = c->sandbox;
		t->record = c->record;
		c->sandbox = NULL;
		c->record = (struct store_sandbox){0};
	}
	command_free(c);
	return !r;
}

static bool find_process(struct request *q, struct terminal *t, const char *id)
{
	const struct output_spec spec = {.id = id, .cursor = UINT64_MAX, .cancel_fd = -1};
	struct sandbox_process process = {0};
	struct error err = {0};
	int r;

	t->sandbox = life_attach(q, &t->record);
	if (!t->sandbox)
		return false;
	r = process_is_watch(id) ? -ENOENT
				 : sandbox_process_output(t->sandbox, &spec, &process, &err);
	if (r == -ENOENT)
		answer_error(q, API_NOT_FOUND, NULL, "There is no such process.");
	else if (r)
		command_failure(q, &t->record, r, &err);
	else if (!process.cols)
		answer_error(q, API_NO_TERMINAL, NULL, "The process has no terminal.");
	else
		text_copy(t->process_id, sizeof(t->process_id), process.id);
	sandbox_process_fini(&process);
	return !q->status;
}

void terminal_open(struct request *q)
{
	const char *id = request_text(q->query, "processId", NULL);
	struct store_sandbox record = {0};
	char accept[WS_ACCEPT_SIZE];
	struct terminal *t;

	if (!life_find(q, &record))
		return;
	store_sandbox_fini(&record);
	if (!check_handshake(q, accept))
		return;
	t = calloc(1, sizeof(*t));
	if (!t) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	t->server = q->server;
	text_copy(t->request_id, sizeof(t->request_id), q->id);
	standing_take(q, &t->standing);
	if (!(id ? find_process(q, t, id) : start_process(q, t))) {
		terminal_free(t);
		return;
	}
	q->response = MHD_create_response_for_upgrade(upgraded, t);
	if (!q->response) {
		terminal_free(t);
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	/* until the connection is upgraded it is the request's, which may end before */
	q->upgrade = t;
	q->upgrade_free = terminal_free;
	q->status = MHD_HTTP_SWITCHING_PROTOCOLS;
	MHD_add_response_header(q->response, "Upgrade", "websocket");
	MHD_add_response_header(q->response, "Sec-WebSocket-Accept", accept);
}
