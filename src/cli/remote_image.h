/* SPDX-License-Identifier: Apache-2.0 - images of a server: what the image commands do there. */
#ifndef SEALMARK_CLI_REMOTE_IMAGE_H
#define SEALMARK_CLI_REMOTE_IMAGE_H

#include "cli/remote.h"

/* All take r over. References are names, NAME:TAG, NAME@VERSION or ids. */
int remote_image_ls(struct remote *r, const char *name, bool json, struct error *err);
int remote_image_show(struct remote *r, const char *reference, bool json, struct error *err);
int remote_image_tag(
	struct remote *r, const char *reference, const char *tag, bool point, struct error *err);
int remote_image_rm(struct remote *r, const char *const *references, struct error *err);
int remote_image_logs(struct remote *r, const char *reference, bool json, struct error *err);

struct remote_build {
	const char *name;
	const json_t *source;    /* {recipe} or {dockerfile} */
	const json_t *arguments; /* for ARG */
	const json_t *tags;
	int folder_fd; /* the context, or -1 */
	uint32_t memory_mib;
	int64_t timeout_ms;
	bool again, quiet, json;
};
/* CLI_ATTENTION when a step failed. */
int remote_image_build(struct remote *r, const struct remote_build *b, struct error *err);

/* Follow the log of a build until it is over, into standard error or nowhere; *image is how it then
 * is. */
int remote_image_follow(
	struct remote *r, const char *id, bool quiet, json_t **image, struct error *err);

#endif
