/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a cut and a coordinate of its axis. Out: the part of a local value that it keeps: section "Cuts" of
 * grammar/LANGUAGE.md.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/place_value.h"

static const char rules_text[] =
    "an uneven cut needs a rule: chunk (torch.chunk), balanced (numpy array_split), padded, "
    "a table of sizes, cyclic, share or each";

static bool uneven(struct rsc_place_context *cx, const struct rsc_cut *cut, const char *what, int64_t d, int64_t n) {
  rsc_error(cx->diag, RSC_CUT_UNEVEN, cut->span, "%s of %" PRId64 " cannot be cut evenly into %" PRId64 "%s%s", what, d,
            n, cut->rule == RSC_CUT_EVEN ? " by axis '" : "",
            cut->rule == RSC_CUT_EVEN ? cx->mesh->axes[cut->axis].name : "");
  return false;
}

/* Which of how many groups coordinate c of n is in; resolve has seen that they fill the axis. */
static int64_t share_group(const struct rsc_share *share, int64_t n, int64_t c, int64_t *groups) {
  int64_t k = share ? share->k : 1, group = 0;
  *groups = k ? n / k : share->group_count;
  if (k) return c / k;
  for (int64_t end = share->groups[0]; c >= end; end += share->groups[group]) group++;
  return group;
}

static void add_range(struct rsc_place_context *cx, struct rsc_cut_parts *parts, int64_t lo, int64_t hi) {
  *RSC_PUSH(cx->arena, parts) = (struct rsc_range){lo, hi};
}

static bool cut_sizes(struct rsc_place_context *cx, const struct rsc_cut *cut, int64_t d, int64_t n, int64_t c,
                      struct rsc_cut_parts *parts) {
  int64_t sum = 0, lo = 0;
  bool bad = cut->list_len != n;
  for (int64_t i = 0; i < cut->list_len; i++) {
    if (i == c) lo = sum;
    bad |= cut->list[i] < 0 || rsc_add(sum, cut->list[i], &sum);
  }
  if (bad || sum != d) {
    rsc_error(cx->diag, RSC_CUT_SIZES_SUM, cut->span,
              "%" PRId64 " sizes that add up to %" PRId64 " are given; axis '%s' needs %" PRId64
              " sizes that add up to %" PRId64,
              cut->list_len, sum, cx->mesh->axes[cut->axis].name, n, d);
    return false;
  }
  add_range(cx, parts, lo, lo + cut->list[c]);
  return true;
}

static bool cut_each(struct rsc_place_context *cx, const struct rsc_cut *cut, int64_t d, int64_t n, int64_t c,
                     struct rsc_cut_parts *parts) {
  int64_t sum = 0;
  bool bad = false;
  for (int64_t i = 0; i < cut->list_len; i++) bad |= cut->list[i] < 0 || rsc_add(sum, cut->list[i], &sum);
  if (bad || sum != d) {
    rsc_error(cx->diag, RSC_CUT_SIZES_SUM, cut->span,
              "the sections of each add up to %" PRId64 ", but the dimension has %" PRId64, sum, d);
    return false;
  }
  sum = 0;
  for (int64_t i = 0; i < cut->list_len; i++) {
    int64_t groups, group = share_group(cut->shares ? &cut->shares[i] : NULL, n, c, &groups), len = cut->list[i];
    if (len % groups != 0) return uneven(cx, cut, "a section", len, groups);
    add_range(cx, parts, sum + len / groups * group, sum + len / groups * (group + 1));
    sum += len;
  }
  return true;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* min(size * c, d), without the overflow. */
static int64_t chunk_start(int64_t d, int64_t size, int64_t c) {
  return size && c <= d / size ? size * c : d;
}

bool rsc_cut_parts(struct rsc_place_context *cx, const struct rsc_cut *cut, int64_t d, struct rsc_cut_parts *parts) {
  int64_t n = cx->mesh->axes[cut->axis].size, c = cx->coords[cut->axis], group, groups, size;
  parts->padded = d;
  switch (cut->rule) {
  case RSC_CUT_EVEN:
    if (d % n != 0) {
      rsc_error(cx->diag, RSC_CUT_UNEVEN, cut->span,
                "a dimension of %" PRId64 " cannot be cut evenly into %" PRId64 " parts by axis '%s'", d, n,
                cx->mesh->axes[cut->axis].name);
      rsc_note(cx->diag, (struct rsc_span){.file = -1}, "%s", rules_text);
      return false;
    }
    add_range(cx, parts, d / n * c, d / n * (c + 1));
    return true;
  case RSC_CUT_CHUNK:
    size = rsc_ceildiv(d, n);
    add_range(cx, parts, chunk_start(d, size, c), chunk_start(d, size, c + 1));
    return true;
  case RSC_CUT_BALANCED:
    size = d / n;
    add_range(cx, parts, size * c + least(c, d % n), size * (c + 1) + least(c + 1, d % n));
    return true;
  case RSC_CUT_SIZES:
    return cut_sizes(cx, cut, d, n, c, parts);
  case RSC_CUT_CYCLIC:
    for (int64_t lo = c * cut->arg; lo < d; lo += n * cut->arg) add_range(cx, parts, lo, least(lo + cut->arg, d));
    return true;
  case RSC_CUT_SHARE:
    group = share_group(cut->shares, n, c, &groups);
    if (d % groups != 0) return uneven(cx, cut, "a dimension", d, groups);
    add_range(cx, parts, d / groups * group, d / groups * (group + 1));
    return true;
  case RSC_CUT_PADDED:
    if (rsc_mul(cut->arg, n, &size) || rsc_mul(rsc_ceildiv(d, size), size, &parts->padded)) {
      rsc_error(cx->diag, RSC_OVERFLOW, cut->span, "the padded extent exceeds 63 bits");
      return false;
    }
    add_range(cx, parts, parts->padded / n * c, parts->padded / n * (c + 1));
    return true;
  case RSC_CUT_EACH:
    return cut_each(cx, cut, d, n, c, parts);
  }
  return false;
}

bool rsc_cut_value(struct rsc_place_context *cx, const struct rsc_cut *cut, int32_t k, struct rsc_local *v) {
  if (cut->rule == RSC_CUT_CYCLIC) {
    int64_t n = cx->mesh->axes[cut->axis].size, period;
    if (rsc_mul(cut->arg, n, &period) || period > INT64_MAX / 2) {
      rsc_error(cx->diag, RSC_OVERFLOW, cut->span, "the period of cyclic exceeds 63 bits");
      return false;
    }
    rsc_local_cyclic(cx->arena, cx->budget, v, k, cut->arg, n, cx->coords[cut->axis], v);
    return rsc_within_pieces(cx, cut->span);
  }
  struct rsc_cut_parts parts = {0};
  if (!rsc_cut_parts(cx, cut, v->dims[k], &parts)) return false;
  struct rsc_local whole = *v;
  int64_t dims[RSC_MAX_DIMS];
  memcpy(dims, v->dims, sizeof dims);
  dims[k] = parts.padded;
  if (!rsc_checked_elems(cx, cut->span, dims, v->ndim)) return false;
  rsc_local_pad(cx->arena, cx->budget, v, k, parts.padded, &whole);
  struct rsc_local *kept = RSC_ARRAY(cx->arena, struct rsc_local, parts.len + 1);
  for (size_t i = 0; i < parts.len && !rsc_budget_spent(cx->budget); i++)
    rsc_local_slice(cx->arena, cx->budget, &whole, k, parts.at[i].lo, parts.at[i].hi, &kept[i]);
  if (!rsc_within_pieces(cx, cut->span)) return false;
  if (parts.len == 0)
    rsc_local_slice(cx->arena, cx->budget, &whole, k, 0, 0, v);
  else if (parts.len == 1)
    *v = kept[0];
  else
    rsc_local_cat(cx->arena, cx->budget, kept, (int64_t)parts.len, k, v);
  return rsc_within_pieces(cx, cut->span);
}
