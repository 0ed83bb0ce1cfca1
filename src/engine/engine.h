/* SPDX-License-Identifier: Apache-2.0 - engines: the ways to run a machine, one table each. */
#ifndef SEALMARK_ENGINE_ENGINE_H
#define SEALMARK_ENGINE_ENGINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * An engine prepares one machine and hands the monitor a description of the process to confine and
 * start. The jail (jail.h) does the confining and the exec; so an engine holds no privileges code.
 * Used by sealmark-monitor (start) and by `sealmark doctor` and the creator (probe).
 */
enum engine_channel {
	ENGINE_VHOST_USER, /* the machine connects to a vhost-user-vsock socket of ours */
	ENGINE_STREAM      /* the machine talks frames on an inherited socket, fd 3 */
};

struct engine_config {
	const char *image;   /* path of the root file system (EROFS) */
	const char *kernel;  /* NULL: the engine's installed one */
	const char *initrd;  /* agent.cpio */
	const char *home;    /* $SEALMARK_HOME */
	const char *script;  /* fake only */
	uint32_t memory_mib; /* guest memory */
	uint32_t disk_mib;   /* writable layer */
	uint32_t files_most; /* its inodes */
};

#define ENGINE_BINDS 6
#define ENGINE_ARGS  24

/* One host file shown to the machine inside its root. */
struct engine_bind {
	char from[512]; /* host path; "" for the vhost-user socket, which the jail's caller knows */
	char to[64];    /* path in the new root, as "/image" */
	bool writable;
};

/* What to run and what it must see; strings live in the plan. */
struct engine_plan {
	enum engine_channel channel;
	char program[512];           /* host path of the executable, opened before the jail */
	char args[ENGINE_ARGS][256]; /* argv, argv[0] first */
	unsigned arg_count;
	struct engine_bind binds[ENGINE_BINDS];
	unsigned bind_count;
	uint64_t scratch_bytes;  /* size of the executable tmpfs at /mem (guest memory + 12 MiB) */
	uint64_t scratch_files;  /* its inodes */
	uint32_t processes;      /* host processes it may have */
	bool needs_fixed_layout; /* ADDR_NO_RANDOMIZE (UML) */
	bool is_code_of_ours;    /* fake: runs a function of this binary, see start */
	int (*run)(const struct engine_config *config, int channel_fd); /* when is_code_of_ours */
};

struct engine {
	const char *name;
	const char *isolation; /* "kernel" (own guest kernel, as a process), "hardware", "none" */
	int strength;          /* for auto: highest present wins */
	/* 0 when it can run here, else negative errno with what is missing and the cure */
	int (*probe)(const char *home, struct error *err);
	int (*plan)(const struct engine_config *config, const char *socket_in_root,
		struct engine_plan *out, struct error *err);
	/* Let no process of the machine run any more, whose pid 1 is `init` (a child of the
	 * caller), until resume; its memory stays. After a failure everything goes on. It may be
	 * killed as it stands. */
	int (*pause)(pid_t init, struct error *err);
	int (*resume)(pid_t init, struct error *err);
};

/* By name; "auto" or NULL is the strongest whose probe succeeds. NULL with an error otherwise. */
const struct engine *engine_find(const char *name, const char *home, struct error *err);
/* All engines of this build, NULL-terminated, strongest first. */
const struct engine *const *engine_all(void);

/* pause.c, for engines: the machine is the child of `init`; traced: its children are its tracees.
 */
int engine_pause(pid_t init, bool traced, struct error *err);
int engine_resume(pid_t init, struct error *err);

extern const struct engine engine_uml;
extern const struct engine engine_fake;

#endif
