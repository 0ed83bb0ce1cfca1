/* SPDX-License-Identifier: Apache-2.0 - running one program: start, streams, limits, end. */
#include "agent.h"
#include "egress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_PIECE      (64u << 10)
#define EVENT_CGROUP    WIRE_CHANNELS /* number of cgroup.events among a stream's descriptors */
#define TICK_US         100000u       /* how often the disk is looked at */
#define PATIENCE_US     2000000u      /* how long a killed tree may take to be gone */
#define CPU_CHECK_LEAST 1000u
/* A program that writes line by line would be interrupted at each by the agent's waking up, which
 * costs ten times the write. So after a small piece the pipe is left alone for a moment. */
#define HOLD_OFF_US     1000u
#define UNUSED_LOOK_US  20000u /* how often a terminal is looked at that nobody has open */
#define PIECE_IS_SMALL  (16u << 10)
#define STACK_LEAST     (8u << 20)
#define REPORT_LEAST    (4u << 20)

static const struct stream_class class_exec;

/* argv and env of the exec being started; the strings stay in the frame. */
static char *vector_argv[WIRE_STRINGS_MAX + 1];
static char *vector_env[WIRE_STRINGS_MAX + 1];
/* Output beyond a limit goes here. */
static uint8_t trash[PIPE_PIECE];

static void close_channel(struct exec *e, unsigned channel)
{
	if (e->fds[channel] >= 0)
		close(e->fds[channel]);
	e->fds[channel] = -1;
	e->ready[channel] = false;
}

static void fill_vector(char **out, const struct wire_strs *strs)
{
	uint32_t at = 0, n = 0;
	const char *text;

	while ((text = wire_strs_next(strs, &at)))
		out[n++] = (char *)(uintptr_t)text;
	out[n] = NULL;
}

/* The variables of egress, where the request does not say otherwise. */
static void add_variables(char **env)
{
	size_t n = 0, given;

	while (env[n])
		n++;
	given = n;
	for (const char *const *v = egress_variables(); *v && n < WIRE_STRINGS_MAX; v++) {
		size_t name = strcspn(*v, "=") + 1, i = 0;

		while (i < given && strncmp(env[i], *v, name) != 0)
			i++;
		if (i == given)
			env[n++] = (char *)(uintptr_t)*v;
	}
	env[n] = NULL;
}

/* --- start --- */

/* Our end into e->fds, the other into *theirs. They belong to the user, so that a program can open
 * /dev/stdout, which is these pipes by another name. */
static int make_pipe(struct exec *e, unsigned channel, const struct wire_exec *m, int *theirs)
{
	unsigned ours = channel == WIRE_STDIN ? 1 : 0;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	e->fds[channel] = ends[ours];
	*theirs = ends[!ours];
	if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) ||
		(m->uid && fchown(ends[ours], m->uid, m->gid)))
		return -errno;
	return 0;
}

static int make_pipes(struct agent *a, struct exec *e, const struct wire_exec *m, int *theirs)
{
	int r = 0;

	theirs[WIRE_STDIN] = a->null_fd;
	if (m->flags & WIRE_EXEC_TERMINAL) {
		theirs[WIRE_STDIN] = -1;
		r = terminal_open(e, m, theirs);
	} else {
		if (m->flags & WIRE_EXEC_STDIN)
			r = make_pipe(e, WIRE_STDIN, m, &theirs[WIRE_STDIN]);
		if (!r)
			r = make_pipe(e, WIRE_STDOUT, m, &theirs[WIRE_STDOUT]);
		if (!r)
			r = make_pipe(e, WIRE_STDERR, m, &theirs[WIRE_STDERR]);
	}
	if (!r && (m->flags & WIRE_EXEC_REPORT))
		r = make_pipe(e, WIRE_REPORT, m, &theirs[WIRE_REPORT]);
	return r;
}

static uint64_t stack_size(uint64_t memory_bytes)
{
	struct sysinfo info;

	if (!memory_bytes && sysinfo(&info) == 0)
		memory_bytes = (uint64_t)info.totalram * info.mem_unit;
	return (memory_bytes > STACK_LEAST ? memory_bytes : STACK_LEAST) & ~(uint64_t)4095;
}

static bool is_exec(const struct stream *s)
{
	return s->class == &class_exec;
}

/* While the new process already has its uid but still shares our memory, nobody may stop it. */
static void freeze_others(struct agent *a, const struct stream *s, bool frozen)
{
	for (uint32_t i = 0; i < a->slots_used; i++) {
		const struct stream *other = &a->streams[i];

		if (other != s && is_exec(other) && other->u.exec.state == EXEC_RUNNING)
			cgroup_freeze(&other->u.exec.cgroup, a->cgroup_fd, frozen);
	}
}

static int start_child(struct agent *a, struct stream *s, struct child *c)
{
	struct exec *e = &s->u.exec;
	int status;

	freeze_others(a, s, true);
	e->pid = child_start(c);
	freeze_others(a, s, false);
	if (e->pid < 0) {
		c->stage = CHILD_STARTED;
		return e->pid;
	}
	if (c->error) {
		waitpid(e->pid, &status, 0);
		e->pid = 0;
	}
	return c->error;
}

static void set_limits(struct exec *e, const struct wire_exec *m)
{
	uint64_t now = agent_now_us();
	uint64_t report = m->output_bytes > UINT64_MAX / 4 ? UINT64_MAX : 4 * m->output_bytes;

	e->limit[WIRE_STDOUT] = e->limit[WIRE_STDERR] =
		m->output_bytes ? m->output_bytes : UINT64_MAX;
	e->limit[WIRE_REPORT] = report > REPORT_LEAST ? report : REPORT_LEAST;
	if (!m->output_bytes)
		e->limit[WIRE_REPORT] = UINT64_MAX;
	e->cpu_limit_us = m->cpu_us;
	e->started_us = now;
	e->tick_at_us = now + TICK_US;
	e->wall_at_us = m->wall_us && m->wall_us < UINT64_MAX - now ? now + m->wall_us : UINT64_MAX;
	/* The machine has one CPU: the limit cannot be reached sooner. On more, the host's own
	 * measure and the next check are what holds it. */
	e->cpu_at_us = m->cpu_us && m->cpu_us < UINT64_MAX - now ? now + m->cpu_us : UINT64_MAX;
	e->give_up_at_us = UINT64_MAX;
}

static int watch_pipes(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;
	int r = 0;

	for (unsigned c = 0; c < WIRE_CHANNELS && !r; c++)
		if (e->fds[c] >= 0)
			r = agent_watch(a, s, e->fds[c],
				c ? EPOLLIN | EPOLLONESHOT : EPOLLOUT | EPOLLET, c);
	e->ready[WIRE_STDIN] = true;
	return r;
}

static int start(struct agent *a, struct stream *s, const struct wire_exec *m, struct child *c)
{
	struct exec *e = &s->u.exec;
	int r;

	r = cgroup_take(&a->cgroups, a->cgroup_fd, &e->cgroup);
	c->stage = CHILD_CGROUP;
	if (!r)
		r = cgroup_limit(&e->cgroup, m->memory_bytes, m->processes);
	if (r)
		return r;
	c->cgroup_procs = e->cgroup.procs_fd;
	c->stage = CHILD_FILES;
	r = make_pipes(a, e, m, c->fds);
	if (!r)
		r = watch_pipes(a, s);
	if (!r)
		r = start_child(a, s, c);
	for (unsigned i = 0; i < WIRE_CHANNELS; i++)
		if (c->fds[i] >= 0 && c->fds[i] != a->null_fd)
			close(c->fds[i]);
	return r;
}

static void init_exec(struct exec *e, const struct wire_exec *m)
{
	memset(e, 0, sizeof(*e));
	for (unsigned c = 0; c < WIRE_CHANNELS; c++) {
		e->fds[c] = -1;
		e->listen_at_us[c] = UINT64_MAX;
	}
	e->flags = m->flags;
	e->reason = WIRE_END_COUNT;
}

static bool is_alone(const struct agent *a, const struct stream *s)
{
	for (uint32_t i = 0; i < a->slots_used; i++)
		if (&a->streams[i] != s && is_exec(&a->streams[i]))
			return false;
	return true;
}

void exec_begin(struct agent *a, struct stream *s, const struct wire_exec *m)
{
	struct wire_started started = {0};
	struct exec *e = &s->u.exec;
	struct child c = {.request = m,
		.argv = vector_argv,
		.env = vector_env,
		.fds = {-1, -1, -1, -1},
		.stack_bytes = stack_size(m->memory_bytes)};
	int r;

	init_exec(e, m);
	if (!m->argv.count || ((m->flags & WIRE_EXEC_PRIVILEGED) && m->uid)) {
		stream_fail(a, s, EINVAL, "%s",
			m->argv.count ? "only root can be privileged" : "no program given");
		return;
	}
	fill_vector(vector_argv, &m->argv);
	fill_vector(vector_env, &m->env);
	add_variables(vector_env);
	e->cgroup.number = 0;
	stream_start(s, &class_exec);
	r = start(a, s, m, &c);
	if (r) {
		stream_fail(a, s, r, "%s %.200s", child_stage_name(c.stage),
			c.stage == CHILD_DIRECTORY ? m->cwd.text
			: c.stage == CHILD_PROGRAM ? vector_argv[0]
						   : "");
		return;
	}
	e->cgroup.main = e->pid;
	set_limits(e, m);
	started.pid = (uint32_t)e->pid;
	stream_commit(a, wire_put_started(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &started));
}

/* --- end --- */

static void kill_tree(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;

	if (!e->killed) {
		e->give_up_at_us = a->now_us + PATIENCE_US;
		agent_wake_at(a, e->give_up_at_us);
	}
	e->killed = true;
	e->cgroup.alone = is_alone(a, s);
	cgroup_signal(&e->cgroup, a->cgroup_fd, SIGKILL);
}

/* The first reason stays. */
static void kill_for(struct agent *a, struct stream *s, enum wire_ending reason, uint32_t status)
{
	struct exec *e = &s->u.exec;

	if (e->state != EXEC_RUNNING)
		return;
	if (e->reason == WIRE_END_COUNT) {
		e->reason = reason;
		e->reason_status = status;
	}
	kill_tree(a, s);
}

static void begin_draining(struct stream *s)
{
	s->u.exec.state = EXEC_DRAINING;
	for (unsigned c = 1; c < WIRE_CHANNELS; c++)
		s->u.exec.ready[c] = s->u.exec.fds[c] >= 0;
	s->busy = true;
}

bool exec_reaped(
	struct agent *a, struct stream *s, pid_t pid, int status, const struct rusage *usage)
{
	struct exec *e = &s->u.exec;

	if (!is_exec(s) || e->reaped || e->pid != pid)
		return false;
	e->reaped = true;
	e->status = status;
	e->ended_us = a->now_us;
	e->rusage_cpu_us = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000u +
			   (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
	e->rusage_peak = (uint64_t)usage->ru_maxrss << 10;
	if (agent_disk_full(a))
		e->exit_flags |= WIRE_EXIT_DISK_FULL;
	e->cgroup.alone = is_alone(a, s);
	/* The program is over, and with it all that it has left behind. */
	if (cgroup_is_empty(&e->cgroup)) {
		begin_draining(s);
		return true;
	}
	if (!e->killed)
		e->exit_flags |= WIRE_EXIT_LEFTOVERS;
	e->state = EXEC_ENDING;
	kill_tree(a, s);
	/* edge-triggered: the state of now is looked at after the watch stands */
	if (e->cgroup.number)
		agent_watch(a, s, e->cgroup.events_fd, EPOLLPRI | EPOLLET, EVENT_CGROUP);
	s->busy = true;
	return true;
}

static enum wire_ending find_reason(struct exec *e, uint32_t *status)
{
	bool signaled = !e->reaped || WIFSIGNALED(e->status);
	uint32_t signal = e->reaped && signaled ? (uint32_t)WTERMSIG(e->status) : SIGKILL;

	*status = signaled ? signal : (uint32_t)WEXITSTATUS(e->status);
	if (cgroup_oom_kills(&e->cgroup))
		e->exit_flags |= WIRE_EXIT_OOM;
	if (e->reason == WIRE_END_KILLED)
		*status = e->reason_status;
	if (e->reason != WIRE_END_COUNT)
		return e->reason;
	if ((e->exit_flags & WIRE_EXIT_OOM) && signaled && signal == SIGKILL)
		return WIRE_END_MEMORY_LIMIT;
	if (signaled && signal == SIGXFSZ)
		return WIRE_END_FILE_LIMIT;
	return signaled ? WIRE_END_SIGNALED : WIRE_END_EXITED;
}

static void finish(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;
	struct wire_exit m = {
		.stdout_bytes = e->seen[WIRE_STDOUT], .stderr_bytes = e->seen[WIRE_STDERR]};

	m.reason = find_reason(e, &m.status);
	if (cgroup_refused_forks(&e->cgroup))
		e->exit_flags |= WIRE_EXIT_PIDS;
	/* the kernel was already ending them all */
	if (m.reason == WIRE_END_MEMORY_LIMIT)
		e->exit_flags &= ~WIRE_EXIT_LEFTOVERS;
	if (e->gave_up)
		e->exit_flags |= WIRE_EXIT_LEFTOVERS;
	m.flags = e->exit_flags;
	m.wall_us = (e->reaped ? e->ended_us : a->now_us) - e->started_us;
	m.cpu_us = e->cgroup.number ? cgroup_cpu_us(&e->cgroup) : e->rusage_cpu_us;
	m.memory_peak_bytes = e->cgroup.number ? cgroup_memory_peak(&e->cgroup) : e->rusage_peak;
	e->state = EXEC_OVER;
	stream_final(a, s, wire_put_exit(stream_frame(a), LINK_RESERVE / 2, s->id, 0, &m));
}

static void exec_release(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;

	if (e->pid > 0 && !(e->reaped && cgroup_is_empty(&e->cgroup)))
		cgroup_signal(&e->cgroup, a->cgroup_fd, SIGKILL);
	for (unsigned c = 0; c < WIRE_CHANNELS; c++)
		close_channel(e, c);
	if (e->ring)
		munmap(e->ring, WIRE_WINDOW);
	cgroup_drop(&a->cgroups, &e->cgroup);
}

/* --- streams --- */

static void close_input(struct exec *e)
{
	if (e->fds[WIRE_STDIN] >= 0 && e->flags & WIRE_EXEC_TERMINAL)
		terminal_end(e->fds[WIRE_STDIN]);
	close_channel(e, WIRE_STDIN);
}

/* Move what the process takes from the ring into its pipe. */
static void feed(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;

	while (e->ring_used && e->ready[WIRE_STDIN]) {
		uint32_t run = WIRE_WINDOW - e->ring_start;
		ssize_t n;

		if (run > e->ring_used)
			run = e->ring_used;
		n = write(e->fds[WIRE_STDIN], e->ring + e->ring_start, run);
		if (n < 0 && errno == EAGAIN) {
			e->ready[WIRE_STDIN] = false;
			break;
		}
		if (n < 0) /* nobody reads: it is as good as taken */
			n = e->ring_used;
		e->ring_start = (e->ring_start + (uint32_t)n) % WIRE_WINDOW;
		e->ring_used -= (uint32_t)n;
		stream_consumed(a, s, (size_t)n);
	}
	if (!e->ring_used && s->ended)
		close_input(e);
}

static void exec_data(struct agent *a, struct stream *s, const uint8_t *bytes, size_t count)
{
	struct exec *e = &s->u.exec;
	size_t done = 0;
	ssize_t n;

	if (e->fds[WIRE_STDIN] < 0 || e->state != EXEC_RUNNING) {
		stream_consumed(a, s, count);
		return;
	}
	if (!e->ring_used && e->ready[WIRE_STDIN]) {
		n = write(e->fds[WIRE_STDIN], bytes, count);
		if (n < 0 && errno != EAGAIN)
			n = (ssize_t)count;
		done = n > 0 ? (size_t)n : 0;
		stream_consumed(a, s, done);
		if (done == count)
			return;
		e->ready[WIRE_STDIN] = false;
	}
	if (!e->ring) {
		void *ring = mmap(NULL, WIRE_WINDOW, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (ring == MAP_FAILED) {
			kill_for(a, s, WIRE_END_KILLED, WIRE_KILL_CANCEL);
			return;
		}
		e->ring = ring;
	}
	/* The window is the ring's size: what was let in fits. */
	while (done < count) {
		uint32_t at = (e->ring_start + e->ring_used) % WIRE_WINDOW;
		size_t run = WIRE_WINDOW - at;

		if (run > count - done)
			run = count - done;
		memcpy(e->ring + at, bytes + done, run);
		e->ring_used += (uint32_t)run;
		done += run;
	}
}

static void exec_end(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;

	if (!e->ring_used)
		close_input(e);
}

static void exec_kill(struct agent *a, struct stream *s, uint32_t reason)
{
	s->busy = true;
	if (reason == WIRE_KILL_CPU)
		kill_for(a, s, WIRE_END_CPU_LIMIT, 0);
	else if (reason == WIRE_KILL_WALL)
		kill_for(a, s, WIRE_END_WALL_LIMIT, 0);
	else {
		s->u.exec.abandoned = true;
		kill_for(a, s, WIRE_END_KILLED, reason);
	}
}

static void mark_cut(struct agent *a, struct stream *s, unsigned channel)
{
	static const uint32_t flags[WIRE_CHANNELS] = {
		0, WIRE_EXIT_STDOUT_CUT, WIRE_EXIT_STDERR_CUT, WIRE_EXIT_REPORT_CUT};
	struct exec *e = &s->u.exec;

	if (e->exit_flags & flags[channel])
		return;
	e->exit_flags |= flags[channel];
	if (channel != WIRE_REPORT && (e->flags & WIRE_EXEC_OUTPUT_KILL))
		kill_for(a, s, WIRE_END_OUTPUT_LIMIT, 0);
}

/* The watch on a pipe is for one event; ask for the next one in a while. */
static void hold_off(struct agent *a, struct stream *s, unsigned channel, uint64_t for_us)
{
	struct exec *e = &s->u.exec;

	e->listen_at_us[channel] = a->now_us + for_us;
	if (for_us) {
		agent_wake_at(a, e->listen_at_us[channel]);
		return;
	}
	e->listen_at_us[channel] = UINT64_MAX;
	agent_watch_again(a, s, e->fds[channel], EPOLLIN | EPOLLONESHOT, channel);
}

static void listen_again(struct agent *a, struct stream *s, uint64_t now)
{
	struct exec *e = &s->u.exec;

	for (unsigned c = WIRE_STDOUT; c < WIRE_CHANNELS; c++) {
		if (e->fds[c] < 0)
			continue;
		if (now >= e->listen_at_us[c])
			hold_off(a, s, c, 0);
		agent_wake_at(a, e->listen_at_us[c]);
	}
}

/* What read() has answered on a channel: end, nothing now, or bytes. True when there may be more.
 */
static bool took(struct agent *a, struct stream *s, unsigned channel, ssize_t n, size_t asked)
{
	struct exec *e = &s->u.exec;

	if (n < 0 && errno == EINTR)
		return true;
	if (n > 0) {
		e->seen[channel] += (size_t)n;
		/* a short count from a pipe means that it was empty */
		e->ready[channel] = (size_t)n == asked || e->state == EXEC_DRAINING;
		if (!e->ready[channel])
			hold_off(a, s, channel, n < PIECE_IS_SMALL ? HOLD_OFF_US : 0);
		return e->ready[channel];
	}
	if (n < 0 && errno == EAGAIN && e->state != EXEC_DRAINING) {
		e->ready[channel] = false;
		hold_off(a, s, channel, 0);
		return false;
	}
	/* A terminal that nobody has open now may be opened again, and our end is not closed before
	 * its session is over: that would be a hang-up, which ends those that are just exiting. */
	if (n < 0 && errno == EIO && e->flags & WIRE_EXEC_TERMINAL && e->state != EXEC_DRAINING) {
		e->ready[channel] = false;
		hold_off(a, s, channel, UNUSED_LOOK_US);
		return false;
	}
	/* The end; or what a foreign process holds open after the tree is gone. */
	close_channel(e, channel);
	stream_channel_end(a, s, channel);
	return false;
}

static enum progress pump(struct agent *a, struct stream *s, unsigned channel)
{
	struct exec *e = &s->u.exec;
	uint64_t left = e->limit[channel] - e->seen[channel];
	size_t count;
	uint8_t *out;
	ssize_t n;

	if (e->fds[channel] < 0 || !e->ready[channel])
		return PROGRESS_IDLE;
	if (e->seen[channel] >= e->limit[channel] || (e->abandoned && !s->credit[channel])) {
		n = read(e->fds[channel], trash, sizeof(trash));
		if (n > 0)
			mark_cut(a, s, channel);
		return took(a, s, channel, n, sizeof(trash)) ? PROGRESS_MORE : PROGRESS_IDLE;
	}
	out = stream_data_begin(a, s, channel, left < PIPE_PIECE ? left : PIPE_PIECE, &count);
	if (!out)
		return count ? PROGRESS_ROOM : PROGRESS_IDLE;
	n = read(e->fds[channel], out, count);
	if (n > 0)
		stream_data_end(a, s, channel, (size_t)n);
	return took(a, s, channel, n, count) ? PROGRESS_MORE : PROGRESS_IDLE;
}

static enum progress exec_work(struct agent *a, struct stream *s)
{
	enum progress all = PROGRESS_IDLE, one;
	struct exec *e = &s->u.exec;

	feed(a, s);
	for (unsigned c = WIRE_STDOUT; c < WIRE_CHANNELS; c++) {
		one = pump(a, s, c);
		if (one == PROGRESS_MORE || all == PROGRESS_IDLE)
			all = one;
	}
	if (e->state == EXEC_ENDING && (cgroup_is_empty(&e->cgroup) || e->gave_up)) {
		begin_draining(s);
		return PROGRESS_MORE;
	}
	if (e->state == EXEC_DRAINING && e->fds[WIRE_STDOUT] < 0 && e->fds[WIRE_STDERR] < 0 &&
		e->fds[WIRE_REPORT] < 0)
		finish(a, s);
	return all;
}

/* --- events and time --- */

void exec_event(struct stream *s, unsigned which)
{
	if (!is_exec(s))
		return;
	if (which < WIRE_CHANNELS)
		s->u.exec.ready[which] = s->u.exec.fds[which] >= 0;
	s->busy = true;
}

int exec_signal(struct agent *a, struct stream *s, uint32_t signal)
{
	if (!is_exec(s) || signal < 1 || signal > 64)
		return -EPROTO;
	if (s->u.exec.state == EXEC_RUNNING)
		cgroup_signal(&s->u.exec.cgroup, a->cgroup_fd, (int)signal);
	return 0;
}

void exec_resize(struct stream *s, uint32_t cols, uint32_t rows)
{
	if (is_exec(s) && s->u.exec.flags & WIRE_EXEC_TERMINAL && s->u.exec.fds[WIRE_STDOUT] >= 0)
		terminal_resize(s->u.exec.fds[WIRE_STDOUT], cols, rows);
}

static void check_cpu(struct agent *a, struct stream *s, uint64_t now)
{
	struct exec *e = &s->u.exec;
	uint64_t used = cgroup_cpu_us(&e->cgroup), left;

	if (used >= e->cpu_limit_us) {
		kill_for(a, s, WIRE_END_CPU_LIMIT, 0);
		e->cpu_at_us = UINT64_MAX;
		return;
	}
	left = e->cpu_limit_us - used;
	e->cpu_at_us = now + (left > CPU_CHECK_LEAST ? left : CPU_CHECK_LEAST);
}

void exec_times(struct agent *a, struct stream *s)
{
	struct exec *e = &s->u.exec;
	uint64_t now = a->now_us;

	if (!is_exec(s) || e->state > EXEC_ENDING)
		return;
	if (e->state == EXEC_RUNNING && now >= e->wall_at_us) {
		kill_for(a, s, WIRE_END_WALL_LIMIT, 0);
		e->wall_at_us = UINT64_MAX;
	}
	if (e->state == EXEC_RUNNING && now >= e->cpu_at_us)
		check_cpu(a, s, now);
	listen_again(a, s, now);
	if (now >= e->tick_at_us) {
		if (agent_disk_full(a))
			e->exit_flags |= WIRE_EXIT_DISK_FULL;
		/* without cgroup.events the end of the tree is seen by looking */
		if (e->state == EXEC_ENDING && !e->cgroup.number)
			kill_tree(a, s);
		e->tick_at_us = now + TICK_US;
		s->busy |= e->state == EXEC_ENDING;
	}
	if (now >= e->give_up_at_us) {
		/* Something cannot be killed (it hangs in the kernel): said, not waited for. */
		e->gave_up = true;
		e->state = EXEC_ENDING;
		e->give_up_at_us = UINT64_MAX;
		s->busy = true;
	}
	agent_wake_at(a, e->tick_at_us);
	if (e->state == EXEC_RUNNING) {
		agent_wake_at(a, e->wall_at_us);
		agent_wake_at(a, e->cpu_at_us);
	}
	agent_wake_at(a, e->give_up_at_us);
}

static const struct stream_class class_exec = {.name = "exec",
	.data = exec_data,
	.end = exec_end,
	.kill = exec_kill,
	.work = exec_work,
	.release = exec_release};
