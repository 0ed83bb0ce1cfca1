/* SPDX-License-Identifier: Apache-2.0 - diagnostics on standard error, one line each. */
#ifndef SEALMARK_BASE_LOG_H
#define SEALMARK_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Name put before each line ("sealmark: ") and the highest level shown (default WARNING). */
void log_setup(const char *program, enum log_level most);
enum log_level log_highest(void);

/* Control characters in the result are made harmless. Async-signal-unsafe. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
