/* SPDX-License-Identifier: MIT
 *
 * What record.h counts, for each thread by itself: a row for each lock that it takes, the place where it does, and the place
 * that holds another lock meanwhile. A lock remembers which thread had it last, in two bytes of it that are not used otherwise.
 * So a row tells times when the lines came from this core's cache from times when another core had them.
 *
 * Times without what the clock itself takes. What is longer than CUT_NS is left out of the sums: the thread was not running. */
#include "record.h"
#include "cores.h"
#include "timer.h"
#include <stdio.h>
#include <string.h>

/* The clock of the recorder must be cheaper than a lock that is held. */
#ifdef __x86_64__
static uint64_t ticks(void) { return __builtin_ia32_rdtsc(); }
#else
static uint64_t ticks(void) { return timer_nanoseconds(); }
#endif

enum { ROWS = 4096, NESTED_MOST = 64, CUT_NS = 20000, LAST_HOLDER = 3 /* in half words */ };
_Static_assert(sizeof(lock_t) == 8, "the last half word of a lock is not used");

typedef struct times {
  uint64_t count, ticks, cut;
} times_t;

typedef struct row {
  const record_site_t *site, *within;
  const lock_t *lock;
  times_t took[2], held[2], waited; /* [1]: another thread had the lock last. took: without waiting */
} row_t;

typedef struct holding {
  lock_t *lock;
  row_t *row;
  const record_site_t *site;
  uint64_t begin, inner;
  bool was_elsewhere;
} holding_t;

struct recorded {
  row_t rows[ROWS];
};

static THREAD_LOCAL recorded_t *own; /* NULL: nothing is counted */
static THREAD_LOCAL uint16_t own_number;
static THREAD_LOCAL holding_t holdings[NESTED_MOST];
static THREAD_LOCAL int holding_count;
static uint64_t clock_ticks;
static double ticks_per_ns = 1;
static unsigned processor_count = 1;

unsigned record_processor(void) { return own_number ? own_number - 1u : 0; }
unsigned record_processors(void) { return processor_count; }

void record_init(unsigned processors)
{
  processor_count = processors;
  enum { LOOKS = 10000 };
  uint64_t ns = timer_nanoseconds(), first = ticks(), least = UINT64_MAX;
  for (int i = 0; i < LOOKS; i++) {
    uint64_t begin = ticks(), took = ticks() - begin;
    least = took < least ? took : least;
  }
  do {
  } while (timer_nanoseconds() - ns < 20000000);
  ticks_per_ns = (double)(ticks() - first) / (double)(timer_nanoseconds() - ns);
  clock_ticks = least;
}

size_t recorded_bytes(void) { return sizeof(recorded_t); }

void record_thread(unsigned thread) { own_number = (uint16_t)(thread + 1); }
void record_start(recorded_t *recorded) { own = recorded; }

void record_stop(void) { own = NULL; }

recorded_t *record_current(unsigned *thread)
{
  *thread = own_number - 1u;
  return own;
}

uint64_t record_begin(void) { return own ? ticks() : 0; }

static void add(times_t *times, uint64_t took)
{
  took -= took < clock_ticks ? took : clock_ticks;
  times->count++;
  if ((double)took > CUT_NS * ticks_per_ns)
    times->cut++;
  else
    times->ticks += took;
}

static row_t *row_of(const record_site_t *site, const record_site_t *within, const lock_t *lock)
{
  uint64_t hash = ((uintptr_t)lock ^ (uintptr_t)site << 7 ^ (uintptr_t)within << 13) * 0x9e3779b97f4a7c15u;
  for (size_t i = hash >> 52, left = ROWS; left--; i = (i + 1) % ROWS) {
    row_t *row = &own->rows[i];
    if (!row->site)
      *row = (row_t){.site = site, .within = within, .lock = lock};
    if (row->site == site && row->within == within && row->lock == lock)
      return row;
  }
  return NULL;
}

void record_taken(lock_t *lock, const record_site_t *site, uint64_t begin, bool waited)
{
  if (!own || !begin || holding_count == NESTED_MOST)
    return;
  uint64_t now = ticks();
  uint16_t *last = (uint16_t *)lock + LAST_HOLDER;
  bool elsewhere = *last != own_number;
  *last = own_number;
  holding_t *outer = holding_count ? &holdings[holding_count - 1] : NULL;
  row_t *row = row_of(site, outer ? outer->site : NULL, lock);
  if (!row)
    return;
  add(waited ? &row->waited : &row->took[elsewhere], now - begin);
  holdings[holding_count++] =
    (holding_t){.lock = lock, .row = row, .site = site, .begin = ticks(), .inner = 0, .was_elsewhere = elsewhere};
}

/* Locks need not be opened in the reverse order, but nearly always are. What is held within another is not counted twice. */
void record_opens(lock_t *lock)
{
  if (!own)
    return;
  uint64_t now = ticks();
  for (int i = holding_count - 1; i >= 0; i--)
    if (holdings[i].lock == lock) {
      holding_t ends = holdings[i];
      uint64_t held = now - ends.begin;
      memmove(&holdings[i], &holdings[i + 1], (size_t)(holding_count - i - 1) * sizeof *holdings);
      holding_count--;
      add(&ends.row->held[ends.was_elsewhere], held - (ends.inner < held ? ends.inner : held));
      if (i > 0)
        holdings[i - 1].inner += held;
      return;
    }
}

static void print_times(const char *name, const times_t *times, const char *after)
{
  uint64_t counted = times->count - times->cut;
  printf("\"%s\": [%llu, %.1f, %llu]%s", name, (unsigned long long)times->count,
         counted ? (double)times->ticks / (double)counted / ticks_per_ns : 0, (unsigned long long)times->cut, after);
}

bool record_print(const recorded_t *recorded, unsigned thread, bool first)
{
  for (size_t i = 0; i < ROWS; i++) {
    const row_t *row = &recorded->rows[i];
    if (!row->site)
      continue;
    printf("%s\n  {\"thread\": %u, \"site\": \"%s %s\", \"within\": ", first ? "" : ",", thread, row->site->function,
           row->site->lock);
    if (row->within)
      printf("\"%s %s\", ", row->within->function, row->within->lock);
    else
      printf("null, ");
    printf("\"lock\": \"%p\", ", (const void *)row->lock);
    print_times("took_own", &row->took[0], ", ");
    print_times("took_other", &row->took[1], ", ");
    print_times("held_own", &row->held[0], ", ");
    print_times("held_other", &row->held[1], ", ");
    print_times("waited", &row->waited, "}");
    first = false;
  }
  return first;
}
