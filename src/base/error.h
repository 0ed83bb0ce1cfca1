/* SPDX-License-Identifier: Apache-2.0 - errors as values: a code and a sentence, never allocated.
 */
#ifndef SEALMARK_BASE_ERROR_H
#define SEALMARK_BASE_ERROR_H

#include <stddef.h>

/*
 * Functions that can fail return 0 or a negative errno and take a struct error * as their last
 * argument, which may be NULL. It is filled only on failure. Context is put in front on the way up
 * with error_prefix(); only the consumer prints.
 */
struct error {
	int code;          /* negative errno, 0 when nothing is set */
	char message[480]; /* one line, no final full stop */
};

/* Set the message and return `code` (made negative if it is not). */
int error_set(struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As error_set, with ": strerror(code)" after the message. */
int error_sys(struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "text: " before the message; returns err->code, or -EIO when err is NULL. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The message, or "no error"; never NULL. */
const char *error_message(const struct error *err);

#endif
