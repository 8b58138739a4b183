/* SPDX-License-Identifier: Apache-2.0
 * The inner loops for avx512; called only where the processor has it. */
#define RSK_SUFFIX avx512
#include "kernels/isa.inc.h"
