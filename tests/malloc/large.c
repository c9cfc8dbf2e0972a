/* SPDX-License-Identifier: MIT
 *
 * Blocks of 64 KiB and more: what they hold while they grow, shrink and move, what they cost the process in mappings, addresses
 * and time, and that all of it goes back. */
#include "ours.h"
#include "testing.h"

#include <sys/mman.h>
#include <time.h>

/* ---- contents ---- */

enum { SLOTS = 48, STEPS = 4000, GRAIN = 509 }; /* a prime: no page is passed over for ever */

typedef struct slot {
  unsigned char *block;
  size_t size;
  uint32_t key;
} slot_t;

static unsigned char byte_of(uint32_t key, size_t i) { return (unsigned char)((key ^ (uint32_t)i) * 2654435761u >> 24); }

/* The first and the last bytes, and one here and there. */
static size_t step_at(size_t i, size_t size)
{
  return i < 64 || i + 64 >= size ? 1 : size - 64 - i < GRAIN ? size - 64 - i : GRAIN;
}

static void write_pattern(slot_t *slot)
{
  for (size_t i = 0; i < slot->size; i += step_at(i, slot->size))
    slot->block[i] = byte_of(slot->key, i);
}

/* As it was written for a size of `written`, as far as `size`. */
static void verify(const slot_t *slot, size_t size, size_t written)
{
  for (size_t i = 0; i < size; i += step_at(i, written))
    assert_int_equal(slot->block[i], byte_of(slot->key, i));
}

static size_t any_size(uint32_t *random)
{
  size_t scale = (size_t)64 * KIB << next_random(random) % 8; /* up to 8 MiB, */
  return scale + next_random(random) % scale;                 /* and twice that */
}

static void renew(slot_t *slot, uint32_t *random)
{
  verify(slot, slot->size, slot->size);
  free(slot->block);
  slot->size = any_size(random);
  slot->key = next_random(random);
  bool zeroed = next_random(random) % 2;
  slot->block = zeroed ? calloc(1, slot->size) : malloc(slot->size);
  assert_non_null(slot->block);
  if (zeroed)
    assert_true(is_filled(slot->block, 0, malloc_usable_size(slot->block)));
  write_pattern(slot);
}

/* A little, or to any size. */
static void resize(slot_t *slot, uint32_t *random)
{
  size_t had = slot->size, by = next_random(random) % (had / 4) + 1;
  switch (next_random(random) % 3) {
  case 0:
    slot->size += by;
    break;
  case 1:
    slot->size -= by;
    break;
  default:
    slot->size = any_size(random);
  }
  slot->block = realloc(slot->block, slot->size);
  assert_non_null(slot->block);
  verify(slot, had < slot->size ? had : slot->size, had);
  write_pattern(slot);
}

static void test_contents(void **state)
{
  (void)state;
  slot_t slots[SLOTS] = {0};
  uint32_t random = 2463534242u;
  for (size_t i = 0; i < STEPS; i++) {
    slot_t *slot = &slots[next_random(&random) % SLOTS];
    if (!slot->block || next_random(&random) % 3 == 0)
      renew(slot, &random);
    else
      resize(slot, &random);
    if (i % 500 == 0)
      malloc_trim(0);
  }
  for (size_t i = 0; i < SLOTS; i++)
    free(slots[i].block);
}

/* What a block has been cut off is still full of old bytes when the rest of it moves away. */
static void test_zeroes_after_a_cut(void **state)
{
  (void)state;
  for (size_t cut = 4 * KIB; cut <= 64 * KIB; cut += 4 * KIB) {
    size_t size = MIB + 60 * KIB;
    char *block = malloc(size), *wall;
    assert_non_null(block);
    memset(block, 0xa5, size);
    block = realloc(block, size - cut);
    assert_non_null(wall = malloc(64 * KIB));
    block = realloc(block, 4 * MIB);
    assert_non_null(block);
    for (size_t i = 0; i < 4; i++) {
      char *zeroes = calloc(1, size);
      assert_non_null(zeroes);
      assert_true(is_filled(zeroes, 0, malloc_usable_size(zeroes)));
      memset(zeroes, 0x5a, size);
      free(zeroes);
    }
    free(wall);
    free(block);
  }
}

/* Several that grow in turn are in each other's way. */
static void test_growing_side_by_side(void **state)
{
  (void)state;
  slot_t slots[3] = {{.key = 1}, {.key = 2}, {.key = 3}};
  for (size_t size = 1000; size < 24 * MIB; size += size / 3)
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
      slot_t *slot = &slots[i];
      size_t had = slot->size;
      slot->block = realloc(slot->block, size + i * 5000);
      assert_non_null(slot->block);
      verify(slot, had, had);
      slot->size = size + i * 5000;
      write_pattern(slot);
    }
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    free(slots[i].block);
}

/* ---- what they leave behind ---- */

static size_t lines_of(const char *path)
{
  size_t lines = 0;
  char text[4096];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(file >= 0);
  for (ssize_t n; (n = read(file, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < n; i++)
      lines += text[i] == '\n';
  close(file);
  return lines;
}

/* Each live block is a mapping at most, and when they are gone so are the mappings. */
static void test_mappings_stay_few(void **state)
{
  (void)state;
  enum { BLOCKS = 64, TIMES = 20000 };
  char *blocks[BLOCKS] = {0};
  uint32_t random = 88675123u;
  size_t before = lines_of("/proc/self/maps");
  for (size_t i = 0; i < TIMES; i++) {
    char **block = &blocks[next_random(&random) % BLOCKS];
    size_t size = MIB + next_random(&random) % (4 * MIB);
    *block = realloc(*block, size);
    assert_non_null(*block);
    (*block)[0] = (*block)[size - 1] = 1;
  }
  assert_in_range(lines_of("/proc/self/maps"), 0, before + 4 * BLOCKS);
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
  malloc_trim(0);
  assert_in_range(lines_of("/proc/self/maps"), 0, before + 16);
}

/* Writable private memory is what strict overcommit and RLIMIT_DATA count. */
static void test_addresses_go_back(void **state)
{
  (void)state;
  static const size_t sizes[] = {100, 5000, 100000, MIB + MIB / 2, 9 * MIB};
  size_t before = figure_of("/proc/self/status", "\nVmData:");
  for (size_t k = 0; k < COUNT_OF(sizes); k++) {
    size_t count = 256 * MIB / sizes[k];
    void **blocks = malloc(count * sizeof *blocks);
    assert_non_null(blocks);
    for (size_t i = 0; i < count; i++)
      assert_non_null(blocks[i] = malloc(sizes[k]));
    assert_true(figure_of("/proc/self/status", "\nVmData:") >= before + 200 * MIB);
    for (size_t i = 0; i < count; i++)
      free(blocks[i]);
    free(blocks);
    malloc_trim(0);
    assert_in_range(figure_of("/proc/self/status", "\nVmData:"), 0, before + 16 * MIB);
  }
}

/* The system is asked as anybody would ask it: what it would not give to anybody is not promised to us. */
static void test_no_more_than_there_is(void **state)
{
  (void)state;
  for (unsigned log2 = 36; log2 <= 46; log2++) {
    size_t size = (size_t)1 << log2;
    void *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping != MAP_FAILED) {
      munmap(mapping, size);
      continue;
    }
    errno = 0;
    assert_null(malloc(opaque(size)));
    assert_int_equal(errno, ENOMEM);
    assert_null(calloc(opaque(size) / 16, 16));
    void *block = malloc(MIB);
    assert_null(realloc(block, opaque(size)));
    free(block);
  }
}

/* ---- pages that somebody has locked ---- */

static bool may_lock(void)
{
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool may = page != MAP_FAILED && mlock(page, 4096) == 0;
  if (page != MAP_FAILED)
    munmap(page, 4096);
  return may;
}

static void fill(char **blocks, size_t count, size_t size)
{
  for (size_t i = 0; i < count; i++) {
    assert_non_null(blocks[i] = malloc(size));
    memset(blocks[i], 1, size);
  }
}

/* One page in the middle, and one in the last block, of memory that is all free afterwards. */
static void test_a_locked_page(void **state)
{
  (void)state;
  enum { COUNT = 1000, SIZE = 200000 };
  static char *blocks[COUNT];
  if (!may_lock())
    skip();
  size_t before = held_after_trim();
  fill(blocks, COUNT, SIZE);
  char *locked[] = {blocks[COUNT / 2] + 100000, blocks[COUNT - 1] + 100000};
  for (size_t i = 0; i < COUNT_OF(locked); i++)
    assert_int_equal(mlock(locked[i], 1), 0);
  for (size_t i = 0; i < COUNT; i++)
    free(blocks[i]);
  malloc_trim(0);
  HOLDS_AT_MOST(before + 4 * MIB);
  for (size_t i = 0; i < COUNT_OF(locked); i++)
    munlock(locked[i], 1);
}

/* A program whose calls are all for large blocks is one that calls, too: by and by it lets go of what it does not need. */
static void test_idle_memory_goes_beside_large_blocks(void **state)
{
  (void)state;
  enum { COUNT = 600, SIZE = 100000, STUCK_SECONDS = 600 };
  static char *blocks[COUNT];
  for (size_t i = 0; i < 20; i++) { /* as often as makes it worth keeping */
    fill(blocks, COUNT, SIZE);
    for (size_t k = 0; k < COUNT; k++)
      free(blocks[k]);
  }
  time_t begin = time(NULL);
  while (figures_count && held_bytes() > COUNT * (size_t)SIZE / 4 && time(NULL) - begin < STUCK_SECONDS)
    for (size_t i = 0; i < 1000; i++)
      free(malloc(opaque(2 * MIB)));
  HOLDS_AT_MOST(COUNT * (size_t)SIZE / 4);
}

/* ---- time ---- */

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Processor time to free so many mappings in ascending order, the least of some tries. Negative: they are not to be had. */
static double time_to_free(size_t count)
{
  static void *blocks[6400];
  double least = 1e9;
  for (int attempt = 0; attempt < 5; attempt++) {
    for (size_t i = 0; i < count; i++) {
      blocks[i] = malloc(40 * MIB);
      if (!blocks[i])
        return -1; /* and not touched: a page may be a huge one */
    }
    double start = seconds();
    for (size_t i = 0; i < count; i++)
      free(blocks[i]);
    double took = seconds() - start;
    least = took < least ? took : least;
  }
  return least;
}

/* Sixteen times as many take sixteen times as long, not 256 times. */
static void test_freed_in_linear_time(void **state)
{
  (void)state;
  double few = time_to_free(400), many = few < 0 ? -1 : time_to_free(6400);
  if (many < 0)
    skip(); /* 250 GiB of addresses are not to be had here */
  assert_true(many < few * 80);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_contents),
    cmocka_unit_test(test_zeroes_after_a_cut),
    cmocka_unit_test(test_growing_side_by_side),
    cmocka_unit_test(test_mappings_stay_few),
    cmocka_unit_test(test_addresses_go_back),
    cmocka_unit_test(test_no_more_than_there_is),
    cmocka_unit_test(test_a_locked_page),
    cmocka_unit_test(test_idle_memory_goes_beside_large_blocks),
    cmocka_unit_test(test_freed_in_linear_time),
  };
  return cmocka_run_group_tests_name("large blocks", tests, NULL, NULL);
}
