/* SPDX-License-Identifier: Apache-2.0
 * See scene.h. */
#include "tests/runtime/scene.h"

#include <string.h>

#include "tests/runtime/check.h"

void scene_of(struct scene *s, void *bytes, size_t size, enum reshard_mode mode, double timeout) {
  s->bytes = bytes;
  s->size = size;
  stage_open(&s->stage, bytes, size);
  stage_fill(&s->stage, 3);
  CHECK(reshard_open_memory(bytes, size, &s->plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(TINY_WORLD, &s->group) == RESHARD_OK, "group");
  players_init(s->players, &s->stage, s->plan, s->group, mode);
  for (uint32_t r = 0; r < TINY_WORLD; r++) s->players[r].config.timeout_seconds = timeout;
}

void scene_open(struct scene *s, enum tiny_form form, enum reshard_mode mode, double timeout) {
  struct tiny *tiny = malloc(sizeof *tiny);
  void *bytes;
  size_t size;
  CHECK(tiny, "memory");
  tiny_init_form(tiny, form);
  CHECK(tiny_build(tiny, &bytes, &size), "tiny");
  free(tiny);
  scene_of(s, bytes, size, mode, timeout);
}

void scene_close(struct scene *s) {
  reshard_host_group_free(s->group);
  reshard_close(s->plan);
  stage_close(&s->stage);
  free(s->bytes);
}

void works_again(struct scene *s) {
  enum reshard_mode mode = s->players[0].config.mode;
  reshard_host_group_free(s->group);
  CHECK(reshard_host_group_new(TINY_WORLD, &s->group) == RESHARD_OK, "group");
  stage_fill(&s->stage, 4);
  players_init(s->players, &s->stage, s->plan, s->group, mode);
  play(s->players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) CHECK(s->players[r].version == 1, "rank %u", r);
  CHECK(!stage_check(&s->stage), "%s", stage_check(&s->stage));
}

void says(const struct player *p, const char *word) {
  CHECK(strstr(p->fault.what, word), "rank %u says '%s', without '%s'", p->rank, p->fault.what, word);
}
