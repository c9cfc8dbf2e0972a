/* SPDX-License-Identifier: MIT
 *
 * A model-based fuzzer of the public interface. Bytes are operations; beside the manager runs a model that knows of each live
 * block where it is, how large, whose and what is in it. After each operation the manager's answers must be the model's:
 * no two live blocks overlap, alignment and usable size are as promised, contents stay, zeroed is zero, and questions about
 * addresses inside live blocks, of blocks just freed and of nothing at all are answered as the model would. Now and then the
 * invariants are checked.
 *
 * An operation is a function in the table below, which takes the bytes it needs from the input; a new one is a new row. */
#include "check.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

enum {
  SLOTS = 192,
  HEAPS = 5,                           /* the default one is number 0 */
  FREED = 32,
  OPS_PER_CHECK = 48,
  LIVE_MOST = 48 << 20,
  MEMORY_BYTES = 96 << 10,
  DENSE = 512, STRIDE = 4096 - 64
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition) ((condition) ? (void)0 : must_failed(__LINE__, #condition))

typedef struct slot {
  char    *block;
  size_t   size, usable;
  uint64_t key;
  unsigned heap;
} slot_t;

typedef struct known_heap {
  pool_heap_t *heap;
  bool         limited, checked;       /* a request may fail; blocks do not stay where they are */
  unsigned     parent, overflow;       /* 0: none */
} known_heap_t;

static struct {
  const uint8_t *data, *end;
  slot_t         slots[SLOTS];
  known_heap_t   heaps[HEAPS];
  const char    *freed[FREED];
  unsigned       freed_next;
  size_t         live_bytes;
  uint64_t       keys;
  const char    *op;
} model;

static char memories[HEAPS][MEMORY_BYTES];

static _Noreturn void must_failed(int line, const char *condition)
{
  fprintf(stderr, "fuzz_pool: in %s: line %d: not so: %s\n", model.op ? model.op : "-", line, condition);
  abort();
}

/* ---- the input ---- */

static unsigned byte(void) { return model.data < model.end ? *model.data++ : 0; }
static size_t number(void) { return byte() | (size_t)byte() << 8; }

/* Mostly small, and often next to a border. */
static size_t some_size(void)
{
  size_t n = number(), kind = n & 15;
  n >>= 4;
  if (kind < 8)
    return n & 1023;
  if (kind < 11)
    return n * 3;
  if (kind < 13)
    return ((size_t)1 << (n & 15)) + (n >> 4 & 15) - 8 > (size_t)1 << 20 ? n : ((size_t)1 << (n & 15)) + (n >> 4 & 15);
  if (kind < 15)
    return n * 67;
  return n % 64 == 0 ? ((size_t)257 << 20) + n * 4096 : n * 1031;
}

/* ---- contents ---- */

static unsigned char byte_of(uint64_t key, size_t i) { return (unsigned char)((key ^ i) * 0x9e3779b97f4a7c15u >> 56); }

static size_t step_at(size_t i, size_t size)
{
  size_t stride = size > 1 << 20 ? size / 64 : STRIDE;
  return i < DENSE || i + DENSE >= size ? 1 : stride < size - DENSE - i ? stride : size - DENSE - i;
}

static void fill(const slot_t *slot)
{
  for (size_t i = 0; i < slot->size; i += step_at(i, slot->size))
    slot->block[i] = (char)byte_of(slot->key, i);
}

static void verify(const slot_t *slot, const char *block, size_t kept)
{
  for (size_t i = 0; i < kept && i < slot->size; i += step_at(i, slot->size))
    must((unsigned char)block[i] == byte_of(slot->key, i));
}

/* ---- the model ---- */

static const slot_t *slot_around(const char *address)
{
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && address >= slot->block && (size_t)(address - slot->block) < (slot->usable ? slot->usable : 1))
      return slot;
  return NULL;
}

static void answers_agree(const char *address)
{
  const slot_t *slot = slot_around(address);
  size_t size = 0;
  char *start = pool_block_start(address, &size);
  must(pool_in_use(address) == (slot != NULL));
  must(start == (slot ? slot->block : NULL));
  must(!slot || size == slot->usable);
  must(!slot || pool_heap_of(address) == model.heaps[slot->heap].heap);
}

static unsigned number_of_heap(const pool_heap_t *heap)
{
  unsigned n = 0;
  while (n < HEAPS && model.heaps[n].heap != heap)
    n++;
  must(n < HEAPS);
  return n;
}

static slot_t *some_slot(void) { return &model.slots[byte() % SLOTS]; }

/* The default heap where the one that is named does not exist. */
static unsigned some_heap(void)
{
  unsigned n = byte() % (2 * HEAPS);
  return n < HEAPS && model.heaps[n].heap ? n : 0;
}

static void no_overlap(const slot_t *slot)
{
  for (const slot_t *other = model.slots; other < model.slots + SLOTS; other++)
    must(!other->block || other == slot || other->block + other->usable <= slot->block ||
         slot->block + slot->usable <= other->block);
}

static bool may_fail(unsigned heap, size_t size)
{
  return model.heaps[heap].limited || size > (size_t)1 << 28;
}

/* A heap that others overflow to may overflow itself, and outlives them, so there is an end. */
static bool overflows_to(unsigned from, unsigned to)
{
  while (from && from != to)
    from = model.heaps[from].overflow;
  return from == to;
}

/* The heap answered a request with `block`. */
static void keep(slot_t *slot, unsigned asked, char *block, size_t size, size_t alignment)
{
  if (!block) {
    must(errno == ENOMEM && may_fail(asked, size));
    return;
  }
  must(errno == 0);
  unsigned heap = number_of_heap(pool_heap_of(block));
  *slot = (slot_t){block, size, pool_usable_size(block), ++model.keys, heap};
  must((uintptr_t)block % (alignment > 16 ? alignment : 16) == 0);
  must(slot->usable >= size);
  must(overflows_to(asked, heap));
  no_overlap(slot);
  model.live_bytes += size;
  fill(slot);
  answers_agree(block + (size ? model.keys % size : 0));
}

static void forget(slot_t *slot)
{
  model.live_bytes -= slot->size;
  slot->block = NULL;
}

static void let_go(slot_t *slot)
{
  if (!slot->block)
    return;
  verify(slot, slot->block, slot->size);
  const char *block = slot->block;
  unsigned how = byte();
  size_t size = slot->size;
  forget(slot);
  errno = 0;
  if (slot->heap && how & 1)
    pool_heap_free(model.heaps[slot->heap].heap, (void *)(uintptr_t)block);
  else if (how & 2)
    pool_free_sized((void *)(uintptr_t)block, size);
  else
    pool_free((void *)(uintptr_t)block);
  must(errno == 0);
  model.freed[model.freed_next++ % FREED] = block;
  answers_agree(block);
}

static void make_room(size_t size)
{
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS && model.live_bytes + size > LIVE_MOST; slot++)
    let_go(slot);
}

/* ---- operations on blocks ---- */

static void op_alloc(void)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap();
  size_t size = some_size();
  let_go(slot);
  make_room(size);
  errno = 0;
  keep(slot, heap, heap ? pool_heap_alloc(model.heaps[heap].heap, size) : pool_alloc(size), size, 16);
}

static void op_zeroed(void)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap(), how = byte();
  size_t size = some_size() & 0x1ffff;
  let_go(slot);
  make_room(size);
  errno = 0;
  pool_heap_t *of = model.heaps[heap].heap;
  char *block = heap ? (how & 1 ? pool_heap_calloc(of, size, 1) : pool_heap_zalloc(of, size))
                     : (how & 1 ? pool_calloc(1, size) : pool_zalloc(size));
  for (size_t i = 0, usable = block ? pool_usable_size(block) : 0; i < usable; i++)
    must(block[i] == 0);
  keep(slot, heap, block, size, 16);
}

static void op_aligned(void)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap();
  size_t size = some_size() & 0xfffff, alignment = (size_t)1 << byte() % 22;
  let_go(slot);
  make_room(size);
  errno = 0;
  pool_heap_t *of = model.heaps[heap].heap;
  keep(slot, heap, heap ? pool_heap_aligned_alloc(of, alignment, size) : pool_aligned_alloc(alignment, size), size, alignment);
}

static void op_realloc(void)
{
  slot_t *slot = some_slot();
  size_t size = some_size();
  bool named = byte() & 1;
  make_room(size);
  if (!slot->block)
    return;
  slot_t was = *slot;
  verify(slot, slot->block, slot->size);
  if (size == 0) {
    let_go(slot);
    return;
  }
  errno = 0;
  pool_heap_t *heap = model.heaps[slot->heap].heap;
  char *block = named ? pool_heap_realloc(heap, slot->block, size) : pool_realloc(slot->block, size);
  if (!block) {
    must(errno == ENOMEM && may_fail(was.heap, size));
    verify(slot, slot->block, slot->size);
    return;
  }
  must(block == was.block || size > was.usable || size <= was.usable / 2 || model.heaps[was.heap].checked);
  verify(&was, block, size);
  forget(slot);
  keep(slot, was.heap, block, size, 16);
  if (block != was.block)
    answers_agree(was.block);
}

static void op_resize(void)
{
  slot_t *slot = some_slot();
  size_t size = some_size();
  make_room(size);
  if (!slot->block || size == 0)
    return;
  errno = 0;
  slot_t was = *slot;
  bool done = pool_resize_in_place(slot->block, size);
  must(errno == 0);
  verify(slot, slot->block, done ? size : slot->size);
  if (!done) {
    must(pool_usable_size(slot->block) == slot->usable);
    return;
  }
  forget(slot);
  keep(slot, was.heap, was.block, size, 16);
}

static void op_free(void) { let_go(some_slot()); }

static void op_free_many(void)
{
  for (unsigned n = byte() % 64, first = byte(), i = 0; i < n; i++)
    let_go(&model.slots[(first + i) % SLOTS]);
}

static void op_batch(void)
{
  void *blocks[150];
  size_t size = some_size() & 0x3fff, count = byte() % 150;
  unsigned first = byte();
  errno = 0;
  must(pool_alloc_batch(size, blocks, count) == count && errno == 0);
  for (size_t i = 0; i < count; i++) {
    slot_t *slot = &model.slots[(first + i) % SLOTS];
    if (i >= 20 || slot->block)
      continue;
    keep(slot, 0, blocks[i], size, 16);
    blocks[i] = NULL;
  }
  for (size_t i = 0; i < count; i++)
    must(!blocks[i] || (pool_in_use(blocks[i]) && !slot_around(blocks[i])));
  pool_free_batch(blocks, count);
  must(errno == 0);
}

static void op_verify(void)
{
  const slot_t *slot = some_slot();
  if (slot->block)
    verify(slot, slot->block, slot->size);
}

static void op_trim(void)
{
  unsigned heap = some_heap();
  size_t keep_bytes = (size_t)byte() << 14;
  errno = 0;
  if (heap)
    pool_heap_trim(model.heaps[heap].heap, keep_bytes);
  else
    pool_trim(keep_bytes);
  must(errno == 0);
}

/* ---- questions ---- */

static void op_ask_inside(void)
{
  const slot_t *slot = some_slot();
  size_t at = number() * 37;
  if (slot->block && slot->usable)
    answers_agree(slot->block + at % slot->usable);
  if (slot->block)
    answers_agree(slot->block + slot->usable);
}

static void op_ask_freed(void)
{
  const char *freed = model.freed[byte() % FREED];
  if (freed)
    answers_agree(freed + byte() % 16);
}

static void op_ask_anything(void)
{
  uint64_t address = 0;
  for (unsigned i = 0; i < 8; i++)
    address = address << 8 | byte();
  answers_agree((const char *)(uintptr_t)(address >> byte() % 64));
}

static void op_good_size(void)
{
  size_t size = some_size();
  must(pool_good_size(size) >= size && pool_good_size(pool_good_size(size)) == pool_good_size(size));
}

static void op_impossible(void)
{
  unsigned heap = some_heap();
  size_t size = SIZE_MAX - (number() << 4);
  __asm__("" : "+r"(size));
  errno = 0;
  void *block = heap ? pool_heap_alloc(model.heaps[heap].heap, size) : byte() & 1 ? pool_alloc(size) : pool_calloc(size, 3);
  must(!block && errno == ENOMEM);
}

/* ---- heaps ---- */

static const size_t own_classes[] = {32, 64, 112, 512, 4096, 40960};

static void op_heap_create(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1), kind = byte(), parent = some_heap(), overflow = some_heap();
  if (model.heaps[n].heap)
    return;
  pool_heap_options_t options = {0};
  switch (kind % 8) {
  case 0: break;
  case 1: options.budget = (64 + (size_t)byte() * 16) << 10; break;
  case 2: options.reserve = (size_t)(1 + byte() % 8) << 19; break;
  case 3: options.memory = memories[n] + byte() % 64; options.memory_size = MEMORY_BYTES - 64 - byte() * 256; break;
  case 4: options.flags = POOL_HEAP_CHECKED; break;
  case 5: options.size_classes = own_classes; options.size_class_count = 6; break;
  case 6: options.flags = POOL_HEAP_ZERO_ON_FREE; options.budget = (size_t)24 << 20; break;
  default: options.flags = POOL_HEAP_SINGLE_THREAD; options.budget = (size_t)2 << 20; break;
  }
  if (kind & 16 && parent)
    options.parent = model.heaps[parent].heap;
  if (kind & 32 && overflow)
    options.overflow = model.heaps[overflow].heap;
  errno = 0;
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap ? errno == 0 : options.parent || options.memory || options.budget);
  if (heap)
    model.heaps[n] = (known_heap_t){
      .heap = heap,
      .limited = options.budget || options.memory || options.parent,
      .checked = options.flags & POOL_HEAP_CHECKED,
      .parent = options.parent ? parent : 0,
      .overflow = options.overflow ? overflow : 0,
    };
}

static void forget_blocks_of(unsigned heap)
{
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot->heap == heap) {
      verify(slot, slot->block, slot->size);
      forget(slot);
    }
}

/* Heaps that lean on this one must go first. */
static void destroy(unsigned n)
{
  if (!model.heaps[n].heap)
    return;
  for (unsigned i = 1; i < HEAPS; i++)
    if (model.heaps[i].heap && (model.heaps[i].parent == n || model.heaps[i].overflow == n))
      destroy(i);
  forget_blocks_of(n);
  errno = 0;
  pool_heap_destroy(model.heaps[n].heap);
  must(errno == 0);
  model.heaps[n] = (known_heap_t){0};
}

static void op_heap_destroy(void) { destroy(1 + byte() % (HEAPS - 1)); }

static void op_heap_reset(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1);
  if (!model.heaps[n].heap)
    return;
  forget_blocks_of(n);
  pool_heap_reset(model.heaps[n].heap);
  pool_stats_t stats;
  must(pool_heap_stats(model.heaps[n].heap, &stats) && stats.live_blocks == 0);
}

static void op_heap_set_budget(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1);
  size_t budget = (size_t)number() << 10;
  pool_stats_t stats;
  if (!model.heaps[n].heap)
    return;
  bool done = pool_heap_set_budget(model.heaps[n].heap, budget);
  must(pool_heap_stats(model.heaps[n].heap, &stats));
  must(done ? stats.budget == budget : stats.held_bytes > budget);
  model.heaps[n].limited = true;
}

typedef struct visits { unsigned heap; size_t count; } visits_t;

static bool visit(const pool_block_t *block, void *context)
{
  visits_t *visits = context;
  const slot_t *slot = slot_around(block->start);
  must(slot && slot->block == block->start && slot->usable == block->size && slot->heap == visits->heap);
  visits->count++;
  return true;
}

static void op_heap_walk(void)
{
  visits_t visits = {.heap = some_heap()};
  size_t live = 0;
  must(pool_heap_walk(model.heaps[visits.heap].heap, visit, &visits));
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    live += slot->block && slot->heap == visits.heap;
  must(visits.count == live);
}

static void op_figures(void)
{
  pool_stats_t stats;
  size_t blocks = 0, bytes = 0;
  unsigned heap = some_heap();
  must(pool_heap_stats(model.heaps[heap].heap, &stats));
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot->heap == heap) {
      blocks++;
      bytes += slot->usable;
    }
  must(stats.live_blocks == blocks && stats.live_bytes >= bytes);
  must(stats.peak_held_bytes >= stats.held_bytes && (!stats.budget || stats.held_bytes <= stats.budget));
}

/* ---- all of them ---- */

typedef struct op {
  const char *name;
  void (*run)(void);
  unsigned    weight;
} op_t;

static const op_t ops[] = {
  {"alloc", op_alloc, 12},           {"zeroed", op_zeroed, 4},         {"aligned", op_aligned, 3},
  {"realloc", op_realloc, 6},        {"resize", op_resize, 3},         {"free", op_free, 8},
  {"free_many", op_free_many, 1},    {"batch", op_batch, 2},           {"verify", op_verify, 2},
  {"trim", op_trim, 1},              {"ask_inside", op_ask_inside, 2}, {"ask_freed", op_ask_freed, 2},
  {"ask_anything", op_ask_anything, 1}, {"good_size", op_good_size, 1}, {"impossible", op_impossible, 1},
  {"heap_create", op_heap_create, 3}, {"heap_destroy", op_heap_destroy, 1}, {"heap_reset", op_heap_reset, 1},
  {"heap_set_budget", op_heap_set_budget, 1}, {"heap_walk", op_heap_walk, 1}, {"figures", op_figures, 1},
};

static const op_t *some_op(void)
{
  unsigned n = byte() & 63;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (n < ops[i].weight)
      return &ops[i];
    n -= ops[i].weight;
  }
  return &ops[0];
}

/* Ends as it began, so that one input does not depend on another. */
static void end_all(void)
{
  pool_stats_t stats;
  model.op = "the end";
  for (unsigned i = HEAPS - 1; i > 0; i--)
    destroy(i);
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    let_go(slot);
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.live_bytes == 0 && model.live_bytes == 0);
  pool_trim(0);
  must(check_everything());
  must(space_of_process.used_units == 0);
  memset(model.freed, 0, sizeof model.freed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  model.data = data;
  model.end = data + size;
  model.heaps[0].heap = pool_heap_default();
  for (unsigned count = 1; model.data < model.end; count++) {
    const op_t *op = some_op();
    model.op = op->name;
    op->run();
    if (count % OPS_PER_CHECK == 0)
      must(check_everything());
  }
  end_all();
  return 0;
}
