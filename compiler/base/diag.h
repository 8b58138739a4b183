/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics: what every room of the compiler says goes through here, and from here through one callback.
 * Codes are permanent and listed, with a sentence each, in compiler/base/diag.def. The library never prints.
 */
#ifndef RSC_BASE_DIAG_H
#define RSC_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/base/arena.h"
#include "compiler/base/span.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rsc_code {
#define RSC_CODE(name, number, sentence) RSC_##name = number,
#include "compiler/base/diag.def"
#undef RSC_CODE
  RSC_CODE_NONE = 0
};

enum rsc_severity { RSC_ERROR, RSC_WARNING };

/* The files of one compilation: their names as the user wrote them, for messages; their titles, for the plan; and their
 * text for carets. */
struct rsc_sources;
struct rsc_sources *rsc_sources_new(struct rsc_arena *arena);
/* Copies name and text; returns the file's index. `digest` of the text is the caller's business. */
int rsc_sources_add(struct rsc_sources *sources, const char *name, const char *text, size_t len);
/* The same, where the title is not the name's last component. */
int rsc_sources_add_titled(struct rsc_sources *sources, const char *name, const char *title, const char *text,
                           size_t len);
const char *rsc_sources_name(const struct rsc_sources *sources, int file);
const char *rsc_sources_title(const struct rsc_sources *sources, int file);
/* The first file that has this one's title, or -1. */
int rsc_sources_first_titled(const struct rsc_sources *sources, int file);
const char *rsc_base_name(const char *path);
const char *rsc_sources_text(const struct rsc_sources *sources, int file, size_t *len);
int rsc_sources_count(const struct rsc_sources *sources);
/* What was made of a file, for the next who reads it: lives as long as the sources. NULL: nothing yet. */
void rsc_sources_keep(struct rsc_sources *sources, int file, const void *made);
const void *rsc_sources_kept(const struct rsc_sources *sources, int file);

/* Receives each finished message: the whole rendering ("file:line:col: error[RS0031]: ...\n" with the source
 * line, the caret and the notes), without colour. */
typedef void (*rsc_diag_fn)(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered);

struct rsc_diag;
struct rsc_diag *rsc_diag_new(struct rsc_arena *arena, const struct rsc_sources *sources, rsc_diag_fn fn, void *user);

/* Starts an error (or warning) at `span`; printf-style. The message is held until the next begin or flush so that
 * notes can be added to it. After 20 errors of a stage the rest are counted only; what a stage has said already, in the
 * same words about the same place, is neither said again nor counted in that. */
void rsc_error(struct rsc_diag *diag, enum rsc_code code, struct rsc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void rsc_warning(struct rsc_diag *diag, enum rsc_code code, struct rsc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a note to the message begun last; span.file < 0 for a note without a place. */
void rsc_note(struct rsc_diag *diag, struct rsc_span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Where the last error was. */
struct rsc_span rsc_diag_last(const struct rsc_diag *diag);

/* Ends a stage: delivers what is held, says how many more errors there were past the cap, resets the cap.
 * Returns true if the stage had no error. */
bool rsc_diag_flush(struct rsc_diag *diag);
size_t rsc_diag_errors(const struct rsc_diag *diag); /* all errors since the start */

/* The sentence of a code for --explain, or NULL. `text` is "RS0031" or "31". */
const char *rsc_diag_explain(const char *text);

#ifdef __cplusplus
}
#endif

#endif
