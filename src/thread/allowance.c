/* SPDX-License-Identifier: MIT */
#include "option.h"
#include "os/os.h"
#include "thread/magazines.h"

allowance_t allowance_of_nobody = {.left = PTRDIFF_MAX / 2, .allowed = PTRDIFF_MAX / 2};

enum { LIMIT_SHARE = 32 }; /* the rest of the limit is for the program's memory */

/* These are bounds that publish nothing, so every access is relaxed. */
static size_t budget = CACHE_BYTES_DEFAULT, share = CACHE_BYTES_DEFAULT, granted;

void allowances_init(size_t bytes)
{
  budget = min_size(bytes, os_memory_limit == SIZE_MAX ? SIZE_MAX : os_memory_limit / LIMIT_SHARE);
  allowances_divide(1);
}

size_t allowances_budget(void) { return budget; }

void allowances_divide(size_t threads)
{
  __atomic_store_n(&share, max_size(budget / max_size(threads, 1), ALLOWANCE_LEAST), __ATOMIC_RELAXED);
}

size_t allowance_share(void) { return __atomic_load_n(&share, __ATOMIC_RELAXED); }
size_t allowances_granted(void) { return __atomic_load_n(&granted, __ATOMIC_RELAXED); }

static void change(allowance_t *allowance, ptrdiff_t by)
{
  allowance->allowed += (size_t)by;
  allowance->left += by;
  bool tight = threads_are_many() || allowance->allowed / ALLOWANCE_MAGAZINE < MAGAZINE_BYTES_MOST;
  __atomic_store_n(&allowance->tight, tight, __ATOMIC_RELAXED);
}

/* Steps shrink as the budget is spent, so that late threads get a part of it. */
static size_t step(size_t spent)
{
  size_t unspent = budget - min_size(budget, spent);
  return max_size(min_size(allowance_share(), unspent) / ALLOWANCE_STEPS, ALLOWANCE_LEAST);
}

void allowance_end(allowance_t *allowance) { __atomic_fetch_sub(&granted, allowance->allowed, __ATOMIC_RELAXED); }

void allowances_forget_others(const allowance_t *own) { __atomic_store_n(&granted, own ? own->allowed : 0, __ATOMIC_RELAXED); }

bool allowance_grow(allowance_t *allowance)
{
  size_t spent = allowances_granted(), more;
  do {
    more = step(spent);
    if (spent + more > budget || allowance->allowed + more > allowance_share())
      return false;
  } while (!__atomic_compare_exchange_n(&granted, &spent, spent + more, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  change(allowance, (ptrdiff_t)more);
  return true;
}

void allowance_begin(allowance_t *allowance)
{
  *allowance = (allowance_t){0};
  if (allowance_grow(allowance))
    return;
  __atomic_fetch_add(&granted, ALLOWANCE_LEAST, __ATOMIC_RELAXED);
  change(allowance, ALLOWANCE_LEAST);
}

void allowance_shrink(allowance_t *allowance)
{
  size_t most = allowance_share(), has = allowance->allowed, keeps = has,
         less = max_size(has / ALLOWANCE_STEPS, ALLOWANCE_LEAST);
  if (allowance_left(allowance) > (ptrdiff_t)(2 * less))
    keeps = max_size(has - less, ALLOWANCE_LEAST);
  keeps = min_size(keeps, most);
  __atomic_fetch_sub(&granted, has - keeps, __ATOMIC_RELAXED);
  change(allowance, (ptrdiff_t)keeps - (ptrdiff_t)has);
}
