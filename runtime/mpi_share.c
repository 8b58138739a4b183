/* SPDX-License-Identifier: Apache-2.0
 * Memory that is shared with peers on the same host; see mpi.h. A sender makes a file that has no name and lives in
 * memory, with a ring for each receiver, and offers it; a receiver that can open it through /proc, and finds the very
 * file that was offered, is on the same host. The file goes with its last mapping, however the job ends. Where this
 * fails, or hashes, guards or a wrong byte are wanted, which are looked for in staging, messages do the work. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/mpi.h"

/* What a sender says of the ring. */
struct offer {
  uint64_t name[2]; /* random; 0: no offer */
  uint64_t off;
  int64_t pid, file;
};

/* By near: offers and answers, mine and of the other end. It lives as long as the rounds: it may be under way. */
struct rsr_share {
  uint64_t count;
  int file;
  uint64_t name[2];
  struct exchange {
    struct offer offer;
    uint64_t taken;
  } * exchanges;
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void name_text(char text[48], const uint64_t name[2]) {
  snprintf(text, 48, "reshard-%016llx%016llx", (unsigned long long)name[0], (unsigned long long)name[1]);
}

/* Guards, hashes and a byte that is to be wrong are looked for in staging. */
static bool looks_at_staging(const struct rsr_mpi *mpi) {
  const struct reshard_config *config = &mpi->context->config;
  return config->flags & (RESHARD_GUARD | RESHARD_VERIFY) || config->inject.kind == RESHARD_INJECT_FLIP;
}

/* A file that is longer than the process may make one would end it by a signal. */
static bool may_have(uint64_t bytes) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

/* Pages that nobody touches take no memory: those of receivers on other hosts. */
static void make_file(struct rsr_share *share, uint64_t rings) {
  char text[48];
  if (rings == 0 || !may_have(rings * rsr_ring_bytes())) return;
  if (getrandom(share->name, sizeof share->name, GRND_NONBLOCK) != (ssize_t)sizeof share->name) return;
  name_text(text, share->name);
  share->file = memfd_create(text, MFD_CLOEXEC);
  if (share->file < 0) return;
  if (ftruncate(share->file, (off_t)(rings * rsr_ring_bytes())) == 0) return;
  close(share->file);
  share->file = -1;
}

static struct rsr_ring *map_ring(int file, uint64_t off) {
  void *ring = mmap(NULL, rsr_ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, (off_t)off);
  return ring == MAP_FAILED ? NULL : ring;
}

/* NULL: it is on another host, or this rank may not. */
static struct rsr_ring *take(const struct offer *offer) {
  char path[64], name[48], found[96], want[96];
  if (offer->name[0] == 0 && offer->name[1] == 0) return NULL;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)offer->pid, (long long)offer->file);
  ssize_t length = readlink(path, found, sizeof found - 1);
  if (length < 0) return NULL;
  found[length] = 0;
  name_text(name, offer->name);
  snprintf(want, sizeof want, "/memfd:%s (deleted)", name);
  if (strcmp(found, want) != 0) return NULL;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  struct rsr_ring *ring = map_ring(file, offer->off);
  close(file);
  return ring;
}

/* ---- both ends --------------------------------------------------------------------------------------------------- */

static bool find_nears(struct rsr_mpi *mpi) {
  const struct rsp_program *program = &mpi->context->slice.program;
  uint64_t count = program->slice->streams.count;
  mpi->share = calloc(1, sizeof *mpi->share);
  if (!mpi->share) return false;
  mpi->share->file = -1;
  mpi->nears = calloc(count + 1, sizeof *mpi->nears);
  mpi->share->exchanges = calloc(count + 1, sizeof *mpi->share->exchanges);
  if (!mpi->nears || !mpi->share->exchanges) return false;
  for (uint64_t s = 0, end; s < count && program->streams[s].dir <= RSP_DIR_IN; s = end) {
    end = rsr_peer_end(program, s);
    uint64_t staged = s; /* they come first */
    while (staged < end && program->streams[staged].kind == RSP_KIND_STAGED) staged++;
    if (staged == s || program->streams[s].peer == mpi->context->world_rank) continue;
    mpi->nears[mpi->share->count++] = (struct rsr_near){.first = s, .end = staged, .port = staged};
  }
  return true;
}

static void make_offers(struct rsr_mpi *mpi) {
  struct rsr_share *share = mpi->share;
  uint64_t rings = 0;
  if (looks_at_staging(mpi)) return;
  for (uint64_t i = 0; i < mpi->share->count; i++) rings += rsr_near_is_out(mpi, &mpi->nears[i]);
  make_file(share, rings);
  for (uint64_t i = 0, ring = 0; i < share->count && share->file >= 0; i++) {
    if (!rsr_near_is_out(mpi, &mpi->nears[i])) continue;
    struct offer offer = {{share->name[0], share->name[1]}, ring++ * rsr_ring_bytes(), getpid(), share->file};
    share->exchanges[i].offer = offer;
  }
}

static void take_offers(struct rsr_mpi *mpi) {
  if (looks_at_staging(mpi)) return;
  for (uint64_t i = 0; i < mpi->share->count; i++) {
    if (rsr_near_is_out(mpi, &mpi->nears[i])) continue;
    mpi->nears[i].ring = take(&mpi->share->exchanges[i].offer);
    mpi->share->exchanges[i].taken = mpi->nears[i].ring != NULL;
  }
}

/* Offers go with the streams, answers against them. */
static enum reshard_status exchange(struct rsr_mpi *mpi, bool answers, struct reshard_fault *fault) {
  mpi->count = 0;
  for (uint64_t i = 0; i < mpi->share->count; i++) {
    const struct rsr_near *near = &mpi->nears[i];
    struct exchange *x = &mpi->share->exchanges[i];
    void *words = answers ? (void *)&x->taken : (void *)&x->offer;
    uint64_t bytes = answers ? sizeof x->taken : sizeof x->offer;
    if (rsr_near_is_out(mpi, near) != answers)
      rsr_mpi_send(mpi, near->first, words, bytes);
    else
      rsr_mpi_receive(mpi, near->first, words, bytes);
  }
  return rsr_mpi_await(mpi, fault);
}

/* Those that both ends have mapped stay. A sender that cannot map its own file is out of memory. */
static enum reshard_status keep_rings(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  for (uint64_t i = 0; i < mpi->share->count; i++) {
    struct rsr_near near = mpi->nears[i];
    struct exchange *x = &mpi->share->exchanges[i];
    mpi->nears[i].ring = NULL;
    if (!x->taken) continue;
    if (!near.ring) near.ring = map_ring(mpi->share->file, x->offer.off);
    if (!near.ring) {
      rsr_no_memory(fault, "a ring of cells", rsr_ring_bytes());
      rsr_line_abort(mpi->line, fault);
      return RESHARD_NO_MEMORY;
    }
    for (uint64_t s = near.first; s < near.end; s++) mpi->staged.ports[s].is_carried = true;
    mpi->nears[mpi->near_count++] = near;
  }
  return RESHARD_OK;
}

enum reshard_status rsr_mpi_share(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  if (!find_nears(mpi)) {
    rsr_no_memory(fault, "peers", sizeof *mpi->nears);
    rsr_line_abort(mpi->line, fault);
    return RESHARD_NO_MEMORY;
  }
  make_offers(mpi);
  enum reshard_status status = exchange(mpi, false, fault);
  if (status != RESHARD_OK) return status;
  take_offers(mpi);
  status = exchange(mpi, true, fault);
  if (status == RESHARD_OK) status = keep_rings(mpi, fault);
  if (mpi->share->file >= 0) close(mpi->share->file);
  mpi->share->file = -1;
  return status;
}

void rsr_mpi_unshare(struct rsr_mpi *mpi) {
  struct rsr_share *share = mpi->share;
  if (!share) return;
  for (uint64_t i = 0; i < share->count; i++) {
    if (mpi->nears[i].ring) munmap(mpi->nears[i].ring, rsr_ring_bytes());
  }
  if (share->file >= 0) close(share->file);
  free(share->exchanges);
  free(share);
  free(mpi->nears);
  mpi->share = NULL;
  mpi->nears = NULL;
  mpi->near_count = 0;
}
