/* SPDX-License-Identifier: Apache-2.0 - fuzzes the server's side of a WebSocket: frames of a
 * hostile client, in pieces, with answers that it reads or does not. */
#include "api/ws.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* what a terminal does with a message: it answers, and ends what it cannot understand */
static void message(void *context, bool text, const uint8_t *bytes, size_t count)
{
	struct ws *w = *(struct ws **)context;

	check(count <= WS_MESSAGE_MOST);
	if (text)
		check(text_is_utf8((const char *)bytes, count));
	if (text && count && bytes[0] == '!')
		ws_close(w, 1008);
	else
		ws_put(w, false, bytes, count);
}

static void drain(int fd)
{
	char out[65536];

	while (recv(fd, out, sizeof(out), MSG_DONTWAIT) > 0)
		;
}

/* The first byte: the size of pieces, and whether the client reads. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct ws *w = NULL;
	const struct ws_events events = {.message = message, .context = &w};
	bool over = false;
	size_t piece, early;
	int pair[2];

	if (count < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return 0;
	piece = (size_t)(bytes[0] >> 1) + 1;
	early = bytes[1] < count - 2 ? bytes[1] : count - 2;
	w = ws_new(pair[0], &events, bytes + 2, early);
	check(w != NULL);
	for (size_t at = 2 + early; !over && (at < count || ws_has_early(w)); at += piece) {
		size_t n = at < count ? count - at : 0;

		n = n < piece ? n : piece;
		if (n && send(pair[1], bytes + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		if (ws_wants_read(w))
			ws_read(w);
		else if (ws_has_early(w))
			break;
		if (ws_wants_write(w))
			ws_write(w);
		if (bytes[0] & 1)
			drain(pair[1]);
		over = ws_is_over(w);
	}
	/* its end is seen, and stays */
	shutdown(pair[1], SHUT_RDWR);
	for (int i = 0; i < 64 && !ws_is_over(w); i++) {
		ws_read(w);
		ws_write(w);
	}
	check(ws_is_over(w) || !ws_wants_read(w));
	ws_free(w);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
