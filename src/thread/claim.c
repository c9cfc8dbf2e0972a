/* SPDX-License-Identifier: MIT
 * The claiming thread waits for the owners. */
#include "thread/claim.h"

enum {
  SPINS = 20, /* reads of `busy` without a nap */
  NAPS = 200, /* reads with a nap of about 100 us before each */
  SLEEP_US = 10000
};

/* The owner is busy for a few instructions, or while it waits for a lock. */
static bool owner_comes_out(const bool *busy, unsigned sleeps)
{
  uint32_t nothing = 0;
  for (unsigned i = 0; i < SPINS + NAPS + sleeps; i++) {
    if (!__atomic_load_n(busy, __ATOMIC_ACQUIRE))
      return true;
    if (i >= SPINS + NAPS)
      os_wait(&nothing, 0, SLEEP_US);
    else if (i >= SPINS)
      os_nap();
  }
  return false;
}

/* One fence serves all claims. Without it, no owner is known to be out. */
claim_t *claims_settle(claim_t *claims, unsigned sleeps)
{
  claim_t *settled = NULL;
  if (!claims || !os_fence_others())
    return NULL;
  for (claim_t *claim = claims, *next; claim; claim = next) {
    next = claim->next;
    if (owner_comes_out(claim->busy, sleeps))
      claim_push(&settled, claim, claim->busy);
  }
  return settled;
}
