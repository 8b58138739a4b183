/* SPDX-License-Identifier: Apache-2.0
 * See long.h. */
#include "tests/mpi/long.h"

#include <string.h>

#include "compiler/pipeline.h"

/* Rows to columns, strided, beside rows to other rows, which go from buffer to buffer; and all of it to both inference
 * ranks, of which each passes on to the other what it received. */
static const char train_text[] = "tensor \"w\" bf16 [512, 1024]; tensor \"v\" f32 [128, 1024];\n"
                                 "mesh g [tp: 2]; on g { buffer \"w\"[_ @tp, _]; buffer \"v\"[_ @tp, _]; }\n";
static const char cut_text[] = "tensor \"w\" bf16 [512, 1024]; tensor \"v\" f32 [128, 1024];\n"
                               "mesh g [tp: 2]; on g { buffer \"w\"[_, _ @tp]; buffer \"v\"[_ @tp, _]; }\n";
static const char copied_text[] = "tensor \"w\" bf16 [512, 1024]; tensor \"v\" f32 [128, 1024];\n"
                                  "mesh g [dp: 2]; on g { buffer \"w\" = permute(\"w\", 1, 0); buffer \"v\"; }\n";
static const char cluster_text[] = "reshard-cluster: 1\nlinks:\n  nvlink: {bandwidth: 450e9, latency: 2e-6}\n"
                                   "  network: {bandwidth: 50e9, latency: 5e-6}\n  memory: {bandwidth: 3.3e12}\n"
                                   "hosts:\n  - {names: \"t,i\", gpus: 2, nics: 2}\ntrain: t\ninfer: i\n";

static bool load(void *infer, const char *path, char **text, size_t *len) {
  *text = strdup(!strcmp(path, "train") ? train_text : !strcmp(path, "infer") ? (const char *)infer : cluster_text);
  *len = *text ? strlen(*text) : 0;
  return *text != NULL;
}

static void say(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)severity, (void)code;
  fputs(rendered, stderr);
}

struct long_plan long_open(uint32_t which) {
  const char *infer = which == 0 ? cut_text : copied_text;
  struct rsc_options options = {.train_path = "train",
                                .infer_path = "infer",
                                .cluster_path = "cluster",
                                .staging = 64 << 20,
                                .chunk = 400 << 10,
                                .max_ops = 1024,
                                .load = load,
                                .load_user = (void *)(uintptr_t)infer};
  struct rsc_result result = {0};
  struct long_plan made;
  CHECK(rsc_compile(&options, say, NULL, NULL, NULL, &result) == RSC_COMPILED, "compile");
  made.bytes = result.plan;
  made.size = result.plan_bytes;
  stage_open(&made.stage, made.bytes, made.size);
  CHECK(reshard_open_memory(made.bytes, made.size, &made.plan, NULL) == RESHARD_OK, "open");
  return made;
}

void long_close(struct long_plan *old) {
  reshard_close(old->plan);
  stage_close(&old->stage);
  free(old->bytes);
}
