// SPDX-License-Identifier: Apache-2.0
//
// In: a finished simulation. Out: a picture. One panel per kind of link: rows are ranks, or groups of neighbours where
// there are many; to the right time, shaded by how busy the link is; beside it a bar for the whole refit.
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/sim_report.h"

enum {
  MOST_ROWS = 32,
  COLUMNS = 280,
  SHADES = 12,
  LEFT = 118, // of the timeline
  SPAN = 560, // its width
  BARS = 706, // left edge of the bars
  BAR_SPAN = 150,
  WIDTH = 900,
  TOP = 92, // of the first panel
  PANEL_GAP = 34,
};

struct row {
  uint32_t first, count; // world ranks
};

struct picture {
  const struct sim_run *run;
  char *text;
  size_t used, room;
  struct row *rows;
  uint32_t row_count, *row_of;
  uint32_t lo, hi; // rows of the panel at hand: of the sides that use the link
  double *bytes;   // [link][row][column]
};

static void put(struct picture *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct picture *p, const char *format, ...) {
  for (;;) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(p->text + p->used, p->room - p->used, format, args);
    va_end(args);
    if (n < 0) abort();
    if ((size_t)n < p->room - p->used) {
      p->used += (size_t)n;
      return;
    }
    p->room = p->room * 2 + (size_t)n;
    p->text = realloc(p->text, p->room);
    if (!p->text) abort();
  }
}

static void put_escaped(struct picture *p, const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '&' || c == '<' || c == '>' || c == '"')
      put(p, "&#%d;", c);
    else
      put(p, "%c", c < 32 || c > 126 ? '?' : c);
  }
}

// ---- rows ----------------------------------------------------------------------------------------------------------

static bool is_train(const struct rsp_plan *plan, uint32_t r) {
  return plan->ranks[r].train_rank != RSP_NO_RANK;
}

// Neighbours of one side, as many per row as it takes to have few rows.
static void make_rows(struct picture *p) {
  const struct rsp_plan *plan = p->run->plan;
  uint32_t world = plan->header->world;
  p->rows = calloc(world + 1, sizeof *p->rows);
  p->row_of = calloc(world + 1, sizeof *p->row_of);
  if (!p->rows || !p->row_of) abort();
  for (uint32_t size = 1;; size *= 2) {
    p->row_count = 0;
    for (uint32_t r = 0; r < world; r++) {
      struct row *last = p->row_count ? &p->rows[p->row_count - 1] : NULL;
      if (!last || last->count == size || is_train(plan, r) != is_train(plan, last->first))
        p->rows[p->row_count++] = (struct row){r, 0};
      p->rows[p->row_count - 1].count++;
      p->row_of[r] = p->row_count - 1;
    }
    if (p->row_count <= MOST_ROWS) return;
  }
}

static double *cells(const struct picture *p, int link, uint32_t row) {
  return p->bytes + ((size_t)link * p->row_count + row) * COLUMNS;
}

static void traced(void *user, uint32_t rank, double from, double to, const double bytes[RSP_SIM_LINKS]) {
  struct picture *p = user;
  double scale = COLUMNS / p->run->result.seconds, a = from * scale, b = to * scale;
  for (int link = 0; link < RSP_SIM_LINKS; link++) {
    if (bytes[link] <= 0) continue;
    double *row = cells(p, link, p->row_of[rank]);
    for (int c = (int)a; c < COLUMNS && c < b; c++) {
      double lo = a > c ? a : c, hi = b < c + 1 ? b : c + 1;
      if (b > a) row[c] += bytes[link] * (hi - lo) / (b - a);
    }
  }
}

static double row_rate(const struct picture *p, int link, uint32_t row) {
  double rate = 0;
  for (uint32_t i = 0; i < p->rows[row].count; i++) rate += p->run->cluster.rate[link][p->rows[row].first + i];
  return rate;
}

// ---- drawing -------------------------------------------------------------------------------------------------------

// From nearly white to dark blue; idle is white.
static void put_shade(struct picture *p, int shade) {
  double x = (double)shade / SHADES;
  put(p, "#%02x%02x%02x", (unsigned)(232 - 218 * x), (unsigned)(240 - 178 * x), (unsigned)(250 - 112 * x));
}

static int shade_of(double busy) {
  if (busy < 0.005) return 0;
  int shade = (int)ceil(busy * SHADES - 1e-9);
  return shade > SHADES ? SHADES : shade;
}

static void draw_row(struct picture *p, int link, uint32_t row, double y, double height) {
  double cell_seconds = p->run->result.seconds / COLUMNS, rate = row_rate(p, link, row) * cell_seconds;
  const double *at = cells(p, link, row), width = (double)SPAN / COLUMNS;
  for (int c = 0, end; c < COLUMNS; c = end) {
    int shade = shade_of(at[c] / rate);
    for (end = c + 1; end < COLUMNS && shade_of(at[end] / rate) == shade; end++) continue;
    if (!shade) continue;
    put(p, "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" fill=\"", LEFT + c * width, y, (end - c) * width,
        height);
    put_shade(p, shade);
    put(p, "\"/>\n");
  }
}

static void draw_bar(struct picture *p, int link, uint32_t row, double y, double height) {
  double mean = 0, least = 1, most = 0;
  for (uint32_t i = 0; i < p->rows[row].count; i++) {
    double busy = p->run->result.busy[link][p->rows[row].first + i];
    mean += busy / p->rows[row].count;
    if (busy < least) least = busy;
    if (busy > most) most = busy;
  }
  if (most <= 0) return;
  put(p, "<rect x=\"%d\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" fill=\"#3b6ea8\"/>\n", BARS, y, mean * BAR_SPAN,
      height);
  if (most - least > 0.004)
    put(p, "<path d=\"M%.1f %.2fH%.1f\" stroke=\"#c4572b\" stroke-width=\"1.5\"/>\n", BARS + least * BAR_SPAN,
        y + height / 2, BARS + most * BAR_SPAN);
}

static void put_label(struct picture *p, uint32_t row, double y) {
  const struct rsp_plan *plan = p->run->plan;
  const struct row *r = &p->rows[row];
  bool train = is_train(plan, r->first);
  uint32_t first = train ? plan->ranks[r->first].train_rank : plan->ranks[r->first].infer_rank;
  uint32_t last =
      train ? plan->ranks[r->first + r->count - 1].train_rank : plan->ranks[r->first + r->count - 1].infer_rank;
  put(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"9\" fill=\"#555\">%s %u", LEFT - 5, y,
      train ? "train" : "infer", first);
  if (r->count > 1) put(p, "&#8211;%u", last);
  put(p, "</text>\n");
}

static bool is_turn(const struct picture *p, uint32_t row) {
  const struct rsp_plan *plan = p->run->plan;
  return row && row < p->row_count && is_train(plan, p->rows[row].first) != is_train(plan, p->rows[row - 1].first);
}

// Labels stand where there is room for them; the first of a side always.
static void put_labels(struct picture *p, double y, double height) {
  uint32_t every = 1;
  while (every * height < 10) every++;
  for (uint32_t row = p->lo, last = p->lo; row < p->hi; row++) {
    bool crowded = row - last < every;
    for (uint32_t k = 1; k < every; k++) crowded |= row + k < p->hi && is_turn(p, row + k);
    if (row > p->lo && crowded && !is_turn(p, row)) continue;
    put_label(p, row, y + (row - p->lo + 0.5) * height + 3);
    last = row;
  }
}

static void draw_frame(struct picture *p, int link, double y, double high) {
  struct sim_spread s = sim_spread_of(p->run, (enum rsp_sim_link)link);
  char bytes[32];
  put(p, "<text x=\"%d\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n", LEFT, y - 7,
      sim_link_title((enum rsp_sim_link)link));
  put(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"10\" fill=\"#555\">%s</text>\n", LEFT + SPAN, y - 7,
      link == RSP_SIM_ISSUE ? "" : cli_bytes(s.bytes, bytes));
  put(p, "<text x=\"%d\" y=\"%.1f\" font-size=\"10\" fill=\"#555\">mean %.1f %%, most %.1f %%</text>\n", BARS, y - 7,
      s.mean * 100, s.most * 100);
  put(p, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"#fafafa\" stroke=\"#ccc\"/>\n", LEFT, y, SPAN,
      high);
  put(p, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"#fafafa\" stroke=\"#ccc\"/>\n", BARS, y,
      BAR_SPAN, high);
}

// Where the sides meet, and the half of the bars.
static void draw_lines(struct picture *p, double y, double height) {
  for (uint32_t row = p->lo + 1; row < p->hi; row++)
    if (is_turn(p, row))
      put(p, "<path d=\"M%d %.1fH%d\" stroke=\"#888\" stroke-width=\"0.7\"/>\n", LEFT, y + (row - p->lo) * height,
          BARS + BAR_SPAN);
  put(p, "<path d=\"M%d %.1fv%.1f\" stroke=\"#999\" stroke-width=\"0.5\" stroke-dasharray=\"2 2\"/>\n",
      BARS + BAR_SPAN / 2, y, (p->hi - p->lo) * height);
}

static bool is_used(const struct picture *p, int link, uint32_t row) {
  for (uint32_t i = 0; i < p->rows[row].count; i++)
    if (p->run->result.bytes[link][p->rows[row].first + i] > 0) return true;
  return false;
}

// A side that does not use the link has no rows in its panel. Training ranks come first.
static void choose_rows(struct picture *p, int link) {
  uint32_t first = 0, last = p->row_count;
  while (first < last && !is_used(p, link, first)) first++;
  while (last > first && !is_used(p, link, last - 1)) last--;
  p->lo = first;
  p->hi = last;
  while (p->lo > 0 && !is_turn(p, p->lo)) p->lo--;
  while (p->hi < p->row_count && !is_turn(p, p->hi)) p->hi++;
}

static double draw_panel(struct picture *p, int link, double y) {
  double height = p->row_count <= 8 ? 12 : p->row_count <= 16 ? 8 : 4.5;
  choose_rows(p, link);
  double high = height * (p->hi - p->lo);
  draw_frame(p, link, y, high);
  for (uint32_t row = p->lo; row < p->hi; row++) {
    double at = y + (row - p->lo) * height;
    draw_row(p, link, row, at, height + 0.05);
    draw_bar(p, link, row, at + height * 0.12, height * 0.76);
  }
  draw_lines(p, y, height);
  put_labels(p, y, height);
  return y + high;
}

static void draw_axes(struct picture *p, double y) {
  double seconds = p->run->result.seconds, step = pow(10, floor(log10(seconds)));
  if (seconds / step < 2)
    step /= 5;
  else if (seconds / step < 5)
    step /= 2;
  double unit = seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1;
  const char *name = seconds < 1e-3 ? "us" : seconds < 1 ? "ms" : "s";
  for (int i = 0; i * step <= seconds * (1 + 1e-9); i++) {
    double x = LEFT + SPAN * (i * step / seconds);
    put(p, "<path d=\"M%.1f %.1fv4\" stroke=\"#888\"/>\n", x, y);
    put(p, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"10\">%.4g</text>\n", x, y + 15,
        i * step * unit);
  }
  put(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"10\">%s, simulated</text>\n", LEFT + SPAN, y + 28,
      name);
  for (int i = 0; i <= 2; i++)
    put(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"10\">%d %%</text>\n", BARS + i * BAR_SPAN / 2,
        y + 15,
        i == 0   ? "start"
        : i == 1 ? "middle"
                 : "end",
        i * 50);
  put(p, "<text x=\"%d\" y=\"%.1f\" font-size=\"10\">busy, of the whole time</text>\n", BARS, y + 28);
}

static void put_head(struct picture *p) {
  const struct sim_run *run = p->run;
  char id[33];
  rsp_id_text(run->plan->header->plan_id, id);
  put(p, "<text x=\"14\" y=\"26\" font-size=\"16\" font-weight=\"bold\">%.4g s simulated", run->result.seconds);
  if (run->bound.seconds > 0)
    put(p, ", %.3f times the bound of %.4g s", run->result.seconds / run->bound.seconds, run->bound.seconds);
  put(p,
      "</text>\n<text x=\"14\" y=\"44\" font-size=\"11\" fill=\"#555\">plan %.8s: %u process%s, %u round%s; bound: "
      "%s: ",
      id, run->plan->header->world, run->plan->header->world == 1 ? "" : "es", run->plan->header->rounds,
      rsp_plural(run->plan->header->rounds), rsp_bound_word(run->bound.term));
  size_t len = strlen(run->bound.words), most = 92;
  while (len > most && most > 60 && run->bound.words[most - 1] != ' ') most--;
  put_escaped(p, run->bound.words, len < most ? len : most);
  if (len > most) {
    put(p, "</text>\n<text x=\"14\" y=\"58\" font-size=\"11\" fill=\"#555\">");
    put_escaped(p, run->bound.words + most, len - most);
  }
  put(p, "</text>\n");
  put(p, "<text x=\"%d\" y=\"26\" text-anchor=\"end\" font-size=\"10\">idle</text>\n", BARS + BAR_SPAN - 100);
  for (int i = 1; i <= SHADES; i++) {
    put(p, "<rect x=\"%d\" y=\"18\" width=\"6\" height=\"9\" fill=\"", BARS + BAR_SPAN - 102 + i * 6);
    put_shade(p, i);
    put(p, "\"/>\n");
  }
  put(p, "<text x=\"%d\" y=\"26\" text-anchor=\"end\" font-size=\"10\">full</text>\n", BARS + BAR_SPAN);
}

static void draw(struct picture *p) {
  double y = TOP;
  put_head(p);
  for (int link = 0; link < RSP_SIM_LINKS; link++) {
    if (sim_spread_of(p->run, (enum rsp_sim_link)link).bytes <= 0) continue;
    y = draw_panel(p, link, y) + PANEL_GAP;
  }
  if (p->run->result.seconds > 0) draw_axes(p, y - PANEL_GAP + 2);
  put(p, "</g>\n</svg>\n");
  // The height is known now: the head goes in front.
  char head[256];
  int n = snprintf(
      head, sizeof head,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<g font-family=\"Helvetica, Arial, sans-serif\" "
      "font-size=\"12\">\n",
      WIDTH, y + 14, WIDTH, y + 14);
  char *text = malloc(p->used + (size_t)n + 1);
  if (!text) abort();
  memcpy(text, head, (size_t)n);
  memcpy(text + n, p->text, p->used + 1);
  free(p->text);
  p->text = text;
  p->used += (size_t)n;
}

int sim_svg(const struct sim_run *run, const char *path) {
  struct picture p = {.run = run, .room = 1 << 16};
  struct rsp_sim_result again;
  char *reason = NULL;
  int status = CLI_YES;
  p.text = malloc(p.room);
  if (!p.text) abort();
  p.text[0] = 0;
  make_rows(&p);
  p.bytes = calloc((size_t)RSP_SIM_LINKS * p.row_count * COLUMNS + 1, sizeof *p.bytes);
  if (!p.bytes) abort();
  rsp_simulate(run->plan, &run->cluster, traced, &p, &again);
  rsp_sim_result_free(&again);
  draw(&p);
  if (!cli_write_file(path, p.text, p.used, &reason)) {
    status = cli_trouble(run->program, "cannot write %s: %s", path, reason ? reason : "unknown reason");
    free(reason);
  }
  free(p.bytes);
  free(p.rows);
  free(p.row_of);
  free(p.text);
  return status;
}
