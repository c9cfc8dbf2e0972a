/* SPDX-License-Identifier: MIT
 * Numbers within a budget. GMP cannot be told that there is no memory, so what the budget has no room for comes from another
 * heap, and the figures tell.
 *
 *     cc gmp_with_overflow.c $(pkg-config --cflags --libs tidepool gmp) -o gmp_with_overflow */
#include <stdio.h>
#include <tidepool/gmp.h>
#include <tidepool/stats.h>

static void show(unsigned long n, pool_heap_t *heap)
{
  mpz_t factorial;
  pool_stats_t stats;
  mpz_init(factorial);
  mpz_fac_ui(factorial, n);
  pool_heap_stats(heap, &stats);
  printf("%lu! has %zu digits: %zu KiB of numbers held at most, %llu requests overflowed\n", n, mpz_sizeinbase(factorial, 10),
         stats.peak_held_bytes >> 10, (unsigned long long)stats.overflowed_count);
  mpz_clear(factorial);
}

int main(void)
{
  pool_heap_options_t options = {.name = "numbers", .budget = 256 << 10, .overflow = pool_heap_default()};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    return 1;
  pool_gmp_install(heap);
  show(1000, heap);
  show(200000, heap);
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  pool_heap_destroy(heap);
  return stats.overflowed_count > 0 && stats.live_blocks == 0 ? 0 : 1;
}
