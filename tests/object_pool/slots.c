/* SPDX-License-Identifier: MIT */
#include "slots.h"

bool construct(void *object, void *context) { return (void)context, ((slot_t *)object)->owner = 0, true; }
void reset(void *object, void *context) { (void)context, ((slot_t *)object)->owner = 0; }
