/* SPDX-License-Identifier: Apache-2.0
 *
 * cli: what every tool does the same way: exit codes, messages, files, sizes, colour, suggestions, a progress line.
 * Nothing here knows about layouts or plans. Not thread-safe.
 */
#ifndef RESHARD_TOOLS_CLI_H
#define RESHARD_TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLI_VERSION "0.1.0"

/* Exit statuses of every tool. */
enum cli_exit { CLI_YES = 0, CLI_NO = 1, CLI_TROUBLE = 2 };

/* Prints "PROGRAM: message" (and "Try 'PROGRAM --help'." for usage) to stderr; returns CLI_TROUBLE. */
int cli_trouble(const char *program, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_usage(const char *program, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes a help text to stdout; returns CLI_YES, or CLI_TROUBLE if stdout cannot be written. */
int cli_help(const char *text);

/* To be called last by a tool that wrote to stdout: flushes it; returns `status`, or CLI_TROUBLE with a message if the
 * product did not get out (a full disk, a closed pipe). */
int cli_finish(const char *program, int status);

/* Whether text for `file` should be coloured: a terminal, TERM is not dumb, NO_COLOR unset or empty. */
bool cli_colour(FILE *file);

/* "256MiB", "1GiB", "64KiB", "10MB", "1.5GiB", "4096", "4096B" -> bytes. False for anything else or past 2^63 - 1. */
bool cli_parse_size(const char *text, uint64_t *bytes);
/* A plain decimal number in [lo, hi]. */
bool cli_parse_number(const char *text, int64_t lo, int64_t hi, int64_t *number);
/* plans/words.h's rsp_bytes_text. */
const char *cli_bytes(double bytes, char buffer[32]);
/* "1.23 ms", three digits, for people. Returns buffer. */
const char *cli_duration(double seconds, char buffer[32]);

/* Reads a whole file ("-": stdin) into malloc'd memory with a NUL after the last byte. On failure returns false and
 * *reason is a malloc'd sentence ("No such file or directory"). */
bool cli_read_file(const char *path, char **text, size_t *len, char **reason);

/* Writes a whole file so that `path` holds either what it held before or all of the bytes: temporary name in the same
 * directory, fsync, rename. "-" is stdout. On failure returns false; *reason as above. */
bool cli_write_file(const char *path, const void *bytes, size_t len, char **reason);

/* The name in names[0..count) that `word` was probably meant to be, or NULL. */
const char *cli_suggest(const char *word, const char *const *names, size_t count);

/* Writes a diagnostic as the compiler renders it, coloured where cli_colour(out). */
void cli_diagnostic(FILE *out, const char *rendered);

/* Monotonic seconds. */
double cli_seconds(void);

/* A line on stderr that tells what is going on, rewritten in place: only on a terminal, and only once two seconds have
 * passed since `since`. cli_progress_end erases it. */
void cli_progress(double since, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_progress_end(void);

#ifdef __cplusplus
}
#endif

#endif
