/* SPDX-License-Identifier: MIT
 *
 * A low-water mark is the least stock during a purge delay: so much was not needed. The delay has several epochs.
 *
 * Example: the stock was at least 80 in the current epoch, and 30, 50 and 60 in the three before. So 30 were not needed. */
#ifndef LOW_WATER_H
#define LOW_WATER_H

#include "base/bits.h"
#include <stdint.h>

enum { LOW_WATER_EPOCHS = 4 };

typedef struct low_water {
  uint32_t least[LOW_WATER_EPOCHS]; /* of each epoch, the current one first */
} low_water_t;

/* Call this after the stock fell because entries were needed. */
static inline void low_water_note(low_water_t *low, size_t stock)
{
  if (stock < low->least[0])
    low->least[0] = (uint32_t)stock;
}

/* Call this after the stock fell because entries were not needed. */
static inline void low_water_lessen(low_water_t *low, size_t removed)
{
  for (unsigned i = 0; i < LOW_WATER_EPOCHS; i++)
    low->least[i] -= (uint32_t)min_size(low->least[i], removed);
}

/* Returns how many epochs have passed since `began_ms`, which another thread may have read later than `now_ms`. */
static inline size_t low_water_epochs(uint64_t began_ms, uint64_t now_ms, uint32_t delay_ms)
{
  uint32_t epoch_ms = delay_ms / LOW_WATER_EPOCHS;
  if (now_ms < began_ms || now_ms - began_ms < epoch_ms)
    return 0;
  return epoch_ms ? (size_t)((now_ms - began_ms) / epoch_ms) : LOW_WATER_EPOCHS;
}

/* Ends the current epoch, or several at once. Returns the stock that was not needed in the last four epochs. */
static inline size_t low_water_tick(low_water_t *low, size_t stock, size_t epochs)
{
  uint32_t unneeded = (uint32_t)stock, current = low->least[0];
  for (unsigned i = LOW_WATER_EPOCHS; i-- > 0;) {
    low->least[i] = i < epochs ? current : low->least[i - epochs + 1];
    unneeded = low->least[i] < unneeded ? low->least[i] : unneeded;
  }
  for (unsigned i = LOW_WATER_EPOCHS - 1; i > 0; i--)
    low->least[i] = low->least[i - 1];
  low->least[0] = (uint32_t)stock;
  return unneeded;
}

#endif
