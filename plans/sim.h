/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a plan takes, from its bytes alone: a fluid model of its rounds, and a lower bound from what it is for. In:
 * an opened plan, rates of its links. Out: times, loads, and the bound's reason in words. Shares no code with the
 * compiler.
 *
 * Thread-safe; no globals. Running out of memory aborts.
 */
#ifndef RSP_SIM_H
#define RSP_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Links of one rank. A NIC is the rank's share of its host's NICs. */
enum rsp_sim_link {
  RSP_SIM_NIC_OUT,
  RSP_SIM_NIC_IN,
  RSP_SIM_NVLINK_OUT,
  RSP_SIM_NVLINK_IN,
  RSP_SIM_MEMORY, /* bytes read plus bytes written */
  RSP_SIM_ISSUE,  /* messages, in place of bytes: sends and receives that the rank posts */
  RSP_SIM_LINKS
};
/* "nic_out" */
const char *rsp_sim_link_word(enum rsp_sim_link link);

struct rsp_sim_cluster {
  double *rate[RSP_SIM_LINKS]; /* bytes (messages) per second, per world rank */
  double network_latency, nvlink_latency, issue_seconds;
};
/* The rates in the plan's summary, one NIC per GPU: a caller may change them. All below need usable ones. Freed by
 * rsp_sim_cluster_free. */
void rsp_sim_cluster_of(const struct rsp_plan *plan, struct rsp_sim_cluster *cluster);
/* Whether every rate is above zero and no latency below: a plan may state anything. */
bool rsp_sim_cluster_usable(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster);
void rsp_sim_cluster_free(struct rsp_sim_cluster *cluster);

/* What a rank moved between two times; a stretch of equal rounds is told at once. */
typedef void (*rsp_sim_trace_fn)(void *user, uint32_t rank, double from, double to, const double bytes[RSP_SIM_LINKS]);

struct rsp_sim_result {
  double seconds;               /* until the last rank has done its last phase */
  double *bytes[RSP_SIM_LINKS]; /* per rank */
  double *busy[RSP_SIM_LINKS];  /* per rank: share of `seconds`, 0 to 1 */
  double peak[RSP_SIM_LINKS];   /* seconds: over the rounds, the sum of the busiest rank's; of a coarse run only of the
                                    rounds that were computed */
  uint64_t phases;              /* of the plan: rounds + 2 */
  uint64_t phases_computed;     /* the others were like those before */
};
void rsp_simulate(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster, rsp_sim_trace_fn trace,
                  void *user, struct rsp_sim_result *result);
/* The same at a fraction of the cost where there is much: of each 64 periods of rounds 8 are computed, in the others
 * every rank keeps its pace. Bytes are exact, seconds within about a percent. */
void rsp_simulate_coarsely(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster,
                           struct rsp_sim_result *result);
/* The same without a plan in memory: its programs one after the other, by rank; their holdings are not looked at, and
 * nothing of a program is needed after the call. `ranks` must outlive the streams. */
struct rsp_sim_streams;
struct rsp_sim_streams *rsp_sim_streams_new(uint32_t world, const struct rsp_rank *ranks);
void rsp_sim_streams_add(struct rsp_sim_streams *streams, uint32_t world_rank, const struct rsp_program *program);
void rsp_sim_streams_free(struct rsp_sim_streams *streams);
/* When all programs are told. Frees the streams. */
void rsp_simulate_streams(struct rsp_sim_streams *streams, uint32_t world, uint32_t rounds,
                          const struct rsp_sim_cluster *cluster, struct rsp_sim_result *result);
void rsp_sim_result_free(struct rsp_sim_result *result);

/* ---- the bound --------------------------------------------------------------------------------------------------- */

enum rsp_bound_term {
  RSP_BOUND_NOTHING,
  RSP_BOUND_INGEST,  /* a domain's NICs, in */
  RSP_BOUND_EGRESS,  /* one copy of what only some ranks hold, out of their NICs */
  RSP_BOUND_NETWORK, /* everything that domains take in, out of all NICs */
  RSP_BOUND_NVLINK,  /* copies inside a domain */
  RSP_BOUND_RANK,    /* what one rank wants, through its NIC and NVLink together */
  RSP_BOUND_MEMORY,
  RSP_BOUND_LATENCY, /* the shortest pipeline of messages */
  RSP_BOUND_TERMS
};
/* "egress" */
const char *rsp_bound_word(enum rsp_bound_term term);

struct rsp_bound {
  double seconds;
  enum rsp_bound_term term;      /* the one that binds */
  double terms[RSP_BOUND_TERMS]; /* each one's seconds */
  uint64_t network_minimum;      /* bytes: sum of what domains must take in */
  uint64_t one_copy;             /* bytes: what must leave holders' NICs once */
  bool exact;      /* false: tensors cut too finely to be told apart are left out, and the bound is too low */
  char words[512]; /* the binding term: "ranks 112-127 (16 GPUs of t14, t15) hold 92 GB ..." */
};
/* Uses the specification and the ranks of the plan, not its program. */
void rsp_bound_of(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster, struct rsp_bound *bound);

#ifdef __cplusplus
}
#endif

#endif
