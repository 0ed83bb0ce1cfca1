/* SPDX-License-Identifier: Apache-2.0 - create, watch and stop a sandbox through its monitor. */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "monitor/config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_MEMORY_MIB 512
#define DEFAULT_DISK_MIB   128
#define DEFAULT_FILES      65536
#define DEFAULT_LEASE_MS   3600000
#define DEFAULT_START_MS   20000
#define DEFAULT_PATIENCE   30000
#define REAP_MS            30000
#define SOCKET_BYTES       (1 << 20)

extern char **environ;

static int64_t patience(const struct sandbox_spec *spec)
{
	return spec->patience_ms > 0 ? spec->patience_ms : DEFAULT_PATIENCE;
}

static json_t *config_object(
	const struct sandbox_spec *spec, const char *id, const char *home, const char *initrd)
{
	return json_pack("{ss ss ss ss* ss* ss* ss* ss* ss si si si sI sI sI si si}", "id", id,
		"engine", spec->engine ? spec->engine : "auto", "home", home, "image", spec->image,
		"kernel", spec->kernel, "initrd", initrd, "script", spec->script, "network",
		spec->network, "require_isolation",
		spec->require_isolation ? spec->require_isolation : "process", "memory_mib",
		spec->memory_mib ? (int)spec->memory_mib : DEFAULT_MEMORY_MIB, "disk_mib",
		spec->disk_mib ? (int)spec->disk_mib : DEFAULT_DISK_MIB, "files_most",
		spec->files_most ? (int)spec->files_most : DEFAULT_FILES, "lease_ms",
		(json_int_t)(spec->lease_ms > 0 ? spec->lease_ms : DEFAULT_LEASE_MS),
		"start_timeout_ms",
		(json_int_t)(spec->start_timeout_ms > 0 ? spec->start_timeout_ms
							: DEFAULT_START_MS),
		"patience_ms", (json_int_t)patience(spec), "cpu", spec->cpu, "detached",
		spec->detached ? 1 : 0);
}

/* a pipe that already holds the configuration; its read end */
static int config_pipe(const struct sandbox_spec *spec, const char *id, struct error *err)
{
	char home[PATH_MAX], initrd[PATH_MAX] = "";
	bool fake = spec->engine && strcmp(spec->engine, "fake") == 0;
	json_t *object;
	int pair[2], r;

	if (spec->home)
		r = text_copy(home, sizeof(home), spec->home);
	else
		r = path_home(home, sizeof(home), err);
	if (!r && !fake)
		r = sandbox_helper_path("agent.cpio", initrd, sizeof(initrd), err);
	if (r)
		return r;
	object = config_object(spec, id, home, initrd[0] ? initrd : NULL);
	cleanup_free char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	if (!text)
		return error_set(err, -EINVAL, "the sandbox's paths must be UTF-8");
	if (strlen(text) >= PIPE_BUF * 8)
		return error_set(err, -ENAMETOOLONG, "the sandbox's paths are too long");
	if (pipe2(pair, O_CLOEXEC))
		return error_sys(err, errno, "pipe");
	r = path_write_fd(pair[1], text, strlen(text));
	close(pair[1]);
	if (r) {
		close(pair[0]);
		return error_sys(err, r, "pipe");
	}
	return pair[0];
}

/* away from the low numbers, which posix_spawn's actions fill one after the other */
static int move_up(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 16);

	close(fd);
	return high;
}

static void wait_child(struct sandbox *s)
{
	int status;

	while (s->keeper > 0) {
		if (waitpid(s->keeper, &status, 0) == s->keeper || errno != EINTR)
			s->keeper = 0;
	}
}

static int spawn_monitor(struct sandbox *s, int config_fd, bool detached, struct error *err)
{
	char program[PATH_MAX];
	char *argv[] = {program, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int pair[2], r;

	cleanup_close int config = move_up(config_fd);
	r = sandbox_helper_path("sealmark-monitor", program, sizeof(program), err);
	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return error_sys(err, errno, "socketpair");
	s->fd = pair[0];
	cleanup_close int theirs = move_up(pair[1]);
	if (config < 0 || theirs < 0)
		return error_set(err, -EMFILE, "too many open files");
	for (size_t i = 0; i < 2; i++) {
		setsockopt(i ? s->fd : theirs, SOL_SOCKET, SO_SNDBUF, &(int){SOCKET_BYTES},
			sizeof(int));
	}
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, theirs, MONITOR_OWNER_FD);
	posix_spawn_file_actions_adddup2(&actions, config, MONITOR_CONFIG_FD);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, 2, 1);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	r = posix_spawn(&s->keeper, program, &actions, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (r) {
		s->keeper = 0;
		return error_sys(err, r, "%s", program);
	}
	if (detached) /* what was started has left a child that is nobody's, and ends at once */
		wait_child(s);
	return 0;
}

/* Once a process: what earlier ones that were killed have left. A failure is no reason not to go
 * on. */
static void sweep_once(const struct sandbox_spec *spec)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;
	struct error err = {0};

	if (!atomic_flag_test_and_set(&done) && sandbox_sweep(spec->home, &err) < 0)
		log_warning("cannot remove leftovers: %s", error_message(&err));
}

static void ask_to_stop(struct sandbox *s)
{
	uint8_t frame[WIRE_HEADER];
	struct operation op;
	int n;

	op_begin(s, &op);
	n = wire_put_mon_stop(frame, sizeof(frame), op.stream, 0, &(struct wire_mon_stop){0});
	op_send(&op, frame, (size_t)n, NULL);
}

int sandbox_create(const struct sandbox_spec *spec, struct sandbox **out, struct error *err)
{
	int64_t start_ms = spec->start_timeout_ms > 0 ? spec->start_timeout_ms : DEFAULT_START_MS;
	struct sandbox *s = calloc(1, sizeof(*s));
	int config, r = 0;

	*out = NULL;
	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	sweep_once(spec);
	s->fd = -1;
	s->patience_ms = patience(spec);
	if (spec->id)
		r = text_copy(s->info.id, sizeof(s->info.id), spec->id);
	else
		id_uuid(s->info.id);
	config = r ? error_set(err, r, "the sandbox's id is too long")
		   : config_pipe(spec, s->info.id, err);
	r = config < 0 ? config : spawn_monitor(s, config, spec->detached, err);
	if (!r) /* the monitor's own timeout comes first */
		r = connection_ready(s, clock_deadline_ms(start_ms + 10000), err);
	if (r && spec->detached && s->fd >= 0)
		ask_to_stop(s);
	if (r) {
		sandbox_free(s);
		return r;
	}
	*out = s;
	return 0;
}

/* has the process ended within REAP_MS? */
static bool has_ended(int pidfd)
{
	int64_t deadline = clock_deadline_ms(REAP_MS);
	struct pollfd p = {pidfd, POLLIN, 0};
	int n;

	do {
		n = poll(&p, 1, clock_poll_ms(deadline));
	} while (n < 0 && errno == EINTR);
	return n != 0;
}

/* The keeper ends by itself once its connection is closed; one that does not is told to. */
static void reap(struct sandbox *s)
{
	int pidfd = -1;

	close_fd(&s->fd);
	if (s->keeper > 0)
		pidfd = (int)syscall(SYS_pidfd_open, s->keeper, 0);
	if (pidfd >= 0 && !has_ended(pidfd)) {
		kill(s->keeper, SIGTERM);
		if (!has_ended(pidfd))
			kill(s->keeper, SIGKILL); /* what it leaves is swept later */
	}
	close_fd(&pidfd);
	wait_child(s);
}

int sandbox_stop(struct sandbox *s, struct sandbox_usage *usage, struct error *err)
{
	if (!s->over) {
		ask_to_stop(s);
		connection_drain(s, clock_deadline_ms(30000));
		connection_over(s, NULL);
	}
	reap(s);
	if (usage)
		*usage = s->end.usage;
	if (s->end.reason == SANDBOX_STOPPED_MONITOR_LOST) /* nothing is known of its end */
		return connection_over(s, err);
	return 0;
}

void sandbox_free(struct sandbox *s)
{
	if (!s)
		return;
	reap(s);
	buffer_fini(&s->in);
	buffer_fini(&s->out);
	free(s);
}

const struct sandbox_info *sandbox_info(const struct sandbox *s)
{
	return &s->info;
}

const struct sandbox_end *sandbox_end(const struct sandbox *s)
{
	return &s->end;
}

int sandbox_usage(struct sandbox *s, struct sandbox_usage *out, struct error *err)
{
	uint8_t frame[WIRE_HEADER];
	struct wire_mon_usage_reply m;
	struct operation op;
	int r;

	op_begin(s, &op);
	wire_put_mon_usage(frame, sizeof(frame), op.stream, 0, &(struct wire_mon_usage){0});
	r = op_send(&op, frame, sizeof(frame), err);
	if (!r)
		r = op_next(&op, err);
	if (r)
		return r;
	if (op.frame.type != WIRE_MON_USAGE_REPLY ||
		wire_get_mon_usage_reply(op.frame.payload, op.frame.length, &m))
		return error_set(err, -EPROTO, "the monitor answered something else");
	*out = (struct sandbox_usage){
		.cpu_us = m.cpu_us, .memory_peak_bytes = m.memory_peak_bytes, .wall_us = m.wall_us};
	return 0;
}

int sandbox_extend(struct sandbox *s, int64_t lease_ms, struct error *err)
{
	uint8_t frame[WIRE_HEADER + 8];
	struct operation op;
	int r;

	if (lease_ms <= 0)
		return error_set(err, -EINVAL, "a lease must be longer than nothing");
	op_begin(s, &op);
	wire_put_mon_extend(frame, sizeof(frame), op.stream, 0,
		&(struct wire_mon_extend){.lease_ms = (uint64_t)lease_ms});
	r = op_send(&op, frame, sizeof(frame), err);
	return r ? r : op_next(&op, err);
}
