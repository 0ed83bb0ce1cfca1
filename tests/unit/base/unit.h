/* SPDX-License-Identifier: Apache-2.0 - what every cmocka test includes, in the order it wants. */
#ifndef SEALMARK_TESTS_UNIT_H
#define SEALMARK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
