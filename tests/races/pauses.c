/* SPDX-License-Identifier: MIT
 *
 * What stands between any two atomic operations of the library (pauses.h): mostly nothing, now and then a pause. */
#include "../rounds.h"
#include "races.h"
#include <sched.h>

enum { PAUSES_ONE_IN = 256 };

_Thread_local uint64_t pause_dice;
uint64_t sleeps_share = 8;

void race_pause(void)
{
  uint64_t x = pause_dice;
  if (!x)
    return;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  pause_dice = x;
  if (x >> 8 & (PAUSES_ONE_IN - 1))
    return;
  int saved = errno;
  if ((x >> 16) % sleeps_share == 0)
    sleep_us(50 + (x >> 32) % 450);
  else
    sched_yield();
  errno = saved;
}
