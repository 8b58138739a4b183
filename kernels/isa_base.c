/* SPDX-License-Identifier: Apache-2.0
 * The inner loops for any processor. */
#define RSK_SUFFIX base
#include "kernels/isa.inc.h"
