# SPDX-License-Identifier: Apache-2.0
#
# Sourced by ./demo and ./check, in the root of the tree: small words to build and to say what happens.

say() { printf '\n== %s\n' "$*" >&2; }

run() {
  printf '$ %s\n' "$*" >&2
  "$@"
}

# Runs a command silently; shows its output only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [ $status -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return $status
}

# build PRESET [TARGET...]: configures and builds build/PRESET. With targets, no test is built.
build() {
  local preset=$1 tests=ON targets=()
  shift
  if [ $# -gt 0 ]; then
    targets=(--target "$@")
    # A tree that has the tests configured keeps them.
    [ -f "build/$preset/CMakeCache.txt" ] && tests=$(sed -n 's/^RESHARD_TESTS:BOOL=//p' "build/$preset/CMakeCache.txt") || tests=OFF
  fi
  say "build: $preset (in build/$preset)"
  quietly cmake --preset "$preset" -DRESHARD_TESTS="${tests:-ON}"
  quietly cmake --build "build/$preset" "${targets[@]}" -- --quiet
}
