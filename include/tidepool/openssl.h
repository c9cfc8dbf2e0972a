/* SPDX-License-Identifier: MIT
 *
 * tidepool/openssl.h: all of OpenSSL's memory on one heap. OpenSSL has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "openssl", .budget = 16 << 20, .flags = POOL_HEAP_ZERO_ON_FREE};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_openssl_install(heap);                  (before any call of OpenSSL, also by other libraries)
 *     ... EVP_DigestInit_ex() ...                  (NULL or 0: the heap is exhausted; some functions queue no error)
 *     OPENSSL_cleanup();                           (OpenSSL cannot be used again)
 *     pool_heap_destroy(heap);
 *
 * OpenSSL refuses another allocator once it has allocated; nothing has changed then. It cleans up at exit, and for a thread at
 * the thread's end. So end the threads that used it and call OPENSSL_cleanup() before you destroy the heap, or let the heap
 * outlive main().
 *
 * Use OpenSSL once while the budget has room. Version 3.0 does not check every allocation while it starts, and does not repeat
 * a part of its start that failed. The heap must not be single-threaded unless only one thread uses OpenSSL.
 *
 * A request of size 0 is NULL, as with OpenSSL's own allocator. If a secure heap was set up, blocks of OPENSSL_secure_malloc()
 * are not of this heap. */
#ifndef TIDEPOOL_OPENSSL_H
#define TIDEPOOL_OPENSSL_H

#include <openssl/crypto.h>
#include <tidepool/hooks.h>

POOL_HOOKS(openssl)

static inline void *pool_openssl_alloc_at(size_t size, const char *file, int line)
{
  (void)file, (void)line;
  return size ? pool_openssl_malloc(size) : NULL;
}

static inline void *pool_openssl_realloc_at(void *block, size_t size, const char *file, int line)
{
  return block ? pool_openssl_realloc(block, size) : pool_openssl_alloc_at(size, file, line);
}

static inline void pool_openssl_free_at(void *block, const char *file, int line)
{
  (void)file, (void)line;
  pool_openssl_free(block);
}

/* Makes OpenSSL allocate from `heap`. Returns 1, or 0 if the heap is NULL or OpenSSL has allocated already. */
static inline int pool_openssl_install(pool_heap_t *heap)
{
  pool_heap_t *before = pool_openssl_heap;
  pool_openssl_heap = heap;
  if (heap && CRYPTO_set_mem_functions(pool_openssl_alloc_at, pool_openssl_realloc_at, pool_openssl_free_at))
    return 1;
  pool_openssl_heap = before;
  return 0;
}

#endif
