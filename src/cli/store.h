/* SPDX-License-Identifier: Apache-2.0 - what the commands on the platform's store share. */
#ifndef SEALMARK_CLI_STORE_H
#define SEALMARK_CLI_STORE_H

#include "api/api.h"
#include "store/people.h"

/* The store that was named, or the one at home, which is made when it is not there. */
int cli_open_store(const char *given, struct store **out, struct error *err);
/* The operator's file into `api`: the one that was named, or the one at home, if it is there; what
 * is wrong with it is on standard error then. *config is freed after the last use of `api`. */
int cli_serve_file(
	const char *given, struct api_options *api, struct api_config **config, struct error *err);
/* "2026-11-29T17:48:06Z", or "-" for 0 */
void cli_write_time(char *out, size_t size, int64_t ms);
/* Text that somebody else chose, harmless for a terminal; without a newline. */
void cli_print_safe(const char *text);

#endif
