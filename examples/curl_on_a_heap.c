/* SPDX-License-Identifier: MIT
 * libcurl within a budget: the program transfers itself and says what that took.
 *
 *     cc curl_on_a_heap.c $(pkg-config --cflags --libs tidepool libcurl) -o curl_on_a_heap */
#include <stdio.h>
#include <tidepool/curl.h>
#include <tidepool/stats.h>

static size_t count_bytes(char *bytes, size_t size, size_t count, void *sum)
{
  (void)bytes;
  *(size_t *)sum += size * count;
  return size * count;
}

static CURLcode transfer(const char *url, size_t *size)
{
  CURL *curl = curl_easy_init();
  if (!curl)
    return CURLE_OUT_OF_MEMORY;
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, size);
  CURLcode code = curl_easy_perform(curl);
  curl_easy_cleanup(curl);
  return code;
}

int main(void)
{
  size_t size = 0;
  pool_stats_t stats;
  pool_heap_options_t options = {.name = "curl", .budget = 4 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap || pool_curl_install(heap, CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return 1;
  CURLcode code = transfer("file:///proc/self/exe", &size);
  pool_heap_stats(heap, &stats);
  printf("%s: %zu bytes, %zu KiB held at most\n", curl_easy_strerror(code), size, stats.peak_held_bytes >> 10);
  curl_global_cleanup();
  pool_heap_destroy(heap);
  return code == CURLE_OK && size > 0 ? 0 : 1;
}
