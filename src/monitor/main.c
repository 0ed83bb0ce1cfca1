/* SPDX-License-Identifier: Apache-2.0 - sealmark-monitor: the keeper of one sandbox. */
#include "monitor/egress.h"
#include "monitor/monitor.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUEST_CID      3
#define END_MS         2000 /* for pid 1 to end the machine by itself */
#define SOCKET_IN_ROOT "/vsock"
#define MACHINE_EXTRA  (UINT64_C(96) << 20) /* host memory beside the guest's own: kernel, stubs */

/* Everything the keeper made and must take away again. */
struct keeper {
	struct monitor_config config;
	struct engine_config engine_config;
	const struct engine *engine;
	struct engine_plan plan;
	char directory[640], isolation[160];
	int slot, slot_fd, lock_fd;
	int vsock_fd, listen_fd;
	int console_read, console_write;
	int stream_ours, stream_theirs;
	int note_ours, note_theirs;
	int egress_ours, egress_theirs; /* between the monitor proper and the connector */
	struct jail_cgroup *cgroup;
	struct jail_machine machine;
	pid_t monitor, connector;
	int64_t started_us;
	uint8_t last_word[MONITOR_LAST_WORD]; /* of a detached one: how it ended */
	size_t last_size;
	bool told;          /* by a signal, as when the host shuts down */
	int64_t kill_at_ms; /* of clock_ms(): a machine that should have ended is killed then */
};

/* Tell the creator that there will be no sandbox, and why. */
static void tell_failure(const struct error *err)
{
	uint8_t frame[WIRE_HEADER + 2048];
	int n = wire_put_mon_stopped(frame, sizeof(frame), 0, 0,
		&(struct wire_mon_stopped){.reason = SANDBOX_STOPPED_START_FAILED,
			.detail = wire_str(error_message(err))});

	if (n > 0 && send(MONITOR_OWNER_FD, frame, (size_t)n, MSG_NOSIGNAL) < 0)
		log_error("%s", error_message(err));
}

static int rank(const char *isolation)
{
	static const char *const names[] = {"none", "process", "kernel", "hardware"};

	for (int i = 0; i < (int)ARRAY_SIZE(names); i++) {
		if (strcmp(isolation, names[i]) == 0)
			return i;
	}
	return -1;
}

static int check_isolation(const struct keeper *k, struct error *err)
{
	int want = rank(k->config.require_isolation), have = rank(k->engine->isolation);

	if (want < 0)
		return error_set(err, -EINVAL,
			"require_isolation: \"%s\" is not one of none, process, kernel, hardware",
			k->config.require_isolation);
	if (have < want)
		return error_set(err, -EPERM,
			"engine %s gives isolation \"%s\", but \"%s\" is required", k->engine->name,
			k->engine->isolation, k->config.require_isolation);
	return 0;
}

/* A socket in the sandbox's directory; by its descriptor, as a socket's address is short. */
static int listen_at(
	const struct keeper *k, const char *name, mode_t mode, int *out, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error_sys(err, errno, "socket");
	text_format(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", k->lock_fd,
		name);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
		fchmodat(k->lock_fd, name, mode, 0) || listen(fd, 8))
		return error_sys(err, errno, "%s/%s", k->directory, name);
	*out = steal_fd(&fd);
	return 0;
}

static int make_directory(struct keeper *k, struct error *err)
{
	char path[704];
	int r;

	if (text_format(k->directory, sizeof(k->directory), "%s/sandboxes", k->config.home))
		return error_set(err, -ENAMETOOLONG, "home is too long");
	r = path_make(k->directory, 0755, err);
	if (r)
		return r;
	if (text_format(path, sizeof(path), "%s/.%s", k->directory, k->config.id) ||
		text_format(k->directory, sizeof(k->directory), "%s/sandboxes/%s", k->config.home,
			k->config.id))
		return error_set(err, -ENAMETOOLONG, "home is too long");
	/* locked as long as the keeper lives, from before it has its name: what is not locked is
	 * left over, and a sweep may take it */
	if (mkdir(path, 0711))
		return error_sys(err, errno, "%s", path);
	k->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (k->lock_fd < 0 || flock(k->lock_fd, LOCK_EX | LOCK_NB) || rename(path, k->directory)) {
		error_sys(err, errno, "%s", path);
		rmdir(path);
		close_fd(&k->lock_fd); /* what has the name is not ours to remove */
		return err->code;
	}
	return listen_at(k, "control.sock", 0600, &k->listen_fd, err);
}

static int make_channel(struct keeper *k, struct error *err)
{
	int pair[2];

	if (k->plan.channel == ENGINE_VHOST_USER)
		return listen_at(k, "vsock", 0666, &k->vsock_fd, err);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return error_sys(err, errno, "socketpair");
	k->stream_ours = pair[0];
	k->stream_theirs = pair[1];
	return 0;
}

static int make_pipes(struct keeper *k, struct error *err)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC))
		return error_sys(err, errno, "pipe");
	k->console_read = pair[0];
	k->console_write = pair[1];
	if (fcntl(k->console_read, F_SETFL, O_NONBLOCK))
		return error_sys(err, errno, "fcntl");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_sys(err, errno, "socketpair");
	k->note_ours = pair[0];
	k->note_theirs = pair[1];
	return 0;
}

static int start_machine(struct keeper *k, struct error *err)
{
	bool own = jail_has_own_uids();
	uid_t machine = own ? JAIL_UID_BASE + 2 * (uid_t)k->slot : geteuid();
	char path[704];
	struct jail_spec spec = {.plan = &k->plan,
		.config = &k->engine_config,
		.slot = k->slot,
		.machine_uid = machine,
		.machine_gid = own ? machine : getegid(),
		.monitor_uid = own ? machine + 1 : machine,
		.monitor_gid = own ? machine + 1 : getegid(),
		.socket_path = path,
		.socket_in_root = SOCKET_IN_ROOT,
		.channel_fd = k->stream_theirs,
		.console_fd = k->console_write,
		.cgroup = k->cgroup,
		.cpu = k->config.cpu};

	text_format(path, sizeof(path), "%s/vsock", k->directory);
	if (k->plan.channel != ENGINE_VHOST_USER)
		spec.socket_path = NULL;
	return jail_start(&spec, &k->machine, err);
}

/* One CPU for the whole machine: given, or by slot over those allowed. */
static void choose_cpu(struct keeper *k)
{
	cpu_set_t allowed;
	int nth, count;

	if (k->config.cpu >= 0 || sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	count = CPU_COUNT(&allowed);
	if (count == 0)
		return;
	nth = k->slot % count;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET((size_t)cpu, &allowed) && nth-- == 0) {
			k->config.cpu = cpu;
			return;
		}
	}
}

/* A detached keeper is nobody's child: its creator need not live to reap it. */
static int leave_creator(struct error *err)
{
	pid_t pid = fork();

	if (pid < 0)
		return error_sys(err, errno, "fork");
	if (pid > 0)
		_exit(0);
	return 0;
}

/* A sandbox that may have a network has a process that makes its connections, see egress.h. */
static int start_connector(struct keeper *k, struct error *err)
{
	bool own = jail_has_own_uids();
	uid_t uid = own ? JAIL_UID_BASE + 2 * (uid_t)k->slot + 1 : geteuid();
	struct egress_policy *policy;
	int pair[2], r;

	if (!k->config.network[0])
		return 0;
	r = egress_policy_new(k->config.network, &policy, err);
	if (r)
		return error_prefix(err, "network");
	egress_policy_free(policy);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_sys(err, errno, "socketpair");
	k->egress_ours = pair[0];
	k->egress_theirs = pair[1];
	/* room for a policy also beside all that a guest may ask for */
	setsockopt(k->egress_ours, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	k->connector = fork();
	if (k->connector < 0)
		return error_sys(err, errno, "fork");
	if (k->connector == 0)
		egress_connector_run(
			k->egress_theirs, k->config.network, uid, own ? uid : getegid());
	close_fd(&k->egress_theirs);
	return 0;
}

static int prepare(struct keeper *k, struct error *err)
{
	struct jail_cgroup_limits limits;
	char described[128];
	int r;

	r = monitor_config_read(MONITOR_CONFIG_FD, &k->config, err);
	close(MONITOR_CONFIG_FD);
	if (r)
		return error_prefix(err, "monitor");
	if (k->config.detached)
		r = leave_creator(err);
	if (r)
		return r;
	monitor_config_engine(&k->config, &k->engine_config);
	k->engine = engine_find(k->config.engine_name, k->config.home, err);
	if (!k->engine)
		return err->code;
	r = check_isolation(k, err);
	if (!r)
		r = k->engine->plan(&k->engine_config, SOCKET_IN_ROOT, &k->plan, err);
	if (!r)
		r = jail_slot_take(k->config.home, &k->slot, &k->slot_fd, err);
	if (!r)
		choose_cpu(k);
	if (!r)
		r = make_directory(k, err);
	if (!r)
		r = make_channel(k, err);
	if (!r)
		r = make_pipes(k, err);
	if (r)
		return r;
	limits.memory_bytes = ((uint64_t)k->config.memory_mib << 20) * 5 / 4 + MACHINE_EXTRA;
	limits.processes = k->plan.processes + 16;
	r = jail_cgroup_new(k->config.id, &limits, &k->cgroup, err);
	if (r)
		return r;
	jail_describe(jail_has_own_uids(), k->cgroup, described, sizeof(described));
	text_format(k->isolation, sizeof(k->isolation), "%s %s", k->engine->name,
		k->plan.is_code_of_ours ? "none" : described);
	r = start_connector(k, err);
	return r ? r : start_machine(k, err);
}

/* The monitor proper, in a process of its own. */
static int monitor_process(struct keeper *k)
{
	bool own = jail_has_own_uids();
	uid_t uid = own ? JAIL_UID_BASE + 2 * (uid_t)k->slot + 1 : geteuid();
	struct vsock *vsock = NULL;
	struct error err = {0};

	close_fd(&k->console_write);
	close_fd(&k->stream_theirs);
	close_fd(&k->note_ours);
	close_fd(&k->slot_fd);
	close_fd(&k->lock_fd);
	if (k->vsock_fd >= 0 &&
		vsock_new(steal_fd(&k->vsock_fd), GUEST_CID, WIRE_VSOCK_PORT, &vsock, &err)) {
		tell_failure(&err);
		return 1;
	}
	if (jail_monitor_drop(uid, own ? uid : getegid(), &err)) {
		tell_failure(&err);
		return 1;
	}
	if (monitor_run(&(struct monitor_parts){.config = &k->config,
				.engine = k->engine->name,
				.isolation = k->isolation,
				.owner_fd = MONITOR_OWNER_FD,
				.listen_fd = k->listen_fd,
				.console_fd = k->console_read,
				.keeper_fd = k->note_theirs,
				.egress_fd = k->egress_ours,
				.machine_pidfd = k->machine.pidfd,
				.life_fd = k->machine.life_fd,
				.vsock = vsock,
				.stream_fd = k->stream_ours,
				.cgroup = k->cgroup,
				.started_us = k->started_us},
		    &err)) {
		tell_failure(&err);
		return 1;
	}
	return 0;
}

static void kill_machine(struct keeper *k)
{
	if (k->machine.pidfd >= 0)
		syscall(SYS_pidfd_send_signal, k->machine.pidfd, SIGKILL, NULL, 0);
	close_fd(&k->machine.life_fd);
}

/* Let its pid 1 end it: that reaps what ran in it, so that its CPU time is known. A pid 1 that does
 * not is killed a little later. */
static void end_machine(struct keeper *k)
{
	close_fd(&k->machine.life_fd);
	if (k->kill_at_ms == CLOCK_NEVER)
		k->kill_at_ms = clock_deadline_ms(END_MS);
}

/* Reap the machine and tell the monitor how it ended and what it used. */
static void machine_over(struct keeper *k)
{
	struct keeper_note note = {0};
	struct rusage usage = {0};
	uint64_t now;
	int status = 0;

	if (k->machine.pid > 0 && wait4(k->machine.pid, &status, 0, &usage) == k->machine.pid) {
		note.status = status;
		note.cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
			      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
		/* without a cgroup: the largest process, in KiB; the guest's memory is shared */
		note.memory_peak_bytes = (uint64_t)usage.ru_maxrss << 10;
	}
	k->machine.pid = 0;
	if (k->cgroup)
		jail_cgroup_memory(k->cgroup, &now, &note.memory_peak_bytes);
	close_fd(&k->machine.pidfd);
	if (send(k->note_ours, &note, sizeof(note), MSG_NOSIGNAL) < 0)
		log_debug("the monitor is gone before its machine");
}

/* The word is left once it is paused, and taken back before it runs: it is never said in vain. */
static int pause_machine(struct keeper *k, int64_t for_ms, struct error *err)
{
	int r = k->engine->pause
			? k->engine->pause(k->machine.pid, err)
			: error_set(err, -EOPNOTSUPP, "engine %s cannot pause", k->engine->name);

	if (r)
		return r;
	r = pause_word_leave(k->config.home, k->config.id, for_ms, err);
	if (r)
		k->engine->resume(k->machine.pid, NULL);
	return r;
}

static int resume_machine(struct keeper *k, struct error *err)
{
	pause_word_take_back(k->config.home, k->config.id);
	return k->engine->resume(k->machine.pid, err);
}

static void obey(struct keeper *k, const struct keeper_order *order)
{
	struct keeper_answer answer = {.kind = order->kind};
	struct error err = {0};

	if (order->kind == KEEPER_END)
		return end_machine(k);
	if (k->machine.pid <= 0)
		return; /* the monitor hears of its end */
	if (order->kind == KEEPER_PAUSE)
		answer.result = pause_machine(k, order->for_ms, &err);
	else
		answer.result = resume_machine(k, &err);
	if (answer.result)
		log_error("%s", error_message(&err));
	if (send(k->note_ours, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
		log_debug("the monitor is gone");
}

/* The monitor gives an order, or says how it all ended. */
static void listen_to_monitor(struct keeper *k)
{
	uint8_t bytes[MONITOR_LAST_WORD];
	struct keeper_order order;
	ssize_t n;

	while ((n = recv(k->note_ours, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		if (n == sizeof(order)) {
			memcpy(&order, bytes, sizeof(order));
			obey(k, &order);
		} else {
			memcpy(k->last_word, bytes, (size_t)n);
			k->last_size = (size_t)n;
		}
	}
}

/* For whoever asks later: data, which its reader checks. */
static void leave_word(struct keeper *k)
{
	char path[704];
	struct error err = {0};
	int n;

	listen_to_monitor(k);
	if (!k->last_size) {
		n = wire_put_mon_stopped(k->last_word, sizeof(k->last_word), 0, 0,
			&(struct wire_mon_stopped){.reason = k->told ? SANDBOX_STOPPED_HOST
								     : SANDBOX_STOPPED_MONITOR_LOST,
				.detail = wire_str(
					k->told ? "the host has stopped it" : "its monitor died")});
		k->last_size = n > 0 ? (size_t)n : 0;
	}
	if (text_format(path, sizeof(path), "%s/ended", k->config.home) ||
		path_make(path, 0700, &err) ||
		text_format(path, sizeof(path), "%s/ended/%s", k->config.home, k->config.id) ||
		path_write_whole(path, k->last_word, k->last_size, 0600, &err))
		log_error("%s", error_message(&err));
}

/* A monitor that was stopped enforces nothing: its sandbox must not go on so. */
static void check_monitor(struct keeper *k, int *status)
{
	int r = waitpid(k->monitor, status, WNOHANG | WUNTRACED);

	if (r != k->monitor)
		return;
	if (WIFSTOPPED(*status)) {
		log_error("the monitor was stopped by signal %d", WSTOPSIG(*status));
		kill(k->monitor, SIGKILL);
		return;
	}
	k->monitor = 0;
	end_machine(k);
}

static int watch(struct keeper *k)
{
	int monitor_pidfd = (int)syscall(SYS_pidfd_open, k->monitor, 0);
	int signals, status = 0;
	sigset_t mask;

	if (monitor_pidfd < 0) { /* its end would go unnoticed */
		log_error("pidfd_open: %s", strerror(errno));
		kill(k->monitor, SIGKILL);
		waitpid(k->monitor, NULL, 0);
		return 1;
	}
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	while (k->monitor > 0 || k->machine.pid > 0) {
		struct pollfd p[] = {
			{k->monitor > 0 ? monitor_pidfd : -1, POLLIN, 0},
			{k->machine.pid > 0 ? k->machine.pidfd : -1, POLLIN, 0},
			{k->monitor > 0 ? k->note_ours : -1, POLLIN, 0},
			{signals, POLLIN, 0},
		};

		if (poll(p, ARRAY_SIZE(p), clock_poll_ms(k->kill_at_ms)) < 0 && errno != EINTR)
			break;
		if (clock_ms() >= k->kill_at_ms) {
			kill_machine(k);
			k->kill_at_ms = CLOCK_NEVER;
		}
		if (p[0].revents && k->monitor > 0)
			check_monitor(k, &status);
		if (p[2].revents & POLLIN)
			listen_to_monitor(k);
		else if (p[2].revents & POLLHUP)
			end_machine(k);
		if (p[3].revents) {
			struct signalfd_siginfo info;

			while (read(signals, &info, sizeof(info)) == sizeof(info)) {
				if (info.ssi_signo == SIGCHLD)
					continue;
				k->told = true;
				kill_machine(k);
				if (k->monitor > 0)
					kill(k->monitor, SIGKILL);
			}
			if (k->monitor > 0)
				check_monitor(k, &status);
		}
		if (p[1].revents)
			machine_over(k);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void clean_up(struct keeper *k)
{
	struct error err = {0};

	if (k->machine.pid > 0) {
		kill_machine(k); /* it never ran */
		waitpid(k->machine.pid, NULL, 0);
	}
	pause_word_take_back(k->config.home, k->config.id);
	if (k->connector > 0) {
		kill(k->connector, SIGKILL);
		waitpid(k->connector, NULL, 0);
	}
	jail_cgroup_remove(k->cgroup);
	if (k->directory[0] && k->lock_fd >= 0 && path_remove_tree(AT_FDCWD, k->directory, &err))
		log_error("%s", error_message(&err));
}

int main(int argc, char **argv)
{
	static struct keeper keeper = {.kill_at_ms = CLOCK_NEVER,
		.slot_fd = -1,
		.lock_fd = -1,
		.vsock_fd = -1,
		.listen_fd = -1,
		.console_read = -1,
		.console_write = -1,
		.stream_ours = -1,
		.stream_theirs = -1,
		.note_ours = -1,
		.note_theirs = -1,
		.egress_ours = -1,
		.egress_theirs = -1,
		.machine = {.pidfd = -1, .life_fd = -1}};
	struct keeper *k = &keeper;
	struct error err = {0};
	sigset_t mask;
	int status;

	k->started_us = clock_us();
	log_setup(
		"sealmark-monitor", getenv("SEALMARK_DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING);
	if (argc > 1 || fcntl(MONITOR_OWNER_FD, F_GETFD) < 0 ||
		fcntl(MONITOR_CONFIG_FD, F_GETFD) < 0) {
		log_error("this program is started by sealmark, not by hand");
		return 2;
	}
	fcntl(MONITOR_OWNER_FD, F_SETFD, FD_CLOEXEC);
	fcntl(MONITOR_CONFIG_FD, F_SETFD, FD_CLOEXEC);
	/* whatever else the creator had open is not for a monitor, nor for its machine */
	close_range(MONITOR_CONFIG_FD + 1, UINT_MAX, 0);
	umask(022);
	setenv("UV_USE_IO_URING", "0", 1); /* the monitor's list of system calls has no io_uring */
	/* the terminal's Ctrl-C is the creator's to act on */
	setsid();
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGPIPE);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);

	if (prepare(k, &err)) {
		tell_failure(&err);
		clean_up(k);
		return 1;
	}
	k->monitor = fork();
	if (k->monitor == 0)
		_exit(monitor_process(k));
	if (k->monitor < 0) {
		error_sys(&err, errno, "fork");
		tell_failure(&err);
	}
	close(MONITOR_OWNER_FD);
	close_fd(&k->vsock_fd);
	close_fd(&k->listen_fd);
	close_fd(&k->console_read);
	close_fd(&k->console_write);
	close_fd(&k->stream_ours);
	close_fd(&k->stream_theirs);
	close_fd(&k->note_theirs);
	close_fd(&k->egress_ours); /* the connector ends with the monitor */
	status = k->monitor > 0 ? watch(k) : 1;
	if (k->config.detached)
		leave_word(k);
	clean_up(k);
	return status;
}
