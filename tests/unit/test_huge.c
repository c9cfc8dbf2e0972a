/* SPDX-License-Identifier: MIT
 * Mappings of their own: what is taken, kept and given back, and where the system refuses. Contents, addresses and the claim to be zero
 * are held against a model; what is mapped is always what is live and what is kept. */
#include "space/huge.h"
#include "space/class_map.h"
#include "option.h"
#include "os/os.h"
#include "os_fake.h"
#include "unit.h"
#include <pthread.h>

enum { BLOCKS = 40, KEPT_RANGES = 64, PAGE = 4096 };
#define BREATH (32 * MIB)

static int owner, other_owner;
static huge_t *owned, *others;   /* their lists */

static void bring_up(void)
{
  os_fake_heal();
  must(window_init());
}

static size_t bytes_of(const void *of)
{
  size_t bytes = 0;
  const char *from = NULL;
  for (huge_t *huge; (huge = huge_next(of, from)) != NULL; from = huge_start(huge) + huge_size(huge)) {
    must(huge->owner == of && huge_start(huge) >= from && huge_size(huge) && huge_size(huge) % PAGE == 0);
    bytes += huge_size(huge);
  }
  size_t listed = of ? 0 : bytes;
  for (huge_t *huge = of == &owner ? owned : of ? others : NULL; huge; huge = huge->older) {
    must(huge->owner == of && *huge->link == huge);
    listed += huge_size(huge);
  }
  must(listed == bytes);
  return bytes;
}

static size_t ranges_kept(void)
{
  size_t count = 0;
  for (huge_t *huge = huge_next(NULL, NULL); huge; huge = huge_next(NULL, huge_start(huge) + huge_size(huge)))
    count++;
  return count;
}

/* Metadata but for that, which is known by what is mapped while there is neither. */
static size_t others_bytes;

static void note_others(void) { others_bytes = os_fake.mapped_bytes - bytes_of(&owner) - bytes_of(NULL); }
static bool all_is_known(void) { return os_fake.mapped_bytes == others_bytes + bytes_of(&owner) + bytes_of(NULL); }

static void pass_delays(size_t count)
{
  for (size_t i = 0; i < count * TICKS_PER_DELAY; i++)
    huge_tick();
}

/* Records for what follows, so that metadata does not grow meanwhile. */
static void have_records(void)
{
  huge_t *blocks[BLOCKS * 4];
  bool zeroed;
  for (size_t i = 0; i < BLOCKS * 4; i++)
    must((blocks[i] = huge_take(PAGE, 1, &owner, &owned, &zeroed)) != NULL);
  for (size_t i = 0; i < BLOCKS * 4; i++)
    huge_give(blocks[i]);
  pass_delays(60);
  must(huge_release(0) == 0 && ranges_kept() == 0);
  note_others();
}

static huge_t *take(size_t size)
{
  bool zeroed;
  huge_t *huge = huge_take(size, 1, &owner, &owned, &zeroed);
  must(huge && huge_size(huge) == huge_bytes(size));
  must(!zeroed || all_zero(huge_start(huge), huge_size(huge)));
  return huge;
}

/* Afterwards as many bytes count as asked for again, and are kept. */
static void breathe(size_t bytes)
{
  settings.purge_delay_ms = 100;
  huge_t *huge = take(bytes);
  huge_give(huge);
  huge = take(bytes);
  memset(huge_start(huge), 7, bytes);
  huge_give(huge);
  must(huge_kept_bytes() == bytes && ranges_kept() == 1);
}

static uint64_t calls_for_memory(void) { return os_fake.count[OS_MAP] + os_fake.count[OS_UNMAP] + os_fake.count[OS_REMAP] + os_fake.count[OS_PURGE]; }

/* ---- one block ---- */

static void sizes_and_alignments(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  must(huge_bytes(0) == PAGE && huge_bytes(1) == PAGE && huge_bytes(PAGE + 1) == 2 * PAGE);
  for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 4)
    for (size_t size = 0; size < 100 * MIB; size = size * 3 + 5000) {
      bool zeroed = false;
      huge_t *huge = huge_take(size, alignment, &owner, &owned, &zeroed);
      must(huge && zeroed && huge_size(huge) == huge_bytes(size) && (uintptr_t)huge_start(huge) % max_size(alignment, PAGE) == 0);
      must(all_is_known());
      huge_start(huge)[0] = huge_start(huge)[huge_size(huge) - 1] = 1;
      huge_give(huge);
      must(all_is_known() && bytes_of(&owner) == 0 && huge_kept_bytes() == 0);   /* nothing is asked for again in these sizes */
      pass_delays(40);
    }
}

/* The memory of a long one goes before its addresses, in steps, of which there are not very many however long it is. One mapping is
 * unmapped at once where little is in it. */
static void given_back_in_steps(void *argument)
{
  static const struct { size_t size, steps; } sizes[] = {{MIB, 0}, {OS_PURGE_STEP, 0}, {(size_t)OS_PURGE_STEP * 3 + MIB, 4}, {(size_t)1 << 40, OS_PURGE_STEPS_MOST}};
  (void)argument;
  bring_up();
  have_records();
  settings.purge_delay_ms = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    bool zeroed;
    huge_t *huge = huge_take(sizes[i].size, 1, &owner, &owned, &zeroed);
    must(huge);
    uint64_t purges = os_fake.count[OS_PURGE], unmaps = os_fake.count[OS_UNMAP];
    huge_give(huge);
    must(os_fake.count[OS_PURGE] - purges == sizes[i].steps && os_fake.count[OS_UNMAP] - unmaps == 1);
    must(ranges_kept() == 0);
  }
  huge_t *huge = take((size_t)OS_PURGE_STEP * 3);
  uint64_t purges = os_fake.count[OS_PURGE];
  must(huge_resize(huge, MIB, true) && os_fake.count[OS_PURGE] - purges == 3);
  huge_give(huge);
}

/* Wherever it lies, its contents come along. */
static void resized(void *argument)
{
  const bool *remaps = argument;
  dice_t dice = {2};
  bring_up();
  have_records();
  huge_t *huge = take(MIB), *wall = take(MIB);
  pattern_write(huge_start(huge), MIB, 1);
  size_t size = MIB;
  for (size_t i = 0; i < 200; i++) {
    size_t next = 1 + dice_below(&dice, 6 * MIB), kept = min_size(size, next);
    bool may_move = dice_below(&dice, 2);
    char *start = huge_start(huge);
    os_fake.fail_kinds = *remaps ? 0 : 1 << OS_REMAP;
    bool done = huge_resize(huge, next, may_move);
    os_fake_heal();
    must(done || (huge_start(huge) == start && huge_size(huge) == huge_bytes(size) && !may_move));
    must(may_move || huge_start(huge) == start);
    must(pattern_kept(huge_start(huge), done ? kept : size, size, i + 1));
    if (done && !*remaps && next < size)
      must(huge_size(huge) >= huge_bytes(next));
    else if (done)
      must(huge_size(huge) == huge_bytes(next));
    size = done ? huge_size(huge) : size;
    pattern_write(huge_start(huge), size, i + 2);
    must(all_is_known());
  }
  huge_give(huge);
  huge_give(wall);
}

/* Whatever does not work when it is resized: nothing changed, or it has become smaller for all that anybody can see. */
static void resized_in_vain(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  huge_t *huge = take(2 * MIB);
  pattern_write(huge_start(huge), 2 * MIB, 1);
  os_fake.fail_kinds = 1 << OS_REMAP | 1 << OS_MAP;
  char *start = huge_start(huge);
  must(!huge_resize(huge, 3 * MIB, true) && !huge_resize(huge, 3 * MIB, false) && !huge_resize(huge, (size_t)1 << 50, true));
  must(huge_start(huge) == start && huge_size(huge) == 2 * MIB && pattern_holds(start, 2 * MIB, 1) && all_is_known());
  must(huge_resize(huge, 2 * MIB - 1, true) && huge_size(huge) == 2 * MIB && pattern_holds(start, 2 * MIB, 1));
  must(huge_resize(huge, MIB, true) && huge_start(huge) == start && huge_size(huge) == 2 * MIB);
  must(pattern_kept(start, MIB, 2 * MIB, 1) && all_zero(start + MIB, MIB) && all_is_known());
  os_fake_heal();
  must(!huge_resize(huge, (size_t)1 << 50, true) && pattern_kept(huge_start(huge), MIB, 2 * MIB, 1));
  must(huge_resize(huge, MIB, false) && huge_size(huge) == MIB && all_is_known());
  huge_give(huge);
}

/* ---- what is kept ---- */

/* The first time it goes; what is asked for again is there, as it was, without a call. */
static void kept_for_the_next(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  huge_t *huge = take(8 * MIB);
  huge_give(huge);
  must(huge_kept_bytes() == 0 && all_is_known());
  huge = take(8 * MIB);
  char *start = huge_start(huge);
  memset(start, 7, 8 * MIB);
  huge_give(huge);
  must(huge_kept_bytes() == 8 * MIB && ranges_kept() == 1 && all_is_known());
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < 100; i++) {
    bool zeroed;
    huge = huge_take(8 * MIB, 1, &owner, &owned, &zeroed);
    must(huge && huge_start(huge) == start && !zeroed && start[5 * MIB] == 7);
    huge_give(huge);
  }
  must(calls_for_memory() == calls && huge_kept_bytes() == 8 * MIB);
}

/* A smaller block has the low end, and when it is back they are one again. */
static void cut_and_joined(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  breathe(16 * MIB);
  char *start = huge_start(huge_next(NULL, NULL));
  uint64_t calls = calls_for_memory();
  for (size_t turn = 0; turn < 20; turn++) {
    huge_t *parts[5];
    for (size_t i = 0; i < 5; i++) {
      parts[i] = take((i + 1) * MIB);
      must(huge_start(parts[i]) == start + i * (i + 1) / 2 * MIB && huge_start(parts[i])[100] == 7);
    }
    must(huge_kept_bytes() == MIB && ranges_kept() == 1);
    for (size_t i = 0; i < 5; i++)
      huge_give(parts[(i * (turn % 4 + 1) + turn) % 5]);
    must(huge_kept_bytes() == 16 * MIB && ranges_kept() == 1 && huge_start(huge_next(NULL, NULL)) == start);
  }
  must(calls_for_memory() == calls);
}

/* The shortest that will do; the middle of one where it must be aligned. */
static void the_one_that_suits(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  settings.purge_delay_ms = PURGE_NEVER;
  huge_t *blocks[3];
  for (size_t i = 0; i < 3; i++) {
    blocks[i] = take((3 + 2 * i) * MIB);
    take(PAGE);   /* between them */
  }
  char *starts[] = {huge_start(blocks[0]), huge_start(blocks[1]), huge_start(blocks[2])};
  huge_give(blocks[1]);
  huge_give(blocks[2]);
  huge_give(blocks[0]);
  if (ranges_kept() < 3)
    return;   /* the system has put them next to each other */
  huge_t *huge = take(2 * MIB), *more = take(4 * MIB);
  must(huge_start(huge) == starts[0] && huge_start(more) == starts[1]);
  bool zeroed;
  huge_t *aligned = huge_take(4 * MIB, 2 * MIB, &owner, &owned, &zeroed);
  must(aligned && huge_start(aligned) == (char *)round_up((uintptr_t)starts[2], 2 * MIB));
  must(all_is_known());
  huge_give(aligned);
  huge_give(huge);
  huge_give(more);
  must(ranges_kept() == 3 && huge_kept_bytes() == 15 * MIB);
  for (size_t i = 0; i < 3; i++)
    must(huge_start(huge_next(NULL, starts[i])) == starts[i]);
}

/* Half of it is there: it grows, and its pages are used again. */
static void grown_from_what_is_kept(void *argument)
{
  const bool *remaps = argument;
  bring_up();
  have_records();
  breathe(8 * MIB);
  os_fake.fail_kinds = *remaps ? 0 : 1 << OS_REMAP;
  uint64_t maps = os_fake.count[OS_MAP];
  bool zeroed;
  huge_t *huge = huge_take(12 * MIB, 1, &owner, &owned, &zeroed);
  must(huge && huge_size(huge) == 12 * MIB && zeroed == !*remaps && os_fake.count[OS_MAP] == maps + !*remaps);
  must(huge_start(huge)[0] == (*remaps ? 7 : 0) && huge_start(huge)[12 * MIB - 1] == 0);
  must(huge_kept_bytes() == (*remaps ? 0 : 8 * MIB) && all_is_known());
  os_fake_heal();
  huge_t *long_one = huge_take(17 * MIB, 1, &owner, &owned, &zeroed);   /* less than half of it is there */
  must(long_one && zeroed);
}

/* As much as was asked for again, at most what is live or 32 MiB; nothing without a delay, everything with none that ends. */
static void how_much(void *argument)
{
  huge_t *blocks[20];
  (void)argument;
  bring_up();
  have_records();
  for (size_t turn = 0; turn < 4; turn++) {
    for (size_t i = 0; i < 20; i++)
      blocks[i] = take(4 * MIB);
    for (size_t i = 0; i < 20; i++)
      huge_give(blocks[i]);
    must(huge_kept_bytes() <= (turn ? BREATH : 0) && (!turn || huge_kept_bytes() > BREATH - 4 * MIB));
    must(all_is_known());
  }
  huge_t *large = take(60 * MIB);
  for (size_t i = 0; i < 20; i++)
    blocks[i] = take(4 * MIB);
  for (size_t i = 0; i < 20; i++)
    huge_give(blocks[i]);
  must(huge_kept_bytes() > BREATH && huge_kept_bytes() <= 60 * MIB + 4 * MIB);
  settings.purge_delay_ms = 0;
  huge_give(large);
  must(huge_kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
  settings.purge_delay_ms = PURGE_NEVER;
  for (size_t i = 0; i < 20; i++)
    blocks[i] = take(4 * MIB);
  for (size_t i = 0; i < 20; i++)
    huge_give(blocks[i]);
  must(huge_kept_bytes() == 80 * MIB);
  must(huge_release(30 * MIB) == 50 * MIB && huge_kept_bytes() == 30 * MIB && all_is_known());
  must(huge_release(31 * MIB) == 0 && huge_release(30 * MIB - 1) == PAGE && huge_release(0) == 30 * MIB - PAGE);
  must(huge_kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
}

/* With a delay, no more ranges than a few. */
static void how_many(void *argument)
{
  static huge_t *blocks[400];
  (void)argument;
  bring_up();
  have_records();
  breathe(4 * MIB);
  for (size_t i = 0; i < 400; i++)
    blocks[i] = take(PAGE);
  for (size_t i = 0; i < 400; i += 2) {
    huge_give(blocks[i]);
    must(ranges_kept() <= KEPT_RANGES);
  }
  for (size_t i = 1; i < 400; i += 2) {
    huge_give(blocks[i]);
    must(ranges_kept() <= KEPT_RANGES);
  }
}

/* `count` blocks of a size, one behind the other. */
static void take_row(huge_t **row, size_t count, size_t size)
{
  settings.purge_delay_ms = PURGE_NEVER;
  huge_give(take(count * size));
  for (size_t i = 0; i < count; i++) {
    row[i] = take(size);
    must(!i || huge_start(row[i]) == huge_start(row[i - 1]) + size);
  }
}

/* With a delay that never ends nothing goes back, however many ranges it is in, and each is found again, however old. */
static void never_given_back(void *argument)
{
  enum { MANY = 2000 };
  static huge_t *pages[MANY], *longer[MANY];
  (void)argument;
  bring_up();
  take_row(longer, MANY, 3 * PAGE);
  take_row(pages, MANY, PAGE);
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(longer[i]);
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(pages[i]);
  must(ranges_kept() == MANY && huge_kept_bytes() == MANY / 2 * 4 * PAGE);
  for (size_t i = 0; i < MANY; i += 2)
    longer[i] = take(3 * PAGE);
  for (size_t i = 0; i < MANY; i += 2)
    pages[i] = take(PAGE);
  must(ranges_kept() == 0 && calls_for_memory() == calls);
  for (size_t i = 0; i < MANY; i++) {
    huge_give(pages[i]);
    huge_give(longer[i]);
  }
  must(huge_kept_bytes() == MANY * 4 * PAGE && calls_for_memory() == calls);
  huge_t *huge = take(MIB);
  pattern_write(huge_start(huge), MIB, 1);
  size_t kept = huge_kept_bytes();
  must(huge_resize(huge, MIB / 2, true) && huge_size(huge) == MIB / 2 && huge_kept_bytes() == kept + MIB / 2);
  must(pattern_kept(huge_start(huge), MIB / 2, MIB, 1) && huge_next(NULL, huge_start(huge)) != NULL);
  os_fake.fail_kinds = 1 << OS_REMAP;
  must(huge_resize(huge, 64 * MIB, true) && huge_kept_bytes() == kept + MIB);   /* moved as a copy */
  must(pattern_kept(huge_start(huge), MIB / 2, MIB, 1));
  os_fake_heal();
  huge_give(huge);
  must(huge_kept_bytes() == kept + 65 * MIB);
}

/* Half of what a whole delay did not need goes, and so does the last of it; what it needed stays for the next. */
static void ticked(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  breathe(16 * MIB);
  pass_delays(1);
  must(huge_kept_bytes() == 16 * MIB);   /* it was taken in this one */
  for (size_t turn = 0; turn < 8; turn++) {
    size_t kept = huge_kept_bytes();
    for (size_t i = 0; i < 3; i++)
      huge_give(take(10 * MIB));
    huge_tick();
    must(huge_kept_bytes() == kept);     /* too early */
    for (size_t i = 1; i < TICKS_PER_DELAY; i++)
      huge_tick();
    must(huge_kept_bytes() >= 10 * MIB && huge_kept_bytes() <= 10 * MIB + (kept - 10 * MIB) / 2 && all_is_known());
  }
  must(huge_kept_bytes() == 10 * MIB);
  pass_delays(1);
  must(huge_kept_bytes() == 5 * MIB);
  pass_delays(8);
  must(huge_kept_bytes() == 0 && all_is_known());
}

/* What was asked for again is forgotten with time: half of it with each delay. */
static void forgotten(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  breathe(16 * MIB);
  pass_delays(8);
  must(huge_kept_bytes() == 0);
  huge_give(take(16 * MIB));
  must(huge_kept_bytes() == 0 || huge_kept_bytes() == 16 * MIB);
  pass_delays(40);
  huge_give(take(16 * MIB));
  must(huge_kept_bytes() == 0 && all_is_known());
}

/* The range that has been kept for longest goes first, whichever shelf it is on. */
static void the_oldest_first(void *argument)
{
  static const size_t sizes[] = {3 * MIB, 3 * MIB, 9 * MIB};
  static const size_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  (void)argument;
  bring_up();
  have_records();
  settings.purge_delay_ms = PURGE_NEVER;
  for (size_t n = 0; n < sizeof orders / sizeof *orders; n++) {
    huge_t *blocks[3];
    char *starts[3];
    huge_give(take(16 * MIB));   /* one range, for the blocks and walls between them */
    for (size_t i = 0; i < 3; i++) {
      blocks[i] = take(sizes[i]);
      starts[i] = huge_start(blocks[i]);
      take(PAGE);
    }
    huge_release(0);
    for (size_t i = 0; i < 3; i++)
      huge_give(blocks[orders[n][i]]);
    must(ranges_kept() == 3 && huge_kept_bytes() == 15 * MIB);
    for (size_t i = 0; i < 3; i++) {
      size_t size = sizes[orders[n][i]];
      must(huge_release(huge_kept_bytes() - size) == size && ranges_kept() == 2 - i && all_is_known());
      for (size_t k = i + 1; k < 3; k++) {
        huge_t *kept = huge_next(NULL, starts[orders[n][k]]);
        must(kept && huge_start(kept) == starts[orders[n][k]]);
      }
    }
  }
}

/* ---- where the system refuses ---- */

/* What it does not unmap is kept, without its memory if that can be had; and it is zero. */
static void not_unmapped(void *argument)
{
  const bool *purged = argument;
  bring_up();
  have_records();
  settings.purge_delay_ms = 0;
  os_fake.fail_kinds = 1 << OS_UNMAP | (*purged ? 0 : 1 << OS_PURGE);
  os_fake.fail_halfway = true;
  huge_t *huge = take(4 * MIB);
  char *start = huge_start(huge);
  memset(start, 7, 4 * MIB);
  huge_give(huge);
  must(all_is_known() && ranges_kept() == 1 && huge_kept_bytes() == (*purged ? 0 : 4 * MIB));
  for (size_t i = 0; i < 3; i++) {
    bool zeroed;
    huge = huge_take(MIB, 1, &owner, &owned, &zeroed);
    must(huge && huge_start(huge) == start && zeroed == *purged && (!zeroed || all_zero(start, MIB)));
    must(huge_kept_bytes() == (*purged ? 0 : 3 * MIB));
    memset(start, 7, MIB);
    huge_give(huge);
    must(all_is_known() && huge_kept_bytes() == (*purged ? 0 : 4 * MIB));
  }
  os_fake_heal();
  must(huge_release(PAGE) == (*purged ? 0 : 4 * MIB - PAGE) && ranges_kept() == 1 && all_is_known());
  must(huge_release(0) == (*purged ? 0 : PAGE) && huge_kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
}

/* While system calls are forbidden blocks come from what is kept and go there; afterwards it goes to the system. */
static void forbidden(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  breathe(16 * MIB);
  uint64_t calls = os_fake.calls;
  huge_t *live = take(5 * MIB);
  os_forbid(true);
  bool zeroed;
  for (size_t i = 0; i < 50; i++) {
    huge_t *a = take((1 + i % 5) * MIB), *b = take((1 + i % 6) * MIB);
    must(!huge_take(30 * MIB, 1, &owner, &owned, &zeroed));
    must(!huge_resize(a, 20 * MIB, true) && huge_resize(b, 5000, true));
    huge_give(b);
    huge_give(a);
  }
  huge_give(live);
  huge_give(take(6 * MIB));
  must(huge_release(0) == 0 && ranges_kept() == 1 && huge_kept_bytes() == 16 * MIB && os_fake.calls == calls);
  os_forbid(false);
  pass_delays(8);
  must(huge_kept_bytes() == 0 && all_is_known());
}

/* No memory for a record: nothing is taken, and nothing is lost. */
static void no_records(void *argument)
{
  huge_t *blocks[700];
  size_t count = 0;
  bool zeroed;
  (void)argument;
  bring_up();
  settings.purge_delay_ms = PURGE_NEVER;
  huge_t *kept = take(8 * MIB);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  huge_give(kept);
  others_bytes = os_fake.mapped_bytes - bytes_of(NULL);
  while (count < 700 && (blocks[count] = huge_take(PAGE, 1, &owner, &owned, &zeroed)) != NULL) {
    must(all_is_known());
    count++;
  }
  must(all_is_known());
  must(count == 700 || bytes_of(NULL) > 0);
  for (size_t i = 0; i < count; i++)
    huge_give(blocks[i]);
  os_fake_heal();
  must(all_is_known() && huge_release(0) > 0 && ranges_kept() == 0 && all_is_known());
}

/* A system that has no memory left gets what is kept first. */
static void kept_makes_room(void *argument)
{
  const bool *clean = argument;
  bring_up();
  have_records();
  if (*clean) {
    os_fake.fail_kinds = 1 << OS_UNMAP;
    huge_give(take(8 * MIB));
    os_fake_heal();
    must(ranges_kept() == 1 && huge_kept_bytes() == 0);
  } else {
    breathe(8 * MIB);
  }
  os_fake.fail_from = os_fake.calls + 1;
  os_fake.fail_to = os_fake.fail_from + 1;
  bool zeroed;
  huge_t *huge = huge_take(20 * MIB, 1, &owner, &owned, &zeroed);
  must(huge && zeroed && os_fake.failed > 0 && ranges_kept() == 0 && all_is_known());
}

/* ---- questions ---- */

static const char *asked_for;

static void note(huge_t *huge, void *context)
{
  must(asked_for >= huge_start(huge) && asked_for < huge_start(huge) + huge_size(huge));
  *(huge_t **)context = huge;
}

static huge_t *ask(const char *address)
{
  huge_t *found = NULL;
  asked_for = address;
  must(huge_ask(address, note, &found) == (found != NULL));
  return found;
}

static void questions(void *argument)
{
  (void)argument;
  bring_up();
  bool zeroed;
  huge_t *a = huge_take(3 * MIB, 1, &owner, &owned, &zeroed), *b = huge_take(MIB, 1, &other_owner, &others, &zeroed);
  huge_t *region = huge_take(2 * MIB, 1, &owner, NULL, &zeroed);
  must(!ask(NULL) && !ask((char *)UINTPTR_MAX) && !ask((char *)&owner));
  must(!ask(huge_start(region)));   /* until it is one */
  huge_hide(region, false);
  huge_t *all[] = {a, b, region};
  for (size_t i = 0; i < 3; i++)
    for (size_t at = 0; at < huge_size(all[i]); at += at % 2 ? 8191 : 1)
      must(ask(huge_start(all[i]) + at) == all[i]);
  must(ask(huge_start(a) - 1) != a && ask(huge_start(a) + huge_size(a)) != a);
  must(huge_next(&owner, NULL) == a && !huge_next(&owner, huge_start(a) + 1) && huge_next(&other_owner, NULL) == b);
  huge_hide(region, true);
  must(!ask(huge_start(region)) && !ask(huge_start(region) + MIB));
  settings.purge_delay_ms = PURGE_NEVER;
  char *was = huge_start(a);
  huge_give(a);
  must(!ask(was) && !ask(was + MIB) && !huge_next(&owner, NULL));
  huge_give(region);
  huge_t *again = take(2 * MIB);
  must(ask(huge_start(again)) == again && huge_next(&owner, NULL) == again);   /* not hidden any more, and no region */
}

/* ---- at random ---- */

typedef struct model {
  dice_t   dice;
  huge_t  *blocks[BLOCKS];
  size_t   sizes[BLOCKS];
  uint64_t keys[BLOCKS];
  bool     alone;
} model_t;

static void apart(const model_t *model, size_t with)
{
  const huge_t *block = model->blocks[with];
  for (size_t i = 0; i < BLOCKS; i++) {
    const huge_t *other = model->blocks[i];
    must(i == with || !other || huge_start(other) + huge_size(other) <= huge_start(block) || huge_start(block) + huge_size(block) <= huge_start(other));
  }
}

static void claim(model_t *model, size_t i, size_t size)
{
  apart(model, i);
  model->sizes[i] = size;
  pattern_write(huge_start(model->blocks[i]), size, model->keys[i] = dice_roll(&model->dice));
}

static void model_take(model_t *model, size_t i)
{
  bool zeroed;
  size_t size = 1 + dice_below(&model->dice, (size_t)1 << (12 + dice_below(&model->dice, 9)));
  size_t alignment = dice_below(&model->dice, 5) ? 1 : (size_t)1 << (10 + dice_below(&model->dice, 8));
  huge_t *huge = model->blocks[i] = huge_take(size, alignment, &owner, &owned, &zeroed);
  must(huge || os_fake.fail_kinds);
  if (!huge)
    return;
  must(huge_size(huge) == huge_bytes(size) && (uintptr_t)huge_start(huge) % max_size(alignment, PAGE) == 0);
  must(!zeroed || all_zero(huge_start(huge), huge_size(huge)));
  claim(model, i, size);
}

static void model_resize(model_t *model, size_t i)
{
  size_t size = 1 + dice_below(&model->dice, 3 * model->sizes[i]);
  bool may_move = dice_below(&model->dice, 2);
  char *start = huge_start(model->blocks[i]);
  bool done = huge_resize(model->blocks[i], size, may_move);
  must(done || huge_start(model->blocks[i]) == start);
  must(pattern_kept(huge_start(model->blocks[i]), done ? min_size(size, model->sizes[i]) : model->sizes[i], model->sizes[i], model->keys[i]));
  if (done)
    claim(model, i, size);
}

static void model_give(model_t *model, size_t i)
{
  must(pattern_holds(huge_start(model->blocks[i]), model->sizes[i], model->keys[i]));
  huge_give(model->blocks[i]);
  model->blocks[i] = NULL;
}

static void model_step(model_t *model)
{
  size_t i = dice_below(&model->dice, BLOCKS), n = dice_below(&model->dice, 100);
  if (n < 2)
    huge_tick();
  else if (n < 4)
    huge_release(dice_below(&model->dice, 4 * MIB));
  else if (!model->blocks[i])
    model_take(model, i);
  else if (n < 40)
    model_resize(model, i);
  else
    model_give(model, i);
}

static void model_end(model_t *model)
{
  for (size_t i = 0; i < BLOCKS; i++)
    if (model->blocks[i])
      model_give(model, i);
}

/* Some kinds of call fail for a while, or those of the thread are forbidden. Metadata can be had. */
static void vary(dice_t *dice)
{
  os_fake.fail_kinds = dice_below(dice, 3) ? 0 : (uint32_t)dice_roll(dice) & ~(1u << OS_MAP_AT);
  os_fake.fail_halfway = dice_below(dice, 2);
  settings.purge_delay_ms = dice_below(dice, 4) ? 100 : dice_below(dice, 2) ? 0 : PURGE_NEVER;
}

static void model(void *argument)
{
  static model_t model;
  model = (model_t){.dice = {*(const uint64_t *)argument}};
  bring_up();
  have_records();
  for (size_t i = 0; i < 12000; i++) {
    if (i % 150 == 0)
      vary(&model.dice);
    model_step(&model);
    if (i % 10 == 0)
      must(all_is_known());
  }
  os_fake_heal();
  model_end(&model);
  settings.purge_delay_ms = 0;
  huge_give(take(PAGE));
  huge_release(0);
  must(huge_kept_bytes() == 0 && bytes_of(&owner) == 0 && all_is_known());
}

static void *work(void *argument)
{
  model_t model = {.dice = {(uintptr_t)argument}};
  for (size_t i = 0; i < 3000; i++)
    model_step(&model);
  model_end(&model);
  return NULL;
}

static void threads(void *argument)
{
  pthread_t workers[4];
  bring_up();
  have_records();
  for (uintptr_t i = 0; i < 4; i++)
    must(pthread_create(&workers[i], NULL, work, (void *)(i + 1 + 10 * *(const uint64_t *)argument)) == 0);
  for (size_t i = 0; i < 4; i++)
    pthread_join(workers[i], NULL);
  huge_release(0);
  must(bytes_of(&owner) == 0 && all_is_known());
}

/* At the limit of mappings the system takes none. What is freed then costs a call or two, not one for each that waits. */
static void refused_in_constant_time(void *argument)
{
  enum { MANY = 2000 };
  static huge_t *blocks[MANY];
  bool zeroed;
  (void)argument;
  bring_up();
  for (size_t i = 0; i < MANY; i++)
    must((blocks[i] = huge_take(5 * MIB, 1, &owner, &owned, &zeroed)) != NULL);
  os_fake.fail_kinds = 1 << OS_UNMAP;
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(blocks[i]);
  must(ranges_kept() > 0 && calls_for_memory() - calls <= 8 * MANY);
  calls = calls_for_memory();
  for (size_t i = 0; i < 100; i++) {
    huge_t *huge = huge_take(5 * MIB, 1, &owner, &owned, &zeroed);
    must(huge);
    huge_give(huge);
  }
  must(calls_for_memory() - calls <= 400);
  os_fake.fail_kinds = 0;
  huge_tick();
  huge_release(0);
  must(ranges_kept() == 0);
}

/* A system that refused is asked again after a tick, not only when the next one comes. */
static void asked_again_after_a_tick(void *argument)
{
  enum { MANY = 1000 };
  static huge_t *row[MANY];
  const bool *clean = argument;
  bring_up();
  have_records();
  take_row(row, MANY, PAGE);
  breathe(4 * MIB);
  huge_release(0);
  os_fake.fail_kinds = 1 << OS_UNMAP | (*clean ? 0 : 1 << OS_PURGE);
  for (size_t i = 0; i < MANY / 2; i += 2)
    huge_give(row[i]);
  must(ranges_kept() > KEPT_RANGES);
  os_fake_heal();
  for (size_t i = 0; i < 4; i++)   /* each looks at so many ranges at most */
    huge_tick();
  for (size_t i = MANY / 2; i < MANY; i += 2) {
    huge_give(row[i]);
    must(ranges_kept() <= 2 * KEPT_RANGES && all_is_known());
  }
}

/* What is kept counts where memory is limited: it goes before a block is refused its growth. */
static void grows_into_what_is_kept(void *argument)
{
  bool zeroed;
  (void)argument;
  bring_up();
  huge_t *block = huge_take(20 * MIB, 1, &owner, &owned, &zeroed);
  must(block);
  pattern_write(huge_start(block), 20 * MIB, 1);
  for (size_t i = 0; i < 4; i++) {   /* more than once, so that it is kept */
    huge_t *other = huge_take(16 * MIB, 1, &owner, &owned, &zeroed);
    must(other);
    huge_give(other);
  }
  must(huge_kept_bytes() == 16 * MIB);
  os_fake.mapped_most = os_fake.mapped_bytes + 4 * MIB;
  must(huge_resize(block, 30 * MIB, true) && huge_size(block) == 30 * MIB);
  must(pattern_kept(huge_start(block), 20 * MIB, 20 * MIB, 1) && huge_kept_bytes() == 0);
  os_fake.mapped_most = 0;
}

/* What goes from between two blocks makes two mappings of one. The system has so many, and others want some. */
static void no_more_mappings_than_half(void *argument)
{
  enum { MANY = 80000, SPLITS_MOST = 32 << 10 };
  static huge_t *row[MANY];
  (void)argument;
  bring_up();
  take_row(row, MANY, PAGE);
  settings.purge_delay_ms = 100;
  for (size_t i = 0; i < MANY; i += 2) {
    huge_start(row[i])[0] = 7;
    huge_give(row[i]);
  }
  huge_release(0);
  must(huge_kept_bytes() == 0 && MANY / 2 - ranges_kept() <= SPLITS_MOST);
  bool zeroed;
  huge_t *again = huge_take(PAGE, 1, &owner, &owned, &zeroed);
  must(again && zeroed && all_zero(huge_start(again), PAGE));
  huge_give(again);
  for (size_t i = 1; i < MANY; i += 2)
    huge_give(row[i]);
  huge_release(0);
  must(ranges_kept() == 0 && huge_kept_bytes() == 0);
}

/* A request that the system refuses costs some calls, however much it refused to unmap. */
static void refusals_are_cheap(void *argument)
{
  enum { MANY = 4000 };
  static huge_t *row[MANY];
  bool zeroed;
  (void)argument;
  bring_up();
  take_row(row, MANY, PAGE);
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_MAP | 1 << OS_REMAP;
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(row[i]);
  huge_release(0);
  must(ranges_kept() == MANY / 2 && huge_kept_bytes() == 0);
  for (size_t i = 0; i < 20; i++) {
    uint64_t calls = os_fake.calls;
    must(!huge_take(MIB, 1, &owner, &owned, &zeroed) && !huge_resize(row[1], 2 * MIB, true) && huge_release(0) == 0);
    must(os_fake.calls - calls <= 100);
  }
  os_fake_heal();
  huge_release(0);
  must(ranges_kept() == 0);
}

/* What nothing can serve empties nothing. */
static void hopeless(void *argument)
{
  bool zeroed;
  (void)argument;
  bring_up();
  have_records();
  huge_t *block = take(4 * MIB);
  breathe(8 * MIB);
  os_fake.mapped_most = os_fake.mapped_bytes + 13 * MIB;
  for (size_t i = 0; i < 3; i++) {
    must(!huge_take(GIB, 1, &owner, &owned, &zeroed) && !huge_take(os_memory_most() + 1, 1, &owner, &owned, &zeroed));
    must(!huge_resize(block, GIB, true) && !huge_resize(block, 5 * MIB + os_memory_most(), true));
    must(huge_kept_bytes() == 8 * MIB && all_is_known());
  }
  must(huge_take(21 * MIB, 1, &owner, &owned, &zeroed) && huge_kept_bytes() == 0 && all_is_known());
}

/* A try to grow in place costs nobody what is kept elsewhere, and of what is kept behind the block what the block has then. */
static void in_place(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  breathe(16 * MIB);
  huge_t *low = take(2 * MIB), *block = take(4 * MIB), *high;
  huge_give(low);
  must(huge_kept_bytes() == 12 * MIB && ranges_kept() == 2);
  for (size_t i = 0; i < 3; i++)
    must(!huge_resize(block, 15 * MIB, false) && !huge_resize(block, GIB, false) && huge_kept_bytes() == 12 * MIB && ranges_kept() == 2);
  pattern_write(huge_start(block), 4 * MIB, 1);
  must(huge_resize(block, 7 * MIB, false) && huge_kept_bytes() == 9 * MIB && pattern_kept(huge_start(block), 4 * MIB, 4 * MIB, 1));
  high = take(7 * MIB);
  must(huge_start(high) == huge_start(block) + huge_size(block));
  must(!huge_resize(block, 8 * MIB, false) && huge_kept_bytes() == 2 * MIB && all_is_known());
  huge_give(high);
  os_fake.fail_kinds = 1 << OS_UNMAP;
  must(!huge_resize(block, 8 * MIB, false) && huge_size(block) == 7 * MIB && all_is_known());
}

/* Kept or not, each byte that the system takes counts once. */
static void given(void *argument)
{
  (void)argument;
  bring_up();
  have_records();
  uint64_t before = huge_given_bytes();
  huge_t *huge = take(8 * MIB);
  must(huge_resize(huge, 6 * MIB, false) && huge_given_bytes() == before + 2 * MIB);
  os_fake.fail_kinds = 1 << OS_REMAP;
  must(huge_resize(huge, 5 * MIB, false) && huge_given_bytes() == before + 3 * MIB);
  os_fake_heal();
  settings.purge_delay_ms = 0;
  huge_give(huge);
  must(huge_given_bytes() == before + 9 * MIB);
  breathe(8 * MIB);
  before = huge_given_bytes();
  must(huge_release(5 * MIB) == 3 * MIB && huge_given_bytes() == before + 3 * MIB);
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_PURGE;
  must(huge_release(0) == 0 && huge_given_bytes() == before + 3 * MIB);
  os_fake.fail_kinds = 1 << OS_UNMAP;
  must(huge_release(0) == 5 * MIB && huge_given_bytes() == before + 8 * MIB);
  os_fake_heal();
  must(huge_release(0) == 0 && huge_given_bytes() == before + 8 * MIB && ranges_kept() == 0);
}

IN_CHILD(sizes_and_alignments)
IN_CHILD(given_back_in_steps)
IN_CHILD(never_given_back)
IN_CHILD(no_more_mappings_than_half)
IN_CHILD(refusals_are_cheap)
IN_CHILD(hopeless)
IN_CHILD(in_place)
IN_CHILD(given)
IN_CHILD(refused_in_constant_time)
IN_CHILD(grows_into_what_is_kept)
WITH(resized, bool, false, true)
IN_CHILD(resized_in_vain)
IN_CHILD(kept_for_the_next)
IN_CHILD(cut_and_joined)
IN_CHILD(the_one_that_suits)
WITH(grown_from_what_is_kept, bool, false, true)
IN_CHILD(how_much)
IN_CHILD(how_many)
IN_CHILD(ticked)
IN_CHILD(the_oldest_first)
WITH(asked_again_after_a_tick, bool, false, true)
IN_CHILD(forgotten)
WITH(not_unmapped, bool, false, true)
IN_CHILD(forbidden)
IN_CHILD(no_records)
WITH(kept_makes_room, bool, false, true)
IN_CHILD(questions)
WITH(model, uint64_t, 1, 2, 3, 4, 5, 6)
WITH(threads, uint64_t, 1, 2)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sizes_and_alignments_test),
    cmocka_unit_test(never_given_back_test),
    cmocka_unit_test(no_more_mappings_than_half_test),
    cmocka_unit_test(refusals_are_cheap_test),
    cmocka_unit_test(hopeless_test),
    cmocka_unit_test(in_place_test),
    cmocka_unit_test(given_test),
    cmocka_unit_test(refused_in_constant_time_test),
    cmocka_unit_test(grows_into_what_is_kept_test),
    cmocka_unit_test(given_back_in_steps_test),
    cmocka_unit_test(resized_test),
    cmocka_unit_test(resized_in_vain_test),
    cmocka_unit_test(kept_for_the_next_test),
    cmocka_unit_test(cut_and_joined_test),
    cmocka_unit_test(the_one_that_suits_test),
    cmocka_unit_test(grown_from_what_is_kept_test),
    cmocka_unit_test(how_much_test),
    cmocka_unit_test(how_many_test),
    cmocka_unit_test(ticked_test),
    cmocka_unit_test(the_oldest_first_test),
    cmocka_unit_test(asked_again_after_a_tick_test),
    cmocka_unit_test(forgotten_test),
    cmocka_unit_test(not_unmapped_test),
    cmocka_unit_test(forbidden_test),
    cmocka_unit_test(no_records_test),
    cmocka_unit_test(kept_makes_room_test),
    cmocka_unit_test(questions_test),
    cmocka_unit_test(model_test),
    cmocka_unit_test(threads_test),
  };
  return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
