/* SPDX-License-Identifier: Apache-2.0 - builds of images: asked for, run, recorded. */
#ifndef SEALMARK_IMAGE_BUILD_H
#define SEALMARK_IMAGE_BUILD_H

#include "base/error.h"
#include "base/id.h"
#include "image/image.h"
#include "image/plan.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * $SEALMARK_HOME/builds/<id>/ is a build: record.json (who, what, its state), `log` (a JSON object
 * a line) and `lock`, which the process that builds holds. The record is written whole at each
 * change of state. A record that says queued or building while nobody holds its lock is of a
 * process that died: image_builds_sweep() makes it failed. So `sealmark serve` and `sealmark image
 * build` share a home, and neither needs the other.
 *
 * The build itself runs in a machine of its own (script.c), as root, with the network of a sandbox.
 * What it says is a log; what it gives is the bytes of a file system, counted, hashed, and never
 * read here. Only guests mount it.
 */
enum image_build_state {
	IMAGE_BUILD_QUEUED,
	IMAGE_BUILD_BUILDING,
	IMAGE_BUILD_READY,
	IMAGE_BUILD_FAILED
};
const char *image_build_state_name(enum image_build_state state);

#define IMAGE_LOG_MOST           (4u << 20)
#define IMAGE_BUILD_MEMORY_MIB   4096u /* of the machine; the layers in the making are in it */
#define IMAGE_BUILD_MEMORY_LEAST 1024u
#define IMAGE_BUILD_TIMEOUT_MS   (INT64_C(3600) * 1000)

struct image_build;

/* --- what is asked for --- */

/* A source as it comes over HTTP or from `sealmark image build`, checked: */
struct image_source {
	const json_t *recipe;     /* or */
	const json_t *dockerfile; /* its text */
	const json_t *files;      /* with a Dockerfile: a small context, or NULL */
	const json_t *arguments;  /* values of ARG, or NULL */
	const json_t *env;        /* more variables of the image, or NULL */
	bool no_start;            /* pass over CMD and HEALTHCHECK */
};
/* The plan of a source; the base is looked up and given in *base (image_free). -EINVAL: what is
 * wrong is in issues, as {path, message}; -ENOENT: no such base, in err. */
int image_source_plan(const char *home, const struct image_source *source, struct image_plan **plan,
	struct image **base, json_t *issues, struct error *err);
/* Digest of what makes the result: source, base, and `context` (digest of the context, or NULL). */
void image_source_digest(const struct image_source *source, const struct image *base,
	const char *context, char *out_hex);
/* The name of a build without one: the same for the same digest. */
void image_source_name(const char *digest, char *out);

/* What `-f FILE` names: a file whose name ends with .yaml, .yml or .json is a recipe, any other a
 * Dockerfile. The body of POST /v1/images, without a name: {"recipe": ...} or {"dockerfile": ...}.
 */
int image_source_file(const char *path, json_t **body, struct error *err);
/* An image with this digest: of the name if it has one, else any; its newest. -ENOENT. */
int image_source_same(const char *home, const char *name, const char *digest, struct image **out,
	struct error *err);

/* --- records --- */

/* What is known: id, name, owner, tags (list), labels (object), state, error, digest, base,
 * createdMs, startedMs, endedMs, version. */
int image_build_new(const char *home, json_t *about, struct image_build **out, struct error *err);
void image_build_free(struct image_build *build);
const char *image_build_id(const struct image_build *build);
/* The record, copied as it is now; json_decref(). NULL: out of memory. */
json_t *image_build_about(struct image_build *build);

/* A record by its id: -ENOENT. */
int image_build_read(const char *home, const char *id, json_t **out, struct error *err);
/* Each record, the newest last. */
int image_builds(const char *home, json_t **out_list, struct error *err);
/* Fail what dead processes left, forget failed ones older than `before_ms`; 0 keeps them all. */
int image_builds_sweep(const char *home, int64_t before_ms, struct error *err);
/* Forget one that is over; -EBUSY while somebody works on it. */
int image_build_forget(const char *home, const char *id, struct error *err);
/* Path of the log; `out` has PATH_MAX bytes. */
int image_build_log(const char *home, const char *id, char *out, struct error *err);
/* Sum of the bytes of all images that builds have made. */
int image_built_bytes(const char *home, uint64_t *out, struct error *err);

/* --- the build --- */

struct image_machine {
	const char *engine, *script, *isolation;
	const char *network; /* as in sandbox.h; NULL: the internet */
	uint32_t memory_mib; /* 0: the default above */
	int64_t timeout_ms;  /* <= 0: the default above */
	uint64_t bytes_most; /* of the image; 0: as the memory allows */
	int cancel_fd;       /* readable: give up; or -1 */
	/* The context: bytes of a tar (gzip or not) as they are asked for, 1 with bytes, 0 at their
	 * end, negative on failure; or a folder of this host; or neither. */
	int (*next)(void *context, const void **bytes, size_t *count);
	int folder_fd; /* -1: none */
	/* Called for each line of the log; NULL is fine. */
	void (*on_line)(void *context, const char *stream, const char *text);
	void *context;
};

/* Build; blocks. 0 when it is ready; else the record says failed, and why, as err does: -EINVAL
 * when a step failed, -ECANCELED, or a failure of ours. */
int image_build_run(struct image_build *build, const struct image_plan *plan,
	const struct image *base, const struct image_machine *machine, struct error *err);
/* Ready at once, with the file of one that is the same. */
int image_build_reuse(struct image_build *build, const struct image *same, struct error *err);
/* It ends here, without having run. */
int image_build_fail(struct image_build *build, const char *why, struct error *err);

/* --- record.c, for build.c --- */
int image_build_set(
	struct image_build *build, enum image_build_state state, json_t *more, struct error *err);
void image_build_say(struct image_build *build, const struct image_machine *machine,
	const char *stream, const char *text);
const char *image_build_home(const struct image_build *build);

#endif
