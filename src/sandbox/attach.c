/* SPDX-License-Identifier: Apache-2.0 - detached sandboxes: found again, and what is left of them.
 */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WORD_MOST         16384
#define ATTACHED_PATIENCE 30000

/* An id names a file below home: it must not be able to name anything else. */
static int check_id(const char *id, struct error *err)
{
	for (const char *p = id; *p; p++) {
		if (!isalnum((unsigned char)*p) && *p != '-')
			return error_set(err, -ENOENT, "no sandbox has such an id");
	}
	return *id && strlen(id) < 40 ? 0 : error_set(err, -ENOENT, "no sandbox has such an id");
}

static int place(char *out, size_t size, const char *home, const char *id, const char *format,
	struct error *err)
{
	char own[PATH_MAX];
	int r = check_id(id, err);

	if (!r && !home)
		r = path_home(own, sizeof(own), err);
	if (r)
		return r;
	r = text_format(out, size, "%s/%s/%s", home ? home : own, format, id);
	return r ? error_set(err, r, "home is too long") : 0;
}

/* It says nothing of the sandbox: this process or its host has no more to look with. */
static bool is_blindness(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ENOLCK;
}

/* A keeper holds the lock of its directory as long as it lives. Negative: who knows. */
static int keeper_lives(const char *home, const char *id)
{
	char path[PATH_MAX];

	if (place(path, sizeof(path), home, id, "sandboxes", NULL))
		return 0;
	cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return is_blindness(-errno) ? -errno : 0;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0)
		return 0;
	return is_blindness(-errno) ? -errno : 1;
}

static int connect_to(struct sandbox *s, const char *home, const char *id, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	int r = place(path, sizeof(path), home, id, "sandboxes", err);

	if (r)
		return r == -ENOENT ? -ENODEV : r;
	cleanup_close int directory = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (directory < 0)
		return errno == ENOENT ? error_set(err, -ENODEV, "the sandbox is over")
				       : error_sys(err, errno, "%s", path);
	/* by its descriptor, as a socket's address is short */
	text_format(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/control.sock",
		directory);
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return error_sys(err, errno, "socket");
	setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	if (connect(s->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return 0;
	if (errno == ENOENT || errno == ECONNREFUSED)
		return error_set(err, -ENODEV, "the sandbox is over");
	return error_sys(err, errno, "cannot reach the sandbox's monitor");
}

int sandbox_attach(const char *home, const char *id, int64_t timeout_ms, struct sandbox **out,
	struct error *err)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	int r;

	*out = NULL;
	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->fd = -1;
	s->patience_ms = ATTACHED_PATIENCE;
	r = connect_to(s, home, id, err);
	if (!r)
		r = connection_ready(s, clock_deadline_ms(timeout_ms), err);
	if (r) {
		sandbox_free(s);
		return r;
	}
	*out = s;
	return 0;
}

static int read_word(const char *home, const char *id, struct sandbox_end *end)
{
	struct buffer bytes = {0};
	struct wire_frame f;
	char path[PATH_MAX];
	long n = -ENOENT;
	int r = place(path, sizeof(path), home, id, "ended", NULL);

	if (!r)
		r = path_read(path, WORD_MOST, &bytes, NULL);
	if (!r)
		n = wire_frame_get(buffer_bytes(&bytes), buffer_length(&bytes), &f, NULL);
	if (!r && (n <= 0 || wire_check(&f) || connection_end(&f, end)))
		r = -EPROTO;
	buffer_fini(&bytes);
	return r;
}

int sandbox_look(const char *home, const char *id, struct sandbox_end *end, struct error *err)
{
	char path[PATH_MAX];
	int r = check_id(id, err), lives;

	*end = (struct sandbox_end){0};
	if (r)
		return r;
	/* a keeper that has left word only clears up; one that has just gone left it before */
	r = read_word(home, id, end);
	lives = r ? keeper_lives(home, id) : 0;
	if (lives > 0)
		return 1;
	if (r && !lives)
		r = read_word(home, id, end);
	if (lives < 0 || is_blindness(r))
		return error_sys(err, lives < 0 ? lives : r, "cannot look for sandbox %s", id);
	if (r == -ENOENT && place(path, sizeof(path), home, id, "sandboxes", NULL) == 0 &&
		access(path, F_OK) != 0)
		return error_set(err, -ENOENT, "there is no trace of the sandbox");
	if (r) {
		end->reason = SANDBOX_STOPPED_MONITOR_LOST;
		text_copy(end->detail, sizeof(end->detail), "its keeper died without a word");
	}
	return 0;
}

void sandbox_forget(const char *home, const char *id)
{
	char path[PATH_MAX];

	if (place(path, sizeof(path), home, id, "ended", NULL) == 0)
		unlink(path);
}
