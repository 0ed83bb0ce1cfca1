/* SPDX-License-Identifier: Apache-2.0 - makes the n-th call of a function fail (by ld --wrap). */
#ifndef SEALMARK_TESTS_SANDBOX_FAULTS_H
#define SEALMARK_TESTS_SANDBOX_FAULTS_H

#include <stdbool.h>

/* In a program that reads this at its start: "malloc:7". */
#define FAULT_VARIABLE "SEALMARK_TEST_FAULT"

/* From now on the nth (from 1) call of it fails, once; NULL: none does. Only calls from code that
 * is linked in count, not those inside shared libraries. */
void fault_set(const char *call, unsigned nth);
/* Has it failed? */
bool fault_was_hit(void);

#endif
