/* SPDX-License-Identifier: Apache-2.0
 * The inner loops for avx2; called only where the processor has it. */
#define RSK_SUFFIX avx2
#include "kernels/isa.inc.h"
