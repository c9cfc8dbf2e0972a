/* SPDX-License-Identifier: MIT
 *
 * The process that replays. One thread at a time does what is recorded of it, up to where another did something, and hands the
 * turn to that one. So what the threads share here needs no lock: the turn orders it. Nothing in here allocates but the
 * operations, and pthread_create().
 *
 * All of them are on one processor. On two, which the kernel chooses anew at each turn, the time in calls was that of the cache
 * lines that followed, and two runs of tcmalloc differed by 40 %, where it is 15 % now; and turns took three times as long. */
#include "worker.h"
#include "histogram.h"
#include "plan.h"
#include "touch.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 512 << 10, CREATES_MOST = 10000, CLOCK_LOOKS = 20000, CREATE_PAUSE_NS = 1000000 };

/* `turn` is the number of the batch that it may play, from 1 on. Who makes it a new one looks whether it sleeps; who goes to
 * sleep says so and looks again. */
typedef struct player {
  uint32_t turn, sleeps;
} player_t;

static plan_t *plan;
static const operation_t *operations;
static const batch_t *batches;
static const uint32_t *firsts, *samples;
static plan_slot_t *slots;
static player_t *players;
static player_t finish = {0, 0}; /* where the first thread waits for the end */

static histogram_t histogram;
static size_t page;
static uint64_t calls_ns, clock_ns, live_bytes, live_blocks;
static int statm;
static uint64_t resident_before, resident_sum;
static uint32_t sample, resident_samples;

_Noreturn static void fail(const char *why)
{
  snprintf(plan->result.why, sizeof plan->result.why, "%s", why);
  _exit(1);
}

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t *figure(figure_t of) { return &plan->result.of[of]; }

static void *map(size_t size, int flags)
{
  void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (mapped == MAP_FAILED)
    fail("no memory for what is replayed");
  return mapped;
}

/* ---- resident memory ---- */

/* The second number of /proc/self/statm, in pages. */
static uint64_t resident(void)
{
  char text[128];
  ssize_t length = pread(statm, text, sizeof text - 1, 0);
  uint64_t pages = 0;
  text[length > 0 ? length : 0] = '\0';
  for (const char *c = text + strcspn(text, " ") + (length > 0); *c >= '0' && *c <= '9'; c++)
    pages = pages * 10 + (uint64_t)(*c - '0');
  return pages * page;
}

static void take_sample(uint32_t operation)
{
  uint64_t now = resident(), more = now > resident_before ? now - resident_before : 0;
  if (more > *figure(FIGURE_PEAK))
    *figure(FIGURE_PEAK) = more;
  if (operation == plan->peak_operation)
    *figure(FIGURE_AT_PEAK) = more;
  resident_sum += more;
  resident_samples++;
  sample++;
}

/* ---- operations ---- */

static void *call(const operation_t *operation, char *block, uint64_t size)
{
  switch (operation->op) {
  case RECORDING_ALLOC:
    return malloc(size);
  case RECORDING_ZEROED:
    return calloc(1, size);
  case RECORDING_ALIGNED:
    return aligned_alloc((size_t)1 << operation->alignment_log2, size);
  case RECORDING_REALLOC:
    return realloc(block, size);
  default:
    free(block);
    return NULL;
  }
}

/* Of a look at the clock the half is before the call, and the half behind it. */
static void *timed_call(const operation_t *operation, char *block, uint64_t size)
{
  uint64_t before = now_ns();
  void *got = call(operation, block, size);
  uint64_t took = now_ns() - before;
  calls_ns += took;
  histogram_add(&histogram, took > clock_ns ? took - clock_ns : 0);
  return got;
}

/* For the C libraries disagree about a size of 0. */
static uint64_t wanted_size(const operation_t *operation)
{
  uint64_t size = operation_size(*operation);
  return size || operation->op == RECORDING_FREE ? size : 1;
}

static void note_live(const plan_slot_t *slot, uint64_t size, bool was_live)
{
  live_bytes += size - slot->size;
  live_blocks += (uint64_t)(slot->block != NULL) - was_live;
  if (live_bytes > *figure(FIGURE_PEAK_BYTES))
    *figure(FIGURE_PEAK_BYTES) = live_bytes;
}

static void play_operation(const operation_t *operation)
{
  plan_slot_t *slot = &slots[operation->slot];
  bool was_live = slot->block != NULL, frees = operation->op == RECORDING_FREE;
  uint64_t size = operation_size(*operation);
  char *got = timed_call(operation, slot->block, wanted_size(operation));
  if (!got && !frees) {
    ++*figure(FIGURE_FAILED);
    return;
  }
  slot->block = got;
  note_live(slot, size, was_live);
  if (!frees)
    touch(got, operation->op == RECORDING_REALLOC ? slot->size : 0, size, page);
  slot->size = size;
}

static void play_operations(uint32_t from, uint32_t to)
{
  for (uint32_t i = from; i < to; i++) {
    while (sample < plan->sample_count && samples[sample] <= i)
      take_sample(samples[sample]);
    play_operation(&operations[i]);
  }
}

/* The others wait for their turn already. Who looks at this process ends it. */
_Noreturn static void wait_to_be_looked_at(void)
{
  plan->slots = (uintptr_t)slots;
  __atomic_store_n(&plan->is_there, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &plan->is_there, FUTEX_WAKE, 1, NULL, NULL, 0);
  for (;;)
    pause();
}

static void play_batch(uint32_t batch)
{
  uint32_t from = batches[batch].first, to = batches[batch + 1].first;
  if (plan->stop < to) {
    play_operations(from, plan->stop);
    wait_to_be_looked_at();
  }
  play_operations(from, to);
}

/* ---- turns ---- */

static long futex(uint32_t *word, int operation, uint32_t value)
{
  return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void give_turn(player_t *player, uint32_t turn)
{
  __atomic_store_n(&player->turn, turn, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&player->sleeps, __ATOMIC_SEQ_CST))
    futex(&player->turn, FUTEX_WAKE_PRIVATE, 1);
}

static bool has_turn(const player_t *player, uint32_t turn) { return __atomic_load_n(&player->turn, __ATOMIC_SEQ_CST) == turn; }

static void await_turn(player_t *player, uint32_t turn)
{
  while (!has_turn(player, turn)) {
    __atomic_store_n(&player->sleeps, 1, __ATOMIC_SEQ_CST);
    uint32_t seen = __atomic_load_n(&player->turn, __ATOMIC_SEQ_CST);
    if (seen != turn)
      futex(&player->turn, FUTEX_WAIT_PRIVATE, seen);
    __atomic_store_n(&player->sleeps, 0, __ATOMIC_RELAXED);
  }
}

static void *play(void *number);

/* Threads that have just ended may still be there, so one more may have to wait. */
static void create(uint32_t thread)
{
  pthread_t created;
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&how, STACK_BYTES);
  for (unsigned i = 0; pthread_create(&created, &how, play, (void *)(uintptr_t)thread) != 0; i++) {
    if (i == CREATES_MOST)
      fail("it cannot have so many threads");
    nanosleep(&(struct timespec){0, CREATE_PAUSE_NS}, NULL);
  }
  pthread_attr_destroy(&how);
}

/* The recorded thread begins here with its first batch, and its end is that of the last. */
static void start_batch(uint32_t batch)
{
  if (batch == plan->batch_count) {
    give_turn(&finish, 1);
    return;
  }
  uint32_t thread = batches[batch].thread;
  if (firsts[thread] == batch && thread)
    create(thread);
  give_turn(&players[thread], batch + 1);
}

static void *play(void *number)
{
  uint32_t thread = (uint32_t)(uintptr_t)number;
  for (uint32_t batch = firsts[thread]; batch != PLAN_NONE;) {
    await_turn(&players[thread], batch + 1);
    uint32_t next = batches[batch].next;
    play_batch(batch);
    start_batch(batch + 1);
    batch = next;
  }
  return NULL;
}

/* ---- the run ---- */

/* The allocator has begun by now, with as many processors as there are. */
static void stay_on_one_processor(void)
{
  cpu_set_t one;
  int here = sched_getcpu();
  CPU_ZERO(&one);
  CPU_SET((size_t)(here < 0 ? 0 : here), &one);
  sched_setaffinity(0, sizeof one, &one);
}

static void find_library(void)
{
  Dl_info info;
  bool is_found = dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) && info.dli_fname;
  snprintf(plan->result.library, sizeof plan->result.library, "%s", is_found ? info.dli_fname : "");
}

/* The median of what there is between two looks. */
static void measure_clock(void)
{
  static histogram_t looks;
  for (unsigned i = 0; i < CLOCK_LOOKS; i++) {
    uint64_t before = now_ns();
    histogram_add(&looks, now_ns() - before);
  }
  clock_ns = histogram_at(&looks, 0.5);
}

static void prepare(void)
{
  char *base = (char *)plan;
  page = (size_t)sysconf(_SC_PAGESIZE);
  operations = (const operation_t *)(const void *)(base + plan->operations_at);
  batches = (const batch_t *)(const void *)(base + plan->batches_at);
  firsts = (const uint32_t *)(const void *)(base + plan->threads_at);
  samples = (const uint32_t *)(const void *)(base + plan->samples_at);
  slots = map(plan->slot_count * sizeof *slots + 1, MAP_POPULATE);
  players = map(plan->thread_count * sizeof *players + 1, MAP_POPULATE);
  stay_on_one_processor();
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  measure_clock();
  memset(&histogram, 0, sizeof histogram);
  resident_before = resident();
}

static uint64_t faults(void)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

static void note_result(void)
{
  uint64_t calls = plan->operation_count;
  while (sample < plan->sample_count)
    take_sample(samples[sample]);
  *figure(FIGURE_CALLS) = calls_ns > calls * clock_ns ? calls_ns - calls * clock_ns : 0;
  *figure(FIGURE_P50) = histogram_at(&histogram, 0.5);
  *figure(FIGURE_P99) = histogram_at(&histogram, 0.99);
  *figure(FIGURE_P999) = histogram_at(&histogram, 0.999);
  *figure(FIGURE_LONGEST) = histogram.longest;
  *figure(FIGURE_MEAN) = resident_samples ? resident_sum / resident_samples : 0;
  *figure(FIGURE_CLOCK) = clock_ns;
  *figure(FIGURE_END_BYTES) = live_bytes;
  *figure(FIGURE_END_BLOCKS) = live_blocks;
}

void worker_run(int file)
{
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read the result */
  plan = plan_map(file);
  if (!plan)
    _exit(2);
  find_library();
  if (!plan->is_probe) {
    prepare();
    uint64_t faults_before = faults(), began = now_ns();
    start_batch(0);
    play(NULL);
    await_turn(&finish, 1);
    if (plan->stop == plan->operation_count)
      wait_to_be_looked_at();
    *figure(FIGURE_ELAPSED) = now_ns() - began;
    *figure(FIGURE_FAULTS) = faults() - faults_before;
    note_result();
  }
  plan->result.is_done = 1;
  _exit(0);
}
