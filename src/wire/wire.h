/* SPDX-License-Identifier: Apache-2.0 - frames and messages between host and guest. */
#ifndef SEALMARK_WIRE_WIRE_H
#define SEALMARK_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * One byte stream (vsock to the guest, a unix socket to the monitor) carries frames:
 *
 *	 0        4     6        8         12
 *	+--------+-----+--------+---------+----------------+
 *	| length | type| channel| stream  | payload …      |   little endian
 *	+--------+-----+--------+---------+----------------+
 *
 * `length` counts the payload only, at most WIRE_PAYLOAD_MAX. Stream 0 is the connection itself;
 * every other stream is one operation. The host opens it with a request (EXEC, FILE_…, TAR_…,
 * WATCH, STATS, PING) under an id of its choice that is not in use; the guest ends it with exactly
 *one final message (EXIT, DONE, FAIL, STATS_REPLY, PONG), after which the id is free. The host
 *never ends a stream by itself: to give up it sends KILL and waits for the final message.
 *
 * Bytes travel in DATA frames on a channel of the stream; END closes the channel. Each channel
 * starts with WIRE_WINDOW bytes of credit. Sending n bytes uses up n; the receiver returns credit
 * with CREDIT frames once it has consumed bytes (in steps of at least WIRE_CREDIT_STEP, except at
 * the end), so that a reader that waits blocks only its own channel. Sending without credit is a
 * protocol error and ends the connection. CREDIT frames that arrive for a stream which has just
 * ended are ignored.
 *
 * Nothing here allocates. Decoded messages point into the frame they came from.
 */
#define WIRE_VERSION     3u
#define WIRE_HEADER      12u
#define WIRE_PAYLOAD_MAX (256u << 10)
#define WIRE_FRAME_MAX   (WIRE_HEADER + WIRE_PAYLOAD_MAX)
#define WIRE_WINDOW      (512u << 10)
#define WIRE_CREDIT_STEP (128u << 10)
#define WIRE_STREAMS_MAX 64u   /* open at once on one connection to a guest */
#define WIRE_VSOCK_PORT  1024u /* where the agent connects, on CID 2 */
#define WIRE_PATH_MAX    4096u /* with the terminator */
#define WIRE_STRINGS_MAX 4096u /* entries of argv or env */

enum wire_channel {
	WIRE_STDIN = 0,  /* host to guest: standard input, contents of FILE_WRITE and TAR_IN */
	WIRE_STDOUT = 1, /* guest to host: standard output, contents of FILE_READ and TAR_OUT */
	WIRE_STDERR = 2,
	WIRE_REPORT = 3, /* guest to host: what the process writes to file descriptor 3 */
	WIRE_CHANNELS = 4
};

/* exec.flags */
#define WIRE_EXEC_STDIN       1u  /* channel 0 is its standard input; else /dev/null */
#define WIRE_EXEC_REPORT      2u  /* give it a pipe on fd 3, carried on channel 3 */
#define WIRE_EXEC_OUTPUT_KILL 4u  /* end it at the output limit; else drop what is beyond it */
#define WIRE_EXEC_PRIVILEGED  8u  /* keep root's capabilities (uid 0 only), cgroup writable */
#define WIRE_EXEC_NEW_PRIVS   16u /* allow setuid programs (sudo); default no_new_privs */
#define WIRE_EXEC_TERMINAL    32u /* fds 0 to 2 are a terminal of its own, channels 0 and 1 */

/* exit.reason: how an exec ended; the order is the wire's */
enum wire_ending {
	WIRE_END_EXITED = 0, /* status is the exit code */
	WIRE_END_SIGNALED,   /* status is the signal's number */
	WIRE_END_CPU_LIMIT,
	WIRE_END_WALL_LIMIT,
	WIRE_END_MEMORY_LIMIT, /* the guest's OOM killer ended a process of it */
	WIRE_END_OUTPUT_LIMIT,
	WIRE_END_FILE_LIMIT, /* SIGXFSZ */
	WIRE_END_KILLED,     /* KILL frame, status is its reason */
	WIRE_END_COUNT
};

/* exit.flags */
#define WIRE_EXIT_STDOUT_CUT 1u /* bytes were dropped at the output limit */
#define WIRE_EXIT_STDERR_CUT 2u
#define WIRE_EXIT_OOM        4u  /* some process of the tree was killed for memory */
#define WIRE_EXIT_PIDS       8u  /* a fork was refused by the process limit */
#define WIRE_EXIT_DISK_FULL  16u /* the writable layer was seen full (space or inodes) */
#define WIRE_EXIT_LEFTOVERS  32u /* processes were still running at its end and were killed */
#define WIRE_EXIT_REPORT_CUT 64u

/* kill.reason */
enum wire_kill_reason { WIRE_KILL_CANCEL = 0, WIRE_KILL_CPU = 1, WIRE_KILL_WALL = 2 };

/* entry.type */
enum wire_file_type {
	WIRE_FILE_REGULAR = 1,
	WIRE_FILE_DIRECTORY = 2,
	WIRE_FILE_SYMLINK = 3,
	WIRE_FILE_OTHER = 4
};

/* Why a sandbox is over; names in sandbox_stop_reason_name() of sandbox.h. The order is the wire's.
 */
enum sandbox_stop_reason {
	SANDBOX_RUNNING = 0,
	SANDBOX_STOPPED_REQUESTED,
	SANDBOX_STOPPED_LEASE,        /* lease_expired */
	SANDBOX_STOPPED_OWNER,        /* the creator went away */
	SANDBOX_STOPPED_START_FAILED, /* startup_failed */
	SANDBOX_STOPPED_GUEST_ENDED,  /* the machine powered off, panicked or was killed */
	SANDBOX_STOPPED_GUEST_FAULT,  /* it broke the protocol or its rings */
	SANDBOX_STOPPED_MONITOR_LOST, /* the monitor died */
	SANDBOX_STOPPED_PAUSED,       /* paused_expired */
	SANDBOX_STOPPED_PAUSE_FAILED,
	SANDBOX_STOPPED_HOST, /* host_stopped: the host was shut down in an orderly way */
	SANDBOX_STOP_REASONS
};

/* mon_spawn.flags: while the client that spawned it is there, it waits for what that one has not
 * asked beyond yet; else its oldest output is dropped. */
#define WIRE_SPAWN_HOLD  1u
#define WIRE_SPAWN_WATCH 2u /* `exec` is the payload of a WATCH; SIGNAL of any number ends it */

/* mon_process.state */
enum wire_process_state {
	WIRE_PROCESS_STARTING = 0,
	WIRE_PROCESS_RUNNING,
	WIRE_PROCESS_ENDED,
	WIRE_PROCESS_LOST, /* the guest gave it up without saying how it ended */
	WIRE_PROCESS_STATES
};

#define WIRE_PARENTS   1u /* file_write, file_mkdir, tar_in: make missing parents (mode 755) */
/* file_remove: a whole tree; a missing path is then no error. watch: all folders below it too. */
#define WIRE_RECURSIVE 1u

/* mon_rules.flags */
#define WIRE_RULE_PAUSE      1u /* at the end of the lease it is paused; else stopped */
#define WIRE_RULE_PERSISTENT 2u /* its lease renews itself */
#define WIRE_RULE_AUTO_WAKE  4u /* a request wakes it; else it is refused with ESHUTDOWN */
#define WIRE_RULE_HAND_OVER  8u /* what it has used so far was not its owner's */

#define WIRE_REASON_MAX 400u /* most bytes of a message in FAIL */

/*
 * The table: M(NAME, name, number, direction) and for each WIRE_FIELDS_name(F) with F(type, field).
 * Directions: GUEST (to the guest), HOST (to the host), BOTH; MONITOR messages (numbers from 0x100)
 * go between a client and the monitor only and never reach a guest.
 */
#define WIRE_MESSAGES(M)                                                                           \
	M(HELLO, hello, 0x01, HOST)                                                                \
	M(DATA, data, 0x02, BOTH)                                                                  \
	M(END, end, 0x03, BOTH)                                                                    \
	M(CREDIT, credit, 0x04, BOTH)                                                              \
	M(DONE, done, 0x05, HOST)                                                                  \
	M(FAIL, fail, 0x06, HOST)                                                                  \
	M(PING, ping, 0x07, GUEST)                                                                 \
	M(PONG, pong, 0x08, HOST)                                                                  \
	M(SHUTDOWN, shutdown, 0x09, GUEST)                                                         \
	M(CLOCK, clock, 0x0a, GUEST)                                                               \
	M(ENTROPY, entropy, 0x0b, GUEST)                                                           \
	M(EXEC, exec, 0x10, GUEST)                                                                 \
	M(STARTED, started, 0x11, HOST)                                                            \
	M(SIGNAL, signal, 0x12, GUEST)                                                             \
	M(KILL, kill, 0x13, GUEST)                                                                 \
	M(EXIT, exit, 0x14, HOST)                                                                  \
	M(FILE_WRITE, file_write, 0x20, GUEST)                                                     \
	M(FILE_READ, file_read, 0x21, GUEST)                                                       \
	M(FILE_LIST, file_list, 0x22, GUEST)                                                       \
	M(FILE_STAT, file_stat, 0x23, GUEST)                                                       \
	M(FILE_MKDIR, file_mkdir, 0x24, GUEST)                                                     \
	M(FILE_REMOVE, file_remove, 0x25, GUEST)                                                   \
	M(FILE_RENAME, file_rename, 0x26, GUEST)                                                   \
	M(FILE_CHMOD, file_chmod, 0x27, GUEST)                                                     \
	M(FILE_CHOWN, file_chown, 0x28, GUEST)                                                     \
	M(ENTRY, entry, 0x29, HOST)                                                                \
	M(TAR_IN, tar_in, 0x2a, GUEST)                                                             \
	M(TAR_OUT, tar_out, 0x2b, GUEST)                                                           \
	M(STATS, stats, 0x30, GUEST)                                                               \
	M(STATS_REPLY, stats_reply, 0x31, HOST)                                                    \
	M(NET_SET, net_set, 0x40, GUEST)                                                           \
	M(NET_OPEN, net_open, 0x41, HOST)                                                          \
	M(NET_OPENED, net_opened, 0x42, GUEST)                                                     \
	M(NET_RESOLVE, net_resolve, 0x43, HOST)                                                    \
	M(NET_RESOLVED, net_resolved, 0x44, GUEST)                                                 \
	M(NET_DATA, net_data, 0x45, BOTH)                                                          \
	M(NET_END, net_end, 0x46, BOTH)                                                            \
	M(NET_CREDIT, net_credit, 0x47, BOTH)                                                      \
	M(NET_CLOSE, net_close, 0x48, BOTH)                                                        \
	M(RESIZE, resize, 0x50, GUEST)                                                             \
	M(WATCH, watch, 0x51, GUEST)                                                               \
	M(MON_READY, mon_ready, 0x100, MONITOR)                                                    \
	M(MON_STOPPED, mon_stopped, 0x101, MONITOR)                                                \
	M(MON_USAGE, mon_usage, 0x102, MONITOR)                                                    \
	M(MON_USAGE_REPLY, mon_usage_reply, 0x103, MONITOR)                                        \
	M(MON_EXTEND, mon_extend, 0x104, MONITOR)                                                  \
	M(MON_STOP, mon_stop, 0x105, MONITOR)                                                      \
	M(MON_RULES, mon_rules, 0x106, MONITOR)                                                    \
	M(MON_PAUSE, mon_pause, 0x107, MONITOR)                                                    \
	M(MON_WAKE, mon_wake, 0x108, MONITOR)                                                      \
	M(MON_STATE, mon_state, 0x109, MONITOR)                                                    \
	M(MON_STATE_REPLY, mon_state_reply, 0x10a, MONITOR)                                        \
	M(MON_METRICS, mon_metrics, 0x10b, MONITOR)                                                \
	M(MON_METRICS_REPLY, mon_metrics_reply, 0x10c, MONITOR)                                    \
	M(MON_SPAWN, mon_spawn, 0x110, MONITOR)                                                    \
	M(MON_PROCESSES, mon_processes, 0x111, MONITOR)                                            \
	M(MON_PROCESS, mon_process, 0x112, MONITOR)                                                \
	M(MON_OUTPUT, mon_output, 0x113, MONITOR)                                                  \
	M(MON_PIECE, mon_piece, 0x114, MONITOR)                                                    \
	M(MON_WRITE, mon_write, 0x115, MONITOR)                                                    \
	M(MON_SIGNAL, mon_signal, 0x116, MONITOR)                                                  \
	M(MON_RESIZE, mon_resize, 0x117, MONITOR)                                                  \
	M(MON_NETWORK, mon_network, 0x120, MONITOR)                                                \
	M(MON_NETWORK_REPLY, mon_network_reply, 0x121, MONITOR)

/* first message of the agent, on stream 0 */
#define WIRE_FIELDS_hello(F) F(u32, version) F(str, kernel) F(u64, memory_bytes) F(u64, uptime_us)
#define WIRE_FIELDS_data(F)  /* the payload is the bytes */
#define WIRE_FIELDS_end(F)
#define WIRE_FIELDS_credit(F) F(u32, bytes)
#define WIRE_FIELDS_done(F)
#define WIRE_FIELDS_fail(F) F(u32, error /* positive errno */) F(str, message)
#define WIRE_FIELDS_ping(F) F(u64, token)
#define WIRE_FIELDS_pong(F) F(u64, token)
#define WIRE_FIELDS_shutdown(F)
#define WIRE_FIELDS_clock(F)   F(i64, realtime_ns)
#define WIRE_FIELDS_entropy(F) F(blob, bytes)

/* Limits of 0 mean none. output_bytes holds for stdout and for stderr, each; report has 4 times
 * that, at least 4 MiB. env is "NAME=value". The environment of the agent is never passed on. */
#define WIRE_FIELDS_exec(F)                                                                        \
	F(u32, flags)                                                                              \
	F(u32, uid)                                                                                \
	F(u32, gid)                                                                                \
	F(u64, cpu_us)                                                                             \
	F(u64, wall_us)                                                                            \
	F(u64, memory_bytes)                                                                       \
	F(u64, output_bytes)                                                                       \
	F(u64, file_bytes)                                                                         \
	F(u32, processes)                                                                          \
	F(u32, cols /* of its terminal */)                                                         \
	F(u32, rows)                                                                               \
	F(str, cwd)                                                                                \
	F(strs, argv)                                                                              \
	F(strs, env)
#define WIRE_FIELDS_started(F) F(u32, pid)
#define WIRE_FIELDS_signal(F)  F(u32, signal /* sent to every process of the exec */)
#define WIRE_FIELDS_resize(F)  F(u32, cols) F(u32, rows) /* of an exec's terminal */
#define WIRE_FIELDS_kill(F)    F(u32, reason)
/* host_cpu_us is 0 from the agent; the monitor fills in what it measured from outside. */
#define WIRE_FIELDS_exit(F)                                                                        \
	F(u32, reason)                                                                             \
	F(u32, status)                                                                             \
	F(u32, flags)                                                                              \
	F(u64, wall_us)                                                                            \
	F(u64, cpu_us)                                                                             \
	F(u64, host_cpu_us)                                                                        \
	F(u64, memory_peak_bytes)                                                                  \
	F(u64, stdout_bytes /* produced, with what was dropped */)                                 \
	F(u64, stderr_bytes)

/* File requests act with the file system rights of uid and gid (0: root), so that a link made by
 * the guest's user never reaches further than that user. */
#define WIRE_FIELDS_file_write(F)                                                                  \
	F(str, path) F(u32, mode) F(u32, uid) F(u32, gid) F(u32, flags) F(u64, limit_bytes)
#define WIRE_FIELDS_file_read(F)                                                                   \
	F(str, path) F(u32, uid) F(u32, gid) F(u64, offset) F(u64, length /* 0: to the end */)
#define WIRE_FIELDS_file_list(F)                                                                   \
	F(str, path) F(u32, uid) F(u32, gid) F(u32, depth /* 1: children only */) F(u32, most)
#define WIRE_FIELDS_file_stat(F)   F(str, path) F(u32, uid) F(u32, gid)
#define WIRE_FIELDS_file_mkdir(F)  F(str, path) F(u32, mode) F(u32, uid) F(u32, gid) F(u32, flags)
#define WIRE_FIELDS_file_remove(F) F(str, path) F(u32, uid) F(u32, gid) F(u32, flags)
#define WIRE_FIELDS_file_rename(F) F(str, from) F(str, to) F(u32, uid) F(u32, gid)
#define WIRE_FIELDS_file_chmod(F)  F(str, path) F(u32, mode) F(u32, uid) F(u32, gid)
#define WIRE_FIELDS_file_chown(F)  F(str, path) F(u32, owner) F(u32, group) /* as root */
/* path is relative to the directory asked for, or the path asked for with FILE_STAT */
#define WIRE_FIELDS_entry(F)                                                                       \
	F(str, path)                                                                               \
	F(u32, type)                                                                               \
	F(u32, mode)                                                                               \
	F(u32, uid)                                                                                \
	F(u32, gid)                                                                                \
	F(u64, size)                                                                               \
	F(i64, mtime_ns)                                                                           \
	F(str, target)
/* unpack below path; owners become uid:gid; links and devices that would leave path are refused */
#define WIRE_FIELDS_tar_in(F)  F(str, path) F(u32, uid) F(u32, gid) F(u32, flags) F(u64, limit_bytes)
/* without what lies at these paths, relative to the folder, and below them */
#define WIRE_EXCLUDE_MOST      8192u /* bytes of them, with a terminator each */
#define WIRE_FIELDS_tar_out(F) F(str, path) F(u32, uid) F(u32, gid) F(strs, exclude)

/*
 * What changes in a folder: STARTED when all is being watched, then records on channel 1 until KILL
 * or its own end; DONE. A record ends with a NUL:
 *
 *	letter kind path	c created, w written, r removed, n renamed, a attributes; kind d or
 *f o path			before an n: where it was before ! notice		"overflow":
 *events were lost; "limit": not all is watched; "end stopped", "end timeout", "end root-removed"
 *
 * Paths are absolute. A pattern without a slash is for names, one with a slash for paths below the
 * folder (wire/glob.h). What is excluded is neither told nor watched.
 */
#define WIRE_WATCHES_MOST   16u
#define WIRE_WATCH_FOLDERS  1024u /* of one watch */
#define WIRE_WATCH_PATTERNS 4096u /* bytes of include, and of exclude, with a terminator each */
#define WIRE_WATCH_CREATE   1u
#define WIRE_WATCH_WRITE    2u
#define WIRE_WATCH_REMOVE   4u
#define WIRE_WATCH_RENAME   8u
#define WIRE_WATCH_CHMOD    16u
#define WIRE_FIELDS_watch(F)                                                                       \
	F(str, path)                                                                               \
	F(u32, uid)                                                                                \
	F(u32, gid)                                                                                \
	F(u32, flags)                                                                              \
	F(u32, events /* WIRE_WATCH_… */)                                                          \
	F(u32, batch_ms /* changes are told together after so long */)                             \
	F(u32, folders /* most of them; 0: WIRE_WATCH_FOLDERS */)                                  \
	F(u64, timeout_ms /* 0: none */)                                                           \
	F(strs, include /* none: everything */)                                                    \
	F(strs, exclude)
#define WIRE_FIELDS_stats(F)
#define WIRE_FIELDS_stats_reply(F)                                                                 \
	F(u64, uptime_us)                                                                          \
	F(u64, memory_total_bytes)                                                                 \
	F(u64, memory_free_bytes)                                                                  \
	F(u64, disk_total_bytes)                                                                   \
	F(u64, disk_free_bytes)                                                                    \
	F(u32, processes)                                                                          \
	F(u64, cpu_us)

/*
 * Connections from the guest to the world. Their ids are a space of their own in the field of the
 * stream, chosen by the guest, at most WIRE_NET_MOST in use. NET_OPEN is answered by NET_OPENED or
 * NET_CLOSE, NET_RESOLVE by NET_RESOLVED, which frees the id. Each direction starts with
 * WIRE_NET_WINDOW bytes of credit; NET_END closes a direction. Either side ends a connection with
 * NET_CLOSE; the other answers with NET_CLOSE, and then the id is free.
 */
#define WIRE_NET_MOST           256u
#define WIRE_NET_WINDOW         (128u << 10)
#define WIRE_NET_STEP           (32u << 10)
#define WIRE_NET_PIECE          (32u << 10) /* most bytes of one NET_DATA */
#define WIRE_FIELDS_net_set(F)  F(u32, on)  /* stream 0: listen, or do so no more */
#define WIRE_FIELDS_net_open(F) F(str, host /* name or address */) F(u32, port)
#define WIRE_FIELDS_net_opened(F)
#define WIRE_FIELDS_net_resolve(F)  F(str, name)
#define WIRE_FIELDS_net_resolved(F) F(u32, error /* 0: it exists and may be connected to */)
#define WIRE_FIELDS_net_data(F)     F(blob, bytes)
#define WIRE_FIELDS_net_end(F)
#define WIRE_FIELDS_net_credit(F) F(u32, bytes)
#define WIRE_FIELDS_net_close(F)  F(u32, error /* 0: all was said */) F(str, why)

/* Stream 0, once: the sandbox takes requests from now on. */
#define WIRE_FIELDS_mon_ready(F)                                                                   \
	F(str, id)                                                                                 \
	F(str, engine)                                                                             \
	F(str, isolation /* one line for records, as "uml userns seccomp cgroup-v1 own-uid" */)    \
	F(str, kernel)                                                                             \
	F(u64, boot_us /* from the start of the monitor to the agent's hello */)
/* Stream 0, last: it is over; reason is enum sandbox_stop_reason of sandbox.h */
#define WIRE_FIELDS_mon_stopped(F)                                                                 \
	F(u32, reason)                                                                             \
	F(str, detail)                                                                             \
	F(u64, cpu_us)                                                                             \
	F(u64, memory_peak_bytes)                                                                  \
	F(u64, wall_us)                                                                            \
	F(str, console /* its last lines, made harmless */)
#define WIRE_FIELDS_mon_usage(F)
#define WIRE_FIELDS_mon_usage_reply(F)                                                             \
	F(u64, cpu_us) F(u64, memory_bytes) F(u64, memory_peak_bytes) F(u64, wall_us)
#define WIRE_FIELDS_mon_extend(F) F(u64, lease_ms /* from now */)
#define WIRE_FIELDS_mon_stop(F)
/* How it lives on without its server: DONE answers. idle_ms of 0: never. */
#define WIRE_FIELDS_mon_rules(F)                                                                   \
	F(u32, flags /* WIRE_RULE_… */)                                                            \
	F(u64, lease_ms /* of each lease: after a wake, and of one that renews itself */)          \
	F(u64, left_ms /* the lease ends so long from now; 0: when it would */)                    \
	F(u64, idle_ms /* paused when nothing was asked for so long */)                            \
	F(u64, paused_ms /* stopped when paused for so long */)
/* DONE when it is paused, or runs again */
#define WIRE_FIELDS_mon_pause(F)
#define WIRE_FIELDS_mon_wake(F) F(u64, lease_ms /* 0: as its rules say */)
#define WIRE_FIELDS_mon_state(F)
#define WIRE_FIELDS_mon_state_reply(F)                                                             \
	F(u32, paused)                                                                             \
	F(u32, busy)                                                                               \
	F(u64, left_ms /* of its lease, or of its time paused */)                                  \
	F(u64, paused_ms /* in all, since it was handed over */)
/* A new policy (JSON, see egress_policy.h), or "" to ask only. */
#define WIRE_FIELDS_mon_network(F) F(str, policy)
#define WIRE_FIELDS_mon_network_reply(F)                                                           \
	F(u32, on)                                                                                 \
	F(u32, open)                                                                               \
	F(u64, connections)                                                                        \
	F(u64, refused)                                                                            \
	F(u64, names)                                                                              \
	F(u64, bytes_in)                                                                           \
	F(u64, bytes_out)

/*
 * Processes: commands that belong to the monitor, not to a client, under an id that the client
 * chose. Each request is answered on its stream by FAIL, or by MON_PIECEs (of MON_OUTPUT only), a
 * MON_PROCESS (of MON_PROCESSES: one for each) and DONE.
 */
#define WIRE_FIELDS_mon_spawn(F)                                                                   \
	F(str, id)                                                                                 \
	F(u32, flags)                                                                              \
	F(str, about /* the client's own words, given back in MON_PROCESS */)                      \
	F(blob, exec /* payload of an EXEC */)
#define WIRE_FIELDS_mon_processes(F)
#define WIRE_FIELDS_mon_process(F)                                                                 \
	F(str, id)                                                                                 \
	F(u32, state)                                                                              \
	F(u32, pid /* the guest's word */)                                                         \
	F(u32, reason) /* as in EXIT, once it is over */                                           \
	F(u32, status)                                                                             \
	F(u32, flags)                                                                              \
	F(u64, wall_us)                                                                            \
	F(i64, started_ms) /* wall clock */                                                        \
	F(i64, ended_ms)                                                                           \
	F(u64, output_first) /* offset of the oldest byte that is kept */                          \
	F(u64, output_end)                                                                         \
	F(u64, input_bytes) /* taken so far */                                                     \
	F(u32, input_open)                                                                         \
	F(u32, cols)                                                                               \
	F(u32, rows)                                                                               \
	F(str, about)
/* Output from `cursor` (an offset in stdout and stderr together) on, at most `most` bytes; when
 * there is none and it runs, wait for some or for its end. A further MON_OUTPUT of the same client
 * ends the wait of the one before. */
#define WIRE_FIELDS_mon_output(F) F(str, id) F(u64, cursor) F(u64, wait_ms) F(u32, most)
#define WIRE_FIELDS_mon_piece(F)  F(u64, offset) F(u32, channel) F(blob, bytes)
/* Input that begins at `offset` of all its input: what was taken before is left out. UINT64_MAX: at
 * the end of it, all or nothing. */
#define WIRE_FIELDS_mon_write(F)  F(str, id) F(u64, offset) F(u32, eof) F(blob, bytes)
#define WIRE_FIELDS_mon_signal(F) F(str, id) F(u32, signal)
#define WIRE_FIELDS_mon_resize(F) F(str, id) F(u32, cols) F(u32, rows)

/* The samples are structures of this host: they never leave it. */
#define WIRE_FIELDS_mon_metrics(F) F(u32, coarse)
#define WIRE_FIELDS_mon_metrics_reply(F)                                                           \
	F(u64, step_ms) F(blob, samples /* struct wire_sample, the oldest first */)
struct wire_sample {
	int64_t at_ms;   /* since 1970 */
	uint64_t cpu_us; /* since it was handed over, as all but memory */
	uint64_t memory_bytes, in_bytes, out_bytes;
};

/* --- what is generated from the table --- */

enum wire_type {
#define M(NAME, name, number, direction) WIRE_##NAME = number,
	WIRE_MESSAGES(M)
#undef M
};

enum wire_direction { WIRE_TO_GUEST = 1, WIRE_TO_HOST = 2, WIRE_TO_BOTH = 3, WIRE_TO_MONITOR = 4 };

/* A string inside a frame: NUL-terminated there, no NUL within; `count` without the terminator. */
struct wire_str {
	const char *text;
	uint32_t count;
};

struct wire_blob {
	const uint8_t *bytes;
	uint32_t count;
};

/* A list of strings. To encode, set `list` (count entries); decoded lists are walked with
 * wire_strs_next(). */
struct wire_strs {
	const char *const *list;
	const uint8_t *bytes;
	uint32_t size;
	uint32_t count;
};

typedef uint32_t wire_field_u32;
typedef uint64_t wire_field_u64;
typedef int64_t wire_field_i64;
typedef struct wire_str wire_field_str;
typedef struct wire_blob wire_field_blob;
typedef struct wire_strs wire_field_strs;

#define F(type, field) wire_field_##type field;
#define M(NAME, name, number, direction)                                                           \
	struct wire_##name {                                                                       \
		WIRE_FIELDS_##name(F) char unused_; /* a structure needs a member */               \
	};
WIRE_MESSAGES(M)
#undef M
#undef F

/* Encode a whole frame (header too) into out. Returns its size, or -EMSGSIZE. Strings given with
 * text NULL go as "". */
#define M(NAME, name, number, direction)                                                           \
	int wire_put_##name(uint8_t *out, size_t size, uint32_t stream, uint16_t channel,          \
		const struct wire_##name *m);
WIRE_MESSAGES(M)
#undef M

/* Decode a payload. 0, or -EPROTO when it is not exactly such a message. */
#define M(NAME, name, number, direction)                                                           \
	int wire_get_##name(const uint8_t *payload, uint32_t length, struct wire_##name *m);
WIRE_MESSAGES(M)
#undef M

/* "exec" -> for a literal or variable C string */
static inline struct wire_str wire_str(const char *text)
{
	return (struct wire_str){text, text ? (uint32_t)__builtin_strlen(text) : 0};
}

/* of a list with NULL at its end; NULL: none */
static inline struct wire_strs wire_list(const char *const *list)
{
	struct wire_strs strs = {.list = list};

	while (list && list[strs.count])
		strs.count++;
	return strs;
}

/* The next string of a decoded list, or NULL at its end; *at starts at 0. */
const char *wire_strs_next(const struct wire_strs *strs, uint32_t *at);

struct wire_frame {
	uint32_t length;
	uint16_t type;
	uint16_t channel;
	uint32_t stream;
	const uint8_t *payload;
};

/*
 * Take one frame from the front of bytes. Returns the bytes it used (> 0), 0 when more are needed,
 * -EPROTO when the header cannot be right (length over the maximum, unknown type, channel out of
 * range). With 0 and `need` given, *need is how many bytes in all are wanted.
 */
long wire_frame_get(const uint8_t *bytes, size_t count, struct wire_frame *frame, size_t *need);

/* Write a header into out (WIRE_HEADER bytes). */
void wire_header_put(
	uint8_t *out, uint32_t length, enum wire_type type, uint16_t channel, uint32_t stream);

/* Rewrite the stream id of an encoded frame. */
void wire_stream_set(uint8_t *frame, uint32_t stream);

/* "EXEC", or NULL for a number that is not in the table. */
const char *wire_type_name(uint16_t type);
/* enum wire_direction, or 0 for an unknown type. */
int wire_type_direction(uint16_t type);
/* True for the messages with which a guest ends a stream. */
bool wire_is_final(uint16_t type);
/* True for the messages about connections to the world. */
bool wire_is_network(uint16_t type);
/* True for the messages with which a host opens a stream. */
bool wire_is_request(uint16_t type);
/* Check a payload against the table: 0 or -EPROTO. (DATA: always 0.) */
int wire_check(const struct wire_frame *frame);
/* "wall limit" and the like, for people; "?" outside the range. */
const char *wire_end_name(uint32_t reason);

#endif
