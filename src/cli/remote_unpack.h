/* SPDX-License-Identifier: Apache-2.0 - a tar of a sandbox, unpacked beneath a folder of ours. */
#ifndef SEALMARK_CLI_REMOTE_UNPACK_H
#define SEALMARK_CLI_REMOTE_UNPACK_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Unpack the tar (or tar.gz) in an open file beneath `target`, which is made when it is missing.
 * An archive with a name that leaves the target (-EXDEV), more than most_bytes (-EFBIG) or damage
 * (-EBADMSG) is refused before anything is written. *skipped counts what was left out: links that
 * lead outside, hard links, devices. */
int unpack_tar(int fd, const char *target, uint64_t most_bytes, size_t *skipped, struct error *err);

#endif
