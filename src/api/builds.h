/* SPDX-License-Identifier: Apache-2.0 - images and their builds, what the files of the server
 * share.
 */
#ifndef SEALMARK_API_BUILDS_H
#define SEALMARK_API_BUILDS_H

#include "api/internal.h"
#include "image/build.h"

/*
 * Theory of operation
 *
 * A build's record is in the home (image/build.h), for the server and `sealmark image build` alike;
 * an image that is ready is its manifest. Here are the threads that build: each asked-for build has
 * one, which waits for its turn, and then for its room. The server remembers of a build only how to
 * cancel it; when it is killed, the machines of its builds end with it, and the next start marks
 * their records failed.
 *
 * A build takes memory and a CPU of the quotas as a sandbox does, in the store (store/builds.h),
 * from which also no two builds have one name at a time. When there is no room the build whose turn
 * it is claims it: what becomes free is kept for it, as for whoever was first in a queue. On a host
 * whose sandboxes live long it might keep others from what it cannot use yet, so it does so for ten
 * minutes, lets creates have their way for ten, and so on. One that waits for sandboxes of its own
 * key, which has a ceiling of its own, claims nothing and lets others go first.
 */
struct builds;

/* Mark what dead servers left; remove context that nobody fetched. */
int builds_start(struct api_server *server, struct error *err);
/* Cancel all; then, when nobody asks any more, wait for their ends. */
void builds_halt(struct api_server *server);
void builds_stop(struct api_server *server);
void builds_free(struct api_server *server); /* when nothing changes any more */

struct build_job {
	struct image_build *build; /* taken over, as are plan, base and chunks */
	struct image_plan *plan;
	struct image *base;
	json_t *chunks; /* digests of the context's pieces, or NULL */
	char owner[ID_SIZE], name[IMAGE_NAME_MAX + 1];
	uint32_t memory_mib; /* of its machine, with what every one has at least */
	int64_t timeout_ms;
	uint64_t bytes_most;
};
/* How many wait or work; of one key, or of all (NULL). */
unsigned builds_count(struct api_server *server, const char *owner);
/* Name and sizes of a build that is to come, in the store until builds_release(). -EEXIST: another
 * of this name is under way. */
int builds_claim(struct api_server *server, const struct build_job *job, struct error *err);
void builds_release(struct api_server *server, const char *name);
/* Build in a thread, which releases it at its end. On failure nothing was taken. */
int builds_add(struct api_server *server, const struct build_job *job, struct error *err);
/* Cancel the build and wait until its record says how it ended. */
void builds_cancel(struct api_server *server, const char *id);
/* A number that changes with each line and each end of a build; wait at most ms for another. */
uint64_t builds_changes(struct api_server *server);
void builds_wait(struct api_server *server, uint64_t seen, int64_t ms);

/* image_build.c: its record says how it ended, or is gone */
bool build_is_over(struct api_server *server, const char *id);

/* images.c */
/* May this key see, may it change what `owner` made? */
bool image_visible(const struct request *q, const char *owner);
json_t *image_json(struct request *q, const struct image *image);
json_t *image_build_json(const json_t *about);
/* An image or an unfinished build by id, as JSON; NULL: answered. The record, if there is one, is
 * in *about (json_decref), and *state says how it is. */
json_t *image_by_id(struct request *q, const char *id, json_t **about);

/* image_context.c */
/* Where a piece of this key's lies, or would; -EINVAL: no digest. */
int context_file(struct api_server *server, const char *owner, const char *digest, char *path,
	struct error *err);
void context_sweep(struct api_server *server);

#endif
