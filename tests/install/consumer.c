// SPDX-License-Identifier: Apache-2.0
//
// A program outside the tree, compiled as C and as C++: in, the path of a plan; out, its world, or what is wrong with
// it.

#include <reshard.h>
#include <stdio.h>

int main(int argc, char **argv) {
  struct reshard_plan *plan = NULL;
  struct reshard_plan_info info;
  struct reshard_fault fault;
  struct reshard_host_group *group = NULL;
  if (argc != 2) return 2;
  if (reshard_open(argv[1], &plan, &fault) != RESHARD_OK) {
    printf("%s\n", fault.what);
    return 1;
  }
  reshard_plan_get(plan, &info);
  printf("world %u\n", info.world);
  if (reshard_host_group_new(info.world, &group) != RESHARD_OK) return 1;
  reshard_host_group_free(group);
  reshard_close(plan);
  return 0;
}
