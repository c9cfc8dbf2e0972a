/* SPDX-License-Identifier: MIT
 * OpenSSL on a heap: a digest and a signature are right, OPENSSL_cleanup() leaves nothing, exhaustion is an error, and a second
 * allocator is refused. */
#include "trials.h"
#include <openssl/evp.h>
#include <tidepool/openssl.h>

static const unsigned char abc_digest[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                           0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                           0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};

static bool digest(void)
{
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(context, "a", 1) == 1 &&
              EVP_DigestUpdate(context, "bc", 2) == 1 && EVP_DigestFinal_ex(context, sum, &size) == 1;
  must(!done || (size == sizeof abc_digest && !memcmp(sum, abc_digest, size)));
  EVP_MD_CTX_free(context);
  return done;
}

static bool sign_and_verify(void)
{
  unsigned char signature[64], message[] = "a message";
  size_t size = sizeof signature;
  EVP_PKEY *key = NULL;
  EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
  EVP_MD_CTX *out = EVP_MD_CTX_new(), *in = EVP_MD_CTX_new();
  bool done = maker && out && in && EVP_PKEY_keygen_init(maker) == 1 && EVP_PKEY_keygen(maker, &key) == 1 &&
              EVP_DigestSignInit(out, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestSign(out, signature, &size, message, sizeof message) == 1 &&
              EVP_DigestVerifyInit(in, NULL, NULL, NULL, key) == 1;
  if (done) {
    done = EVP_DigestVerify(in, signature, size, message, sizeof message) == 1;
    message[0] ^= 1;
    must(!done || EVP_DigestVerify(in, signature, size, message, sizeof message) != 1);
  }
  EVP_MD_CTX_free(in);
  EVP_MD_CTX_free(out);
  EVP_PKEY_free(key);
  EVP_PKEY_CTX_free(maker);
  return done;
}

static bool work(pool_heap_t *heap)
{
  must(pool_openssl_install(heap) == 1);
  bool done = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1 && digest() && sign_and_verify();
  must(!done || stats_of(heap).live_blocks > 0);
  OPENSSL_cleanup();
  return done;
}

WORKS_ON_ANY_HEAP(work)

/* While it starts, OpenSSL has places that do not look whether there was memory. */
static bool work_once_it_is_up(pool_heap_t *heap)
{
  size_t count = fail_count;
  fail_count = 0;
  must(pool_openssl_install(heap) == 1 && digest() && sign_and_verify());
  requests = 0;
  fail_count = count;
  bool done = digest() && sign_and_verify();
  OPENSSL_cleanup();
  return done;
}

EACH_REQUEST_FAILS(work_once_it_is_up)

/* Once it is up, OpenSSL goes on when there is memory again. */
static void exhaustion_passes(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(8 << 20);
  must(pool_openssl_install(heap) == 1 && digest() && sign_and_verify());
  size_t refused = 0;
  for (unsigned i = 0; i < 3; i++) {
    must(!OPENSSL_malloc(opaque(16 << 20)));
    list_t list = {0};
    for (size_t size = 1 << 20; size >= 16; size = size > 4096 ? size / 2 : size - 16)
      list_exhaust(&list, heap, size);
    refused += !digest();
    list_free(&list, heap);
    must(digest() && sign_and_verify());
  }
  must(refused == 3);
}
IN_CHILD(exhaustion_passes)

static void sizes_of_zero(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  must(pool_openssl_install(heap) == 1);
  must(!OPENSSL_malloc(opaque(0)) && !OPENSSL_realloc(NULL, opaque(0)) && !OPENSSL_zalloc(opaque(0)));
  void *block = OPENSSL_realloc(NULL, 10);
  must(block && pool_heap_of(block) == heap && !OPENSSL_realloc(block, opaque(0)));
  OPENSSL_free(NULL);
  must(stats_of(heap).live_blocks == 0);
}
IN_CHILD(sizes_of_zero)

static void use_in_thread(size_t index, void *unused)
{
  (void)index, (void)unused;
  for (unsigned i = 0; i < 5; i++)
    must(digest() && sign_and_verify());
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(32 << 20);
  must(pool_openssl_install(heap) == 1);
  run_threads(4, use_in_thread, NULL);
  use_in_thread(0, NULL);
  OPENSSL_cleanup();
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
  pool_heap_destroy(heap);
}
IN_CHILD(threads)

static void allocated_before(void *unused)
{
  (void)unused;
  OPENSSL_free(OPENSSL_malloc(1));
  must(pool_openssl_install(pool_heap_default()) == 0);
  must(digest() && sign_and_verify());
}

static void too_late(void **state)
{
  (void)state;
  assert_int_equal(pool_openssl_install(NULL), 0);
  in_child(allocated_before, NULL);
}

/* Some versions take a second allocator as long as the first is not their own. */
static void a_second_heap(void *unused)
{
  (void)unused;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  must(pool_openssl_install(first) == 1 && digest() && stats_of(first).live_blocks > 0);
  bool taken = pool_openssl_install(second) == 1;
  must(digest() && sign_and_verify());
  must(taken == (stats_of(second).live_blocks > 0));
  OPENSSL_cleanup();
  must(stats_of(first).live_blocks == 0 && stats_of(second).live_blocks == 0);
}
IN_CHILD(a_second_heap)

/* OpenSSL frees at exit what it has. */
static void outlives_main(void *unused)
{
  (void)unused;
  must(pool_openssl_install(heap_with((pool_heap_options_t){0})) == 1 && digest());
  exit(0);
}
IN_CHILD(outlives_main)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),
    cmocka_unit_test(each_request_fails),
    cmocka_unit_test(exhaustion_passes_test),
    cmocka_unit_test(sizes_of_zero_test),
    cmocka_unit_test(threads_test),
    cmocka_unit_test(too_late),
    cmocka_unit_test(a_second_heap_test),
    cmocka_unit_test(outlives_main_test),
  };
  return cmocka_run_group_tests_name("openssl", tests, NULL, NULL);
}
