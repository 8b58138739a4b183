// SPDX-License-Identifier: Apache-2.0
//
// Loads every cluster and model of plans/library (argv[1]): a cluster must hold the ranks that its name and the table
// below say, a model as many tensors and bytes as its first lines state.

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/yaml/load.h"

static int failures;

static const struct {
  const char *name;
  long train, infer, world, hosts, domains;
} clusters[] = {{"gb200-nvl72-64+64.yaml", 64, 64, 128, 36, 2},
                {"h100-128+128.yaml", 128, 128, 256, 32, 32},
                {"h100-8+8.yaml", 8, 8, 16, 2, 2},
                {"h100-8-colocated.yaml", 8, 8, 8, 1, 1}};

static void complain(const char *name, const char *what) {
  printf("%s: %s\n", name, what);
  failures++;
}

static void check_cluster(const char *name, const char *text, size_t len) {
  for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
    if (strcmp(clusters[i].name, name) != 0) continue;
    struct load load = load_text(LOAD_CLUSTER, name, text, len, clusters[i].train, clusters[i].infer);
    if (!load.ok) complain(name, load.messages);
    if (load.ok && (load.cluster.world != clusters[i].world || load.cluster.host_count != clusters[i].hosts ||
                    load.cluster.domain_count != clusters[i].domains))
      complain(name, load.dump);
    load_free(&load);
    load = load_text(LOAD_CLUSTER, name, text, len, clusters[i].train + 1, clusters[i].infer + 1);
    if (load.ok && !strstr(name, "nvl72")) complain(name, "has room for more ranks than it says");
    load_free(&load);
    return;
  }
  complain(name, "is not in the table of this test");
}

// The comment's "N tensors, M bytes".
static void check_model(const char *name, const char *text, size_t len) {
  struct load load = load_text(LOAD_CATALOGUE, name, text, len, 0, 0);
  int64_t tensors = -1, bytes = -1, sum = 0;
  const char *at = strstr(text, " tensors, ");
  while (at && at > text && at[-1] >= '0' && at[-1] <= '9') at--;
  if (!at || sscanf(at, "%" SCNd64 " tensors, %" SCNd64 " bytes", &tensors, &bytes) != 2)
    complain(name, "does not say how many tensors and bytes it has");
  if (!load.ok) complain(name, load.messages);
  for (int64_t i = 0; i < load.catalogue.tensor_count; i++) {
    const struct rsc_tensor *t = &load.catalogue.tensors[i];
    sum += t->elems * (int64_t)rsp_dtype_bytes((uint32_t)t->dtype);
  }
  if (load.ok && (load.catalogue.tensor_count != tensors || sum != bytes)) {
    printf("%s: %" PRId64 " tensors, %" PRId64 " bytes\n", name, load.catalogue.tensor_count, sum);
    complain(name, "says something else");
  }
  load_free(&load);
}

static void check_dir(const char *library, const char *dir, void (*check)(const char *, const char *, size_t)) {
  char path[4096];
  struct dirent **names;
  snprintf(path, sizeof path, "%s/%s", library, dir);
  int count = scandir(path, &names, NULL, alphasort);
  if (count <= 2) complain(path, "holds no file");
  for (int i = 0; i < count; i++) {
    const char *dot = strrchr(names[i]->d_name, '.');
    if (dot && !strcmp(dot, ".yaml")) {
      size_t len;
      snprintf(path, sizeof path, "%s/%s/%s", library, dir, names[i]->d_name);
      char *text = load_file(path, &len);
      check(names[i]->d_name, text, len);
      free(text);
    }
    free(names[i]);
  }
  if (count >= 0) free(names);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  check_dir(argv[1], "clusters", check_cluster);
  check_dir(argv[1], "models", check_model);
  printf("%d failures\n", failures);
  return failures != 0;
}
