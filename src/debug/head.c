/* SPDX-License-Identifier: MIT
 *
 * Every byte of a block's memory has a known value, except the requested bytes of a live block. So a write before the block,
 * past its end, or after its free changes a byte whose value is known. */
#include "debug/head.h"
#include "base/fill.h"
#include "debug/head_layout.h"
#include "debug/sites.h"
#include "misuse.h"
#include "os/tool.h"
#include <string.h>

enum { NEW_BYTE = 0xcd, CANARY_BYTE = 0xfb };
static const pattern_t CANARIES = {{CANARY_BYTE, CANARY_BYTE, CANARY_BYTE, CANARY_BYTE}};

_Static_assert(sizeof(head_t) < HEAD_FRONT, "room for the head and a canary");

#define LIVE_MARK   ((uintptr_t)0x9e3779b97f4a7c15)
#define DEAD_MARK   ((uintptr_t)0xd6e8feb86659fd93)
#define NO_LINK     ((uintptr_t)0xfbfbfbfbfbfbfbfb)               /* of a live block: a write of zeros is found, too */
#define NUMBER_MASK (((uintptr_t)1 << 2 * sizeof(uintptr_t)) - 1) /* a quarter of a word */

static size_t front_of(const head_t *head)
{
  unsigned log2 = head->freed_and_front & ((1u << FRONT_BITS) - 1);
  return log2 < ADDRESS_BITS ? (size_t)1 << log2 : 0;
}
static site_t freed_at(const head_t *head) { return head->freed_and_front >> FRONT_BITS; }
static void set_freed_at(head_t *head, site_t site)
{
  head->freed_and_front = (head->freed_and_front & ((1u << FRONT_BITS) - 1)) | site << FRONT_BITS;
}

static head_t *head_of(const char *start) { return (head_t *)(uintptr_t)start; }

static const uintptr_t ODD = (uintptr_t)0xff51afd7ed558ccd, ALSO_ODD = (uintptr_t)0xc4ceb9fe1a85ec53;

static uintptr_t mixed(uintptr_t sum, uintptr_t word)
{
  sum = (sum ^ word) * ODD;
  return sum ^ sum >> sizeof sum * 4;
}

/* Returns the sum, which includes the head's number. DEAD_BIT tells freed heads apart: with 32-bit words one in 2^24 pairs of
 * sums is equal by chance, and an intact block would then be misjudged. The sum is computed some six times per block, so its
 * steps are independent: any changed word changes the sum of all words, which is mixed once. */
__attribute__((always_inline)) static inline uintptr_t sum_of(const head_t *at, const head_t *head, uintptr_t mark)
{
  uintptr_t number = (head->sum & NUMBER_MASK & ~DEAD_BIT) | (mark == DEAD_MARK ? DEAD_BIT : 0);
  uintptr_t sites = head->allocated * ODD + head->freed_and_front * ALSO_ODD;
  uintptr_t sum = mixed(mark ^ (uintptr_t)at ^ number, (head->size * ALSO_ODD + head->usable) ^ sites);
  return (mixed(sum, 0) & ~NUMBER_MASK) | number;
}

static uintptr_t link_sum(const head_t *at, uintptr_t next) { return mixed(DEAD_MARK ^ (uintptr_t)at, next); }

static block_kind_t kind_of_head(const head_t *head) { return head->sum & ((1 << KIND_BITS) - 1); }

/* head_close() writes the site before the sum that includes it. */
static bool is_sum_of_returned(const head_t *at, const head_t *head)
{
  head_t without = *head;
  set_freed_at(&without, 0);
  return head->sum == sum_of(at, head, DEAD_MARK) || head->sum == sum_of(at, &without, DEAD_MARK);
}

/* The owner may be writing without a lock: any whole words will do. */
READS_BESIDE_OWNER static head_state_t head_says(const char *start, size_t usable, head_t *head)
{
  const volatile head_t *at = head_of(start);
  *head = (head_t){at->size, at->allocated, at->freed_and_front, at->usable, __atomic_load_n(&at->sum, __ATOMIC_ACQUIRE), 0, 0};
  size_t front = front_of(head);
  if (head->usable != usable || usable < HEAD_BYTES || front < HEAD_FRONT || front > usable - HEAD_BEHIND ||
      head->size > usable - HEAD_BEHIND - front)
    return HEAD_NONE;
  if (!(head->sum & DEAD_BIT))
    return head->sum == sum_of(head_of(start), head, LIVE_MARK) ? HEAD_LIVE : HEAD_NONE;
  return is_sum_of_returned(head_of(start), head) ? HEAD_FREED : HEAD_NONE;
}

/* The head of a block that another thread is about to open may still be closed. */
head_look_t head_look(const char *start, size_t usable)
{
  head_t head;
  if (unlikely(os_tool.sees_all))
    os_tool_begin_silence();
  head_state_t state = head_says(start, usable, &head);
  if (unlikely(os_tool.sees_all))
    os_tool_end_silence();
  if (!state && is_dead(&head, offsetof(head_t, next)))
    return (head_look_t){.state = HEAD_FREED};
  if (!state)
    return (head_look_t){0};
  return (head_look_t){state,     kind_of_head(&head), (char *)(uintptr_t)start + front_of(&head),
                       head.size, head.allocated,      freed_at(&head),
                       head.sum};
}

/* ---- tools ---- */

/* Heads stay accessible, because they are read from everywhere. A tool closes the objects of an array in a block of an unmarked
 * heap, together with the bytes in front of the first. */
static bool is_marked(const headed_t *at) { return HAS_TOOLS && unlikely(at->marked); }
static bool may_be_closed(const headed_t *at) { return HAS_TOOLS && unlikely(at->marked || os_tool.sees_all); }

static void be_silent(const headed_t *at)
{
  if (may_be_closed(at))
    os_tool_begin_silence();
}

static void be_heard(const headed_t *at)
{
  if (may_be_closed(at))
    os_tool_end_silence();
}

static void open_whole(const headed_t *at)
{
  if (may_be_closed(at))
    os_tool_open(at->start + sizeof(head_t), at->usable - sizeof(head_t));
}

static void close_whole(const headed_t *at)
{
  if (is_marked(at))
    os_tool_close(at->start + sizeof(head_t), at->usable - sizeof(head_t));
}

static void mark_live(const headed_t *at, const char *block, size_t size)
{
  KEEPS_FRAME();
  if (!is_marked(at))
    return;
  close_whole(at);
  os_tool_begin_block(at->heap, block, size);
  os_tool_forget(block, size);
}

static void mark_returned(const headed_t *at, const char *block, size_t size)
{
  KEEPS_FRAME();
  if (!is_marked(at))
    return;
  os_tool_leave_order(at->heap);
  os_tool_end_block(at->heap, block, size);
  close_whole(at);
}

/* ---- damage ---- */

/* Names the head's sites as well. `head` NULL: it cannot be trusted. */
static _Noreturn void damaged(const headed_t *at, const head_t *head, const char *block, const char *what, const char *where,
                              size_t size)
{
  if (head)
    sites_say(head->allocated, freed_at(head));
  fatal_damage(at->call, block, what, where - block, at->heap, size);
}

/* The wrong byte nearest to the block points to the culprit. NULL: canary and link are intact. */
READS_BESIDE_OWNER static const char *wrong_in_front(const char *start, const char *block)
{
  const char *wrong = NULL, *from = start + sizeof(head_t);
  while ((from = pattern_find_other(from, block, CANARIES)) != NULL)
    wrong = from++;
  if (unlikely(wrong != NULL))
    return wrong;
  const head_t *head = head_of(start);
  return head->next == NO_LINK && head->next_sum == link_sum(head, NO_LINK) ? NULL : start + sizeof(head_t) - 1;
}

/* Neither the changed byte nor the requested size is known: names the last byte and the largest size. */
void head_damaged(headed_t at, const char *block)
{
  const char *where = at.head_only ? NULL : wrong_in_front(at.start, block), *end = at.start + at.usable - HEAD_BEHIND;
  damaged(&at, NULL, block, BEFORE_ITS_BEGINNING, where ? where : at.start + offsetof(head_t, next) - 1,
          block < end ? (size_t)(end - block) : 0);
}

READS_BESIDE_OWNER static const char *wrong_behind(const headed_t *at, const head_t *head)
{
  return pattern_find_other(at->start + front_of(head) + head->size, at->start + at->usable, CANARIES);
}

static void report_canaries(const headed_t *at, const head_t *head, const char *front, const char *behind)
{
  const char *block = at->start + front_of(head);
  if (front)
    damaged(at, head, block, BEFORE_ITS_BEGINNING, front, head->size);
  if (behind)
    damaged(at, head, block, PAST_ITS_END, behind, head->size);
}

static void verify_canaries(const headed_t *at, const head_t *head)
{
  report_canaries(at, head, wrong_in_front(at->start, at->start + front_of(head)), wrong_behind(at, head));
}

/* The sum marks a block live only after its canaries are written (head_open), and not live before they are overwritten
 * (head_close). So a canary that is wrong between two looks was overwritten if both find the same use of the block live. */
void head_verify_live(headed_t at, bool alone)
{
  head_t head, again;
  head_state_t state = head_says(at.start, at.usable, &head);
  if (state == HEAD_NONE && alone)
    head_damaged(at, at.start + HEAD_FRONT);
  if (state != HEAD_LIVE)
    return;
  be_silent(&at);
  const char *front = wrong_in_front(at.start, at.start + front_of(&head)), *behind = wrong_behind(&at, &head);
  be_heard(&at);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (head_says(at.start, at.usable, &again) == HEAD_LIVE && again.sum == head.sum)
    report_canaries(&at, &head, front, behind);
}

/* The length of the block is unknown if more than the link was changed. */
static void verify_link(const headed_t *at, const head_t *head)
{
  const head_t *place = head_of(at->start);
  if (unlikely(!head || place->next_sum != link_sum(place, place->next)))
    damaged(at, head, at->start + HEAD_FRONT, AFTER_FREE, at->start + sizeof *head - 1, 0);
}

/* Ends the program at the first wrong byte: its offset points to the culprit. `head` describes the memory behind it. */
static void verify_pattern(const headed_t *at, const head_t *head)
{
  be_silent(at);
  size_t behind = head ? sizeof *head : 0;
  const char *wrong = dead_find_written(at->start + behind, at->usable - behind);
  be_heard(at);
  if (unlikely(wrong != NULL))
    damaged(at, head, at->start + (head ? front_of(head) : 0), AFTER_FREE, wrong, head ? head->size : at->usable);
}

/* Freed granules have no head. Freed memory of a slab keeps the head of its last block. */
static void verify_what_was_returned(const headed_t *at)
{
  head_t head;
  bool known = head_says(at->start, at->usable, &head) == HEAD_FREED;
  verify_pattern(at, known ? &head : NULL);
  if (known)
    verify_link(at, &head);
}

/* ---- transitions ---- */

/* The block is live from here on, and everything around it is in place. */
static void publish(head_t *head, size_t size, size_t front, size_t usable, block_kind_t kind, site_t site)
{
  static uintptr_t last_number;
  uintptr_t number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
  number = (number << (KIND_BITS + 1) | kind) & NUMBER_MASK;
  head_t live = {.size = size, .allocated = site, .freed_and_front = log2_floor(front), .usable = usable, .sum = number};
  head->size = size;
  head->allocated = site;
  head->freed_and_front = live.freed_and_front;
  head->usable = usable;
  __atomic_store_n(&head->sum, sum_of(head, &live, LIVE_MARK), __ATOMIC_RELEASE);
}

void *head_open(headed_t at, size_t size, size_t alignment, bool was_returned)
{
  size_t front = max_size(HEAD_FRONT, alignment);
  char *block = at.start + front;
  head_t *head = head_of(at.start);
  if (is_marked(&at))
    os_tool_meet_order(at.heap);
  if (may_be_closed(&at))
    os_tool_open(at.start, at.usable);
  if (!at.head_only) {
    if (was_returned)
      verify_what_was_returned(&at);
    memset(at.start + sizeof(head_t), CANARY_BYTE, front - sizeof(head_t));
    memset(block, NEW_BYTE, size);
    memset(block + size, CANARY_BYTE, at.usable - front - size);
  }
  head->next = NO_LINK;
  head->next_sum = link_sum(head, NO_LINK);
  publish(head, size, front, at.usable, kind_allocated_by(at.call), at.site);
  mark_live(&at, block, size);
  return block;
}

void head_shorten(headed_t at, size_t size)
{
  head_t *head = head_of(at.start);
  open_whole(&at);
  if (!at.head_only) {
    verify_canaries(&at, head);
    memset(at.start + front_of(head) + size, CANARY_BYTE, head->size - size);
  }
  publish(head, size, front_of(head), at.usable, kind_of_head(head), head->allocated);
  if (is_marked(&at)) {
    close_whole(&at);
    os_tool_open(at.start + front_of(head), size);
  }
}

/* The sum decides which of two threads that free the same block goes on. The canaries are verified before they are overwritten:
 * this is the last chance to find a write past the block. The site comes last, once it is known which thread frees the block.
 * The sum excludes it until then. */
bool head_close(headed_t at)
{
  head_t head, *place = head_of(at.start);
  bool is_live = head_says(at.start, at.usable, &head) == HEAD_LIVE;
  uintptr_t live = head.sum, dead = sum_of(place, &head, DEAD_MARK);
  if (!is_live || !__atomic_compare_exchange_n(&place->sum, &live, dead, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return false;
  open_whole(&at);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* a thread that sees any later write sees the sum */
  if (!at.head_only) {
    verify_canaries(&at, &head);
    dead_fill(place + 1, at.usable - sizeof head);
  }
  if (at.site) {
    set_freed_at(&head, at.site);
    place->freed_and_front = head.freed_and_front;
    __atomic_store_n(&place->sum, sum_of(place, &head, DEAD_MARK), __ATOMIC_RELEASE);
  }
  mark_returned(&at, at.start + front_of(&head), head.size);
  return true;
}

/* ---- closed blocks ---- */

size_t head_usable(const char *start) { return head_of(start)->usable; }
char *head_next(const char *start) { return (char *)head_of(start)->next; }

bool head_is_linked(const char *start, const char *next)
{
  const head_t *head = head_of(start);
  return head->next == (uintptr_t)next && head->next_sum == link_sum(head, head->next);
}

void head_link(char *start, char *next)
{
  head_t *head = head_of(start);
  head->next = (uintptr_t)next;
  head->next_sum = link_sum(head, head->next);
}

static head_t verified_head(const headed_t *at)
{
  head_t head;
  const head_t *place = head_of(at->start);
  bool known = head_says(at->start, place->usable, &head) == HEAD_FREED;
  verify_link(at, known ? &head : NULL);
  return head;
}

void head_verify_head(headed_t at) { verified_head(&at); }

void head_verify_returned(headed_t at)
{
  head_t head = verified_head(&at);
  verify_pattern(&at, &head);
}

void head_drop(headed_t at)
{
  verify_pattern(&at, head_of(at.start));
  if (!at.in_granules)
    return;
  dead_fill(at.start, sizeof(head_t));
  if (is_marked(&at))
    os_tool_close(at.start, sizeof(head_t));
}

/* ---- kinds of calls ---- */

static const char NEW_CALL[] = "operator new", DELETE_CALL[] = "operator delete", OWN_CALLS[] = "pool_";
static const char *const malloc_calls[] = {"malloc",   "calloc",         "realloc", "aligned_alloc",
                                           "memalign", "posix_memalign", "valloc",  "pvalloc"};
static const char *const free_calls[] = {"free", "free_sized", "free_aligned_sized", "realloc"};

/* Firmware has no string functions. Returns the length of `name` if the call begins with it, else 0. */
static size_t begins_with(const char *call, const char *name)
{
  size_t i = 0;
  while (name[i] && call[i] == name[i])
    i++;
  return name[i] ? 0 : i;
}

static bool is_among(const char *call, const char *const *calls, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    size_t length = begins_with(call, calls[i]);
    if (length && !call[length])
      return true;
  }
  return false;
}

/* Runs for each block of a checked heap, so the most frequent kind comes first. */
static block_kind_t kind_of(const char *call, const char *by_operator, const char *const *calls, size_t count)
{
  size_t length = begins_with(call, by_operator);
  if (length)
    return call[length] == '[' ? KIND_NEW_ARRAY : KIND_NEW;
  return !begins_with(call, OWN_CALLS) && is_among(call, calls, count) ? KIND_MALLOC : KIND_ANY;
}

block_kind_t kind_allocated_by(const char *call)
{
  return kind_of(call, NEW_CALL, malloc_calls, sizeof malloc_calls / sizeof *malloc_calls);
}

block_kind_t kind_freed_by(const char *call)
{
  return kind_of(call, DELETE_CALL, free_calls, sizeof free_calls / sizeof *free_calls);
}
