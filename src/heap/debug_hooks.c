/* SPDX-License-Identifier: MIT
 * libtidepool contains no diagnostics. The debug library has debug/headed.c and debug/observe.c in place of this file. Firmware
 * without checks contains it, too. No firmware has an observer. */
#include "heap/debug_hooks.h"

const heads_t *const heads = NULL;
#ifndef TIDEPOOL_EMBEDDED
const observer_t *const observer = NULL;
#endif
