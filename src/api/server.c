/* SPDX-License-Identifier: Apache-2.0 - the HTTP server: listens, gathers requests, dispatches. */
#include "api/people.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS_MOST 1024
#define ADDRESS_MOST     768       /* of them: one address leaves some to others */
#define STACK_BYTES      (1 << 20) /* of a connection's thread */
#define HEADERS_MOST     65536
#define STRANGER_MOST    65536       /* of a body that comes without a key */
#define DRAIN_MOST       (64u << 20) /* of a body that is too large: then it is cut off */

void api_changed(struct api_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->changes++;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	builds_look(server);
}

void api_active(struct api_server *server, struct MHD_Connection *connection)
{
	/* from none to some: the time is counted from now */
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
	MHD_set_connection_option(
		connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)server->options.idle_s);
}

/* --- a request --- */

static bool is_stranger(const struct request *q)
{
	return q->route->flags & ROUTE_OPEN;
}

static void request_free(struct request *q)
{
	if (q->share[0])
		rate_leave(is_stranger(q) ? q->server->strangers : q->server->rate, q->share);
	if (q->response)
		MHD_destroy_response(q->response);
	if (q->upgrade)
		q->upgrade_free(q->upgrade);
	body_done(q);
	json_decref(q->json);
	json_decref(q->query);
	json_decref(q->answer);
	buffer_fini(&q->body);
	free(q->path);
	free(q);
}

static void find_address(struct request *q)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *from = info ? info->client_addr : NULL;
	char text[64] = "";

	if (from && (from->sa_family == AF_INET || from->sa_family == AF_INET6) &&
		!getnameinfo(from,
			from->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						   : sizeof(struct sockaddr_in6),
			text, sizeof(text), NULL, 0, NI_NUMERICHOST))
		text_copy(q->address, sizeof(q->address),
			text_starts(text, "::ffff:") ? text + 7 : text);
	else
		text_copy(q->address, sizeof(q->address), "unix");
}

/* Requests have their share by key; what is open, by address. */
static bool enter(struct request *q)
{
	char group[64];

	if (!is_stranger(q)) {
		text_copy(q->share, sizeof(q->share), q->key.id);
	} else {
		origin_group(q->address, group, sizeof(group));
		text_copy(q->share, sizeof(q->share), group);
	}
	if (rate_enter(is_stranger(q) ? q->server->strangers : q->server->rate, q->share))
		return true;
	q->share[0] = 0;
	return false;
}

static struct request *request_new(struct api_server *server, struct MHD_Connection *connection,
	const char *method, const char *path)
{
	struct request *q = calloc(1, sizeof(*q));

	if (!q || !(q->path = strdup(path))) {
		free(q);
		return NULL;
	}
	q->server = server;
	q->connection = connection;
	q->method = method; /* lives as long as the request */
	q->retry_ms = -1;
	id_uuid(q->id);
	find_address(q);
	return q;
}

static uint64_t body_most(const struct request *q)
{
	if (q->route && q->route->bytes_most)
		return q->route->bytes_most;
	return q->route && is_stranger(q) ? STRANGER_MOST : API_JSON_MOST;
}

/* what its head says that the body has, or what it may have */
static uint64_t announced(const struct request *q)
{
	const char *length =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Content-Length");
	uint64_t size;

	return length && text_u64(length, &size) == 0 ? size : body_most(q);
}

static void answer_too_large(struct request *q)
{
	answer_error(q, API_TOO_LARGE, NULL, "The body may have at most %llu bytes.",
		(unsigned long long)body_most(q));
}

/* What is known from the headers alone: the route, the key, the size of the body. */
static void admit(struct request *q)
{
	const char *length =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Content-Length");
	uint64_t size = 0;
	int r = route_find(q->method, q->path, &q->route, q->params);

	if (r == -ENOENT && strcmp(q->path, "/v1") && !text_starts(q->path, "/v1/") &&
		!text_starts(q->path, "/api/") && strcmp(q->method, "GET") == 0) {
		q->route = &console_route;
		r = 0;
	}
	if (!framing_is_clear(q))
		q->cut = true;
	else if (r == -EINVAL)
		answer_error(q, API_METHOD_NOT_ALLOWED, NULL, "%s has other methods.", q->path);
	else if (r)
		answer_error(q, API_ROUTE_NOT_FOUND, NULL, "There is no %s.", q->path);
	else if (q->route->flags & ROUTE_OPEN || key_check(q))
		if (length && (text_u64(length, &size) || size > body_most(q)))
			answer_too_large(q);
	q->refused = q->status != 0;
}

static enum MHD_Result add_value(void *context, enum MHD_ValueKind kind, const char *name,
	size_t name_size, const char *value, size_t value_size)
{
	json_t *given = context, *list = json_object_get(given, name);
	json_t *text = json_stringn(value ? value : "", value_size);

	if (!list) {
		list = json_array();
		if (json_object_set_new(given, name, list)) {
			list = NULL; /* a name that is no UTF-8 */
			json_decref(text);
		}
	}
	if (!list || json_array_append_new(list, text)) {
		json_object_set_new(given, "(not UTF-8)", json_array());
		json_array_append_new(json_object_get(given, "(not UTF-8)"), json_string(""));
	}
	return MHD_YES;
}

static void take_query(struct request *q, json_t *issues)
{
	json_t *given = json_object();

	q->query = json_object();
	MHD_get_connection_values_n(q->connection, MHD_GET_ARGUMENT_KIND, add_value, given);
	validate_query(q->route->query, given, q->query, issues);
	json_decref(given);
}

static void take_json(struct request *q, json_t *issues)
{
	json_error_t where;

	if (buffer_length(&q->body) == 0) {
		q->json = json_object();
	} else if (!body_is_modest(buffer_bytes(&q->body), buffer_length(&q->body))) {
		json_array_append_new(
			issues, json_pack("{ss ss}", "path", "", "message", "has too many values"));
		return;
	} else {
		q->json = json_loadb((const char *)buffer_bytes(&q->body), buffer_length(&q->body),
			JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
		if (!q->json) {
			json_array_append_new(
				issues, json_pack("{ss so}", "path", "", "message",
						json_sprintf("is not JSON: %s (line %d)",
							where.text, where.line)));
			return;
		}
	}
	validate_object(q->route->body, q->json, "", issues);
}

static void answer_issues(struct request *q, json_t *issues)
{
	const json_t *first = json_array_get(issues, 0);
	const char *path = request_text(first, "path", "");

	answer_error(q, API_INVALID_REQUEST, json_pack("{sO}", "issues", issues), "%s %s%s.",
		path[0] ? path : "The body", request_text(first, "message", "is not valid"),
		json_array_size(issues) > 1 ? " (and more, in details.issues)" : "");
}

/* Prefer: wait=N, in seconds */
static void take_wait(struct request *q)
{
	const char *prefer = MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Prefer");
	const char *wait = prefer ? strstr(prefer, "wait=") : NULL;

	if (!wait)
		return;
	for (wait += 5; *wait >= '0' && *wait <= '9' && q->wait_ms < API_WAIT_MOST; wait++)
		q->wait_ms = 10 * q->wait_ms + (*wait - '0');
	q->wait_ms = 1000 * (q->wait_ms > API_WAIT_MOST ? API_WAIT_MOST : q->wait_ms);
}

static void dispatch(struct request *q)
{
	json_t *issues = json_array();

	if (!q->route->handle) {
		answer_error(q, API_UNAVAILABLE, NULL, "%s %s: not available on this server.",
			q->method, q->route->path);
	} else if (!enter(q)) {
		answer_error(q, API_RATE_LIMITED, NULL,
			is_stranger(q) ? "Too many requests from this address."
				       : "Too many requests with this key.");
	} else if (q->route->flags & ROUTE_PAGE) {
		q->route->handle(q);
	} else {
		take_wait(q);
		take_query(q, issues);
		if (q->route->body)
			take_json(q, issues);
		if (json_array_size(issues)) {
			answer_issues(q, issues);
		} else if (replay_begin(q)) {
			q->route->handle(q);
			replay_end(q);
		}
	}
	json_decref(issues);
	if (!q->status)
		answer_error(q, API_INTERNAL, NULL, "No answer.");
}

/* false: the connection is given up */
static bool take_body(struct request *q, const char *bytes, size_t count)
{
	if (!q->refused && buffer_length(&q->body) + count > body_most(q)) {
		buffer_clear(&q->body);
		answer_too_large(q);
		q->refused = true;
	}
	if (!q->refused && !body_grows(q, buffer_length(&q->body) + count, announced(q))) {
		buffer_clear(&q->body);
		answer_error(q, API_BUSY, NULL, "Too many large requests are under way.");
		q->refused = true;
	}
	if (q->refused) {
		q->drained += count;
		return q->drained <= DRAIN_MOST;
	}
	return buffer_add(&q->body, bytes, count) == 0;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	struct request *q = *state;
	size_t count = *upload_size;

	if (!q) {
		q = request_new(context, connection, method, url);
		if (!q)
			return MHD_NO;
		*state = q;
		admit(q);
		/* before a large body is sent for nothing, or one is read that is none */
		if (q->cut || (q->refused && q->status == 413))
			return answer_send(q) ? MHD_YES : MHD_NO;
		return MHD_YES;
	}
	if (count) {
		*upload_size = 0;
		return take_body(q, upload, count) ? MHD_YES : MHD_NO;
	}
	if (!q->refused) {
		dispatch(q);
		api_active(q->server, connection); /* what took long was here, not the client */
	}
	return answer_send(q) ? MHD_YES : MHD_NO;
}

static void completed(void *context, struct MHD_Connection *connection, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct request *q = *state;

	if (q) {
		log_debug("%s %s %s: %d", q->id, q->method, q->path, q->status);
		request_free(q);
	}
	*state = NULL;
}

static void complain(void *context, const char *format, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void complain(void *context, const char *format, va_list ap)
{
	char text[400];

	vsnprintf(text, sizeof(text), format, ap);
	text[strcspn(text, "\n")] = 0;
	log_info("http: %s", text);
}

/* libmicrohttpd ends a value at a zero byte, so that "/a%00b" would be "/a": it becomes a byte that
 * no text holds, and is refused with it. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
	for (char *p = strstr(text, "%00"); p; p = strstr(p, "%00"))
		p[1] = p[2] = 'f';
	return MHD_http_unescape(text);
}

int server_listen(struct api_server *server, int fd, struct error *err)
{
	const bool tls = server->cert != NULL;
	struct MHD_OptionItem options[] = {
		{MHD_OPTION_LISTEN_SOCKET, fd, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MOST, NULL},
		{MHD_OPTION_PER_IP_CONNECTION_LIMIT, ADDRESS_MOST, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, server->options.idle_s, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADERS_MOST, NULL},
		{MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, NULL},
		{MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
		{MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)unescape, NULL},
		{MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)completed, server},
		{tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, server->cert},
		{tls ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, server->key},
		{MHD_OPTION_END, 0, NULL},
	};

	server->daemon =
		MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
					 MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG |
					 MHD_ALLOW_UPGRADE | (tls ? MHD_USE_TLS : 0u),
			0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, complain, NULL,
			MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (!server->daemon)
		return tls ? error_set(err, -EINVAL,
				     "the HTTPS server does not start; is %s the key of %s?",
				     server->options.tls_key, server->options.tls_cert)
			   : error_set(err, -EIO, "the HTTP server does not start");
	return 0;
}
