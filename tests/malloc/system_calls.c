/* SPDX-License-Identifier: MIT
 *
 * A process confines itself to the system calls that docs/DESIGN.md (System calls) promises are enough. Any other ends the
 * program with its number. Threads that work under the filter are there before it; threads that begin and end under it need
 * more, for the C library.
 *
 * usage: system_calls MODE [THREADS [lives] | background]; the status is 77 where this system allows no filter */
#include "ours.h"

#include "../sealed.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
enum { BLOCKS = 400000, THREADS_MOST = 16 };

static void must(bool is_true, const char *what)
{
  if (is_true)
    return;
  static const char end[] = " failed\n";
  if (write(STDERR_FILENO, what, strlen(what)) < 0 || write(STDERR_FILENO, end, sizeof end - 1) < 0)
    _exit(2);
  _exit(1);
}
#define MUST(condition) must(condition, #condition)

/* The blocks of one thread; mapped by the system itself. */
typedef struct own {
  unsigned number;
  void *blocks[BLOCKS];
} own_t;

static void free_all(own_t *own, size_t count)
{
  for (size_t i = 0; i < count; i++)
    free(own->blocks[i]);
}

static void *touched(void *block, size_t bytes)
{
  MUST(block != NULL);
  return memset(block, 1, bytes);
}

static void small(own_t *own)
{
  for (size_t i = 0; i < BLOCKS; i++)
    own->blocks[i] = touched(malloc(16 + i % 600), 16);
  free_all(own, BLOCKS);
}

static void large(own_t *own)
{
  for (size_t i = 0; i < 2000; i++)
    own->blocks[i] = touched(malloc(40000 + i * 100), 4000);
  free_all(own, 2000);
}

static void huge(own_t *own)
{
  for (size_t i = 0; i < 50; i++)
    own->blocks[i] = touched(malloc((8 * MIB) + i * 4096), 4000);
  for (size_t i = 0; i < 50; i++)
    own->blocks[i] = touched(realloc(own->blocks[i], 20 * MIB), 4000);
  free_all(own, 50);
}

static void impossible(own_t *own)
{
  volatile size_t size = sizeof(size_t) > 4 ? SIZE_MAX >> 22 : SIZE_MAX >> 2,
                  never = sizeof(size_t) > 4 ? size << 18 : size << 1;
  (void)own;
  MUST(malloc(never) == NULL && errno == ENOMEM);
  free(malloc(size)); /* some systems have it */
  void *block = touched(malloc(100 * MIB), 4000), *longer = realloc(block, never);
  MUST(longer == NULL && errno == ENOMEM);
  free(block);
}

static void mixed(own_t *own)
{
  for (size_t i = 0; i < BLOCKS / 2; i++)
    own->blocks[i] = touched(malloc(64), 64);
  for (size_t i = 0; i < 100; i++)
    own->blocks[BLOCKS / 2 + i] = touched(malloc(MIB), 64);
  free_all(own, BLOCKS / 2 + 100);
}

static void aligned(own_t *own)
{
  own->blocks[0] = touched(aligned_alloc(2 * MIB, 2 * MIB), 64);
  own->blocks[1] = touched(aligned_alloc(8 * MIB, 8 * MIB), 64);
  free_all(own, 2);
  malloc_trim(0);
}

/* A stack for the next thread may be refused while one has all memory, and a block as long as others have not freed theirs. */
static pthread_barrier_t all_are_here;

/* Until the system refuses: a limit that is set late is no more than that. */
static void exhausted(own_t *own)
{
  size_t count = 0;
  pthread_barrier_wait(&all_are_here);
  for (size_t size = MIB; size > 1000; size /= 4)
    while (count < BLOCKS && (own->blocks[count] = malloc(size)) != NULL)
      touched(own->blocks[count++], 64);
  MUST(count < BLOCKS && errno == ENOMEM);
  free_all(own, count);
  pthread_barrier_wait(&all_are_here);
  free(touched(malloc(4 * MIB), 4 * MIB));
}

/* Blocks that another thread has allocated, by a thread that has none of its own. */
static void **given;
enum { GIVEN = 40000 };
static void only_frees(own_t *own)
{
  for (size_t i = own->number; i < GIVEN; i += THREADS_MOST)
    free(given[i]);
}

/* Blocks wander between threads that wait for each other's locks. */
static void *shared[1024];
static void contended(own_t *own)
{
  uint32_t random = own->number + 1;
  for (size_t i = 0; i < 200000; i++) {
    random = random * 1664525 + 1013904223;
    size_t size = random % 64 == 0 ? random % (2 * MIB) : random % 5000;
    void *block = touched(malloc(size), size < 16 ? size : 16);
    free(__atomic_exchange_n(&shared[random >> 8 & 1023], block, __ATOMIC_ACQ_REL));
  }
}

/* This one ends the program, which must say so. */
static void forbidden(own_t *own)
{
  (void)own;
  syscall(SYS_sched_yield);
}

typedef struct mode {
  const char *name;
  void (*run)(own_t *own);
} kind_t;
static const kind_t modes[] = {
  {"small", small},         {"large", large},         {"huge", huge},           {"impossible", impossible},
  {"mixed", mixed},         {"aligned", aligned},     {"exhausted", exhausted}, {"only_frees", only_frees},
  {"contended", contended}, {"forbidden", forbidden},
};

static own_t *own_of(unsigned number)
{
  own_t *own = mmap(NULL, sizeof *own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MUST(own != MAP_FAILED);
  own->number = number;
  return own;
}

static const kind_t *mode;
static pthread_barrier_t all_are_sealed;

/* What the C library does at the end of a thread is not ours, so threads stay. */
static void *work(void *own)
{
  seal(SEAL_MASK);
  pthread_barrier_wait(&all_are_sealed);
  mode->run(own);
  pthread_barrier_wait(&all_are_sealed);
  pthread_barrier_wait(&all_are_sealed); /* for ever */
  return NULL;
}

/* In a thread that begins and ends under the filter. */
static void *live(void *own)
{
  mode->run(own);
  return NULL;
}

static void run_among(unsigned count)
{
  pthread_t thread;
  pthread_barrier_init(&all_are_sealed, NULL, count + 1);
  for (unsigned i = 0; i < count; i++)
    MUST(pthread_create(&thread, NULL, work, own_of(i)) == 0);
  seal(0);
  pthread_barrier_wait(&all_are_sealed);
  pthread_barrier_wait(&all_are_sealed);
}

static void *do_nothing(void *nothing) { return nothing; }

/* The C library prepares itself for threads when it starts the first. */
static void run_lives(unsigned count)
{
  pthread_t threads[THREADS_MOST];
  MUST(pthread_create(&threads[0], NULL, do_nothing, NULL) == 0 && pthread_join(threads[0], NULL) == 0);
  own_t *owns[THREADS_MOST];
  for (unsigned i = 0; i < count; i++)
    owns[i] = own_of(i);
  seal(SEAL_THREADS);
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned i = 0; i < count; i++)
      MUST(pthread_create(&threads[i], NULL, live, owns[i]) == 0);
    for (unsigned i = 0; i < count; i++)
      MUST(pthread_join(threads[i], NULL) == 0);
    if (mode->run == only_frees)
      break; /* all are freed */
  }
}

/* The library's own thread returns what was freed, under the filter too (background=1). The clock is no system call. */
static void run_beside_background(own_t *own)
{
  enum { PEAK = 64, STUCK_S = 60 };
  struct timespec now;
  seal(SEAL_ALL | SEAL_FENCES);
  for (size_t i = 0; i < PEAK; i++)
    own->blocks[i] = touched(malloc(MIB), MIB);
  free_all(own, PEAK);
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (time_t until = now.tv_sec + STUCK_S; mallinfo2().keepcost > 4 * MIB; clock_gettime(CLOCK_MONOTONIC, &now))
    MUST(now.tv_sec < until);
  mode->run(own);
}

int main(int argc, char **argv)
{
  MUST(argc > 1 && THREADS_MOST >= 8);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (!strcmp(modes[i].name, argv[1]))
      mode = &modes[i];
  MUST(mode != NULL);
  free(touched(malloc(100), 100)); /* the library is up */
  if (!seal_begin()) {
    puts("no filters of system calls here");
    return SEAL_SKIPPED;
  }
  if (mode->run == only_frees) {
    given = calloc(GIVEN, sizeof *given);
    for (size_t i = 0; i < GIVEN; i++)
      given[i] = touched(malloc(i % 1000), i % 2);
  }
  if (mode->run == exhausted) {
    struct rlimit limit = {300 * MIB, 300 * MIB};
    MUST(setrlimit(RLIMIT_DATA, &limit) == 0);
  }
  unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
  pthread_barrier_init(&all_are_here, NULL, count ? count : 1);
  if (argc > 2 && !strcmp(argv[2], "background")) {
    run_beside_background(own_of(0));
  } else if (!count) {
    own_t *own = own_of(0);
    seal(0);
    mode->run(own);
  } else if (argc > 3) {
    run_lives(count);
  } else {
    run_among(count);
  }
  _exit(0);
}
