/* SPDX-License-Identifier: Apache-2.0 - requests about files: at once, or as streams of bytes. */
#ifndef SEALMARK_AGENT_TRANSFER_H
#define SEALMARK_AGENT_TRANSFER_H

#include "tar.h"
#include "walk.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct stream;

/* FILE_WRITE: into a temporary file beside the target, renamed over it at the end. */
struct incoming {
	int dir, fd;
	uint32_t mode;
	uint64_t written, limit;
	char name[256];
	char temporary[48];
};

/* FILE_READ */
struct outgoing {
	int fd;
	uint64_t left;
};

/* FILE_LIST */
struct listing {
	struct walk walk;
	uint32_t depth, left;
};

/* FILE_REMOVE of a tree: directories open from its top down. A tree deeper than that is made
 * shallower by moving what lies below to its top. */
#define REMOVAL_DEPTH 32
struct removal {
	int parent; /* directory that holds the top */
	char name[256];
	int depth; /* open directories */
	DIR *dirs[REMOVAL_DEPTH];
	bool again[REMOVAL_DEPTH];        /* something came into it behind the reader */
	unsigned attempts[REMOVAL_DEPTH]; /* times it was read */
	char names[REMOVAL_DEPTH][256];   /* names[i] is the name of dirs[i] in its parent */
	uint64_t device;
	uint32_t moved; /* directories moved up, to name them */
};

/* TAR_IN */
struct unpacking {
	int root, fd;
	int parent; /* directory of the last entry, kept as the next is likely there too */
	char parent_path[WIRE_PATH_MAX];
	uint64_t total, limit;
	struct tar_reader reader;
};

/* TAR_OUT */
struct packing {
	struct walk walk;
	int fd;        /* file being sent */
	bool walking;  /* a directory was asked for, not one file */
	bool finished; /* all entries are done, only the end marker is left */
	uint64_t left; /* of its contents */
	uint32_t padding;
	uint32_t head_at, head_count; /* headers not yet sent */
	uint8_t head[TAR_HEAD_MOST];
	uint32_t exclude_size;
	char exclude[WIRE_EXCLUDE_MOST]; /* paths, each with its terminator */
};

/* Begin a request, see wire.h for what each is. They fail or end the stream themselves. */
void incoming_begin(struct agent *a, struct stream *s, const struct wire_file_write *m);
void outgoing_begin(struct agent *a, struct stream *s, const struct wire_file_read *m);
void listing_begin(struct agent *a, struct stream *s, const struct wire_file_list *m);
void removal_begin(struct agent *a, struct stream *s, const struct wire_file_remove *m);
void unpacking_begin(struct agent *a, struct stream *s, const struct wire_tar_in *m);
void packing_begin(struct agent *a, struct stream *s, const struct wire_tar_out *m);
void file_stat(struct agent *a, struct stream *s, const struct wire_file_stat *m);
void file_mkdir(struct agent *a, struct stream *s, const struct wire_file_mkdir *m);
void file_rename(struct agent *a, struct stream *s, const struct wire_file_rename *m);
void file_chmod(struct agent *a, struct stream *s, const struct wire_file_chmod *m);
void file_chown(struct agent *a, struct stream *s, const struct wire_file_chown *m);

#endif
