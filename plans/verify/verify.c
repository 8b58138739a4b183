/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a structurally sound plan. Out: the report; the whole verification in order. Assumes what plans/rules.def
 * demands, which rsp_open has checked.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

/* Nests that one verification may make: far beyond any plan, a minute of work. */
#define RSPV_BUDGET (1ull << 28)

static void check_figure(struct rspv *v, const char *what, uint64_t stated, uint64_t found) {
  if (stated == found) return;
  rspv_report_add(v, RSPV_SUMMARY, RSPV_NOWHERE, "%s is stated as %" PRIu64 " and is %" PRIu64, what, stated, found);
}

static void check_summary(struct rspv *v) {
  const struct rsp_summary *s = v->plan->summary;
  const struct rspv_report *r = v->report;
  check_figure(v, "tensors", s->tensors, r->tensors);
  check_figure(v, "elements", s->elements, r->elements);
  check_figure(v, "bytes", s->bytes, r->bytes);
  check_figure(v, "deliveries", s->deliveries, r->deliveries);
  check_figure(v, "wanted_bytes", s->wanted_bytes, r->bytes);
  check_figure(v, "local_bytes", s->local_bytes, r->local_bytes);
  check_figure(v, "nvlink_bytes", s->nvlink_bytes, r->nvlink_bytes);
  check_figure(v, "network_bytes", s->network_bytes, r->network_bytes);
  check_figure(v, "network_minimum", s->network_minimum, r->network_minimum);
}

static void prove_all(struct rspv *v) {
  if (!rspv_spec(v)) return;
  rspv_profiles(v);
  rspv_bodies(v);
  rspv_streams(v);
  rspv_cover(v);
  rspv_hazards(v);
  rspv_ops(v);
  rspv_minimum(v);
  if (!v->report->violations[RSPV_COVER].count) check_summary(v);
}

static void close_verification(struct rspv *v) {
  for (uint32_t r = 0; v->body_of && r < v->plan->header->world; r++) free(v->body_of[r]);
  for (size_t b = 0; b < v->body_count; b++) free(v->bodies[b].writes);
  struct rspv_table *tables[] = {&v->profiles, &v->body_table, &v->stretch_table, &v->pair_table};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) rspv_table_free(tables[i]);
  void *blocks[] = {v->programs,     v->entries,    v->profile[0],  v->profile[1], v->world_of[0],
                    v->world_of[1],  v->bodies,     v->body_of,     v->stretches,  v->pair_good,
                    v->holder_start, v->holder_gid, v->holder_slot, v->delivered};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) free(blocks[i]);
  rspv_arena_free(&v->work.arena);
  rspv_arena_free(&v->arena);
}

bool rspv_verify(const struct rsp_plan *plan, struct rspv_report *report) {
  struct rspv v = {.plan = plan, .report = report, .work = {.left = RSPV_BUDGET}};
  memset(report, 0, sizeof *report);
  report->rounds = plan->header->rounds;
  v.programs = rspv_xcalloc(plan->header->world, sizeof *v.programs);
  for (uint32_t r = 0; r < plan->header->world; r++) rsp_program_of(plan, r, &v.programs[r]);
  prove_all(&v);
  close_verification(&v);
  for (int k = 0; k < RSPV_KINDS; k++) {
    if (report->violations[k].count) return false;
  }
  return true;
}
