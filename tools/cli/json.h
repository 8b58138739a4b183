/* SPDX-License-Identifier: Apache-2.0
 *
 * json: what tools add to jansson. Names in plans and sources are bytes; JSON is Unicode.
 */
#ifndef RESHARD_TOOLS_CLI_JSON_H
#define RESHARD_TOOLS_CLI_JSON_H

#include <jansson.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A JSON string of bytes[0, len). What is not UTF-8 becomes U+FFFD, byte by byte. Aborts without memory. */
json_t *cli_json_bytes(const char *bytes, size_t len);
json_t *cli_json_text(const char *text); /* the same of a C string; NULL gives null */

/* Prints the object on stdout, indented, keys in the order in which they were set, and releases it. */
void cli_json_print(json_t *object);

#ifdef __cplusplus
}
#endif

#endif
