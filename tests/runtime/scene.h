/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of faults share: the tiny plan on a host group, and that all is well after what went wrong.
 */
#ifndef TESTS_RUNTIME_SCENE_H
#define TESTS_RUNTIME_SCENE_H

#include "tests/plan/tiny.h"
#include "tests/runtime/replay.h"

struct scene {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct player players[TINY_WORLD];
};

/* The stage and the group are new, each rank has a player with this timeout. Takes over `bytes`. */
void scene_of(struct scene *s, void *bytes, size_t size, enum reshard_mode mode, double timeout);
void scene_open(struct scene *s, enum tiny_form form, enum reshard_mode mode, double timeout);
void scene_close(struct scene *s);
/* A whole run in the same process, after a failed one. */
void works_again(struct scene *s);
/* The player's fault has the word. */
void says(const struct player *p, const char *word);

#endif
