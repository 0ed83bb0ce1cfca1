/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox shell: a terminal in a sandbox. */
#include "cli/remote_websocket.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/*
 * Our terminal is raw while this lasts: every key, Ctrl-C too, goes to the sandbox. It is put back
 * on every way out, also when a signal ends us; what only kill -9 prevents, `reset` repairs. As the
 * keyboard belongs to the other side, one sequence is ours: "~." at the begin of a line leaves.
 */
#define QUEUE_MOST 65536u /* keys on their way; then the keyboard waits */

struct shell_options {
	struct remote_options remote;
	const char *cwd, *user, *process;
};

struct shell {
	struct remote *r;
	struct websocket *socket;
	struct error *err;
	bool is_tty, ready, ended;
	int status;
	enum { AT_BEGIN, AT_TILDE, ELSEWHERE } line; /* for "~." */
};

/* --- our terminal --- */

static struct termios was;
static bool is_raw;

static void restore(void)
{
	if (is_raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &was); /* without waiting for a stopped screen */
	is_raw = false;
}

static void make_raw(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &was))
		return;
	raw = was;
	cfmakeraw(&raw);
	is_raw = true;
	atexit(restore);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void window_size(int *cols, int *rows)
{
	struct winsize size;

	*cols = 80;
	*rows = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
		*cols = size.ws_col < 4096 ? size.ws_col : 4096;
		*rows = size.ws_row < 4096 ? size.ws_row : 4096;
	}
}

static int send_size(struct shell *s)
{
	char text[96];
	int cols, rows;

	window_size(&cols, &rows);
	text_format(
		text, sizeof(text), "{\"type\":\"resize\",\"cols\":%d,\"rows\":%d}", cols, rows);
	return websocket_send(s->socket, true, text, strlen(text));
}

/* --- what comes --- */

static int on_bytes(void *context, const void *bytes, size_t count)
{
	struct shell *s = context;

	return cli_write_out(STDOUT_FILENO, remote_cancel_fd(s->r), bytes, count);
}

static int on_text(void *context, const char *text, size_t count)
{
	struct shell *s = context;
	json_t *event = json_loadb(text, count, 0, NULL);
	const char *type = json_text(event, "type");
	const json_t *code = json_object_get(event, "exitCode");

	if (strcmp(type, "ready") == 0) {
		s->ready = true;
	} else if (strcmp(type, "exit") == 0) {
		s->ended = true;
		s->status = json_is_integer(code) ? (int)(json_integer_value(code) & 255)
						  : 128 + SIGKILL;
	} else if (json_object_get(event, "error")) {
		s->ended = true;
		s->status = remote_error(json_object_get(event, "error"),
			json_number(json_object_get(event, "error"), "status"), "shell", s->err);
	}
	json_decref(event);
	return 0;
}

/* --- what is typed --- */

/* true: "~." was typed; the tilde itself is held back until what follows is known */
static bool leaves(struct shell *s, const char *keys, size_t count, struct buffer *out)
{
	for (size_t i = 0; i < count; i++) {
		if (s->line == AT_TILDE) {
			if (keys[i] == '.')
				return true;
			buffer_add(out, "~", keys[i] == '~' ? 0 : 1);
			s->line = ELSEWHERE;
		} else if (s->line == AT_BEGIN && keys[i] == '~' && s->is_tty) {
			s->line = AT_TILDE;
			continue;
		}
		s->line = keys[i] == '\r' || keys[i] == '\n' ? AT_BEGIN : ELSEWHERE;
		buffer_add(out, keys + i, 1);
	}
	return false;
}

/* 1: no more will come; -EINTR: leave */
static int take_keys(struct shell *s)
{
	struct buffer out = {0};
	char keys[4096];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	int r = 0;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : 1;
	/* the end of a file is what Ctrl-D is on a keyboard */
	if (n == 0)
		return websocket_send(s->socket, false, "\004", 1) ? -EPIPE : 1;
	if (leaves(s, keys, (size_t)n, &out))
		r = -EINTR;
	else if (buffer_length(&out))
		r = websocket_send(s->socket, false, buffer_bytes(&out), buffer_length(&out));
	buffer_fini(&out);
	return r;
}

/* --- both, until one ends --- */

static int resize_fd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int on_resize(struct shell *s, int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	return send_size(s);
}

static int session(struct shell *s)
{
	cleanup_close int winch = resize_fd();
	bool keys = true;
	int r = send_size(s);

	while (!r) {
		bool room = keys && websocket_queued(s->socket) < QUEUE_MOST;
		struct pollfd p[] = {
			{websocket_fd(s->socket),
				(short)(POLLIN | (websocket_wants_write(s->socket) ? POLLOUT : 0)),
				0},
			{remote_cancel_fd(s->r), POLLIN, 0},
			{winch, POLLIN, 0},
			{room ? STDIN_FILENO : -1, POLLIN, 0},
		};

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return -errno;
		if (p[1].revents)
			return -EINTR;
		if (p[2].revents)
			r = on_resize(s, winch);
		if (!r && p[3].revents) {
			r = take_keys(s);
			keys = r != 1;
			r = r == 1 ? 0 : r;
		}
		if (!r)
			r = websocket_work(s->socket);
		if (s->ended)
			return 0;
	}
	return r;
}

static int terminal_path(const struct shell_options *o, struct remote *r,
	const char *const *operands, struct buffer *path, struct error *err)
{
	int status = remote_sandbox_path(r, operands[0], "/terminal", path, err), cols, rows;
	char number[16];

	window_size(&cols, &rows);
	text_format(number, sizeof(number), "%d", cols);
	remote_query(path, "cols", number);
	text_format(number, sizeof(number), "%d", rows);
	remote_query(path, "rows", number);
	remote_query(path, "command", operands[1]);
	remote_query(path, "cwd", o->cwd);
	remote_query(path, "user", o->user);
	remote_query(path, "processId", o->process);
	return status;
}

static int finish(struct shell *s, int r, struct error *err)
{
	int signal = remote_interrupted(s->r);

	if (s->ended)
		return s->status;
	if (signal)
		return signal;
	if (r == -EINTR)
		return 128 + SIGINT; /* "~." */
	if (r && r != -EPIPE)
		return remote_write_failure(s->r, r, err);
	return cli_ours(err, "the connection to the terminal was lost");
}

static int run_shell(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct shell_options *o = options;
	struct shell s = {.err = err, .is_tty = isatty(STDIN_FILENO)};
	const struct websocket_sink sink = {on_text, on_bytes, &s};
	struct buffer path = {0};
	int status = remote_open(&o->remote, &s.r, err), r;

	if (!status)
		status = terminal_path(o, s.r, operands, &path, err);
	if (!status)
		status = websocket_open(s.r, buffer_text(&path), &sink, &s.socket, err);
	buffer_fini(&path);
	if (!status) {
		if (s.is_tty)
			make_raw();
		r = session(&s);
		if (!s.ended)
			websocket_close(s.socket);
		restore();
		status = finish(&s, r, err);
	}
	websocket_free(s.socket);
	remote_free(s.r);
	return status;
}

#define FIELD(name) offsetof(struct shell_options, name)
static const struct cli_option options[] = {
	CLI_OPTION("cwd", 'w', "DIR", "directory it starts in (default: the image's)", "--cwd /tmp",
		cli_text, FIELD(cwd)),
	CLI_OPTION("user", 'u', "USER", "sandbox or root (default: the sandbox's)", "--user root",
		cli_text, FIELD(user)),
	CLI_OPTION("process", 'p', "ID", "the terminal of this process, started before",
		"--process ID", cli_text, FIELD(process)),
	REMOTE_SERVER_OPTIONS(struct shell_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_shell = {
	.name = "sandbox shell",
	.summary = "Open a terminal in a sandbox",
	.operands = "BOX [COMMAND]",
	.text = "A shell, or COMMAND under a shell. Every key goes to the sandbox, Ctrl-C too;\n"
		"~. at the begin of a line leaves. The exit status is that of the shell.",
	.examples = "sealmark sandbox shell grader\nsealmark sandbox shell grader top\n",
	.options = options,
	.size = sizeof(struct shell_options),
	.least = 1,
	.most = 2,
	.run = run_shell,
};
