/* SPDX-License-Identifier: Apache-2.0 - errors as values, see error.h. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int negative(int code)
{
	if (code == 0)
		return -EIO;
	return code > 0 ? -code : code;
}

static void set(struct error *err, int code, const char *format, va_list ap)
{
	err->code = code;
	vsnprintf(err->message, sizeof(err->message), format, ap);
}

int error_set(struct error *err, int code, const char *format, ...)
{
	va_list ap;

	code = negative(code);
	if (err) {
		va_start(ap, format);
		set(err, code, format, ap);
		va_end(ap);
	}
	return code;
}

int error_sys(struct error *err, int code, const char *format, ...)
{
	va_list ap;
	size_t n;

	code = negative(code);
	if (err) {
		va_start(ap, format);
		set(err, code, format, ap);
		va_end(ap);
		n = strlen(err->message);
		snprintf(err->message + n, sizeof(err->message) - n, ": %s", strerror(-code));
	}
	return code;
}

int error_prefix(struct error *err, const char *format, ...)
{
	char old[sizeof(err->message)];
	va_list ap;
	size_t n;

	if (!err)
		return -EIO;
	memcpy(old, err->message, sizeof(old));
	va_start(ap, format);
	vsnprintf(err->message, sizeof(err->message), format, ap);
	va_end(ap);
	n = strlen(err->message);
	snprintf(err->message + n, sizeof(err->message) - n, ": %s", old);
	return err->code ? err->code : -EIO;
}

const char *error_message(const struct error *err)
{
	return err && err->message[0] ? err->message : "no error";
}
