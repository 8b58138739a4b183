// SPDX-License-Identifier: Apache-2.0
//
// Build, write, open whole and by rank, print: what went in comes out. Usage: test_plan_roundtrip GOLDEN [--update].
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plans/rules.h"
#include "tests/plan/tiny.h"

static int failures;

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                                   \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

static char *read_text(const char *path) {
  FILE *in = fopen(path, "r");
  char *text = calloc(1, 1 << 16);
  if (!in || !text) exit(2);
  size_t n = fread(text, 1, (1 << 16) - 1, in);
  text[n] = 0;
  fclose(in);
  return text;
}

static void check_text(const struct rsp_plan *plan, const char *golden, bool update) {
  char *text = NULL;
  size_t len = 0;
  FILE *out = open_memstream(&text, &len);
  if (!out) exit(2);
  CHECK(rsp_print(plan, out));
  fclose(out);
  if (update) {
    struct rsp_error error;
    CHECK(rsp_write_file(golden, text, len, &error) == RSP_OK);
  }
  char *expected = read_text(golden);
  if (strcmp(text, expected) != 0) {
    printf("the text form differs from %s:\n%s", golden, text);
    failures++;
  }
  free(expected);
  free(text);
}

// The text form tells a relay from other streams, and one tag from another.
static void check_relay_text(void) {
  struct tiny *t = malloc(sizeof *t);
  void *bytes;
  size_t size, len = 0;
  char *text = NULL;
  struct rsp_plan plan;
  struct rsp_error error;
  if (!t) exit(2);
  tiny_init_form(t, TINY_RELAY_STAGED);
  if (!tiny_build(t, &bytes, &size) || rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) exit(2);
  FILE *out = open_memstream(&text, &len);
  if (!out) exit(2);
  CHECK(rsp_print(&plan, out));
  fclose(out);
  CHECK(strstr(text, "stream 1 to 2 staged bytes 16 quantum 16 round 1 step 1 tag 1 relays stream 3\n"));
  CHECK(strstr(text, "stream 3 from 0 staged bytes 16 quantum 16 round 0 step 1 tag 1 staging 32 slots 1 stride 16\n"));
  free(text);
  free(bytes);
  free(t);
}

static void check_lookups(const struct rsp_plan *plan) {
  struct rsp_program p;
  rsp_program_of(plan, 2, &p);
  CHECK(p.slice->world_rank == 2);
  CHECK(rsp_program_buffer(&p, 1) == NULL);
  CHECK(rsp_program_buffer(&p, 2) == &p.buffers[0]);
  CHECK(rsp_program_buffer(&p, 3) == &p.buffers[1]);
  CHECK(rsp_program_buffer(&p, 4) == NULL);
  CHECK(rsp_buffer_entry(plan, &plan->buffers[0], 0) == &plan->entries[0]);
  CHECK(rsp_buffer_entry(plan, &plan->buffers[0], 1) == &plan->entries[1]);
  CHECK(rsp_buffer_entry(plan, &plan->buffers[0], 2) == NULL);
  CHECK(rsp_buffer_entry(plan, &plan->buffers[3], 1) == &plan->entries[5]);
  CHECK(rsp_stream_rounds(&p.streams[0]) == 2);
}

// A rank's view has its slice and what it holds, and maps no more than whole pages around header, directory entry,
// slice and holdings block.
static void check_views(const char *path, const struct rsp_plan *plan) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  struct rsp_error error;
  for (uint32_t r = 0; r < plan->header->world; r++) {
    struct rsp_rank_view view;
    struct rsp_program whole;
    size_t held_bytes = (size_t)plan->directory[r].held_bytes;
    rsp_program_of(plan, r, &whole);
    CHECK(rsp_rank_open(path, r, &view, &error) == RSP_OK);
    CHECK(memcmp(&view.header, plan->header, sizeof view.header) == 0);
    CHECK(view.program.slice->bytes == whole.slice->bytes);
    CHECK(memcmp(view.program.slice, whole.slice, (size_t)whole.slice->bytes) == 0);
    CHECK(memcmp(view.program.names, whole.names, held_bytes) == 0);
    size_t least = sizeof(struct rsp_header) + sizeof(struct rsp_dirent) + (size_t)whole.slice->bytes + held_bytes;
    CHECK(view.mapped_bytes >= least && view.mapped_bytes < least + 6 * page);
    rsp_rank_close(&view);
    CHECK(view.program.slice == NULL);
  }
  struct rsp_rank_view none;
  CHECK(rsp_rank_open(path, plan->header->world, &none, &error) == RSP_INVALID);
}

static void check_damage(const char *path, const unsigned char *bytes, size_t size, const struct rsp_plan *plan) {
  // A byte of another rank's slice or holdings is not read; one of its own is refused.
  unsigned char *copy = malloc(size);
  struct rsp_error error;
  struct rsp_rank_view view;
  if (!copy) exit(2);
  memcpy(copy, bytes, size);
  copy[plan->directory[1].off + 100] ^= 1;
  CHECK(rsp_write_file(path, copy, size, &error) == RSP_OK);
  CHECK(rsp_rank_open(path, 0, &view, &error) == RSP_OK);
  rsp_rank_close(&view);
  CHECK(rsp_rank_open(path, 1, &view, &error) == RSP_INVALID && error.rule == RSP_RULE_SLICE_DIGEST);
  memcpy(copy, bytes, size);
  copy[plan->directory[1].held_off + 100] ^= 1;
  CHECK(rsp_write_file(path, copy, size, &error) == RSP_OK);
  CHECK(rsp_rank_open(path, 0, &view, &error) == RSP_OK);
  rsp_rank_close(&view);
  CHECK(rsp_rank_open(path, 1, &view, &error) == RSP_INVALID && error.rule == RSP_RULE_HELD_DIGEST);
  CHECK(error.offset == plan->directory[1].held_off);
  free(copy);
}

// Ranks that hold the same have one block, however their tables came about; one that holds nothing has none.
static void check_sharing(const char *path) {
  struct tiny *t = malloc(sizeof *t);
  void *bytes, *again;
  size_t size, again_size;
  struct rsp_plan plan;
  struct rsp_error error;
  if (!t) exit(2);
  tiny_init_form(t, TINY_WIDE);
  if (!tiny_build(t, &bytes, &size) || rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) exit(2);
  const struct rsp_dirent *d = plan.directory;
  CHECK(d[0].held_bytes && d[1].held_off == d[0].held_off + d[0].held_bytes);
  CHECK(d[2].held_off == d[1].held_off + d[1].held_bytes);
  CHECK(d[3].held_off == d[2].held_off && d[3].held_bytes == d[2].held_bytes && d[3].off != d[2].off);
  CHECK(!d[4].held_off && !d[4].held_bytes);
  CHECK(rsp_write_file(path, bytes, size, &error) == RSP_OK);
  check_views(path, &plan);
  // The same tables in the same arrays are the same file.
  t->slices[3].names = t->slices[2].names, t->slices[3].files = t->slices[2].files;
  t->slices[3].buffers = t->slices[2].buffers, t->slices[3].dims = t->slices[2].dims;
  t->slices[3].zeros = t->slices[2].zeros, t->slices[3].zloops = t->slices[2].zloops;
  if (!tiny_build(t, &again, &again_size)) exit(2);
  CHECK(size == again_size && memcmp(bytes, again, size) == 0);
  free(again);
  // Another line is another block.
  t->slices[3].buffers = t->slice[3].buffers;
  t->slice[3].buffers[1].line = 9;
  if (!tiny_build(t, &again, &again_size)) exit(2);
  CHECK(rsp_open_memory(again, again_size, &plan, &error) == RSP_INVALID && error.rule == RSP_RULE_SBUFFER_SAME);
  free(again);
  free(bytes);
  free(t);
}

static void check_writing(const char *dir, const void *bytes, size_t size) {
  char path[200], link_path[200];
  struct rsp_error error;
  struct rsp_plan plan;
  struct stat st;
  snprintf(path, sizeof path, "%s/none/x.plan", dir);
  CHECK(rsp_write_file(path, bytes, size, &error) == RSP_TROUBLE);
  CHECK(error.rule == 0 && strstr(error.text, "none/x.plan"));
  CHECK(rsp_open(path, &plan, &error) == RSP_TROUBLE);
  CHECK(rsp_open(dir, &plan, &error) == RSP_TROUBLE);
  snprintf(path, sizeof path, "%s/x.plan", dir);
  snprintf(link_path, sizeof link_path, "%s/link.plan", dir);
  CHECK(symlink("x.plan", link_path) == 0);
  CHECK(rsp_write_file(path, "old", 3, &error) == RSP_OK);
  CHECK(rsp_write_file(link_path, bytes, size, &error) == RSP_OK);
  CHECK(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode)); // written through, not replaced
  CHECK(stat(path, &st) == 0 && (size_t)st.st_size == size);
  CHECK(rsp_write_file("/dev/null", bytes, size, &error) == RSP_OK);
  CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
  unlink(link_path);
  unlink(path);
  CHECK(rmdir(dir) == 0); // and nothing else was left there
}

// Takes so many pieces and no more.
struct taker {
  int left;
  void *file;
};

static bool take(void *user, uint64_t off, const void *bytes, size_t size) {
  struct taker *t = user;
  return t->left-- > 0 && rsp_file_put(t->file, off, bytes, size);
}

// The plan piece by piece into a file, at most so many; the number that was put.
static int put_pieces(const struct tiny *t, const char *path, int most, bool *whole) {
  struct taker taker = {.left = most};
  struct rsp_file *file;
  struct rsp_error error;
  if (rsp_file_begin(path, &file, &error) != RSP_OK) exit(2);
  taker.file = file;
  struct rsp_builder *b = rsp_build_begin(&t->global, take, &taker);
  size_t blocks[TINY_WIDE_WORLD];
  for (uint32_t r = 0; r < t->global.world; r++) blocks[r] = r == 3 ? blocks[2] : rsp_build_held(b, &t->slices[r]);
  for (uint32_t r = 0; r < t->global.world; r++) {
    struct rsp_program program;
    bool good = rsp_build_slice(b, &t->slices[r], blocks[r], &program);
    CHECK(!good || program.slice->world_rank == r);
    CHECK(!good || !t->slices[r].stream_count ||
          memcmp(program.streams, t->slices[r].streams, sizeof *program.streams) == 0);
  }
  *whole = rsp_build_end(b, NULL);
  CHECK(rsp_file_end(file, *whole, &error) == RSP_OK);
  return most - taker.left;
}

// Piece by piece it is the same file; one that is cut short leaves what was there before.
static void check_pieces(const char *path) {
  struct tiny *t = malloc(sizeof *t);
  void *bytes;
  size_t size;
  struct rsp_plan file;
  struct rsp_error error;
  bool whole;
  if (!t) exit(2);
  tiny_init_form(t, TINY_WIDE);
  if (!tiny_build(t, &bytes, &size)) exit(2);
  int pieces = put_pieces(t, path, 1000, &whole);
  CHECK(whole && pieces > 10 && rsp_open(path, &file, &error) == RSP_OK);
  CHECK(file.size == size && memcmp(file.bytes, bytes, size) == 0);
  rsp_close(&file);
  for (int most = 0; most < pieces; most++) {
    CHECK(rsp_write_file(path, "old", 3, &error) == RSP_OK);
    put_pieces(t, path, most, &whole);
    char *text = read_text(path);
    CHECK(!whole && strcmp(text, "old") == 0);
    free(text);
  }
  struct rsp_memory memory = {0};
  CHECK(!rsp_build_end(rsp_build_begin(&t->global, rsp_put_memory, &memory), NULL)); // no slices
  free(memory.bytes);
  free(bytes);
  free(t);
}

int main(int argc, char **argv) {
  char dir[] = "reshard-plan-XXXXXX", path[] = "reshard-plan-file-XXXXXX";
  void *bytes, *again;
  size_t size, again_size;
  struct rsp_plan plan, file;
  struct rsp_error error;
  if (argc < 2 || !mkdtemp(dir) || !tiny_plan(&bytes, &size) || !tiny_plan(&again, &again_size)) return 2;
  int fd = mkstemp(path);
  if (fd < 0) return 2;
  close(fd);
  CHECK(size == again_size && memcmp(bytes, again, size) == 0);
  CHECK(rsp_write_file(path, bytes, size, &error) == RSP_OK);
  CHECK(rsp_open_memory(bytes, size, &plan, &error) == RSP_OK);
  CHECK(rsp_open(path, &file, &error) == RSP_OK);
  CHECK(file.size == size && memcmp(file.bytes, bytes, size) == 0);
  check_text(&plan, argv[1], argc > 2);
  check_relay_text();
  check_lookups(&plan);
  check_views(path, &plan);
  check_damage(path, bytes, size, &plan);
  check_sharing(path);
  check_pieces(path);
  check_writing(dir, bytes, size);
  rsp_close(&file);
  rsp_close(&plan); // caller-owned bytes are not freed
  unlink(path);
  free(bytes);
  free(again);
  return failures != 0;
}
