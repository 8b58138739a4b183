/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the entries of a cluster file's `hosts:`. Out: hosts and NVLink domains. A domain is known by its name: hosts
 * that name the same one share it.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/pass/topology_impl.h"

enum { FIELD_NAMES, FIELD_GPUS, FIELD_NICS, FIELD_DOMAIN, FIELD_COUNT };
enum { PER_HOST_MAX = 1024 };

/* Counts the ways to find the domain's groups d.. among the names' groups n.., in order; stops at 2. Keeps one. */
static int ways(const struct rsc_top_pattern *domain, size_t d, const struct rsc_top_pattern *names, size_t n,
                size_t *match) {
  int found = 0;
  if (d == domain->group_count) return 1;
  for (size_t i = n; i < names->group_count && found < 2; i++) {
    if (!rsc_top_same_group(&domain->groups[d], &names->groups[i])) continue;
    size_t rest[RSC_GROUPS_MAX];
    int more = ways(domain, d + 1, names, i + 1, rest);
    if (more == 0) continue;
    if (found == 0) {
      match[d] = i;
      memcpy(match + d + 1, rest + d + 1, (domain->group_count - d - 1) * sizeof *match);
    }
    found += more;
  }
  return found;
}

/* "r[0-3]" is how "r[0-3]n[0-3]" begins: then it is clear which bracket is meant. */
static bool begins(const struct rsc_top_pattern *domain, const struct rsc_top_pattern *names) {
  size_t n = domain->group_count;
  if (n > names->group_count) return false;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(domain->literals[i], names->literals[i]) != 0) return false;
    if (!rsc_top_same_group(&domain->groups[i], &names->groups[i])) return false;
  }
  return !strncmp(domain->literals[n], names->literals[n], strlen(domain->literals[n]));
}

/* match[i] becomes the group of names that group i of the domain follows. */
static bool match_groups(struct rsc_top *top, const struct rsc_top_pattern *domain, const struct rsc_top_pattern *names,
                         size_t *match) {
  for (size_t i = 0; i < RSC_GROUPS_MAX; i++) match[i] = i;
  if (begins(domain, names)) return true;
  int count = ways(domain, 0, names, 0, match);
  if (count == 1) return true;
  rsc_error(top->diag, RSC_CLUSTER_DOMAIN, domain->span, "%s",
            count == 0 ? "a bracket of domain is none of the brackets of names; write the same one, or one domain name"
                       : "it is not clear which bracket of names this follows; begin domain as names begins, or give "
                         "each domain its own entry of hosts");
  rsc_note(top->diag, names->span, "the names are here");
  return false;
}

static bool add_host(struct rsc_top *top, const char *name, struct rsc_span span, struct rsc_host host,
                     const char *domain) {
  if (strchr(name, ':')) {
    rsc_error(top->diag, RSC_CLUSTER_PATTERN, span, "host '%s': a host's name holds no ':', which marks a GPU", name);
    return false;
  }
  const struct rsc_symbol *symbol = rsc_intern(top->host_names, name, strlen(name));
  if (symbol->id < top->hosts.len) {
    rsc_error(top->diag, RSC_CLUSTER_HOST_TWICE, span, "host '%s' is listed twice; keep one", name);
    rsc_note(top->diag, top->host_spans.at[symbol->id], "the other is here");
    return false;
  }
  host.name = symbol->text;
  host.domain = (int32_t)rsc_intern(top->domain_names, domain, strlen(domain))->id;
  *RSC_PUSH(top->arena, &top->hosts) = host;
  *RSC_PUSH(top->arena, &top->host_spans) = span;
  *RSC_PUSH(top->arena, &top->first_gpu) = top->gpu_count;
  top->gpu_count += host.gpus;
  return true;
}

static bool add_pattern(struct rsc_top *top, const struct rsc_top_pattern *names, struct rsc_host host,
                        const struct rsc_top_pattern *domain) {
  size_t choice[RSC_GROUPS_MAX] = {0}, match[RSC_GROUPS_MAX], follow[RSC_GROUPS_MAX] = {0};
  if (domain && !match_groups(top, domain, names, match)) return false;
  if (names->count > (top->max_gpus - top->gpu_count) / host.gpus) {
    rsc_error(top->diag, RSC_CLUSTER_TOO_LARGE, names->span,
              "with these hosts the cluster has more than %" PRId64 " GPUs; check the ranges", top->max_gpus);
    return false;
  }
  do {
    const char *name = rsc_top_text(top->arena, names, choice);
    for (size_t i = 0; domain && i < domain->group_count; i++) follow[i] = choice[match[i]];
    if (!add_host(top, name, names->span, host, domain ? rsc_top_text(top->arena, domain, follow) : name)) return false;
  } while (rsc_top_next(names, choice));
  return true;
}

static bool read_domain(struct rsc_top *top, const struct rsc_yaml *node, struct rsc_top_patterns *out) {
  if (!rsc_yaml_text(top->diag, node, "domain")) return false;
  if (!rsc_top_read_patterns(top->arena, top->diag, node, "domain", top->max_gpus, out)) return false;
  if (out->len == 1) return true;
  rsc_error(top->diag, RSC_CLUSTER_DOMAIN, node->span, "domain is one name; give each domain its own entry of hosts");
  return false;
}

bool rsc_top_add_hosts(struct rsc_top *top, const struct rsc_yaml *entry) {
  struct rsc_yaml_field f[FIELD_COUNT] = {[FIELD_NAMES] = {"names", true, "names: \"h[00-15]\"", NULL},
                                          [FIELD_GPUS] = {"gpus", true, "gpus: 8", NULL},
                                          [FIELD_NICS] = {"nics", true, "nics: 8", NULL},
                                          [FIELD_DOMAIN] = {.name = "domain"}};
  struct rsc_top_patterns names = {.len = 0}, domain = {.len = 0};
  struct rsc_diag *diag = top->diag;
  int64_t gpus = 0, nics = 0;
  bool ok = rsc_yaml_fields(diag, entry, "an entry of hosts", f, FIELD_COUNT);
  if (f[FIELD_NAMES].value)
    ok = rsc_top_read_patterns(top->arena, diag, f[FIELD_NAMES].value, "names", top->max_gpus, &names) && ok;
  if (f[FIELD_GPUS].value) ok = rsc_yaml_int(diag, f[FIELD_GPUS].value, "gpus", 1, PER_HOST_MAX, &gpus) && ok;
  if (f[FIELD_NICS].value) ok = rsc_yaml_int(diag, f[FIELD_NICS].value, "nics", 1, PER_HOST_MAX, &nics) && ok;
  if (f[FIELD_DOMAIN].value) ok = read_domain(top, f[FIELD_DOMAIN].value, &domain) && ok;
  if (!ok) return false;
  struct rsc_host host = {.gpus = (int32_t)gpus, .nics = (int32_t)nics};
  for (size_t i = 0; i < names.len; i++) ok = add_pattern(top, &names.at[i], host, domain.len ? domain.at : NULL) && ok;
  return ok;
}
