/* SPDX-License-Identifier: Apache-2.0
 *
 * A small stage with all that a test of one failure needs.
 */
#ifndef TESTS_RUNTIME_SCENE_H
#define TESTS_RUNTIME_SCENE_H

#include "tests/plan/tiny.h"
#include "tests/runtime/replay.h"

/* The plan of tiny.h, its buffers and its players. */
struct scene {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct player players[TINY_WORLD];
};

void scene_open(struct scene *s, enum reshard_mode mode, double timeout);
/* The same with another plan, malloc'd, of a world of TINY_WORLD; it becomes the scene's. */
void scene_of(struct scene *s, void *bytes, size_t size, enum reshard_mode mode, double timeout);
void scene_close(struct scene *s);
/* After a failed run: a whole one in the same process. */
void scene_works_again(struct scene *s);
/* The player's fault has the words. */
void says(const struct player *p, const char *words);

#endif
