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

# build PRESET [TARGET...]: configures build/PRESET and builds it all, or the targets.
build() {
  local preset=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  say "build: $preset (in build/$preset)"
  quietly cmake --preset "$preset" -DRESHARD_TESTS=ON
  quietly cmake --build "build/$preset" "${targets[@]}" -- --quiet
}
