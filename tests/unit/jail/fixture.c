/* SPDX-License-Identifier: Apache-2.0 - a machine for jail tests, see fixture.h. */
#include "fixture.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

const char *fixture_inmate;

static void copy_inmate(const char *to)
{
	struct buffer program = {0};

	assert_int_equal(path_read(fixture_inmate, 16u << 20, &program, NULL), 0);
	assert_int_equal(
		path_write_whole(to, buffer_bytes(&program), buffer_length(&program), 0755, NULL),
		0);
	assert_int_equal(chmod(to, 0755), 0);
	buffer_fini(&program);
}

static void listen_at(struct fixture *f)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	text_copy(address.sun_path, sizeof(address.sun_path), f->socket);
	f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(f->listen_fd, 8), 0);
}

int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int ends[2];

	assert_non_null(f);
	text_copy(f->dir, sizeof(f->dir), "/tmp/sealmark-jail-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	/* closed to the machine's uid, as a home may be: what is shown comes by descriptor */
	assert_int_equal(chmod(f->dir, 0700), 0);
	text_format(f->image, sizeof(f->image), "%s/image", f->dir);
	text_format(f->program, sizeof(f->program), "%s/inmate", f->dir);
	text_format(f->socket, sizeof(f->socket), "%s/socket", f->dir);
	assert_int_equal(path_write_whole(f->image, "hello", 5, 0644, NULL), 0);
	copy_inmate(f->program);
	listen_at(f);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	f->console = ends[0];
	f->console_write = ends[1];

	text_copy(f->plan.program, sizeof(f->plan.program), f->program);
	text_copy(f->plan.args[0], sizeof(f->plan.args[0]), "inmate");
	f->plan.arg_count = 1;
	text_copy(f->plan.binds[0].from, sizeof(f->plan.binds[0].from), f->image);
	text_copy(f->plan.binds[0].to, sizeof(f->plan.binds[0].to), "/image");
	f->plan.bind_count = 1;
	f->plan.scratch_bytes = FIXTURE_MEMORY;
	f->plan.scratch_files = 16;
	f->plan.processes = FIXTURE_PROCESSES;
	f->spec = (struct jail_spec){
		.plan = &f->plan,
		.machine_uid = geteuid(),
		.monitor_uid = geteuid(),
		.machine_gid = getegid(),
		.monitor_gid = getegid(),
		.socket_path = f->socket,
		.socket_in_root = "/vsock",
		.channel_fd = -1,
		.console_fd = f->console_write,
		.cpu = -1,
	};
	if (geteuid() == 0) {
		/* the last slot: no sandbox of this host is likely to have it */
		f->spec.slot = JAIL_SLOTS - 1;
		f->spec.machine_uid = JAIL_UID_BASE + 2 * (JAIL_SLOTS - 1);
		f->spec.monitor_uid = f->spec.machine_uid + 1;
		f->spec.machine_gid = f->spec.machine_uid;
		f->spec.monitor_gid = f->spec.monitor_uid;
	}
	*state = f;
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	close(f->listen_fd);
	close(f->console);
	if (f->console_write >= 0)
		close(f->console_write);
	path_remove_tree(AT_FDCWD, f->dir, NULL);
	free(f);
	return 0;
}

void fixture_mode(struct fixture *f, const char *mode, const char *what)
{
	f->plan.arg_count = 1;
	if (mode)
		text_copy(f->plan.args[f->plan.arg_count++], sizeof(f->plan.args[0]), mode);
	if (what)
		text_copy(f->plan.args[f->plan.arg_count++], sizeof(f->plan.args[0]), what);
}

void fixture_start(struct fixture *f, struct jail_machine *m)
{
	struct error err = {0};

	if (jail_start(&f->spec, m, &err))
		fail_msg("%s", err.message);
	close(f->console_write);
	f->console_write = -1;
}

const char *fixture_read(struct fixture *f)
{
	static char text[65536];
	int64_t deadline = clock_deadline_ms(60000);
	struct pollfd p = {.fd = f->console, .events = POLLIN};
	size_t used = 0;

	while (used < sizeof(text) - 1) {
		ssize_t n;

		if (poll(&p, 1, clock_poll_ms(deadline)) <= 0)
			fail_msg("something still holds the console");
		n = read(f->console, text + used, sizeof(text) - 1 - used);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	text[used] = 0;
	return text;
}

void fixture_line(struct fixture *f, char *out, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && read(f->console, out + n, 1) == 1 && out[n] != '\n')
		n++;
	out[n] = 0;
}

int fixture_wait(struct jail_machine *m, struct rusage *usage)
{
	int st;

	assert_int_equal(wait4(m->pid, &st, 0, usage), m->pid);
	close(m->pidfd);
	if (m->life_fd >= 0)
		close(m->life_fd);
	assert_true(WIFEXITED(st));
	return WEXITSTATUS(st);
}

const char *fixture_run(struct fixture *f, const char *mode, const char *what, int *status)
{
	struct jail_machine m;
	const char *text;

	fixture_mode(f, mode, what);
	fixture_start(f, &m);
	text = fixture_read(f);
	*status = fixture_wait(&m, NULL);
	return text;
}

int fixture_groups(int argc, char **argv, int (*group)(void))
{
	int failed, st;
	pid_t pid;

	if (argc > 1)
		fixture_inmate = argv[1];
	failed = group();
	if (geteuid() != 0)
		return failed;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
			setresuid(NOBODY, NOBODY, NOBODY) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
			_exit(99);
		exit(group());
	}
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return 98;
	return failed + (WIFEXITED(st) ? WEXITSTATUS(st) : 97);
}
