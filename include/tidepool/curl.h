/* SPDX-License-Identifier: MIT
 *
 * tidepool/curl.h: all of libcurl's memory on one heap. libcurl has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "curl", .budget = 4 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_curl_install(heap, CURL_GLOBAL_DEFAULT);   (instead of curl_global_init)
 *     ... curl_easy_perform() ...                     (CURLE_OUT_OF_MEMORY: the heap is exhausted)
 *     curl_global_cleanup();
 *     pool_heap_destroy(heap);
 *
 * Once libcurl is in use, it returns CURLE_OK for other functions but ignores them: pool_curl_install() checks that a block
 * comes from the heap. Call curl_global_cleanup() once for each CURLE_OK. Call curl_free() for results of curl_easy_escape()
 * and the like while the functions that made them are installed: before the installation, or before the last
 * curl_global_cleanup().
 *
 * libcurl resolves names in threads of its own, so the heap must not be single-threaded. If a transfer is abandoned meanwhile,
 * the thread frees its memory only when the name server has answered, perhaps after curl_global_cleanup(). Keep the heap until
 * the program ends if that can happen.
 *
 * The TLS library has its own memory; for OpenSSL use tidepool/openssl.h. */
#ifndef TIDEPOOL_CURL_H
#define TIDEPOOL_CURL_H

#include <curl/curl.h>
#include <tidepool/hooks.h>

POOL_HOOKS(curl)

/* Makes libcurl allocate from `heap`. Returns CURLE_FAILED_INIT if the heap is NULL, or if libcurl is in use and has other
 * functions; otherwise what curl_global_init_mem() returns. After an error there is nothing to clean up. */
static inline CURLcode pool_curl_install(pool_heap_t *heap, long flags)
{
  pool_heap_t *before = pool_curl_heap;
  pool_curl_heap = heap;
  CURLcode code =
    heap ? curl_global_init_mem(flags, pool_curl_malloc, pool_curl_free, pool_curl_realloc, pool_curl_strdup, pool_curl_calloc)
         : CURLE_FAILED_INIT;
  if (code == CURLE_OK) {
    struct curl_slist *probe = curl_slist_append(NULL, "");
    code = !probe ? CURLE_OUT_OF_MEMORY : pool_heap_of(probe) == heap ? CURLE_OK : CURLE_FAILED_INIT;
    curl_slist_free_all(probe);
    if (code != CURLE_OK)
      curl_global_cleanup();
  }
  if (code != CURLE_OK)
    pool_curl_heap = before;
  return code;
}

#endif
