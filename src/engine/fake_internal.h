/* SPDX-License-Identifier: Apache-2.0 - parts of the scripted engine; for src/engine/fake* only. */
#ifndef SEALMARK_ENGINE_FAKE_INTERNAL_H
#define SEALMARK_ENGINE_FAKE_INTERNAL_H

#include "base/buffer.h"
#include "base/error.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- fake_script.c: the language is described in fake.c --- */

enum fake_boot { FAKE_BOOT_OK, FAKE_BOOT_HANG, FAKE_BOOT_DIE, FAKE_BOOT_GARBAGE, FAKE_BOOT_MUTE };

enum fake_step_kind {
	FAKE_STEP_OUTPUT, /* text on channel */
	FAKE_STEP_FLOOD,  /* number of bytes on standard output */
	FAKE_STEP_ECHO,   /* standard input to standard output until its end */
	FAKE_STEP_DELAY,  /* number of ms */
	FAKE_STEP_CPU,    /* number: ms to be reported as used */
	FAKE_STEP_MEMORY, /* number: bytes to be reported as peak */
	FAKE_STEP_HANG,   /* until a limit or a KILL */
	FAKE_STEP_END     /* reason and status in `reason` and `number` */
};

struct fake_step {
	enum fake_step_kind kind;
	enum wire_channel channel;
	enum wire_ending reason;
	uint64_t number;
	char *text; /* owned */
	size_t count;
};

struct fake_exec_rule {
	char *pattern; /* fnmatch(3) against argv joined by blanks */
	struct fake_step *steps;
	size_t step_count;
};

enum fake_trouble_kind { FAKE_DIE, FAKE_GARBAGE, FAKE_MUTE, FAKE_HALF, FAKE_SEND };

struct fake_trouble {
	enum fake_trouble_kind kind;
	uint16_t type;  /* message on whose arrival it happens */
	uint64_t which; /* the n-th, from 1 */
	uint64_t seen;
	char *text; /* FAKE_SEND: raw bytes */
	size_t count;
};

struct fake_script {
	enum fake_boot boot;
	uint64_t boot_delay_ms;
	uint64_t slow_ms; /* before each exec */
	uint32_t version;
	struct fake_exec_rule *rules;
	size_t rule_count;
	struct fake_trouble *troubles;
	size_t trouble_count;
};

/* NULL path: an empty script. Errors name file and line. */
int fake_script_read(const char *path, struct fake_script *out, struct error *err);
int fake_script_parse(const char *name, char *text, struct fake_script *out, struct error *err);
void fake_script_fini(struct fake_script *s);

/* --- fake_files.c: files in memory, by absolute path --- */

struct fake_file {
	char *path;
	enum wire_file_type type;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
	struct buffer bytes; /* of a link: its target */
};

struct fake_files {
	struct fake_file **list; /* sorted by path */
	size_t count, room;
	uint64_t bytes; /* of all */
};

int fake_files_init(struct fake_files *files);
void fake_files_fini(struct fake_files *files);
struct fake_file *fake_files_find(struct fake_files *files, const char *path);
/* All 0 or negative errno, as the system call's. */
int fake_files_put(struct fake_files *files, const char *path, enum wire_file_type type,
	uint32_t mode, bool parents, struct fake_file **out);
int fake_files_add(
	struct fake_files *files, struct fake_file *file, const void *bytes, size_t count);
int fake_files_remove(struct fake_files *files, const char *path, bool recursive);
int fake_files_rename(struct fake_files *files, const char *from, const char *to);
/* "a/b" when path lies under directory at most depth deep, else NULL */
const char *fake_files_below(const char *path, const char *directory, uint32_t depth);
/* a whole ustar or pax archive in `archive` into directory */
int fake_files_unpack(struct fake_files *files, const char *directory, const struct buffer *archive,
	uint32_t uid, uint32_t gid);
int fake_files_pack(struct fake_files *files, const char *path, struct buffer *archive);

/* --- fake_stream.c, fake_request.c: one stream each request of the host --- */

struct fake_stream {
	bool used;
	uint32_t id;
	uint16_t type;                  /* of the request */
	uint32_t credit[WIRE_CHANNELS]; /* what the host lets us send */

	/* what the host sends: how much it still may, what was taken since the last CREDIT */
	uint64_t window, consumed;
	bool input_ended;
	struct buffer input;

	/* FILE_READ, TAR_OUT: what is left to be sent on channel 1 */
	struct buffer body;

	/* FILE_WRITE, TAR_IN */
	char path[WIRE_PATH_MAX];
	uint32_t mode, uid, gid, flags;
	uint64_t limit_bytes;

	/* EXEC */
	const struct fake_exec_rule *rule; /* NULL: just ends well */
	bool begun;                        /* after `slow` */
	size_t step;
	uint64_t done; /* of the step: bytes, or 1 for a delay that has begun */
	int64_t wait_until_ms, deadline_ms, started_us;
	uint64_t seen[WIRE_CHANNELS], output_bytes, cpu_us, memory_bytes;
	uint32_t exec_flags, exit_flags;
};

struct fake_guest {
	int fd;
	bool mute;
	struct fake_script script;
	struct fake_files files;
	struct buffer in, out;
	struct fake_stream streams[WIRE_STREAMS_MAX];
};

/* A frame from the host that is no request. 0 or -EPROTO. */
int fake_stream_frame(struct fake_guest *g, const struct wire_frame *f);
/* Send what can be sent, begin and end what is due. */
void fake_stream_pump(struct fake_guest *g, struct fake_stream *s);
/* When the stream wants to be pumped without anything from the host; CLOCK_NEVER for not. */
int64_t fake_stream_due_ms(const struct fake_stream *s);
void fake_stream_free(struct fake_stream *s);
void fake_stream_done(struct fake_guest *g, struct fake_stream *s);
void fake_stream_fail(struct fake_guest *g, struct fake_stream *s, int error, const char *what);
/* All input is there: do what FILE_WRITE and TAR_IN ask for. */
void fake_request_complete(struct fake_guest *g, struct fake_stream *s);
/* A request from the host: opens a stream, and ends it when it can. 0 or -EPROTO. */
int fake_request(struct fake_guest *g, const struct wire_frame *f);

/* Room for one frame with a payload of `count` bytes at the end of the output; then commit. */
uint8_t *fake_frame(struct fake_guest *g, size_t count, size_t *size);
void fake_commit(struct fake_guest *g, int frame_size);

#endif
