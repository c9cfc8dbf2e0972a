/* SPDX-License-Identifier: MIT
 * Records of the manager's own: never two in one place, zeroed whatever was there before, used again, and had from elsewhere
 * where something is in the way. */
#include "os_fake.h"
#include "records.h"
#include "space/space.h"
#include <sys/mman.h>
#include <unistd.h>

static bool in_window(const char *record)
{
  size_t size;
  const char *base = window_metadata(&size);
  return base && (size_t)(record - base) < size;
}

/* The system can read it or not. */
static bool is_mapped(const void *address)
{
  int ends[2];
  must(pipe(ends) == 0);
  bool readable = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

static void *in_the_way(char *address, size_t size)
{
  void *p = mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  must(p == address);
  return p;
}

/* ---- one after the other ---- */

static void aligned_and_zero(void *argument)
{
  (void)argument;
  window_up();
  for (size_t alignment = 1; alignment <= os_fake.page_size; alignment *= 2)
    for (size_t size = 1; size < 300 * KIB; size += size / 2 + 1) {
      size_t before = metadata_bytes();
      char *record = metadata_take(size, alignment);
      must(record && (uintptr_t)record % max_size(alignment, METADATA_ALIGNMENT) == 0);
      must(all_zero(record, size) && in_window(record) && in_window(record + size));
      must(metadata_bytes() >= before + size && metadata_bytes() <= before + size + max_size(size / 3, METADATA_ALIGNMENT));
      memset(record, 7, size);
    }
}

static void without_a_window(void *argument)
{
  (void)argument;
  os_fake_heal();
  char *record = metadata_take(1000, METADATA_ALIGNMENT);
  must(record && all_zero(record, 1000));
  must(window_init() && metadata_take(100 * KIB, METADATA_ALIGNMENT));
}

/* What was given back is taken again, zeroed, by whoever asks for as much; also in whole pages. */
static void used_again(void *argument)
{
  (void)argument;
  window_up();
  for (size_t size = 1; size < MIB; size += size / 5 + 1) {
    size_t before = metadata_bytes();
    char *record = metadata_take(size, METADATA_ALIGNMENT);
    memset(record, 7, size);
    metadata_give(record, size);
    must(metadata_bytes() == before);
    char *same = metadata_take(size, METADATA_ALIGNMENT), *other = metadata_take(size, METADATA_ALIGNMENT);
    must(same == record && other != record && all_zero(same, size) && all_zero(other, size));
    metadata_give(other, size);
    metadata_give(same, size);
    must(metadata_bytes() == before);
  }
  metadata_give(NULL, 100);
}

static void pages_used_again(void *argument)
{
  window_up();
  os_fake.page_size = *(const size_t *)argument;
  size_t page = os_page_size(), mapped = 0;
  for (size_t turn = 0; turn < some_of(50); turn++) {
    for (size_t pages = 1; pages <= 40; pages += pages / 3 + 1) {
      char *record = metadata_take(pages * page, page), *plain = metadata_take(pages * page, METADATA_ALIGNMENT);
      must(record && plain && (uintptr_t)record % page == 0 && all_zero(record, pages * page) && all_zero(plain, pages * page));
      memset(record, 7, pages * page);
      memset(plain, 8, pages * page);
      metadata_give(record, pages * page);
      metadata_give(plain, pages * page);
    }
    must(turn == 0 || os_fake.mapped_bytes == mapped);
    mapped = os_fake.mapped_bytes;
  }
}

/* Ends an epoch and returns how often the system was asked to take memory. */
static uint64_t calls_of_an_epoch(void)
{
  uint64_t before = os_fake.count[OS_PURGE];
  if (metadata_begin_tick(1))
    while (metadata_purge_step(1)) {}
  return os_fake.count[OS_PURGE] - before;
}

/* Free pages keep their memory for the purge delay, and then go back to the system, whether or not it takes them, and wherever
 * it stops. Records read as zero in any case. */
static void after_the_delay(void *argument)
{
  enum { LARGE = 320 << 10, EPOCHS = 4 };
  (void)argument;
  window_up();
  metadata_give(metadata_take(LARGE, METADATA_ALIGNMENT), LARGE);
  metadata_trim(); /* the first takes a record of its own */
  char *record = metadata_take(LARGE, METADATA_ALIGNMENT);
  for (unsigned turn = 0; turn < 8; turn++) {
    os_fake.fail_kinds = turn & 1 ? 1 << OS_PURGE : 0;
    os_fake.fail_halfway = turn & 2;
    memset(record, 7, LARGE);
    size_t touched = metadata_touched();
    uint64_t purges = os_fake.count[OS_PURGE];
    metadata_give(record, LARGE);
    must(os_fake.count[OS_PURGE] == purges);
    for (size_t epoch = 0; epoch < EPOCHS; epoch++)
      must(calls_of_an_epoch() == 0 && metadata_has_left());
    must(calls_of_an_epoch() == 1 && !metadata_has_left());
    must(metadata_touched() == (turn & 1 ? touched : touched - LARGE + 4 * KIB));
    must(turn & 1 || all_zero(record + os_fake.page_size, LARGE - os_fake.page_size));
    must(metadata_take(LARGE, METADATA_ALIGNMENT) == record && all_zero(record, LARGE) && metadata_touched() == touched);
  }
  os_fake_heal();
  metadata_give(record, LARGE);
  for (size_t epoch = 0; epoch < 2 * EPOCHS; epoch++) { /* what is needed now and then stays */
    must(calls_of_an_epoch() == 0);
    metadata_give(metadata_take(LARGE - 40 * KIB, METADATA_ALIGNMENT), LARGE - 40 * KIB);
  }
  must(metadata_take(LARGE, METADATA_ALIGNMENT) == record);
}

/* The ticks of the process's space return them, also where no unit is dirty. */
static void by_ticks_of_the_space(void *argument)
{
  enum { RECORDS = 40, SIZE = 256 << 10, DELAY_MS = 100, EPOCH_MS = DELAY_MS / LOW_WATER_EPOCHS };
  void *record[RECORDS];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = DELAY_MS;
  space->epoch_ms = os_fake.now_ms;
  must(space_take(space, 1, 1));
  for (size_t i = 0; i < RECORDS; i++)
    must((record[i] = metadata_take(SIZE, METADATA_ALIGNMENT)));
  for (size_t i = 0; i < RECORDS; i++)
    metadata_give(record[i], SIZE);
  for (size_t epoch = 0; epoch < LOW_WATER_EPOCHS; epoch++)
    must(space_tick(space, os_fake.now_ms += EPOCH_MS) && !space_purge_is_under_way(space) && space_has_left(space));
  must(space_tick(space, os_fake.now_ms += EPOCH_MS));
  for (uint64_t before; before = os_fake.count[OS_PURGE], space_purge_is_under_way(space);) {
    space_purge_step(space, 1);
    must(os_fake.count[OS_PURGE] - before <= 8);
  }
  must(metadata_purged_bytes() >= (size_t)RECORDS * SIZE - 2 * os_fake.page_size && !space_has_left(space));
}

/* Pages serve records of any size, also of those that were smaller before: whatever the order of sizes, no more is mapped than
 * the most that was taken at once, in whole pages of sizes that are rounded up. After a trim one piece is left, which holds the
 * pages where it begins and ends. */
static void of_other_sizes(void *argument)
{
  enum { MOST = 8 << 20, ROUNDS = 40 };
  static char *records[MOST / 4096];
  dice_t dice = {*(const uint64_t *)argument};
  window_up();
  size_t mapped_before = os_fake.mapped_bytes, touched_before = metadata_touched(), most = 0;
  for (size_t round = 0; round < ROUNDS; round++) {
    size_t size = (dice.state & 1 ? round + 1 : ROUNDS - round) * 4096 + dice_below(&dice, 4000), count = MOST / size;
    most = max_size(most, count * round_up(size + size / 4, 4096));
    for (size_t i = 0; i < count; i++) {
      must((records[i] = metadata_take(size, METADATA_ALIGNMENT)) && all_zero(records[i], size));
      memset(records[i], 7, size);
    }
    for (size_t i = 0; i < count; i++)
      metadata_give(records[(i * 7919) % count], size);
  }
  must(os_fake.mapped_bytes - mapped_before <= most + MOST / 32 && metadata_bytes() == 0);
  size_t touched = metadata_touched();
  uint64_t given = metadata_purged_bytes(), purged = metadata_trim();
  must(purged == touched - metadata_touched() && metadata_purged_bytes() - given == purged &&
       metadata_touched() - touched_before <= (size_t)2 * 4096);
  must(given == 0);
}

/* Also those below a page: of one size in each round, and others in between that stay until the next. */
static void small_ones_of_other_sizes(void *argument)
{
  enum { MOST = 4 << 20, STAY_MOST = 40 };
  const size_t rounds = some_of(60);
  static char *records[MOST / 64];
  dice_t dice = {*(const uint64_t *)argument};
  char *stays[STAY_MOST] = {0};
  window_up();
  size_t mapped_before = os_fake.mapped_bytes, stay_size = 0, touched_before = metadata_touched();
  for (size_t round = 0; round < rounds; round++) {
    size_t size = 1 + dice_below(&dice, (size_t)64 << dice_below(&dice, 7)), count = MOST / (size + size / 4 + 64), stay = 0,
           new_size = 1 + dice_below(&dice, 4000);
    char *new_stays[STAY_MOST];
    for (size_t i = 0; i < count; i++) {
      must((records[i] = metadata_take(size, METADATA_ALIGNMENT)) && all_zero(records[i], size));
      memset(records[i], 7, size);
      if (i % (count / STAY_MOST + 1) == 0) {
        must((new_stays[stay] = metadata_take(new_size, METADATA_ALIGNMENT)) && all_zero(new_stays[stay], new_size));
        memset(new_stays[stay++], 9, new_size);
      }
    }
    for (size_t i = 0; i < count; i++) {
      must(records[(i * 7919) % count][size - 1] == 7);
      metadata_give(records[(i * 7919) % count], size);
    }
    for (size_t i = 0; i < STAY_MOST; i++) {
      must(!stays[i] || stays[i][stay_size - 1] == 9);
      metadata_give(stays[i], stay_size);
      stays[i] = i < stay ? new_stays[i] : NULL;
    }
    stay_size = new_size;
    must(os_fake.mapped_bytes - mapped_before <=
         MOST + MOST / 2); /* each size for itself would take more than twenty times as much */
  }
  for (size_t i = 0; i < STAY_MOST; i++)
    metadata_give(stays[i], stay_size);
  must(metadata_bytes() == 0);
  metadata_trim();
  must(metadata_touched() - touched_before <= 16 * 4096);
}

/* Those of one kind, which stay, stand together: what lay between them is in whole pages, and goes back. */
static void of_one_kind(void *argument)
{
  enum { MANY = 2000, SIZE = 900 };
  static char *records[MANY], *others[MANY];
  (void)argument;
  window_up();
  metadata_kind_t kind = {.size = SIZE, .alignment = 128};
  size_t touched_before = metadata_touched();
  for (size_t i = 0; i < MANY; i++) {
    must((records[i] = metadata_take_kind(&kind)) && (uintptr_t)records[i] % 128 == 0 && all_zero(records[i], SIZE));
    memset(records[i], 7, SIZE);
    others[i] = metadata_take(2500, METADATA_ALIGNMENT);
    memset(others[i], 8, 2500);
  }
  for (size_t i = 0; i < MANY; i++) {
    must(records[i][SIZE - 1] == 7);
    metadata_give(others[i], 2500);
  }
  metadata_trim();
  must(metadata_touched() - touched_before <= MANY * (size_t)1024 * 5 / 4);
  os_fake.fail_kinds = 1 << OS_MAP | 1 << OS_MAP_AT;
  size_t more = 0;
  while (metadata_take_kind(&kind))
    more++;
  must(more >= (MANY * (size_t)2500 - 200 * KIB) / 1024 && more < 10 * MANY); /* pages that are few in a row serve, too */
  os_fake_heal();
  must(metadata_take_kind(&kind));
}

/* Records that were given serve first, without new memory, and only their link has changed. */
static void given_of_one_kind(void *argument)
{
  enum { MANY = 300, LINK = 64 };
  static char *records[MANY];
  metadata_kind_t kind = {.size = *(const size_t *)argument, .alignment = METADATA_ALIGNMENT, .link = LINK};
  window_up();
  for (size_t i = 0; i < MANY; i++)
    must(records[i] = metadata_take_kind(&kind));
  for (size_t i = 0; i < MANY; i++)
    metadata_give_kind(&kind, memset(records[i], 7, kind.size));
  size_t taken = metadata_bytes();
  for (size_t i = MANY; i--;)
    must(metadata_take_kind(&kind) == records[i] && records[i][LINK - 1] == 7 && records[i][kind.size - 1] == 7);
  must(metadata_bytes() == taken && all_zero(metadata_take_kind(&kind), kind.size));
}
WITH(given_of_one_kind, size_t, 80, 900, 5000)

/* Memory that the system refuses to purge keeps its contents and is counted once. Trims end, even if pieces merge
 * meanwhile. */
static void cleaning_refused(void *argument)
{
  enum { ROWS = 60 };
  const size_t rounds = some_of(300);
  record_t rows[ROWS] = {0};
  dice_t dice = {*(const uint64_t *)argument};
  window_up();
  size_t touched = 0;
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < ROWS; i++) {
      os_fake.fail_kinds = dice_below(&dice, 2) ? 1 << OS_PURGE : 0;
      record_t *row = &rows[dice_below(&dice, ROWS)];
      if (row->at)
        metadata_give(row->at, row->size);
      *row = (record_t){.size = (size_t)4096 << dice_below(&dice, 5)};
      must((row->at = metadata_take(row->size, METADATA_ALIGNMENT)) && all_zero(row->at, row->size));
      memset(row->at, 7, row->size);
      if (dice_below(&dice, 8) == 0)
        metadata_trim();
    }
    for (size_t i = 0; i < ROWS; i++) {
      if (rows[i].at)
        metadata_give(rows[i].at, rows[i].size);
      rows[i].at = NULL;
    }
    os_fake.fail_kinds = 1 << OS_PURGE;
    metadata_trim();
    os_fake_heal();
    metadata_trim();
    touched = round == rounds / 10 ? metadata_touched() : touched;
  }
  must(metadata_bytes() == 0 && metadata_touched() <= touched + 16 * 4096);
}

/* ---- what is in the way, and what is refused ---- */

static void grown_elsewhere(void *argument)
{
  size_t size;
  (void)argument;
  window_up();
  char *base = window_metadata(&size), *first = metadata_take(100, METADATA_ALIGNMENT);
  must(in_window(first));
  in_the_way(base + 64 * KIB, os_fake.page_size);
  size_t inside = 0, outside = 0;
  while (outside < 40 * KIB) {
    char *record = metadata_take(1000, METADATA_ALIGNMENT);
    must(record && all_zero(record, 1000));
    *(in_window(record) ? &inside : &outside) += 1000;
    memset(record, 7, 1000);
  }
  must(inside > 50 * KIB && inside < 64 * KIB);
  char *large = metadata_take(500 * KIB, os_fake.page_size), *guard = large - os_fake.page_size;
  must(!in_window(large) && all_zero(large, 500 * KIB));
  must(!is_mapped(guard) && !is_mapped(guard + os_fake.page_size - 1) && is_mapped(large));
}

/* A piece of the window that ends in the middle of a chunk is used up to there. */
static void grown_up_to_it(void *argument)
{
  size_t size;
  (void)argument;
  window_up();
  char *base = window_metadata(&size);
  must(metadata_take(100, METADATA_ALIGNMENT) == base);
  in_the_way(base + 64 * KIB + 2 * os_fake.page_size, os_fake.page_size);
  char *record = metadata_take(60 * KIB, METADATA_ALIGNMENT);
  must(record && all_zero(record, 60 * KIB));
  char *more = metadata_take(5 * KIB, METADATA_ALIGNMENT);
  must(more && (!in_window(more) || more + 5 * KIB <= base + 64 * KIB + 2 * os_fake.page_size));
  memset(record, 1, 60 * KIB);
  memset(more, 2, 5 * KIB);
}

static void refused(void *argument)
{
  (void)argument;
  window_up();
  os_fake.refuse = true;
  must(!metadata_take(1, METADATA_ALIGNMENT) && !metadata_take(MIB, os_fake.page_size) && metadata_bytes() == 0);
  os_fake_heal();
  size_t mapped = os_fake.mapped_bytes;
  must(metadata_take(1, METADATA_ALIGNMENT) && os_fake.mapped_bytes > mapped);
  os_fake.refuse = true;
  size_t count = 0;
  while (metadata_take(KIB, METADATA_ALIGNMENT))
    must(++count < 64);
  size_t bytes = metadata_bytes();
  must(count > 50 && !metadata_take(KIB, METADATA_ALIGNMENT) && metadata_bytes() == bytes);
  os_fake_heal();
  must(metadata_take(KIB, METADATA_ALIGNMENT) && metadata_bytes() == bytes + KIB);
}

/* ---- threads and forks ---- */

IN_CHILD(aligned_and_zero)
IN_CHILD(without_a_window)
IN_CHILD(used_again)
IN_CHILD(after_the_delay)
IN_CHILD(by_ticks_of_the_space)
IN_CHILD(grown_elsewhere)
IN_CHILD(grown_up_to_it)
IN_CHILD(refused)

static void pages_used_again_test(void **state)
{
  (void)state;
  for (size_t page = 4 * KIB; page <= 64 * KIB; page *= 4)
    in_child(pages_used_again, &page);
}

static void cleaning_refused_test(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++)
    in_child(cleaning_refused, &seed);
}

static void of_other_sizes_test(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++)
    in_child(of_other_sizes, &seed);
}

static void small_ones_of_other_sizes_test(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++)
    in_child(small_ones_of_other_sizes, &seed);
}
IN_CHILD(of_one_kind)

/* A size that no system has is looked up on a shelf first, too. */
static void of_every_size(void *argument)
{
  (void)argument;
  os_fake_heal();
  void *record = metadata_take(1000, METADATA_ALIGNMENT);
  must(record);
  metadata_give(record, 1000);
  os_fake.fail_kinds = 1 << OS_MAP | 1 << OS_MAP_AT;
  for (unsigned log2 = 20; log2 < ADDRESS_BITS; log2++)
    must(!metadata_take((size_t)1 << log2, METADATA_ALIGNMENT) && !metadata_take(((size_t)2 << log2) - 1, METADATA_ALIGNMENT));
  must(!metadata_take(SIZE_MAX, METADATA_ALIGNMENT));
}
IN_CHILD(of_every_size)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(aligned_and_zero_test),  cmocka_unit_test(without_a_window_test),
    cmocka_unit_test(used_again_test),        cmocka_unit_test(pages_used_again_test),
    cmocka_unit_test(after_the_delay_test),   cmocka_unit_test(by_ticks_of_the_space_test),
    cmocka_unit_test(of_other_sizes_test),    cmocka_unit_test(small_ones_of_other_sizes_test),
    cmocka_unit_test(of_one_kind_test),       cmocka_unit_test(cleaning_refused_test),
    cmocka_unit_test(grown_elsewhere_test),   cmocka_unit_test(grown_up_to_it_test),
    cmocka_unit_test(refused_test),           cmocka_unit_test(of_every_size_test),
    cmocka_unit_test(given_of_one_kind_test),
  };
  return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
