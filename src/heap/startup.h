/* SPDX-License-Identifier: MIT
 *
 * The process-wide state comes up, once. */
#ifndef STARTUP_H
#define STARTUP_H

#include "base/bits.h"

/* Brings it up at the first call. False: the system refuses even the least address space. Any thread, at any time. */
bool manager_ready(void);

#endif
