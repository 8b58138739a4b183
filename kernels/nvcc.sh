#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# nvcc.sh NVCC SOURCE INCLUDE IMAGE RESOURCES: compiles the kernels for each card, and for later ones as PTX. What the
# compiler says goes to RESOURCES; it is shown only when something is wrong. No operation is fused, so that conversions
# give the host's bits.
set -euo pipefail
cards=(-gencode "arch=compute_80,code=[sm_80,compute_80]" -gencode arch=compute_90,code=sm_90
  -gencode arch=compute_100,code=sm_100)
"$1" -fatbin -std=c++17 -O3 -fmad=false --threads 2 -Werror all-warnings -Xptxas -v -I "$3" "${cards[@]}" -o "$4.part" "$2" \
  >"$5" 2>&1 || { cat "$5" >&2; exit 1; }
mv "$4.part" "$4"
