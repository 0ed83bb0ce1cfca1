/* SPDX-License-Identifier: Apache-2.0 - the caller's side of a sandbox: create, exec, files, stop.
 */
#ifndef SEALMARK_SANDBOX_SANDBOX_H
#define SEALMARK_SANDBOX_SANDBOX_H

#include "base/buffer.h"
#include "base/error.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A sandbox is one machine with one sealmark-monitor. sandbox_create() starts the monitor and keeps
 * one connection to it; when that connection closes (sandbox_free, death of this process) the
 * sandbox ends. Calls block and are for one thread at a time per sandbox; different sandboxes may
 * be used from different threads. All bytes that come from the guest are data.
 *
 * A detached sandbox ends by its lease, by sandbox_stop() or by a fault only: its creator may go,
 * and sandbox_attach() reaches it again by its id. How it ended stays in <home>/ended/<id> until
 * sandbox_forget().
 */
struct sandbox;

struct sandbox_spec {
	const char *home;    /* $SEALMARK_HOME; NULL: path_home() */
	const char *engine;  /* "auto", "uml" or "fake" */
	const char *image;   /* path of rootfs.erofs */
	const char *kernel;  /* path of the guest kernel; NULL: the installed one of the engine */
	const char *script;  /* engine fake: path of its script */
	uint32_t memory_mib; /* guest memory, 64..65536; 0: 512 */
	uint32_t disk_mib;   /* size of the writable layer (part of memory); 0: 128 */
	uint32_t files_most; /* inodes of the writable layer; 0: 65536 */
	int64_t lease_ms;    /* life from ready; <= 0: one hour */
	int64_t start_timeout_ms; /* <= 0: 20 s */
	int64_t patience_ms;      /* how long the machine may owe an answer; <= 0: 30 s */
	int cpu;                  /* host CPU to pin to, -1: chosen by the monitor */
	const char
		*require_isolation; /* refuse to start when weaker, see jail.h; NULL: "process" */
	bool detached;
	/* What it may connect to (JSON, see monitor/egress_policy.h), changed later with
	 * sandbox_set_network(). NULL: nothing, for good. */
	const char *network;
	const char *id; /* a new UUID, known to the caller before it exists; NULL: made here */
};

/* enum sandbox_stop_reason is in wire.h: it travels in MON_STOPPED. */
const char *sandbox_stop_reason_name(enum sandbox_stop_reason reason);

/* What is known of a sandbox once it is ready. */
struct sandbox_info {
	char id[40];
	char engine[16];
	char isolation[160]; /* as in records: "uml userns seccomp cgroup-v1 own-uid" */
	char kernel[80];
	int64_t boot_us;
};

struct sandbox_usage {
	uint64_t cpu_us; /* of the whole machine, measured on the host */
	uint64_t memory_peak_bytes;
	uint64_t wall_us; /* without what it was paused */
};

/* How a sandbox ended; valid once a call has answered -ENODEV. */
struct sandbox_end {
	enum sandbox_stop_reason reason;
	char detail[WIRE_REASON_MAX + 1];
	struct sandbox_usage usage;
	char console[2048]; /* last lines of the guest's console, harmless to print */
};

/*
 * Every call answers 0 or a negative errno with a message. -ENODEV: the sandbox is over (ask
 * sandbox_end()), or did not start; -ETIMEDOUT: its monitor did not answer while it started. A
 * failure here is ours, never a verdict. A machine that answers no more is over after its patience
 * at the latest, so that no call waits for ever; an exec without a wall limit waits for its end.
 */
int sandbox_create(const struct sandbox_spec *spec, struct sandbox **out, struct error *err);

/* Stop and wait until nothing of it is left on the host; final usage in *usage if not NULL. */
int sandbox_stop(struct sandbox *s, struct sandbox_usage *usage, struct error *err);

/*
 * A further connection to a sandbox of this home, which may still be starting: waits until it is
 * ready. It works as a created one; sandbox_free() only closes it. Helpers of other processes may
 * do so too. -ENODEV: it is over, or there is none (ask sandbox_look()); -EBUSY: it has as many
 * connections as it takes; -ETIMEDOUT: it did not become ready within timeout_ms.
 */
int sandbox_attach(const char *home, const char *id, int64_t timeout_ms, struct sandbox **out,
	struct error *err);

/* What is known of a detached sandbox without a connection: 1 when it goes on, 0 when it is
 * over (*end says how; MONITOR_LOST when no word was left: nothing is known then), -ENOENT when
 * there is no trace of it. Any other failure (-EMFILE, ...) says nothing of the sandbox. */
int sandbox_look(const char *home, const char *id, struct sandbox_end *end, struct error *err);
/* Remove the word of its end. */
void sandbox_forget(const char *home, const char *id);

/* Stop if still running (unless detached or attached) and free; NULL is fine. */
void sandbox_free(struct sandbox *s);

const struct sandbox_info *sandbox_info(const struct sandbox *s);
const struct sandbox_end *sandbox_end(const struct sandbox *s);
int sandbox_usage(struct sandbox *s, struct sandbox_usage *out, struct error *err);
int sandbox_extend(struct sandbox *s, int64_t lease_ms, struct error *err);

/*
 * How a detached sandbox lives on, also when nobody is there to ask: its monitor holds to it. Times
 * in milliseconds. A paused one keeps its memory and runs no instruction; time that it is paused
 * counts for no limit of what was running.
 */
struct sandbox_rules {
	int64_t lease_ms;  /* of each lease: after a wake, and of one that renews itself */
	int64_t left_ms;   /* the lease ends so long from now; 0: when it would */
	int64_t idle_ms;   /* paused when nothing was under way for so long; 0: never */
	int64_t paused_ms; /* it is stopped when it was paused for so long */
	bool pause_at_end; /* of the lease; else it is stopped */
	bool persistent;   /* the lease renews itself */
	bool auto_wake;    /* a request wakes it; else it answers -ESHUTDOWN */
	bool hand_over;    /* what it has used so far is not counted */
};
int sandbox_rules(struct sandbox *s, const struct sandbox_rules *rules, struct error *err);
/* Both return once it is so. -EOPNOTSUPP: its engine cannot. */
int sandbox_pause(struct sandbox *s, struct error *err);
int sandbox_wake(struct sandbox *s, int64_t lease_ms /* 0: of its rules */, struct error *err);

struct sandbox_state {
	bool paused, busy;       /* busy: something was asked for that has not ended */
	int64_t left_ms;         /* of its lease, or of its time paused */
	int64_t paused_total_ms; /* since it was handed over */
};
int sandbox_state(struct sandbox *s, struct sandbox_state *out, struct error *err);
/* What it used over time, the oldest first, with how it is now: every ten seconds of some hours, or
 * coarse, every minute of a day. The samples are the caller's to free. */
struct sandbox_metrics {
	int64_t step_ms;
	struct wire_sample *samples;
	size_t count;
};
int sandbox_metrics(struct sandbox *s, bool coarse, struct sandbox_metrics *out, struct error *err);
/* Without a connection: 1 when it is paused, from when until when by the wall clock (ms since
 * 1970), else 0; negative when it cannot be seen now. */
int sandbox_look_paused(const char *home, const char *id, int64_t *since_ms, int64_t *until_ms);

/* What went over its network so far. */
struct sandbox_network {
	bool on;
	uint32_t open; /* connections now */
	uint64_t connections, refused, names;
	uint64_t bytes_in, bytes_out; /* from and to the world */
};
int sandbox_network(struct sandbox *s, struct sandbox_network *out, struct error *err);
/* Change what it may connect to, at once: connections that are now denied are reset. -EINVAL: the
 * policy is not valid; -EPERM: it was made without a network. *out as above, or NULL. */
int sandbox_set_network(
	struct sandbox *s, const char *policy, struct sandbox_network *out, struct error *err);

struct exec_spec {
	const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH of env */
	const char *const *env;  /* NULL-terminated "NAME=value"; NULL: a plain default */
	const char *cwd;         /* NULL: "/workspace" */
	uint32_t uid, gid;       /* 0 is root; the usual user is 1000 */
	uint32_t flags;          /* WIRE_EXEC_… except STDIN and REPORT, which are derived */
	int64_t cpu_ms, wall_ms; /* <= 0: none */
	uint64_t memory_bytes;   /* of the tree, with files it writes; 0: none */
	uint64_t output_bytes;   /* of stdout and of stderr each; 0: 64 MiB */
	uint64_t file_bytes;     /* largest file; 0: none */
	uint32_t processes;      /* 0: 512 */
	uint32_t cols, rows;     /* > 0: a terminal of that size on its fds 0 to 2 */

	/* standard input: bytes, or a file descriptor read as the guest takes it (until its end);
	 * neither: /dev/null */
	const void *stdin_bytes;
	size_t stdin_count;
	int stdin_fd; /* -1: none (initialise with EXEC_SPEC_INIT) */

	/* Called for each piece on a channel (WIRE_STDOUT, WIRE_STDERR, WIRE_REPORT); the guest is
	 * given credit when it returns. A negative errno cancels the exec and is the call's
	 * answer. NULL: the bytes go to exec_result's buffers. */
	int (*on_output)(void *context, enum wire_channel channel, const void *bytes, size_t count);
	void *context;
	bool report; /* give it fd 3 */

	/* polled with the connection: when readable, the exec is cancelled and answers -EINTR; -1
	 */
	int cancel_fd;
};
#define EXEC_SPEC_INIT                                                                             \
	{                                                                                          \
		.stdin_fd = -1, .cancel_fd = -1, .uid = 1000, .gid = 1000                          \
	}

struct exec_result {
	enum wire_ending reason;
	uint32_t status; /* exit code, or the signal's number */
	uint32_t flags;  /* WIRE_EXIT_… */
	uint64_t wall_us;
	uint64_t cpu_us; /* measured on the host where that is possible, else in the guest */
	bool cpu_from_host;
	/* by the guest's clock, which also runs while the host does something else: what the
	 * program would have used on a host of its own, in steps of 10 ms */
	uint64_t guest_cpu_us;
	uint64_t memory_peak_bytes;
	uint64_t stdout_bytes, stderr_bytes; /* produced, with what was cut */
	struct buffer out, err, report;      /* when there is no on_output; at most output_bytes */
};
void exec_result_fini(struct exec_result *r);

/* Run to the end. 0 whatever the program did; *result must be {0} or finished before. -ENOENT and
 * the like (negative errno of the guest) with a message when it could not be started. */
int sandbox_exec(struct sandbox *s, const struct exec_spec *spec, struct exec_result *result,
	struct error *err);

/* The exit status a shell would show: code, 128 + signal, 124 for time limits, 137 for memory. */
int exec_result_status(const struct exec_result *r);

/*
 * Processes: commands that run on when their caller goes, in the sandbox's monitor, which keeps
 * their newest output and how they ended as long as the sandbox lives (the oldest that have ended
 * are forgotten when there are many). Any connection to the sandbox may use them by their id.
 */
struct sandbox_process {
	char id[48];
	enum wire_process_state state;
	uint32_t pid;            /* the guest's word */
	enum wire_ending reason; /* once it is WIRE_PROCESS_ENDED */
	uint32_t status, flags;
	uint64_t wall_us;
	int64_t started_ms, ended_ms;      /* wall clock; 0: not yet */
	uint64_t output_first, output_end; /* offsets of what is kept of its output */
	uint64_t input_bytes;              /* taken so far */
	bool input_open;
	uint32_t cols, rows; /* 0: no terminal */
	char *about;
};
void sandbox_process_fini(struct sandbox_process *p);

struct spawn_spec {
	const struct exec_spec *exec; /* without input, callbacks and report */
	const char *id;               /* a new UUID */
	const char *about;            /* at most 8 KiB of the caller's, given back; NULL: "" */
	bool input;                   /* takes input by sandbox_process_write() */
	bool hold; /* wait for this connection's reading: no output is dropped while it lasts */
};

/* Start one; answers when it runs, or has ended already: 127 when there is no such program.
 * -EBUSY: too many run. *out is to be finished whenever a call below answers 0. */
int sandbox_spawn(struct sandbox *s, const struct spawn_spec *spec, struct sandbox_process *out,
	struct error *err);
/*
 * A folder that is watched is such a process, whose output is the records of wire.h; any signal
 * ends it. -EBUSY: too many watches. -ENOENT, -ENOTDIR, -EACCES: of the folder.
 */
struct watch_spec {
	const char *path;
	uint32_t uid, gid;                           /* whose rights apply */
	bool recursive;                              /* and all folders below */
	uint32_t events;                             /* WIRE_WATCH_… */
	uint32_t batch_ms, folders;                  /* 0: at once; as many as there may be */
	int64_t timeout_ms;                          /* 0: none */
	const char *const *include, *const *exclude; /* patterns, NULL at the end; NULL: none */
	const char *id, *about;                      /* as in spawn_spec */
};
int sandbox_watch(struct sandbox *s, const struct watch_spec *spec, struct sandbox_process *out,
	struct error *err);
/* *out: array of *count, the oldest first; free with sandbox_processes_free(). */
int sandbox_processes(
	struct sandbox *s, struct sandbox_process **out, size_t *count, struct error *err);
void sandbox_processes_free(struct sandbox_process *list, size_t count);

/*
 * Output from `cursor` on: at most `most` bytes (256 KiB at a time), in pieces with their offsets;
 * one that begins beyond the cursor says that bytes before it were dropped. When there is none yet,
 * wait for some, or for its end, wait_ms long (< 0: as long as it takes). -ENOENT: there is no such
 * process. -EINTR: cancel_fd (-1: none) became readable; the connection may be used on.
 * A result of on_piece other than 0 ends it and is the answer.
 */
struct output_spec {
	const char *id;
	uint64_t cursor;
	uint32_t most;
	int64_t wait_ms;
	int cancel_fd;
	int (*on_piece)(void *context, enum wire_channel channel, uint64_t offset,
		const void *bytes, size_t count);
	void *context;
};
int sandbox_process_output(struct sandbox *s, const struct output_spec *spec,
	struct sandbox_process *out, struct error *err);
/* Input that begins at `offset` of all its input. What was taken before is left out, so that a call
 * may be made again; out->input_bytes says what is taken now, which may be less (full buffers).
 * `eof`: it ends after these bytes, once all of them are taken. -EBADF: it takes none; -ESPIPE:
 * there is a gap before the offset. SANDBOX_INPUT_END for an offset: after all that was taken, the
 * whole or nothing (-ENOBUFS), at most 128 KiB at a time of it. */
#define SANDBOX_INPUT_END UINT64_MAX
int sandbox_process_write(struct sandbox *s, const char *id, uint64_t offset, const void *bytes,
	size_t count, bool eof, struct sandbox_process *out, struct error *err);
/* To every process of it. -ESRCH: it has ended. */
int sandbox_process_signal(struct sandbox *s, const char *id, uint32_t signal,
	struct sandbox_process *out, struct error *err);
/* -ENOTTY: it has no terminal. */
int sandbox_process_resize(struct sandbox *s, const char *id, uint32_t cols, uint32_t rows,
	struct sandbox_process *out, struct error *err);

/* Files. `as` is the uid and gid whose rights apply in the guest (0: root). */
struct sandbox_entry {
	char *path;
	enum wire_file_type type;
	uint32_t mode, uid, gid;
	uint64_t size;
	int64_t mtime_ns;
	char *target;
};

int sandbox_write(struct sandbox *s, const char *path, const void *bytes, size_t count,
	uint32_t mode, uint32_t as, struct error *err);
int sandbox_write_fd(
	struct sandbox *s, const char *path, int fd, uint32_t mode, uint32_t as, struct error *err);
/* The same, when the SHA-256 of it all is the one given: else -EBADMSG, and `path` is as it was.
 * `found` (HASH_HEX_SIZE) is what it is, or "" when it did not come to that. */
int sandbox_write_checked(struct sandbox *s, const char *path, int fd, uint32_t mode, uint32_t as,
	const char *sha256, char *found, struct error *err);
/* add at most `limit` bytes of the file to out; -EFBIG when it is larger (out then holds the head)
 */
int sandbox_read(struct sandbox *s, const char *path, size_t limit, uint32_t as, struct buffer *out,
	struct error *err);
/* the bytes as they come; a result other than 0 of on_bytes ends it and is the answer */
int sandbox_read_to(struct sandbox *s, const char *path, uint32_t as,
	int (*on_bytes)(void *context, const void *bytes, size_t count), void *context,
	struct error *err);
int sandbox_stat(struct sandbox *s, const char *path, uint32_t as, struct sandbox_entry *out,
	struct error *err);
/* *out: array of *count entries, free with sandbox_entries_free */
int sandbox_list(struct sandbox *s, const char *path, uint32_t depth, uint32_t most, uint32_t as,
	struct sandbox_entry **out, size_t *count, struct error *err);
void sandbox_entries_free(struct sandbox_entry *entries, size_t count);
int sandbox_mkdir(
	struct sandbox *s, const char *path, uint32_t mode, uint32_t as, struct error *err);
int sandbox_remove(
	struct sandbox *s, const char *path, bool recursive, uint32_t as, struct error *err);
int sandbox_rename(
	struct sandbox *s, const char *from, const char *to, uint32_t as, struct error *err);
int sandbox_chmod(
	struct sandbox *s, const char *path, uint32_t mode, uint32_t as, struct error *err);
int sandbox_chown(
	struct sandbox *s, const char *path, uint32_t owner, uint32_t group, struct error *err);

/* A tar stream into `path` (made with parents), owned by uid and gid. The bytes are a whole ustar
 * or pax archive; sandbox_put_tree() packs a host directory itself (regular files, directories and
 * symbolic links that stay inside; mode and names kept; nothing else). */
int sandbox_put_tar(struct sandbox *s, const char *path, const void *bytes, size_t count,
	uint32_t uid, uint32_t gid, struct error *err);
/* the same, with bytes asked for as the guest takes them: `next` gives 1 with bytes, 0 at their
 * end, or a negative errno, which is the answer */
int sandbox_put_tar_from(struct sandbox *s, const char *path,
	int (*next)(void *context, const void **bytes, size_t *count), void *context, uint32_t uid,
	uint32_t gid, struct error *err);
int sandbox_put_tree(struct sandbox *s, const char *path, int host_dir_fd, uint32_t uid,
	uint32_t gid, uint64_t limit_bytes, struct error *err);
/* Pack what is in a host directory as tar, compressed or not, piece by piece into `sink`, whose
 * negative errno ends it (with a message of its own). Links are not followed; what is neither file,
 * folder nor link is refused, as is more than limit_bytes of files (0: no limit). */
int tree_pack(int dir_fd, uint64_t limit_bytes, bool gzip,
	int (*sink)(void *context, const void *bytes, size_t count), void *context,
	struct error *err);
/* `exclude`: paths below it that are left out, with all below them; NULL at the end; NULL: none */
int sandbox_get_tar(struct sandbox *s, const char *path, const char *const *exclude, uint32_t as,
	int (*on_bytes)(void *context, const void *bytes, size_t count), void *context,
	struct error *err);

/* Where this host's helpers are: $SEALMARK_LIBEXEC, else the build tree's or the installed ones.
 * name is "sealmark-monitor", "agent.cpio", "setup", "examiner"; -ENOENT with the cure. */
int sandbox_helper_path(const char *name, char *out, size_t size, struct error *err);

/* Remove what dead monitors left (directories, cgroups, slots) under home; returns how many. */
int sandbox_sweep(const char *home, struct error *err);
/* Is a directory or a cgroup of it still there? One whose keeper was killed goes with a sweep, once
 * its other processes have ended. */
bool sandbox_is_left(const char *home, const char *id);

#endif
