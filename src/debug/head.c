/* SPDX-License-Identifier: MIT
 *
 * Every byte of a block has a known value, except those that the caller has asked for, and these only while the block is live.
 * So a write before its beginning, past its end, or after the free, changes a byte whose value is known. */
#include "debug/head.h"
#include "base/pattern.h"
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
#define NO_LINK     ((uintptr_t)0xfbfbfbfbfbfbfbfb)               /* of a live block: a write of zeros is seen, too */
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

/* With the number that the head has. A bit of it tells a block that came back: of two sums one in 2^24 is the same by chance
 * where words have 32 bits, and then a block that is whole would be misjudged. It is computed some six times for each block, so
 * nothing in it waits for all the rest: a word that changes changes the sum of all, and that is mixed once. */
__attribute__((always_inline)) static inline uintptr_t sum_of(const head_t *at, const head_t *head, uintptr_t mark)
{
  uintptr_t number = (head->sum & NUMBER_MASK & ~DEAD_BIT) | (mark == DEAD_MARK ? DEAD_BIT : 0);
  uintptr_t sites = head->allocated * ODD + head->freed_and_front * ALSO_ODD;
  uintptr_t sum = mixed(mark ^ (uintptr_t)at ^ number, (head->size * ALSO_ODD + head->usable) ^ sites);
  return (mixed(sum, 0) & ~NUMBER_MASK) | number;
}

static uintptr_t link_sum(const head_t *at, uintptr_t next) { return mixed(DEAD_MARK ^ (uintptr_t)at, next); }

/* Its lowest bits are the kind. */
static block_kind_t kind_of_head(const head_t *head) { return head->sum & ((1 << KIND_BITS) - 1); }

/* For a moment the site is there already, or not yet, and the sum is without it (head_close). */
static bool is_sum_of_returned(const head_t *at, const head_t *head)
{
  head_t without = *head;
  set_freed_at(&without, 0);
  return head->sum == sum_of(at, head, DEAD_MARK) || head->sum == sum_of(at, &without, DEAD_MARK);
}

/* It may be asked beside the owner, who writes without a lock: any whole words will do. */
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

/* Of a block that another thread is about to open the head may still be closed. */
head_look_t head_look(const char *start, size_t usable)
{
  head_t head;
  if (HAS_SYSTEM && unlikely(os_tool.sees_all))
    os_tool_begin_silence();
  head_state_t state = head_says(start, usable, &head);
  if (HAS_SYSTEM && unlikely(os_tool.sees_all))
    os_tool_end_silence();
  if (!state && is_dead(&head, offsetof(head_t, next)))
    return (head_look_t){.state = HEAD_FREED};
  if (!state)
    return (head_look_t){0};
  return (head_look_t){state,     kind_of_head(&head), (char *)(uintptr_t)start + front_of(&head),
                       head.size, head.allocated,      freed_at(&head),
                       head.sum};
}

/* ---- what a tool is told ---- */

/* Heads stay open: they are looked at from everywhere. Where a heap has no marks, a block of it may still be an array of
 * objects, and those are closed, with what is in front of the first. */
static bool may_be_closed(const headed_t *at) { return HAS_SYSTEM && unlikely(at->marked || os_tool.sees_all); }

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
  if (HAS_SYSTEM && unlikely(at->marked))
    os_tool_close(at->start + sizeof(head_t), at->usable - sizeof(head_t));
}

static void mark_live(const headed_t *at, const char *block, size_t size)
{
  KEEPS_FRAME();
  if (!HAS_SYSTEM || likely(!at->marked))
    return;
  close_whole(at);
  os_tool_begin_block(at->heap, block, size);
  os_tool_forget(block, size);
}

static void mark_returned(const headed_t *at, const char *block, size_t size)
{
  KEEPS_FRAME();
  if (!HAS_SYSTEM || likely(!at->marked))
    return;
  os_tool_leave_order(at->heap);
  os_tool_end_block(at->heap, block, size);
  close_whole(at);
}

/* ---- damage ---- */

void head_say_sites(site_t allocated, site_t freed)
{
  frames_told_t of_allocation = {0}, of_free = {0};
  if (!HAS_SYSTEM)
    return;
  of_allocation.count = site_frames(allocated, &of_allocation.frames);
  of_free.count = site_frames(freed, &of_free.frames);
  fatal_say_places(&of_allocation, &of_free);
}

/* What the head says of the sites is said, too. NULL: it cannot be believed. */
static _Noreturn void damaged(const headed_t *at, const head_t *head, const char *block, const char *what, const char *where,
                              size_t size)
{
  if (head)
    head_say_sites(head->allocated, freed_at(head));
  fatal_damage(at->call, block, what, where - block, at->heap, size);
}

/* The nearest wrong byte in front of a block is what leads to the culprit: NULL, if canary and link are whole. */
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

/* Which byte of the head was changed is not known, so the last is named. Nor is what was asked for: at most what there is room
 * for. */
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

/* What was found wrong of a live block. */
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

/* The sum says that a block is live after its canaries are written (head_open), and no more before they are overwritten
 * (head_close). So a canary that was wrong between two looks at the head was written to from outside if both find the block
 * live, for the same time. */
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

/* How long the block was is not known, if it was not the link that was changed. */
static void verify_link(const headed_t *at, const head_t *head)
{
  const head_t *place = head_of(at->start);
  if (unlikely(!head || place->next_sum != link_sum(place, place->next)))
    damaged(at, head, at->start + HEAD_FRONT, AFTER_FREE, at->start + sizeof *head - 1, 0);
}

/* The first wrong byte ends the program: its offset is what leads to the culprit. Memory behind a head is asked about with what
 * that says. */
static void verify_pattern(const headed_t *at, const head_t *head)
{
  be_silent(at);
  size_t behind = head ? sizeof *head : 0;
  const char *wrong = dead_find_written(at->start + behind, at->usable - behind);
  be_heard(at);
  if (unlikely(wrong != NULL))
    damaged(at, head, at->start + (head ? front_of(head) : 0), AFTER_FREE, wrong, head ? head->size : at->usable);
}

/* Of memory of granules nothing is known but that it had blocks. That of a slab keeps the head of its last one. */
static void verify_what_was_returned(const headed_t *at)
{
  head_t head;
  bool known = head_says(at->start, at->usable, &head) == HEAD_FREED;
  verify_pattern(at, known ? &head : NULL);
  if (known)
    verify_link(at, &head);
}

/* ---- from one state to the next ---- */

/* From here on the block is live, and all around it as it must be. */
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

/* A block that went through head_close() must still be as that left it. Otherwise it was written to while it was free. */
void *head_open(headed_t at, size_t size, size_t alignment, bool was_returned)
{
  size_t front = max_size(HEAD_FRONT, alignment);
  char *block = at.start + front;
  head_t *head = head_of(at.start);
  if (HAS_SYSTEM && unlikely(at.marked))
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
  if (HAS_SYSTEM && unlikely(at.marked)) {
    close_whole(&at);
    os_tool_open(at.start + front_of(head), size);
  }
}

/* Of two threads that free the same block one changes the sum, and goes on. The canaries are checked before they are
 * overwritten: this is the last moment at which a write past the block can be seen. The site comes last, when it is known who
 * has freed the block: until then the sum is that of a head without it. */
bool head_close(headed_t at)
{
  head_t head, *place = head_of(at.start);
  bool is_live = head_says(at.start, at.usable, &head) == HEAD_LIVE;
  uintptr_t live = head.sum, dead = sum_of(place, &head, DEAD_MARK);
  if (!is_live || !__atomic_compare_exchange_n(&place->sum, &live, dead, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return false;
  open_whole(&at);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* whoever sees what is written from here on sees the sum */
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

/* ---- between the two ---- */

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

void head_settle(headed_t at)
{
  verify_pattern(&at, head_of(at.start));
  if (!at.in_granules)
    return;
  dead_fill(at.start, sizeof(head_t));
  if (HAS_SYSTEM && unlikely(at.marked))
    os_tool_close(at.start, sizeof(head_t));
}
