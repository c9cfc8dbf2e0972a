/* SPDX-License-Identifier: MIT
 * libtidepool contains no diagnostics. The debug library has debug/headed.c and debug/observe.c in place of this file. Firmware
 * has it if it does without checks, and never has an observer. */
#include "heap/heads.h"
#include "heap/observer.h"

const heads_t *const heads = NULL;
#ifndef TIDEPOOL_EMBEDDED
const observer_t *const observer = NULL;
#endif
