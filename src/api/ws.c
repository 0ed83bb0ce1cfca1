/* SPDX-License-Identifier: Apache-2.0 - WebSockets by libwslay, see ws.h. */
#include "api/ws.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#define KEY_LENGTH 24     /* of 16 bytes in base64 */
#define READ_MOST  65536u /* bytes of one turn: what a flood of small frames leads to is bounded */
#define MAGIC      "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, section 1.3 */

struct ws {
	wslay_event_context_ptr wslay;
	struct ws_events events;
	int fd;
	uint8_t *early;
	size_t early_at, early_count;
	size_t budget; /* of this turn */
	uint16_t
		code; /* close with it once all is sent: libwslay would send it first; 0: not yet */
	bool broken;  /* cut off, or against the rules */
};

int ws_accept(const char *key, char out[WS_ACCEPT_SIZE])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char digest[EVP_MAX_MD_SIZE], text[KEY_LENGTH + sizeof(MAGIC)];
	unsigned size = 0;

	if (strlen(key) != KEY_LENGTH || strspn(key, letters) != KEY_LENGTH - 2 ||
		strcmp(key + KEY_LENGTH - 2, "==") != 0)
		return -EINVAL;
	memcpy(text, key, KEY_LENGTH);
	memcpy(text + KEY_LENGTH, MAGIC, sizeof(MAGIC));
	if (!EVP_Digest(text, KEY_LENGTH + sizeof(MAGIC) - 1, digest, &size, EVP_sha1(), NULL))
		return -ENOMEM;
	EVP_EncodeBlock((unsigned char *)out, digest, (int)size);
	return 0;
}

static ssize_t take_early(struct ws *w, uint8_t *out, size_t most)
{
	size_t n = w->early_count - w->early_at;

	n = n < most ? n : most;
	memcpy(out, w->early + w->early_at, n);
	w->early_at += n;
	return (ssize_t)n;
}

static ssize_t receive(
	wslay_event_context_ptr wslay, uint8_t *out, size_t most, int flags, void *context)
{
	struct ws *w = context;
	ssize_t n;

	most = most < w->budget ? most : w->budget;
	if (!most) {
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (ws_has_early(w)) {
		n = take_early(w, out, most);
	} else {
		do {
			n = recv(w->fd, out, most, MSG_DONTWAIT);
		} while (n < 0 && errno == EINTR);
	}
	if (n <= 0) {
		w->broken |= n == 0 || errno != EAGAIN;
		wslay_event_set_error(
			wslay, w->broken ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	w->budget -= (size_t)n;
	return n;
}

static ssize_t transmit(
	wslay_event_context_ptr wslay, const uint8_t *bytes, size_t count, int flags, void *context)
{
	struct ws *w = context;
	ssize_t n;

	do {
		n = send(w->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		w->broken |= errno != EAGAIN;
		wslay_event_set_error(
			wslay, w->broken ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
	}
	return n;
}

static void message(
	wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *arg, void *context)
{
	struct ws *w = context;

	if (arg->opcode == WSLAY_TEXT_FRAME || arg->opcode == WSLAY_BINARY_FRAME)
		w->events.message(w->events.context, arg->opcode == WSLAY_TEXT_FRAME, arg->msg,
			arg->msg_length);
}

struct ws *ws_new(int fd, const struct ws_events *events, const void *early, size_t count)
{
	static const struct wslay_event_callbacks callbacks = {.recv_callback = receive,
		.send_callback = transmit,
		.on_msg_recv_callback = message};
	struct ws *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = fd;
	w->events = *events;
	w->early = malloc(count + 1);
	if (!w->early || wslay_event_context_server_init(&w->wslay, &callbacks, w)) {
		free(w->early);
		free(w);
		return NULL;
	}
	if (count)
		memcpy(w->early, early, count);
	w->early_count = count;
	wslay_event_config_set_max_recv_msg_length(w->wslay, WS_MESSAGE_MOST);
	return w;
}

void ws_free(struct ws *w)
{
	if (!w)
		return;
	wslay_event_context_free(w->wslay);
	free(w->early);
	free(w);
}

void ws_read(struct ws *w)
{
	w->budget = READ_MOST;
	/* against the rules: the end that libwslay has queued still goes out */
	if (wslay_event_recv(w->wslay) == WSLAY_ERR_NOMEM)
		w->broken = true;
}

bool ws_has_early(const struct ws *w)
{
	return w->early_at < w->early_count;
}

void ws_write(struct ws *w)
{
	if (wslay_event_send(w->wslay))
		w->broken = true;
	if (w->broken || !w->code || wslay_event_want_write(w->wslay))
		return;
	if (wslay_event_queue_close(w->wslay, w->code, NULL, 0) || wslay_event_send(w->wslay))
		w->broken = true;
	w->code = 0;
}

bool ws_wants_read(const struct ws *w)
{
	return !w->broken && wslay_event_want_read(w->wslay) &&
	       wslay_event_get_queued_msg_length(w->wslay) < WS_BACKLOG_MOST &&
	       wslay_event_get_queued_msg_count(w->wslay) < READ_MOST / 4;
}

bool ws_wants_write(const struct ws *w)
{
	return !w->broken && (w->code || wslay_event_want_write(w->wslay));
}

static int put(struct ws *w, uint8_t opcode, const void *bytes, size_t count)
{
	const struct wslay_event_msg m = {.opcode = opcode, .msg = bytes, .msg_length = count};
	int r;

	if (w->code)
		return -EPIPE;
	r = wslay_event_queue_msg(w->wslay, &m);
	return r == 0 ? 0 : r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE;
}

int ws_put(struct ws *w, bool text, const void *bytes, size_t count)
{
	return put(w, text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, bytes, count);
}

int ws_ping(struct ws *w)
{
	return put(w, WSLAY_PING, NULL, 0);
}

void ws_close(struct ws *w, uint16_t code)
{
	if (!w->code && !wslay_event_get_close_sent(w->wslay))
		w->code = code;
}

bool ws_is_closing(const struct ws *w)
{
	return w->code || wslay_event_get_close_sent(w->wslay);
}

bool ws_is_over(const struct ws *w)
{
	return w->broken ||
	       (!w->code && !wslay_event_want_read(w->wslay) && !wslay_event_want_write(w->wslay));
}

bool ws_was_closed(const struct ws *w)
{
	return wslay_event_get_close_received(w->wslay) != 0;
}
