/* SPDX-License-Identifier: MIT
 * libcurl on a heap: a file is transferred, curl_global_cleanup() leaves nothing, exhaustion is CURLE_OUT_OF_MEMORY, and an
 * installation that libcurl ignores is seen. */
#include "trials.h"
#include <tidepool/curl.h>
#include <unistd.h>

enum { SIZE = 200000 };

static char url[64];

/* A file that has no place in any folder. */
static int make_file(void **state)
{
  (void)state;
  static char contents[SIZE];
  int file = memfd_create("file", 0);
  for (size_t i = 0; i < SIZE; i++)
    contents[i] = (char)('a' + i % 26);
  must(file >= 0 && write(file, contents, SIZE) == SIZE);
  snprintf(url, sizeof url, "file:///proc/self/fd/%d", file);
  return 0;
}

static size_t count_bytes(char *bytes, size_t size, size_t count, void *sum)
{
  size_t *at = sum;
  for (size_t i = 0; i < size * count; i++, ++*at)
    must(bytes[i] == (char)('a' + *at % 26));
  return size * count;
}

/* False, and nothing but CURLE_OUT_OF_MEMORY: no memory. */
static bool is_fine(CURLcode code)
{
  must(code == CURLE_OK || code == CURLE_OUT_OF_MEMORY);
  return code == CURLE_OK;
}

static bool transfer(void)
{
  size_t got = 0;
  CURL *curl = curl_easy_init();
  char *escaped = curl ? curl_easy_escape(curl, "a b", 0) : NULL;
  must(!escaped || !strcmp(escaped, "a%20b"));
  bool done = escaped && is_fine(curl_easy_setopt(curl, CURLOPT_URL, url)) &&
              is_fine(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes)) &&
              is_fine(curl_easy_setopt(curl, CURLOPT_WRITEDATA, &got)) && is_fine(curl_easy_perform(curl));
  must(!done || got == SIZE);
  curl_free(escaped);
  curl_easy_cleanup(curl);
  return done;
}

static bool work(pool_heap_t *heap)
{
  CURLcode code = pool_curl_install(heap, CURL_GLOBAL_DEFAULT);
  bool done = code == CURLE_OK && transfer();
  must(done || fail_count || stats_of(heap).budget);
  if (code == CURLE_OK)
    curl_global_cleanup();
  return done;
}

WORKS_ON_ANY_HEAP(work)
ANY_BUDGET(work)
EACH_REQUEST_FAILS(work)

static void transfer_in_thread(size_t index, void *unused)
{
  (void)index, (void)unused;
  for (unsigned i = 0; i < 5; i++)
    must(transfer());
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(64 << 20);
  must(pool_curl_install(heap, CURL_GLOBAL_DEFAULT) == CURLE_OK);
  run_threads(4, transfer_in_thread, NULL);
  curl_global_cleanup();
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
}
IN_CHILD(threads)

/* libcurl goes on with the functions of the first installation, which give it the second heap. */
static void a_second_heap(void *unused)
{
  (void)unused;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  must(pool_curl_install(first, CURL_GLOBAL_DEFAULT) == CURLE_OK);
  CURL *curl = curl_easy_init();
  must(pool_heap_of(curl) == first && pool_curl_install(second, CURL_GLOBAL_DEFAULT) == CURLE_OK);
  must(curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK && stats_of(second).live_blocks > 0 && transfer());
  curl_easy_cleanup(curl);
  curl_global_cleanup();
  must(transfer());
  curl_global_cleanup();
  must(stats_of(first).live_blocks == 0 && stats_of(second).live_blocks == 0);
  pool_heap_destroy(first);
  must(pool_curl_install(second, CURL_GLOBAL_DEFAULT) == CURLE_OK && transfer());
  curl_global_cleanup();
  must(stats_of(second).live_blocks == 0);
  pool_heap_destroy(second);
}
IN_CHILD(a_second_heap)

static void initialised_before(void *unused)
{
  (void)unused;
  must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  CURL *curl = curl_easy_init();
  must(curl && pool_curl_install(heap_with((pool_heap_options_t){0}), CURL_GLOBAL_DEFAULT) == CURLE_FAILED_INIT);
  curl_easy_cleanup(curl);
  must(transfer());
  curl_global_cleanup();
  must(pool_curl_install(NULL, CURL_GLOBAL_DEFAULT) == CURLE_FAILED_INIT);
}
IN_CHILD(initialised_before)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),        cmocka_unit_test(any_budget),         cmocka_unit_test(each_request_fails),
    cmocka_unit_test(threads_test), cmocka_unit_test(a_second_heap_test), cmocka_unit_test(initialised_before_test),
  };
  return cmocka_run_group_tests_name("curl", tests, make_file, NULL);
}
