/* SPDX-License-Identifier: MIT */
#ifndef RECORDED_SLOT_H
#define RECORDED_SLOT_H

#include <stdlib.h>

enum { SLOT_BYTES = 54321 };

/* Set by who has got the block after another. */
extern volatile int slot_was_handed_on;

#endif
