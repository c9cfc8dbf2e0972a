/* SPDX-License-Identifier: MIT
 * Starts and ends the threads of the library, and runs the one that returns memory. */
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include "os/lock.h"

enum { JOIN_STEP_MS = 5, MANY = HELPERS_FEW + 1 };

bool helpers_may_begin;
uint32_t helpers_due;
static bool have_ended;
static THREAD_LOCAL bool were_alone; /* several threads may fork at once */

unsigned helpers_beside(void)
{
  unsigned all = os_threads();
  return all > 0 && all <= HELPERS_FEW ? all - (unsigned)min_size(all, os_started_threads()) : MANY;
}

/* A signal handler may end the process while this very thread holds a lock that it would wait for. */
void helpers_note_end(void)
{
  have_ended = true;
  if (helpers_beside() == 1)
    lock_may_be_own = true;
}

bool helpers_are_alone(void) { return os_single_threaded() || (have_ended && helpers_beside() == 1); }

void helpers_fork_prepare(bool are_there) { were_alone = are_there && helpers_beside() == 1; }

void helpers_fork_child(unsigned those) { __atomic_store_n(&helpers_due, were_alone ? those : 0, __ATOMIC_RELAXED); }

COLD bool helpers_take_due(helper_t helper)
{
  return __atomic_fetch_and(&helpers_due, ~(uint32_t)helper, __ATOMIC_RELAXED) & helper;
}

bool helpers_join(os_helper_t thread, void (*wake)(void), unsigned most_ms)
{
  bool joined = false;
  for (unsigned waited = 0; !joined && waited < most_ms; waited += JOIN_STEP_MS) {
    wake();
    joined = os_join_thread(thread, JOIN_STEP_MS);
  }
  return joined;
}

enum {
  EPOCH_LEAST_MS = 25,     /* the thread looks no more often, however short the purge delay is */
  EPOCH_MOST_MS = 1 << 20, /* a sleep is 32 bits of microseconds */
  ALONE_MS = 1000,         /* interval of checks for threads without a record */
  LATELY_EPOCHS = 4,       /* a thread that has not looked for so long is no longer relied on */
  END_MS = 2000,           /* limit, because the thread may wait for a lock whose holder ends the process in a signal handler */
  END_NEVER_MS = UINT32_MAX
};

static lock_t background_lock; /* serializes start and stop. Outside of all other locks, because starting allocates */
static bool ends, begun, no_record_left;
bool background_runs;

static unsigned epoch_ms(void)
{
  unsigned epoch = settings.purge_delay_ms / TICKS_PER_DELAY;
  return epoch < EPOCH_LEAST_MS ? EPOCH_LEAST_MS : epoch > EPOCH_MOST_MS ? EPOCH_MOST_MS : epoch;
}

/* ---- the thread ---- */

static bool is_over(void) { return __atomic_load_n(&ends, __ATOMIC_ACQUIRE); }

/* Threads that never allocated have no record. Counting them reads files, and is done once no record is left. */
static bool is_last(void)
{
  lock_acquire(&threads_lock);
  bool any = threads_first() != NULL;
  lock_release(&threads_lock);
  if (any)
    __atomic_store_n(&no_record_left, false, __ATOMIC_RELAXED);
  return !any && !helpers_beside();
}

/* Returns the time to sleep; 0: until woken. If nothing is left, the thread looks once more after an epoch (os/lock.h). */
static uint32_t sleep_ms(bool left)
{
  bool waits = __atomic_load_n(&sleeper.waits, __ATOMIC_RELAXED);
  __atomic_store_n(&sleeper.waits, !left, __ATOMIC_RELAXED);
  if (__atomic_load_n(&no_record_left, __ATOMIC_RELAXED))
    return ALONE_MS;
  return left || !waits ? epoch_ms() : 0;
}

static void look_for_ever(void)
{
  for (;;) {
    uint32_t word = __atomic_load_n(&sleeper.word, __ATOMIC_ACQUIRE);
    if (is_over() || (__atomic_load_n(&no_record_left, __ATOMIC_RELAXED) && is_last()))
      return;
    bool left = heap_tick_all();
    if (!is_over())
      os_wait(&sleeper.word, word, sleep_ms(left) * 1000);
  }
}

bool background_has_looked(uint64_t now_ms)
{
  return now_ms - __atomic_load_n(&space_of_process.epoch_ms, __ATOMIC_RELAXED) < (uint64_t)LATELY_EPOCHS * epoch_ms();
}

void background_note_last(void)
{
  if (!__atomic_load_n(&background_runs, __ATOMIC_RELAXED))
    return;
  __atomic_store_n(&no_record_left, true, __ATOMIC_RELAXED);
  sleeper_wake();
}

/* ---- start and stop ---- */

static int begin_thread(void)
{
  ends = no_record_left = false;
  __atomic_store_n(&sleeper.waits, 0, __ATOMIC_RELAXED);
  int error = os_start_thread(OS_BACKGROUND, look_for_ever);
  __atomic_store_n(&background_runs, !error, __ATOMIC_RELAXED);
  return error;
}

int background_start(void)
{
  LOCKED(&background_lock);
  begun = true;
  helpers_take_due(HELPER_BACKGROUND); /* or calls by pthread_create() would come here again */
  return background_runs ? 0 : begin_thread();
}

static bool end_thread_within(unsigned most_ms)
{
  __atomic_store_n(&ends, true, __ATOMIC_RELEASE);
  bool ended = helpers_join(OS_BACKGROUND, sleeper_wake, most_ms);
  if (ended) {
    __atomic_store_n(&background_runs, false, __ATOMIC_RELAXED);
    __atomic_store_n(&sleeper.waits, 0, __ATOMIC_RELAXED);
  }
  return ended;
}

void background_stop(void)
{
  LOCKED(&background_lock);
  begun = true;
  helpers_take_due(HELPER_BACKGROUND);
  if (background_runs)
    end_thread_within(END_NEVER_MS);
}

static void begin_or_warn(void)
{
  if (background_start() != 0)
    warn("background=1", BACKGROUND_IS_OFF);
}

void background_begin_if(void)
{
  if (settings.background && helpers_may_begin && manager_is_up() && !begun)
    begin_or_warn();
}

/* Takes no lock: the exit may have interrupted a start. */
void background_end(void)
{
  if (__atomic_load_n(&background_runs, __ATOMIC_RELAXED) && end_thread_within(END_MS))
    helpers_note_end();
}

/* ---- forks ---- */

bool background_is_there(void) { return __atomic_load_n(&background_runs, __ATOMIC_RELAXED); }

bool background_fork_child(void)
{
  bool was_there = background_runs;
  lock_reset(&background_lock);
  background_runs = false;
  sleeper.waits = 0;
  return was_there;
}

void background_begin_due(void)
{
  if (helpers_take_due(HELPER_BACKGROUND))
    begin_or_warn();
}
