// SPDX-License-Identifier: Apache-2.0
//
// In: a path or bytes. Out: a plan, or a rank's page of one, of which every structural rule holds. A whole plan is read
// into memory, not mapped, so a file that changes under us cannot change what was checked; what is allocated
// grows with bytes that really came, never with what a header claims.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plans/check.h"

static enum rsp_status trouble(struct rsp_error *error, const char *what, const char *path, const char *why) {
  error->rule = 0;
  error->offset = 0;
  snprintf(error->text, sizeof error->text, "cannot %s '%.150s': %s", what, path, why);
  return RSP_TROUBLE;
}

static void point(struct rsp_plan *plan, const unsigned char *bytes, uint64_t size) {
  const struct rsp_header *h = (const void *)bytes;
  const struct rsp_section *s = h->sections;
  plan->header = h;
  plan->strings = (const void *)(bytes + s[RSP_SEC_STRINGS].off);
  plan->inputs = (const void *)(bytes + s[RSP_SEC_INPUTS].off);
  plan->files = (const void *)(bytes + s[RSP_SEC_FILES].off);
  plan->tensors = (const void *)(bytes + s[RSP_SEC_TENSORS].off);
  plan->dims = (const void *)(bytes + s[RSP_SEC_DIMS].off);
  plan->ranks = (const void *)(bytes + s[RSP_SEC_RANKS].off);
  plan->classes = (const void *)(bytes + s[RSP_SEC_CLASSES].off);
  plan->entries = (const void *)(bytes + s[RSP_SEC_ENTRIES].off);
  plan->pieces = (const void *)(bytes + s[RSP_SEC_PIECES].off);
  plan->ploops = (const void *)(bytes + s[RSP_SEC_PLOOPS].off);
  plan->buffers = (const void *)(bytes + s[RSP_SEC_BUFFERS].off);
  plan->slots = (const void *)(bytes + s[RSP_SEC_SLOTS].off);
  plan->rankmaps = (const void *)(bytes + s[RSP_SEC_RANKMAPS].off);
  plan->holds = (const void *)(bytes + s[RSP_SEC_HOLDS].off);
  plan->summary = (const void *)(bytes + s[RSP_SEC_SUMMARY].off);
  plan->directory = (const void *)(bytes + s[RSP_SEC_DIRECTORY].off);
  plan->input_count = s[RSP_SEC_INPUTS].count;
  plan->file_count = s[RSP_SEC_FILES].count;
  plan->tensor_count = s[RSP_SEC_TENSORS].count;
  plan->buffer_count = s[RSP_SEC_BUFFERS].count;
  plan->class_count = s[RSP_SEC_CLASSES].count;
  plan->rankmap_count = s[RSP_SEC_RANKMAPS].count;
  plan->bytes = bytes;
  plan->size = size;
}

void rsp_view_built(const void *bytes, size_t size, struct rsp_plan *plan) {
  *plan = (struct rsp_plan){0};
  point(plan, bytes, size);
}

static bool check_all(const struct rsp_check *check, struct rsp_plan *plan, const void *bytes, size_t size) {
  if (!rsp_check_magic(check, size) || !rsp_check_header(check, size) || !rsp_check_cover(check, size)) return false;
  point(plan, bytes, size);
  return rsp_check_spec(check, plan) && rsp_check_buffers(check, plan) && rsp_check_slices(check, plan);
}

enum rsp_status rsp_open_memory(const void *bytes, size_t size, struct rsp_plan *plan, struct rsp_error *error) {
  *plan = (struct rsp_plan){0};
  *error = (struct rsp_error){0};
  if ((uintptr_t)bytes % 8) return trouble(error, "read", "memory", "the bytes are not 8-aligned");
  struct rsp_check check = {.bytes = bytes, .base = 0, .error = error};
  bool good = check_all(&check, plan, bytes, size);
  if (!good) *plan = (struct rsp_plan){0};
  return rsp_status_of(good, error);
}

// Reads up to `want` bytes; returns how many came, or -1.
static ssize_t read_some(int fd, unsigned char *to, size_t want) {
  size_t have = 0;
  while (have < want) {
    ssize_t n = read(fd, to + have, want - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    have += (size_t)n;
  }
  return (ssize_t)have;
}

// The whole of fd; one byte past `claim` is enough to know that the file is too long.
static unsigned char *read_whole(int fd, size_t claim, size_t hint, size_t *size) {
  size_t cap = hint > 4096 ? hint + 1 : 65536;
  unsigned char *bytes = malloc(cap);
  size_t have = 0;
  while (bytes) {
    ssize_t n = read_some(fd, bytes + have, cap - have);
    if (n < 0) break;
    have += (size_t)n;
    if (have < cap || have > claim) {
      *size = have;
      return bytes;
    }
    unsigned char *more = cap > SIZE_MAX / 2 ? NULL : realloc(bytes, cap * 2);
    if (!more) {
      errno = ENOMEM;
      break;
    }
    bytes = more;
    cap *= 2;
  }
  int code = errno;
  free(bytes);
  errno = code;
  return NULL;
}

static enum rsp_status open_fd(int fd, const char *path, struct rsp_plan *plan, struct rsp_error *error) {
  struct stat st;
  size_t hint = 0, claim = SIZE_MAX, size = 0;
  if (fstat(fd, &st) != 0) return trouble(error, "read", path, strerror(errno));
  if (S_ISREG(st.st_mode)) {
    // A file that is no plan is refused before all of it is read.
    struct rsp_header header;
    ssize_t n = pread(fd, &header, sizeof header, 0);
    if (n < 0) return trouble(error, "read", path, strerror(errno));
    struct rsp_check check = {.bytes = (const void *)&header, .base = 0, .error = error};
    if (!rsp_check_magic(&check, (uint64_t)n) || !rsp_check_header(&check, (uint64_t)st.st_size)) return RSP_INVALID;
    hint = claim = (size_t)st.st_size;
  }
  unsigned char *bytes = read_whole(fd, claim, hint, &size);
  if (!bytes) return trouble(error, "read", path, strerror(errno));
  enum rsp_status status = rsp_open_memory(bytes, size, plan, error);
  if (status == RSP_OK)
    plan->mapping = bytes;
  else
    free(bytes);
  return status;
}

enum rsp_status rsp_open(const char *path, struct rsp_plan *plan, struct rsp_error *error) {
  *plan = (struct rsp_plan){0};
  *error = (struct rsp_error){0};
  if (strcmp(path, "-") == 0) return open_fd(STDIN_FILENO, "standard input", plan, error);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return trouble(error, "open", path, strerror(errno));
  enum rsp_status status = open_fd(fd, path, plan, error);
  close(fd);
  return status;
}

void rsp_close(struct rsp_plan *plan) {
  free(plan->mapping);
  *plan = (struct rsp_plan){0};
}

// ---- one rank ------------------------------------------------------------------------------------------------------

// A read-only window of whole pages around file bytes [off, off + bytes); of one page for none, which a rank that holds
// nothing asks for at 0.
struct window {
  void *map;
  size_t map_bytes;
  const unsigned char *at;
};

static bool map_window(int fd, uint64_t off, uint64_t bytes, struct window *w) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t first = off / page * page;
  w->map_bytes = (size_t)(off + (bytes ? bytes : 1) - first);
  w->map = mmap(NULL, w->map_bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)first);
  if (w->map == MAP_FAILED) return false;
  w->map_bytes = (size_t)rsp_align_up(w->map_bytes, page);
  w->at = (const unsigned char *)w->map + (off - first);
  return true;
}

static void unmap_window(struct window *w) {
  munmap(w->map, w->map_bytes);
}

static enum rsp_status open_slice(int fd, const char *path, const struct rsp_dirent *entry, uint32_t world_rank,
                                  struct rsp_rank_view *view, struct rsp_error *error) {
  struct window w, held;
  if (!map_window(fd, entry->off, entry->bytes, &w)) return trouble(error, "map", path, strerror(errno));
  if (!map_window(fd, entry->held_off, entry->held_bytes, &held)) {
    trouble(error, "map", path, strerror(errno));
    unmap_window(&w);
    return RSP_TROUBLE;
  }
  struct rsp_check check = {.bytes = w.at, .base = entry->off, .error = error};
  struct rsp_check block = {.bytes = held.at, .base = entry->held_off, .error = error};
  uint8_t digest[16], held_digest[16];
  rsp_digest(w.at, entry->bytes, digest);
  rsp_digest(held.at, entry->held_bytes, held_digest);
  bool relays = false;
  bool good = memcmp(digest, entry->digest, 16) == 0 || rsp_broken(&check, RSP_RULE_SLICE_DIGEST, w.at, NULL);
  good = good &&
         (memcmp(held_digest, entry->held_digest, 16) == 0 || rsp_broken(&block, RSP_RULE_HELD_DIGEST, held.at, NULL));
  good = good && rsp_check_slice(&check, &block, &view->header, entry, world_rank, &relays);
  if (good && relays && !(view->header.features & RSP_FEATURE_RELAY))
    good = rsp_broken(&check, RSP_RULE_RELAY_USED, w.at, NULL);
  if (!good) {
    unmap_window(&w);
    unmap_window(&held);
    return rsp_status_of(false, error);
  }
  rsp_program_at(w.at, held.at, &view->program);
  view->maps[0] = (struct rsp_map){w.map, w.map_bytes};
  view->maps[1] = (struct rsp_map){held.map, held.map_bytes};
  view->mapped_bytes += w.map_bytes + held.map_bytes;
  return RSP_OK;
}

static enum rsp_status open_dirent(int fd, const char *path, uint32_t world_rank, struct rsp_rank_view *view,
                                   struct rsp_error *error) {
  const struct rsp_header *header = &view->header;
  uint64_t off = header->sections[RSP_SEC_DIRECTORY].off + sizeof(struct rsp_dirent) * (uint64_t)world_rank;
  struct window w;
  if (!map_window(fd, off, sizeof(struct rsp_dirent), &w)) return trouble(error, "map", path, strerror(errno));
  struct rsp_dirent entry = *(const struct rsp_dirent *)(const void *)w.at;
  view->mapped_bytes += w.map_bytes;
  unmap_window(&w);
  struct rsp_check check = {.bytes = (const void *)&entry, .base = off, .error = error};
  if (!rsp_check_dirent(&check, header, &entry, world_rank)) return RSP_INVALID;
  return open_slice(fd, path, &entry, world_rank, view, error);
}

static enum rsp_status open_rank(int fd, const char *path, uint32_t world_rank, struct rsp_rank_view *view,
                                 struct rsp_error *error) {
  struct stat st;
  if (fstat(fd, &st) != 0) return trouble(error, "read", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return trouble(error, "map", path, "not a regular file");
  uint64_t size = (uint64_t)st.st_size, head = size < sizeof view->header ? size : sizeof view->header;
  struct rsp_check check = {.bytes = (const void *)&view->header, .base = 0, .error = error};
  if (head) {
    struct window w;
    if (!map_window(fd, 0, head, &w)) return trouble(error, "map", path, strerror(errno));
    memcpy(&view->header, w.at, (size_t)head);
    view->mapped_bytes += w.map_bytes;
    unmap_window(&w);
  }
  if (!rsp_check_magic(&check, head) || !rsp_check_header(&check, size)) return RSP_INVALID;
  if (world_rank >= view->header.world) {
    rsp_report(&check, RSP_RULE_WORLD, &view->header.world, "rank %u of a world of %u", world_rank, view->header.world);
    return RSP_INVALID;
  }
  return open_dirent(fd, path, world_rank, view, error);
}

enum rsp_status rsp_rank_open(const char *path, uint32_t world_rank, struct rsp_rank_view *view,
                              struct rsp_error *error) {
  *view = (struct rsp_rank_view){0};
  *error = (struct rsp_error){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return trouble(error, "open", path, strerror(errno));
  enum rsp_status status = open_rank(fd, path, world_rank, view, error);
  close(fd);
  if (status != RSP_OK) *view = (struct rsp_rank_view){0};
  return status;
}

void rsp_rank_close(struct rsp_rank_view *view) {
  for (int i = 0; i < 2; i++)
    if (view->maps[i].at) munmap(view->maps[i].at, view->maps[i].bytes);
  *view = (struct rsp_rank_view){0};
}
