/* SPDX-License-Identifier: MIT
 * The thread that returns memory: in a process that makes no calls, beside forks, threads that end, and its own end. */
#include "heaps.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STUCK_S = 30 }; /* what takes longer does not come */

/* Waits for it without a call of the library that would return memory itself. */

static void nap(void) { poll(NULL, 0, 5); }

static bool wait_for(bool (*is_so)(void))
{
  for (uint64_t until = now_ns() + STUCK_S * UINT64_C(1000000000); now_ns() < until; nap())
    if (is_so())
      return true;
  return false;
}

/* The other tests of heaps leave time out. Under a sanitizer blocks would be of its malloc. */
static void begin(void)
{
  must(pool_option_set("purge_delay_ms", "60") && pool_option_set("blocks", "own") && pool_background_start());
}

/* ---- the thread, as the system has it ---- */

static int number_of_thread(void)
{
  DIR *tasks = opendir("/proc/self/task");
  int number = 0;
  must(tasks != NULL);
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, name, sizeof name - 1) > 0 && !strcmp(name, "tidepool purge\n"))
      number = atoi(task->d_name);
    if (file >= 0)
      close(file);
  }
  closedir(tasks);
  return number;
}

static bool is_there(void) { return number_of_thread() != 0; }
static bool is_gone(void) { return !is_there(); }

/* An emulator ends a thread for the program first, and then for the system. */
static bool has_ended(void) { return getenv("EMULATED") ? wait_for(is_gone) : is_gone(); }

/* A line of what the system says of the thread, as a number of the base. */
static unsigned long long said(const char *key, int base)
{
  char path[64], text[4096] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/status", number_of_thread());
  int file = open(path, O_RDONLY | O_CLOEXEC);
  must(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  const char *line = strstr(text, key);
  must(line != NULL);
  return strtoull(line + strlen(key), NULL, base);
}

/* ---- memory comes back ---- */

static pool_heap_t *heap; /* that the questions are about; NULL: the default one */
static size_t most;

static pool_stats_t figures(void) { return stats_of(heap ? heap : pool_heap_default()); }
static bool little_is_free(void) { return figures().free_bytes <= most; }
static bool nothing_is_cached(void) { return figures().cached_bytes == 0; }

enum { LARGE = 300 << 10, PEAK = 32 << 20 };

static void make_peak(size_t size)
{
  list_t list = {0};
  while (list.count * size < PEAK && list_take(&list, heap ? heap : pool_heap_default(), size)) {}
  while (list.count) {
    char *block = list_pop(&list);
    memset(block, 1, size);
    pool_free(block);
  }
}

static void a_peak(void *argument)
{
  const size_t *size = argument;
  begin();
  must(pool_background_start());
  make_peak(*size);
  most = *size < LARGE ? 6 << 20 : 4 << 20;
  must(wait_for(little_is_free));
  must(stats_of(pool_heap_default()).purged_bytes > PEAK / 2);
  uint64_t purged = stats_of(pool_heap_default()).purged_bytes;
  make_peak(*size); /* after a sleep without an end */
  must(wait_for(little_is_free));
  must(stats_of(pool_heap_default()).purged_bytes > purged + PEAK / 2);
  must(check_everything());
}

/* Regions of units with bins and without, of granules, and heaps without a region: most of what was freed has gone. */
static size_t purged_before, wanted;

static size_t purged(void) { return stats_of(heap).purged_bytes + stats_of(pool_heap_default()).purged_bytes; }
static bool has_been_purged(void) { return purged() - purged_before >= wanted; }

static void of_heaps(void *argument)
{
  const pool_heap_options_t *options = argument;
  begin();
  heap = heap_with(*options);
  purged_before = purged();
  wanted = (options->reserve ? options->reserve : options->budget ? options->budget : PEAK) / 2;
  make_peak(options->budget && options->budget < 1 << 20 ? 1000 : 40000);
  must(wait_for(has_been_purged));
  pool_heap_destroy(heap);
  must(check_everything());
}

/* ---- threads that sleep ---- */

static pthread_barrier_t asleep, awake;

static void use_heap(size_t index)
{
  pool_heap_t *used = heap ? heap : pool_heap_default();
  list_t list = {0};
  for (size_t i = 0; i < 2000; i++)
    must(list_take(&list, used, 16 + index * 100));
  while (list.count)
    pool_free(pool_realloc(list_pop(&list), 300));
}

static void free_and_sleep(size_t index, void *context)
{
  (void)context;
  use_heap(index);
  pthread_barrier_wait(&asleep);
  pthread_barrier_wait(&awake);
  use_heap(index);
}

enum { SLEEPERS = 4 };

static void *look_at_sleepers(void *unused)
{
  (void)unused;
  pthread_barrier_wait(&asleep);
  must(wait_for(nothing_is_cached));
  pthread_barrier_wait(&awake);
  return NULL;
}

typedef struct sleepers {
  const char *background;
  bool in_default; /* heap, or in one */
  size_t budget;
} sleepers_t;

static void caches_of_sleepers(void *argument)
{
  const sleepers_t *sleepers = argument;
  pthread_t looks;
  must(pool_option_set("background", sleepers->background));
  begin();
  heap = sleepers->in_default ? NULL : heap_with_budget(sleepers->budget);
  pthread_barrier_init(&asleep, NULL, SLEEPERS + 1);
  pthread_barrier_init(&awake, NULL, SLEEPERS + 1);
  must(pthread_create(&looks, NULL, look_at_sleepers, NULL) == 0);
  run_threads(SLEEPERS, free_and_sleep, NULL);
  pthread_join(looks, NULL);
  must(figures().live_blocks == 0 && check_everything());
  if (heap)
    pool_heap_destroy(heap);
}

/* ---- nobody is woken for nothing ---- */

static unsigned long long switches;

static bool sleeps_on(void)
{
  unsigned long long before = switches;
  switches = said("\nvoluntary_ctxt_switches:", 10) + said("\nnonvoluntary_ctxt_switches:", 10);
  poll(NULL, 0, 300); /* five times the purge delay */
  return switches == before;
}

static void an_idle_process(void *argument)
{
  (void)argument;
  begin();
  heap = heap_with_budget(4 << 20);
  make_peak(2000);
  heap = NULL;
  make_peak(LARGE);
  must(wait_for(sleeps_on));
  must(~said("\nSigBlk:", 16) == ~said("\nSigBlk:", 16) && (said("\nSigBlk:", 16) & 0x7fff) == (0x7fff & ~(1u << 8)));
}

/* ---- its beginning and its end ---- */

static void starts_and_stops(void *argument)
{
  (void)argument;
  pool_background_stop(); /* which is not there */
  for (int i = 0; i < 20; i++) {
    must(pool_background_start() && is_there());
    make_peak(1000);
    pool_background_stop();
    must(has_ended());
  }
  pool_trim(0);
  must(check_everything());
}

static void start_and_stop(size_t index, void *context)
{
  (void)context;
  for (int i = 0; i < 30; i++)
    if ((i + index) % 2)
      must(pool_background_start());
    else
      pool_background_stop();
}

static void from_threads(void *argument)
{
  (void)argument;
  run_threads(4, start_and_stop, NULL);
  pool_background_stop();
  must(has_ended() && check_everything());
}

/* The process ends with the last thread of the program, whether that has allocated or not. */
static void *sleep_a_little(void *unused)
{
  poll(NULL, 0, 50);
  return unused;
}

static void main_ends(void *argument)
{
  const int *threads = argument;
  begin();
  pool_free(pool_alloc(100));
  for (int i = 0; i < *threads; i++) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, sleep_a_little, NULL) == 0);
    pthread_detach(thread);
  }
  alarm(STUCK_S);
  pthread_exit(NULL);
}

static void ends_with_the_last_thread(void **state)
{
  (void)state;
  if (SANITIZED)
    skip(); /* the thread sanitizer has a thread of its own, which no other can tell from the program's */
  for (int threads = 0; threads < 3; threads++) {
    int status = end_of_child(main_ends, &threads);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

/* ---- forks ---- */

static void make_calls(void)
{
  for (int i = 0; i < 200; i++)
    pool_free(pool_alloc(1 << 20 | (size_t)i << 17));
}

static bool comes_by_itself(void)
{
  make_calls();
  return is_there();
}

static void child_of_fork(bool comes)
{
  must(!is_there());
  must(!comes || wait_for(comes_by_itself));
  if (!comes)
    make_calls();
  must(comes == is_there());
  pool_background_stop();
  make_calls();
  must(!is_there());
  must(pool_background_start());
  make_peak(LARGE);
  most = 4 << 20;
  must(wait_for(little_is_free));
  must(check_everything());
}

static void fork_one(bool comes)
{
  pid_t child = fork();
  if (!child) {
    alarm(2 * STUCK_S);
    child_of_fork(comes);
    _exit(0);
  }
  int status;
  must(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  must(is_there());
}

/* A child that has been told to do without does not start it later. */
static void stop_in_child(void *unused)
{
  (void)unused;
  pool_background_stop();
  make_calls();
  must(!is_there());
}

static void forks(void *argument)
{
  (void)argument;
  begin();
  in_child(stop_in_child, NULL);
  make_peak(LARGE);
  for (int i = 0; i < 5; i++)
    fork_one(true);
}

static void *hold_on(void *unused)
{
  pool_free(pool_alloc(100));
  pthread_barrier_wait(&asleep);
  pthread_barrier_wait(&awake);
  return unused;
}

/* Beside another thread the child starts none by itself: what that held may be what it takes. */
static void forks_beside_a_thread(void *argument)
{
  pthread_t thread;
  (void)argument;
  begin();
  pthread_barrier_init(&asleep, NULL, 2);
  pthread_barrier_init(&awake, NULL, 2);
  must(pthread_create(&thread, NULL, hold_on, NULL) == 0);
  pthread_barrier_wait(&asleep);
  fork_one(false);
  pthread_barrier_wait(&awake);
  pthread_join(thread, NULL);
}

/* Threads that allocate, free, and come and go while it looks, and while the process forks. */
static _Atomic bool is_over;

static void be_busy(size_t index, void *context)
{
  (void)context;
  dice_t dice = {index};
  while (!is_over) {
    list_t list = {0};
    for (size_t i = 0; i < 300; i++)
      list_take(&list, i % 3 ? heap : pool_heap_default(), 16 + dice_below(&dice, 9000));
    while (list.count)
      pool_free(list_pop(&list));
    if (dice_below(&dice, 30) == 0)
      poll(NULL, 0, 30);
  }
}

static void *fork_and_end(void *unused)
{
  for (int i = 0; i < 30; i++) {
    pid_t child = fork();
    if (!child) {
      pool_free(pool_alloc(100));
      _exit(0);
    }
    must(child > 0 && waitpid(child, NULL, 0) == child);
    poll(NULL, 0, 20);
  }
  is_over = true;
  return unused;
}

static void beside_threads(void *argument)
{
  pthread_t forker;
  must(pool_option_set("background", argument));
  begin();
  heap = heap_with_budget(32 << 20);
  must(pthread_create(&forker, NULL, fork_and_end, NULL) == 0);
  run_threads(3, be_busy, NULL);
  pthread_join(forker, NULL);
  must(stats_of(heap).live_blocks == 0 && check_everything());
  pool_heap_destroy(heap);
}

WITH(a_peak, size_t, 1000, 20000, LARGE, 3 << 20)
WITH(of_heaps, pool_heap_options_t, {.budget = 512 << 10}, {.budget = 24 << 20}, {.reserve = 20 << 20}, {.reserve = 4 << 20},
     {.flags = POOL_HEAP_ZERO_ON_FREE}, {0})
WITH(caches_of_sleepers, sleepers_t, {"1", false, 64 << 20}, {"2", true, 0}, {"2", false, 0})
IN_CHILD(an_idle_process)
IN_CHILD(starts_and_stops)
IN_CHILD(from_threads)

/* The thread sanitizer starts no thread in the child of a process with threads, and has one of its own. */
static void forks_test(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  in_child(forks, NULL);
  in_child(forks_beside_a_thread, NULL);
}

static void beside_threads_test(void **state)
{
  static char kinds[][2] = {"1", "2"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    in_child(beside_threads, kinds[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_peak_test),
    cmocka_unit_test(of_heaps_test),
    cmocka_unit_test(caches_of_sleepers_test),
    cmocka_unit_test(an_idle_process_test),
    cmocka_unit_test(starts_and_stops_test),
    cmocka_unit_test(from_threads_test),
    cmocka_unit_test(ends_with_the_last_thread),
    cmocka_unit_test(forks_test),
    cmocka_unit_test(beside_threads_test),
  };
  return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
