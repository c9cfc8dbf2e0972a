/* SPDX-License-Identifier: MIT
 * OpenSSL on a heap that wipes every block that is freed: keys and intermediate results do not stay in memory, whoever forgot
 * to cleanse them.
 *
 *     cc openssl_wiped.c $(pkg-config --cflags --libs tidepool libcrypto) -o openssl_wiped */
#include <openssl/evp.h>
#include <stdio.h>
#include <tidepool/openssl.h>
#include <tidepool/stats.h>

static bool digest(const char *text, size_t size)
{
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  bool good = EVP_Digest(text, size, sum, &length, EVP_sha256(), NULL) == 1;
  for (unsigned i = 0; i < length; i++)
    printf("%02x", sum[i]);
  puts("  of a text");
  return good;
}

int main(void)
{
  static const char text[] = "what nobody else should read";
  pool_heap_options_t options = {.name = "openssl", .budget = 16 << 20, .flags = POOL_HEAP_ZERO_ON_FREE};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap || !pool_openssl_install(heap))
    return 1;
  bool good = digest(text, sizeof text - 1);
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu blocks live, %zu KiB held of %zu\n", stats.live_blocks, stats.held_bytes >> 10, stats.budget >> 10);
  OPENSSL_cleanup();
  pool_heap_stats(heap, &stats);
  printf("%zu blocks left\n", stats.live_blocks);
  pool_heap_destroy(heap);
  return good ? 0 : 1;
}
