/* SPDX-License-Identifier: Apache-2.0
 *
 * topology: a cluster file, or none, and the number of ranks of each side -> hosts, NVLink domains, links, and the
 * process of each rank. This file reads the frame and the links, and makes the default cluster.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/topology_impl.h"

enum { DEFAULT_GPUS = 8, MAX_GPUS = 16 * 1024 * 1024 };
enum { FIELD_VERSION, FIELD_LINKS, FIELD_HOSTS, FIELD_TRAIN, FIELD_INFER, FIELD_ISSUE, FIELD_COUNT };
enum { LINK_NVLINK, LINK_NETWORK, LINK_MEMORY, LINK_ISSUE, LINK_COUNT };

static const struct rsc_links default_links = {.nvlink_bandwidth = 450e9,
                                               .nvlink_latency = 2e-6,
                                               .network_bandwidth = 50e9,
                                               .network_latency = 5e-6,
                                               .memory_bandwidth = 3.3e12,
                                               .issue_seconds = 1e-6};

/* latency is NULL for a link that has none. */
static bool read_link(struct rsc_diag *diag, const struct rsc_yaml *node, const char *name, double *bandwidth,
                      double *latency) {
  struct rsc_yaml_field f[] = {{"bandwidth", true, "bandwidth: 450e9", NULL}, {"latency", true, "latency: 2e-6", NULL}};
  char what[64];
  bool ok = rsc_yaml_fields(diag, node, name, f, latency ? 2 : 1);
  snprintf(what, sizeof what, "bandwidth of %s", name);
  if (f[0].value) ok = rsc_yaml_number(diag, f[0].value, what, false, bandwidth) && ok;
  snprintf(what, sizeof what, "latency of %s", name);
  if (latency && f[1].value) ok = rsc_yaml_number(diag, f[1].value, what, true, latency) && ok;
  return ok;
}

static bool read_links(struct rsc_diag *diag, const struct rsc_yaml *node, struct rsc_links *links) {
  struct rsc_yaml_field f[LINK_COUNT] = {
      [LINK_NVLINK] = {"nvlink", true, "nvlink: {bandwidth: 450e9, latency: 2e-6}", NULL},
      [LINK_NETWORK] = {"network", true, "network: {bandwidth: 50e9, latency: 5e-6}", NULL},
      [LINK_MEMORY] = {"memory", true, "memory: {bandwidth: 3.3e12}", NULL},
      [LINK_ISSUE] = {.name = "issue"}};
  bool ok = rsc_yaml_fields(diag, node, "links", f, LINK_COUNT);
  if (f[LINK_NVLINK].value)
    ok = read_link(diag, f[LINK_NVLINK].value, "nvlink", &links->nvlink_bandwidth, &links->nvlink_latency) && ok;
  if (f[LINK_NETWORK].value)
    ok = read_link(diag, f[LINK_NETWORK].value, "network", &links->network_bandwidth, &links->network_latency) && ok;
  if (f[LINK_MEMORY].value) ok = read_link(diag, f[LINK_MEMORY].value, "memory", &links->memory_bandwidth, NULL) && ok;
  if (f[LINK_ISSUE].value) ok = rsc_yaml_number(diag, f[LINK_ISSUE].value, "issue", true, &links->issue_seconds) && ok;
  return ok;
}

static bool check_version(struct rsc_diag *diag, const struct rsc_yaml *root) {
  char buffer[64];
  const struct rsc_yaml *version = NULL, *model = NULL;
  for (size_t k = 0; k < root->u.items.count; k += 2) {
    const char *key = root->u.items.at[k].u.scalar.text;
    if (!strcmp(key, "reshard-cluster")) version = &root->u.items.at[k + 1];
    if (!strcmp(key, "reshard-model")) model = &root->u.items.at[k];
  }
  if (version && version->kind == RSC_YAML_SCALAR && !strcmp(version->u.scalar.text, "1")) return true;
  if (version)
    rsc_error(diag, RSC_YAML_VERSION, version->span, "reshard-cluster is %s; this program reads `reshard-cluster: 1`",
              rsc_yaml_describe(version, buffer));
  else if (model)
    rsc_error(diag, RSC_YAML_VERSION, model->span,
              "this is a catalogue of tensors; give it with --model, and a cluster "
              "with --cluster");
  else
    rsc_error(diag, RSC_YAML_VERSION, root->span, "a cluster file begins with `reshard-cluster: 1`; add this line");
  return false;
}

static bool read_hosts(struct rsc_top *top, const struct rsc_yaml *list) {
  if (!rsc_yaml_expect(top->diag, list, RSC_YAML_LIST, "hosts")) return false;
  bool ok = true;
  for (size_t i = 0; i < list->u.items.count; i++) ok = rsc_top_add_hosts(top, &list->u.items.at[i]) && ok;
  return ok;
}

static bool read_side(struct rsc_top *top, const struct rsc_yaml *node, const char *key, const char *side,
                      int64_t world, struct rsc_top_gpus *out) {
  if (!rsc_top_select(top, node, key, out)) return false;
  if ((int64_t)out->len >= world) return true;
  rsc_error(top->diag, RSC_CLUSTER_TOO_FEW, node->span,
            "%s names %zu GPUs, but the %s side has %" PRId64 " ranks; name more, or make the layout smaller", key,
            out->len, side, world);
  return false;
}

/* `issue` at the top is the same as in links. */
static bool read_issue(struct rsc_diag *diag, const struct rsc_yaml *node, const struct rsc_yaml *links, double *out) {
  if (!node) return true;
  for (size_t k = 0; links && links->kind == RSC_YAML_MAP && k < links->u.items.count; k += 2) {
    if (strcmp(links->u.items.at[k].u.scalar.text, "issue") != 0) continue;
    rsc_error(diag, RSC_YAML_DUPLICATE_KEY, node->span, "issue stands here and in links; keep one");
    rsc_note(diag, links->u.items.at[k].span, "the other is here");
    return false;
  }
  return rsc_yaml_number(diag, node, "issue", true, out);
}

static bool read_file(struct rsc_top *top, const struct rsc_yaml *root, struct rsc_cluster *out) {
  struct rsc_yaml_field f[FIELD_COUNT] = {[FIELD_VERSION] = {.name = "reshard-cluster"},
                                          [FIELD_LINKS] = {"links", true, "links:", NULL},
                                          [FIELD_HOSTS] = {"hosts", true, "hosts:", NULL},
                                          [FIELD_TRAIN] = {"train", true, "train: \"t[00-15]\"", NULL},
                                          [FIELD_INFER] = {"infer", true, "infer: \"i[00-15]\"", NULL},
                                          [FIELD_ISSUE] = {.name = "issue"}};
  struct rsc_top_gpus train = {.len = 0}, infer = {.len = 0};
  if (!rsc_yaml_expect(top->diag, root, RSC_YAML_MAP, "a cluster file") || !check_version(top->diag, root))
    return false;
  bool ok = rsc_yaml_fields(top->diag, root, "a cluster file", f, FIELD_COUNT);
  if (f[FIELD_LINKS].value) ok = read_links(top->diag, f[FIELD_LINKS].value, &out->links) && ok;
  ok = read_issue(top->diag, f[FIELD_ISSUE].value, f[FIELD_LINKS].value, &out->links.issue_seconds) && ok;
  if (!f[FIELD_HOSTS].value || !read_hosts(top, f[FIELD_HOSTS].value)) return false; /* sides would only repeat it */
  if (f[FIELD_TRAIN].value)
    ok = read_side(top, f[FIELD_TRAIN].value, "train", "training", out->train_world, &train) && ok;
  if (f[FIELD_INFER].value)
    ok = read_side(top, f[FIELD_INFER].value, "infer", "inference", out->infer_world, &infer) && ok;
  if (ok) rsc_top_number(top, &train, &infer, out);
  return ok;
}

/* Full hosts for `world` ranks of one side. */
static void add_default(struct rsc_top *top, const char *name, int64_t world, struct rsc_top_gpus *out) {
  int64_t hosts = rsc_ceildiv(world, DEFAULT_GPUS);
  for (int64_t h = 0; h < hosts; h++) {
    char text[64];
    int n = snprintf(text, sizeof text, "%s%0*" PRId64, name, hosts > 100 ? 4 : 2, h);
    const struct rsc_symbol *symbol = rsc_intern(top->host_names, text, (size_t)n);
    struct rsc_host host = {.name = symbol->text, .gpus = DEFAULT_GPUS, .nics = DEFAULT_GPUS};
    host.domain = (int32_t)rsc_intern(top->domain_names, text, (size_t)n)->id;
    *RSC_PUSH(top->arena, &top->hosts) = host;
    *RSC_PUSH(top->arena, &top->first_gpu) = top->gpu_count;
    top->gpu_count += DEFAULT_GPUS;
    for (int32_t gpu = 0; gpu < DEFAULT_GPUS; gpu++)
      *RSC_PUSH(top->arena, out) = (struct rsc_top_gpu){(int32_t)top->hosts.len - 1, gpu};
  }
}

static bool make_default(struct rsc_top *top, struct rsc_cluster *out) {
  struct rsc_top_gpus train = {.len = 0}, infer = {.len = 0};
  if (out->train_world > top->max_gpus || out->infer_world > top->max_gpus - out->train_world) {
    rsc_error(top->diag, RSC_CLUSTER_TOO_LARGE, (struct rsc_span){.file = -1},
              "%" PRId64 " training and %" PRId64 " inference ranks are more than %" PRId64
              ", which is as many GPUs as a cluster may have",
              out->train_world, out->infer_world, top->max_gpus);
    return false;
  }
  add_default(top, "train", out->train_world, &train);
  add_default(top, "infer", out->infer_world, &infer);
  rsc_top_number(top, &train, &infer, out);
  return true;
}

static const struct rsc_domain *list_domains(const struct rsc_top *top) {
  size_t count = rsc_intern_count(top->domain_names);
  struct rsc_domain *domains = RSC_ARRAY(top->arena, struct rsc_domain, count);
  for (size_t i = 0; i < count; i++) domains[i].name = rsc_intern_at(top->domain_names, (uint32_t)i)->text;
  return domains;
}

bool rsc_topology_limited(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                          int64_t train_world, int64_t infer_world, int64_t max_gpus, struct rsc_cluster *out) {
  struct rsc_top top = {.arena = arena,
                        .diag = diag,
                        .max_gpus = max_gpus,
                        .host_names = rsc_interner_new(arena),
                        .domain_names = rsc_interner_new(arena)};
  struct rsc_yaml root;
  *out = (struct rsc_cluster){.links = default_links, .train_world = train_world, .infer_world = infer_world};
  bool ok = file < 0 ? make_default(&top, out)
                     : rsc_yaml_read(arena, sources, diag, file, &root) && read_file(&top, &root, out);
  if (!ok) return false;
  out->hosts = top.hosts.at;
  out->host_count = (int64_t)top.hosts.len;
  out->domains = list_domains(&top);
  out->domain_count = (int64_t)rsc_intern_count(top.domain_names);
  return true;
}

bool rsc_topology(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                  int64_t train_world, int64_t infer_world, struct rsc_cluster *out) {
  return rsc_topology_limited(arena, sources, diag, file, train_world, infer_world, MAX_GPUS, out);
}
