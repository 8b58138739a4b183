/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a cluster. Out: its text dump, one line per thing, the form of --dump=cluster and of the tests.
 */
#include "compiler/ir/cluster.h"

#include <inttypes.h>

/* 17 digits tell every double apart. */
static void print_links(const struct rsc_links *l, FILE *out) {
  fprintf(out, "links nvlink %.17g %.17g network %.17g %.17g memory %.17g issue %.17g\n", l->nvlink_bandwidth,
          l->nvlink_latency, l->network_bandwidth, l->network_latency, l->memory_bandwidth, l->issue_seconds);
}

void rsc_cluster_print(const struct rsc_cluster *cluster, FILE *out) {
  print_links(&cluster->links, out);
  for (int64_t i = 0; i < cluster->host_count; i++) {
    const struct rsc_host *h = &cluster->hosts[i];
    fprintf(out, "host %s gpus %d nics %d domain %s\n", h->name, (int)h->gpus, (int)h->nics,
            cluster->domains[h->domain].name);
  }
  for (int64_t i = 0; i < cluster->world; i++) {
    const struct rsc_process *p = &cluster->processes[i];
    fprintf(out, "rank %" PRId64 " %s:%d", i, cluster->hosts[p->host].name, (int)p->gpu);
    if (p->train_rank >= 0) fprintf(out, " train %" PRId64, p->train_rank);
    if (p->infer_rank >= 0) fprintf(out, " infer %" PRId64, p->infer_rank);
    fputc('\n', out);
  }
}
