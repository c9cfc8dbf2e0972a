/* SPDX-License-Identifier: MIT
 *
 * A model-based fuzzer of the public interface. Bytes are operations; beside the manager runs a model that knows of each live
 * block where it is, how large, whose and what is in it. After each operation the manager's answers must be the model's:
 * no two live blocks overlap, alignment and usable size are as promised, contents stay, zeroed is zero, what a heap that zeroes
 * was given back is nowhere any more, and questions about addresses inside live blocks, of blocks just freed and of nothing at
 * all are answered as the model would. Now and then the invariants are checked and all figures are counted anew.
 *
 * An operation is a function in a table below, which takes the bytes it needs from the input; a new one is a new row. Any of
 * them may be done by a second thread while the first waits for it, so that an input always does the same. */
#include "check/check.h"
#include "heap/create.h"
#include "heap/reset.h"
#include "heap/tick.h"
#include "heap/walk.h"
#include "fuzz_pool.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum {
  SLOTS = 192,
  HEAPS = 7,                           /* the default one is number 0 */
  FREED = 32,
  OPS_PER_CHECK = 48,
  LIVE_MOST = 48 << 20,
  MEMORY_BYTES = 96 << 10,
  LARGE_MEMORY_BYTES = 9 << 20,        /* units of 64 KiB */
  LARGE_LEAST = 32 << 10, HUGE_LEAST = 4 << 20,
  PAGE = 4096,                         /* a stride: nothing rests on its being the machine's */
  DENSE_MOST = 64 << 10,               /* every byte of a block has a pattern up to here */
  SPARSE_LEAST = 64 << 20              /* and from here on 64 bytes between its ends */
};

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
  bool         single, zeroes;         /* is for one thread; leaves nothing of what it takes back */
  const char  *memory;                 /* the caller's, or NULL */
  size_t       memory_size;
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
  const slot_t  *busy;                 /* its block is in a call */
  bool           is_child, elsewhere;  /* of a fork; in the second thread */
} model;

bool fuzz_alone;
uint64_t fuzz_seed;

static char memories[HEAPS][MEMORY_BYTES], large_memory[LARGE_MEMORY_BYTES];

static _Noreturn void must_failed(int line, const char *condition)
{
  fprintf(stderr, "fuzz_pool: seed %lu: in %s%s%s: line %d: not so: %s\n", (unsigned long)fuzz_seed, model.op ? model.op : "-",
          model.is_child ? ", in a child" : "", model.elsewhere ? ", in the second thread" : "", line, condition);
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

/* In a large block whole pages at both ends, and of each page in between its first and last bytes and some in the middle. */
static size_t step_at(size_t i, size_t size)
{
  if (size <= DENSE_MOST || i < PAGE || i + PAGE >= size)
    return 1;
  size_t at = i % PAGE, left = size - PAGE - i, step = 1;
  if (size >= SPARSE_LEAST)
    step = size / 64;
  else if (at >= 8 && at < PAGE - 8)
    step = (at < PAGE / 2 ? PAGE / 2 : PAGE - 8) - at;
  return step < left ? step : left;
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

/* Every byte; of a huge block every 64th and the ends of each page. */
static void must_be_zero(const char *block, size_t size)
{
  if (size <= HUGE_LEAST) {
    must(size == 0 || (block[0] == 0 && memcmp(block, block + 1, size - 1) == 0));
    return;
  }
  size_t step = size >= SPARSE_LEAST ? (size_t)64 * PAGE : 64;
  for (size_t i = 0; i < size; i += step)
    must(block[i] == 0);
  for (size_t i = PAGE; i <= size && size < SPARSE_LEAST; i += PAGE)
    must(block[i - 1] == 0);
}

/* Memory that the manager took back and may have given to the system: the system says what is there, if anything. */
static void must_be_wiped(const char *from, size_t size)
{
  static char there[PAGE];
  for (size_t at = 0; at < size;) {
    const char *page_end = (const char *)(((uintptr_t)(from + at) | (PAGE - 1)) + 1);
    size_t bytes = size - at < (size_t)(page_end - (from + at)) ? size - at : (size_t)(page_end - (from + at));
    struct iovec here = {there, bytes}, remote = {(void *)(uintptr_t)(from + at), bytes};
    ssize_t got = process_vm_readv(getpid(), &here, 1, &remote, 1, 0);
    must(got < 0 || (there[0] == 0 && memcmp(there, there + 1, (size_t)got - 1) == 0));
    at += bytes;
  }
  errno = 0;
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
  for (const known_heap_t *known = model.heaps; known < model.heaps + HEAPS; known++)
    if (known->memory && address >= known->memory && (size_t)(address - known->memory) < known->memory_size)
      must(pool_heap_of(address) == known->heap);
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

/* A checked heap fills what it takes back with something else. */
static bool leaves_nothing(unsigned heap) { return model.heaps[heap].zeroes && !model.heaps[heap].checked; }

static void let_go(slot_t *slot)
{
  if (!slot->block)
    return;
  verify(slot, slot->block, slot->size);
  const char *block = slot->block;
  unsigned how = byte();
  size_t size = slot->size;
  size_t usable = slot->usable;
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
  if (leaves_nothing(slot->heap))
    must_be_wiped(block, usable);
}

static void make_room(size_t size)
{
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS && model.live_bytes + size > LIVE_MOST; slot++)
    let_go(slot);
}

/* ---- operations on blocks ---- */

static void take(size_t size)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap();
  let_go(slot);
  make_room(size);
  errno = 0;
  keep(slot, heap, heap ? pool_heap_alloc(model.heaps[heap].heap, size) : pool_alloc(size), size, 16);
}

static void op_alloc(void) { take(some_size()); }

static void take_zeroed(size_t size)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap(), how = byte();
  let_go(slot);
  make_room(size);
  errno = 0;
  pool_heap_t *of = model.heaps[heap].heap;
  char *block = heap ? (how & 1 ? pool_heap_calloc(of, size, 1) : pool_heap_zalloc(of, size))
                     : (how & 1 ? pool_calloc(1, size) : pool_zalloc(size));
  if (block)
    must_be_zero(block, pool_usable_size(block));
  keep(slot, heap, block, size, 16);
}

static void op_zeroed(void) { take_zeroed(some_size() & 0x1ffff); }

static void take_aligned(size_t size, size_t alignment)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap();
  let_go(slot);
  make_room(size);
  errno = 0;
  pool_heap_t *of = model.heaps[heap].heap;
  keep(slot, heap, heap ? pool_heap_aligned_alloc(of, alignment, size) : pool_aligned_alloc(alignment, size), size, alignment);
}

static void op_aligned(void)
{
  size_t size = some_size() & 0xfffff;
  take_aligned(size, (size_t)1 << byte() % 22);
}

/* The heap of a block, or one that overflows to it. */
static unsigned heap_above(unsigned heap)
{
  unsigned n = byte() % HEAPS;
  return heap && n && model.heaps[n].heap && overflows_to(n, heap) ? n : heap;
}

/* What was there of a block that ended or shrank is gone. */
static void old_bytes_are_gone(const slot_t *was, const char *block, size_t size)
{
  if (!leaves_nothing(was->heap))
    return;
  if (block != was->block)
    must_be_wiped(was->block, was->usable);
  else if (size < was->usable)
    must_be_wiped(was->block + size, was->usable - size);
}

static void reallocate(slot_t *slot, size_t size)
{
  unsigned how = byte();
  make_room(size);
  if (!slot->block)
    return;
  slot_t was = *slot;
  unsigned asked = how & 1 ? was.heap : heap_above(was.heap);
  verify(slot, slot->block, slot->size);
  if (size == 0) {
    let_go(slot);
    return;
  }
  errno = 0;
  model.busy = slot;
  pool_heap_t *heap = model.heaps[asked].heap;
  char *block = asked != was.heap || how & 2 ? pool_heap_realloc(heap, slot->block, size) : pool_realloc(slot->block, size);
  model.busy = NULL;
  if (!block) {
    must(errno == ENOMEM && (may_fail(was.heap, size) || may_fail(asked, size)));
    verify(slot, slot->block, slot->size);
    return;
  }
  must(block == was.block || size > was.usable || size <= was.usable / 2 || model.heaps[was.heap].checked);
  verify(&was, block, size);
  forget(slot);
  old_bytes_are_gone(&was, block, size);
  keep(slot, asked, block, size, 16);
  if (block != was.block)
    answers_agree(was.block);
}

static void op_realloc(void)
{
  slot_t *slot = some_slot();
  reallocate(slot, some_size());
}

static void resize(slot_t *slot, size_t size)
{
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
  old_bytes_are_gone(&was, was.block, size);
  keep(slot, was.heap, was.block, size, 16);
}

static void op_resize(void)
{
  slot_t *slot = some_slot();
  resize(slot, some_size());
}

/* ---- large and huge blocks ---- */

/* Mostly a few units of 64 KiB and a little more or less. */
static size_t some_large_size(void)
{
  size_t n = number(), kind = n & 7, units = n >> 3 & 63, rest = n >> 9;
  if (kind == 0)
    return LARGE_LEAST + (n >> 3) % 2048 * 16;
  if (kind == 1)
    return (1 + units) << 16;
  if (kind == 2)
    return ((1 + units) << 16) + 1 - (rest & 3);
  if (kind == 3)
    return LARGE_LEAST + (n >> 3) * 500;
  return ((1 + units % 8) << 16) - (rest << 9);
}

static size_t some_huge_size(void) { return HUGE_LEAST + 1 + number() * 319; }
static size_t some_size_above_classes(void) { return byte() % 16 == 0 ? some_huge_size() : some_large_size(); }

static slot_t *some_large_slot(void)
{
  slot_t *slot = some_slot();
  for (size_t i = 0; i < SLOTS; i++) {
    slot_t *other = &model.slots[((size_t)(slot - model.slots) + i) % SLOTS];
    if (other->block && other->size >= LARGE_LEAST / 2)
      return other;
  }
  return slot;
}

static void op_large(void) { take(some_large_size()); }
static void op_large_zeroed(void) { take_zeroed(some_large_size()); }
static void op_huge(void) { take(some_huge_size()); }
static void op_huge_zeroed(void) { take_zeroed(some_huge_size()); }

static void op_large_aligned(void)
{
  size_t size = some_size_above_classes();
  take_aligned(size, (size_t)1 << (12 + byte() % 12));
}

static void op_large_realloc(void)
{
  slot_t *slot = some_large_slot();
  reallocate(slot, some_size_above_classes());
}

static void op_large_resize(void)
{
  slot_t *slot = some_large_slot();
  resize(slot, byte() & 1 && slot->size > 2 ? slot->size / 2 + number() % (slot->size / 2) : some_size_above_classes());
}

static void op_large_free(void) { let_go(some_large_slot()); }

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

/* Around a block's ends, and in the memory of heaps, their own records among it. */
static void op_ask_near(void)
{
  const slot_t *slot = some_slot();
  unsigned n = byte() % HEAPS, at = byte();
  const known_heap_t *known = &model.heaps[n];
  ptrdiff_t by = (ptrdiff_t)((size_t)1 << at % 21);
  if (slot->block) {
    answers_agree(slot->block - by);
    answers_agree(slot->block - 1);
    answers_agree(slot->block + slot->usable + by);
  }
  answers_agree((const char *)((uintptr_t)known->heap + at));
  if (known->memory)
    answers_agree(known->memory + number() * 157 % known->memory_size);
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

/* Gives back a block of the heap that asks, if it has one. */
static bool give_something(pool_heap_t *heap, size_t bytes, unsigned attempt, void *context)
{
  (void)bytes, (void)attempt, (void)context;
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot != model.busy && model.heaps[slot->heap].heap == heap) {
      let_go(slot);
      return true;
    }
  return false;
}

static void choose_place(pool_heap_options_t *options, unsigned n, unsigned kind)
{
  switch (kind) {
  case 0: case 1: break;
  case 2: options->budget = (64 + (size_t)byte() * 16) << 10; break;
  case 3: options->budget = (size_t)(1 + byte() % 32) << 20; break;
  case 4: options->reserve = (size_t)(1 + byte() % 8) << 19; break;
  case 5: options->reserve = (size_t)(9 + byte() % 8) << 20; break;
  case 6: options->memory = memories[n] + byte() % 64; options->memory_size = MEMORY_BYTES - 64 - byte() * 256; break;
  case 7: options->memory = large_memory; options->memory_size = LARGE_MEMORY_BYTES - number(); break;
  case 8: options->reserve = (size_t)1 << 20; options->budget = (size_t)3 << 20; break;
  default: options->size_classes = own_classes; options->size_class_count = 6; break;
  }
}

static bool large_memory_is_used(void)
{
  for (const known_heap_t *known = model.heaps; known < model.heaps + HEAPS; known++)
    if (known->memory == large_memory)
      return true;
  return false;
}

static void op_heap_create(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1), kind = byte(), flags = byte(), parent = some_heap(), overflow = some_heap();
  if (model.heaps[n].heap || (kind % 10 == 7 && large_memory_is_used()))
    return;
  pool_heap_options_t options = {0};
  choose_place(&options, n, kind % 10);
  if (flags & 64 && (options.memory || options.reserve || (options.budget && options.budget <= 8 << 20)))
    options.purge_delay_ms = POOL_PURGE_NEVER;
  options.flags = (flags % 8 == 0 ? POOL_HEAP_CHECKED : 0) | (flags % 3 == 0 ? POOL_HEAP_ZERO_ON_FREE : 0);
  if (flags % 11 == 0 && !model.elsewhere)
    options.flags |= POOL_HEAP_SINGLE_THREAD;
  if (kind & 16 && parent)
    options.parent = model.heaps[parent].heap;
  if (kind & 32 && overflow)
    options.overflow = model.heaps[overflow].heap;
  if (kind & 64)
    options.on_exhausted = give_something;
  errno = 0;
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap ? errno == 0 : options.parent || options.memory || options.budget);
  if (heap)
    model.heaps[n] = (known_heap_t){
      .heap = heap,
      .limited = options.budget || options.memory || options.parent,
      .checked = options.flags & POOL_HEAP_CHECKED,
      .single = options.flags & POOL_HEAP_SINGLE_THREAD,
      .zeroes = options.flags & POOL_HEAP_ZERO_ON_FREE,
      .memory = options.memory,
      .memory_size = options.memory_size,
      .parent = options.parent ? parent : 0,
      .overflow = options.overflow ? overflow : 0,
    };
}

typedef struct ended { const char *block; size_t usable; } ended_t;
static ended_t ended[SLOTS];

static size_t forget_blocks_of(unsigned heap)
{
  size_t count = 0;
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot->heap == heap) {
      verify(slot, slot->block, slot->size);
      ended[count++] = (ended_t){slot->block, slot->usable};
      forget(slot);
    }
  return count;
}

static void ended_are_wiped(size_t count)
{
  for (size_t i = 0; i < count; i++)
    must_be_wiped(ended[i].block, ended[i].usable);
}

/* Heaps that lean on this one must go first. */
static void destroy(unsigned n)
{
  if (!model.heaps[n].heap)
    return;
  for (unsigned i = 1; i < HEAPS; i++)
    if (model.heaps[i].heap && (model.heaps[i].parent == n || model.heaps[i].overflow == n))
      destroy(i);
  size_t count = forget_blocks_of(n);
  bool wiped = leaves_nothing(n);
  errno = 0;
  pool_heap_destroy(model.heaps[n].heap);
  must(errno == 0);
  model.heaps[n] = (known_heap_t){0};
  if (wiped)
    ended_are_wiped(count);
}

static void op_heap_destroy(void) { destroy(1 + byte() % (HEAPS - 1)); }

static void op_heap_reset(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1);
  if (!model.heaps[n].heap)
    return;
  size_t count = forget_blocks_of(n);
  pool_heap_reset(model.heaps[n].heap);
  if (leaves_nothing(n))
    ended_are_wiped(count);
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

static void walk_heap(unsigned heap)
{
  visits_t visits = {.heap = heap};
  size_t live = 0;
  must(pool_heap_walk(model.heaps[heap].heap, visit, &visits));
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    live += slot->block && slot->heap == heap;
  must(visits.count == live);
}

static void op_heap_walk(void) { walk_heap(some_heap()); }

static void op_walk_all(void)
{
  for (unsigned heap = 0; heap < HEAPS; heap++)
    if (model.heaps[heap].heap)
      walk_heap(heap);
}

/* What is asked of a checked heap takes some bytes more than the caller may use. */
static size_t figures_agree(unsigned heap)
{
  pool_stats_t stats;
  size_t blocks = 0, bytes = 0;
  must(pool_heap_stats(model.heaps[heap].heap, &stats));
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot->heap == heap) {
      blocks++;
      bytes += slot->usable;
    }
  must(stats.live_blocks == blocks && (model.heaps[heap].checked ? stats.live_bytes >= bytes : stats.live_bytes == bytes));
  must(stats.live_bytes + stats.cached_bytes + stats.idle_bytes + stats.metadata_bytes + stats.children_bytes == stats.held_bytes);
  must(stats.peak_held_bytes >= stats.held_bytes && (!stats.budget || stats.held_bytes <= stats.budget));
  return stats.held_bytes;
}

static void op_figures(void) { figures_agree(some_heap()); }

/* What a heap holds is held by its parent too. */
static void all_figures_agree(void)
{
  size_t held[HEAPS], below[HEAPS] = {0};
  for (unsigned heap = 0; heap < HEAPS; heap++)
    held[heap] = model.heaps[heap].heap ? figures_agree(heap) : 0;
  for (unsigned heap = 1; heap < HEAPS; heap++)
    below[model.heaps[heap].parent] += held[heap];
  for (unsigned heap = 1; heap < HEAPS; heap++)
    must(held[heap] >= below[heap]);
}

/* ---- children ---- */

/* What the other thread had cached is lost to the child and looks live there, so only this thread's own view is checked. */
static void live_on(void)
{
  model.is_child = true;
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block)
      verify(slot, slot->block, slot->size);
  for (unsigned n = byte() % 64, first = byte(), i = 0; i < n; i++)
    let_go(&model.slots[(first + i) % SLOTS]);
  for (unsigned n = byte() % 16, i = 0; i < n; i++) {
    take(i & 1 ? some_size() : some_large_size());
    take_zeroed(i & 1 ? some_size() & 0x1ffff : some_large_size());
  }
  for (unsigned n = 1; n < HEAPS; n++)
    if (model.heaps[n].heap && byte() & 1)
      destroy(n);
  pool_trim(0);
  must(check_everything());
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block)
      verify(slot, slot->block, slot->size);
}

static void op_fork(void)
{
  if (model.is_child)
    return;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    live_on();
    _exit(0);
  }
  int status;
  must(waitpid(child, &status, 0) == child && status == 0);
  errno = 0;
}

/* ---- the second thread ---- */

static struct {
  pthread_t   thread;
  bool        runs;
  sem_t       asked, done;
  void      (*act)(void);              /* NULL: end */
} other;

static void *obey(void *unused)
{
  for (;;) {
    sem_wait(&other.asked);
    if (!other.act)
      return unused;
    other.act();
    sem_post(&other.done);
  }
}

static bool any_single(void)
{
  for (const known_heap_t *known = model.heaps; known < model.heaps + HEAPS; known++)
    if (known->single)
      return true;
  return false;
}

static void do_elsewhere(void (*act)(void))
{
  if (!other.runs) {
    must(sem_init(&other.asked, 0, 0) == 0 && sem_init(&other.done, 0, 0) == 0);
    must(pthread_create(&other.thread, NULL, obey, NULL) == 0);
    other.runs = true;
  }
  model.elsewhere = true;
  other.act = act;
  sem_post(&other.asked);
  while (sem_wait(&other.done) != 0) {
  }
  model.elsewhere = false;
}

static void end_other(void)
{
  if (!other.runs)
    return;
  other.act = NULL;
  sem_post(&other.asked);
  must(pthread_join(other.thread, NULL) == 0);
  other.runs = false;
}

static void op_thread_end(void)
{
  if (!model.elsewhere && !model.is_child)
    end_other();
}

static void one_op(void);

/* Up to four operations, without a heap that is for the first thread alone. */
static void some_ops(void)
{
  for (unsigned n = 1 + byte() % 4; n > 0; n--)
    one_op();
}

static void op_elsewhere(void)
{
  if (fuzz_alone || model.elsewhere || model.is_child || any_single())
    some_ops();
  else
    do_elsewhere(some_ops);
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

/* Of the bytes from MORE_FROM on. */
static const op_t more_ops[] = {
  {"large", op_large, 8},            {"large_zeroed", op_large_zeroed, 8}, {"large_aligned", op_large_aligned, 2},
  {"large_realloc", op_large_realloc, 8}, {"large_resize", op_large_resize, 8}, {"large_free", op_large_free, 8},
  {"huge", op_huge, 1},              {"huge_zeroed", op_huge_zeroed, 1}, {"ask_near", op_ask_near, 3},
  {"walk_all", op_walk_all, 1},      {"fork", op_fork, 1},             {"thread_end", op_thread_end, 1},
  {"elsewhere", op_elsewhere, 14},
};
enum { MORE_FROM = 192 };

static const op_t *op_of(const op_t *table, size_t count, unsigned n)
{
  for (size_t i = 0; i < count; i++) {
    if (n < table[i].weight)
      return &table[i];
    n -= table[i].weight;
  }
  return &table[0];
}

static void one_op(void)
{
  unsigned n = byte();
  const op_t *op = n < MORE_FROM ? op_of(ops, sizeof ops / sizeof *ops, n & 63)
                                 : op_of(more_ops, sizeof more_ops / sizeof *more_ops, n - MORE_FROM);
  const char *before = model.op;
  model.op = op->name;
  op->run();
  model.op = before;
}

/* None was lost on the way: those that are not in use can be had. */
static bool all_units_are_free(void)
{
  for (size_t slot = 0; slot < window_slots_open(); slot++) {
    const arena_t *arena = space_arena_at(slot);
    if (arena && arena->space == &space_of_process && bits_count(arena->room.map, 0, arena->unit_count) != arena->unit_count)
      return false;
  }
  return true;
}

/* Ends as it began, so that one input does not depend on another. */
static void end_all(void)
{
  pool_stats_t stats;
  model.op = "the end";
  all_figures_agree();
  op_walk_all();
  end_other();
  for (unsigned i = HEAPS - 1; i > 0; i--)
    destroy(i);
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    let_go(slot);
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.live_bytes == 0 && model.live_bytes == 0);
  pool_trim(0);
  must(check_everything());
  must(space_of_process.used_units == 0 && all_units_are_free());
  memset(model.freed, 0, sizeof model.freed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  model.data = data;
  model.end = data + size;
  model.heaps[0].heap = pool_heap_default();
  for (unsigned count = 1; model.data < model.end; count++) {
    one_op();
    if (count % OPS_PER_CHECK == 0) {
      must(check_everything());
      all_figures_agree();
    }
  }
  end_all();
  return 0;
}
