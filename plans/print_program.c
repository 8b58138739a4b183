// SPDX-License-Identifier: Apache-2.0
typedef int rsp_print_program_placeholder;
