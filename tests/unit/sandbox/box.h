/* SPDX-License-Identifier: Apache-2.0 - sandboxes with scripted machines, for tests. */
#ifndef SEALMARK_TESTS_SANDBOX_BOX_H
#define SEALMARK_TESTS_SANDBOX_BOX_H

#include "../monitor/home.h"

#include "sandbox/sandbox.h"

/* A specification with the script written into the home. */
struct sandbox_spec box_spec(struct home *home, const char *script);
/* Create; a failure fails the test. patience_ms 0: the usual. */
struct sandbox *box_make(struct home *home, const char *script, int64_t patience_ms);
/* Stop and free; a failure fails the test. */
void box_end(struct sandbox *s);
/* Run a command line split at blanks, without input. */
int box_exec(struct sandbox *s, const char *command, struct exec_result *result, struct error *err);
/* The sandbox works. */
void box_expect_works(struct sandbox *s);

#endif
