/* SPDX-License-Identifier: Apache-2.0 - a WebSocket: the handshake here, frames by wslay, bytes and
 * TLS by libcurl. */
#include "cli/remote_websocket.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>

#define HEAD_MOST    16384u
#define MESSAGE_MOST (1u << 20)
#define SHAKE_MS     60000 /* a sandbox that sleeps must wake first */

struct websocket {
	struct remote *r;
	CURL *easy;
	wslay_event_context_ptr frames;
	struct websocket_sink sink;
	struct buffer early; /* came with the head of the answer */
	int fd;
	int refused; /* what the sink answered */
	bool over;
};

/* --- bytes --- */

static ssize_t get_bytes(struct websocket *w, void *out, size_t size)
{
	size_t n = buffer_length(&w->early);
	CURLcode code;

	if (n) {
		n = n < size ? n : size;
		memcpy(out, buffer_bytes(&w->early), n);
		buffer_consume(&w->early, n);
		return (ssize_t)n;
	}
	code = curl_easy_recv(w->easy, out, size, &n);
	if (code == CURLE_AGAIN)
		return -EAGAIN;
	return code == CURLE_OK ? (ssize_t)n : -EPIPE;
}

static ssize_t put_bytes(struct websocket *w, const void *bytes, size_t count)
{
	size_t n = 0;
	CURLcode code = curl_easy_send(w->easy, bytes, count, &n);

	if (code == CURLE_AGAIN)
		return -EAGAIN;
	return code == CURLE_OK ? (ssize_t)n : -EPIPE;
}

/* false: the time is over, or a signal came */
static bool wait_for(struct websocket *w, short events, int64_t deadline)
{
	struct pollfd p[] = {{w->fd, events, 0}, {remote_cancel_fd(w->r), POLLIN, 0}};
	int left = clock_poll_ms(deadline);

	return left && (poll(p, 2, left) >= 0 || errno == EINTR) && !p[1].revents;
}

/* --- frames --- */

static ssize_t on_recv(
	wslay_event_context_ptr frames, uint8_t *out, size_t size, int flags, void *context)
{
	struct websocket *w = context;
	ssize_t n = get_bytes(w, out, size);

	if (n > 0)
		return n;
	w->over = n != -EAGAIN;
	wslay_event_set_error(frames, w->over ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr frames, const uint8_t *bytes, size_t count,
	int flags, void *context)
{
	struct websocket *w = context;
	ssize_t n = put_bytes(w, bytes, count);

	if (n >= 0)
		return n;
	w->over = n != -EAGAIN;
	wslay_event_set_error(frames, w->over ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
	return -1;
}

static int on_mask(wslay_event_context_ptr frames, uint8_t *out, size_t count, void *context)
{
	id_random(out, count);
	return 0;
}

static void on_message(wslay_event_context_ptr frames,
	const struct wslay_event_on_msg_recv_arg *message, void *context)
{
	struct websocket *w = context;

	if (w->refused)
		return;
	if (message->opcode == WSLAY_TEXT_FRAME)
		w->refused = w->sink.on_text(
			w->sink.context, (const char *)message->msg, message->msg_length);
	else if (message->opcode == WSLAY_BINARY_FRAME)
		w->refused = w->sink.on_bytes(w->sink.context, message->msg, message->msg_length);
}

/* --- the handshake --- */

static int send_head(struct websocket *w, const char *path, const char *key, struct error *err)
{
	const struct remote_settings *s = remote_settings_of(w->r);
	const char *host = strstr(s->url, "://");
	int64_t deadline = clock_deadline_ms(SHAKE_MS);
	struct buffer head = {0};
	ssize_t n = 0;

	buffer_printf(&head,
		"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"
		"Authorization: Bearer %s\r\nUser-Agent: sealmark\r\n\r\n",
		path, host ? host + 3 : "localhost", key, s->key);
	while (buffer_length(&head) && n >= 0) {
		n = put_bytes(w, buffer_bytes(&head), buffer_length(&head));
		if (n > 0)
			buffer_consume(&head, (size_t)n);
		if (n == -EAGAIN)
			n = wait_for(w, POLLOUT, deadline) ? 0 : -EPIPE;
	}
	explicit_bzero(buffer_bytes(&head), buffer_length(&head));
	buffer_fini(&head);
	return n < 0 ? cli_ours(err, "%.200s: the connection was lost", s->url) : CLI_OK;
}

/* The head of the answer; what follows it is put into `early`. */
static int read_head(struct websocket *w, struct buffer *head, struct error *err)
{
	int64_t deadline = clock_deadline_ms(SHAKE_MS);
	char block[4096];
	size_t length;
	int status;

	buffer_init(head, HEAD_MOST);
	for (;;) {
		char *text = buffer_text(head), *end = text ? strstr(text, "\r\n\r\n") : NULL;
		ssize_t n = end ? 0 : get_bytes(w, block, sizeof(block));

		if (end) {
			length = (size_t)(end - text) + 4;
			break;
		}
		if (n == -EAGAIN && wait_for(w, POLLIN, deadline))
			continue;
		status = remote_interrupted(w->r);
		if (n <= 0 || buffer_add(head, block, (size_t)n))
			return status ? status
				      : cli_ours(err, "%.200s: no whole answer",
						remote_settings_of(w->r)->url);
	}
	if (buffer_add(&w->early, buffer_bytes(head) + length, buffer_length(head) - length))
		return cli_ours(err, "out of memory");
	buffer_bytes(head)[length] = 0; /* the terminator's place is there */
	return CLI_OK;
}

static const char *find_header(const char *head, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
		if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':')
			return line + 3 + length + strspn(line + 3 + length, " \t");
	}
	return NULL;
}

static bool accepts(const char *head, const char *key)
{
	static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	const char *given = find_header(head, "Sec-WebSocket-Accept");
	unsigned char digest[EVP_MAX_MD_SIZE];
	char text[128], *want;
	unsigned size = 0;
	bool same;

	text_format(text, sizeof(text), "%s%s", key, magic);
	if (!given || !EVP_Digest(text, strlen(text), digest, &size, EVP_sha1(), NULL))
		return false;
	want = remote_base64(digest, size);
	same = want && strncmp(given, want, strlen(want)) == 0 && given[strlen(want)] == '\r';
	free(want);
	return same;
}

/* A refusal has the API's error as its body, as far as it has come. */
static int refused(struct websocket *w, const char *head, struct error *err)
{
	const char *length = find_header(head, "Content-Length");
	size_t want = length ? (size_t)strtoul(length, NULL, 10) : 0;
	int64_t deadline = clock_deadline_ms(SHAKE_MS);
	long status = strncmp(head, "HTTP/1.1 ", 9) == 0 ? strtol(head + 9, NULL, 10) : 0;
	char block[4096];
	json_t *answer;
	int result;

	want = want < HEAD_MOST ? want : HEAD_MOST;
	while (buffer_length(&w->early) < want) {
		size_t n = 0;
		CURLcode code = curl_easy_recv(w->easy, block, sizeof(block), &n);

		if (code == CURLE_AGAIN && wait_for(w, POLLIN, deadline))
			continue;
		if (code != CURLE_OK || !n || buffer_add(&w->early, block, n))
			break;
	}
	answer = json_loadb((char *)buffer_bytes(&w->early), buffer_length(&w->early), 0, NULL);
	if (json_is_object(json_object_get(answer, "error")))
		result = remote_error(json_object_get(answer, "error"), status, NULL, err);
	else
		result = cli_ours(err, "%.200s: answered with status %ld instead of a terminal",
			remote_settings_of(w->r)->url, status);
	json_decref(answer);
	return result;
}

static int shake_hands(struct websocket *w, const char *path, struct error *err)
{
	struct buffer head = {0};
	unsigned char nonce[16];
	char *key;
	int status;

	id_random(nonce, sizeof(nonce));
	key = remote_base64(nonce, sizeof(nonce));
	if (!key)
		return cli_ours(err, "out of memory");
	status = send_head(w, path, key, err);
	if (!status)
		status = read_head(w, &head, err);
	if (!status && !text_starts(buffer_text(&head), "HTTP/1.1 101 "))
		status = refused(w, buffer_text(&head), err);
	else if (!status && !accepts(buffer_text(&head), key))
		status = cli_ours(err, "%.200s: its answer is not that of a WebSocket",
			remote_settings_of(w->r)->url);
	buffer_fini(&head);
	free(key);
	return status;
}

/* --- for the user --- */

int websocket_open(struct remote *r, const char *path, const struct websocket_sink *sink,
	struct websocket **out, struct error *err)
{
	static const struct wslay_event_callbacks callbacks = {.recv_callback = on_recv,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_msg_recv_callback = on_message};
	struct websocket *w = calloc(1, sizeof(*w));
	curl_socket_t fd = CURL_SOCKET_BAD;
	int status = CLI_OK;

	*out = NULL;
	if (!w)
		return cli_ours(err, "out of memory");
	w->r = r;
	w->sink = *sink;
	w->easy = remote_connect(r, err);
	if (!w->easy)
		status = CLI_OURS;
	if (!status && curl_easy_getinfo(w->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK)
		status = cli_ours(err, "the connection has no socket");
	w->fd = fd;
	if (!status)
		status = shake_hands(w, path, err);
	if (!status && wslay_event_context_client_init(&w->frames, &callbacks, w))
		status = cli_ours(err, "out of memory");
	if (status) {
		websocket_free(w);
		return status;
	}
	wslay_event_config_set_max_recv_msg_length(w->frames, MESSAGE_MOST);
	*out = w;
	return CLI_OK;
}

void websocket_free(struct websocket *w)
{
	if (!w)
		return;
	if (w->frames)
		wslay_event_context_free(w->frames);
	if (w->easy)
		curl_easy_cleanup(w->easy);
	buffer_fini(&w->early);
	free(w);
}

int websocket_fd(const struct websocket *w)
{
	return w->fd;
}

bool websocket_wants_write(const struct websocket *w)
{
	return wslay_event_want_write(w->frames);
}

size_t websocket_queued(const struct websocket *w)
{
	return wslay_event_get_queued_msg_length(w->frames);
}

int websocket_send(struct websocket *w, bool text, const void *bytes, size_t count)
{
	const struct wslay_event_msg message = {
		text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, bytes, count};

	return wslay_event_queue_msg(w->frames, &message) ? -EPIPE : 0;
}

int websocket_close(struct websocket *w)
{
	wslay_event_queue_close(w->frames, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
	return websocket_work(w);
}

int websocket_work(struct websocket *w)
{
	if (wslay_event_recv(w->frames) && !w->refused)
		w->over = true;
	if (wslay_event_send(w->frames) && !w->refused)
		w->over = true;
	if (w->refused)
		return w->refused;
	/* after a breach of the protocol no more is read */
	return w->over || !wslay_event_get_read_enabled(w->frames) ? -EPIPE : 0;
}
