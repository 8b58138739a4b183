// SPDX-License-Identifier: Apache-2.0
//
// What cannot stand in a file of its own: odd bytes, sizes, and a cluster file cut and thinned out everywhere.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/topology.h"
#include "tests/yaml/load.h"

static int failures;

static void check(bool ok, const char *what, const char *more) {
  if (ok) return;
  printf("%s:\n%s\n", what, more);
  failures++;
}

// The text must be refused, and every message must begin with file:line:col.
static void refuse_len(enum load_kind kind, const char *text, size_t len, const char *words) {
  struct load load = load_text(kind, "f", text, len, 4, 4);
  char head[32];
  unsigned line, col;
  check(!load.ok && load.errors > 0, "accepted", text);
  check(sscanf(load.messages, "f:%u:%u: error[RS%4s", &line, &col, head) == 3, "no place", load.messages);
  check(strstr(load.messages, words) != NULL, words, load.messages);
  load_free(&load);
}

static void refuse(enum load_kind kind, const char *text, const char *words) {
  refuse_len(kind, text, strlen(text), words);
}

static void accept_as(const char *text, const char *dump) {
  struct load load = load_text(LOAD_CATALOGUE, "f", text, strlen(text), 0, 0);
  check(load.ok, "refused", load.messages);
  check(!strcmp(load.dump, dump), "another dump", load.dump);
  load_free(&load);
}

static void test_bytes(void) {
  static const char dump[] = "model ''\ntensor a u8 [2] = 2\n";
  accept_as("reshard-model: 1\ntensors: [{name: a, shape: [2], dtype: u8}]\n", dump);
  accept_as("reshard-model: 1\r\ntensors: [{name: a, shape: [2], dtype: u8}]\r\n", dump);
  accept_as("\xEF\xBB\xBFreshard-model: 1\ntensors: [{name: a, shape: [2], dtype: u8}]", dump);
  accept_as("%YAML 1.1\n---\nreshard-model: 1\ntensors: [{name: a, shape: [2], dtype: u8}]\n...\n", dump);
  accept_as("reshard-model: 1\ntensors: []", "model ''\n");
  refuse(LOAD_CATALOGUE, "", "f:1:1: error[RS0300]: the file is empty");
  refuse(LOAD_CATALOGUE, "# nothing\n", "f:1:1: error[RS0300]: the file is empty");
  refuse(LOAD_CATALOGUE, "a: 1\nb: x\xFFy\n", "f:2:5: error[RS0301]: byte 0xff is not UTF-8");
  refuse(LOAD_CATALOGUE, "a: \xC0\x80", "f:1:4: error[RS0301]");
  refuse(LOAD_CATALOGUE, "a: \xED\xA0\x80", "f:1:4: error[RS0301]");
  refuse(LOAD_CATALOGUE, "a: \xF4\x90\x80\x80", "f:1:4: error[RS0301]");
  refuse(LOAD_CATALOGUE, "a: \xE2\x82", "f:1:4: error[RS0301]");
  refuse_len(LOAD_CATALOGUE, "\xFF\xFEr\0e\0", 6, "f:1:1: error[RS0301]");
  refuse_len(LOAD_CATALOGUE, "a: \0b", 5, "f:1:4: error[RS0300]");
  refuse(LOAD_CATALOGUE, "a:\n\t- b\n", "indent with spaces, not tabs");
  refuse(LOAD_CATALOGUE, "a: \"b", "close the quote");
  refuse(LOAD_CATALOGUE, "reshard-model: 1\nzzzzzz: \"a\nb\"\n", "f:2:1: error[RS0304]");
}

static void test_depth(void) {
  char text[256] = "a: ";
  memset(text + 3, '[', 100);
  memset(text + 103, ']', 100);
  refuse(LOAD_CATALOGUE, text, "f:1:67: error[RS0308]: nested more than 64 deep");
}

// Loops make many tensors without many lines; names stay distinct and in order.
static void test_many(void) {
  static const char text[] =
      "reshard-model: 1\ndtype: bf16\ntensors:\n"
      "  - {name: \"model.layers.{l}.mlp.experts.{e}.up_proj.weight\", for: {l: 0..500, e: 0..500}, shape: [2, l]}\n";
  struct load load = load_text(LOAD_CATALOGUE, "f", text, sizeof text - 1, 0, 0);
  check(load.ok && load.catalogue.tensor_count == 250000, "250,000 tensors", load.messages);
  if (load.ok) {
    const struct rsc_tensor *last = &load.catalogue.tensors[249999];
    check(!strcmp(last->name, "model.layers.499.mlp.experts.499.up_proj.weight"), "the last name", last->name);
    check(last->ndim == 2 && last->dims[1] == 499 && last->elems == 998, "the last shape", "");
  }
  load_free(&load);
}

static const char cluster[] = "reshard-cluster: 1\n"
                              "links:\n"
                              "  nvlink: {bandwidth: 450e9, latency: 2e-6}\n"
                              "  network: {bandwidth: 50e9, latency: 5e-6}\n"
                              "  memory: {bandwidth: 3.3e12}\n"
                              "hosts:\n"
                              "  - {names: \"r[0-1]n[00-01]\", gpus: 4, nics: 4, domain: \"r[0-1]\"}\n"
                              "train: \"r0n[00-01]:[0-1]\"\n"
                              "infer: \"r1n00:0,r1n00:2,r1n01:*\"\n";

// The file cut after each byte is refused with a place, except where only an end of line is missing.
static void test_cut(void) {
  size_t len = sizeof cluster - 1;
  for (size_t cut = 0; cut < len; cut++) {
    struct load load = load_text(LOAD_CLUSTER, "f", cluster, cut, 4, 4);
    check(load.ok == (cut == len - 1), "cut", cluster + cut);
    check(load.ok || !strncmp(load.messages, "f:", 2), "no place", load.messages);
    load_free(&load);
  }
}

// A byte replaced by each of these never crashes, and an error has a place.
static void test_smudge(void) {
  static const char bytes[] = "\0\t\n :,[]{}&*#!\"'-9z\xFF";
  size_t len = sizeof cluster - 1;
  char text[sizeof cluster];
  for (size_t i = 0; i < len; i++) {
    for (size_t b = 0; b < sizeof bytes; b++) {
      memcpy(text, cluster, sizeof cluster);
      text[i] = bytes[b];
      struct load load = load_text(LOAD_CLUSTER, "f", text, len, 4, 4);
      check(load.ok || !strncmp(load.messages, "f:", 2), "no place", load.messages);
      load_free(&load);
    }
  }
}

// Text from `from` up to the next `to`, both included, is left out.
static char *without(const char *from, const char *to) {
  const char *lo = strstr(cluster, from);
  const char *hi = lo ? strstr(lo, to) : NULL;
  if (!hi) abort();
  char *text = NULL;
  if (asprintf(&text, "%.*s%s", (int)(lo - cluster), cluster, hi + strlen(to)) < 0) abort();
  return text;
}

static void test_attributes(void) {
  static const struct {
    const char *from, *to, *words; // NULL: it is legal to leave this out
  } cases[] = {{"reshard-cluster", "\n", "`reshard-cluster: 1`"},
               {"links", "3.3e12}\n", "no 'links'"},
               {"  nvlink", "\n", "no 'nvlink'"},
               {"  network", "\n", "no 'network'"},
               {"  memory", "\n", "no 'memory'"},
               {"bandwidth: 450e9, ", "", "nvlink has no 'bandwidth'"},
               {", latency: 2e-6", "", "nvlink has no 'latency'"},
               {"bandwidth: 50e9, ", "", "network has no 'bandwidth'"},
               {", latency: 5e-6", "", "network has no 'latency'"},
               {"bandwidth: 3.3e12", "", "memory has no 'bandwidth'"},
               {"hosts:", "}\n", "no 'hosts'"},
               {"  - {names", "\n", "hosts is a list, not nothing"},
               {"names: \"r[0-1]n[00-01]\", ", "", "no 'names'"},
               {", gpus: 4", "", "no 'gpus'"},
               {", nics: 4", "", "no 'nics'"},
               {", domain: \"r[0-1]\"", "", NULL},
               {"train", "\n", "no 'train'"},
               {"infer", "\n", "no 'infer'"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = without(cases[i].from, cases[i].to[0] ? cases[i].to : cases[i].from);
    if (cases[i].words) {
      refuse(LOAD_CLUSTER, text, cases[i].words);
    } else {
      struct load load = load_text(LOAD_CLUSTER, "f", text, strlen(text), 4, 4);
      check(load.ok, "refused", load.messages);
      load_free(&load);
    }
    free(text);
  }
}

// Without a file: hosts of 8, a new host where the sides meet.
static void test_default(void) {
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_sources *sources = rsc_sources_new(arena);
  struct rsc_diag *diag = rsc_diag_new(arena, sources, NULL, NULL);
  struct rsc_cluster c;
  check(rsc_topology(arena, sources, diag, -1, 12, 4, &c), "default", "refused");
  check(c.host_count == 3 && c.domain_count == 3 && c.world == 16, "default", "counts");
  check(c.processes[11].host == 1 && c.processes[11].gpu == 3 && c.processes[11].train_rank == 11, "default",
        "rank 11");
  check(c.processes[12].host == 2 && c.processes[12].gpu == 0 && c.processes[12].infer_rank == 0, "default", "rank 12");
  check(c.hosts[1].gpus == 8 && c.hosts[1].nics == 8 && c.hosts[1].domain == 1, "default", "host 1");
  check(c.world_of_infer[3] == 15 && c.world_of_train[3] == 3, "default", "world ranks");
  check(c.links.network_bandwidth == 50e9 && c.links.issue_seconds == 1e-6, "default", "links");
  check(!rsc_topology(arena, sources, diag, -1, INT64_MAX, INT64_MAX, &c), "default", "too large");
  rsc_diag_flush(diag);
  rsc_arena_free(arena);
}

int main(void) {
  test_bytes();
  test_depth();
  test_many();
  test_cut();
  test_smudge();
  test_attributes();
  test_default();
  printf("%d failures\n", failures);
  return failures != 0;
}
