/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged mode: the rounds and the staging of the plan, as a network would run them. In phase p a rank packs round p,
 * exchanges round p-1 and unpacks round p-2; no one waits for more than the two ends of a message. With a seed the
 * three come in any order and late, so that a plan that counts on luck is found out.
 */
#include <stdlib.h>

#include "runtime/host_staged.h"

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static void moved(void *group) {
  rsr_host_moved(group);
}

static enum reshard_status open_links(struct rsr_host *host, struct reshard_fault *fault) {
  struct rsr_staged *staged = &host->staged;
  host->links = calloc(staged->count + 1, sizeof *host->links);
  if (!host->links) return rsr_no_memory(fault, "links", staged->count * sizeof *host->links);
  for (uint64_t s = 0; s < staged->count; s++) {
    struct rsr_channel *own = &host->links[s].own;
    if (staged->ports[s].stream->dir != RSP_DIR_OUT) continue;
    own->room = rsr_port_most_messages(staged, &staged->ports[s]);
    own->messages = calloc(own->room, sizeof *own->messages);
    if (!own->messages) return rsr_no_memory(fault, "messages", own->room * sizeof *own->messages);
    host->links[s].channel = own;
  }
  return RESHARD_OK;
}

enum reshard_status rsr_staged_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum reshard_status status = rsr_staged_open(&host->staged, &context->slice, context->config.flags, fault);
  if (status == RESHARD_OK) status = open_links(host, fault);
  if (status != RESHARD_OK) return status;
  host->staged.moved = moved;
  host->staged.user = host->group;
  if (context->config.inject.kind == RESHARD_INJECT_NO_MEMORY)
    return rsr_no_memory(fault, "staging", context->slice.program.slice->staging);
  if (context->config.inject.kind == RESHARD_INJECT_FLIP) host->staged.flip_round = context->config.inject.round;
  return rsr_plain_open(&host->staged, fault);
}

enum reshard_status rsr_staged_link(struct reshard_context *context, struct reshard_fault *fault) {
  (void)fault;
  struct rsr_host *host = rsr_host_of(context);
  for (uint64_t s = 0; s < host->staged.count; s++) {
    const struct rsp_stream *stream = host->staged.ports[s].stream;
    if (stream->dir != RSP_DIR_IN) continue;
    const struct reshard_context *peer = host->group->stations[stream->peer].member;
    const struct rsp_program *program = &peer->slice.program;
    const struct rsp_stream *twin = rsr_twin(program, context->world_rank, RSP_DIR_OUT, stream);
    host->links[s].channel = &rsr_host_of(peer)->links[twin - program->streams].own;
  }
  return RESHARD_OK;
}

void rsr_staged_reset(struct rsr_host *host) {
  for (uint64_t s = 0; s < host->staged.count && host->links; s++) free(host->links[s].own.messages);
  free(host->links);
  host->links = NULL;
  rsr_staged_close(&host->staged);
}

/* ---- seeded trouble ---------------------------------------------------------------------------------------------- */

static uint64_t random_of(struct rsr_host *host) {
  host->random ^= host->random << 13;
  host->random ^= host->random >> 7;
  host->random ^= host->random << 17;
  return host->random;
}

static void dawdle(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  if (host->random != 0 && random_of(host) % 8 == 0) rsr_host_pause(context, (double)(random_of(host) % 300) * 1e-6);
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

enum action { PACK, UNPACK, COMPLETE };

static void choose_order(struct rsr_host *host, enum action order[3], bool *post_first) {
  order[0] = PACK, order[1] = UNPACK, order[2] = COMPLETE;
  *post_first = true;
  if (host->random == 0) return;
  for (uint32_t i = 2; i > 0; i--) {
    uint32_t j = (uint32_t)(random_of(host) % (i + 1));
    enum action swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  *post_first = random_of(host) % 2 == 0;
}

static enum reshard_status act(struct reshard_context *context, enum action action, uint64_t phase, bool post_first,
                               struct reshard_fault *fault) {
  struct rsr_staged *staged = &rsr_host_of(context)->staged;
  uint64_t rounds = context->slice.program.slice->rounds;
  dawdle(context);
  switch (action) {
  case PACK:
    return phase < rounds ? rsr_plain_pack(staged, (uint32_t)phase, fault) : RESHARD_OK;
  case UNPACK:
    return phase >= 2 ? rsr_plain_unpack(staged, (uint32_t)(phase - 2), fault) : RESHARD_OK;
  default:
    break;
  }
  if (phase < 1 || phase > rounds) return RESHARD_OK;
  if (!post_first) rsr_post(context, (uint32_t)(phase - 1));
  return rsr_complete(context, (uint32_t)(phase - 1), fault);
}

static enum reshard_status run_phase(struct reshard_context *context, uint64_t phase, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum action order[3];
  bool post_first;
  choose_order(host, order, &post_first);
  enum reshard_status status = RESHARD_OK;
  if (phase >= 1 && phase <= context->slice.program.slice->rounds) {
    status = rsr_inject(context, (uint32_t)(phase - 1), fault);
    if (status == RESHARD_OK && post_first) rsr_post(context, (uint32_t)(phase - 1));
  }
  for (uint32_t i = 0; i < 3 && status == RESHARD_OK; i++) status = act(context, order[i], phase, post_first, fault);
  if (status == RESHARD_OK && (context->config.flags & RESHARD_GUARD) && phase >= 2)
    rsr_plain_poison_relayed(&host->staged, (uint32_t)(phase - 2));
  if (status == RESHARD_OK && atomic_load(&host->group->aborted)) status = rsr_host_aborted(host->group, fault);
  return status;
}

enum reshard_status rsr_staged_refit(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_staged *staged = &rsr_host_of(context)->staged;
  rsr_staged_rewind(staged);
  enum reshard_status status = RESHARD_OK;
  uint64_t phases = (uint64_t)context->slice.program.slice->rounds + 2;
  for (uint64_t phase = 0; phase < phases && status == RESHARD_OK; phase++) status = run_phase(context, phase, fault);
  if (status == RESHARD_OK && (context->config.flags & RESHARD_GUARD)) status = rsr_plain_check_guards(staged, fault);
  return status;
}
