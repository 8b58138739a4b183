// SPDX-License-Identifier: Apache-2.0
//
// run_files: checkpoints in and out. In: a plan's specification, a directory. Out: slots that point into mapped files.

#include "tools/run_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/run_names.h"

// Messages of one call: at most 20, then their number.
struct talk {
  const char *program;
  int status;
  unsigned said;
};

static void say(struct talk *talk, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(struct talk *talk, int status, const char *format, ...) {
  if (status > talk->status) talk->status = status;
  if (talk->said++ >= 20) return;
  va_list args;
  va_start(args, format);
  char *raw = NULL, *text = NULL;
  if (vasprintf(&raw, format, args) < 0) raw = NULL;
  va_end(args);
  // What files say is not to be trusted to a terminal.
  if (raw) text = run_name_text(raw, (struct rsp_str){0, strlen(raw)});
  fprintf(stderr, "%s: %s\n", talk->program, text ? text : "out of memory");
  free(text);
  free(raw);
}

static int conclude(const struct talk *talk) {
  if (talk->said > 20) fprintf(stderr, "%s: and %u more\n", talk->program, talk->said - 20);
  return talk->status;
}

static char *path_of(const char *dir, const char *side, uint32_t rank) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s-%" PRIu32 ".safetensors", dir, side, rank) < 0) return NULL;
  return path;
}

static bool name_fits(const struct rsp_plan *plan, struct rsp_str name) {
  static const char reserved[] = "__metadata__";
  const char *text = plan->strings + name.off;
  if (name.len == sizeof reserved - 1 && !memcmp(text, reserved, name.len)) return false;
  return run_is_utf8(text, name.len);
}

static void check_names(const struct rsp_plan *plan, uint32_t side, struct talk *talk) {
  for (uint64_t i = 0; i < plan->buffer_count; i++) {
    const struct rsp_buffer *buffer = &plan->buffers[i];
    if (buffer->side != side || name_fits(plan, buffer->name)) continue;
    char *text = run_name_text(plan->strings, buffer->name);
    say(talk, CLI_NO,
        "buffer '%s' cannot be in a safetensors file, whose names are UTF-8 and not \"__metadata__\"; "
        "rename it in the layout",
        text ? text : "?");
    free(text);
  }
}

// ---- in ------------------------------------------------------------------------------------------------------------

static void shape_text(char *out, size_t size, const uint64_t *dims, size_t ndim) {
  size_t used = (size_t)snprintf(out, size, "[");
  for (size_t d = 0; d < ndim && used < size; d++)
    used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, d ? ", " : "", dims[d]);
  if (used < size) snprintf(out + used, size - used, "]");
}

static bool array_fits(const struct rsp_plan *plan, const struct run_slot *slot, const struct st_array *array,
                       const char *path, struct talk *talk) {
  const struct rsp_entry *entry = slot->entry;
  const uint64_t *dims = plan->dims + entry->dims;
  const char *dtype = rsp_dtype_safetensors(plan->buffers[slot->gid].dtype);
  char has[256], wants[256];
  if (strcmp(dtype, array->dtype) != 0) {
    say(talk, CLI_NO, "%s: '%s' has dtype %s, the plan says %s", path, array->name, array->dtype, dtype);
    return false;
  }
  if (entry->ndim != array->ndim || (entry->ndim && memcmp(dims, array->shape, entry->ndim * sizeof *dims) != 0)) {
    shape_text(has, sizeof has, array->shape, array->ndim);
    shape_text(wants, sizeof wants, dims, entry->ndim);
    say(talk, CLI_NO, "%s: '%s' has shape %s, the plan says %s", path, array->name, has, wants);
    return false;
  }
  if (array->end - array->begin == slot->bytes) return true;
  say(talk, CLI_NO, "%s: '%s' has %" PRIu64 " bytes, the plan says %" PRIu64, path, array->name,
      array->end - array->begin, slot->bytes);
  return false;
}

// The runtime wants elements at multiples of their size; a file need not have them there.
static unsigned char *aligned(struct run_files *files, const unsigned char *at, uint64_t bytes, size_t align) {
  if ((uintptr_t)at % align == 0) return (unsigned char *)(uintptr_t)at;
  unsigned char **copies = realloc(files->copies, (files->copy_count + 1) * sizeof *copies);
  if (!copies) return NULL;
  files->copies = copies;
  unsigned char *copy = copies[files->copy_count] = malloc(bytes ? bytes : 1);
  if (!copy) return NULL;
  files->copy_count++;
  files->copied_bytes += bytes;
  memcpy(copy, at, bytes);
  return copy;
}

static void attach_inputs(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, uint32_t rank,
                          const char *path, struct talk *talk) {
  const struct st_file *file = &files->inputs[rank];
  for (uint64_t i = 0; i < side->ranks[rank].count; i++) {
    struct run_slot *slot = &side->slots[side->ranks[rank].first + i];
    const struct rsp_buffer *buffer = &plan->buffers[slot->gid];
    const char *name = plan->strings + buffer->name.off;
    const struct st_array *array = st_find(file, name, buffer->name.len);
    if (!array) {
      say(talk, CLI_NO, "%s: it has no '%.*s' (%s)", path, (int)buffer->name.len, name,
          rsp_dtype_safetensors(buffer->dtype));
      continue;
    }
    if (!array_fits(plan, slot, array, path, talk)) continue;
    slot->data = aligned(files, file->data + array->begin, slot->bytes, rsp_dtype_bytes(buffer->dtype));
    if (!slot->data) say(talk, CLI_TROUBLE, "out of memory");
  }
}

static void read_rank(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, uint32_t rank,
                      const char *dir, struct talk *talk) {
  char *path = path_of(dir, "train", rank), *reason = NULL;
  enum st_status status = path ? st_open(path, &files->inputs[rank], &reason) : ST_TROUBLE;
  if (status == ST_MISSING)
    say(talk, CLI_NO, "%s is missing: training rank %" PRIu32 " holds buffers", path, rank);
  else if (status == ST_TROUBLE)
    say(talk, CLI_TROUBLE, "cannot read %s: %s", path ? path : dir, reason ? reason : "out of memory");
  else {
    files->file_bytes += files->inputs[rank].mapped_bytes;
    attach_inputs(files, plan, side, rank, path, talk);
  }
  free(reason);
  free(path);
}

static bool is_directory(const char *dir) {
  struct stat info;
  return stat(dir, &info) == 0 && S_ISDIR(info.st_mode);
}

int run_files_read(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, const char *dir,
                   const char *program) {
  struct talk talk = {program, CLI_YES, 0};
  if (!is_directory(dir)) return cli_trouble(program, "%s is not a directory that can be read", dir);
  check_names(plan, RSP_TRAIN, &talk);
  if (talk.status) return conclude(&talk);
  files->inputs = calloc(side->rank_count ? side->rank_count : 1, sizeof *files->inputs);
  if (!files->inputs) return cli_trouble(program, "out of memory");
  files->input_count = side->rank_count;
  for (uint32_t rank = 0; rank < side->rank_count; rank++)
    if (side->ranks[rank].count) read_rank(files, plan, side, rank, dir, &talk);
  return conclude(&talk);
}

// ---- out -----------------------------------------------------------------------------------------------------------

static struct st_output output_of(const struct rsp_plan *plan, const struct run_slot *slot) {
  const struct rsp_buffer *buffer = &plan->buffers[slot->gid];
  return (struct st_output){.name = plan->strings + buffer->name.off,
                            .len = buffer->name.len,
                            .dtype = rsp_dtype_safetensors(buffer->dtype),
                            .shape = plan->dims + slot->entry->dims,
                            .ndim = slot->entry->ndim,
                            .bytes = slot->bytes};
}

// Wide elements first, so that all of them are aligned; order[i] is the slot of array i.
static size_t order_slots(const struct rsp_plan *plan, const struct run_slot *slots, uint64_t count, uint64_t *order) {
  size_t at = 0;
  for (size_t bytes = 8; bytes; bytes /= 2)
    for (uint64_t i = 0; i < count; i++)
      if (rsp_dtype_bytes(plan->buffers[slots[i].gid].dtype) == bytes) order[at++] = i;
  return at;
}

// A file of `bytes` zeros that the disk has room for, mapped. NULL with errno.
static unsigned char *create_mapped(struct run_output *output, size_t bytes) {
  unlink(output->temporary); // of an earlier process with this number
  int fd = open(output->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0) {
    free(output->temporary);
    output->temporary = NULL;
    return NULL;
  }
  // Without the reservation a full disk would be a signal in the middle of the replay.
  int error = posix_fallocate(fd, 0, (off_t)bytes);
  if (error == EOPNOTSUPP || error == EINVAL) error = ftruncate(fd, (off_t)bytes) ? errno : 0;
  void *mapping = error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!error && mapping == MAP_FAILED) error = errno;
  close(fd);
  errno = error;
  if (mapping == MAP_FAILED) return NULL;
  output->mapping = mapping;
  output->bytes = bytes;
  return mapping;
}

struct out_rank {
  struct run_slot *slots;
  uint64_t count;
  uint64_t *order;
  struct st_output *arrays;
};

static bool place_outputs(struct run_files *files, struct run_output *output, const struct out_rank *r,
                          const unsigned char *header, size_t header_bytes, bool attach) {
  size_t bytes = header_bytes;
  for (uint64_t i = 0; i < r->count; i++) bytes += r->arrays[i].bytes;
  unsigned char *mapping = create_mapped(output, bytes);
  if (!mapping) return false;
  memcpy(mapping, header, header_bytes);
  files->file_bytes += bytes;
  for (uint64_t i = 0; i < r->count; i++) {
    struct run_slot *slot = &r->slots[r->order[i]];
    slot->file_data = mapping + header_bytes + r->arrays[i].begin;
    if (attach) slot->data = slot->file_data;
  }
  return true;
}

static void create_rank(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, uint32_t rank,
                        const char *dir, bool attach, struct talk *talk) {
  struct run_output *output = &files->outputs[files->output_count];
  struct out_rank r = {.slots = side->slots + side->ranks[rank].first, .count = side->ranks[rank].count};
  r.order = malloc(r.count * sizeof *r.order);
  r.arrays = malloc(r.count * sizeof *r.arrays);
  output->path = path_of(dir, "infer", rank);
  unsigned char *header = NULL;
  size_t header_bytes = 0;
  if (r.order && r.arrays && output->path &&
      asprintf(&output->temporary, "%s.%ld.part", output->path, (long)getpid()) >= 0) {
    files->output_count++;
    order_slots(plan, r.slots, r.count, r.order);
    for (uint64_t i = 0; i < r.count; i++) r.arrays[i] = output_of(plan, &r.slots[r.order[i]]);
    if (!st_header(r.arrays, r.count, &header, &header_bytes))
      say(talk, CLI_TROUBLE, "the header of %s would be longer than %u bytes", output->path, ST_HEADER_MAX);
    else if (!place_outputs(files, output, &r, header, header_bytes, attach))
      say(talk, CLI_TROUBLE, "cannot write %s: %s", output->path, strerror(errno));
  } else {
    say(talk, CLI_TROUBLE, "out of memory");
    free(output->path);
  }
  free(header);
  free(r.order);
  free(r.arrays);
}

// Values that were made up do not take the place of a checkpoint; what comes from one may take that of an older one.
static void refuse_present(const struct run_side *side, const char *dir, struct talk *talk) {
  for (uint32_t rank = 0; rank < side->rank_count; rank++) {
    char *path = side->ranks[rank].count ? path_of(dir, "infer", rank) : NULL;
    if (path && access(path, F_OK) == 0)
      say(talk, CLI_TROUBLE,
          "%s is there already; without --in it would be overwritten with made-up values: "
          "remove it, or name another directory",
          path);
    free(path);
  }
}

int run_files_create(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, const char *dir,
                     bool attach, const char *program) {
  struct talk talk = {program, CLI_YES, 0};
  check_names(plan, RSP_INFER, &talk);
  if (talk.status) return conclude(&talk);
  if (mkdir(dir, 0777) && errno != EEXIST) return cli_trouble(program, "cannot make %s: %s", dir, strerror(errno));
  if (!is_directory(dir)) return cli_trouble(program, "%s is not a directory", dir);
  if (!attach) refuse_present(side, dir, &talk);
  if (talk.status) return conclude(&talk);
  files->outputs = calloc(side->rank_count ? side->rank_count : 1, sizeof *files->outputs);
  if (!files->outputs) return cli_trouble(program, "out of memory");
  for (uint32_t rank = 0; rank < side->rank_count && talk.status == CLI_YES; rank++)
    if (side->ranks[rank].count) create_rank(files, plan, side, rank, dir, attach, &talk);
  return conclude(&talk);
}

int run_files_publish(struct run_files *files, const char *program) {
  for (size_t i = 0; i < files->output_count; i++)
    if (msync(files->outputs[i].mapping, files->outputs[i].bytes, MS_SYNC))
      return cli_trouble(program, "cannot write %s: %s", files->outputs[i].path, strerror(errno));
  for (size_t i = 0; i < files->output_count; i++) {
    struct run_output *output = &files->outputs[i];
    if (rename(output->temporary, output->path))
      return cli_trouble(program, "cannot write %s: %s", output->path, strerror(errno));
    free(output->temporary);
    output->temporary = NULL;
  }
  return CLI_YES;
}

void run_files_close(struct run_files *files) {
  for (uint32_t i = 0; i < files->input_count; i++) st_close(&files->inputs[i]);
  for (size_t i = 0; i < files->copy_count; i++) free(files->copies[i]);
  for (size_t i = 0; i < files->output_count; i++) {
    struct run_output *output = &files->outputs[i];
    if (output->mapping) munmap(output->mapping, output->bytes);
    if (output->temporary) unlink(output->temporary);
    free(output->temporary);
    free(output->path);
  }
  free(files->inputs);
  free(files->copies);
  free(files->outputs);
  *files = (struct run_files){0};
}
